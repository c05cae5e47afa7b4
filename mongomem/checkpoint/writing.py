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
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata
from pymongo.errors import BulkWriteError

from mongomem.arguments import checked_mapping, shown
from mongomem.checkpoint.addresses import Address, address_of, channel_name, identifier
from mongomem.checkpoint.binding import checkpoint_binding
from mongomem.checkpoint.caches import Parent, ThreadState
from mongomem.checkpoint.chunks import LONGEST_SMALL, Stored
from mongomem.checkpoint.codec import LONGEST_PACKED
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.copies import detached, detached_values, own_copy
from mongomem.checkpoint.documents import CHECKPOINT, SCHEMA_VERSION, checkpoint_key, chunk_key, value_fields
from mongomem.checkpoint.encoding import BODY, NO_PARENT, Encoded, Serialized, encode, serialize_body, serialize_values
from mongomem.checkpoint.grounds import Ground, remembered, survey
from mongomem.checkpoint.identity import LONGEST_IDENTITY, Named, identified, identity, member, named
from mongomem.checkpoint.metadata import STEP_METADATA, readable
from mongomem.checkpoint.preview import preview_of
from mongomem.checkpoint.setup import ready
from mongomem.checkpoint.sizes import size_to_serialize
from mongomem.checkpoint.threads import (
    ATTEMPTS,
    ThreadUse,
    chunk_writes,
    contention,
    members_after,
    pause,
    stamp,
    thread_write,
)
from mongomem.checkpoint.tombstones import clean_now_and_then
from mongomem.commands import BulkWrite, Document, Replace
from mongomem.effects import Compute
from mongomem.errors import InvalidInputError
from mongomem.upserts import only_duplicates


@dataclass(frozen=True, slots=True)
class Put:
    """What is to be stored: a checkpoint, where, on which parent, its metadata in full, and what lists show of it."""

    child: Address
    parent_id: str | None
    checkpoint: Checkpoint
    named: Named
    preview: Mapping[str, str | None]

    @property
    def truth(self) -> CheckpointMetadata:
        return self.named.truth


async def put(
    context: Context, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
) -> RunnableConfig:
    """Store a checkpoint; return the config that leads to it.

    One round trip where the caches know thread and parent, two where they do not, and one more for
    each level of names above the first that the parent has. Values are serialized before the first
    of them, or copied where that takes long: what is stored is what was passed, whatever the caller does to it
    afterwards. Only where the parent turns out to be gone, what it was relied on for is serialized then.

    Raises:
        ContentionError: Others changed the thread at the same time, again and again.
    """
    address = address_of(config)
    checkpoint = _checked(checkpoint)
    child = address.at(identifier("checkpoint id", checkpoint["id"]))
    whole = named(config, metadata, context.options.metadata_keys)
    whole = replace(whole, truth=detached(whole.truth))
    preview = preview_of(checkpoint, address.checkpoint_ns, context.clear_metadata)
    task = Put(child, address.checkpoint_id, own_copy(checkpoint), whole, preview)
    ground = remembered(context, address)
    values = {BODY: serialize_body(checkpoint, task.truth, context.codec)}
    values |= await _serialization(context, checkpoint, ground.parent if ground else NO_PARENT)
    await ready(context)
    for attempt in range(ATTEMPTS):
        if ground is None:
            ground = await survey(context, address)
            values |= serialize_values(task.checkpoint, ground.parent, context.codec, done=values)
        if await _put_on(context, task, values, ground):
            context.state.parents.pop(address)
            await clean_now_and_then(context)
            return child.config()
        context.state.forget_thread(address.thread_id)
        ground = None
        await pause(attempt)
    raise await contention(context, address.thread_id)


def _serialization(context: Context, checkpoint: Checkpoint, parent: Parent) -> Compute[dict[str, Serialized]]:
    work = partial(serialize_values, parent=parent, codec=context.codec)
    return Compute(
        partial(work, checkpoint),
        partial(size_to_serialize, checkpoint, parent),
        detached=lambda: partial(work, detached_values(checkpoint, parent)),
    )


FIELDS = {"id": str, "v": int, "channel_values": Mapping, "channel_versions": Mapping}


def _checked(checkpoint: object) -> Checkpoint:
    """Return a checkpoint with dicts of its own for its fields, values and versions.

    Raises:
        InvalidInputError: A field is missing or of another type, or a channel has no name.
    """
    fields = checked_mapping("checkpoint", checkpoint)
    for field, kind in FIELDS.items():
        if not isinstance(fields.get(field), kind) or isinstance(fields.get(field), bool):
            raise InvalidInputError(f"a checkpoint has a field {field!r} of type {kind.__name__}")
    for field in ("channel_values", "channel_versions"):
        fields[field] = {
            channel_name(name): one for name, one in checked_mapping(f"checkpoint {field}", fields[field]).items()
        }
    fields["channel_versions"] = {name: _checked_version(one) for name, one in fields["channel_versions"].items()}
    if not (text := str.__str__(fields["id"])):
        raise InvalidInputError("the id of a checkpoint is not empty")
    return cast("Checkpoint", fields | {"id": text, "v": int.__int__(fields["v"])})


