"""The plan that stores pending writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP
from pymongo.errors import BulkWriteError

from mongomem.arguments import checked_list, shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.collections import (
    SCHEMA_VERSION,
    chunk_doc_id,
    value_fields,
    write_doc_id,
)
from mongomem.checkpoint.documents.config import (
    CheckpointRef,
    channel_name,
    identifier,
    ref_of_config,
)
from mongomem.checkpoint.plans.setup import ensure_setup
from mongomem.checkpoint.plans.thread_state import (
    chunk_writes,
    contention_error,
    ensure_thread,
    read_thread,
    touch,
)
from mongomem.checkpoint.serde.channels import Serialized, serialized
from mongomem.checkpoint.serde.chunks import ChunkedValue, chunk_value, inline_value
from mongomem.checkpoint.serde.place_digest import write_binding
from mongomem.checkpoint.serde.serializer import LONGEST_PACKED
from mongomem.engine.commands import Document, Replace, Update, Write
from mongomem.engine.effects import Compute
from mongomem.engine.upserts import bulk_upsert, is_duplicate_key_only
from mongomem.errors import InvalidInputError

INLINE_BYTES = 64 * 1024
"""A write up to this long is one document; a longer one is chunks, as a channel is."""


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """One write of a task, serialized."""

    idx: int
    channel: str
    value: Serialized


async def put_writes(
    context: Context,
    config: RunnableConfig,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
) -> None:
    """Store the writes of a task beside its checkpoint, which may be stored later or not yet.

    The first regular write of (task, index) wins; a write to a special channel (``WRITES_IDX_MAP``)
    replaces the one before it. One round trip, and one or two more where a write is longer than
    64 KB. Repeating it changes nothing.
    """
    address = ref_of_config(config)
    if address.checkpoint_id is None:
        raise InvalidInputError("config has no checkpoint_id: writes belong to one checkpoint")
    task, path = identifier("task_id", task_id), identifier("task_path", task_path)
    await store_writes(context, address, task, path, _serialized(context, writes))


async def store_writes(
    context: Context, address: CheckpointRef, task: str, path: str, pending: Sequence[PendingWrite]
) -> None:
    """Store the serialized writes of a task beside its checkpoint, see `put_writes`."""
    if not pending:
        return
    await ensure_setup(context)
    await _stamp(context, address.thread_id)
    cuts, epoch = await _cut(context, address.thread_id, pending)
    place = Place(address, task, path, epoch, _longest_packed(context, address.thread_id))
    documents = [_write(context, place, one, made) for one, made in zip(pending, cuts, strict=True)]
    await _store(context, context.writes, address.thread_id, documents)


def _longest_packed(context: Context, thread_id: str) -> int:
    """Return up to which length a write is packed: not at all in a thread whose state is known to
    be short.
    """
    thread = context.state.threads.get(thread_id)
    return 0 if thread is not None and thread.is_short else LONGEST_PACKED


async def _store(
    context: Context, collection: str, thread_id: str, writes: Sequence[Write]
) -> None:
    """Write documents of a thread.

    Raises:
        CorruptDataError: One that stands in their place says to be of another thread.
    """
    try:
        await bulk_upsert(collection, writes)
    except BulkWriteError as error:
        if is_duplicate_key_only(error):
            raise await contention_error(context, thread_id) from error
        raise


def _serialized(context: Context, writes: Sequence[tuple[str, Any]]) -> list[PendingWrite]:
    """Serialize writes; of several to one special channel the last counts."""
    found: dict[int, PendingWrite] = {}
    for position, write in enumerate(checked_list("writes", writes)):
        pair = write if type(write) is tuple else tuple(checked_list("a write", write))
        if len(pair) != 2:
            raise InvalidInputError(f"a write is a channel and a value, not {shown(write)}")
        channel = channel_name(pair[0])
        idx = WRITES_IDX_MAP.get(channel, position)
        found[idx] = PendingWrite(
            idx, channel, serialized(context.codec, "a write to channel %s", channel, pair[1])
        )
    return list(found.values())


async def _stamp(context: Context, thread_id: str) -> None:
    if context.ttl is not None and (thread := await read_thread(context, thread_id)) is not None:
        await touch(context, thread_id, thread)


async def _cut(
    context: Context, thread_id: str, pending: Sequence[PendingWrite]
) -> tuple[list[ChunkedValue], int | None]:
    """Cut what is long, and store its chunks under an epoch of the thread, which is returned; the
    rest stays inline.
    """
    if all(len(one.value[1]) <= INLINE_BYTES for one in pending):
        return [inline_value(*one.value) for one in pending], None
    thread = await ensure_thread(context, thread_id)
    work = partial(_cut_long, pending, thread.name_key)
    cuts = await Compute(work, sum(len(one.value[1]) for one in pending))
    await _store_chunks(context, thread_id, thread.epoch, cuts)
    return cuts, thread.epoch


async def _store_chunks(
    context: Context, thread_id: str, epoch: int, cuts: Sequence[ChunkedValue]
) -> None:
    chunks = {name: piece for made in cuts for name, piece in made.chunks.items()}
    writes = chunk_writes(context, thread_id, chunks, epoch, context.now())
    await _store(context, context.checkpoints, thread_id, writes)
    for name, piece in chunks.items():
        context.state.chunks.put(chunk_doc_id(thread_id, name), piece)


def _cut_long(pending: Sequence[PendingWrite], key: bytes) -> list[ChunkedValue]:
    return [
        chunk_value(*one.value, key)
        if len(one.value[1]) > INLINE_BYTES
        else inline_value(*one.value)
        for one in pending
    ]


@dataclass(frozen=True, slots=True)
class Place:
    """Whose writes they are, the epoch of the thread that their chunks belong to, and how long
    packed ones may be.
    """

    address: CheckpointRef
    task_id: str
    task_path: str
    epoch: int | None
    longest_packed: int


def _write(context: Context, place: Place, one: PendingWrite, made: ChunkedValue) -> Write:
    address = place.address
    condition: Document = {
        "_id": write_doc_id(address, place.task_id, one.idx),
        "thread_id": address.thread_id,
    }
    epoch = place.epoch if made.stored.names else None
    binding = write_binding(
        address.place, place.task_id, place.task_path, one.idx, one.channel, epoch, made.stored
    )
    fields: Document = {
        "checkpoint_ns": address.checkpoint_ns,
        "checkpoint_id": address.checkpoint_id,
        "task_id": place.task_id,
        "task_path": place.task_path,
        "idx": one.idx,
        "channel": one.channel,
        "touched_at": context.now(),
        "schema_version": SCHEMA_VERSION,
        **({} if epoch is None else {"epoch": epoch}),
        **value_fields(made.stored),
        **context.codec.seal(made.stored.ends, binding, place.longest_packed),
    }
    if one.idx < 0:
        return Replace(condition, condition | fields)
    return Update(condition, {"$setOnInsert": fields}, upsert=True)
