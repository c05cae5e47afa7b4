"""Plans that write: put and put_writes.

The order of writes is the crash safety: chunks first, then the thread, the checkpoint last, all in one
ordered command. What a crash leaves behind is chunks that nothing refers to; prune collects them.

A put refers to chunks that its parent document reaches without writing them again. It may do so only
while the parent is there, and the thread document answers for that: its `generation` changes
whenever anything of the thread is removed, and the command begins by updating the thread under the
generation that the put relies on. Where it is another, the upsert meets the thread's `_id`, the
server refuses it, nothing behind it is written, and the put begins anew with what is there now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, get_checkpoint_metadata
from pymongo.errors import BulkWriteError

from mongomem.checkpoint.addresses import Address, address_of, identifier
from mongomem.checkpoint.caches import Parent, ThreadState
from mongomem.checkpoint.chunks import Stored
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import (
    CHECKPOINT,
    SCHEMA_VERSION,
    checkpoint_key,
    chunk_key,
    thread_key,
    utc,
    value_fields,
)
from mongomem.checkpoint.encoding import BODY, NO_PARENT, Encoded, Serialized, encode, serialize_body, serialize_values
from mongomem.checkpoint.loading import MissingChunkError
from mongomem.checkpoint.metadata import readable
from mongomem.checkpoint.parents import read_parent
from mongomem.checkpoint.threads import (
    ATTEMPTS,
    chunk_writes,
    known_thread,
    new_thread,
    only_duplicates,
    stamp,
    thread_write,
)
from mongomem.commands import BulkWrite, Compute, Document, Find, Replace, Write
from mongomem.errors import CorruptDataError

STEP_METADATA = frozenset({"source", "step", "parents", "run_id", "counters_since_delta_snapshot", "writes"})
"""Metadata that tells of one super-step and not of its thread."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a put stands on: its thread, whether that is known to be there, and its parent."""

    thread: ThreadState
    exists: bool
    parent: Parent


async def put(
    context: Context, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
) -> RunnableConfig:
    """Store a checkpoint; return the config that leads to it.

    One round trip where the caches know thread and parent, two where they do not, and one more for
    each level of names above the first that the parent has. Values are serialized before the first
    of them: what is stored is what was passed, whatever the caller does to it afterwards.
    """
    address = address_of(config)
    child = address.at(identifier("checkpoint id", checkpoint["id"]))
    truth = get_checkpoint_metadata(config, metadata)
    ground = _remembered(context, address)
    values = {BODY: serialize_body(checkpoint, truth, context.codec)}
    known = ground.parent if ground else NO_PARENT
    values |= await Compute(partial(serialize_values, checkpoint, known, context.codec), _size(known))
    for _ in range(ATTEMPTS):
        ground = ground or await _survey(context, address)
        values |= serialize_values(checkpoint, ground.parent, context.codec, done=values)
        encoded = await _encode(checkpoint, values, ground)
        if await _store(context, child, address.checkpoint_id, truth, encoded, ground):
            _remember(context, child, checkpoint, encoded, ground.thread)
            context.state.parents.pop(address)
            await stamp(context, address.thread_id)
            return child.config()
        context.state.forget_thread(address.thread_id)
        ground = None
    raise CorruptDataError(f"{child} could not be stored: its thread changed {ATTEMPTS} times meanwhile")


def _size(parent: Parent) -> int:
    return sum(value.size for value in parent.channels.values())


async def _encode(checkpoint: Checkpoint, values: Mapping[str, Serialized], ground: Ground) -> Encoded:
    work = partial(encode, values, checkpoint, ground.parent, ground.thread.name_key)
    encoded: Encoded = await Compute(work, sum(len(data) for _, data in values.values()))
    return encoded


def _remembered(context: Context, address: Address) -> Ground | None:
    """Return the ground of a put from the caches alone, or None where they do not suffice."""
    thread = context.state.threads.get(address.thread_id)
    if thread is None or not context.lives(thread.stamped_at) or (context.codec.seals and not thread.name_key):
        return None
    if address.checkpoint_id is None:
        return Ground(thread, True, NO_PARENT)
    parent = context.state.parents.get(address)
    if parent is None or parent.generation != thread.generation:
        return None
    return Ground(thread, True, parent)


