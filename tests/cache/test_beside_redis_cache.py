"""Where RedisCache (langgraph-checkpoint 4.3) and InMemoryCache differ, and which one MongoCache
follows.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from functools import partial
from typing import Any

import mongomock
import pytest
from langgraph.cache.base import BaseCache
from langgraph.cache.memory import InMemoryCache
from langgraph.cache.redis import RedisCache
from langgraph.checkpoint.serde.base import SerializerProtocol
from pymongo import MongoClient

from mongomem.cache.cache import MongoCache


class Redis:
    """As much of a client of Redis as RedisCache calls."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.waiting: list[Callable[[], None]] = []

    def mget(self, keys: list[str]) -> list[bytes | None]:
        return [self.values.get(key) for key in keys]

    def keys(self, pattern: str) -> list[str]:
        return fnmatch.filter(self.values, pattern)

    def delete(self, *keys: str) -> None:
        for key in keys:
            self.values.pop(key, None)

    def pipeline(self) -> Redis:
        return self

    def set(self, key: str, value: bytes) -> None:
        self.waiting.append(partial(self.values.__setitem__, key, value))

    def setex(self, key: str, ttl: int, value: bytes) -> None:
        self.waiting.append(partial(self._expire, key, ttl, value))

    def _expire(self, key: str, ttl: int, value: bytes) -> None:
        if not isinstance(ttl, int) or ttl <= 0:
            raise ValueError("invalid expire time in 'setex' command")
        self.values[key] = value

    def execute(self) -> None:
        waiting, self.waiting = self.waiting, []
        for write in waiting:
            write()


class FailsToLoad:
    """A serializer whose bytes nobody can read."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "bytes", b"x"

    def loads_typed(self, data: Any) -> Any:
        raise ValueError("damaged")


def found(cache: BaseCache[Any], *keys: Any) -> Any:
    return {key: value for (_, key), value in cache.get(keys).items()}


def clear_of_a_namespace_above(cache: BaseCache[Any]) -> Any:
    keys: list[Any] = [(("a",), "1"), (("a", "b"), "2"), (("ab",), "3")]
    cache.set(dict.fromkeys(keys, (True, None)))
    cache.clear([("a",)])
    return {*found(cache, *keys)}


def clear_of_the_empty_namespace(cache: BaseCache[Any]) -> Any:
    keys: list[Any] = [((), "1"), (("a",), "2")]
    cache.set(dict.fromkeys(keys, (True, None)))
    cache.clear([()])
    return {*found(cache, *keys)}


def clear_of_a_pattern(cache: BaseCache[Any]) -> Any:
    cache.set({(("a",), "1"): (True, None)})
    cache.clear([("*",)])
    return {*found(cache, (("a",), "1"))}


def names_with_colons(cache: BaseCache[Any]) -> Any:
    keys: list[Any] = [(("a", "b"), "1"), (("a:b",), "1"), (("a",), "b:1")]
    cache.set({key: (number, None) for number, key in enumerate(keys)})
    return [*cache.get(keys).values()]


def a_time_that_is_over_at_once(cache: BaseCache[Any]) -> Any:
    key: Any = (("a",), "1")
    cache.set({key: ("before", None)})
    cache.set({key: ("after", 0)})
    return found(cache, key)


def a_value_that_cannot_be_read(cache: BaseCache[Any]) -> Any:
    cache.set({(("a",), "1"): (1, None)})
    try:
        return found(cache, (("a",), "1"))
    except ValueError:
        return "raises"


def a_value_that_cannot_be_written(cache: BaseCache[Any]) -> Any:
    try:
        cache.set({(("a",), "1"): (object(), None)})
    except TypeError:
        return "raises"
    return found(cache, (("a",), "1"))


CASES: dict[Callable[[BaseCache[Any]], Any], tuple[Any, Any, Any]] = {
    clear_of_a_namespace_above: ({"2", "3"}, {"3"}, {"2", "3"}),
    clear_of_the_empty_namespace: ({"2"}, set(), {"2"}),
    clear_of_a_pattern: ({"1"}, set(), {"1"}),
    names_with_colons: ([0, 1, 2], [2, 2, 2], [0, 1, 2]),
    a_time_that_is_over_at_once: ({}, {"1": "before"}, {}),
    a_value_that_cannot_be_read: ("raises", {}, {}),
    a_value_that_cannot_be_written: ("raises", "raises", "raises"),
}
"""What each of the three does: InMemoryCache, RedisCache, MongoCache."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_which_one_it_follows(case: Callable[[BaseCache[Any]], Any]) -> None:
    fails = case is a_value_that_cannot_be_read
    serde: SerializerProtocol | None = FailsToLoad() if fails else None
    caches: list[BaseCache[Any]] = [
        InMemoryCache(serde=serde),
        RedisCache(Redis(), serde=serde),
        MongoCache(mongomock.MongoClient(), serde=serde),
    ]
    assert tuple(case(cache) for cache in caches) == CASES[case]


def test_without_a_server_it_forgets_as_redis_cache_does() -> None:
    class Gone(Redis):
        mget = execute = keys = None  # type: ignore[assignment]

    with MongoClient("mongodb://localhost:1", serverSelectionTimeoutMS=1) as client:
        for cache in (RedisCache[Any](Gone()), MongoCache[Any](client)):
            cache.set({(("a",), "1"): (1, None)})
            assert cache.get([(("a",), "1")]) == {}
