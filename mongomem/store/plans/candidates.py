"""Sources of candidates for a query: an index in memory, a scan of all codes, or Atlas.

Candidates are read again and scored by `mongomem.store.plans.semantic_search`, whatever their
source. So sources differ in speed and freshness, and in scores only where a source counts no words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Protocol, TypeAlias

from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure

from mongomem.engine.commands import Aggregate, Document, Find
from mongomem.engine.effects import Compute
from mongomem.store.context import Context
from mongomem.store.documents.filter_query import QueryName
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import BY_CHANGE
from mongomem.store.documents.namespace import split_by_bytes
from mongomem.store.documents.stored_item import ids_in
from mongomem.store.plans.index_sync import (
    IndexScope,
    SyncedIndex,
    note_damaged,
    read_items,
    synced_index,
)
from mongomem.store.plans.read import find_with_hint
from mongomem.store.vectors.atlas import (
    MOST_NEIGHBOURS,
    NEIGHBOURS,
    index_name,
    is_queryable,
    nearest,
    state_of_index,
)
from mongomem.store.vectors.fusion import Ranking
from mongomem.store.vectors.index_cache import CachedIndex
from mongomem.store.vectors.memory_index import Columns, MemoryIndex
from mongomem.store.vectors.quantization import Vector
from mongomem.store.vectors.selection import Candidate
from mongomem.store.words.bm25 import Hashes, TermStatistics

RECENT = timedelta(minutes=1)
"""How far Atlas may be behind without missing an item: what changed since is a candidate too."""

MOST_RECENT = 200

PAGE_SIZE = 16384
"""Items that a scan takes at a time: 25 MB of codes at 1,536 dimensions."""

Missing: TypeAlias = Callable[[Iterable[str]], None]
"""Told the ids of candidates that a read by id did not find."""


def _ignore(_ids: Iterable[str]) -> None:
    """Do nothing: a source that keeps no candidates has none to remove."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Ids of candidates, best first.

    Attributes:
        is_complete: Fewer candidates than were asked for mean that there are no more.
        on_missing: To be called with the candidates that are deleted.
    """

    ids: list[str]
    is_complete: bool = True
    on_missing: Missing = _ignore


class CandidateSource(Protocol):
    """Where the candidates for one search come from."""

    async def statistics(self, hashes: Hashes) -> TermStatistics | None:
        """Count the items that have each of some terms; None where it ranks by meaning alone."""

    async def holding(self, hashes: Hashes) -> set[str] | None:
        """List the ids of the items that may have all of some terms; None: all items may."""

    def matching(self, filter: QueryName) -> set[str] | None:
        """List the ids of all items that may match a filter, given by its name; None where that is
        not known.
        """

    def is_selective(self, filter: QueryName) -> bool:
        """Say whether a filter of the same kind matched few items when it was last tried."""

    def note_matching(self, filter: QueryName, ids: set[str]) -> None:
        """Remember which items match a filter, as they were read since this source was chosen."""

    async def candidates(
        self, ranking: Ranking, count: int, restrict_to: set[str] | None
    ) -> Candidates:
        """Return candidates that contain the best `count` items, of all or of some ids."""


async def candidate_source(scope: IndexScope) -> CandidateSource:
    """Choose the source of candidates for a search."""
    if await uses_atlas(scope.context, scope.indexing):
        return AtlasSource(scope)
    synced = await synced_index(scope)
    if synced is None:
        return ScanSource(scope)
    return MemorySource(synced, scope.context.monotonic())


@dataclass(frozen=True, slots=True)
class MemorySource:
    """An index in memory. Items that are not in it as they are now follow its candidates, and do
    not count in its statistics.

    Attributes:
        synced: The index.
        now: The time of the monotonic clock, in seconds.
    """

    synced: SyncedIndex
    now: float

    async def statistics(self, hashes: Hashes) -> TermStatistics | None:
        cached = self.synced.cached
        counted: TermStatistics = await Compute(partial(cached.statistics, hashes), cached.size)
        return counted

    async def holding(self, hashes: Hashes) -> set[str] | None:
        cached = self.synced.cached
        held: set[str] = await Compute(partial(cached.holding, hashes), cached.size)
        return held.union(self.synced.unindexed)

    def matching(self, filter: QueryName) -> set[str] | None:
        return self.synced.cached.matching(filter.whole, self.now)

    def is_selective(self, filter: QueryName) -> bool:
        return self.synced.cached.is_selective(filter.kind)

    def note_matching(self, filter: QueryName, ids: set[str]) -> None:
        cached = self.synced.cached
        cached.note_matching(filter.whole, ids, self.now, self.synced.version)
        cached.note_kind(filter.kind, len(ids))

    async def candidates(
        self, ranking: Ranking, count: int, restrict_to: set[str] | None
    ) -> Candidates:
        cached, unindexed = self.synced.cached, self.synced.unindexed
        search = partial(cached.search, ranking, count + len(unindexed), restrict_to)
        ranked = await Compute(search, cached.size)
        ids = [item for _, item in ranked if item not in unindexed] + list(unindexed)
        return Candidates(ids, on_missing=partial(_remove, cached, cached.timestamps(ids)))


def _remove(cached: CachedIndex, timestamps: Mapping[str, Timestamp], ids: Iterable[str]) -> None:
    """Remove items from an index; not those that were written again since the timestamps."""
    cached.remove({item: timestamps[item] for item in ids if item in timestamps})


class _RemembersNothing:
    """The part of a source that holds nothing between two searches."""

    def matching(self, filter: QueryName) -> set[str] | None:
        return None

    def is_selective(self, filter: QueryName) -> bool:
        return False

    def note_matching(self, filter: QueryName, ids: set[str]) -> None:
        pass


@dataclass(frozen=True)
class ScanSource(_RemembersNothing):
    """A scan of all codes of a prefix, whose index is too large to be held."""

    scope: IndexScope

    async def statistics(self, hashes: Hashes) -> TermStatistics | None:
        counted = await read_items(self.scope, partial(_Counting, self.scope, hashes), PAGE_SIZE)
        return counted.found

    async def holding(self, hashes: Hashes) -> set[str] | None:
        return None

    async def candidates(
        self, ranking: Ranking, count: int, restrict_to: set[str] | None
    ) -> Candidates:
        """Keep the candidates of each page only. Where the prefix has become small enough, its
        index is held from the next search on.
        """
        begin = partial(_Scanning, self.scope, ranking, count, restrict_to)
        scanned = await read_items(self.scope, begin, PAGE_SIZE)
        if scanned.size <= self.scope.context.index_cache.limit:
            self.scope.context.index_cache.allow_again(self.scope.path)
        return Candidates([item for _, item in scanned.search(scanned.best)])


@dataclass(slots=True)
class _Counting:
    """Returns what `MemoryIndex.statistics` would, of items that are not held."""

    scope: IndexScope
    hashes: Hashes
    found: TermStatistics = field(init=False)

    def __post_init__(self) -> None:
        self.found = self.scope.empty_index().statistics(self.hashes)

    def take(self, items: Columns) -> bool:
        self.found = self.found.plus(_index_of(self.scope, items).statistics(self.hashes))
        return True


@dataclass(slots=True)
class _Scanning:
    """Ranks items that are not held, a page at a time.

    Attributes:
        best: The candidates of all pages.
        size: Bytes that an index of all items would hold.
    """

    scope: IndexScope
    ranking: Ranking
    count: int
    restrict_to: Collection[str] | None
    best: MemoryIndex = field(init=False)
    size: int = 0

    def __post_init__(self) -> None:
        self.best = self.scope.empty_index()

    def take(self, items: Columns) -> bool:
        page_index = _index_of(self.scope, items)
        ids = {item for _, item in self.search(page_index)}
        self.best.load(items.at([n for n, item in enumerate(items.ids) if item in ids]))
        self.size += page_index.size
        return True

    def search(self, index: MemoryIndex) -> list[Candidate]:
        """Search an index."""
        ranking = self.ranking
        return index.search(ranking.vector, self.count, self.restrict_to, words=ranking.words)


def _index_of(scope: IndexScope, items: Columns) -> MemoryIndex:
    index = scope.empty_index()
    note_damaged(scope, index.load(items))
    return index


@dataclass(frozen=True)
class AtlasSource(_RemembersNothing):
    """Atlas Vector Search, and what changed so recently that Atlas may not have indexed it. It
    counts no terms, so it ranks by meaning alone.
    """

    scope: IndexScope

    async def statistics(self, hashes: Hashes) -> TermStatistics | None:
        return None

    async def holding(self, hashes: Hashes) -> set[str] | None:
        return None

    async def candidates(
        self, ranking: Ranking, count: int, restrict_to: set[str] | None
    ) -> Candidates:
        """Search approximately (ANN); exactly (ENN) where the candidates are restricted, or are
        more than the approximate search may compare.
        """
        exact = restrict_to is not None or count * NEIGHBOURS > MOST_NEIGHBOURS
        parts = [None] if restrict_to is None else split_by_bytes(sorted(restrict_to))
        found: list[Document] = []
        for part in parts:
            found += await self._nearest(ranking.vector, count, part, exact=exact)
        best_first = sorted(found, key=_score, reverse=True)
        ids = ids_in([*best_first, *await _recent(self.scope)])
        return Candidates(list(dict.fromkeys(ids)), is_complete=exact)

    async def _nearest(
        self, query: Vector, count: int, restrict_to: Collection[str] | None, *, exact: bool
    ) -> list[Document]:
        """Ask Atlas for ids and scores of the closest items, among ids that fit in a command."""
        context, fingerprint = self.scope.context, self.scope.indexing.fingerprint
        pipeline = nearest(
            index_name(context.items, fingerprint),
            query,
            path=self.scope.path,
            fingerprint=fingerprint,
            count=count,
            exact=exact,
            restrict_to=restrict_to,
        )
        return await Aggregate(context.items, pipeline)


def _score(document: Document) -> float:
    score: float = document.get("score", 0.0)
    return score


async def _recent(scope: IndexScope) -> list[Document]:
    """Read the ids of what changed below a path within `RECENT`, newest first."""
    context = scope.context
    since = Timestamp(int((context.now() - RECENT).timestamp()), 0)
    condition = {"prefixes": scope.path, "changed_at": {"$gt": since}}
    newest = Find(
        context.items, condition, {"_id": 1}, sort=[("changed_at", -1)], limit=MOST_RECENT
    )
    return await find_with_hint(context, BY_CHANGE, newest)


async def uses_atlas(context: Context, indexing: IndexSettings) -> bool:
    """Say whether Atlas is the source: where the user says so or, with "auto", where its index
    exists and answers. The server is asked once in a process.
    """
    if context.backend != "auto" or not indexing.dims:
        return context.backend == "atlas"
    if context.setup_state.atlas is None:
        pipeline = state_of_index(index_name(context.items, indexing.fingerprint))
        try:
            states = await Aggregate(context.items, pipeline)
        except (OperationFailure, NotImplementedError):  # a server or a mongomock without search
            states = []
        context.setup_state.atlas = is_queryable(states)
    return context.setup_state.atlas
