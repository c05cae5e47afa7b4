"""Plans about one whole thread: read its state, make its document, touch it, and what a put on it
stands on.

`mongomem.checkpoint.documents.thread` says what its `epoch` and its `generation` are for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from pymongo.errors import BulkWriteError

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    all_chunks_of,
    checkpoint_doc_id,
    misfiled,
    thread_doc_id,
)
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.fields import next_epoch
from mongomem.checkpoint.documents.thread import (
    ThreadState,
    decode_thread,
    encode_chunk,
    encode_name_key,
    encode_tombstone,
    thread_query,
)
from mongomem.checkpoint.plans.load import (
    MissingChunkError,
    load_bodies,
    read_checkpoints,
    resolve_hash_lists,
)
from mongomem.checkpoint.plans.restore import chunks_by_channel
from mongomem.checkpoint.serde.channels import NO_PARENT, ParentState
from mongomem.engine.commands import BulkWrite, Document, Find, Update, UpdateMany
from mongomem.engine.effects import Sleep
from mongomem.engine.writes import is_duplicate_key_only
from mongomem.errors import ContentionError, CorruptDataError, MongomemError

FIRST_PAUSE_SECONDS = 0.005

MAX_ATTEMPTS = 8
"""How often a command begins anew because others changed the thread under it."""


def read_state(context: Context, document: Document | None) -> ThreadState | None:
    """Read the state of a thread from its document, as `decode_thread` does; None without one."""
    if document is None:
        return None
    return decode_thread(
        document,
        context.serializer,
        now=context.now(),
        ttl=context.ttl,
        new_name_key=context.new_name_key(),
    )


def new_thread(context: Context) -> ThreadState:
    """Make the state of a thread that is not there yet."""
    now = context.now()
    return ThreadState(
        next_epoch(now), context.new_generation(), now, context.new_name_key(), begins=True
    )


def is_usable(context: Context, thread: ThreadState | None) -> bool:
    """Say whether what is cached of a thread may be relied on: it is alive, and its name key is
    there where one is needed.
    """
    return (
        thread is not None
        and context.is_alive(thread.stamped_at)
        and (bool(thread.name_key) or not context.serializer.seals)
    )


async def read_thread(context: Context, thread_id: str) -> ThreadState | None:
    """Return the state of a thread: from the cache, or in one command; None where there is none."""
    cached = context.caches.threads.get(thread_id)
    if is_usable(context, cached):
        return cached
    return read_state(context, await thread_document(context, thread_id))


async def thread_document(context: Context, thread_id: str) -> Document | None:
    """Return the document of a thread, or None where it is not there.

    Raises:
        CorruptDataError: It is there, and says to be of another thread.
    """
    documents = await Find(context.checkpoints, thread_query(thread_id), limit=1)
    if not documents and (error := await _misfiled(context.checkpoints, thread_id)):
        raise error
    return documents[0] if documents else None


async def ensure_thread(context: Context, thread_id: str) -> ThreadState:
    """Return the state of a thread, making its document where it is not there.

    What is made is a tombstone, which the first checkpoint brings to life; where none comes, it
    goes as others do.
    """
    for attempt in range(MAX_ATTEMPTS):
        found = await read_thread(context, thread_id)
        if found is not None:
            return found
        await _make_thread(context, thread_id, new_thread(context))
        await backoff(attempt)
    raise await contention_error(context, thread_id)


async def _make_thread(context: Context, thread_id: str, thread: ThreadState) -> None:
    """Make the document of a thread, as a tombstone, where it is not there."""
    birth = {
        **encode_tombstone(thread.epoch, context.now()),
        "generation": thread.generation,
        **encode_name_key(thread_id, thread, context.serializer),
    }
    upsert = Update(thread_query(thread_id), {"$setOnInsert": birth}, upsert=True)
    try:
        await BulkWrite(context.checkpoints, [upsert])
    except BulkWriteError as error:
        if not is_duplicate_key_only(error):
            raise


async def backoff(attempt: int) -> None:
    """Wait before what others got in the way of is tried again, a little longer each time."""
    if attempt > 0:
        await Sleep(FIRST_PAUSE_SECONDS * 2**attempt)


async def contention_error(context: Context, thread_id: str) -> MongomemError:
    """Return the error that ends the attempts: what got in the way every time, or that others
    did.
    """
    for collection in (context.checkpoints, context.writes):
        if error := await _misfiled(collection, thread_id):
            return error
    return ContentionError(
        f"thread {shown(thread_id)} was changed by others {MAX_ATTEMPTS} times meanwhile: try again"
    )


async def _misfiled(collection: str, thread_id: str) -> CorruptDataError | None:
    """Return what to say of a document that is a thread's by its `_id`, and says to be of
    another.
    """
    for document in await Find(collection, misfiled(thread_id), {"thread_id": 1}, limit=1):
        return CorruptDataError(
            f"thread {shown(thread_id)}: its document {document['_id'].hex()} says to be of thread "
            f"{shown(document.get('thread_id'))}"
        )
    return None


async def new_generation(context: Context, thread_id: str) -> None:
    """Make every put that relies on what the thread was look at it again."""
    await UpdateMany(
        context.checkpoints,
        thread_query(thread_id),
        {"$set": {"generation": context.new_generation()}},
    )


async def touch(context: Context, thread_id: str, thread: ThreadState) -> ThreadState:
    """Touch all documents of a thread, where it has a TTL and a tenth of that has gone by since the
    last time.

    Called before what the use writes. Chunks come first and `stamped_at` last, so wherever it
    breaks off no document outlives what it refers to. Nothing of a life that is over is brought
    back.
    """
    ttl, now = context.ttl, context.now()
    if (
        ttl is None
        or thread.begins
        or not context.is_alive(thread.stamped_at)
        or not context.needs_touch(thread.stamped_at)
    ):
        return thread
    living = {"thread_id": thread_id, "touched_at": {"$gt": now - ttl}}
    touched = {"$set": {"touched_at": now}}
    await UpdateMany(context.checkpoints, all_chunks_of(thread_id) | living, touched)
    await UpdateMany(context.writes, living, touched)
    await UpdateMany(context.checkpoints, {"type": CHECKPOINT, **living}, touched)
    return await _touch_document(context, thread_id, thread, now)


async def _touch_document(
    context: Context, thread_id: str, thread: ThreadState, now: datetime
) -> ThreadState:
    """Touch the document of a thread, and keep that in the cache."""
    unchanged = thread_query(thread_id) | {"epoch": thread.epoch}
    await UpdateMany(
        context.checkpoints, unchanged, {"$set": {"touched_at": now, "stamped_at": now}}
    )
    touched = replace(thread, stamped_at=now)
    context.caches.threads.put(thread_id, touched)
    return touched


def chunk_writes(
    context: Context,
    thread_id: str,
    chunks: Mapping[bytes, bytes],
    epoch: int,
    *,
    compress: bool = True,
) -> list[Update]:
    """Return the upserts of chunks, given as content by hash."""
    now, serializer = context.now(), context.serializer
    return [
        encode_chunk(thread_id, name, content, epoch, now, serializer, compress=compress)
        for name, content in chunks.items()
    ]


# What a put stands on: the thread, and the parent.


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


def base_from_cache(context: Context, ref: CheckpointRef) -> PutBase | None:
    """Return what a put on `ref` stands on from the caches alone, or None where they do
    not suffice.
    """
    thread = context.caches.threads.get(ref.thread_id)
    if thread is None or not is_usable(context, thread):
        return None
    if ref.checkpoint_id is None:
        return PutBase(thread, True, NO_PARENT)
    parent = context.caches.parents.get(ref)
    if parent is None or parent.generation != thread.generation:
        return None
    return PutBase(thread, True, parent)


def base_of_new_thread(context: Context, ref: CheckpointRef) -> PutBase | None:
    """Return what a put stands on that begins its thread, or None where it does not look as if it
    did.

    Without a parent, on a thread that the caches do not know, it nearly always does, and needs no
    read to find out: where the thread is there, its document refuses the new generation.
    """
    if ref.checkpoint_id is not None or context.caches.threads.get(ref.thread_id) is not None:
        return None
    return PutBase(new_thread(context), False, NO_PARENT)


async def read_base(context: Context, ref: CheckpointRef) -> PutBase:
    """Read what a put on `ref` stands on, in one round trip and one for each level of hashes
    above the first.
    """
    thread_document, parent_document = await _thread_and_parent(context, ref)
    thread = read_state(context, thread_document) or new_thread(context)
    records = await read_checkpoints(context, [parent_document] if parent_document else [])
    if not records or records[0].epoch != thread.epoch:
        return PutBase(thread, thread_document is not None, NO_PARENT)
    parent = await _usable_parent(context, records[0], thread)
    return PutBase(thread, True, parent, records[0].hidden)


async def _thread_and_parent(
    context: Context, ref: CheckpointRef
) -> tuple[Document | None, Document | None]:
    """Read the documents of a thread and of the checkpoint at a ref, in one round trip."""
    thread_key = thread_doc_id(ref.thread_id)
    parent_key = None if ref.checkpoint_id is None else checkpoint_doc_id(ref)
    keys = [key for key in (thread_key, parent_key) if key is not None]
    query = {"_id": {"$in": keys}, "thread_id": ref.thread_id}
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
    values = [(record.ref, value) for value in (record.body, *record.channels.values())]
    lists = await resolve_hash_lists(context, values)
    ((checkpoint, _),) = await load_bodies(context, [record])
    reached = chunks_by_channel(record, lists)
    return ParentState(checkpoint["channel_versions"], record.channels, reached, generation)
