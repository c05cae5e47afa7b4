"""Plans and parts about whole threads: their state, their stamps, their chunks.

The thread document answers for everything of its thread. Its `epoch` is the life of the thread and
stands on every checkpoint and chunk of it; delete_thread ends it. Its `generation` changes whenever
anything of the thread is removed.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from pymongo.errors import BulkWriteError

from mongomem.arguments import shown
from mongomem.checkpoint.binding import name_key_binding
from mongomem.checkpoint.caches import ThreadState
from mongomem.checkpoint.chunks import LONGEST_SMALL
from mongomem.checkpoint.codec import Obstacle
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.diagnosis import NAME_KEY_BYTES, Key, advised, name_key_of
from mongomem.checkpoint.documents import (
    CHECKPOINT,
    CHUNK,
    SCHEMA_VERSION,
    THREAD,
    all_chunks_of,
    check_key,
    check_type,
    check_version,
    chunk_key,
    misfiled,
    new_generation_number,
    next_epoch,
    read_epoch,
    read_field,
    read_time,
    thread_key,
)
from mongomem.commands import BulkWrite, Document, Find, Update, UpdateMany, Write
from mongomem.effects import Sleep
from mongomem.errors import ContentionError, CorruptDataError, MongomemError
from mongomem.upserts import only_duplicates

FIRST_PAUSE_SECONDS = 0.005

ATTEMPTS = 8
"""How often a command begins anew because others changed the thread under it."""


def known_thread(context: Context, document: Document | None) -> ThreadState | None:
    """Read the state of a thread from its document.

    A thread whose last stamp is older than the TTL is read under a new epoch: the server may be deleting
    what is left of it, so nothing new may rely on that.

    Raises:
        CorruptDataError: The document lacks a field, or a field is of another type, or it is another's.
        ConfigurationError: It was written with other encryption, or none.
    """
    if document is None:
        return None
    what = f"thread {shown(document.get('thread_id'))}"
    check_version(document, what)
    try:
        thread_id = read_field(document, "thread_id", str)
        check_key(document, thread_key(thread_id))
        check_type(document, THREAD)
        epoch, generation = read_epoch(document), read_field(document, "generation", int)
        stamped_at = read_time(document, "stamped_at")
        is_over = not context.lives(stamped_at)
        begins = is_over or bool(document.get("deleted_at")) or document.get("updated_at") is None
        own_epoch = next_epoch(context.now(), epoch) if is_over else epoch
        return ThreadState(own_epoch, generation, stamped_at, _name_key(context, thread_id, document, begins), begins)
    except (CorruptDataError, UnicodeError) as error:
        raise CorruptDataError(f"{what}: its document is not readable: {error}") from error


def _name_key(context: Context, thread_id: str, document: Document, begins: bool) -> bytes:
    """Return the secret that chunks are named with: its own, or a new one where nothing stands under that any more."""
    codec = context.codec
    key, secret = name_key_of(codec, thread_id, document)
    if secret is not None and codec.seals:
        return secret
    new = new_name_key() if codec.seals else b""
    if begins or (key is Key.ABSENT and (not codec.seals or codec.policy.allow_plaintext)):
        return new
    obstacle = Obstacle.SEALED if not codec.seals else Obstacle.PLAIN if key is Key.ABSENT else Obstacle.KEY
    raise advised(obstacle, key, thread_id) or CorruptDataError("its name_key is not its own")


def new_thread(context: Context) -> ThreadState:
    """Make the state of a thread that is not there yet."""
    name_key = new_name_key() if context.codec.seals else b""
    return ThreadState(next_epoch(context.now()), new_generation_number(), context.now(), name_key, begins=True)


def new_name_key() -> bytes:
    """Make the secret under which the chunks of an encrypted thread are named."""
    return secrets.token_bytes(NAME_KEY_BYTES)


def suffices(context: Context, thread: ThreadState | None) -> bool:
    """Say whether what is remembered of a thread may be relied on: that it lives, and what names are keyed with."""
    return (
        thread is not None and context.lives(thread.stamped_at) and (bool(thread.name_key) or not context.codec.seals)
    )


async def read_thread(context: Context, thread_id: str) -> ThreadState | None:
    """Return the state of a thread: from the cache, or in one command; None where it is not there."""
    remembered = context.state.threads.get(thread_id)
    if suffices(context, remembered):
        return remembered
    return known_thread(context, await thread_document(context, thread_id))


async def thread_document(context: Context, thread_id: str) -> Document | None:
    """Return the document of a thread, or None where it is not there.

    Raises:
        CorruptDataError: It is there, and says to be of another thread.
    """
    documents = await Find(context.checkpoints, thread_query(thread_id), limit=1)
    if not documents and (error := await _misfiled(context.checkpoints, thread_id)):
        raise error
    return documents[0] if documents else None


def thread_query(thread_id: str) -> Document:
    """Return the query for a thread document."""
    return {"_id": thread_key(thread_id), "thread_id": thread_id}


async def ensure_thread(context: Context, thread_id: str) -> ThreadState:
    """Return the state of a thread, making its document where it is not there.

    Such a thread has no ``updated_at`` before its first checkpoint, and so is not listed.
    """
    for attempt in range(ATTEMPTS):
        found = await read_thread(context, thread_id)
        if found is not None:
            return found
        thread = replace(new_thread(context), begins=False)
        try:
            await BulkWrite(context.checkpoints, [thread_write(context, thread_id, thread, {})])
        except BulkWriteError as error:
            if not only_duplicates(error):
                raise
        await pause(attempt)
    raise await contention(context, thread_id)


async def pause(attempt: int) -> None:
    """Wait before what others got in the way of is tried again, a little longer each time."""
    if attempt > 0:
        await Sleep(FIRST_PAUSE_SECONDS * 2**attempt)


async def contention(context: Context, thread_id: str) -> MongomemError:
    """Return the error that ends the attempts: what got in the way every time, or that others did."""
    for collection in (context.checkpoints, context.writes):
        if error := await _misfiled(collection, thread_id):
            return error
    return ContentionError(f"thread {shown(thread_id)} was changed by others {ATTEMPTS} times meanwhile: try again")


async def _misfiled(collection: str, thread_id: str) -> CorruptDataError | None:
    """Return what to say of a document that is a thread's by its `_id`, and says to be of another."""
    for document in await Find(collection, misfiled(thread_id), {"thread_id": 1}, limit=1):
        return CorruptDataError(
            f"thread {shown(thread_id)}: its document {document['_id'].hex()} says to be of thread "
            f"{shown(document.get('thread_id'))}"
        )
    return None


