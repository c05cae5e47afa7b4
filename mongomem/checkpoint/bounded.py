"""A mapping that is bounded in bytes: what every cache of the saver is made of."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

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

    @property
    def is_full(self) -> bool:
        """Whether another entry of a usual size would push out older ones."""
        return self._bytes > 0.9 * self._capacity

    def get(self, key: K) -> V | None:
        """Return the entry and make it the most recently used, or None."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def get_all(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the entries there are of `keys`."""
        found: dict[K, V] = {}
        with self._lock:
            for key in keys:
                if (value := self._entries.get(key)) is not None:
                    self._entries.move_to_end(key)
                    found[key] = value
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
