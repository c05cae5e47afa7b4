"""Plans that load the codes of a namespace prefix into memory and sync them with the server.

What was acknowledged before a search began is among its candidates, whoever wrote it. The steps of
`synced_index`, and why in this order:

1. The index is loaded if it is not, by one of the searches that need it (`_ensure_loaded`). The
   others wait. A load reads in the order of ids, which never change, so no write makes it miss an
   item that exists throughout.
2. A search that did not load reads what changed above the watermark's floor (`_apply_changes`): one
   read of index entries, and no second one where nothing changed. This comes after step 1, because
   the load of another search may have begun before this search did. Where many of these changes are
   known the read is of their timestamps alone, and of those behind them whole (`_unread_changes`).
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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from bson.timestamp import Timestamp
from pymongo.errors import AutoReconnect, CursorNotFound, ServerSelectionTimeoutError

from mongomem.engine.commands import (
    AggregateRaw,
    Document,
    Find,
    RunCommand,
    as_utc,
    decoded,
    slices,
)
from mongomem.engine.effects import SENT_AT_ONCE, CacheUse, Compute, FindInParts, Sleep
from mongomem.store.context import Context
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.indexed import (
    changed_fields,
    changes_in,
    columns_in,
    ranked_fields,
)
from mongomem.store.documents.item import BY_CHANGE, BY_ID, name_of
from mongomem.store.documents.namespace import id_range, namespace_of, path_range
from mongomem.store.documents.stored_item import ids_in, timestamps_in, with_ids
from mongomem.store.plans.read import find_by_id, find_with_hint, newest_timestamp, read_with_hint
from mongomem.store.vectors.index_cache import CachedIndex
from mongomem.store.vectors.known_changes import (
    NOTHING,
    Numbers,
    below,
    first_unknown,
    split_answer,
    timestamps_and_later,
)
from mongomem.store.vectors.memory_index import ITEM_BYTES, Change, Columns, MemoryIndex
from mongomem.store.vectors.watermark import ChangeRead

WAIT_SECONDS = 0.005
"""How often a search looks whether another one has loaded the index that both need."""

MOST_AT_ONCE = 256
"""From so many changes on, ids and timestamps are read before codes: 400 KB at 1,536 dimensions."""

LOADED_AT_ONCE = SENT_AT_ONCE
"""Items that a first load takes at a time: while it does, the server sends the next ones."""

PAGE_SIZE = 16384
"""Changed items read at a time: 25 MB of codes at 1,536 dimensions."""


@dataclass(frozen=True, slots=True)
class IndexScope:
    """Which items an index holds: those below a path, with vectors of one configuration."""

    context: Context
    indexing: IndexSettings
    path: str

    def empty_index(self) -> MemoryIndex:
        return MemoryIndex(self.indexing.dims, self.indexing.metric, self.indexing.mark)


@dataclass(frozen=True, slots=True)
class SyncedIndex:
    """An index in memory as of the beginning of a search.

    Attributes:
        cached: The index.
        version: That of the index then.
        unindexed: Ids of a few items that changed and are not in the index as they are now.
    """

    cached: CachedIndex
    version: int
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
    version = cached.version
    if cached.needs_compaction or (cached.size > cache.limit and cached.has_grown):
        await _drop_deleted(scope, cached)
    if cached.size > cache.limit:
        cache.mark_too_large(scope.path)
        return None
    cache.evict(scope.path)
    return SyncedIndex(cached, version, unindexed)


async def _ensure_loaded(scope: IndexScope, cached: CachedIndex) -> bool:
    """Load an index that is not loaded, or wait for the search that does; say if it is this."""
    while not cached.watermark.loaded:
        if not cached.claim_load(scope.context.monotonic()):
            await Sleep(WAIT_SECONDS)
            continue
        try:
            if await _load(scope, cached):
                return True
        finally:
            cached.release_load()
    return False


async def _load(scope: IndexScope, cached: CachedIndex) -> bool:
    """Read a prefix for the first time, in the order of ids; stop where it gets too large. Say
    whether no other search was faster.

    Timestamps are left out, since 5,000 of them cost 3 ms. So what changed within the last seconds
    is read once more by the next search.
    """
    context = scope.context
    began = context.monotonic()
    server_time, newest = await _server_clock(scope)
    loading = await read_items(scope, partial(_Loading, scope), LOADED_AT_ONCE)
    read = ChangeRead(newest, began, context.monotonic(), server_time, context.latest_timestamp())
    return cached.take_loaded(loading.index, read, has_unique_timestamps=server_time > 0)


async def _server_clock(scope: IndexScope) -> tuple[int, list[Timestamp]]:
    """Ask for the time of day of the server that gives timestamps, in seconds since 1970. One of
    some seconds ago does too, so it is not asked for each index.

    A mongos gives no timestamps, and a mongomock does not say the time. There the newest timestamp
    of the prefix is returned instead, and 0 as the time.
    """
    state, now = scope.context.setup_state, scope.context.monotonic()
    if recent := state.recent_server_time(now):
        return recent, []
    hello = await RunCommand({"hello": 1})
    if "localTime" in hello and hello.get("msg") != "isdbgrid":
        state.note_server_time(int(as_utc(hello["localTime"]).timestamp()), now)
        return state.server_time, []
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


class ItemReader(Protocol):
    """What items are read into."""

    def take(self, items: Columns) -> bool:
        """Take some items; say whether more are wanted."""


Reader = TypeVar("Reader", bound=ItemReader)


async def read_items(scope: IndexScope, begin: Callable[[], Reader], part_size: int) -> Reader:
    """Read the codes and terms below a path, in the order of ids, into what `begin` makes.

    Where the connection or the cursor is lost the whole is read once more into another one: the
    driver does so for reads of one reply only.
    """
    reader = begin()
    try:
        await _read_into(scope, reader, part_size)
    except ServerSelectionTimeoutError:
        raise
    except (AutoReconnect, CursorNotFound):
        reader = begin()
        await _read_into(scope, reader, part_size)
    return reader


async def _read_into(scope: IndexScope, reader: ItemReader, part_size: int) -> None:
    prefix = namespace_of(scope.path)
    await FindInParts(
        scope.context.items,
        {
            "_id": id_range(prefix),
            "path": path_range(prefix),
            "index": scope.indexing.fingerprint,
        },
        ranked_fields(scope.indexing),
        sort=[("_id", 1)],
        hint=BY_ID,
        part_size=part_size,
        take=lambda documents: reader.take(columns_in(documents)),
        work=scope.indexing.dims + ITEM_BYTES,
    )


@dataclass(slots=True)
class _Loading:
    """Loads items into an index of its own, until it is larger than is allowed."""

    scope: IndexScope
    index: MemoryIndex = field(init=False)

    def __post_init__(self) -> None:
        self.index = self.scope.empty_index()

    def take(self, items: Columns) -> bool:
        note_damaged(self.scope, self.index.load(items))
        return self.index.size <= self.scope.context.index_cache.limit


async def _upsert(scope: IndexScope, cached: CachedIndex, changes: Sequence[Change]) -> None:
    """Apply changes to an index."""
    upsert = partial(cached.upsert, changes, scope.context.latest_timestamp())
    note_damaged(scope, await Compute(upsert, len(changes) * scope.indexing.dims))


def note_damaged(scope: IndexScope, ids: Iterable[str]) -> None:
    """Log the items with damaged codes, which have no vector in an index, once."""
    for item in ids:
        consequence = f"{name_of({'_id': item})} follows unscored: its codes are damaged"
        scope.context.damage.note(repr(item), consequence)


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
    found = unread.documents
    if found is None:
        changed, fields = _changed_above(scope, unread.above), changed_fields(scope.indexing)
        find = Find(scope.context.items, changed, fields, limit=MOST_AT_ONCE)
        found = await find_with_hint(scope.context, BY_CHANGE, find)
    if len(found) == MOST_AT_ONCE:
        return False
    changes = timestamps_in(found)
    outdated = {*cached.outdated(changes)}
    documents = [one for one in with_ids(found) if one["_id"] in outdated]
    await _upsert(scope, cached, changes_in(documents, scope.indexing))
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
        documents: What was read of them already, all that `changes_in` needs.
    """

    above: Timestamp
    count: float = math.inf
    known: Numbers = field(default_factory=lambda: NOTHING)
    documents: Sequence[Document] | None = None