def thread_write(context: Context, thread_id: str, thread: ThreadState, fields: Document) -> Update:
    """Return the upsert of a thread document under the generation it is known by, with more `fields` to set.

    Where a life of the thread begins, nothing of the former one stays in it.
    """
    now = context.now()
    condition = {"_id": thread_key(thread_id), "thread_id": thread_id, "generation": thread.generation}
    own: Document = {"type": THREAD, "touched_at": now, "schema_version": SCHEMA_VERSION, "epoch": thread.epoch}
    if thread.name_key:
        own["name_key"] = context.codec.seal(thread.name_key, name_key_binding(thread_id))
    birth: Document = {"created_at": now, "stamped_at": now}
    if thread.begins:
        metadata = {field.split(".", 1)[1]: fields[field] for field in fields if field.startswith("metadata.")}
        others = {field: value for field, value in fields.items() if not field.startswith("metadata.")}
        own |= birth | {"metadata": metadata}
        former = {"deleted_at": ""} if thread.name_key else {"deleted_at": "", "name_key": ""}
        return Update(condition, {"$set": own | others, "$unset": former}, upsert=True)
    return Update(condition, {"$set": own | fields, "$setOnInsert": birth, "$unset": {"deleted_at": ""}}, upsert=True)


async def new_generation(context: Context, thread_id: str) -> None:
    """Make every put that relies on what the thread was look at it again."""
    await UpdateMany(context.checkpoints, thread_query(thread_id), {"$set": {"generation": new_generation_number()}})


def chunk_writes(
    context: Context,
    thread_id: str,
    chunks: Mapping[bytes, bytes],
    epoch: int,
    now: datetime,
    *,
    longest_packed: int = LONGEST_SMALL,
) -> list[Write]:
    """Return the upserts of chunks: a chunk that is there stays, and is neither idle nor of an ended life."""
    return [
        Update(
            {"_id": chunk_key(thread_id, name), "thread_id": thread_id},
            {
                "$setOnInsert": context.codec.seal_chunk(thread_id, name, piece, longest_packed),
                "$set": {"type": CHUNK, "epoch": epoch, "touched_at": now},
                "$unset": {"idle_since": ""},
            },
            upsert=True,
        )
        for name, piece in chunks.items()
    ]


async def stamp(context: Context, thread_id: str, thread: ThreadState) -> ThreadState:
    """Stamp a thread as used now, where it has a TTL and a tenth of that has gone by since the last time.

    Called before what the use writes. Chunks come first and `stamped_at` last, so wherever it breaks off no document
    outlives what it refers to. Nothing of a life that is over is brought back.
    """
    ttl, now = context.ttl, context.now()
    if (
        ttl is None
        or thread.begins
        or not context.lives(thread.stamped_at)
        or not context.wants_stamp(thread.stamped_at)
    ):
        return thread
    living = {"thread_id": thread_id, "touched_at": {"$gt": now - ttl}}
    touched = {"$set": {"touched_at": now}}
    await UpdateMany(context.checkpoints, all_chunks_of(thread_id) | living, touched)
    await UpdateMany(context.writes, living, touched)
    await UpdateMany(context.checkpoints, {"type": CHECKPOINT, **living}, touched)
    unchanged = thread_query(thread_id) | {"epoch": thread.epoch}
    await UpdateMany(context.checkpoints, unchanged, {"$set": {"touched_at": now, "stamped_at": now}})
    stamped = replace(thread, stamped_at=now)
    context.state.threads.put(thread_id, stamped)
    return stamped
