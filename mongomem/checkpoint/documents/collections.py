"""The documents of short-term memory: their identity, their fields, and the indexes that serve
them.

    {prefix}checkpoints
        type "thread"      one a thread: when it was last used, its metadata and members, its
                           tombstone
        type "checkpoint"  one a checkpoint: its metadata, and its channels inline or by chunk names
        type "chunk"       one a chunk: bytes that checkpoints and writes share
    {prefix}checkpoint_writes
        one a pending write
    {prefix}checkpoint_settings
        how far the schema has come

Threads, checkpoints and chunks share a collection because one ordered command then writes a whole
put: chunks first, the checkpoint last, one wait for the journal (docs/decisions/one-collection.md
has the figures).

Pure: builds and reads documents. Which of them to write, and in what order, stands in the plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from typing import Any, TypeAlias, TypeVar

from mongomem.arguments import shown
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.serde.chunks import NAME_BYTES, StoredValue
from mongomem.engine.commands import Document
from mongomem.errors import CorruptDataError, SchemaVersionError
from mongomem.schema.indexes import Index

T = TypeVar("T")

SCHEMA_VERSION = 1
"""The version of the documents that this code writes. Every older one stays readable."""

THREAD_KEY_BYTES, PLACE_BYTES = 12, NAME_BYTES
"""The parts of an `_id`: which thread, and what in it."""

THREAD, CHECKPOINT, CHUNK = "thread", "checkpoint", "chunk"

NAMING_FIELDS = (
    "metadata",
    "last_metadata",
    "identity",
    "members",
    "labels",
    "preview",
    "updated_at",
)
"""The fields of a thread document that say what the thread is about and whose it is: a tombstone
keeps none."""

LARGEST_EPOCH = 2**63 - 2**32
"""Epochs are below that, so that there is always a next one. Those of version 1 were random, up to
2**62."""

DAY = timedelta(days=1)
"""More than the clocks of two machines differ by."""

MOST_LEVELS = 16
"""How many levels of names a value may have: each has a sixteenth of the names of the one below."""

EXPIRY = "expiry"
"""The name of the TTL indexes."""

VISIBLE = None
"""The value of `hidden` that matches checkpoints without that field."""


@dataclass(frozen=True, slots=True)
class Collections:
    """The names of the collections under one prefix."""

    prefix: str = ""

    @property
    def checkpoints(self) -> str:
        return f"{self.prefix}checkpoints"

    @property
    def writes(self) -> str:
        return f"{self.prefix}checkpoint_writes"

    @property
    def settings(self) -> str:
        return f"{self.prefix}checkpoint_settings"


def _digest(size: int, *parts: str) -> bytes:
    hashed = blake2b(digest_size=size)
    for part in parts:
        encoded = part.encode()
        hashed.update(len(encoded).to_bytes(8, "big") + encoded)
    return hashed.digest()


# An `_id` is the digest of the thread and one of the place in it: deterministic, short, and beside
# its siblings in the index. Readable identifiers stand in fields of their own.


@lru_cache(maxsize=1024)
def thread_doc_id(thread_id: str) -> bytes:
    """Return the `_id` of a thread document, which begins those of all its documents."""
    return _digest(THREAD_KEY_BYTES, thread_id)


def checkpoint_doc_id(address: CheckpointRef) -> bytes:
    """Return the `_id` of a checkpoint."""
    return thread_doc_id(address.thread_id) + _digest(
        PLACE_BYTES, address.checkpoint_ns, address.checkpoint_id or ""
    )


def write_doc_id(address: CheckpointRef, task_id: str, idx: int) -> bytes:
    """Return the `_id` of a pending write."""
    place = _digest(
        PLACE_BYTES, address.checkpoint_ns, address.checkpoint_id or "", task_id, str(idx)
    )
    return thread_doc_id(address.thread_id) + place


def chunk_doc_id(thread_id: str, name: bytes) -> bytes:
    """Return the `_id` of a chunk."""
    return thread_doc_id(thread_id) + name


def chunk_name(key: bytes) -> bytes:
    """Return the name of the chunk with this `_id`."""
    return key[THREAD_KEY_BYTES:]


def is_own_id(value: object) -> bool:
    """Say whether an `_id` is one that this module makes: bytes, as long as that of a thread or of
    a place in one.
    """
    return isinstance(value, bytes) and len(value) in (
        THREAD_KEY_BYTES,
        THREAD_KEY_BYTES + PLACE_BYTES,
    )


def next_epoch(now: datetime, last: int | None = None) -> int:
    """Return an epoch above `last`, and above those of a thread whose document is gone:
    microseconds since 1970.

    Epochs of a thread only grow, so what carries a lower one belongs to a life that has ended.
    """
    return max(int(now.timestamp() * 1_000_000), -1 if last is None else last + 1)


def whole_milliseconds(moment: datetime) -> datetime:
    """Return a time as BSON keeps it."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def utc(moment: datetime) -> datetime:
    """Return what the driver read as an aware UTC time, however the client is configured."""
    return (
        moment.replace(tzinfo=timezone.utc)
        if moment.tzinfo is None
        else moment.astimezone(timezone.utc)
    )


