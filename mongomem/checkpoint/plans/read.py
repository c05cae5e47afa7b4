"""Plans that read: get_tuple, and the pages of list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from pymongo.errors import OperationFailure

from mongomem.arguments import checked_number
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.damage import UNREADABLE
from mongomem.checkpoint.documents import config as configs
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    VISIBLE,
    checkpoint_doc_id,
    living_epoch,
    newest_stages,
    place_of,
    thread_doc_id,
    thread_stage,
)
from mongomem.checkpoint.documents.config import CheckpointRef, ref_of_config
from mongomem.checkpoint.documents.identity import matches, narrowed
from mongomem.checkpoint.documents.metadata import checked_filter
from mongomem.checkpoint.documents.position import Position
from mongomem.checkpoint.plans.load import (
    MissingChunkError,
    Placed,
    load,
    read_records,
    read_writes,
    revive_body,
    sound_records,
)
from mongomem.checkpoint.plans.restore import (
    RestoredCheckpoint,
    Writes,
    grouped,
    read_pending,
    restore,
)
from mongomem.checkpoint.plans.setup import ensure_ours
from mongomem.checkpoint.plans.thread_state import thread_query
from mongomem.engine.commands import Aggregate, Document, Find, Plan
from mongomem.errors import CorruptDataError, InvalidInputError

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
class ListQuery:
    """Which checkpoints a listing is about, checked.

    Attributes:
        place: Equalities on thread, namespace and checkpoint, as far as they are given.
        before: Only checkpoints with an id below this one.
        filter: What the metadata must contain.
        limit: How many to give, None for all.
    """

    place: Document
    before: str | None = None
    filter: Mapping[str, Any] | None = None
    limit: int | None = None


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
    further level of names. One more also for many pending writes.
    """
    address = ref_of_config(config)
    thread = context.state.threads.get(
        address.thread_id
    )  # before the read: what it vouches for comes after it
    records, writes = await _find_with_writes(context, address)
    if not records and address.checkpoint_id is not None:
        await _check_absent(context, address)
    restored = await _restore(context, records, writes)
    for one in restored:
        context.state.cache_parent(
            one.record.address, one.as_parent(thread.generation if thread else None)
        )
    if not restored:
        await ensure_ours(context)
        return None
    return restored[0].tuple


async def _check_absent(context: Context, address: CheckpointRef) -> None:
    """Look for a checkpoint that was not found by its fields by its `_id`: is it hidden, gone, or
    damaged?

    Raises:
        CorruptDataError: Its document is there, and says to be another one.
    """
    await read_records(
        context, await Find(context.checkpoints, {"_id": checkpoint_doc_id(address)}, limit=1)
    )


async def _find_with_writes(
    context: Context, address: CheckpointRef, epoch: int | None = None
) -> tuple[list[StoredCheckpoint], Writes | None]:
    """Read a checkpoint, its writes and its thread at once; None for the writes that have to be
    read by themselves.

    Where what is found is of a life of the thread that has ended, what lives is looked for by its
    epoch.
    """
    joined = [
        _joined_writes(context, address),
        thread_stage(context.options.collections, address.thread_id),
    ]
    try:
        documents = await Aggregate(context.checkpoints, [*newest_stages(address, epoch), *joined])
    except OperationFailure as error:
        if error.code != TOO_LARGE:
            raise
        return await _find_alone(context, address), None
    records = await read_records(context, documents)
    for record, document in zip(records, documents, strict=True):
        living = living_epoch(address.thread_id, document["thread"])
        if record.epoch != living:
            return (
                ([], {})
                if living in (None, epoch)
                else await _find_with_writes(context, address, living)
            )
    return records, await _joined_pending(context, records, documents)


async def _joined_pending(
    context: Context, records: Sequence[StoredCheckpoint], documents: Sequence[Document]
) -> Writes | None:
    """Read the writes that were joined to checkpoints; None where there may be more."""
    writes = [write for document in documents for write in document["pending_writes"]]
    if len(writes) == MOST_JOINED or any(record.sends_in_parent for record in records):
        return None
    return grouped(await read_writes(context, writes))


async def _find_alone(context: Context, address: CheckpointRef) -> list[StoredCheckpoint]:
    """Read a checkpoint of the life that its thread has, without its writes: together they are too
    large.
    """
    own = {"_id": thread_doc_id(address.thread_id)}
    threads = await Find(context.checkpoints, own, {"thread_id": 1, "epoch": 1}, limit=1)
    place = place_of(address) | {"epoch": living_epoch(address.thread_id, threads)}
    return await read_records(context, await _find(context, ListQuery(place), None, 1))


def _joined_writes(context: Context, address: CheckpointRef) -> Document:
    """Return the stage that joins the first writes of a checkpoint to its document."""
    place: Document = {"thread_id": address.thread_id, "checkpoint_ns": address.checkpoint_ns}
    own = {"$match": {**place, "$expr": {"$eq": ["$checkpoint_id", "$$checkpoint_id"]}}}
    let, pipeline = {"checkpoint_id": "$checkpoint_id"}, [own, {"$limit": MOST_JOINED}]
    return {
        "$lookup": {
            "from": context.writes,
            "let": let,
            "pipeline": pipeline,
            "as": "pending_writes",
        }
    }


def checked_query(
    config: RunnableConfig | None, filter: object, before: RunnableConfig | None, limit: object
) -> ListQuery:
    """Check the arguments of ``list``.

    Raises:
        InvalidInputError: For a negative limit, or an argument that is not what LangGraph
            documents.
    """
    most = None if limit is None else checked_number("limit", limit)
    bound = (
        configs.optional_identifier(
            "checkpoint_id", configs.configurable(before).get("checkpoint_id")
        )
        if before is not None
        else None
    )
    return ListQuery(_listed_place(config), bound, checked_filter(filter), most)


