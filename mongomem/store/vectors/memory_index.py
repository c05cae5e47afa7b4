"""The codes of one namespace prefix in memory: ranked in a millisecond, kept fresh by what changed.

A matrix is fed with *changes*, documents as they are read: an id, the stamp of its last write, and
its codes or nothing. It never reads by itself. What it ranks is a proposal: its reader reads the
candidates again by their ids, scores them by their vectors and drops what is gone; so a deleted
item may stay here unnoticed, which costs a row and never a wrong answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mongomem.engine.locks import Guarded
from mongomem.store.vectors.quantization import (
    Codes,
    Metric,
    Vector,
    are_codes,
    can_be_ranked,
    code_dtype,
    decode_codes,
    normalized,
)
from mongomem.store.vectors.watermark import LAST_STAMP, Stamp, Watermark

Candidate: TypeAlias = tuple[float, str]
"""A rough score, and the id of the item it belongs to."""

RankedRow: TypeAlias = tuple[float, int, str]
"""A rough score, its row, and the owner of that."""

BLOCK_ROWS = 256
"""Rows turned to float32 at a time: 1.5 MB of them at 1,536 dimensions stay in the cache of a core
(measured)."""

OWNER_BYTES = 400
"""About what Python keeps for one item beside its codes: its id, its place, its stamp."""

MATRIX_BYTES = 2_000
"""About what Python keeps for a matrix without items."""

SWEPT_ITEMS = 1_000
"""So many items more than double what it held make a matrix look for those that are gone."""

FEW, MOST_WAITS = 8, 6
"""So many changes are left out of a matrix, and so often in a row: to look at them costs less than
to take them in."""

LOADING_SECONDS = 10.0
"""How long a matrix is left to who began to load it; then whoever needs it loads it too."""

DEVIATIONS = 6.0
"""How many standard deviations of rounding noise a candidate may be hidden behind and still be
found."""

MOST = 4
SPARE = 256
"""Of candidates that are equal (a text that thousands of items share), this many for each that is
wanted, and so many more, are looked at."""

FLOAT_NOISE = 2 * float(np.finfo(np.float32).eps)
"""How far products of float32 may be off, for each length one and each root of a dimension."""


class Change(NamedTuple):
    """An item as it was last written: what its document has as `codes`, None where it has no
    vector.
    """

    id: str
    stamp: Stamp
    codes: Any


@dataclass(slots=True)
class MemoryIndex(Guarded):
    """Codes of items, one row per vector. Every method may be called from any thread."""

    dims: int
    metric: Metric
    freshness: Watermark = field(default_factory=Watermark)
    _swept: int = 0
    _waited: int = 0
    _loading_until: float = 0.0
    _codes: Codes = field(init=False)
    _owners: list[str] = field(default_factory=list)
    _rows: dict[str, list[int]] = field(default_factory=dict)
    _stamps: dict[str, Stamp] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._codes = np.empty(0, dtype=code_dtype(self.dims))
        self._guard()

    @property
    def size(self) -> int:
        """Bytes held, about."""
        return int(self._codes.nbytes) + OWNER_BYTES * len(self._stamps) + MATRIX_BYTES

    @property
    def is_overgrown(self) -> bool:
        """Say whether so much came since it was loaded or swept that what is gone may outweigh what
        is there.
        """
        return len(self._stamps) > 2 * self._swept + SWEPT_ITEMS

    @property
    def has_grown(self) -> bool:
        """Say whether anything came since it was loaded or swept."""
        return len(self._stamps) > self._swept

    def __len__(self) -> int:
        return len(self._owners)

    def unknown(self, stamps: Iterable[tuple[str, Stamp]]) -> list[str]:
        """List the ids that were written since this matrix saw them."""
        with self._lock:
            return [item for item, stamp in stamps if self._stamps.get(item) != stamp]

    def may_wait(self, count: int) -> bool:
        """Say whether so many changes may be left out of the matrix once more: a few, and a few
        times.
        """
        self._waited = self._waited + 1 if count <= FEW else MOST_WAITS
        if self._waited >= MOST_WAITS:
            self._waited = 0
            return False
        return True

    def absorb(self, changes: Iterable[Change], latest: Stamp = LAST_STAMP) -> list[str]:
        """Take in changes, in any order and as often as one likes: the newest of each item stays.

        Return the ids of those whose codes are damaged. They are as if they had none.
        """
        with self._lock:
            coded = [change for change in self._newer(changes, latest) if change.codes is not None]
            damaged = (
                []
                if self._append(coded)
                else [one.id for one in coded if not are_codes(one.codes, self.dims)]
            )
            if damaged:
                self._append([change for change in coded if change.id not in damaged])
            return damaged

    def note(
        self,
        stamps: list[Stamp],
        *,
        began: float,
        ended: float,
        server_time: int = 0,
        latest: Stamp = LAST_STAMP,
    ) -> None:
        """Take in which stamps a read met, all of whose changes were absorbed. See
        `Watermark.note`.
        """
        with self._lock:
            self.freshness.note(
                stamps, began=began, ended=ended, server_time=server_time, latest=latest
            )

    def claim(self, now: float) -> bool:
        """Let one caller load the matrix, until it releases it or takes too long; say whether this
        is the one.
        """
        with self._lock:
            if now < self._loading_until:
                return False
            self._loading_until = now + LOADING_SECONDS
            return True

    def release(self) -> None:
        """Let the next one load, if it is not done."""
        self._loading_until = 0.0

    def seen(self, ids: Iterable[str] | None = None) -> dict[str, Stamp]:
        """Give the stamps by which items are known here, some or all."""
        with self._lock:
            if ids is None:
                return dict(self._stamps)
            return {item: self._stamps[item] for item in ids if item in self._stamps}

    def forget(self, gone: Mapping[str, Stamp]) -> None:
        """Drop items that are gone; not those that were written again since they had these
        stamps.
        """
        with self._lock:
            for item, stamp in gone.items():
                if self._stamps.get(item) == stamp:
                    self._remove_rows(item)
                    del self._stamps[item]
            if 4 * len(self._owners) < len(self._codes):
                self._codes = self._codes[: len(self._owners)].copy()

    def sweep(self, gone: Mapping[str, Stamp]) -> None:
        """Drop everything that is gone, see `forget`; afterwards it is not overgrown."""
        self.forget(gone)
        self._swept = len(self._stamps)

    def rank(
        self, query: Vector, count: int, among: Collection[str] | None = None
    ) -> list[Candidate]:
        """List candidates, best first, among which the `count` best items are: of all, or of some
        ids.

        Those that rounding could hide come too: few where codes tell vectors apart, and all where
        they do not, as in vectors that share one component of hundreds of times the others. Equal
        ones stand in the order of their ids.
        """
        with self._lock:
            codes, owners = self._codes[: len(self._owners)], self._owners
            if among is not None:
                rows = [row for item in among for row in self._rows.get(item, ())]
                codes, owners = codes[rows], [owners[row] for row in rows]
            if not owners or not count:
                return []
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # of vectors without bound, or of damaged ones
                slack = self._slack(codes, query)
                scores = self._scored(codes, query)
            return best(scores, codes["residual"], owners, count, slack)

    def _reset(self) -> None:
        self._codes = np.empty(0, dtype=code_dtype(self.dims))
        self._owners, self._rows, self._stamps = [], {}, {}
        self.freshness, self._swept, self._waited, self._loading_until = Watermark(), 0, 0, 0.0

    def _newer(self, changes: Iterable[Change], latest: Stamp) -> Collection[Change]:
        """Choose the changes that are newer than what is here. Their stamps are kept, and the rows
        they replace go.

        A stamp beyond the `latest` that a server may have given is one that somebody made up: any
        other replaces it.
        """
        stamps, newer = self._stamps, dict[str, Change]()
        for change in changes:
            known = stamps.get(change.id)
            if known is None or known < change.stamp or latest < known:
                if known is not None:
                    self._remove_rows(change.id)
                stamps[change.id] = change.stamp
                newer[change.id] = change
        return newer.values()

    def _append(self, changes: list[Change]) -> bool:
        """Append the codes of changes, all or none; say whether they were sound.

        A first load appends thousands of items. So all are checked, decoded and copied at once, by
        a few calls of numpy for all and none for each. The order is the contract: nothing is
        changed before everything is known to be sound. Which items are not sound is no question
        here: `absorb` asks it in the rare case that some are not.
        """
        if not changes:
            return True
        parts, size = [change.codes for change in changes], self._codes.itemsize
        if not _are_whole(parts, size):
            return False
        codes = decode_codes(parts, self.dims)
        if not can_be_ranked(codes):
            return False
        self._append_codes(codes)
        ids = [change.id for change in changes]
        if len(ids) == len(codes):
            self._append_single(ids)
        else:
            self._append_owners(ids, [len(part) // size for part in parts])
        return True

    def _append_codes(self, codes: Codes) -> None:
        """Put codes behind the rows that have owners."""
        row = len(self._owners)
        if row:
            self._reserve(row + len(codes))
            self._codes[row : row + len(codes)] = codes
        else:
            self._codes = codes  # as it is: the first load need not be copied

    def _append_single(self, ids: list[str]) -> None:
        """Give each of the next rows to one item: what `_append_owners` does, in one call for
        all.
        """
        row = len(self._owners)
        self._owners += ids
        self._rows.update(zip(ids, ([own] for own in range(row, row + len(ids))), strict=True))

    def _append_owners(self, ids: Iterable[str], counts: Iterable[int]) -> None:
        """Give the next rows to items, to each as many as it has vectors."""
        row = len(self._owners)
        for item, count in zip(ids, counts, strict=True):
            self._rows[item] = list(range(row, row + count))
            self._owners += [item] * count
            row += count

    def _reserve(self, rows: int) -> None:
        if rows > len(self._codes):
            grown = np.empty(max(rows, len(self._codes) * 3 // 2), dtype=self._codes.dtype)
            grown[: len(self._owners)] = self._codes[: len(self._owners)]
            self._codes = grown

    def _remove_rows(self, id: str) -> None:
        for row in sorted(self._rows.pop(id, ()), reverse=True):
            last = len(self._owners) - 1
            moved = self._owners.pop()
            if row != last:
                self._codes[row] = self._codes[last]
                self._owners[row] = moved
                places = self._rows[moved]
                places[places.index(last)] = row

    def _scored(self, codes: Codes, query: Vector) -> Vector:
        wanted = normalized(query) if self.metric == "cosine" else query
        scores = _products(codes, wanted) * codes["scale"]
        rough: Vector = 2 * scores - codes["square"] if self.metric == "euclidean" else scores
        return rough

    def _slack(self, codes: Codes, query: Vector) -> float:
        """Bound the difference that rounding makes between two scores, but for one in a thousand
        million.

        What rounding took from a vector points anywhere, so that its product with a query is about
        normal, with a deviation of both lengths over the root of the dimensions; the product of
        both lengths is its limit.
        """
        length = 1.0 if self.metric == "cosine" else float(np.linalg.norm(query))
        longest = math.sqrt(codes["square"].max())
        noise = (
            float(codes["residual"].max()) * length * min(1.0, DEVIATIONS / math.sqrt(self.dims))
        )
        noise += FLOAT_NOISE * math.sqrt(self.dims) * longest * max(longest, length)
        return (4 if self.metric == "euclidean" else 2) * noise


def _products(codes: Codes, query: Vector) -> Vector:
    products = np.empty(len(codes), dtype=np.float32)
    block = np.empty((min(BLOCK_ROWS, len(codes)), len(query)), dtype=np.float32)
    for start in range(0, len(codes), BLOCK_ROWS):
        levels = codes["levels"][start : start + BLOCK_ROWS]
        np.copyto(block[: len(levels)], levels)
        np.dot(block[: len(levels)], query, out=products[start : start + len(levels)])
    return products


def _are_whole(parts: Sequence[Any], size: int) -> bool:
    """Say whether all parts are bytes and hold one code or more of a size, and nothing else."""
    return {*map(type, parts)} == {bytes} and all(
        length and not length % size for length in {*map(len, parts)}
    )


def best(
    scores: Vector, residuals: Vector, owners: Sequence[str], count: int, slack: float
) -> list[Candidate]:
    """Choose the `count` best owners of rows, and whoever is within `slack` of the last of them.

    An owner of several rows counts with its best one, once. So the best `count` rows may have fewer
    owners than that, which only shows once they are chosen; then twice as many rows are. Refused:
    to find the owners of all rows first. That is exact at once, but a step of Python for each row,
    where a partition of the scores is one call of numpy.

    Where very many are equal, those behind the first are left out, see `_without_copies`.
    """
    rows = count
    while True:
        chosen = _at_least(scores, rows, slack)
        candidates = _by_owner((float(scores[row]), row, owners[row]) for row in chosen)
        if len(candidates) >= count or len(chosen) == len(owners):
            return _without_copies(candidates, residuals, MOST * count + SPARE)
        rows = 2 * max(rows, len(chosen))


def _without_copies(
    candidates: Iterable[RankedRow], residuals: Vector, most: int
) -> list[Candidate]:
    """Keep at most so many candidates that are equal: those behind them have no use.

    Vectors that rounding made alike still differ in what it took away, their residuals. Only those
    that have no dimension in common with the query, and so a score of zero, are equal whatever they
    are.
    """
    alike: Counter[tuple[float, float]] = Counter()
    kept: list[Candidate] = []
    for score, row, owner in candidates:
        kind = (score, float(residuals[row]) if score else 0.0)
        alike[kind] += 1
        if alike[kind] <= most:
            kept.append((score, owner))
    return kept


def _at_least(scores: Vector, rows: int, slack: float) -> list[int]:
    """List the rows with the highest scores, and all within `slack` below."""
    if rows >= len(scores):
        return list(range(len(scores)))
    threshold = np.partition(scores, len(scores) - rows)[len(scores) - rows] - slack
    chosen: list[int] = np.flatnonzero(scores >= threshold).tolist()
    return chosen


def _by_owner(rows: Iterable[RankedRow]) -> list[RankedRow]:
    """Give each owner its best row, best first."""
    found: dict[str, RankedRow] = {}
    for score, row, owner in rows:
        if owner not in found or found[owner][0] < score:
            found[owner] = (score, row, owner)
    return sorted(found.values(), key=lambda one: (-one[0], one[2]))