async def _unread_changes(scope: IndexScope, cached: CachedIndex) -> Unread:
    """Find out which changes above the watermark's floor are to be read. Beside a busy writer
    thousands are known. Then of those up to the highest timestamp seen the timestamps alone are
    read, by the server into one array, and those behind it whole. An item that is changed again
    meanwhile moves up, to where the read has still to come.
    """
    floor = cached.watermark.floor
    if not cached.knows_many:
        return Unread(floor)
    highest = max(floor, cached.watermark.highest)
    later = [{"$limit": MOST_AT_ONCE}, {"$project": changed_fields(scope.indexing)}]
    items = scope.context.items
    read = AggregateRaw(items, timestamps_and_later(items, scope.path, floor, highest, later))
    met, behind = split_answer(await read_with_hint(scope.context, BY_CHANGE, read))
    documents = [*map(decoded, behind)]
    lowest = first_unknown(met, cached.known)
    if lowest is None:
        return Unread(highest, len(documents), met, documents)
    known = met[met < lowest]
    return Unread(below(lowest), len(met) - len(known) + len(documents), known)


def _changed_above(scope: IndexScope, timestamp: Timestamp) -> Document:
    return {"prefixes": scope.path, "changed_at": {"$gt": timestamp}}


async def _changes_above(scope: IndexScope, timestamp: Timestamp) -> list[tuple[str, Timestamp]]:
    """Read the ids and timestamps of what changed above a timestamp: index entries."""
    find = Find(scope.context.items, _changed_above(scope, timestamp), {"changed_at": 1})
    return timestamps_in(await find_with_hint(scope.context, BY_CHANGE, find))


async def _load_items(scope: IndexScope, cached: CachedIndex, ids: Sequence[str]) -> None:
    """Load items into an index as they are now."""
    for page in slices(ids, PAGE_SIZE):
        found = await find_by_id(scope.context, page, changed_fields(scope.indexing))
        await _upsert(scope, cached, changes_in(found, scope.indexing))
