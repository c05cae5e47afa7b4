"""A mapping that is bounded in bytes, which every cache of the saver is made of, and a doorkeeper,
which decides what is worth caching.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from mongomem.engine.locks import Guarded

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ENTRY_BYTES = 200
"""About what an entry costs beside its bytes: key, place in the mapping, object headers."""


class BoundedCache(Guarded, Generic[K, V]):
    """A thread-safe mapping that forgets what was not used lately, to stay within `capacity` bytes.

    It has two halves. What is put, and what is found in the older half, goes into the younger one;
    when that is full it becomes the older, and the older is forgotten. So a hit in the younger one
    moves nothing and takes no lock.
    """

    def __init__(self, capacity: int, weigh: Callable[[V], int]) -> None:
        self._half = capacity // 2
        self._weigh = weigh
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._weights: dict[K, int] = {}
        self._bytes = 0
        self._guard()

    @property
    def count(self) -> int:
        """How many entries there are."""
        return len(self._young) + len(self._old)

    def weight(self) -> int:
        """Return how many bytes are counted."""
        return sum(
            self._weigh(value) + ENTRY_BYTES for value in {**self._old, **self._young}.values()
        )

    def get(self, key: K) -> V | None:
        """Return the entry, or None."""
        found = self._young.get(key)
        if found is not None or key not in self._old:
            return found
        with self._lock:  # and look again: it may be forgotten by now, or newer
            found = self._young.get(key)
            if found is None and (found := self._old.get(key)) is not None:
                self._keep(key, found)
            return found

    def get_all(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the entries there are of `keys`."""
        return {key: found for key in keys if (found := self.get(key)) is not None}

    def put(self, key: K, value: V) -> None:
        """Keep an entry, forgetting others where it must; one that never has room is not kept."""
        with self._lock:
            self._keep(key, value)

    def pop(self, key: K) -> None:
        """Forget one entry, if it is there."""
        with self._lock:
            self._forget(key)

    def drop(self, to_remove: Callable[[K], bool]) -> None:
        """Forget every entry whose key `to_remove` says yes to."""
        with self._lock:
            for key in [key for key in (*self._old, *self._young) if to_remove(key)]:
                self._forget(key)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._reset()

    def _reset(self) -> None:
        self._old, self._young, self._weights, self._bytes = {}, {}, {}, 0

    def _keep(self, key: K, value: V) -> None:
        weight = self._weigh(value) + ENTRY_BYTES
        self._forget(key)
        if weight > self._half:
            return
        if self._bytes + weight > self._half:
            self._old, self._young, self._weights, self._bytes = self._young, {}, {}, 0
        self._young[key], self._weights[key] = value, weight
        self._bytes += weight

    def _forget(self, key: K) -> None:
        self._old.pop(key, None)
        if self._young.pop(key, None) is not None:
            self._bytes -= self._weights.pop(key)


class Doorkeeper:
    """Decides what a cache admits, where to fill it costs something. Safe to share between threads.

    It remembers the keys that were asked for, each with the weight that its value would have in the
    cache, as many as the cache has room for. A value whose key it remembers would have been found,
    had it been cached, and is admitted. Where values are asked for in turn and are more than there
    is room for, it remembers none of them long enough: they do not evict each other for nothing.

    Args:
        capacity: The bytes of the cache.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._read: BoundedCache[int, int] = BoundedCache(capacity, lambda weight: weight)
        self._refused: BoundedCache[int, bool] = BoundedCache(capacity // 16, lambda _: 0)

    def admit(self, key: int, weight: int) -> bool:
        """Say whether to cache a value of this weight in bytes that was not found."""
        is_remembered = self._read.get(key) is not None
        self._read.put(key, min(weight, self._capacity // 2 - ENTRY_BYTES))
        return is_remembered and weight <= self._capacity

    def refuse(self, key: int) -> None:
        """Admit a value no more."""
        self._refused.put(key, True)

    def refuses(self, key: int) -> bool:
        """Say whether a value was refused."""
        return self._refused.get(key) is not None

    def clear(self) -> None:
        """Forget everything."""
        self._read.clear()
        self._refused.clear()
