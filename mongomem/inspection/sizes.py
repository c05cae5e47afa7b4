"""How much threads hold: bytes as they are stored, and bytes of the states that these stand for.

Every document of a thread but its own begins its `_id` with that of the thread, so the documents of
a collection, in the order of `_id`, are thread after thread. (MongoDB orders bytes by their length
first: the thread documents, whose `_id` is shorter, come before all others.) A page is so many
documents; no page needs more memory on the server than that, and the pages together read the
collection once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from pymongo.errors import OperationFailure

from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    CHUNK,
    PLACE_BYTES,
    THREAD,
    THREAD_KEY_BYTES,
    all_but_the_thread,
)
from mongomem.engine.commands import MAX_TIME_EXPIRED, Aggregate, Document
from mongomem.inspection.context import Context

PAGE_DOCUMENTS = 20_000

FIRST = bytes(THREAD_KEY_BYTES + PLACE_BYTES)
"""Below every `_id` of a checkpoint, a chunk or a pending write."""


@dataclass(frozen=True, slots=True)
class ThreadSize:
    """What a thread holds.

    Attributes:
        stored: Bytes of its documents, as BSON.
        logical: Bytes of all values of all its checkpoints and pending writes, each counted where
            it is, as a store without sharing would keep them.
        checkpoints: How many there are.
        chunks: How many there are.
        writes: How many pending writes there are.
    """

    stored: int = 0
    logical: int = 0
    checkpoints: int = 0
    chunks: int = 0
    writes: int = 0

    def __add__(self, other: ThreadSize) -> ThreadSize:
        return ThreadSize(
            self.stored + other.stored,
            self.logical + other.logical,
            self.checkpoints + other.checkpoints,
            self.chunks + other.chunks,
            self.writes + other.writes,
        )


@dataclass(frozen=True, slots=True)
class ChannelSize:
    """What a channel comes to in all checkpoints that were counted.

    Attributes:
        logical: Bytes of its values, each counted where it is.
        values: How many there are.
        largest: Bytes of the largest.
    """

    logical: int = 0
    values: int = 0
    largest: int = 0

    def __add__(self, other: ChannelSize) -> ChannelSize:
        return ChannelSize(
            self.logical + other.logical,
            self.values + other.values,
            max(self.largest, other.largest),
        )


@dataclass(frozen=True, slots=True)
class SizePage:
    """The sizes of some documents that stand behind one another.

    Attributes:
        threads: By the ids of threads, in the order in which they stand; the first and the last may
            go on in the pages beside.
        channels: By their names.
        documents: How many were read.
        last: The `_id` of the last; None where there are no more.
    """

    threads: Mapping[str, ThreadSize]
    channels: Mapping[str, ChannelSize]
    documents: int
    last: bytes | None


def _value_bytes(value: str) -> Document:
    """Return the expression for the bytes of a value that is described by fields."""
    return {"$ifNull": [f"{value}.size", {"$ifNull": [f"{value}.length", 0]}]}


_CHANNELS: Document = {"$cond": [{"$isArray": "$channels"}, "$channels", []]}

_STATE: Document = {
    "$add": [
        {"$sum": {"$map": {"input": _CHANNELS, "as": "one", "in": _value_bytes("$$one")}}},
        {"$sum": [_value_bytes("$body")]},
    ]
}
"""The bytes of the values of a checkpoint."""

_WRITTEN: Document = {"$ifNull": ["$size", {"$bsonSize": "$$ROOT"}]}
"""About the bytes of a pending write."""


def _counted(condition: Document) -> Document:
    return {"$sum": {"$cond": [condition, 1, 0]}}


def _is(kind: str) -> Document:
    return {"$eq": ["$type", kind]}


MEASURED: Document = {
    "$project": {
        "thread_id": 1,
        "type": 1,
        "stored": {"$bsonSize": "$$ROOT"},
        "logical": {
            "$switch": {
                "branches": [
                    {"case": _is(CHECKPOINT), "then": _STATE},
                    {"case": {"$in": ["$type", [CHUNK, THREAD]]}, "then": 0},
                ],
                "default": _WRITTEN,
            }
        },
        "is_write": {"$eq": [{"$type": "$task_id"}, "string"]},
        "shown": {"$ne": ["$hidden", True]},
    }
}
"""The stage that leaves of a document what is added up."""

BY_THREAD: Document = {
    "$group": {
        "_id": "$thread_id",
        "stored": {"$sum": "$stored"},
        "logical": {"$sum": "$logical"},
        "checkpoints": _counted({"$and": [_is(CHECKPOINT), "$shown"]}),
        "chunks": _counted(_is(CHUNK)),
        "writes": _counted({"$eq": ["$is_write", True]}),
        "documents": {"$sum": 1},
        "last": {"$max": "$_id"},
    }
}

BY_CHANNEL: Sequence[Document] = (
    {"$match": {"type": CHECKPOINT}},
    {"$unwind": "$channels"},
    {
        "$group": {
            "_id": "$channels.channel",
            "logical": {"$sum": _value_bytes("$channels")},
            "values": {"$sum": 1},
            "largest": {"$max": _value_bytes("$channels")},
        }
    },
)


async def sizes_of(
    context: Context, thread_ids: Sequence[str], most_milliseconds: int
) -> dict[str, ThreadSize] | None:
    """Add up what threads hold, which reads all of their documents on the server; None where that
    takes longer than it may.
    """
    if not thread_ids:
        return {}
    query = {"$or": [all_but_the_thread(one) for one in thread_ids]}
    try:
        groups = [
            one
            for collection in (context.saver.checkpoints, context.saver.writes)
            for one in await Aggregate(
                collection,
                [{"$match": query}, MEASURED, BY_THREAD],
                most_milliseconds=most_milliseconds,
            )
        ]
    except OperationFailure as error:
        if error.code != MAX_TIME_EXPIRED:
            raise
        return None
    return {**dict.fromkeys(thread_ids, ThreadSize()), **_by_thread(groups)}


async def size_page(context: Context, after: bytes = FIRST) -> SizePage:
    """Add up the sizes of the next documents behind an `_id`: those of checkpoints and chunks, and
    of the pending writes that stand between them.
    """
    page: list[Document] = [
        {"$match": {"_id": {"$gt": after}}},
        {"$sort": {"_id": 1}},
        {"$limit": PAGE_DOCUMENTS},
    ]
    groups = await Aggregate(context.saver.checkpoints, [*page, MEASURED, BY_THREAD])
    channels = await Aggregate(context.saver.checkpoints, [*page, *BY_CHANNEL])
    count = sum(one["documents"] for one in groups)
    last = max(one["last"] for one in groups) if count == PAGE_DOCUMENTS else None
    groups += await _writes_between(context, after, last)
    in_order = sorted(groups, key=itemgetter("last"))
    return SizePage(_by_thread(in_order), _by_channel(channels), count, last)


async def _writes_between(context: Context, after: bytes, last: bytes | None) -> list[Document]:
    between = {"$gt": after, **({} if last is None else {"$lte": last})}
    stages = [{"$match": {"_id": between}}, MEASURED, BY_THREAD]
    return await Aggregate(context.saver.writes, stages)


def _by_thread(groups: Iterable[Document]) -> dict[str, ThreadSize]:
    """Read groups by thread. What says to be of no thread is left out: it is damaged."""
    found: dict[str, ThreadSize] = {}
    for one in groups:
        name = one["_id"]
        if isinstance(name, str):
            fields = ("stored", "logical", "checkpoints", "chunks", "writes")
            own = ThreadSize(*(_number(one[field]) for field in fields))
            found[name] = found.get(name, ThreadSize()) + own
    return found


def _by_channel(groups: Iterable[Document]) -> dict[str, ChannelSize]:
    fields = ("logical", "values", "largest")
    return {
        one["_id"]: ChannelSize(*(_number(one[field]) for field in fields))
        for one in groups
        if isinstance(one["_id"], str)
    }


def _number(value: Any) -> int:
    """Return a sum; 0 for the largest of what are no numbers."""
    return int(value) if isinstance(value, int | float) and value == value else 0