def value_fields(value: StoredValue) -> Document:
    """Return the fields that describe a stored value, whose ends stand elsewhere."""
    fields: Document = {"type": value.type}
    if value.names:
        fields |= {"chunks": list(value.names), "size": value.size}
    return fields


def read_value(fields: Mapping[str, Any], ends: bytes) -> StoredValue:
    """Read the description of a stored value whose ends were found.

    Raises:
        CorruptDataError: It lacks a field, or a field is of another type.
    """
    kind = read_field(fields, "type", str)
    if "chunks" not in fields:
        return StoredValue(kind, ends, (), len(ends))
    names = tuple(fields["chunks"]) if isinstance(fields["chunks"], list) else ()
    if not 0 < len(names) <= MOST_LEVELS or not all(isinstance(one, bytes) for one in names):
        raise CorruptDataError(f"its chunks are no names by level: {shown(fields['chunks'])}")
    if (
        len(names[0]) % NAME_BYTES
    ):  # those of lower levels are whole only with what their chunks hold
        raise CorruptDataError(f"its chunks are no names of {NAME_BYTES} bytes each")
    return StoredValue(kind, ends, tuple([bytes(one) for one in names]), read_count(fields, "size"))


def read_values(described: Sequence[Mapping[str, Any]], content: bytes) -> list[StoredValue]:
    """Read the values of a document, whose ends stand one behind the other in its content, each of
    its `length`.
    """
    lengths = [read_count(fields, "length") for fields in described]
    if sum(lengths) != len(content):
        raise CorruptDataError(
            f"its values have {sum(lengths)} bytes, and {len(content)} are there"
        )
    stops = accumulate(lengths)
    return [
        read_value(fields, content[stop - length : stop])
        for fields, length, stop in zip(described, lengths, stops, strict=True)
    ]


def read_field(fields: Mapping[str, Any], field: str, kind: type[T]) -> T:
    """Return a field of a document.

    Raises:
        CorruptDataError: It is not there, or is of another type.
    """
    value = fields.get(field)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise CorruptDataError(f"its {field} is {shown(value)}, where {kind.__name__} belongs")
    return value


def read_count(fields: Mapping[str, Any], field: str) -> int:
    """Return a field that is a number from 0 on."""
    count = read_field(fields, field, int)
    if count < 0:
        raise CorruptDataError(f"its {field} is {count}, which is below 0")
    return int(count)


