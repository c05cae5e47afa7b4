"""Plans about one whole thread: read its state, make its document, touch it.

`mongomem.checkpoint.documents.thread` says what its `epoch` and its `generation` are for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from pymongo.errors import BulkWriteError

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    all_chunks_of,
    misfiled,
)
from mongomem.checkpoint.documents.fields import next_epoch
from mongomem.checkpoint.documents.thread import (
    ThreadState,
    decode_thread,
    encode_chunk,
    encode_name_key,
    encode_tombstone,
    thread_query,
)
from mongomem.engine.commands import BulkWrite, Document, Find, Update, UpdateMany, Write
from mongomem.engine.effects import Sleep
from mongomem.engine.upserts import is_duplicate_key_only
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
) -> list[Write]:
    """Return the upserts of chunks, given as content by hash."""
    now, serializer = context.now(), context.serializer
    return [
        encode_chunk(thread_id, name, content, epoch, now, serializer, compress=compress)
        for name, content in chunks.items()
    ]
