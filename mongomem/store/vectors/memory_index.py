"""A flat index in memory: the int8 codes of the items below one namespace prefix, and their terms.

The index is loaded by `Columns`, which are what documents say of many items: their ids, codes and
terms. Then it is fed with `Change`s, which tell of one item when it changed last too. It reads
nothing itself, holds no lock and knows nothing of time; `mongomem.store.vectors.index_cache` adds
both. What `search` returns are candidates: the caller
reads them again by their ids, scores them by their float32 vectors and drops what was deleted. So a
deleted item that is still here costs one candidate and never a wrong answer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from bson.timestamp import Timestamp

from mongomem.store.vectors.fusion import fused, fused_bound
from mongomem.store.vectors.products import products
from mongomem.store.vectors.quantization import (
    Codes,
    Metric,
    Vector,
    are_codes,
    can_be_ranked,
    code_dtype,
    decode_codes,
    normalized,
    room_for_codes,
)
from mongomem.store.vectors.selection import Candidate, select_top
from mongomem.store.vectors.watermark import HIGHEST_TIMESTAMP, LOWEST_TIMESTAMP
from mongomem.store.words.bm25 import Hashes, TermStatistics, WordQuery
from mongomem.store.words.occurrences import Slots
from mongomem.store.words.term_index import NO_SLOT, TermIndex

ITEM_BYTES = 400
"""About what Python keeps for one item beside its codes: its id, its rows, its timestamp."""

INDEX_BYTES = 2_000
"""About what Python keeps for an index without items."""

PARTS_AHEAD = 8
"""For how many parts like the one that is added there is room, once a load has two."""

DEVIATIONS = 6.0
"""How many standard deviations of quantization error the error bound covers."""

FLOAT_ERROR = 2 * float(np.finfo(np.float32).eps)
"""How much a product in float32 may be off, for vectors of length one, per root of a dimension."""


class Change(NamedTuple):
    """An item as it was last written.

    Attributes:
        changed_at: The timestamp that the server gave the write.
        codes: The `codes` of its document, not checked yet; None where it has no vector.
        terms: The `terms` of its document, likewise.
    """

    id: str
    changed_at: Timestamp
    codes: Any
    terms: Any = None


@dataclass(frozen=True, slots=True)
class Columns:
    """Some items, an entry of each list for each: a first load has thousands, and an object for
    each of them would cost more than its ranking.

    Attributes:
        ids: Theirs. Shards may give two items one id: the first one counts.
        codes: See `Change`.
        terms: See `Change`.
    """

    ids: Sequence[str] = ()
    codes: Sequence[Any] = ()
    terms: Sequence[Any] = ()

    def at(self, places: Sequence[int]) -> Columns:
        """Choose the items at some places."""
        columns = (self.ids, self.codes, self.terms)
        return Columns(*([column[place] for place in places] for column in columns))


@dataclass(slots=True)
class MemoryIndex:
    """Codes of items, one row for each vector. Not safe for concurrent use.

    Attributes:
        dims: Dimensions of a vector.
        metric: The similarity that `search` ranks by.
        mark: That of the analyser whose terms are held; None: none are.
    """

    dims: int
    metric: Metric
    mark: bytes | None = None
    _codes: Codes = field(init=False)
    _slots: Slots = field(init=False)
    _filled: int = 0
    _words: TermIndex = field(init=False)
    _item_ids: list[str] = field(default_factory=list)
    _rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _timestamps: dict[str, Timestamp] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._codes = np.empty(0, dtype=code_dtype(self.dims))
        self._slots = np.empty(0, dtype=np.int32)
        self._words = TermIndex(self.mark)

    @property
    def size(self) -> int:
        """Bytes held, about."""
        items = ITEM_BYTES * len(self._timestamps) + self._words.size
        return self._filled * int(self._codes.itemsize) + items + INDEX_BYTES

    @property
    def item_count(self) -> int:
        """How many items are known, with vectors or without."""
        return len(self._timestamps)

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._item_ids)

    def outdated(self, timestamps: Iterable[tuple[str, Timestamp]]) -> list[str]:
        """List the ids of the items that are not here as of these timestamps."""
        known = self._timestamps
        return [item for item, changed_at in timestamps if known.get(item) != changed_at]

    def timestamps(self, ids: Iterable[str] | None = None) -> dict[str, Timestamp]:
        """Return the timestamps of the items that are here, of all or of some ids."""
        if ids is None:
            return dict(self._timestamps)
        return {item: self._timestamps[item] for item in ids if item in self._timestamps}

    def load(self, items: Columns) -> list[str]:
        """Add the items that are not here; any change replaces them.

        Returns the ids of the items whose codes are damaged. They are kept without a vector.
        """
        timestamps = self._timestamps
        if len({*items.ids}) < len(items.ids) or not timestamps.keys().isdisjoint(items.ids):
            first = {item: place for place, item in reversed([*enumerate(items.ids)])}
            new = (place for item, place in first.items() if item not in timestamps)
            items = items.at(sorted(new))
        timestamps.update(dict.fromkeys(items.ids, LOWEST_TIMESTAMP))
        return self._add(items)

    def upsert(self, changes: Iterable[Change], latest: Timestamp = HIGHEST_TIMESTAMP) -> list[str]:
        """Apply changes, in any order and any number of times: the newest of each item stays.

        Returns the ids of the items whose codes are damaged. They are kept without a vector.

        Args:
            changes: The changes.
            latest: The highest timestamp that a server may have given until now. A higher one was
                not given by a server, and any other timestamp replaces it.
        """
        newer = self._newer(changes, latest)
        ids = [change.id for change in newer]
        return self._add(
            Columns(ids, [change.codes for change in newer], [change.terms for change in newer])
        )

    def remove(self, deleted: Mapping[str, Timestamp]) -> None:
        """Remove deleted items; not those that were written again since these timestamps."""
        for item, changed_at in deleted.items():
            if self._timestamps.get(item) == changed_at:
                self._remove_rows(item)
                del self._timestamps[item]
        if (used := len(self._item_ids)) * 4 < len(self._codes):
            self._codes, self._slots = self._codes[:used].copy(), self._slots[:used].copy()
            self._filled = used
        self._pack_words()

    def statistics(self, hashes: Hashes) -> TermStatistics:
        """Count the items that have each of some terms."""
        return self._words.statistics(hashes)

    def holding(self, hashes: Hashes) -> set[str]:
        """List the ids of the items that may have all of some terms."""
        rows = self._words.holding(hashes)[self._slots[: len(self._item_ids)]]
        return {self._item_ids[row] for row in np.flatnonzero(rows)}

    def search(
        self,
        query: Vector,
        count: int,
        restrict_to: Collection[str] | None = None,
        words: WordQuery | None = None,
    ) -> list[Candidate]:
        """List candidates, best first, that contain the `count` best items of all or of some ids:
        by meaning or, with the words of the query, by `fused` scores.

        The candidates are few where the codes tell vectors apart. They are all items where the
        codes do not, as in vectors that share one component of hundreds of times the others. Tied
        candidates are in the order of their ids. `mongomem.store.vectors.selection` says how they
        are chosen.
        """
        codes, slots, item_ids = self._restricted(restrict_to)
        if not item_ids or not count:
            return []
        with np.errstate(over="ignore", invalid="ignore"):  # of very long and of damaged vectors
            error_bound = self._error_bound(codes, query)
            scores = self._scores(codes, query)
        if words is not None:
            reached = self._words.scores(words)[slots]
            scores, error_bound = fused(scores, reached), fused_bound(error_bound)
            if words.is_needed:
                rows: list[int] = np.flatnonzero(reached).tolist()
                scores, codes, item_ids = scores[rows], codes[rows], [item_ids[n] for n in rows]
        return select_top(scores, codes["residual"], item_ids, count, error_bound)

    def _restricted(self, ids: Collection[str] | None) -> tuple[Codes, Slots, Sequence[str]]:
        """Return the codes and the slots of some ids or of all, and the item of each."""
        if ids is None:
            used = len(self._item_ids)
            return self._codes[:used], self._slots[:used], self._item_ids
        rows = [row for item in ids for row in self._rows.get(item, ())]
        return self._codes[rows], self._slots[rows], [self._item_ids[row] for row in rows]

    def _newer(self, changes: Iterable[Change], latest: Timestamp) -> Collection[Change]:
        """Keep the timestamps of the changes that are newer than what is here; remove the rows that
        they replace. Return these changes.
        """
        timestamps, newer = self._timestamps, dict[str, Change]()
        for change in changes:
            known = timestamps.get(change.id)
            if known is None or known < change.changed_at or latest < known:
                if known is not None:
                    self._remove_rows(change.id)
                timestamps[change.id] = change.changed_at
                newer[change.id] = change
        return newer.values()

    def _add(self, items: Columns) -> list[str]:
        """Add the rows and the terms of items that have none; return those with damaged codes."""
        if type(None) in {*map(type, items.codes)}:
            items = items.at([n for n, codes in enumerate(items.codes) if codes is not None])
        self._words.add(items.ids, items.terms, items.codes)
        damaged = self._append_sound(items)
        self._pack_words()
        return damaged

    def _append_sound(self, items: Columns) -> list[str]:
        """Append the codes of items; return the ids of those whose codes are damaged."""
        if self._append(items):
            return []
        codes = enumerate(items.codes)
        sound = items.at([place for place, own in codes if are_codes(own, self.dims)])
        self._append(sound)
        return [*{*items.ids}.difference(sound.ids)]

    def _append(self, items: Columns) -> bool:
        """Append the codes of items, all or none; return whether all codes are sound.

        A first load appends thousands of items. So all of them are checked, decoded and copied
        together, by a few calls of numpy. Nothing is changed before all codes are known to be
        sound. `_append_sound` finds out which ones are not, in the rare case that some are not.
        """
        parts, size = items.codes, self._codes.itemsize
        if not parts:
            return True
        if not _are_whole(parts, size):
            return False
        codes = decode_codes(parts, self.dims)
        if not can_be_ranked(codes):
            return False
        counts = [len(part) // size for part in parts]
        self._append_codes(codes, np.repeat(self._words.slots(items.ids), counts).astype(np.int32))
        self._append_ids(items.ids, counts)
        return True

    def _append_codes(self, codes: Codes, slots: Slots) -> None:
        """Append codes behind the rows in use. The first ones are not copied."""
        used = len(self._item_ids)
        end = used + len(codes)
        if used:
            self._reserve(end)
            self._codes[used:end], self._slots[used:end] = codes, slots
        else:
            self._codes, self._slots, self._filled = codes, slots, 0
        self._filled = max(self._filled, end)

    def _append_ids(self, ids: Sequence[str], counts: list[int]) -> None:
        """Assign the next rows to items, to each as many as it has vectors."""
        if len(ids) == sum(counts):
            self._append_single_ids(ids)
            return
        for item, count in zip(ids, counts, strict=True):
            row = len(self._item_ids)
            self._rows[item] = tuple(range(row, row + count))
            self._item_ids += [item] * count

    def _append_single_ids(self, ids: Sequence[str]) -> None:
        """Assign one row to each item, as in most first loads: by one call for all of them."""
        row = len(self._item_ids)
        self._item_ids += ids
        self._rows.update(zip(ids, zip(range(row, row + len(ids))), strict=True))

    def _reserve(self, rows: int) -> None:
        """Make room for rows: for as many again as are used, or for more parts like the one that is
        added, since the parts of a load follow each other. Room that was never filled takes no
        memory.
        """
        if rows <= len(self._codes):
            return
        used = len(self._item_ids)
        room = used + max(used, PARTS_AHEAD * (rows - used))
        codes = room_for_codes(room, self.dims)
        slots = np.full(room, NO_SLOT, dtype=np.int32)
        codes[:used], slots[:used] = self._codes[:used], self._slots[:used]
        self._codes, self._slots, self._filled = codes, slots, used

    def _pack_words(self) -> None:
        """Give up the room of terms that were replaced or removed, where it is much."""
        if (moved := self._words.pack()) is not None:
            self._slots = moved[self._slots]

    def _remove_rows(self, id: str) -> None:
        """Remove the rows and the terms of an item."""
        self._words.remove(id)
        for row in sorted(self._rows.pop(id, ()), reverse=True):
            self._remove_row(row)

    def _remove_row(self, row: int) -> None:
        """Remove a row; the last row moves into its place."""
        last = len(self._item_ids) - 1
        moved = self._item_ids.pop()
        if row != last:
            self._codes[row], self._slots[row] = self._codes[last], self._slots[last]
            self._item_ids[row] = moved
            rows = self._rows[moved]
            self._rows[moved] = tuple(row if own == last else own for own in rows)

    def _scores(self, codes: Codes, query: Vector) -> Vector:
        """Score rows approximately: float32 of shape (rows,), comparable with each other only."""
        wanted = normalized(query) if self.metric == "cosine" else query
        scores = products(codes["levels"], wanted) * codes["scale"]
        approximate: Vector = 2 * scores - codes["square"] if self.metric == "euclidean" else scores
        return approximate

    def _error_bound(self, codes: Codes, query: Vector) -> float:
        """Bound the error of the difference of two scores; one in a thousand million is larger.

        The quantization error of a vector has a random direction, so its product with a query is
        about normal. Its standard deviation is the product of both lengths over the root of the
        dimensions that the query uses; its limit is the product of both lengths.
        """
        length = 1.0 if self.metric == "cosine" else float(np.linalg.norm(query))
        longest = math.sqrt(codes["square"].max())
        largest_residual = float(codes["residual"].max())
        quantization = largest_residual * length * min(1.0, DEVIATIONS / _root_of_used(query))
        rounding = FLOAT_ERROR * math.sqrt(self.dims) * longest * max(longest, length)
        return (4 if self.metric == "euclidean" else 2) * (quantization + rounding)


def _root_of_used(query: Vector) -> float:
    """Return the root of how many dimensions a query uses: all of a normal one, of a sparse one
    half as many again as are not zero.
    """
    length = float(np.linalg.norm(query))
    return math.sqrt(math.pi / 2) * float(np.abs(query).sum()) / length if length else 1.0


def _are_whole(parts: Sequence[Any], size: int) -> bool:
    """Say whether all parts are bytes and hold one code or more of a size, and nothing else."""
    return {*map(type, parts)} == {bytes} and all(
        length and not length % size for length in {*map(len, parts)}
    )