def is_epoch(value: object) -> bool:
    """Say whether a value is an epoch."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_EPOCH


def read_epoch(fields: Mapping[str, Any]) -> int:
    """Return the epoch of a document."""
    epoch = read_field(fields, "epoch", int)
    if not is_epoch(epoch):
        raise CorruptDataError(f"its epoch is {epoch}, which is none")
    return epoch


def read_time(fields: Mapping[str, Any], field: str) -> datetime:
    """Return a field that is a time, aware and in UTC. One beyond the year 9999 comes as something
    else.
    """
    return utc(read_field(fields, field, datetime))


@dataclass(frozen=True, slots=True)
class Title:
    """What messages call a document, by the fields that name it. It is written only where a message
    is.
    """

    text: str
    document: Mapping[str, Any]

    def __str__(self) -> str:
        named = {field: shown(self.document.get(field)) for field in ("thread_id", "checkpoint_id")}
        return self.text.format_map(named)


def check_version(document: Mapping[str, Any], what: object) -> None:
    """Refuse a document from the future.

    Raises:
        SchemaVersionError: It was written by a newer mongomem.
        CorruptDataError: Its version is none.
    """
    version = document.get("schema_version", SCHEMA_VERSION)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise CorruptDataError(f"{what} has schema version {shown(version)}, which is none")
    if version > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"{what} has schema version {version}; this mongomem reads up to {SCHEMA_VERSION}: "
            "upgrade it"
        )


def check_key(document: Mapping[str, Any], key: bytes) -> None:
    """Compare the `_id` of a document with the one that its fields come to.

    Raises:
        CorruptDataError: It is another one: a field was changed, or the document is a copy of
            another's.
    """
    if document.get("_id") != key:
        raise CorruptDataError("its _id is that of another document")


def check_type(document: Mapping[str, Any], kind: str) -> None:
    """Compare what a document says to be with what it should be.

    Raises:
        CorruptDataError: It is something else.
    """
    if document.get("type") != kind:
        raise CorruptDataError(f"its type is {shown(document.get('type'))}, where {kind} belongs")


def all_chunks_of(thread_id: str) -> Document:
    """Return the query for all chunks of a thread: the stretch of `_id` that theirs are in,
    checkpoints among them.
    """
    return {"_id": _stretch_of(thread_id), "thread_id": thread_id, "type": CHUNK}


def _stretch_of(thread_id: str) -> Document:
    """Return the bounds of every `_id` of a thread but that of its own document."""
    first, last = (chunk_doc_id(thread_id, bytes([end] * NAME_BYTES)) for end in (0x00, 0xFF))
    return {"$gte": first, "$lte": last}


def all_but_the_thread(thread_id: str) -> Document:
    """Return the query for all documents of a thread but its own, whatever they say to be."""
    return {"_id": _stretch_of(thread_id), "thread_id": thread_id}


def other_than_from(epoch: int) -> Document:
    """Return the condition for epochs before one that begins now, and for what is no epoch that has
    begun by now.
    """
    return {"$not": {"$gte": epoch, "$lt": epoch + DAY // timedelta(microseconds=1)}}


def other_than_after(moment: datetime) -> Document:
    """Return the condition for times up to now, and for what is no time that has come by now."""
    return {"$not": {"$gt": moment, "$lt": moment + DAY}}


def misfiled(thread_id: str) -> Document:
    """Return the query for documents of a thread, by their `_id`, that say to be of another."""
    own: list[Document] = [{"_id": thread_doc_id(thread_id)}, {"_id": _stretch_of(thread_id)}]
    return {"$or": own, "thread_id": {"$ne": thread_id}}


def place_of(address: CheckpointRef) -> Document:
    """Return the equalities that lead to the checkpoints of a namespace, or to one of them."""
    place: Document = {"thread_id": address.thread_id, "checkpoint_ns": address.checkpoint_ns}
    return (
        place if address.checkpoint_id is None else place | {"checkpoint_id": address.checkpoint_id}
    )


def visible_query(address: CheckpointRef) -> Document:
    """Return the query for the checkpoints of a namespace, or for one of them, as far as they are
    to be seen.
    """
    return {"type": CHECKPOINT, "hidden": VISIBLE, **place_of(address)}


def newest_stages(address: CheckpointRef, epoch: int | None = None) -> list[Document]:
    """Return the stages that lead to the checkpoint at an address, or its newest; with `epoch` only
    of that life.
    """
    of_life: Document = {} if epoch is None else {"epoch": epoch}
    order: list[Document] = (
        [] if address.checkpoint_id is not None else [{"$sort": {"checkpoint_id": -1}}]
    )
    return [{"$match": visible_query(address) | of_life}, *order, {"$limit": 1}]


# A put is several statements of one command, and a whole deletion may run between two of them: then
# its checkpoint comes to lie behind the tombstone. What readers show is of the epoch that the
# thread document has, read with it.


def thread_stage(collections: Collections, thread_id: str) -> Document:
    """Return the stage that joins to a checkpoint the document of its thread, as `thread`: a list
    of one, or empty.
    """
    own = {"$match": {"_id": thread_doc_id(thread_id)}}
    return {"$lookup": {"from": collections.checkpoints, "pipeline": [own], "as": "thread"}}


def epochs_stage(collections: Collections, thread_ids: Sequence[str]) -> Document:
    """Return the stage that adds, behind other documents, the `living_epoch` of threads, each under
    its `_id`.
    """
    own = {
        "_id": {"$in": [thread_doc_id(one) for one in thread_ids]},
        "thread_id": {"$in": list(thread_ids)},
    }
    pipeline = [{"$match": own}, {"$project": {"thread_id": 1, "living_epoch": "$epoch"}}]
    return {"$unionWith": {"coll": collections.checkpoints, "pipeline": pipeline}}


def living_epoch(
    thread_id: str, threads: Sequence[Mapping[str, Any]], field: str = "epoch"
) -> int | None:
    """Return the epoch of a thread document that was read; None where there is none, and so nothing
    that lives.

    Raises:
        CorruptDataError: It is none, or the document says to be of another thread.
    """
    if not threads:
        return None
    named: Any = threads[0].get("thread_id")
    epoch: Any = threads[0].get(field)
    if type(named) is not str or named != thread_id:
        raise CorruptDataError(
            f"thread {shown(thread_id)}: its document says to be of thread {shown(named)}"
        )
    if not is_epoch(epoch):
        raise CorruptDataError(
            f"thread {shown(thread_id)}: its document is not readable: its epoch is {shown(epoch)}"
        )
    return int(epoch)


Row: TypeAlias = tuple[str, tuple[tuple[str, int], ...], Document]
"""An index of the collection of checkpoints: its name, its fields, and which documents it is of."""


def _threads_by(name: str, field: str, partial: Document) -> Row:
    """Return an index of threads by a field, each value's in the order of the list of threads."""
    return name, ((field, 1), ("updated_at", -1), ("thread_id", 1)), partial


