"""The documents of short-term memory: their identity, their fields, and the indexes that serve them.

    {prefix}checkpoints
        type "thread"      one a thread: when it was last used, its metadata and members, its tombstone
        type "checkpoint"  one a checkpoint: its metadata, and its channels inline or by chunk names
        type "chunk"       one a chunk: bytes that checkpoints and writes share
    {prefix}checkpoint_writes
        one a pending write
    {prefix}checkpoint_settings
        how far the schema has come

Threads, checkpoints and chunks share a collection because one ordered command then writes a whole
put: chunks first, the checkpoint last, one wait for the journal (docs/design.md has the figures).

Pure: builds and reads documents. Which of them to write, and in what order, stands in the plans.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from mongomem.checkpoint.addresses import Address
from mongomem.checkpoint.chunks import NAME_BYTES, Stored
from mongomem.commands import Document
from mongomem.errors import CorruptDataError, SchemaVersionError
from mongomem.schema.indexes import Index

SCHEMA_VERSION = 1
"""The version of the documents that this code writes. Every older one stays readable."""

THREAD_KEY_BYTES, PLACE_BYTES = 12, NAME_BYTES
"""The parts of an `_id`: which thread, and what in it."""

THREAD, CHECKPOINT, CHUNK = "thread", "checkpoint", "chunk"

NAMING_FIELDS = ("metadata", "last_metadata", "identity", "members", "labels", "preview", "updated_at")
"""The fields of a thread document that say what the thread is about and whose it is: a tombstone keeps none."""

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


# An `_id` is the digest of the thread and one of the place in it: deterministic, short, and beside its
# siblings in the index. Readable identifiers stand in fields of their own.


@lru_cache(maxsize=1024)
def thread_key(thread_id: str) -> bytes:
    """Return the `_id` of a thread document, which begins those of all its documents."""
    return _digest(THREAD_KEY_BYTES, thread_id)


def checkpoint_key(address: Address) -> bytes:
    """Return the `_id` of a checkpoint."""
    return thread_key(address.thread_id) + _digest(PLACE_BYTES, address.checkpoint_ns, address.checkpoint_id or "")


def write_key(address: Address, task_id: str, idx: int) -> bytes:
    """Return the `_id` of a pending write."""
    place = _digest(PLACE_BYTES, address.checkpoint_ns, address.checkpoint_id or "", task_id, str(idx))
    return thread_key(address.thread_id) + place


def chunk_key(thread_id: str, name: bytes) -> bytes:
    """Return the `_id` of a chunk."""
    return thread_key(thread_id) + name


def chunk_name(key: bytes) -> bytes:
    """Return the name of the chunk with this `_id`."""
    return key[THREAD_KEY_BYTES:]


def is_own_id(value: object) -> bool:
    """Say whether an `_id` is one that this module makes: bytes, as long as that of a thread or of a place in one."""
    return isinstance(value, bytes) and len(value) in (THREAD_KEY_BYTES, THREAD_KEY_BYTES + PLACE_BYTES)


def new_generation_number() -> int:
    """Return a random 62-bit number: a generation that no other thread or time has had."""
    return secrets.randbits(62)


def next_epoch(now: datetime, last: int | None = None) -> int:
    """Return an epoch above `last`, and above those of a thread whose document is gone: microseconds since 1970.

    Epochs of a thread only grow, so what carries a lower one belongs to a life that has ended.
    """
    return max(int(now.timestamp() * 1_000_000), -1 if last is None else last + 1)


def whole_milliseconds(moment: datetime) -> datetime:
    """Return a time as BSON keeps it."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def utc(moment: datetime) -> datetime:
    """Return what the driver read as an aware UTC time, however the client is configured."""
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)


def value_fields(value: Stored) -> Document:
    """Return the fields that describe a stored value, whose ends stand elsewhere."""
    fields: Document = {"type": value.type}
    if value.names:
        fields |= {"chunks": list(value.names), "size": value.size}
    return fields


def read_value(fields: Mapping[str, Any], ends: bytes) -> Stored:
    """Read the description of a stored value whose ends were found."""
    if "chunks" not in fields:
        return Stored(fields["type"], ends, (), len(ends))
    return Stored(fields["type"], ends, tuple(bytes(names) for names in fields["chunks"]), int(fields["size"]))


def read_values(described: Sequence[Mapping[str, Any]], content: bytes) -> list[Stored]:
    """Read the values of a document, whose ends stand one behind the other in its content, each of its `length`."""
    stops = list(accumulate(int(fields["length"]) for fields in described))
    if (stops or [0])[-1] != len(content):
        raise CorruptDataError(f"its values have {(stops or [0])[-1]} bytes, and {len(content)} are there")
    return [
        read_value(fields, content[stop - fields["length"] : stop])
        for fields, stop in zip(described, stops, strict=True)
    ]


def check_version(document: Mapping[str, Any], what: object) -> None:
    """Refuse a document from the future.

    Raises:
        SchemaVersionError: It was written by a newer mongomem.
    """
    version = document.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"{what} has schema version {version!r}; this mongomem reads up to {SCHEMA_VERSION}: upgrade it"
        )


