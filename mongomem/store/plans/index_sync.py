"""Plans that load the codes of a namespace prefix into memory and sync them with the server.

What was acknowledged before a search began is among its candidates, whoever wrote it. The steps of
`synced_index`, and why in this order:

1. The index is loaded if it is not, by one of the searches that need it (`_ensure_loaded`). The
   others wait. A load reads in the order of ids, which never change, so no write makes it miss an
   item that exists throughout.
2. A search that did not load reads what changed above the watermark's floor (`_apply_changes`): one
   read of index entries, and no second one where nothing changed. This comes after step 1, because
   the load of another search may have begun before this search did. Where many of these changes are
   known the read is of timestamps alone, and the others are a read behind it (`_unread_changes`).
3. A few changes are left out of the index and returned beside it: the caller reads them among its
   candidates. Then the floor stays, so the next search meets the same changes again. More changes
   are loaded by a second read, and the floor rises. A small index with words, and any index
   beside a busy writer, reads its changes whole instead (`_apply_items`).
4. Where the index has grown much, deleted items are looked for (`_drop_deleted`). This is last,
   because it is what may bring an index back within the limit.

Refused: one read that has the codes of all changes too. The floor is up to five seconds behind, so
a search beside a busy writer would read thousands of codes that it has. Refused: a change stream.
It needs a thread, and a search would have to wait for it to catch up.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from bson.timestamp import Timestamp

from mongomem.engine.commands import (
    AggregateRaw,
    Document,
    Find,
    RunCommand,
    slices,
)
from mongomem.engine.effects import CacheUse, Compute, Sleep
from mongomem.store.context import Context
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import BY_CHANGE, BY_ID, name_of
from mongomem.store.documents.namespace import id_range, namespace_of, path_range
from mongomem.store.documents.stored_item import ids_in, is_id, timestamps_in
from mongomem.store.documents.value import as_utc
from mongomem.store.plans.read import find_by_id, find_with_hint, newest_timestamp, read_with_hint
from mongomem.store.vectors.fusion import Ranking
from mongomem.store.vectors.index_cache import CachedIndex
from mongomem.store.vectors.known_changes import (
    GROUP,
    NOTHING,
    Numbers,
    below,
    decode_numbers,
    first_unknown,
)
from mongomem.store.vectors.memory_index import Change, MemoryIndex
from mongomem.store.vectors.selection import Candidate
from mongomem.store.vectors.watermark import LOWEST_TIMESTAMP, ChangeRead
from mongomem.store.words.bm25 import Hashes, TermStatistics

CHANGE_FIELDS = {"changed_at": 1, "index": 1}
"""Projection of what a `Change` is read from, beside `IndexScope.ranked_fields`."""

WAIT_SECONDS = 0.005
"""How often a search looks whether another one has loaded the index that both need."""

MOST_AT_ONCE = 256
"""From so many changes on, ids and timestamps are read before codes: 400 KB at 1,536 dimensions."""

PAGE_SIZE = 16384
"""Items read at a time: 25 MB of codes at 1,536 dimensions."""


@dataclass(frozen=True, slots=True)
class IndexScope:
    """Which items an index holds: those below a path, with vectors of one configuration."""

    context: Context
    indexing: IndexSettings
    path: str

    @property
    def ranked_fields(self) -> Document:
        """The projection of what an index holds of an item."""
        return {"codes": 1, "terms": 1} if self.indexing.analyser else {"codes": 1}

    def empty_index(self) -> MemoryIndex:
        return MemoryIndex(self.indexing.dims, self.indexing.metric, self.indexing.mark)


@dataclass(frozen=True, slots=True)
class SyncedIndex:
    """An index in memory as of the beginning of a search.

    Attributes:
        cached: The index.
        unindexed: Ids of a few items that changed and are not in the index as they are now.
    """

    cached: CachedIndex
    unindexed: Sequence[str] = ()


async def synced_index(scope: IndexScope) -> SyncedIndex | None:
    """Bring the index of a prefix up to date; None where it would be larger than is allowed."""
    cache = scope.context.index_cache
    if scope.path in cache.too_large:
        return None
    cached = cache.get(scope.path, scope.empty_index)
    has_loaded = await _ensure_loaded(scope, cached)
    await CacheUse(int(not has_loaded), int(has_loaded))
    unindexed = [] if has_loaded else await _apply_changes(scope, cached)
    if cached.needs_compaction or (cached.size > cache.limit and cached.has_grown):
        await _drop_deleted(scope, cached)
    if cached.size > cache.limit:
        cache.mark_too_large(scope.path)
        return None
    cache.evict(scope.path)
    return SyncedIndex(cached, unindexed)


async def scan_statistics(scope: IndexScope, hashes: Hashes) -> TermStatistics:
    """Return what `MemoryIndex.statistics` would, for a prefix whose index is too large to be
    held.
    """
    found, page = scope.empty_index().statistics(hashes), Page()
    while (page := await _read_page(scope, page)).changes:
        page_index = scope.empty_index()
        await _upsert(scope, page_index, page.changes)
        found = found.plus(page_index.statistics(hashes))
    return found


async def scan_prefix(
    scope: IndexScope, ranking: Ranking, count: int, restrict_to: Collection[str] | None
) -> list[Candidate]:
    """Return what `MemoryIndex.search` would, for a prefix whose index is too large to be held.

    Reads all codes, a page at a time, and keeps the candidates of each page only. Where the prefix
    has become small enough, its index is held from the next search on.
    """
    best_so_far, size = scope.empty_index(), 0
    page = Page()
    while (page := await _read_page(scope, page)).changes:
        page_index = scope.empty_index()
        await _upsert(scope, page_index, page.changes)
        search = partial(page_index.search, ranking.vector, count, restrict_to, words=ranking.words)
        best_so_far.upsert(_changes_of(await Compute(search, page_index.size), page.changes))
        size += page_index.size
    if size <= scope.context.index_cache.limit:
        scope.context.index_cache.allow_again(scope.path)
    return best_so_far.search(ranking.vector, count, restrict_to, words=ranking.words)


def _changes_of(candidates: Iterable[Candidate], changes: Iterable[Change]) -> Iterator[Change]:
    """Choose the changes of the items that are candidates."""
    ids = {item for _, item in candidates}
    return (change for change in changes if change.id in ids)


async def _ensure_loaded(scope: IndexScope, cached: CachedIndex) -> bool:
    """Load an index that is not loaded, or wait for the search that does; say if it is this."""
    while not cached.watermark.loaded:
        if cached.claim_load(scope.context.monotonic()):
            try:
                await _load(scope, cached)
            finally:
                cached.release_load()
            return True
        await Sleep(WAIT_SECONDS)
    return False


async def _load(scope: IndexScope, cached: CachedIndex) -> None:
    """Read a prefix for the first time, in the order of ids; stop where it gets too large.

    Timestamps are left out, since 5,000 of them cost 3 ms. So what changed within the last seconds
    is read once more by the next search.
    """
    context = scope.context
    began = context.monotonic()
    server_time, newest = await _server_clock(scope)
    page = Page()
    while (page := await _read_page(scope, page)).changes:
        if cached.size > context.index_cache.limit:
            break
        await _upsert(scope, cached, page.changes)
    read = ChangeRead(newest, began, context.monotonic(), server_time, context.latest_timestamp())
    cached.advance(read)
    cached.has_unique_timestamps = server_time > 0
    cached.compact({})


async def _server_clock(scope: IndexScope) -> tuple[int, list[Timestamp]]:
    """Ask for the time of day of the server that gives timestamps, in seconds since 1970.

    A mongos gives no timestamps, and a mongomock does not say the time. There the newest timestamp
    of the prefix is returned instead, and 0 as the time.
    """
    hello = await RunCommand({"hello": 1})
    if "localTime" in hello and hello.get("msg") != "isdbgrid":
        return int(as_utc(hello["localTime"]).timestamp()), []
    newest = await newest_timestamp(scope.context, scope.path)
    return 0, [] if newest is None else [newest]


async def _drop_deleted(scope: IndexScope, cached: CachedIndex) -> None:
    """Remove deleted items from an index, by reading which ids exist: an index entry each.

    They are read in the order of changes: an item that changes meanwhile moves to where the read
    has still to come.
    """
    known = cached.timestamps()
    find = Find(scope.context.items, {"prefixes": scope.path}, {"_id": 1}, sort=[("changed_at", 1)])
    existing = set(ids_in(await find_with_hint(scope.context, BY_CHANGE, find)))
    cached.compact({item: known[item] for item in known.keys() - existing})


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the codes below a prefix.

    Attributes:
        is_last: No page follows.
    """

    changes: Sequence[Change] = ()
    is_last: bool = False


