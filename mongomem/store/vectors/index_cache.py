"""The indexes in memory of a store, one for each namespace prefix that is searched, bounded in
bytes; and how far each of them is in sync with the server.

A `CachedIndex` is a `MemoryIndex` with what threads share of it: the lock, the watermark, who loads
it, and the counters that decide when changes are loaded and when deleted items are looked for. The
plans that read from the server are in `mongomem.store.plans.index_sync`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from bson.timestamp import Timestamp

from mongomem.engine.locks import Guarded
from mongomem.store.vectors.fusion import Ranking
from mongomem.store.vectors.known_changes import NOTHING, Numbers, as_numbers
from mongomem.store.vectors.matching_ids import MatchingIds
from mongomem.store.vectors.memory_index import Change, MemoryIndex
from mongomem.store.vectors.selection import Candidate
from mongomem.store.vectors.watermark import HIGHEST_TIMESTAMP, ChangeRead, Watermark
from mongomem.store.words.bm25 import Hashes, TermStatistics

COMPACTED_ITEMS = 1_000
"""So many items more than twice those at the last compaction make another one due."""

SMALL_COUNT = 256
"""An index of up to so many items is small: `MAX_DEFERRED` are more than three in a hundred."""

MAX_DEFERRED, MAX_DEFERRALS = 8, 5
"""Up to so many changes are not loaded, in up to so many searches in a row: reading them among the
candidates costs less than another round trip (docs/decisions/deferred-changes.md)."""

MANY_KNOWN = range(250, 100_000)
"""Of how many known changes above the floor a search first reads the timestamps alone. Reading
fewer costs less than another round trip; a million do not fit into a document."""

LOAD_SECONDS = 10.0
"""How long a claim to load an index holds. Then any other search that needs it loads it too."""


@dataclass(slots=True)
class CachedIndex(Guarded):
    """An index in memory and the state of its synchronization. Every method may be called from any
    thread.

    Attributes:
        index: The codes. Only the methods here use it, under the lock.
        watermark: From which timestamp on changes have to be read.
        has_unique_timestamps: Whether no two items that the server holds have one timestamp.
        known: Timestamps above the floor whose items are in the index as of then.
        version: Counts what was added to the index.
    """

    index: MemoryIndex
    watermark: Watermark = field(default_factory=Watermark)
    has_unique_timestamps: bool = False
    known: Numbers = field(default_factory=lambda: NOTHING)
    version: int = 0
    _matching: MatchingIds = field(default_factory=MatchingIds)
    _compacted_count: int = 0
    _deferrals: int = 0
    _claimed_until: float = 0.0

    def __post_init__(self) -> None:
        self._guard()

    @property
    def size(self) -> int:
        """Bytes held, about."""
        return self.index.size + self._matching.size

    @property
    def knows_many(self) -> bool:
        """Say whether most changes above the floor are known, as far as timestamps can tell."""
        return self.has_unique_timestamps and len(self.known) in MANY_KNOWN

    @property
    def is_small(self) -> bool:
        """Say whether a few items more or less change how rare a word is."""
        return self.index.item_count <= SMALL_COUNT

    @property
    def has_grown(self) -> bool:
        """Say whether any item was added since the index was loaded or compacted."""
        return self.index.item_count > self._compacted_count

    @property
    def needs_compaction(self) -> bool:
        """Say whether so many items were added since the index was loaded or compacted that the
        deleted ones may outnumber the others.
        """
        return self.index.item_count > 2 * self._compacted_count + COMPACTED_ITEMS

    def claim_load(self, now: float) -> bool:
        """Let one caller load the index, until `release_load` or for `LOAD_SECONDS` of the
        monotonic clock; return whether it is this one.
        """
        with self._lock:
            if now < self._claimed_until:
                return False
            self._claimed_until = now + LOAD_SECONDS
            return True

    def release_load(self) -> None:
        """End the claim: where the index is not loaded, the next caller may load it."""
        self._claimed_until = 0.0

    def take_loaded(
        self, index: MemoryIndex, read: ChangeRead, *, has_unique_timestamps: bool
    ) -> bool:
        """Take the index that a caller has loaded, unless another one was faster, whose claim had
        ended; return whether it is this one. Two loads must not fill one index: the floor of the
        later one is too high for what the earlier one has read.
        """
        with self._lock:
            if self.watermark.loaded:
                return False
            self.index, self._compacted_count = index, index.item_count
            self.version += 1
            self.has_unique_timestamps = has_unique_timestamps
            self.watermark.advance(read)
            return True

    def defers(self, count: int) -> bool:
        """Decide whether so many changes stay out of the index for this search."""
        with self._lock:
            if count <= MAX_DEFERRED and self._deferrals < MAX_DEFERRALS:
                self._deferrals += 1
                return True
            self._deferrals = 0
            return False

    def advance(self, read: ChangeRead) -> None:
        """Advance the watermark by what a read found, all of which is in the index."""
        with self._lock:
            self.watermark.advance(read)

    def note_known(self, known: Numbers, changes: Sequence[tuple[str, Timestamp]]) -> None:
        """Remember which changes above the floor are known: some timestamps, and those of changes
        that are in the index.
        """
        with self._lock:
            outdated = {*self.index.outdated(changes)}
            held = as_numbers(changed_at for item, changed_at in changes if item not in outdated)
            self.known = np.concatenate([known, held])

    def outdated(self, timestamps: Iterable[tuple[str, Timestamp]]) -> list[str]:
        """See `MemoryIndex.outdated`."""
        with self._lock:
            return self.index.outdated(timestamps)

    def timestamps(self, ids: Iterable[str] | None = None) -> dict[str, Timestamp]:
        """See `MemoryIndex.timestamps`."""
        with self._lock:
            return self.index.timestamps(ids)

    def upsert(self, changes: Iterable[Change], latest: Timestamp = HIGHEST_TIMESTAMP) -> list[str]:
        """See `MemoryIndex.upsert`."""
        with self._lock:
            listed = [*changes]
            self._note_added([change.id for change in listed])
            return self.index.upsert(listed, latest)

    def remove(self, deleted: Mapping[str, Timestamp]) -> None:
        """See `MemoryIndex.remove`."""
        with self._lock:
            self._remove(deleted)

    def compact(self, deleted: Mapping[str, Timestamp]) -> None:
        """Remove all items that were deleted, see `remove`; then no compaction is due."""
        with self._lock:
            self._remove(deleted)
            self._compacted_count = self.index.item_count

    def statistics(self, hashes: Hashes) -> TermStatistics:
        """See `MemoryIndex.statistics`."""
        with self._lock:
            return self.index.statistics(hashes)

    def holding(self, hashes: Hashes) -> set[str]:
        """See `MemoryIndex.holding`."""
        with self._lock:
            return self.index.holding(hashes)

    def matching(self, filter: bytes, now: float) -> set[str] | None:
        """List the ids of all items in the index that may match a filter, given by its name; None
        where they are not known.
        """
        with self._lock:
            return self._matching.get(filter, now)

    def is_selective(self, kind: bytes) -> bool:
        """See `MatchingIds.is_selective`."""
        with self._lock:
            return self._matching.is_selective(kind)

    def note_kind(self, kind: bytes, count: int) -> None:
        """Remember of the kind of a filter how many items it matched."""
        with self._lock:
            self._matching.note_kind(kind, count, self.index.item_count)

    def note_matching(self, filter: bytes, ids: Iterable[str], now: float, version: int) -> None:
        """Remember which items match a filter, if nothing was added to the index since a version,
        which the index had before they were read.
        """
        with self._lock:
            if version == self.version:
                self._matching.note(filter, ids, now, self.index.item_count)

    def search(
        self, ranking: Ranking, count: int, restrict_to: Collection[str] | None = None
    ) -> list[Candidate]:
        """See `MemoryIndex.search`."""
        with self._lock:
            return self.index.search(ranking.vector, count, restrict_to, ranking.words)

    def _note_added(self, ids: Collection[str]) -> None:
        if ids:
            self.version += 1
            self._matching.add_changed(ids, self.index.item_count)

    def _remove(self, deleted: Mapping[str, Timestamp]) -> None:
        """Remove items. Their changes are no longer known: one that is there is read again."""
        self.index.remove(deleted)
        if deleted:
            self.known = np.setdiff1d(self.known, as_numbers(deleted.values()))

    def _reset(self) -> None:
        index = self.index
        self.index, self.watermark = MemoryIndex(index.dims, index.metric, index.mark), Watermark()
        self.has_unique_timestamps, self.known = False, NOTHING
        self._matching = MatchingIds()
        self._compacted_count, self._deferrals, self._claimed_until = 0, 0, 0.0


@dataclass(slots=True)
class IndexCache(Guarded):
    """Indexes by the path of their prefix. The least recently used one is evicted first.

    Attributes:
        limit: How many bytes they may hold together.
        too_large: Paths whose index alone would exceed the limit.
    """

    limit: int
    too_large: set[str] = field(default_factory=set)
    _indexes: OrderedDict[str, CachedIndex] = field(default_factory=OrderedDict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _total: int = 0

    def __post_init__(self) -> None:
        self._guard()

    @property
    def size(self) -> int:
        """Bytes held, about, as of the last use of each index."""
        return self._total

    @property
    def longest_path(self) -> int:
        """Characters of the longest path that has an index; -1 where none has."""
        with self._lock:
            return max(map(len, self._indexes), default=-1)

    def get(self, path: str, empty: Callable[[], MemoryIndex]) -> CachedIndex:
        """Return the index of a prefix, an empty one where there is none, and count it as used."""
        with self._lock:
            cached = self._indexes.get(path)
            if cached is None:
                cached = self._indexes[path] = CachedIndex(empty())
            self._indexes.move_to_end(path)
            self._measure(path, cached.size)
            return cached

    def evict(self, path: str) -> None:
        """Measure the index of a prefix again, then drop the least recently used indexes until the
        others are within the limit. An index that alone exceeds the limit is dropped too.
        """
        with self._lock:
            if path in self._indexes:
                self._measure(path, self._indexes[path].size)
            while self._total > self.limit:
                self._drop(next(iter(self._indexes)))

    def invalidate(self, is_affected: Callable[[str], bool]) -> None:
        """Drop every index whose path is affected by what was deleted."""
        with self._lock:
            for path in [path for path in self._indexes if is_affected(path)]:
                self._drop(path)
            self.too_large = {path for path in self.too_large if not is_affected(path)}

    def timestamps(self, ids: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Timestamp]]:
        """Return the timestamps of items, given by the path of an index, in those that are here."""
        with self._lock:
            held = {path: self._indexes[path] for path in ids if path in self._indexes}
        return {path: cached.timestamps(ids[path]) for path, cached in held.items()}

    def remove(self, deleted: Mapping[str, Mapping[str, Timestamp]]) -> None:
        """Remove deleted items, given with their timestamps by the path of an index."""
        with self._lock:
            held = [
                (self._indexes[path], deleted[path]) for path in deleted if path in self._indexes
            ]
        for cached, items in held:
            cached.remove(items)

    def mark_too_large(self, path: str) -> None:
        """Drop an index that alone exceeds the limit, and remember that it does."""
        with self._lock:
            if path in self._indexes:
                self._drop(path)
            self.too_large.add(path)

    def allow_again(self, path: str) -> None:
        """Forget that the index of a prefix exceeded the limit."""
        with self._lock:
            self.too_large.discard(path)

    def _reset(self) -> None:
        self._indexes, self._sizes, self._total = OrderedDict(), {}, 0

    def _measure(self, path: str, size: int) -> None:
        self._total += size - self._sizes.get(path, 0)
        self._sizes[path] = size

    def _drop(self, path: str) -> None:
        del self._indexes[path]
        self._total -= self._sizes.pop(path)