def all_chunks_of(thread_id: str) -> Document:
    """Return the query for all chunks of a thread: the stretch of `_id` that theirs are in, checkpoints among them."""
    first, last = (chunk_key(thread_id, bytes([end] * NAME_BYTES)) for end in (0x00, 0xFF))
    return {"_id": {"$gte": first, "$lte": last}, "thread_id": thread_id, "type": CHUNK}


def everything_of(thread_id: str) -> Document:
    """Return the query for all checkpoints and chunks of a thread: all of its documents but its own."""
    return {field: value for field, value in all_chunks_of(thread_id).items() if field != "type"}


def place_of(address: Address) -> Document:
    """Return the equalities that lead to the checkpoints of a namespace, or to one of them."""
    place: Document = {"thread_id": address.thread_id, "checkpoint_ns": address.checkpoint_ns}
    return place if address.checkpoint_id is None else place | {"checkpoint_id": address.checkpoint_id}


def visible_query(address: Address) -> Document:
    """Return the query for the checkpoints of a namespace, or for one of them, as far as they are to be seen."""
    return {"type": CHECKPOINT, "hidden": VISIBLE, **place_of(address)}


def newest_stages(address: Address, epoch: int | None = None) -> list[Document]:
    """Return the stages that lead to the checkpoint at an address, or its newest; with `epoch` only of that life."""
    of_life: Document = {} if epoch is None else {"epoch": epoch}
    order: list[Document] = [] if address.checkpoint_id is not None else [{"$sort": {"checkpoint_id": -1}}]
    return [{"$match": visible_query(address) | of_life}, *order, {"$limit": 1}]


# A put is several statements of one command, and a whole deletion may run between two of them: then its checkpoint
# comes to lie behind the tombstone. What readers show is of the epoch that the thread document has, read with it.


def thread_stage(collections: Collections, thread_id: str) -> Document:
    """Return the stage that joins to a checkpoint the document of its thread, as `thread`: a list of one, or empty."""
    own = {"$match": {"_id": thread_key(thread_id), "thread_id": thread_id}}
    return {"$lookup": {"from": collections.checkpoints, "pipeline": [own], "as": "thread"}}


def epochs_stage(collections: Collections, thread_ids: Sequence[str]) -> Document:
    """Return the stage that adds, behind other documents, the `living_epoch` of threads, each under its `_id`."""
    own = {"_id": {"$in": [thread_key(one) for one in thread_ids]}, "thread_id": {"$in": list(thread_ids)}}
    pipeline = [{"$match": own}, {"$project": {"living_epoch": "$epoch"}}]
    return {"$unionWith": {"coll": collections.checkpoints, "pipeline": pipeline}}


def epoch_of(threads: Sequence[Document]) -> Any:
    """Return the epoch of the thread document that was read; None where there is none, and so nothing that lives."""
    return threads[0].get("epoch") if threads else None


def indexes(collections: Collections, metadata_keys: tuple[str, ...], expire_after: int | None) -> list[Index]:
    """Return the indexes: one a query shape, `run_id` and the declared metadata keys, expiry where there is a TTL."""
    is_checkpoint, is_thread = {"type": CHECKPOINT}, {"type": THREAD}
    in_checkpoints = [
        ("history", (("thread_id", 1), ("checkpoint_ns", 1), ("checkpoint_id", -1)), is_checkpoint),
        ("thread_history", (("thread_id", 1), ("checkpoint_id", -1), ("checkpoint_ns", 1)), is_checkpoint),
        ("newest", (("checkpoint_id", -1), ("thread_id", 1), ("checkpoint_ns", 1)), is_checkpoint),
        ("run", (("metadata.run_id", 1), ("thread_id", 1)), is_checkpoint),
        ("threads", (("updated_at", -1), ("thread_id", 1)), is_thread),
        *(_threads_by(f"threads_of_{key}", f"members.{key}", is_thread) for key in metadata_keys),
        # Where schema version 1 had it, and threads of version 1 have it still: no entry for any other.
        *(
            _threads_by(f"threads_once_by_{key}", f"metadata.{key}", _having(f"metadata.{key}"))
            for key in metadata_keys
        ),
        ("tombstones", (("deleted_at", 1),), _having("deleted_at")),
        ("ended_threads", (("ended_at", 1),), _having("ended_at")),
    ]
    rows = [Index(collections.checkpoints, name, keys, partial=partial) for name, keys, partial in in_checkpoints]
    of_writes = (("thread_id", 1), ("checkpoint_ns", 1), ("checkpoint_id", 1), ("channel", 1))
    rows.append(Index(collections.writes, "writes", of_writes))
    if expire_after is not None:
        rows += [
            Index(name, EXPIRY, (("touched_at", 1),), expire_after_seconds=expire_after)
            for name in (collections.checkpoints, collections.writes)
        ]
    return rows


def _threads_by(name: str, field: str, partial: Document) -> tuple[str, tuple[tuple[str, int], ...], Document]:
    """Return an index of threads by a field, each value's in the order of the list of threads."""
    return name, ((field, 1), ("updated_at", -1), ("thread_id", 1)), partial


def _having(field: str) -> Document:
    return {"type": THREAD, field: {"$exists": True}}