async def _read_page(scope: IndexScope, before: Page) -> Page:
    """Read the page of codes that follows another one, in the order of ids; empty at the end."""
    if before.is_last:
        return Page(is_last=True)
    found = await Find(
        scope.context.items,
        _page_condition(scope, before),
        scope.ranked_fields,
        sort=[("_id", 1)],
        limit=PAGE_SIZE,
        hint=BY_ID,
    )
    changes = [
        Change(document["_id"], LOWEST_TIMESTAMP, document.get("codes"), document.get("terms"))
        for document in found
        if is_id(document["_id"])
    ]
    return Page(changes, is_last=len(found) < PAGE_SIZE)


def _page_condition(scope: IndexScope, before: Page) -> Document:
    prefix = namespace_of(scope.path)
    after = {"$gt": before.changes[-1].id} if before.changes else {}
    return {
        "_id": {**id_range(prefix), **after},
        "path": path_range(prefix),
        "index": scope.indexing.fingerprint,
    }


async def _upsert(
    scope: IndexScope, index: MemoryIndex | CachedIndex, changes: Sequence[Change]
) -> None:
    """Apply changes to an index. Items with damaged codes have no vector and are logged once."""
    context = scope.context
    upsert = partial(index.upsert, changes, context.latest_timestamp())
    for item in await Compute(upsert, len(changes) * scope.indexing.dims):
        consequence = f"{name_of({'_id': item})} follows unscored: its codes are damaged"
        context.damage.note(repr(item), consequence)


