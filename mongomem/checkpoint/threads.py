"""Plans and parts about whole threads: their state, their stamps, their chunks.

The thread document answers for everything of its thread. Its `epoch` is the life of the thread and
stands on every checkpoint and chunk of it; delete_thread ends it. Its `generation` changes whenever
anything of the thread is removed.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from pymongo.errors import BulkWriteError, DuplicateKeyError

from mongomem.checkpoint.caches import ThreadState
from mongomem.checkpoint.chunks import LONGEST_SMALL
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import (
    CHUNK,
    SCHEMA_VERSION,
    THREAD,
    check_version,
    chunk_key,
    new_stamp,
    thread_key,
    utc,
)
from mongomem.commands import BulkWrite, Document, Find, Update, UpdateMany, Write
from mongomem.errors import CorruptDataError

DUPLICATE_KEY = 11000
"""Server error code: an upsert met a document with its `_id` that its filter did not match."""

NAME_KEY_BYTES = 32

ATTEMPTS = 8
"""How often a command begins anew because others changed the thread under it."""


def known_thread(context: Context, document: Document | None) -> ThreadState | None:
    """Read the state of a thread from its document.

    A thread whose last stamp is older than the TTL is read under a new epoch: the server may be deleting
    what is left of it, so nothing new may rely on that.
    """
    if document is None:
        return None
    check_version(document, f"thread {document.get('thread_id')!r}")
    name_key = b""
    if context.codec.seals:
        name_key = context.codec.open(document["name_key"]) if "name_key" in document else new_name_key()
    stamped_at = utc(document["stamped_at"])
    epoch = int(document["epoch"]) if context.lives(stamped_at) else new_stamp()
    return ThreadState(epoch, int(document["generation"]), stamped_at, name_key)


def new_thread(context: Context) -> ThreadState:
    """Make the state of a thread that is not there yet."""
    name_key = new_name_key() if context.codec.seals else b""
    return ThreadState(new_stamp(), new_stamp(), context.now(), name_key)


def new_name_key() -> bytes:
    """Make the secret under which the chunks of an encrypted thread are named."""
    return secrets.token_bytes(NAME_KEY_BYTES)


async def read_thread(context: Context, thread_id: str) -> ThreadState | None:
    """Return the state of a thread: from the cache, or in one command; None where it is not there."""
    remembered = context.state.threads.get(thread_id)
    if remembered is not None and not (context.codec.seals and not remembered.name_key):
        return remembered
    query = {"_id": thread_key(thread_id), "thread_id": thread_id}
    for document in await Find(context.checkpoints, query, limit=1):
        return known_thread(context, document)
    return None


async def ensure_thread(context: Context, thread_id: str) -> ThreadState:
    """Return the state of a thread, making its document where it is not there.

    Such a thread has no ``updated_at`` before its first checkpoint, and so is not listed.
    """
    for _ in range(ATTEMPTS):
        found = await read_thread(context, thread_id)
        if found is not None:
            return found
        with suppress(DuplicateKeyError, BulkWriteError):
            await BulkWrite(context.checkpoints, [thread_write(context, thread_id, new_thread(context), {})])
    raise CorruptDataError(f"thread {thread_id!r} cannot be made: its document changes too often")


def thread_write(context: Context, thread_id: str, thread: ThreadState, fields: Document) -> Update:
    """Return the upsert of a thread document under the generation it is known by, with more `fields` to set."""
    now = context.now()
    condition = {"_id": thread_key(thread_id), "thread_id": thread_id, "generation": thread.generation}
    own: Document = {"type": THREAD, "touched_at": now, "schema_version": SCHEMA_VERSION, "epoch": thread.epoch}
    if thread.name_key:
        own["name_key"] = context.codec.seal(thread.name_key)
    made = {"created_at": now, "stamped_at": now}
    return Update(condition, {"$set": own | fields, "$setOnInsert": made, "$unset": {"deleted_at": ""}}, upsert=True)


async def new_generation(context: Context, thread_id: str) -> None:
    """Make every put that relies on what the thread was look at it again."""
    thread = {"_id": thread_key(thread_id), "thread_id": thread_id, "type": THREAD}
    await UpdateMany(context.checkpoints, thread, {"$set": {"generation": new_stamp()}})


def chunk_writes(
    context: Context, thread_id: str, chunks: Mapping[bytes, bytes], epoch: int, now: datetime
) -> list[Write]:
    """Return the upserts of chunks: a chunk that is there stays, and is neither idle nor of an ended life."""
    return [
        Update(
            {"_id": chunk_key(thread_id, name), "thread_id": thread_id},
            {
                "$setOnInsert": context.codec.seal(piece, LONGEST_SMALL),
                "$set": {"type": CHUNK, "epoch": epoch, "touched_at": now},
                "$unset": {"idle_since": ""},
            },
            upsert=True,
        )
        for name, piece in chunks.items()
    ]


def only_duplicates(error: BulkWriteError) -> bool:
    """Say whether a bulk write failed by nothing but upserts that met another document."""
    failures = error.details.get("writeErrors") or []
    return bool(failures) and all(failure.get("code") == DUPLICATE_KEY for failure in failures)


async def stamp(context: Context, thread_id: str) -> None:
    """Stamp a thread as used now, where it has a TTL and a tenth of that has gone by since the last time.

    Only what still lives is stamped: the leftovers of an expired life are not brought back.
    """
    if context.options.ttl is None:
        return
    thread = await read_thread(context, thread_id)
    if thread is None or not context.wants_stamp(thread.stamped_at):
        return
    now = context.now()
    living = {"thread_id": thread_id, "touched_at": {"$gt": now - context.options.ttl}}
    for collection in (context.writes, context.checkpoints):
        await UpdateMany(collection, living, {"$set": {"touched_at": now}})
    thread_document = {"_id": thread_key(thread_id), "thread_id": thread_id, "type": THREAD}
    await UpdateMany(context.checkpoints, thread_document, {"$set": {"stamped_at": now}})
    context.state.threads.put(thread_id, replace(thread, stamped_at=now))
