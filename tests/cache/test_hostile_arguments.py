"""Every public parameter of the cache x every hostile value: answered, or refused by one error that
names it, before the server is asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import mongomock
import pytest
from pymongo import MongoClient

from mongomem import MongoCache
from support.caches import NS, World
from support.hostile import HOSTILE, Verdict
from support.savers import Calls

pytestmark = pytest.mark.shares_database

KEY: Any = (NS, "k")

WITHOUT_END = "many times over"
"""A value of a thousand million elements, which no serializer gets to the end of."""


def set_of(full_key: Any, pair: Any) -> Callable[[Calls], Awaitable[Any]]:
    return lambda cache: cache("set", {full_key: pair})


def hashable(value: Any) -> bool:
    try:
        hash(value)
    except Exception:
        return False
    return True


CALLS: dict[str, tuple[str, Callable[[Any], Callable[[Calls], Awaitable[Any]]]]] = {
    "get": ("keys", lambda bad: lambda cache: cache("get", bad)),
    "get.key": ("keys", lambda bad: lambda cache: cache("get", [KEY, bad])),
    "get.key.namespace": ("keys", lambda bad: lambda cache: cache("get", [(bad, "k")])),
    "get.key.label": ("keys", lambda bad: lambda cache: cache("get", [(("a", bad), "k")])),
    "get.key.key": ("keys", lambda bad: lambda cache: cache("get", [(NS, bad)])),
    "set": ("pairs", lambda bad: lambda cache: cache("set", bad)),
    "set.key": ("pairs", lambda bad: set_of(bad, (1, None))),
    "set.key.namespace": ("pairs", lambda bad: set_of((bad, "k"), (1, None))),
    "set.key.label": ("pairs", lambda bad: set_of((("a", bad), "k"), (1, None))),
    "set.key.key": ("pairs", lambda bad: set_of((NS, bad), (1, None))),
    "set.pair": ("pairs", lambda bad: set_of(KEY, bad)),
    "set.value": ("value of key", lambda bad: set_of((NS, "value"), (bad, None))),
    "set.value.in": ("value of key", lambda bad: set_of((NS, "value"), ([{"a": bad}], None))),
    "set.ttl": ("ttl", lambda bad: set_of(KEY, (1, bad))),
    "clear": ("namespaces", lambda bad: lambda cache: cache("clear", bad)),
    "clear.namespace": ("namespaces", lambda bad: lambda cache: cache("clear", [NS, bad])),
    "clear.label": ("namespaces", lambda bad: lambda cache: cache("clear", [("a", bad)])),
}
"""What a message says, and a call with a value in one place, by the name of the place."""


async def test_hostile_arguments_are_answered_or_refused(world: World) -> None:
    verdict = Verdict()
    for name, (parameter, call) in CALLS.items():
        for value, make in HOSTILE.items():
            if name.startswith("set.value") and value == WITHOUT_END:
                continue
            if name.startswith("set.key") and not hashable(make()):
                continue  # in no dict
            cache, error = world.cache(), None
            try:
                await call(make())(cache)
            except Exception as raised:
                error = raised
            verdict.judge(f"{name} = {value}", parameter, error)
            if error is not None and cache.target._options.setup_state.is_ours:
                verdict.faults.append(f"{name} = {value}: refused after the server was asked")
    assert verdict.faults == []
    assert verdict.refused > 1_000


async def test_what_was_refused_has_changed_nothing(world: World) -> None:
    cache = world.cache()
    await cache("set", {KEY: (1, None)})
    for make in HOSTILE.values():
        for pairs in ({KEY: (2, None), (NS, "bad"): make()}, {KEY: (2, make()), (NS, 7): (1, 1)}):
            with pytest.raises(ValueError):  # noqa: PT011  whichever of ours it is
                await cache("set", pairs)
    assert await cache("get", [KEY]) == {KEY: 1}


def test_hostile_options_are_taken_or_refused_without_io() -> None:
    verdict = Verdict()
    client: Any = MongoClient("mongodb://localhost:1", connect=False)
    for option in sorted({*inspect.signature(MongoCache).parameters} - {"db_name"}):
        for value, make in HOSTILE.items():
            error = None
            try:
                MongoCache(**{"client": client, option: make()})
            except Exception as raised:
                error = raised
            verdict.judge(f"{option} = {value}", option, error)
    assert verdict.faults == []
    assert verdict.refused > 500


@pytest.mark.parametrize("value", HOSTILE)
def test_a_clock_that_tells_no_time_is_refused(value: str) -> None:
    cache: Any = MongoCache(mongomock.MongoClient(), "x", clock=HOSTILE[value])
    error = None
    try:
        cache.set({KEY: (1, 5)})
    except Exception as raised:
        error = raised
    verdict = Verdict()
    verdict.judge(value, "clock", error)
    assert verdict.faults == []
