"""The plan that stores pending writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP
from pymongo.errors import BulkWriteError

from mongomem.arguments import checked_list, shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import StoredWrite, encode_write
from mongomem.checkpoint.documents.collections import chunk_doc_id
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
from mongomem.checkpoint.serde.chunks import ChunkedValue, StoredValue, chunk_value, inline_value
from mongomem.engine.commands import Document, Replace, Update, Write
from mongomem.engine.effects import Compute
from mongomem.engine.writes import (
    InsertCommand,
    OutcomeUnknownError,
    bulk_upsert,
    is_duplicate_key_only,
)
from mongomem.errors import InvalidInputError

INLINE_WRITE_BYTES = 64 * 1024
"""A write up to this long is one document; a longer one is chunks, as a channel is."""


MOST_INSERTED = 8
"""How many writes one command inserts that the driver does not cut: each is below 2 MB, with
identifiers as long as they may be."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a super-step, and the checkpoint that it began from."""

    ref: CheckpointRef
    task_id: str
    task_path: str


@dataclass(frozen=True, slots=True)
class SerializedWrite:
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

    The values are serialized before the first command, so what is stored is what was passed. Chunks
    are stored before the writes that refer to them. The checkpoint is not read: LangGraph may store
    it later, and a write without one is removed with the garbage of its thread.
    """
    ref = ref_of_config(config)
    if ref.checkpoint_id is None:
        raise InvalidInputError("config has no checkpoint_id: writes belong to one checkpoint")
    task = Task(ref, identifier("task_id", task_id), identifier("task_path", task_path))
    await store_writes(context, task, _serialized(context, writes))


async def store_writes(context: Context, task: Task, serialized: Sequence[SerializedWrite]) -> None:
    """Store the serialized writes of a task beside its checkpoint, see `put_writes`."""
    if not serialized:
        return
    ref = task.ref
    await ensure_setup(context)
    await _touch(context, ref.thread_id)
    values, epoch = await _chunked(context, ref.thread_id, serialized)
    now = context.now()
    stored = [
        _stored_write(task, one, value, epoch, now)
        for one, value in zip(serialized, values, strict=True)
    ]
    await _insert_or_upsert(context, ref.thread_id, _documents(context, ref.thread_id, stored))


def _stored_write(
    task: Task, write: SerializedWrite, value: StoredValue, epoch: int | None, now: datetime
) -> StoredWrite:
    own_epoch = epoch if value.hash_levels else None
    return StoredWrite(
        task.ref, task.task_id, task.task_path, write.idx, write.channel, value, own_epoch, now
    )


def _documents(context: Context, thread_id: str, stored: Sequence[StoredWrite]) -> list[Document]:
    """Return the documents of pending writes, compressed where the newest put of their thread
    was.
    """
    thread = context.caches.threads.get(thread_id)
    compress = thread is None or thread.compress
    return [encode_write(one, context.serializer, compress=compress) for one in stored]


async def _insert_or_upsert(
    context: Context, thread_id: str, documents: Sequence[Document]
) -> None:
    """Store pending writes.

    Regular writes are inserted: nearly always none of them is there. Where one is, or nobody knows
    what was done, all are upserted, which leaves those alone that are there.
    """
    if len(documents) <= MOST_INSERTED and all(one["idx"] >= 0 for one in documents):
        try:
            await InsertCommand(context.writes, documents)
            return
        except BulkWriteError as error:
            if not is_duplicate_key_only(error):
                raise
        except OutcomeUnknownError:
            pass
    await _upsert(context, context.writes, thread_id, [_upsert_of(one) for one in documents])


def _upsert_of(document: Document) -> Write:
    """Return the write of a pending write: a regular one stays where it is there already."""
    place = {field: document[field] for field in ("_id", "thread_id")}
    if document["idx"] < 0:
        return Replace(place, document)
    others = {field: value for field, value in document.items() if field not in place}
    return Update(place, {"$setOnInsert": others}, upsert=True)


async def _upsert(
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


def _serialized(context: Context, writes: Sequence[tuple[str, Any]]) -> list[SerializedWrite]:
    """Serialize writes; of several to one special channel the last counts."""
    found: dict[int, SerializedWrite] = {}
    for position, write in enumerate(checked_list("writes", writes)):
        name, value = _checked_pair(write)
        channel = channel_name(name)
        idx = WRITES_IDX_MAP.get(channel, position)
        data = serialized(context.serializer, "a write to channel %s", channel, value)
        found[idx] = SerializedWrite(idx, channel, data)
    return list(found.values())


def _checked_pair(write: object) -> tuple[Any, Any]:
    pair = write if type(write) is tuple else tuple(checked_list("a write", write))
    if len(pair) != 2:
        raise InvalidInputError(f"a write is a channel and a value, not {shown(write)}")
    return pair[0], pair[1]


async def _touch(context: Context, thread_id: str) -> None:
    if context.ttl is not None and (thread := await read_thread(context, thread_id)) is not None:
        await touch(context, thread_id, thread)


async def _chunked(
    context: Context, thread_id: str, writes: Sequence[SerializedWrite]
) -> tuple[list[StoredValue], int | None]:
    """Cut what is long, and store its chunks under an epoch of the thread, which is returned; the
    rest stays inline.
    """
    sizes = [len(one.value[1]) for one in writes]
    if max(sizes) <= INLINE_WRITE_BYTES:
        return [inline_value(*one.value).stored for one in writes], None
    thread = await ensure_thread(context, thread_id)
    values = await Compute(partial(_cut_long, writes, thread.name_key), sum(sizes))
    await _store_chunks(context, thread_id, thread.epoch, values)
    return [value.stored for value in values], thread.epoch


async def _store_chunks(
    context: Context, thread_id: str, epoch: int, cuts: Sequence[ChunkedValue]
) -> None:
    chunks = {name: piece for made in cuts for name, piece in made.chunks.items()}
    writes = chunk_writes(context, thread_id, chunks, epoch)
    await _upsert(context, context.checkpoints, thread_id, writes)
    for name, piece in chunks.items():
        context.caches.chunks.put(chunk_doc_id(thread_id, name), piece)


def _cut_long(writes: Sequence[SerializedWrite], key: bytes) -> list[ChunkedValue]:
    return [
        chunk_value(*one.value, key)
        if len(one.value[1]) > INLINE_WRITE_BYTES
        else inline_value(*one.value)
        for one in writes
    ]
