"""The documents of a thread and of its chunks, encoded and decoded. Pure.

Concurrency control of a thread, all of it in its document:

    epoch        the life of the thread, also on its checkpoints and chunks, and on pending writes
                 with chunks; delete_thread raises it, and what has an earlier one is not shown
    generation   a random token; every removal changes it, and a put writes only under the one that
                 it knows the thread and its parent by
    stamped_at   when all documents of the thread were last touched; none is older

    who changes it      epoch   generation   stamped_at
    put, first of a life  new      -           set
    put, any other         -       -            -
    touch                  -       -           set
    delete_thread         new     new           -
    prune, GC              -      new           -
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from mongomem.arguments import shown
from mongomem.checkpoint.documents.collections import (
    CHUNK,
    NAMING_FIELDS,
    THREAD,
    chunk_doc_id,
    thread_doc_id,
)
from mongomem.checkpoint.documents.fields import (
    SCHEMA_VERSION,
    Title,
    check_key,
    check_type,
    check_version,
    next_epoch,
    read_epoch,
    read_field,
    read_time,
)
from mongomem.checkpoint.documents.identity import Member, Members, additions, together
from mongomem.checkpoint.serde.place_digest import name_key_binding
from mongomem.checkpoint.serde.serializer import (
    NAME_KEY_BYTES,
    Obstacle,
    UnopenedError,
    ValueSerializer,
)
from mongomem.engine.commands import Document, Update
from mongomem.errors import ConfigurationError, CorruptDataError


@dataclass(frozen=True, slots=True)
class ThreadState:
    """What a put must know of its thread.

    Attributes:
        epoch: The life of the thread, ended by delete_thread; on all of its documents.
        generation: Changes whenever anything of the thread is removed.
        stamped_at: When all of its documents were last touched for their expiry: none is older.
        name_key: The key of its chunk hashes; empty unless values are encrypted.
        begins: Whether the next put begins a life of the thread.
        compress: Whether its newest put compressed content: not while the state is short.
        members: Whom the thread was put for, by the identity keys that it has been put under since
            its life began; under others the checkpoints alone know.
    """

    epoch: int
    generation: int
    stamped_at: datetime
    name_key: bytes = b""
    begins: bool = False
    compress: bool = True
    members: Members = field(default_factory=dict)

    def weight(self) -> int:
        """Return about how many bytes it holds, beyond what every state does."""
        return len(self.name_key) + 100 * sum(map(len, self.members.values()))


def thread_query(thread_id: str) -> Document:
    """Return the query for a thread document."""
    return {"_id": thread_doc_id(thread_id), "thread_id": thread_id}


def decode_thread(
    document: Document,
    serializer: ValueSerializer,
    *,
    now: datetime,
    ttl: timedelta | None,
    new_name_key: bytes,
) -> ThreadState:
    """Read the state of a thread from its document.

    A thread that was last touched longer than the TTL ago is read under a new epoch: the server may
    be deleting what is left of it, so nothing new may rely on that.

    Args:
        document: The thread document.
        serializer: Opens its name key.
        now: The time.
        ttl: How long an unused thread lives.
        new_name_key: What its chunk hashes are keyed with where it has no key yet.

    Raises:
        CorruptDataError: The document lacks a field, or a field is of another type, or it is
            another's.
        ConfigurationError: It was written with other encryption, or none.
    """
    what = Title("thread {thread_id}", document)
    check_version(document, what)
    try:
        thread = _stored_state(document)
        if ttl is not None and now - thread.stamped_at >= ttl:
            thread = replace(thread, epoch=next_epoch(now, thread.epoch), begins=True)
        name_key = _usable_name_key(serializer, document, thread.begins, new_name_key)
        members = {} if thread.begins else _members_beside_copies(document)
        return replace(thread, name_key=name_key, members=members)
    except (CorruptDataError, UnicodeError) as error:
        raise CorruptDataError(f"{what}: its document is not readable: {error}") from error


def _stored_state(document: Document) -> ThreadState:
    """Read the state of a thread as its document has it, without key and members."""
    check_key(document, thread_doc_id(read_field(document, "thread_id", str)))
    check_type(document, THREAD)
    return ThreadState(
        read_epoch(document),
        read_field(document, "generation", int),
        read_time(document, "stamped_at"),
        begins=bool(document.get("deleted_at")) or document.get("updated_at") is None,
    )


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


def encode_thread(
    thread_id: str, thread: ThreadState, use: ThreadUse, serializer: ValueSerializer, now: datetime
) -> Update:
    """Return the upsert of a thread document under the generation it is known by.

    Where a life of the thread begins, nothing of the former one stays in it but when that ended.
    Where the document of a thread that lives has vanished, the upsert makes a tombstone, so that
    the checkpoint of this put is not shown until the put begins again.
    """
    own: Document = (
        {"touched_at": now, "schema_version": SCHEMA_VERSION}
        | encode_name_key(thread_id, thread, serializer)
        | use.last
    )
    change = (
        _beginning(thread, use, own, now) if thread.begins else _continuation(thread, use, own, now)
    )
    return Update(thread_query(thread_id) | {"generation": thread.generation}, change, upsert=True)


def _beginning(thread: ThreadState, use: ThreadUse, own: Document, now: datetime) -> Document:
    """Return the change of a thread document with which a life begins; `own` are the fields that
    every use sets.
    """
    birth = {"type": THREAD, "created_at": now, "stamped_at": now, "epoch": thread.epoch}
    named = {
        "identity": dict(use.lasting),
        "members": _listed(members_after(thread, use)),
        "metadata": {},
    }
    gone = {name: "" for name in (*NAMING_FIELDS, "name_key") if name not in own | named}
    return {"$set": own | birth | named, "$unset": gone, "$rename": {"deleted_at": "ended_at"}}


def _continuation(thread: ThreadState, use: ThreadUse, own: Document, now: datetime) -> Document:
    """Return the change of a thread document that goes on with a life, or makes a tombstone where
    it is gone.
    """
    lasting, more = lasting_changes(thread, use)
    tombstone = encode_tombstone(next_epoch(now, thread.epoch), now)
    made = {name: value for name, value in tombstone.items() if name not in own}
    return {"$set": own | lasting, "$setOnInsert": made, **({"$addToSet": more} if more else {})}


def encode_tombstone(epoch: int, now: datetime) -> Document:
    """Return the fields of a thread document that no checkpoint belongs to."""
    times = dict.fromkeys(("created_at", "stamped_at", "touched_at", "deleted_at"), now)
    return {"type": THREAD, "schema_version": SCHEMA_VERSION, "epoch": epoch, **times}


def lasting_changes(thread: ThreadState, use: ThreadUse) -> tuple[Document, Document]:
    """Return what to set in a thread that lives so that it shows whom a use names, and what to add
    to its members.

    Where it was not always put with a key as an identity key it stays as the first format has it,
    without members.
    """
    places = {key: "identity" if key in thread.members else "metadata" for key in use.lasting}
    shown = {f"{places[key]}.{key}": value for key, value in use.lasting.items()}
    added = _listed(_more(thread, use))
    return shown, {f"members.{key}": {"$each": listed} for key, listed in added.items() if listed}


def members_after(thread: ThreadState, use: ThreadUse) -> Members:
    """Return the members of a thread once it has been used so."""
    more = _more(thread, use)
    if thread.begins:
        return more
    return together(thread.members, more) if more else thread.members


def _more(thread: ThreadState, use: ThreadUse) -> Members:
    if not (thread.begins or any(use.members.values())):
        return {}
    present = dict.fromkeys(use.members, frozenset[Member]()) if thread.begins else thread.members
    return additions(present, use.members)


def _listed(members: Members) -> dict[str, list[Member]]:
    return {key: list(listed) for key, listed in members.items()}


# The name key: the secret under which the chunks of an encrypted thread are named.


def encode_name_key(thread_id: str, thread: ThreadState, serializer: ValueSerializer) -> Document:
    """Return the field of a thread document that holds its name key, encrypted."""
    if not thread.name_key:
        return {}
    return {"name_key": serializer.seal(thread.name_key, name_key_binding(thread_id))}


class KeyMatch(Enum):
    """What a thread document says of the key that its thread was written under."""

    ABSENT = "it was written without encryption"
    FITS = "it was written under the key of this serializer"
    DIFFERS = "it was written under another encryption key"


def decode_name_key(
    document: Document | None, serializer: ValueSerializer, thread_id: str
) -> tuple[KeyMatch, bytes | None]:
    """Return whether a thread was written under the key of this serializer, and its name key, if it
    can be had.

    Where the key fits and there is no name key, it is damaged, or that of another thread.
    """
    sealed = (document or {}).get("name_key")
    if sealed is None:
        return KeyMatch.ABSENT, None
    try:
        opened = serializer.open(sealed if isinstance(sealed, dict) else {})
        opened.check(name_key_binding(thread_id))
    except UnopenedError as error:
        is_plain = error.obstacle is Obstacle.PLAIN
        return (KeyMatch.FITS if is_plain else KeyMatch.DIFFERS), None
    except CorruptDataError:
        return KeyMatch.FITS, None
    is_whole = len(opened.content) == NAME_KEY_BYTES
    return KeyMatch.FITS, opened.content if is_whole else None


def _usable_name_key(
    serializer: ValueSerializer, document: Document, begins: bool, new_name_key: bytes
) -> bytes:
    """Return the name key of a thread: its own, or a new one where nothing stands under that."""
    thread_id, seals = document["thread_id"], serializer.seals
    match, name_key = decode_name_key(document, serializer, thread_id)
    if name_key is not None and seals:
        return name_key
    was_plain = match is KeyMatch.ABSENT
    if begins or (was_plain and (not seals or serializer.policy.allow_plaintext)):
        return new_name_key
    obstacle = Obstacle.SEALED
    if seals:
        obstacle = Obstacle.PLAIN if was_plain else Obstacle.KEY
    raise advised(obstacle, match, thread_id) or CorruptDataError("its name_key is not its own")


def opened_name_key(document: Document, serializer: ValueSerializer, thread_id: str) -> bytes:
    """Return the name key of an encrypted thread; empty for one that is not encrypted.

    Raises:
        ConfigurationError: It was written under another key, or this serializer does not decrypt.
        CorruptDataError: It is damaged.
    """
    match, name_key = decode_name_key(document, serializer, thread_id)
    if name_key is not None or match is KeyMatch.ABSENT:
        return name_key or b""
    obstacle = Obstacle.KEY if serializer.seals else Obstacle.SEALED
    raise advised(obstacle, match, thread_id) or CorruptDataError(
        f"thread {shown(thread_id)}: its name_key is not its own"
    )


OTHER_KEY = "thread {0} was written under another encryption key than this serializer has"

ADVICE: Mapping[tuple[Obstacle, KeyMatch], str] = {
    (Obstacle.KEY, KeyMatch.DIFFERS): OTHER_KEY,
    (Obstacle.PLAIN, KeyMatch.DIFFERS): OTHER_KEY,
    (Obstacle.PLAIN, KeyMatch.ABSENT): (
        "thread {0} was written without encryption, and this serializer encrypts: "
        "MongoSaver(allow_plaintext=True) goes on with it, for a migration"
    ),
    (Obstacle.SEALED, KeyMatch.DIFFERS): (
        "thread {0} is encrypted: pass the EncryptedSerializer that wrote it as serde= "
        "(its AES cipher needs pip install pycryptodome)"
    ),
}
"""What to do, where something can be done. All else is damage."""


def advised(obstacle: Obstacle, match: KeyMatch, thread_id: object) -> ConfigurationError | None:
    """Return the error that says what to do about content that cannot be opened, or None where it
    is damaged.
    """
    advice = ADVICE.get((obstacle, match))
    return None if advice is None else ConfigurationError(advice.format(shown(thread_id)))


# Chunks.


def encode_chunk(
    thread_id: str,
    name: bytes,
    content: bytes,
    epoch: int,
    now: datetime,
    serializer: ValueSerializer,
    *,
    compress: bool = True,
) -> Update:
    """Return the upsert of a chunk: one that is there keeps its content, and is neither idle nor of
    an ended life.
    """
    return Update(
        {"_id": chunk_doc_id(thread_id, name), "thread_id": thread_id},
        {
            "$setOnInsert": serializer.seal_chunk(thread_id, name, content, compress),
            "$set": {"type": CHUNK, "epoch": epoch, "touched_at": now},
            "$unset": {"idle_since": ""},
        },
        upsert=True,
    )