async def _apply_changes(scope: IndexScope, cached: CachedIndex) -> list[str]:
    """Load what changed since the last search into an index, or return the ids of a few changes
    that stay out of it.

    Where they stay out the watermark does not advance.
    """
    began = scope.context.monotonic()
    unread = await _unread_changes(scope, cached)
    if unread.count and await _apply_items(scope, cached, unread, began):
        return []
    changes = await _changes_above(scope, unread.above) if unread.count else []
    outdated = cached.outdated(changes)
    if outdated and cached.defers(len(outdated)):
        return outdated
    await _load_items(scope, cached, outdated)
    _note_changes(scope, cached, changes, unread.known, began)
    return []


async def _apply_items(
    scope: IndexScope, cached: CachedIndex, unread: Unread, began: float
) -> bool:
    """Load what changed by one read that has the codes and terms too; return whether it did.

    Where items are ranked by words this is done for a small index: all items count in the weights
    of words. Beside a busy writer it is done for any index, since what is known is not read. Where
    the changes are many it is left.
    """
    counts_all = scope.indexing.analyser is not None and cached.is_small
    if not (unread.count < MOST_AT_ONCE or counts_all):
        return False
    changed, fields = _changed_above(scope, unread.above), CHANGE_FIELDS | scope.ranked_fields
    find = Find(scope.context.items, changed, fields, limit=MOST_AT_ONCE)
    found = await find_with_hint(scope.context, BY_CHANGE, find)
    if len(found) == MOST_AT_ONCE:
        return False
    changes = timestamps_in(found)
    outdated = {*cached.outdated(changes)}
    documents = [one for one in found if is_id(one["_id"]) and one["_id"] in outdated]
    await _upsert(scope, cached, _changes_in(documents, scope.indexing))
    _note_changes(scope, cached, changes, unread.known, began)
    return True


def _note_changes(
    scope: IndexScope,
    cached: CachedIndex,
    changes: Sequence[tuple[str, Timestamp]],
    known: Numbers,
    began: float,
) -> None:
    """Advance the watermark by changes that are in the index, beside those that were known."""
    context, met = scope.context, [changed_at for _, changed_at in changes]
    cached.advance(ChangeRead(met, began, context.monotonic(), latest=context.latest_timestamp()))
    cached.note_known(known, changes)


@dataclass(frozen=True, slots=True)
class Unread:
    """Which changes are to be read.

    Attributes:
        above: They have timestamps above this one, and so may have some that are known.
        count: How many these are; infinite where nobody counted.
        known: The other changes above the watermark's floor, which are known.
    """

    above: Timestamp
    count: float = math.inf
    known: Numbers = field(default_factory=lambda: NOTHING)


async def _unread_changes(scope: IndexScope, cached: CachedIndex) -> Unread:
    """Find out which changes above the watermark's floor are to be read. Beside a busy writer
    thousands are known. Then the timestamps alone are read, by the server into one array: an item
    that was changed again meanwhile has moved up, to where ids are still to be read.
    """
    floor = cached.watermark.floor
    if not cached.knows_many:
        return Unread(floor)
    met = await _timestamps_above(scope, floor)
    lowest = first_unknown(met, cached.known)
    if lowest is None:
        return Unread(floor, 0, met)
    known = met[met < lowest]
    return Unread(below(lowest), len(met) - len(known), known)


async def _timestamps_above(scope: IndexScope, timestamp: Timestamp) -> Numbers:
    """Read the timestamps alone of what changed above a timestamp."""
    pipeline = [{"$match": _changed_above(scope, timestamp)}, {"$group": GROUP}]
    groups = AggregateRaw(scope.context.items, pipeline)
    found = await read_with_hint(scope.context, BY_CHANGE, groups)
    return np.concatenate([NOTHING, *map(decode_numbers, found)])


def _changed_above(scope: IndexScope, timestamp: Timestamp) -> Document:
    return {"prefixes": scope.path, "changed_at": {"$gt": timestamp}}


async def _changes_above(scope: IndexScope, timestamp: Timestamp) -> list[tuple[str, Timestamp]]:
    """Read the ids and timestamps of what changed above a timestamp: index entries."""
    find = Find(scope.context.items, _changed_above(scope, timestamp), {"changed_at": 1})
    return timestamps_in(await find_with_hint(scope.context, BY_CHANGE, find))


async def _load_items(scope: IndexScope, cached: CachedIndex, ids: Sequence[str]) -> None:
    """Load items into an index as they are now."""
    for page in slices(ids, PAGE_SIZE):
        found = await find_by_id(scope.context, page, CHANGE_FIELDS | scope.ranked_fields)
        await _upsert(scope, cached, _changes_in(found, scope.indexing))


def _changes_in(documents: Sequence[Document], indexing: IndexSettings) -> list[Change]:
    """Read documents as changes; vectors of another configuration count as none."""
    ours = {
        document["_id"]: (document.get("codes"), document.get("terms"))
        for document in documents
        if document.get("index") == indexing.fingerprint
    }
    return [
        Change(item, changed_at, *ours.get(item, (None, None)))
        for item, changed_at in timestamps_in(documents)
    ]
