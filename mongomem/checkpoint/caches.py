"""What a saver remembers between calls, bounded in bytes. Shared by its `with_allowlist` clones.

Chunks are named by their content and never change, so their bytes are kept without asking again.
What a put needs of its parent is kept with the generation of the thread it was seen under; a put
that relies on it makes the server compare that generation (`mongomem.checkpoint.writing`), so a
stale entry costs a second attempt and never a wrong document.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from mongomem.checkpoint.addresses import Address
from mongomem.checkpoint.chunks import Known, Stored

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ENTRY_BYTES = 200
"""About what an entry costs beside its bytes: key, node of the mapping, object headers."""


class BoundedCache(Generic[K, V]):
    """A thread-safe mapping that forgets the least recently used entries above `capacity` bytes."""

    def __init__(self, capacity: int, weigh: Callable[[V], int]) -> None:
        self._capacity = capacity
        self._weigh = weigh
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return the entry and make it the most recently used, or None."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def get_all(self, keys: list[K]) -> dict[K, V]:
        """Return the entries there are of `keys`."""
        with self._lock:
            found = {key: self._entries[key] for key in keys if key in self._entries}
            for key in found:
                self._entries.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> None:
        """Keep an entry, forgetting others where it must."""
        with self._lock:
            self._forget(key)
            self._entries[key] = value
            self._bytes += self._weigh(value) + ENTRY_BYTES
            while self._bytes > self._capacity and self._entries:
                self._forget(next(iter(self._entries)))

    def pop(self, key: K) -> None:
        """Forget one entry, if it is there."""
        with self._lock:
            self._forget(key)

    def drop(self, doomed: Callable[[K], bool]) -> None:
        """Forget every entry whose key is doomed."""
        with self._lock:
            for key in [key for key in self._entries if doomed(key)]:
                self._forget(key)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _forget(self, key: K) -> None:
        if key in self._entries:
            self._bytes -= self._weigh(self._entries.pop(key)) + ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class ThreadState:
    """What a put must know of its thread.

    Attributes:
        epoch: The life of the thread, ended by delete_thread. Stamped on all of its documents.
        generation: Changes whenever anything of the thread is removed.
        stamped_at: When all of its documents were last stamped for their expiry: none is older.
        name_key: What chunk names are keyed with; empty unless values are encrypted.
        begins: Whether the next put begins a life of the thread.
    """

    epoch: int
    generation: int
    stamped_at: datetime
    name_key: bytes = b""
    begins: bool = False


@dataclass(frozen=True, slots=True)
class Parent:
    """What a put must know of its parent document.

    Attributes:
        versions: The version of every channel.
        channels: The values that it holds.
        known: What is known of their chunks, by channel.
        generation: The generation of the thread that it was seen under; None if that was not known.
    """

    versions: dict[str, str | int | float]
    channels: dict[str, Stored]
    known: dict[str, Known]
    generation: int | None

    def weight(self) -> int:
        """Return about how many bytes it holds."""
        inline = sum(len(value.ends) for value in self.channels.values())
        regions = sum(len(region.content) for known in self.known.values() for region in known.regions)
        return inline + regions + 100 * (len(self.versions) + sum(len(known.names) for known in self.known.values()))


class SaverState:
    """The caches of one saver and its clones, and what it knows of its collections."""

    def __init__(self, cache_bytes: int) -> None:
        self.chunks: BoundedCache[bytes, bytes] = BoundedCache(cache_bytes, len)
        self.parents: BoundedCache[Address, Parent] = BoundedCache(cache_bytes, Parent.weight)
        self.threads: BoundedCache[str, ThreadState] = BoundedCache(
            cache_bytes // 16, lambda state: len(state.name_key)
        )
        self.is_set_up = False
        self.found_ttl: timedelta | None = None

    def remember_parent(self, address: Address, parent: Parent) -> None:
        """Keep what a read found of a checkpoint, unless a put has left more."""
        kept = self.parents.get(address)
        if kept is None or kept.generation != parent.generation:
            self.parents.put(address, parent)

    def forget_thread(self, thread_id: str) -> None:
        """Drop what is known of a thread, so that the next put reads it anew."""
        self.threads.drop(lambda key: key == thread_id)
        self.parents.drop(lambda key: key.thread_id == thread_id)

    def forget_all(self) -> None:
        """Drop everything, the bytes of chunks included."""
        for cache in (self.chunks, self.parents, self.threads):
            cache.clear()
