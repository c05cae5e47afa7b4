"""The collections of short-term memory: the `_id`s of their documents, queries, and the indexes
that serve them.

    {prefix}checkpoints
        type "thread"      one a thread: when it was last used, its metadata and members, its
                           tombstone
        type "checkpoint"  one a checkpoint: its metadata; channels inline or by chunk hashes
        type "chunk"       one a chunk: bytes that checkpoints and writes share
    {prefix}checkpoint_writes
        one a pending write
    {prefix}checkpoint_settings
        how far the schema has come; the lease and the record of the retention

Threads, checkpoints and chunks share a collection because one ordered command then writes a whole
put: chunks first, the checkpoint last, one wait for the journal (docs/decisions/one-collection.md
has the figures).

Pure. What a document holds stands in the modules beside this one; which to write, and in what
order, in the plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import TypeAlias

from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.serde.chunks import HASH_BYTES
from mongomem.engine.commands import Document
from mongomem.schema.indexes import Index

THREAD_KEY_BYTES, PLACE_BYTES = 12, HASH_BYTES
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


DAY = timedelta(days=1)
"""More than the clocks of two machines differ by."""


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


def checkpoint_doc_id(ref: CheckpointRef) -> bytes:
    """Return the `_id` of a checkpoint."""
    return thread_doc_id(ref.thread_id) + _digest(
        PLACE_BYTES, ref.checkpoint_ns, ref.checkpoint_id or ""
    )


def write_doc_id(ref: CheckpointRef, task_id: str, idx: int) -> bytes:
    """Return the `_id` of a pending write."""
    place = _digest(PLACE_BYTES, ref.checkpoint_ns, ref.checkpoint_id or "", task_id, str(idx))
    return thread_doc_id(ref.thread_id) + place


def chunk_doc_id(thread_id: str, name: bytes) -> bytes:
    """Return the `_id` of a chunk."""
    return thread_doc_id(thread_id) + name


def chunk_hash(key: bytes) -> bytes:
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


def all_chunks_of(thread_id: str) -> Document:
    """Return the query for all chunks of a thread, by a range of `_id`. Checkpoints share the
    range; `type` leaves them out.
    """
    return {"_id": _stretch_of(thread_id), "thread_id": thread_id, "type": CHUNK}


def _stretch_of(thread_id: str) -> Document:
    """Return the bounds of every `_id` of a thread but that of its own document."""
    first, last = (chunk_doc_id(thread_id, bytes([end] * HASH_BYTES)) for end in (0x00, 0xFF))
    return {"$gte": first, "$lte": last}


def all_but_the_thread(thread_id: str) -> Document:
    """Return the query for all documents of a thread but its own, whatever they say to be."""
    return {"_id": _stretch_of(thread_id), "thread_id": thread_id}


def before_epoch(epoch: int) -> Document:
    """Match epochs below the given one, and whatever is no epoch: missing, no number, or more than
    a day in the future.
    """
    return {"$not": {"$gte": epoch, "$lt": epoch + DAY // timedelta(microseconds=1)}}


def until(moment: datetime) -> Document:
    """Match times up to the given one, and whatever is no time: missing, or more than a day in the
    future.
    """
    return {"$not": {"$gt": moment, "$lt": moment + DAY}}


def misfiled(thread_id: str) -> Document:
    """Return the query for documents of a thread, by their `_id`, that say to be of another."""
    own: list[Document] = [{"_id": thread_doc_id(thread_id)}, {"_id": _stretch_of(thread_id)}]
    return {"$or": own, "thread_id": {"$ne": thread_id}}


def place_of(ref: CheckpointRef) -> Document:
    """Return the equalities that lead to the checkpoints of a namespace, or to one of them."""
    place: Document = {"thread_id": ref.thread_id, "checkpoint_ns": ref.checkpoint_ns}
    return place if ref.checkpoint_id is None else place | {"checkpoint_id": ref.checkpoint_id}


def visible_query(ref: CheckpointRef) -> Document:
    """Return the query for the checkpoints of a namespace, or for one of them, as far as they are
    to be seen.
    """
    return {"type": CHECKPOINT, "hidden": VISIBLE, **place_of(ref)}


def newest_stages(ref: CheckpointRef, epoch: int | None = None) -> list[Document]:
    """Return the stages that lead to the checkpoint at a ref, or its newest; with `epoch` only
    of that life.
    """
    of_life: Document = {} if epoch is None else {"epoch": epoch}
    order: list[Document] = (
        [] if ref.checkpoint_id is not None else [{"$sort": {"checkpoint_id": -1}}]
    )
    return [{"$match": visible_query(ref) | of_life}, *order, {"$limit": 1}]


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


# Indexes: one a query shape.

Fields: TypeAlias = tuple[tuple[str, int], ...]
"""The fields of an index, each with its direction."""

NEWEST_THREADS: Fields = (("updated_at", -1), ("thread_id", 1))
"""The order of the list of threads."""

_OF_CHECKPOINTS: Mapping[str, Fields] = {
    "history": (("thread_id", 1), ("checkpoint_ns", 1), ("checkpoint_id", -1)),
    "thread_history": (("thread_id", 1), ("checkpoint_id", -1), ("checkpoint_ns", 1)),
    "newest": (("checkpoint_id", -1), ("thread_id", 1), ("checkpoint_ns", 1)),
    "run": (("metadata.run_id", 1), ("thread_id", 1)),
}

_OF_WRITES: Fields = (
    ("thread_id", 1),
    ("checkpoint_ns", 1),
    ("checkpoint_id", 1),
    ("channel", 1),
)


def indexes(
    collections: Collections, metadata_keys: tuple[str, ...], expire_after: int | None
) -> list[Index]:
    """Return the indexes: one a query shape, `run_id` and the declared metadata keys, expiry where
    there is a TTL.
    """
    name, of_checkpoints = collections.checkpoints, {"type": CHECKPOINT}
    rows = [
        Index(name, key, _OF_CHECKPOINTS[key], partial=of_checkpoints) for key in _OF_CHECKPOINTS
    ]
    rows += _thread_indexes(name, metadata_keys)
    rows.append(Index(collections.writes, "writes", _OF_WRITES))
    if expire_after is not None:
        used = (("touched_at", 1),)
        rows += [
            Index(one, EXPIRY, used, expire_after_seconds=expire_after)
            for one in (collections.checkpoints, collections.writes)
        ]
    return rows


def _thread_indexes(collection: str, metadata_keys: tuple[str, ...]) -> list[Index]:
    of_threads = {"type": THREAD}
    rows = [Index(collection, "threads", NEWEST_THREADS, partial=of_threads)]
    for key in metadata_keys:
        members, once = f"members.{key}", f"metadata.{key}"
        by_members = ((members, 1), *NEWEST_THREADS)
        rows.append(Index(collection, f"threads_of_{key}", by_members, partial=of_threads))
        # Where the first format had it, and threads of that format have it still: no entry for any
        # other.
        by_once = ((once, 1), *NEWEST_THREADS)
        rows.append(Index(collection, f"threads_once_by_{key}", by_once, partial=_having(once)))
    for name, field in (("tombstones", "deleted_at"), ("ended_threads", "ended_at")):
        rows.append(Index(collection, name, ((field, 1),), partial=_having(field)))
    return rows


def _having(field: str) -> Document:
    return {"type": THREAD, field: {"$exists": True}}