async def _survey(context: Context, address: Address) -> Ground:
    """Read the ground of a put: the thread and the parent, in one round trip."""
    keys = [thread_key(address.thread_id)]
    if address.checkpoint_id is not None:
        keys.append(checkpoint_key(address))
    query = {"_id": {"$in": keys}, "thread_id": address.thread_id}
    found = {document["_id"]: document for document in await Find(context.checkpoints, query)}
    thread_document, parent_document = found.get(keys[0]), found.get(keys[-1]) if keys[1:] else None
    thread = known_thread(context, thread_document) or new_thread(context)
    parent = NO_PARENT
    if parent_document is not None and parent_document.get("epoch") == thread.epoch:
        parent = await _usable_parent(context, address, parent_document, thread)
    return Ground(thread, thread_document is not None, parent)


async def _usable_parent(context: Context, address: Address, document: Document, thread: ThreadState) -> Parent:
    if not context.lives(utc(document["touched_at"])):
        return NO_PARENT
    try:
        return await read_parent(context, address, document, thread.generation)
    except MissingChunkError:
        return NO_PARENT


async def _store(
    context: Context,
    child: Address,
    parent_id: str | None,
    truth: CheckpointMetadata,
    encoded: Encoded,
    ground: Ground,
) -> bool:
    """Write a put in one ordered command; say whether its ground held."""
    now = context.now()
    writes: list[Write] = chunk_writes(context, child.thread_id, encoded.chunks, ground.thread.epoch, now)
    fields = _thread_fields(context, truth, now)
    writes.append(thread_write(context, child.thread_id, ground.thread, fields))
    writes.append(_checkpoint_write(context, child, parent_id, truth, encoded, ground.thread, now))
    try:
        reply = await BulkWrite(context.checkpoints, writes)
    except BulkWriteError as error:
        if only_duplicates(error):
            return False
        raise
    # Where a thread that was there has been made anew, somebody dropped it whole, and its chunks with it.
    return not (ground.exists and len(writes) - 2 in (reply.upserted_ids or {}))


def _thread_fields(context: Context, truth: CheckpointMetadata, now: datetime) -> Document:
    """Return what a put says of its thread: that it was used, and the metadata that is not of a step.

    Keys with an index stay once they were given; of the others the newest put's count, so that the document is bounded.
    """
    own = {key: value for key, value in truth.items() if key not in STEP_METADATA}
    clear, _ = readable(own, context.clear_metadata)
    lasting = [key for key in context.options.metadata_keys if key in clear]
    fields: Document = {f"metadata.{key}": clear.pop(key) for key in lasting}
    return {"updated_at": now, "last_metadata": clear, **fields}


def _checkpoint_write(
    context: Context,
    child: Address,
    parent_id: str | None,
    truth: CheckpointMetadata,
    encoded: Encoded,
    thread: ThreadState,
    now: datetime,
) -> Replace:
    clear, omitted = readable(truth, context.clear_metadata)
    key = checkpoint_key(child)
    body, channels = encoded.body, encoded.channels
    content = b"".join([body.ends, *(value.ends for value in channels.values())])
    document: Document = {
        "_id": key,
        "type": CHECKPOINT,
        "thread_id": child.thread_id,
        "checkpoint_ns": child.checkpoint_ns,
        "checkpoint_id": child.checkpoint_id,
        "parent_checkpoint_id": parent_id,
        "created_at": now,
        "touched_at": now,
        "schema_version": SCHEMA_VERSION,
        "epoch": thread.epoch,
        "metadata": clear,
        **({"metadata_omitted": omitted} if omitted else {}),
        **({"sends_in_parent": True} if encoded.is_old else {}),
        "body": _described(body),
        "channels": [{"channel": channel, **_described(value)} for channel, value in channels.items()],
        "content": context.codec.seal(content),
    }
    return Replace({"_id": key, "thread_id": child.thread_id}, document)


def _described(value: Stored) -> Document:
    return {**value_fields(value), "length": len(value.ends)}


def _remember(context: Context, child: Address, checkpoint: Checkpoint, encoded: Encoded, thread: ThreadState) -> None:
    """Keep what the next put and the next read will need."""
    for name, piece in encoded.chunks.items():
        context.state.chunks.put(chunk_key(child.thread_id, name), piece)
    parent = Parent(dict(checkpoint["channel_versions"]), encoded.channels, encoded.known, thread.generation)
    context.state.parents.put(child, parent)
    context.state.threads.put(child.thread_id, thread)
