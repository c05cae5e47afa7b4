"""The plan of put.

The order of writes is the crash safety: chunks first, then the thread, the checkpoint last, all in
one ordered command. What a crash leaves behind is chunks that nothing refers to; prune collects
them.

A put refers to chunks that its parent document reaches without writing them again. It may do so
only while the parent is there, and the thread document answers for that: its `generation` changes
whenever anything of the thread is removed, and the command begins by updating the thread under the
generation that the put relies on. Where it is another, the upsert meets the thread's `_id`, the
server refuses it, nothing behind it is written, and the put begins anew with what is there now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata
from pymongo.errors import BulkWriteError

from mongomem.arguments import checked_mapping, shown
from mongomem.checkpoint.caches import ThreadState
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    SCHEMA_VERSION,
    checkpoint_doc_id,
    chunk_doc_id,
    thread_doc_id,
    value_fields,
)
from mongomem.checkpoint.documents.config import (
    CheckpointRef,
    channel_name,
    identifier,
    ref_of_config,
)
from mongomem.checkpoint.documents.identity import (
    LONGEST_IDENTITY,
    Member,
    Named,
    identified,
    identity,
    member,
    named,
)
from mongomem.checkpoint.documents.metadata import STEP_METADATA, queryable_copy
from mongomem.checkpoint.documents.preview import preview_of
from mongomem.checkpoint.plans.delete import clean_now_and_then
from mongomem.checkpoint.plans.load import (
    MissingChunkError,
    Placed,
    load,
    read_records,
    resolve_hash_lists,
    revive_body,
)
from mongomem.checkpoint.plans.setup import ensure_setup
from mongomem.checkpoint.plans.thread_state import (
    MAX_ATTEMPTS,
    ThreadUse,
    backoff,
    chunk_writes,
    contention_error,
    known_thread,
    members_after,
    new_thread,
    suffices,
    thread_write,
    touch,
)
from mongomem.checkpoint.serde.channels import (
    BODY,
    NO_PARENT,
    EncodedCheckpoint,
    ParentState,
    Serialized,
    encode,
    serialize_body,
    serialize_values,
)
from mongomem.checkpoint.serde.chunks import LONGEST_SMALL, ParentChunks, StoredValue
from mongomem.checkpoint.serde.copies import detached, detached_values, own_copy
from mongomem.checkpoint.serde.place_digest import checkpoint_binding
from mongomem.checkpoint.serde.serializer import LONGEST_PACKED
from mongomem.checkpoint.serde.size_estimate import size_to_serialize
from mongomem.engine.commands import BulkWrite, Document, Find, Replace
from mongomem.engine.effects import Compute
from mongomem.engine.upserts import is_duplicate_key_only
from mongomem.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Put:
    """What is to be stored: a checkpoint, where, on which parent, its metadata in full, and what
    lists show of it.
    """

    child: CheckpointRef
    parent_id: str | None
    checkpoint: Checkpoint
    named: Named
    preview: Mapping[str, str | None]

    @property
    def truth(self) -> CheckpointMetadata:
        return self.named.truth


async def put(
    context: Context,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    given: Mapping[str, Serialized] | None = None,
) -> RunnableConfig:
    """Store a checkpoint; return the config that leads to it.

    One round trip where the caches know thread and parent, two where they do not, and one more for
    each level of names above the first that the parent has. Values are serialized before the first
    of them, or copied where that takes long: what is stored is what was passed, whatever the caller
    does to it afterwards. Only where the parent turns out to be gone, what it was relied on for is
    serialized then.

    The caches are trusted without a read, because the thread document answers for them: its
    generation is a condition of the command that writes. Reading thread and parent first would cost
    every put a round trip, and spare a few a second attempt.

    Of a checkpoint that was serialized before, `given` are the bytes of its body and of all its
    channels: they are stored as they are.

    Raises:
        ContentionError: Others changed the thread at the same time, again and again.
    """
    address = ref_of_config(config)
    checkpoint = checked_checkpoint(checkpoint)
    task = _task(context, config, address, checkpoint, metadata)
    ground = base_from_cache(context, address)
    parent = ground.parent if ground else NO_PARENT
    values = dict(given or await _serialized(context, checkpoint, task.truth, parent))
    await ensure_setup(context)
    for attempt in range(MAX_ATTEMPTS):
        if ground is None:
            ground = await read_base(context, address)
            values |= serialize_values(task.checkpoint, ground.parent, context.codec, done=values)
        if await _put_on(context, task, values, ground):
            context.state.parents.pop(address)
            await clean_now_and_then(context)
            return task.child.config()
        context.state.invalidate_thread(address.thread_id)
        ground = None
        await backoff(attempt)
    raise await contention_error(context, address.thread_id)


def _task(
    context: Context,
    config: RunnableConfig,
    address: CheckpointRef,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
) -> Put:
    """Return what is to be stored, in copies of its own, of a checkpoint that was checked."""
    child = address.at(identifier("checkpoint id", checkpoint["id"]))
    whole = named(config, metadata, context.options.metadata_keys)
    whole = replace(whole, truth=detached(whole.truth))
    preview = preview_of(checkpoint, address.checkpoint_ns, context.clear_metadata)
    return Put(child, address.checkpoint_id, own_copy(checkpoint), whole, preview)


async def _serialized(
    context: Context, checkpoint: Checkpoint, truth: CheckpointMetadata, parent: ParentState
) -> dict[str, Serialized]:
    """Serialize the body of a checkpoint, and the channels that its parent does not hold."""
    body = serialize_body(checkpoint, truth, context.codec)
    work = partial(serialize_values, parent=parent, codec=context.codec)
    return {BODY: body} | await Compute(
        partial(work, checkpoint),
        partial(size_to_serialize, checkpoint, parent),
        detached=lambda: partial(work, detached_values(checkpoint, parent)),
    )


FIELDS = {"id": str, "v": int, "channel_values": Mapping, "channel_versions": Mapping}


def checked_checkpoint(checkpoint: object) -> Checkpoint:
    """Return a checkpoint with dicts of its own for its fields, values and versions.

    Raises:
        InvalidInputError: A field is missing or of another type, or a channel has no name.
    """
    fields = checked_mapping("checkpoint", checkpoint)
    for field, kind in FIELDS.items():
        if not isinstance(fields.get(field), kind) or isinstance(fields.get(field), bool):
            raise InvalidInputError(f"a checkpoint has a field {field!r} of type {kind.__name__}")
    values, versions = (
        _by_channel(field, fields[field]) for field in ("channel_values", "channel_versions")
    )
    versions = {name: _checked_version(one) for name, one in versions.items()}
    if not (text := str.__str__(fields["id"])):
        raise InvalidInputError("the id of a checkpoint is not empty")
    own = {
        "id": text,
        "v": int.__int__(fields["v"]),
        "channel_values": values,
        "channel_versions": versions,
    }
    return cast("Checkpoint", fields | own)


def _by_channel(field: str, values: object) -> dict[str, Any]:
    """Return values by channel in a dict of its own, its keys checked."""
    return {
        channel_name(name): one
        for name, one in checked_mapping(f"checkpoint {field}", values).items()
    }


def _checked_version(version: object) -> str | int | float:
    """Return a version in its built-in type, whatever a subclass of it does."""
    if isinstance(version, str):
        return str.__str__(version)
    if isinstance(version, float):
        return float.__float__(version)
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInputError(
            f"the version of a channel is a string or a number, not {shown(version)}"
        )
    return int.__int__(version)


async def _put_on(
    context: Context, task: Put, values: Mapping[str, Serialized], ground: PutBase
) -> bool:
    """Encode and store a put; say whether its ground held."""
    thread = await touch(context, task.child.thread_id, ground.thread)
    ground = replace(ground, thread=thread)
    work = partial(encode, values, task.checkpoint, ground.parent, thread.name_key)
    encoded: EncodedCheckpoint = await Compute(work, sum(len(data) for _, data in values.values()))
    use = _thread_use(context, task, thread)
    if not await _store(context, task, encoded, ground, use):
        return False
    _remember(context, task, encoded, replace(thread, members=members_after(thread, use)))
    return True


async def _store(
    context: Context, task: Put, encoded: EncodedCheckpoint, ground: PutBase, use: ThreadUse
) -> bool:
    """Write a put in one ordered command; say whether its ground held."""
    now, thread_id = context.now(), task.child.thread_id
    longest_packed = 0 if encoded.is_short else LONGEST_SMALL
    writes = chunk_writes(
        context, thread_id, encoded.chunks, ground.thread.epoch, now, longest_packed=longest_packed
    )
    writes.append(thread_write(context, thread_id, ground.thread, use))
    writes.append(_checkpoint_write(context, task, encoded, ground, now))
    try:
        reply = await BulkWrite(context.checkpoints, writes)
    except BulkWriteError as error:
        if is_duplicate_key_only(error):
            return False
        raise
    # Where a thread that was there has been made anew, somebody dropped it whole, and its chunks
    # with it.
    return not (ground.exists and len(writes) - 2 in (reply.upserted_ids or {}))


def _thread_use(context: Context, task: Put, thread: ThreadState) -> ThreadUse:
    """Return what a put says of its thread: that it was used, for whom, and the metadata that is
    not of a step.

    What stands under identity keys stays once it was given; of the others the newest put's count,
    so that the document is bounded.
    """
    keys = tuple(dict.fromkeys((*context.options.metadata_keys, *thread.members)))
    own = {
        key: value
        for key, value in identified(task.truth, keys).items()
        if key not in STEP_METADATA
    }
    shown, _ = queryable_copy(own, context.clear_metadata, keys)
    given = {key: shown.pop(key) for key in keys if key in shown}
    lasting = {key: value for key, value in given.items() if value is not None}
    last = {"updated_at": context.now(), "last_metadata": shown, **task.preview}
    return ThreadUse(last, lasting, _members(context, task, thread, own))


def _members(
    context: Context, task: Put, thread: ThreadState, metadata: Mapping[str, Any]
) -> dict[str, list[Member]]:
    """Return whom a put names, by identity key: those of the saver and, in a thread that lives,
    those of the thread.
    """
    own_keys, clear = context.options.metadata_keys, context.clear_metadata
    keys = own_keys if thread.begins else dict.fromkeys((*own_keys, *thread.members))
    ids = {
        key: task.named.by_key[key] if key in own_keys else _named_by(metadata, key) for key in keys
    }
    return {
        key: [
            member(text, thread.name_key, is_clear=clear is None or key in clear) for text in texts
        ]
        for key, texts in ids.items()
    }


def _named_by(metadata: Mapping[str, Any], key: str) -> list[str]:
    """Return whom metadata names under a key that only others have declared."""
    text = identity(metadata.get(key))
    return [] if text is None or len(text) > LONGEST_IDENTITY else [text]


def _checkpoint_write(
    context: Context, task: Put, encoded: EncodedCheckpoint, ground: PutBase, now: datetime
) -> Replace:
    """Return the write of a checkpoint document; its fields are in the order in which they are
    stored.
    """
    child, body, channels = task.child, encoded.body, encoded.channels
    key = {"_id": checkpoint_doc_id(child), "thread_id": child.thread_id}
    document: Document = {
        "_id": key["_id"],
        "type": CHECKPOINT,
        "thread_id": child.thread_id,
        "checkpoint_ns": child.checkpoint_ns,
        "checkpoint_id": child.checkpoint_id,
        "parent_checkpoint_id": task.parent_id,
        "created_at": now,
        "touched_at": now,
        "schema_version": SCHEMA_VERSION,
        "epoch": ground.thread.epoch,
        **_readable_metadata(context, task.truth),
        **({"sends_in_parent": True} if encoded.is_old else {}),
        **({"parent_is_hidden": True} if ground.parent_is_hidden else {}),
        "body": _described(body),
        "channels": [
            {"channel": channel, **_described(value)} for channel, value in channels.items()
        ],
        "content": _sealed_content(context, task, encoded, ground.thread.epoch, now),
    }
    return Replace(key, document)


def _readable_metadata(context: Context, truth: CheckpointMetadata) -> Document:
    """Return the fields of a checkpoint document that hold the readable copy of its metadata."""
    keys = context.options.metadata_keys
    clear, omitted = queryable_copy(identified(truth, keys), context.clear_metadata, keys)
    return {"metadata": clear, "metadata_omitted": omitted} if omitted else {"metadata": clear}


def _sealed_content(
    context: Context, task: Put, encoded: EncodedCheckpoint, epoch: int, now: datetime
) -> Document:
    """Return the inline bytes of all values of a checkpoint, sealed for its place."""
    body, channels = encoded.body, encoded.channels
    content = b"".join([body.ends, *(value.ends for value in channels.values())])
    binding = checkpoint_binding(
        task.child.place, task.parent_id, epoch, now, encoded.is_old, body, channels
    )
    return context.codec.seal(content, binding, 0 if encoded.is_short else LONGEST_PACKED)


def _described(value: StoredValue) -> Document:
    return {**value_fields(value), "length": len(value.ends)}


def _remember(context: Context, task: Put, encoded: EncodedCheckpoint, thread: ThreadState) -> None:
    """Keep what the next put and the next read will need."""
    thread_id = task.child.thread_id
    for name, piece in encoded.chunks.items():
        context.state.chunks.put(chunk_doc_id(thread_id, name), piece)
    versions = dict(task.checkpoint["channel_versions"])
    parent = ParentState(versions, encoded.channels, encoded.known, thread.generation)
    begun = replace(
        thread,
        begins=False,
        stamped_at=context.now() if thread.begins else thread.stamped_at,
        is_short=encoded.is_short,
    )
    context.state.parents.put(task.child, parent)
    context.state.threads.put(thread_id, begun)


@dataclass(frozen=True, slots=True)
class PutBase:
    """What a put stands on.

    Attributes:
        thread: Its thread.
        exists: Whether the thread document is known to be there.
        parent: What the parent document holds, or nothing where there is none to rely on.
        parent_is_hidden: Whether the parent was removed and is kept for replay only.
    """

    thread: ThreadState
    exists: bool
    parent: ParentState
    parent_is_hidden: bool = False


def base_from_cache(context: Context, address: CheckpointRef) -> PutBase | None:
    """Return the ground of a put on `address` from the caches alone, or None where they do not
    suffice.
    """
    thread = context.state.threads.get(address.thread_id)
    if thread is None or not suffices(context, thread):
        return None
    if address.checkpoint_id is None:
        return PutBase(thread, True, NO_PARENT)
    parent = context.state.parents.get(address)
    if parent is None or parent.generation != thread.generation:
        return None
    return PutBase(thread, True, parent)


async def read_base(context: Context, address: CheckpointRef) -> PutBase:
    """Read the ground of a put on `address`, in one round trip and one for each level of names
    above the first.
    """
    thread_document, parent_document = await _thread_and_parent(context, address)
    thread = known_thread(context, thread_document) or new_thread(context)
    records = await read_records(context, [parent_document] if parent_document else [])
    if not records or records[0].epoch != thread.epoch:
        return PutBase(thread, thread_document is not None, NO_PARENT)
    parent = await _usable_parent(context, records[0], thread)
    return PutBase(thread, True, parent, records[0].hidden)


async def _thread_and_parent(
    context: Context, address: CheckpointRef
) -> tuple[Document | None, Document | None]:
    """Read the documents of a thread and of the checkpoint at an address, in one round trip."""
    thread_key = thread_doc_id(address.thread_id)
    parent_key = None if address.checkpoint_id is None else checkpoint_doc_id(address)
    keys = [key for key in (thread_key, parent_key) if key is not None]
    query = {"_id": {"$in": keys}, "thread_id": address.thread_id}
    found = {document["_id"]: document for document in await Find(context.checkpoints, query)}
    return found.get(thread_key), found.get(parent_key)


async def _usable_parent(
    context: Context, record: StoredCheckpoint, thread: ThreadState
) -> ParentState:
    if not context.is_alive(record.touched_at):
        return NO_PARENT
    try:
        return await read_parent(context, record, thread.generation)
    except MissingChunkError:
        return NO_PARENT


async def read_parent(context: Context, record: StoredCheckpoint, generation: int) -> ParentState:
    """Read what a put must know of its parent: its versions, and the names of all its chunks but
    not their content.
    """
    values = {BODY: record.body, **record.channels}
    placed = [Placed(record.address, value) for value in values.values()]
    descents = await resolve_hash_lists(context, placed)
    reached = {
        channel: ParentChunks(frozenset(descent.reached))
        for channel, descent in zip(values, descents, strict=True)
        if descent.reached
    }
    (body,) = await load(context, placed[:1])
    versions = revive_body(context, record.address, record.body, body.data).checkpoint[
        "channel_versions"
    ]
    return ParentState(versions, record.channels, reached, generation)