def _checked_version(version: object) -> str | int | float:
    """Return a version in its built-in type, whatever a subclass of it does."""
    if isinstance(version, str):
        return str.__str__(version)
    if isinstance(version, float):
        return float.__float__(version)
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInputError(f"the version of a channel is a string or a number, not {shown(version)}")
    return int.__int__(version)


async def _put_on(context: Context, task: Put, values: Mapping[str, Serialized], ground: Ground) -> bool:
    """Encode and store a put; say whether its ground held."""
    thread = await stamp(context, task.child.thread_id, ground.thread)
    ground = replace(ground, thread=thread)
    work = partial(encode, values, task.checkpoint, ground.parent, thread.name_key)
    encoded: Encoded = await Compute(work, sum(len(data) for _, data in values.values()))
    use = _thread_use(context, task, thread)
    if not await _store(context, task, encoded, ground, use):
        return False
    _remember(context, task, encoded, replace(thread, members=members_after(thread, use)))
    return True


async def _store(context: Context, task: Put, encoded: Encoded, ground: Ground, use: ThreadUse) -> bool:
    """Write a put in one ordered command; say whether its ground held."""
    now, thread_id = context.now(), task.child.thread_id
    longest_packed = 0 if encoded.is_short else LONGEST_SMALL
    writes = chunk_writes(context, thread_id, encoded.chunks, ground.thread.epoch, now, longest_packed=longest_packed)
    writes.append(thread_write(context, thread_id, ground.thread, use))
    writes.append(_checkpoint_write(context, task, encoded, ground, now))
    try:
        reply = await BulkWrite(context.checkpoints, writes)
    except BulkWriteError as error:
        if only_duplicates(error):
            return False
        raise
    # Where a thread that was there has been made anew, somebody dropped it whole, and its chunks with it.
    return not (ground.exists and len(writes) - 2 in (reply.upserted_ids or {}))


def _thread_use(context: Context, task: Put, thread: ThreadState) -> ThreadUse:
    """Return what a put says of its thread: that it was used, for whom, and the metadata that is not of a step.

    What stands under identity keys stays once it was given; of the others the newest put's count, so that the document
    is bounded.
    """
    own_keys, clear = context.options.metadata_keys, context.clear_metadata
    keys = dict.fromkeys((*own_keys, *thread.members))
    own = {key: value for key, value in identified(task.truth, keys).items() if key not in STEP_METADATA}
    shown, _ = readable(own, clear, tuple(keys))
    given = {key: shown.pop(key) for key in keys if key in shown}
    ids = {key: task.named.by_key[key] if key in own_keys else _named_by(own, key) for key in keys}
    members = {
        key: [member(text, thread.name_key, is_clear=clear is None or key in clear) for text in ids[key]]
        for key in (own_keys if thread.begins else keys)
    }
    lasting = {key: value for key, value in given.items() if value is not None}
    return ThreadUse({"updated_at": context.now(), "last_metadata": shown, **task.preview}, lasting, members)


def _named_by(metadata: Mapping[str, Any], key: str) -> list[str]:
    """Return whom metadata names under a key that only others have declared."""
    text = identity(metadata.get(key))
    return [] if text is None or len(text) > LONGEST_IDENTITY else [text]


def _checkpoint_write(context: Context, task: Put, encoded: Encoded, ground: Ground, now: datetime) -> Replace:
    child, body, channels = task.child, encoded.body, encoded.channels
    keys = context.options.metadata_keys
    clear, omitted = readable(identified(task.truth, keys), context.clear_metadata, keys)
    content = b"".join([body.ends, *(value.ends for value in channels.values())])
    epoch = ground.thread.epoch
    binding = checkpoint_binding(child, task.parent_id, epoch, now, encoded.is_old, body, channels)
    document: Document = {
        "_id": checkpoint_key(child),
        "type": CHECKPOINT,
        "thread_id": child.thread_id,
        "checkpoint_ns": child.checkpoint_ns,
        "checkpoint_id": child.checkpoint_id,
        "parent_checkpoint_id": task.parent_id,
        "created_at": now,
        "touched_at": now,
        "schema_version": SCHEMA_VERSION,
        "epoch": epoch,
        "metadata": clear,
        **({"metadata_omitted": omitted} if omitted else {}),
        **({"sends_in_parent": True} if encoded.is_old else {}),
        **({"parent_is_hidden": True} if ground.parent_is_hidden else {}),
        "body": _described(body),
        "channels": [{"channel": channel, **_described(value)} for channel, value in channels.items()],
        "content": context.codec.seal(content, binding, 0 if encoded.is_short else LONGEST_PACKED),
    }
    return Replace({"_id": document["_id"], "thread_id": child.thread_id}, document)


def _described(value: Stored) -> Document:
    return {**value_fields(value), "length": len(value.ends)}


def _remember(context: Context, task: Put, encoded: Encoded, thread: ThreadState) -> None:
    """Keep what the next put and the next read will need."""
    thread_id = task.child.thread_id
    for name, piece in encoded.chunks.items():
        context.state.chunks.put(chunk_key(thread_id, name), piece)
    versions = dict(task.checkpoint["channel_versions"])
    parent = Parent(versions, encoded.channels, encoded.known, thread.generation)
    begun = replace(
        thread,
        begins=False,
        stamped_at=context.now() if thread.begins else thread.stamped_at,
        is_short=encoded.is_short,
    )
    context.state.parents.put(task.child, parent)
    context.state.threads.put(thread_id, begun)
