"""Plans that read: get_tuple, and the pages of list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.types import TASKS
from pymongo.errors import OperationFailure

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint
from mongomem.checkpoint.documents.collections import (
    VISIBLE,
    checkpoint_doc_id,
    newest_stages,
    place_of,
    thread_doc_id,
    thread_stage,
)
from mongomem.checkpoint.documents.config import CheckpointRef, ref_of_config
from mongomem.checkpoint.documents.fields import living_epoch
from mongomem.checkpoint.documents.identity import matches
from mongomem.checkpoint.documents.list_query import ListQuery, Position
from mongomem.checkpoint.documents.thread import thread_query
from mongomem.checkpoint.plans.load import (
    MissingChunkError,
    load_bodies,
    read_checkpoints,
    read_undamaged,
    read_writes,
)
from mongomem.checkpoint.plans.restore import (
    RestoredCheckpoint,
    Writes,
    grouped,
    read_pending,
    restore,
)
from mongomem.checkpoint.plans.setup import ensure_ours
from mongomem.damage import UNREADABLE
from mongomem.engine.commands import Aggregate, Document, Find, Plan
from mongomem.errors import CorruptDataError

T = TypeVar("T")

FIRST_PAGE, LARGEST_PAGE = 8, 256
"""Checkpoints in the first page of a listing, so that breaking out early costs little, and in the
largest."""

PAGE_BYTES = 16 * 2**20
"""How many serialized bytes of state a page decodes; one checkpoint may be more."""

MOST_JOINED = 64
"""Writes that are read together with their checkpoint: more are rare, and read by themselves."""

TOO_LARGE = 10334
"""Server error code BSONObjectTooLarge: a checkpoint and its writes are more than one document
(MongoDB 6.0)."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some checkpoints of a listing, and how to get the next ones: a plan not yet begun, or None at
    the end.
    """

    tuples: list[CheckpointTuple]
    rest: Callable[[], Plan[Page]] | None


async def get_tuple(context: Context, config: RunnableConfig) -> CheckpointTuple | None:
    """Return the checkpoint that the config names, or the newest of its namespace, or None.

    One round trip where the caches hold its chunks; else one more for them, and one for each
    further level of hashes. One more also for many pending writes.
    """
    ref = ref_of_config(config)
    # Before the read: a removal in between changes the generation, and the parent that is cached
    # below under this one is then not relied on.
    thread = context.caches.threads.get(ref.thread_id)
    records, writes = await _find_with_writes(context, ref)
    if not records and ref.checkpoint_id is not None:
        await _check_absent(context, ref)
    restored = await _restore(context, records, writes)
    for one in restored:
        context.caches.cache_parent(
            one.stored.ref, one.as_parent(thread.generation if thread else None)
        )
    if not restored:
        await ensure_ours(context)
        return None
    return restored[0].tuple


async def _check_absent(context: Context, ref: CheckpointRef) -> None:
    """Look for a checkpoint that was not found by its fields by its `_id`: is it hidden, gone, or
    damaged?

    Raises:
        CorruptDataError: Its document is there, and says to be another one.
    """
    await read_checkpoints(
        context, await Find(context.checkpoints, {"_id": checkpoint_doc_id(ref)}, limit=1)
    )


async def _find_with_writes(
    context: Context, ref: CheckpointRef, epoch: int | None = None
) -> tuple[list[StoredCheckpoint], Writes | None]:
    """Read a checkpoint, its writes and its thread at once; None for the writes that have to be
    read by themselves.

    Where what is found is of a life of the thread that has ended, what lives is looked for by its
    epoch.
    """
    thread = thread_stage(context.options.collections, ref.thread_id)
    stages = [*newest_stages(ref, epoch), *_joined_writes(context, ref), thread]
    try:
        documents = await Aggregate(context.checkpoints, stages)
    except OperationFailure as error:
        if error.code != TOO_LARGE:
            raise
        return await _find_alone(context, ref), None
    stored = await read_checkpoints(context, documents)
    if not stored:
        return [], {}
    living = living_epoch(ref.thread_id, documents[0]["thread"])
    if stored[0].epoch == living:
        return stored, await _joined_pending(context, documents[0])
    if living in (None, epoch):
        return [], {}
    return await _find_with_writes(context, ref, living)


async def _joined_pending(context: Context, document: Document) -> Writes | None:
    """Read the writes that were joined to a checkpoint; None where there may be more."""
    joined, own, parent = (
        document[field] for field in ("pending_writes", "checkpoint_id", "sends_from")
    )
    if len(joined) == MOST_JOINED or (parent or "") > own:
        return None
    needed = [
        one
        for one in joined
        if one.get("checkpoint_id") == own
        or (one.get("checkpoint_id"), one.get("channel")) == (parent, TASKS)
    ]
    return grouped(await read_writes(context, needed))


async def _find_alone(context: Context, ref: CheckpointRef) -> list[StoredCheckpoint]:
    """Read a checkpoint of the life that its thread has, without its writes: together they are too
    large.
    """
    own = {"_id": thread_doc_id(ref.thread_id)}
    threads = await Find(context.checkpoints, own, {"thread_id": 1, "epoch": 1}, limit=1)
    place = place_of(ref) | {"epoch": living_epoch(ref.thread_id, threads)}
    return await read_checkpoints(context, await _find(context, ListQuery(place), None, 1))


SENDS_FROM: Document = {
    "$addFields": {
        "sends_from": {
            "$cond": [{"$eq": ["$sends_in_parent", True]}, "$parent_checkpoint_id", None]
        }
    }
}
"""The stage that says which checkpoint an old one left its pending sends with."""


def _joined_writes(context: Context, ref: CheckpointRef) -> list[Document]:
    """Return the stages that join to a checkpoint its first writes, and those of the one that has
    its pending sends: a range of ids, since an index serves that (from MongoDB 5.0 on; 4.4 looks
    through the writes of the namespace).
    """
    place: Document = {"thread_id": ref.thread_id, "checkpoint_ns": ref.checkpoint_ns}
    bounds = [{"$gte": ["$checkpoint_id", "$$first"]}, {"$lte": ["$checkpoint_id", "$$last"]}]
    lookup = {
        "from": context.writes,
        "let": {"first": {"$ifNull": ["$sends_from", "$checkpoint_id"]}, "last": "$checkpoint_id"},
        "pipeline": [{"$match": {**place, "$expr": {"$and": bounds}}}, {"$limit": MOST_JOINED}],
        "as": "pending_writes",
    }
    return [SENDS_FROM, {"$lookup": lookup}]


async def page(
    context: Context,
    query: ListQuery,
    after: Position | None = None,
    size: int = FIRST_PAGE,
    given: int = 0,
) -> Page:
    """Return the next checkpoints of a listing, newest first, behind `after`.

    A page is one closed batch: between two pages nothing is open on the server. Four round trips at
    most, two where the caches hold the chunks.

    Args:
        context: Of the saver.
        query: Which checkpoints.
        after: The last checkpoint that was read before.
        size: How many to read.
        given: How many of them the pages before gave.
    """
    wanted = size if query.limit is None else min(size, query.limit - given)
    if wanted <= 0:
        return Page([], None)
    found = await _read_page(context, query, after, size if query.filter else wanted)
    if not found.count and after is None:
        await ensure_ours(context)
    chosen = found.up_to(wanted)
    restored = await _undamaged(context, chosen.matching, partial(_restore, context))
    given += len(restored)
    is_last = chosen.is_last or given == query.limit
    grown = min(max(1, found.count) * 4, LARGEST_PAGE)
    next_page = partial(page, context, query, chosen.position, grown, given)
    return Page([one.tuple for one in restored], None if is_last else next_page)


@dataclass(frozen=True, slots=True)
class Found:
    """Checkpoints that were read.

    Attributes:
        matching: Those that match, of as many as a page may decode.
        count: How many that are.
        position: The last of them.
        is_last: Whether there are no more.
    """

    matching: list[StoredCheckpoint]
    count: int
    position: Position | None
    is_last: bool

    def up_to(self, wanted: int) -> Found:
        """Return the first that match, and the position behind them."""
        if len(self.matching) <= wanted:
            return self
        matching = self.matching[:wanted]
        return Found(matching, self.count, Position.at(matching[-1].ref), is_last=False)


async def _read_page(
    context: Context, query: ListQuery, after: Position | None, size: int
) -> Found:
    documents = await _find(context, query, after, size)
    stored = await read_undamaged(context, documents)
    near = _within(stored, PAGE_BYTES)
    matching = await _undamaged(context, near, partial(_matching, context, query.filter))
    if len(near) < len(stored):
        return Found(matching, len(near), Position.at(near[-1].ref), is_last=False)
    position = Position.of(documents[-1]) if documents else after
    return Found(matching, len(near), position, is_last=len(documents) < size)


async def _undamaged(
    context: Context,
    stored: Sequence[StoredCheckpoint],
    read: Callable[[Sequence[StoredCheckpoint]], Plan[list[T]]],
) -> list[T]:
    """Return what `read` makes of checkpoints; where that meets damage, of one after the other,
    without the damaged.
    """
    try:
        return await read(stored)
    except UNREADABLE:
        found: list[T] = []
        for one in stored:
            with context.caches.damage.left_out(checkpoint_doc_id(one.ref)):
                found += await _read_again(context, one, read)
        return found


async def _read_again(
    context: Context,
    record: StoredCheckpoint,
    read: Callable[[Sequence[StoredCheckpoint]], Plan[list[T]]],
) -> list[T]:
    """Read one checkpoint; one whose chunk is gone because it was removed meanwhile is absent."""
    try:
        return await read([record])
    except MissingChunkError:
        await _reread(context, record.ref, {})
        return []


async def names_in_metadata(
    context: Context, thread_id: str, epoch: object, wanted: Mapping[str, Any]
) -> bool:
    """Say whether any checkpoint of a life of a thread, hidden and expired ones included, has what
    is wanted.

    Raises:
        CorruptDataError: None has, and one cannot be read.
    """
    place = {"thread_id": thread_id, "hidden": {"$in": [VISIBLE, True]}, "epoch": {"$eq": epoch}}
    query, after = ListQuery(place, filter=wanted), None
    while documents := await _find(context, query, after, LARGEST_PAGE):
        if await _matching(context, wanted, await read_checkpoints(context, documents)):
            return True
        after = Position.of(documents[-1])
    return False


async def _find(
    context: Context, query: ListQuery, after: Position | None, limit: int
) -> list[Document]:
    """Read the documents of a page, in the order of the index that serves the query."""
    merged = query.on_server(after, context.options.metadata_keys)
    return await Find(context.checkpoints, merged, sort=query.sort(), limit=limit)


def _within(records: Sequence[StoredCheckpoint], room: int) -> list[StoredCheckpoint]:
    """Return the first records that together are no larger than `room`, at least one."""
    near: list[StoredCheckpoint] = []
    for record in records:
        room -= record.size
        if near and room < 0:
            break
        near.append(record)
    return near


async def _matching(
    context: Context, filter: Mapping[str, Any] | None, records: Sequence[StoredCheckpoint]
) -> list[StoredCheckpoint]:
    """Return the records whose metadata contains the filter, by what was serialized and not
    by the readable copy.
    """
    if not filter:
        return list(records)
    keys = context.options.metadata_keys
    bodies = await load_bodies(context, records)
    return [
        record
        for record, (_, metadata) in zip(records, bodies, strict=True)
        if matches(metadata, filter, keys)
    ]


async def _restore(
    context: Context, records: Sequence[StoredCheckpoint], writes: Writes | None = None
) -> list[RestoredCheckpoint]:
    """Restore the checkpoints that still live, reading their writes, and with them their threads,
    where not known.

    One that is removed meanwhile is absent.

    Raises:
        CorruptDataError: A checkpoint is there and a chunk of it is not.
    """
    living = [record for record in records if context.is_alive(record.touched_at)]
    if writes is None:
        writes, epochs = await read_pending(context, living)
        living = [record for record in living if epochs.get(record.ref.thread_id) == record.epoch]
    try:
        return await restore(context, living, writes)
    except MissingChunkError:
        found: list[RestoredCheckpoint] = []
        for record in living:
            found += await _reread(context, record.ref, writes)
        return found


async def _reread(context: Context, ref: CheckpointRef, writes: Writes) -> list[RestoredCheckpoint]:
    """Look at a checkpoint and its thread once more: gone means absent, else data is lost."""
    context.caches.invalidate_thread(ref.thread_id)
    threads = await Find(context.checkpoints, thread_query(ref.thread_id), limit=1)
    found = await _find(context, ListQuery(place_of(ref)), None, 1)
    epoch = threads[0].get("epoch") if threads else None
    if not threads or not found or found[0].get("epoch") != epoch:
        return []
    stored = await read_checkpoints(context, found)
    try:
        return await restore(context, stored, _of_life(writes, epoch))
    except MissingChunkError as error:
        raise CorruptDataError(f"{ref} cannot be restored: {error}") from error


def _of_life(writes: Writes, epoch: int | None) -> Writes:
    """Return writes without those whose chunks belong to an ended life of the thread: these ended
    with it.
    """
    return {ref: [one for one in own if one.epoch in (None, epoch)] for ref, own in writes.items()}
