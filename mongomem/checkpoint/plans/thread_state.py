"""Plans and parts about whole threads: their state, their stamps, their chunks.

The thread document answers for everything of its thread. Its `epoch` is the life of the thread and
stands on every checkpoint and chunk of it; delete_thread ends it. Its `generation` changes whenever
anything of the thread is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pymongo.errors import BulkWriteError

from mongomem.arguments import shown
from mongomem.checkpoint.caches import ThreadState
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    CHUNK,
    NAMING_FIELDS,
    SCHEMA_VERSION,
    THREAD,
    Title,
    all_chunks_of,
    check_key,
    check_type,
    check_version,
    chunk_doc_id,
    misfiled,
    next_epoch,
    read_epoch,
    read_field,
    read_time,
    thread_doc_id,
)
from mongomem.checkpoint.documents.identity import Member, Members, additions, together
from mongomem.checkpoint.plans.load import Key, advised, name_key_of
from mongomem.checkpoint.serde.chunks import LONGEST_SMALL
from mongomem.checkpoint.serde.place_digest import name_key_binding
from mongomem.checkpoint.serde.serializer import Obstacle
from mongomem.engine.commands import BulkWrite, Document, Find, Update, UpdateMany, Write
from mongomem.engine.effects import Sleep
from mongomem.engine.upserts import is_duplicate_key_only
from mongomem.errors import ContentionError, CorruptDataError, MongomemError

FIRST_PAUSE_SECONDS = 0.005

MAX_ATTEMPTS = 8
"""How often a command begins anew because others changed the thread under it."""


def known_thread(context: Context, document: Document | None) -> ThreadState | None:
    """Read the state of a thread from its document.

    A thread whose last stamp is older than the TTL is read under a new epoch: the server may be
    deleting what is left of it, so nothing new may rely on that.

    Raises:
        CorruptDataError: The document lacks a field, or a field is of another type, or it is
            another's.
        ConfigurationError: It was written with other encryption, or none.
    """
    if document is None:
        return None
    what = Title("thread {thread_id}", document)
    check_version(document, what)
    try:
        return _state_of(context, document)
    except (CorruptDataError, UnicodeError) as error:
        raise CorruptDataError(f"{what}: its document is not readable: {error}") from error


def _state_of(context: Context, document: Document) -> ThreadState:
    thread_id = read_field(document, "thread_id", str)
    check_key(document, thread_doc_id(thread_id))
    check_type(document, THREAD)
    epoch, generation = read_epoch(document), read_field(document, "generation", int)
    stamped_at = read_time(document, "stamped_at")
    is_over = not context.is_alive(stamped_at)
    begins = is_over or bool(document.get("deleted_at")) or document.get("updated_at") is None
    own_epoch = next_epoch(context.now(), epoch) if is_over else epoch
    members = {} if begins else _members_beside_copies(document)
    name_key = _name_key(context, thread_id, document, begins)
    return ThreadState(own_epoch, generation, stamped_at, name_key, begins, members=members)


def _members_beside_copies(document: Document) -> Members:
    """Read the members of a thread that lives, and see that the readable copies beside them can be
    added to.
    """
    for copied in ("metadata", "last_metadata", "identity"):
        if copied in document:
            read_field(document, copied, dict)
    return read_members(document)


def read_members(document: Document) -> Members:
    """Read whom a thread was put for, by the identity keys that it has always been put under.

    Raises:
        CorruptDataError: They are no lists of strings and digests.
    """
    held = read_field(document, "members", dict) if "members" in document else {}
    listed = {key: read_field(held, key, list) for key in held}
    if not all(isinstance(one, str | bytes) for found in listed.values() for one in found):
        raise CorruptDataError(f"its members are damaged: {shown(held)}")
    return {key: frozenset(found) for key, found in listed.items()}


def _name_key(context: Context, thread_id: str, document: Document, begins: bool) -> bytes:
    """Return the secret that chunks are named with: its own, or a new one where nothing stands
    under that any more.
    """
    codec = context.codec
    key, secret = name_key_of(codec, thread_id, document)
    if secret is not None and codec.seals:
        return secret
    new = context.new_name_key() if codec.seals else b""
    if begins or (key is Key.ABSENT and (not codec.seals or codec.policy.allow_plaintext)):
        return new
    obstacle = (
        Obstacle.SEALED
        if not codec.seals
        else Obstacle.PLAIN
        if key is Key.ABSENT
        else Obstacle.KEY
    )
    raise advised(obstacle, key, thread_id) or CorruptDataError("its name_key is not its own")


def opened_name_key(context: Context, thread_id: str, document: Document) -> bytes:
    """Return the secret of an encrypted thread; empty for one that is not encrypted.

    Raises:
        ConfigurationError: It was written under another key, or this serializer does not decrypt.
        CorruptDataError: It is damaged.
    """
    key, secret = name_key_of(context.codec, thread_id, document)
    if secret is not None or key is Key.ABSENT:
        return secret or b""
    obstacle = Obstacle.KEY if context.codec.seals else Obstacle.SEALED
    raise advised(obstacle, key, thread_id) or CorruptDataError(
        f"thread {shown(thread_id)}: its name_key is not its own"
    )


def new_thread(context: Context) -> ThreadState:
    """Make the state of a thread that is not there yet."""
    name_key = context.new_name_key() if context.codec.seals else b""
    return ThreadState(
        next_epoch(context.now()), context.new_generation(), context.now(), name_key, begins=True
    )


def suffices(context: Context, thread: ThreadState | None) -> bool:
    """Say whether what is remembered of a thread may be relied on: that it lives, and what names
    are keyed with.
    """
    return (
        thread is not None
        and context.is_alive(thread.stamped_at)
        and (bool(thread.name_key) or not context.codec.seals)
    )


async def read_thread(context: Context, thread_id: str) -> ThreadState | None:
    """Return the state of a thread: from the cache, or in one command; None where it is not
    there.
    """
    cached = context.state.threads.get(thread_id)
    if suffices(context, cached):
        return cached
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
    return {"_id": thread_doc_id(thread_id), "thread_id": thread_id}


async def ensure_thread(context: Context, thread_id: str) -> ThreadState:
    """Return the state of a thread, making its document where it is not there.

    What is made is a tombstone, which the first checkpoint brings to life; where none comes, it
    goes as others do.
    """
    for attempt in range(MAX_ATTEMPTS):
        found = await read_thread(context, thread_id)
        if found is not None:
            return found
        thread = new_thread(context)
        place = {"_id": thread_doc_id(thread_id), "thread_id": thread_id}
        birth = (
            _tombstone(context, thread.epoch)
            | {"generation": thread.generation}
            | _secret(context, thread_id, thread)
        )
        try:
            await BulkWrite(
                context.checkpoints, [Update(place, {"$setOnInsert": birth}, upsert=True)]
            )
        except BulkWriteError as error:
            if not is_duplicate_key_only(error):
                raise
        await backoff(attempt)
    raise await contention_error(context, thread_id)


def _tombstone(context: Context, epoch: int) -> Document:
    """Return the fields of a thread document that no checkpoint belongs to."""
    now = context.now()
    times = dict.fromkeys(("created_at", "stamped_at", "touched_at", "deleted_at"), now)
    return {"type": THREAD, "schema_version": SCHEMA_VERSION, "epoch": epoch, **times}


def _secret(context: Context, thread_id: str, thread: ThreadState) -> Document:
    if not thread.name_key:
        return {}
    return {"name_key": context.codec.seal(thread.name_key, name_key_binding(thread_id))}


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


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """What a put or a copy says of its thread.

    Attributes:
        last: Fields that count until the next put.
        lasting: What the thread shows under its identity keys until another is named.
        members: Whom it was put for, by identity key; empty where nobody was named.
    """

    last: Document
    lasting: Mapping[str, Any] = field(default_factory=dict)
    members: Mapping[str, Iterable[Member]] = field(default_factory=dict)


def thread_write(context: Context, thread_id: str, thread: ThreadState, use: ThreadUse) -> Update:
    """Return the upsert of a thread document under the generation it is known by.

    Where a life of the thread begins, nothing of the former one stays in it but when that ended.
    Where the document of a thread that lives is not there any more, a tombstone is made: the
    checkpoint that is written behind it is of a life that has ended, until the put begins again.
    """
    now = context.now()
    own: Document = (
        {"touched_at": now, "schema_version": SCHEMA_VERSION}
        | _secret(context, thread_id, thread)
        | use.last
    )
    change = (
        _beginning(thread, use, own, now)
        if thread.begins
        else _continuation(context, thread, use, own, now)
    )
    return Update(thread_query(thread_id) | {"generation": thread.generation}, change, upsert=True)


def _beginning(thread: ThreadState, use: ThreadUse, own: Document, now: datetime) -> Document:
    """Return the change of a thread document with which a life begins; `own` are the fields that
    every use sets.
    """
    birth = {"type": THREAD, "created_at": now, "stamped_at": now, "epoch": thread.epoch}
    known = {
        "identity": dict(use.lasting),
        "members": _listed(members_after(thread, use)),
        "metadata": {},
    }
    forgotten = {name: "" for name in (*NAMING_FIELDS, "name_key") if name not in own | known}
    return {"$set": own | birth | known, "$unset": forgotten, "$rename": {"deleted_at": "ended_at"}}


def _continuation(
    context: Context, thread: ThreadState, use: ThreadUse, own: Document, now: datetime
) -> Document:
    """Return the change of a thread document that goes on with a life, or makes a tombstone where
    it is gone.
    """
    lasting, more = lasting_changes(thread, use)
    tombstone = _tombstone(context, next_epoch(now, thread.epoch))
    made = {name: value for name, value in tombstone.items() if name not in own}
    return {"$set": own | lasting, "$setOnInsert": made, **({"$addToSet": more} if more else {})}


def lasting_changes(thread: ThreadState, use: ThreadUse) -> tuple[Document, Document]:
    """Return what to set in a thread that lives so that it shows whom a use names, and what to add
    to its members.

    Where it was not always put with a key as an identity key it stays as schema version 1 has it,
    without members.
    """
    places = {key: "identity" if key in thread.members else "metadata" for key in use.lasting}
    shown = {f"{places[key]}.{key}": value for key, value in use.lasting.items()}
    added = _listed(_more(thread, use))
    return shown, {f"members.{key}": {"$each": listed} for key, listed in added.items() if listed}


def _more(thread: ThreadState, use: ThreadUse) -> Members:
    known = dict.fromkeys(use.members, frozenset[Member]()) if thread.begins else thread.members
    return additions(known, use.members)


def members_after(thread: ThreadState, use: ThreadUse) -> Members:
    """Return the members of a thread once it has been used so."""
    more = _more(thread, use)
    return more if thread.begins else together(thread.members, more)


def _listed(members: Members) -> dict[str, list[Member]]:
    return {key: list(listed) for key, listed in members.items()}


async def new_generation(context: Context, thread_id: str) -> None:
    """Make every put that relies on what the thread was look at it again."""
    await UpdateMany(
        context.checkpoints,
        thread_query(thread_id),
        {"$set": {"generation": context.new_generation()}},
    )


def chunk_writes(
    context: Context,
    thread_id: str,
    chunks: Mapping[bytes, bytes],
    epoch: int,
    now: datetime,
    *,
    longest_packed: int = LONGEST_SMALL,
) -> list[Write]:
    """Return the upserts of chunks: a chunk that is there stays, and is neither idle nor of an
    ended life.
    """
    return [
        Update(
            {"_id": chunk_doc_id(thread_id, name), "thread_id": thread_id},
            {
                "$setOnInsert": context.codec.seal_chunk(thread_id, name, piece, longest_packed),
                "$set": {"type": CHUNK, "epoch": epoch, "touched_at": now},
                "$unset": {"idle_since": ""},
            },
            upsert=True,
        )
        for name, piece in chunks.items()
    ]


async def touch(context: Context, thread_id: str, thread: ThreadState) -> ThreadState:
    """Stamp a thread as used now, where it has a TTL and a tenth of that has gone by since the last
    time.

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
    return await _stamp(context, thread_id, thread, now)


async def _stamp(
    context: Context, thread_id: str, thread: ThreadState, now: datetime
) -> ThreadState:
    """Stamp the document of a thread, and keep that in the cache."""
    unchanged = thread_query(thread_id) | {"epoch": thread.epoch}
    await UpdateMany(
        context.checkpoints, unchanged, {"$set": {"touched_at": now, "stamped_at": now}}
    )
    stamped = replace(thread, stamped_at=now)
    context.state.threads.put(thread_id, stamped)
    return stamped
