"""What a database holds: totals, and the largest threads, channels and namespaces.

What has expired takes room, and counts, until the server deletes it.

`Statistics` grows page by page, so that it can be shown while it does, and is right as far as it
came wherever it is cut short. It holds the largest, and no more of the others than their sums.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

from pymongo.errors import OperationFailure

from mongomem.checkpoint.documents.collections import THREAD
from mongomem.engine.commands import NAMESPACE_NOT_FOUND, Aggregate, Document
from mongomem.inspection.context import Context
from mongomem.inspection.memories import NamespacePage, NamespaceSize
from mongomem.inspection.sizes import ChannelSize, SizePage, ThreadSize

MOST_CHANNELS = 10_000
"""How many channels are told apart; the bytes of further ones are added to `OTHERS`."""

OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class CollectionSize:
    """What a collection takes.

    Attributes:
        name: Its name.
        documents: How many there are.
        bytes: Those of the documents, as BSON.
        disk: Bytes of the files, compressed.
        indexes: Bytes of the indexes.
    """

    name: str
    documents: int
    bytes: int
    disk: int
    indexes: int

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "collection": self.name,
            "documents": self.documents,
            "bytes": self.bytes,
            "disk_bytes": self.disk,
            "index_bytes": self.indexes,
        }


async def collection_size(collection: str) -> CollectionSize | None:
    """Read what a collection takes, over all shards; None where there is none (MongoDB 4.4)."""
    try:
        shards = await Aggregate(collection, [{"$collStats": {"storageStats": {}}}])
    except OperationFailure as error:
        if error.code != NAMESPACE_NOT_FOUND:
            raise
        return None
    told = [one["storageStats"] for one in shards]
    fields = ("count", "size", "storageSize", "totalIndexSize")
    return CollectionSize(
        collection, *(sum(int(one.get(name, 0)) for one in told) for name in fields)
    )


async def thread_count(context: Context) -> tuple[int, int]:
    """Count the threads, and the tombstones among them."""
    of_threads: list[Document] = [
        {"$match": {"type": THREAD}},
        {"$group": {"_id": {"$gt": ["$deleted_at", None]}, "count": {"$sum": 1}}},
    ]
    counts = {
        bool(one["_id"]): one["count"]
        for one in await Aggregate(context.saver.checkpoints, of_threads)
    }
    return counts.get(False, 0), counts.get(True, 0)


@dataclass(slots=True)
class Statistics:
    """What was added up so far.

    Attributes:
        most: How many of the largest are kept.
        collections: What each collection takes.
        threads: How many threads were added up, whole.
        total: What all of them hold.
        documents, items: How many documents of checkpoints and of items were read.
        is_whole: All was read.
    """

    most: int
    collections: list[CollectionSize] = field(default_factory=list)
    threads: int = 0
    total: ThreadSize = field(default_factory=ThreadSize)
    channels: dict[str, ChannelSize] = field(default_factory=dict)
    namespaces: int = 0
    documents: int = 0
    items: int = 0
    is_whole: bool = False
    _largest_threads: list[tuple[int, str, ThreadSize]] = field(default_factory=list)
    _largest_namespaces: list[tuple[int, tuple[str, ...], NamespaceSize]] = field(
        default_factory=list
    )
    _open_thread: tuple[str, ThreadSize] | None = None
    _open_namespace: NamespaceSize | None = None

    @property
    def sharing(self) -> float | None:
        """How many bytes of state a stored byte stands for; None where nothing is stored."""
        return self.total.logical / self.total.stored if self.total.stored else None

    def expected(self) -> int:
        """Return how many documents and items there are to read."""
        return sum(one.documents for one in self.collections)

    def add_threads(self, page: SizePage) -> None:
        """Take in a page. The last thread of one may go on in the next."""
        self.documents += page.documents
        for name, size in page.threads.items():
            if self._open_thread is not None and self._open_thread[0] == name:
                self._open_thread = name, self._open_thread[1] + size
            else:
                self.end_thread()
                self._open_thread = name, size
        for name, channel in page.channels.items():
            known = name if name in self.channels or len(self.channels) < MOST_CHANNELS else OTHERS
            self.channels[known] = self.channels.get(known, ChannelSize()) + channel

    def end_thread(self) -> None:
        """Add the last thread, which is whole now."""
        if self._open_thread is None:
            return
        name, size = self._open_thread
        self._open_thread = None
        self.threads += 1
        self.total += size
        _keep(self._largest_threads, (size.stored, name, size), self.most)

    def add_namespaces(self, page: NamespacePage) -> None:
        """Take in a page. The last namespace of one may go on in the next."""
        self.items += page.items
        for one in page.namespaces:
            open_one = self._open_namespace
            if open_one is not None and open_one.namespace == one.namespace:
                items, stored = open_one.items + one.items, open_one.stored + one.stored
                self._open_namespace = NamespaceSize(one.namespace, items, stored)
            else:
                self.end_namespace()
                self._open_namespace = one

    def end_namespace(self) -> None:
        """Add the last namespace, which is whole now."""
        if self._open_namespace is None:
            return
        one, self._open_namespace = self._open_namespace, None
        self.namespaces += 1
        _keep(self._largest_namespaces, (one.stored, one.namespace, one), self.most)

    def largest_threads(self) -> list[tuple[str, ThreadSize]]:
        """List the largest threads, by stored bytes."""
        return [(name, size) for _, name, size in sorted(self._largest_threads, reverse=True)]

    def largest_channels(self) -> list[tuple[str, ChannelSize]]:
        """List the largest channels, by the bytes of all their values."""
        by_bytes = sorted(self.channels.items(), key=lambda one: (-one[1].logical, one[0]))
        return by_bytes[: self.most]

    def largest_namespaces(self) -> list[NamespaceSize]:
        """List the largest namespaces, by stored bytes."""
        return [one for _, _, one in sorted(self._largest_namespaces, reverse=True)]

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "is_whole": self.is_whole,
            "collections": [one.json() for one in self.collections],
            "threads": self.threads,
            **size_json(self.total),
            "sharing": self.sharing,
            "largest_threads": [
                {"thread_id": name, **size_json(size)} for name, size in self.largest_threads()
            ],
            "largest_channels": [
                {"channel": name, **channel_json(size)} for name, size in self.largest_channels()
            ],
            "namespaces": self.namespaces,
            "items": self.items,
            "largest_namespaces": [one.json() for one in self.largest_namespaces()],
        }


def size_json(size: ThreadSize) -> dict[str, int]:
    """Return what a thread holds as JSON."""
    return {
        "checkpoints": size.checkpoints,
        "chunks": size.chunks,
        "pending_writes": size.writes,
        "stored_bytes": size.stored,
        "logical_bytes": size.logical,
    }


def channel_json(size: ChannelSize) -> dict[str, int]:
    """Return what a channel comes to as JSON."""
    return {"logical_bytes": size.logical, "values": size.values, "largest_bytes": size.largest}


def _keep(heap: list[Any], entry: Any, most: int) -> None:
    """Keep the largest entries, told apart by what stands first in them."""
    if len(heap) < most:
        heapq.heappush(heap, entry)
    elif most:
        heapq.heappushpop(heap, entry)
