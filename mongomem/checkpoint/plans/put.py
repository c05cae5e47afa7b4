"""The plan of put.

The order of writes is the crash safety: chunks first, then the thread, the checkpoint last, all in
one ordered command. What a crash leaves behind is chunks that nothing refers to; prune collects
them.

A put refers to chunks that its parent document reaches without writing them again. It may do so
only while the parent is there, and the thread document answers for that: its `generation` changes
whenever anything of the thread is removed, and behind the chunks the command updates the thread
under the generation that the put relies on. Where it is another, the upsert meets the thread's
`_id`, the server refuses it, nothing behind it is written, and the put begins anew with what is
there now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata
from pymongo.errors import BulkWriteError

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import (
    StoredCheckpoint,
    checked_checkpoint,
    encode_checkpoint,
)
from mongomem.checkpoint.documents.collections import checkpoint_doc_id, chunk_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef, identifier, ref_of_config
from mongomem.checkpoint.documents.identity import (
    LONGEST_IDENTITY,
    Member,
    Members,
    NamedMetadata,
    identified,
    identity,
    member,
    named_metadata,
)
from mongomem.checkpoint.documents.metadata import STEP_METADATA, queryable_copy
from mongomem.checkpoint.documents.preview import preview_of
from mongomem.checkpoint.documents.thread import (
    ThreadState,
    ThreadUse,
    encode_thread,
    members_after,
)
from mongomem.checkpoint.plans.delete import clean_now_and_then
from mongomem.checkpoint.plans.load import read_checkpoints
from mongomem.checkpoint.plans.setup import ensure_setup
from mongomem.checkpoint.plans.thread_state import (
    MAX_ATTEMPTS,
    PutBase,
    backoff,
    base_from_cache,
    base_of_new_thread,
    chunk_writes,
    contention_error,
    read_base,
    touch,
)
from mongomem.checkpoint.serde.channels import (
    BODY,
    NO_PARENT,
    EncodedCheckpoint,
    ParentState,
    Serialized,
    are_inline,
    encode,
    serialize_body,
    serialize_values,
)
from mongomem.checkpoint.serde.copies import detached, detached_values, own_copy
from mongomem.checkpoint.serde.size_estimate import size_to_serialize
from mongomem.engine.commands import BulkWrite, Document, Find, Replace, Update
from mongomem.engine.effects import CacheUse, Compute
from mongomem.engine.writes import OutcomeUnknownError, UpdateCommand, is_duplicate_key_only

SMALL_BYTES, MOST_STATEMENTS = 2**20, 16
"""What a put may write by one command that the driver does not cut. Identifiers of 64 KB stand in a
statement twice, so 16 statements are below 16 MB."""


MOST_SENT = 3
"""How often a put is sent whose outcome is unknown; a driver sends a write twice."""


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """A checkpoint that is to be stored.

    Attributes:
        ref: Where.
        parent_id: On which parent.
        checkpoint: It, checked and in containers of its own.
        named: Its metadata in full, and whom that names.
        preview: What lists of threads show of it.
    """

    ref: CheckpointRef
    parent_id: str | None
    checkpoint: Checkpoint
    named: NamedMetadata
    preview: Mapping[str, str | None]

    @property
    def metadata(self) -> CheckpointMetadata:
        return self.named.metadata

    @property
    def parent(self) -> CheckpointRef:
        """Where the parent is; the newest checkpoint of the namespace where there is none."""
        return self.ref.at(self.parent_id)


async def put(
    context: Context,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    given: Mapping[str, Serialized] | None = None,
) -> RunnableConfig:
    """Store a checkpoint; return the config that leads to it.

    One round trip where the caches know thread and parent, and where a thread begins with short
    values; else two, and one more for each level of hashes above the first that the parent has, and
    for a config that names the checkpoint itself.
    Values are serialized before the first of them, or copied where that takes long: what is stored
    is what was passed, whatever the caller does to it afterwards. If the parent turns out to be
    gone, the channels that it would have supplied are serialized then.

    The caches are trusted without a read, because the thread document answers for them: its
    generation is a condition of the command that writes. Reading thread and parent first would cost
    every put a round trip, and spare a few a second attempt. Chunks are written in front of the
    thread, so a put that has some is not made on the guess that its thread is new: a thread that
    refuses it, as one under another key does, keeps nothing of it.

    Of a checkpoint that was serialized before, `given` are the bytes of its body and of all its
    channels: they are stored as they are.

    Raises:
        ContentionError: Others changed the thread at the same time, again and again.
        PyMongoError: The connection or the primary was lost, `MOST_SENT` times.
    """
    ref = ref_of_config(config)
    checkpoint = checked_checkpoint(checkpoint)
    new = _new_checkpoint(context, config, ref, checkpoint, metadata)
    base = base_from_cache(context, ref) if ref != new.ref else None
    await CacheUse(int(base is not None), int(base is None))
    values = dict(given or await _serialized(context, checkpoint, new.metadata, base))
    if ref == new.ref:
        new = replace(new, parent_id=await _stored_parent_id(context, ref))
    if base is None and are_inline(values):
        base = base_of_new_thread(context, new.parent)
    await ensure_setup(context)
    await _store_by_attempts(context, new, values, base)
    context.caches.parents.pop(new.parent)
    await clean_now_and_then(context)
    return new.ref.config()


async def _stored_parent_id(context: Context, ref: CheckpointRef) -> str | None:
    """Return the id of the parent that a checkpoint has where it is stored, else None.

    For a put whose config names the checkpoint itself, as the configs do that a saver gives: the
    checkpoint stays in its place, and is not made its own ancestor.
    """
    place = {"_id": checkpoint_doc_id(ref), "thread_id": ref.thread_id}
    stored = await read_checkpoints(context, await Find(context.checkpoints, place, limit=1))
    return stored[0].parent_id if stored else None


async def _store_by_attempts(
    context: Context, new: NewCheckpoint, values: dict[str, Serialized], base: PutBase | None
) -> None:
    """Store a put on its base, and on what is there now where the base does not hold. Where nobody
    knows whether it was stored, it is stored again: a primary may step down more than once.
    """
    unknown, thread_id = 0, new.ref.thread_id
    for attempt in range(MAX_ATTEMPTS):
        if base is None:
            base = await read_base(context, new.parent)
            values |= serialize_values(new.checkpoint, base.parent, context.serializer, done=values)
        try:
            if await _attempt(context, new, values, base):
                return
        except OutcomeUnknownError as error:
            unknown += 1
            if unknown == MOST_SENT:
                raise error.met from None
        context.caches.invalidate_thread(thread_id)
        base = None
        await backoff(attempt)
    raise await contention_error(context, thread_id)


def _new_checkpoint(
    context: Context,
    config: RunnableConfig,
    ref: CheckpointRef,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
) -> NewCheckpoint:
    """Return what is to be stored, in copies of its own, of a checkpoint that was checked."""
    child = ref.at(identifier("checkpoint id", checkpoint["id"]))
    whole = named_metadata(config, metadata, context.options.metadata_keys)
    whole = NamedMetadata(detached(whole.metadata), whole.by_key)
    preview = preview_of(checkpoint, ref.checkpoint_ns, context.clear_metadata)
    return NewCheckpoint(child, ref.checkpoint_id, own_copy(checkpoint), whole, preview)


async def _serialized(
    context: Context,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    base: PutBase | None,
) -> dict[str, Serialized]:
    """Serialize the body of a checkpoint, and the channels that its parent does not hold."""
    parent = base.parent if base else NO_PARENT
    body = serialize_body(checkpoint, metadata, context.serializer)
    work = partial(serialize_values, parent=parent, serializer=context.serializer)
    return {BODY: body} | await Compute(
        partial(work, checkpoint),
        partial(size_to_serialize, checkpoint, parent),
        detached=lambda: partial(work, detached_values(checkpoint, parent)),
    )


async def _attempt(
    context: Context, new: NewCheckpoint, values: Mapping[str, Serialized], base: PutBase
) -> bool:
    """Encode and store a put; say whether its base still holds."""
    thread = await touch(context, new.ref.thread_id, base.thread)
    if thread is not base.thread:
        base = replace(base, thread=thread)
    work = partial(encode, values, new.checkpoint, base.parent, thread.name_key)
    encoded: EncodedCheckpoint = await Compute(work, sum(len(data) for _, data in values.values()))
    use = _thread_use(context, new, thread)
    if not await _store(context, new, encoded, base, use):
        return False
    _cache(context, new, encoded, thread, members_after(thread, use))
    return True


async def _store(
    context: Context, new: NewCheckpoint, encoded: EncodedCheckpoint, base: PutBase, use: ThreadUse
) -> bool:
    """Write a put in one ordered command; say whether its base still holds."""
    writes = _writes(context, new, encoded, base, use)
    is_small = len(writes) <= MOST_STATEMENTS and encoded.new_bytes <= SMALL_BYTES
    command = UpdateCommand if is_small else BulkWrite
    try:
        reply = await command(context.checkpoints, writes)
    except BulkWriteError as error:
        if is_duplicate_key_only(error):
            return False
        raise
    # Where a thread that was there has been made anew, somebody dropped it whole, and its chunks
    # with it.
    return not (base.exists and len(writes) - 2 in (reply.upserted_ids or {}))


def _writes(
    context: Context, new: NewCheckpoint, encoded: EncodedCheckpoint, base: PutBase, use: ThreadUse
) -> list[Update | Replace]:
    """Return the writes of a put in their order: chunks, the thread, the checkpoint."""
    now, thread_id, serializer = context.now(), new.ref.thread_id, context.serializer
    stored = StoredCheckpoint(
        new.ref,
        new.parent_id,
        base.thread.epoch,
        encoded.body,
        encoded.channels,
        touched_at=now,
        created_at=now,
        sends_in_parent=encoded.sends_in_parent,
        parent_is_hidden=base.parent_is_hidden,
        hidden=False,
    )
    readable = _readable_metadata(context, new.metadata)
    document = encode_checkpoint(stored, readable, serializer, compress=encoded.compress)
    place = {"_id": document["_id"], "thread_id": thread_id}
    return [
        *chunk_writes(context, thread_id, encoded.chunks, stored.epoch, compress=encoded.compress),
        encode_thread(thread_id, base.thread, use, serializer, now),
        Replace(place, document),
    ]


def _readable_metadata(context: Context, metadata: CheckpointMetadata) -> Document:
    """Return the fields of a checkpoint document that hold the readable copy of its metadata."""
    keys = context.options.metadata_keys
    clear, omitted = queryable_copy(identified(metadata, keys), context.clear_metadata, keys)
    return {"metadata": clear, "metadata_omitted": omitted} if omitted else {"metadata": clear}


def _thread_use(context: Context, new: NewCheckpoint, thread: ThreadState) -> ThreadUse:
    """Return what a put says of its thread: that it was used, for whom, and the metadata that is
    not of a step.

    What stands under identity keys stays once it was given; of the others the newest put's count,
    so that the document is bounded.
    """
    keys = tuple(dict.fromkeys((*context.options.metadata_keys, *thread.members)))
    own = {key: value for key, value in new.metadata.items() if key not in STEP_METADATA}
    own = identified(own, keys) if own else own
    shown = queryable_copy(own, context.clear_metadata, keys)[0] if own else {}
    given = {key: shown.pop(key) for key in keys if key in shown}
    lasting = {key: value for key, value in given.items() if value is not None}
    last = {"updated_at": context.now(), "last_metadata": shown, **new.preview}
    return ThreadUse(last, lasting, _members(context, new, thread, own))


def _members(
    context: Context, new: NewCheckpoint, thread: ThreadState, metadata: Mapping[str, Any]
) -> dict[str, list[Member]]:
    """Return whom a put names, by identity key: those of the saver and, in a thread that lives,
    those of the thread.
    """
    own_keys, clear = context.options.metadata_keys, context.clear_metadata
    keys = own_keys if thread.begins else dict.fromkeys((*own_keys, *thread.members))
    ids = {
        key: new.named.by_key[key] if key in own_keys else _named_by(metadata, key) for key in keys
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


def _cache(
    context: Context,
    new: NewCheckpoint,
    encoded: EncodedCheckpoint,
    thread: ThreadState,
    members: Members,
) -> None:
    """Keep what the next put and the next read will need."""
    thread_id = new.ref.thread_id
    for name, piece in encoded.chunks.items():
        context.caches.chunks.put(chunk_doc_id(thread_id, name), piece)
    versions = dict(new.checkpoint["channel_versions"])
    parent = ParentState(versions, encoded.channels, encoded.referenced, thread.generation)
    context.caches.parents.put(new.ref, parent)
    stamped_at = context.now() if thread.begins else thread.stamped_at
    begun = replace(
        thread, begins=False, stamped_at=stamped_at, compress=encoded.compress, members=members
    )
    if begun != context.caches.threads.get(thread_id):
        context.caches.threads.put(thread_id, begun)