def _listed_place(config: RunnableConfig | None) -> Document:
    """Return the equalities of a listing: without a namespace it is about all of the thread's.

    Only None lists across threads: a config whose thread_id was forgotten would show one user the
    threads of all.
    """
    if config is None:
        return {}
    part = configs.configurable(config)
    if part.get("thread_id") is None:
        raise InvalidInputError(
            "config has no thread_id: pass one, or None as the config to list across all threads"
        )
    place: Document = {"thread_id": configs.given_thread(part["thread_id"])}
    if part.get("checkpoint_ns") is not None:
        place["checkpoint_ns"] = configs.identifier("checkpoint_ns", part["checkpoint_ns"])
    if (
        checkpoint_id := configs.optional_identifier("checkpoint_id", part.get("checkpoint_id"))
    ) is not None:
        place["checkpoint_id"] = checkpoint_id
    return place


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
    """
    wanted = size if query.limit is None else min(size, query.limit - given)
    if wanted <= 0:
        return Page([], None)
    found = await _read_page(context, query, after, size if query.filter else wanted)
    if not found.count and after is None:
        await ensure_ours(context)
    chosen = found.up_to(wanted)
    tuples = [
        one.tuple for one in await _sound(context, chosen.matching, partial(_restore, context))
    ]
    given += len(tuples)
    if chosen.is_last or (query.limit is not None and given >= query.limit):
        return Page(tuples, None)
    grown = min(max(1, found.count) * 4, LARGEST_PAGE)
    return Page(tuples, lambda: page(context, query, chosen.position, grown, given))


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
        return Found(matching, self.count, Position.at(matching[-1].address), is_last=False)


async def _read_page(
    context: Context, query: ListQuery, after: Position | None, size: int
) -> Found:
    documents = await _find(context, query, after, size)
    records = await sound_records(context, documents)
    near = _within(records, PAGE_BYTES)
    matching = await _sound(context, near, partial(_matching, context, query.filter))
    if len(near) < len(records):
        return Found(matching, len(near), Position.at(near[-1].address), is_last=False)
    position = Position.of(documents[-1]) if documents else after
    return Found(matching, len(near), position, is_last=len(documents) < size)


async def _sound(
    context: Context,
    records: Sequence[StoredCheckpoint],
    read: Callable[[Sequence[StoredCheckpoint]], Plan[list[T]]],
) -> list[T]:
    """Return what `read` makes of checkpoints; where that meets damage, of one after the other,
    without the damaged.
    """
    try:
        return await read(records)
    except UNREADABLE:
        found: list[T] = []
        for record in records:
            with context.state.damage.left_out(checkpoint_doc_id(record.address)):
                found += await _read_again(context, record, read)
        return found


async def _read_again(
    context: Context,
    record: StoredCheckpoint,
    read: Callable[[Sequence[StoredCheckpoint]], Plan[list[T]]],
) -> list[T]:
    """Read one checkpoint; one whose chunk is missing because it was removed meanwhile is
    absent.
    """
    try:
        return await read([record])
    except MissingChunkError:
        await _reread(context, record.address, {})
        return []


async def names_in_truth(
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
        if await _matching(context, wanted, await read_records(context, documents)):
            return True
        after = Position.of(documents[-1])
    return False


async def _find(
    context: Context, query: ListQuery, after: Position | None, limit: int
) -> list[Document]:
    """Read the documents of a page, in the order of the index that serves the query."""
    keys = context.options.metadata_keys
    conditions = [
        {"type": CHECKPOINT, "hidden": VISIBLE, **query.place},
        *narrowed(query.filter or {}, keys),
    ]
    if query.before is not None:
        conditions.append({"checkpoint_id": {"$lt": query.before}})
    if after is not None:
        conditions.append(after.behind())
    order = [("checkpoint_id", -1), ("thread_id", 1), ("checkpoint_ns", 1)]
    sort = [(field, direction) for field, direction in order if field not in query.place]
    merged = {"$and": [condition for condition in conditions if condition]}
    return await Find(context.checkpoints, merged, sort=sort or None, limit=limit)


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
    """Return the records whose metadata contains the filter, by the truth and not by the readable
    copy.
    """
    if not filter:
        return list(records)
    keys = context.options.metadata_keys
    bodies = await load(context, [Placed(record.address, record.body) for record in records])
    return [
        record
        for record, body in zip(records, bodies, strict=True)
        if matches(
            revive_body(context, record.address, record.body, body.data).metadata, filter, keys
        )
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
        living = [
            record for record in living if epochs.get(record.address.thread_id) == record.epoch
        ]
    try:
        return await restore(context, living, writes)
    except MissingChunkError:
        found: list[RestoredCheckpoint] = []
        for record in living:
            found += await _reread(context, record.address, writes)
        return found


async def _reread(
    context: Context, address: CheckpointRef, writes: Writes
) -> list[RestoredCheckpoint]:
    """Look at a checkpoint and its thread once more: gone means absent, else data is lost."""
    context.state.invalidate_thread(address.thread_id)
    threads = await Find(context.checkpoints, thread_query(address.thread_id), limit=1)
    found = await _find(context, ListQuery(place_of(address)), None, 1)
    if not threads or not found or found[0].get("epoch") != threads[0].get("epoch"):
        return []
    # A long write whose chunks belong to an ended life of the thread ended with it.
    epochs = (None, threads[0].get("epoch"))
    living = {
        place: [write for write in own if write.epoch in epochs] for place, own in writes.items()
    }
    try:
        return await restore(context, await read_records(context, found), living)
    except MissingChunkError as error:
        raise CorruptDataError(f"{address} cannot be restored: {error}") from error