def _having(field: str) -> Document:
    return {"type": THREAD, field: {"$exists": True}}


_BY_TYPE: Sequence[Row] = (
    (
        "history",
        (("thread_id", 1), ("checkpoint_ns", 1), ("checkpoint_id", -1)),
        {"type": CHECKPOINT},
    ),
    (
        "thread_history",
        (("thread_id", 1), ("checkpoint_id", -1), ("checkpoint_ns", 1)),
        {"type": CHECKPOINT},
    ),
    (
        "newest",
        (("checkpoint_id", -1), ("thread_id", 1), ("checkpoint_ns", 1)),
        {"type": CHECKPOINT},
    ),
    ("run", (("metadata.run_id", 1), ("thread_id", 1)), {"type": CHECKPOINT}),
    ("threads", (("updated_at", -1), ("thread_id", 1)), {"type": THREAD}),
)

_OF_ENDED_LIVES: Sequence[Row] = (
    ("tombstones", (("deleted_at", 1),), _having("deleted_at")),
    ("ended_threads", (("ended_at", 1),), _having("ended_at")),
)


def indexes(
    collections: Collections, metadata_keys: tuple[str, ...], expire_after: int | None
) -> list[Index]:
    """Return the indexes: one a query shape, `run_id` and the declared metadata keys, expiry where
    there is a TTL.
    """
    in_checkpoints = [
        *_BY_TYPE,
        *(
            _threads_by(f"threads_of_{key}", f"members.{key}", {"type": THREAD})
            for key in metadata_keys
        ),
        # Where schema version 1 had it, and threads of version 1 have it still: no entry for any
        # other.
        *(
            _threads_by(f"threads_once_by_{key}", f"metadata.{key}", _having(f"metadata.{key}"))
            for key in metadata_keys
        ),
        *_OF_ENDED_LIVES,
    ]
    rows = [
        Index(collections.checkpoints, name, keys, partial=partial)
        for name, keys, partial in in_checkpoints
    ]
    of_writes = (("thread_id", 1), ("checkpoint_ns", 1), ("checkpoint_id", 1), ("channel", 1))
    rows.append(Index(collections.writes, "writes", of_writes))
    if expire_after is not None:
        rows += [
            Index(name, EXPIRY, (("touched_at", 1),), expire_after_seconds=expire_after)
            for name in (collections.checkpoints, collections.writes)
        ]
    return rows
