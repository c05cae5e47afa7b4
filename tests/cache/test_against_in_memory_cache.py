"""The same calls on InMemoryCache and on MongoCache: every answer is the same, at any time."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import langgraph.cache.memory as in_memory
import mongomock
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from langgraph.cache.memory import InMemoryCache
from pymongo import AsyncMongoClient, MongoClient

from mongomem.cache.cache import MongoCache
from mongomem.checkpoint.serde.default import default_serializer
from support.savers import KINDS
from support.stores import Clock

CLOCK = Clock()

labels = st.sampled_from(["", "a", "b", "ab", "a\x00b", ":", "$x", "ä"])
namespaces = st.lists(labels, max_size=3).map(tuple)
full_keys = st.tuples(namespaces, st.sampled_from(["", "k", "a", "a:b", "k\x00"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.text("ab\x00ä", max_size=5)
    | st.binary(max_size=5)
    | st.frozensets(st.integers(0, 3)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=6,
)
ttls = st.none() | st.integers(-1, 5) | st.sampled_from([0.5, 10**9])


class ClockTime(datetime.datetime):
    """What InMemoryCache reads the time from, with the clock in hand."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return CLOCK.now


class CacheMachine(RuleBasedStateMachine):
    """Does the same to both caches and compares every answer."""

    make_cache: Callable[..., MongoCache[Any]]
    is_async: bool
    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        self.oracle: InMemoryCache[Any] = InMemoryCache(serde=default_serializer())
        self.cache = self.make_cache(
            collection_prefix=f"{uuid4().hex[:8]}_", auto_setup=False, clock=CLOCK
        )
        self.known: set[Any] = set()

    def perform(self, method: str, argument: Any) -> Any:
        if not self.is_async:
            return getattr(self.cache, method)(argument)
        return self.loop.run_until_complete(getattr(self.cache, f"a{method}")(argument))

    @rule(pairs=st.dictionaries(full_keys, st.tuples(values, ttls), max_size=4))
    def set(self, pairs: Any) -> None:
        self.oracle.set(pairs)
        self.perform("set", pairs)
        self.known |= {*pairs}

    @rule(keys=st.lists(full_keys, max_size=4))
    def get(self, keys: Any) -> None:
        found = self.perform("get", keys)
        assert found == self.oracle.get(keys)
        assert [*found] == [*self.oracle.get(keys)]

    @rule(given=st.none() | st.lists(namespaces, max_size=2))
    def clear(self, given: Any) -> None:
        self.oracle.clear(given)
        self.perform("clear", given)

    @rule(seconds=st.sampled_from([0.001, 0.5, 1, 3]))
    def wait(self, seconds: float) -> None:
        CLOCK.now += datetime.timedelta(seconds=seconds)

    @rule()
    def compare(self) -> None:
        keys = sorted(self.known)
        assert self.perform("get", keys) == self.oracle.get(keys)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bridging"])
def test_every_answer_is_that_of_in_memory_cache(
    kind: str, mongo_uri: str, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        in_memory,
        "datetime",
        SimpleNamespace(
            datetime=ClockTime, timedelta=datetime.timedelta, timezone=datetime.timezone
        ),
    )
    with ExitStack() as stack:
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        client: Any
        if kind == "awaiting":
            client = AsyncMongoClient(mongo_uri)
            stack.callback(lambda: loop.run_until_complete(client.close()))
        elif kind == "mongomock":
            client = mongomock.MongoClient()
        else:
            client = stack.enter_context(MongoClient(mongo_uri))
        fields = {
            "make_cache": staticmethod(partial(MongoCache, client, database_name)),
            "is_async": kind in ("threaded", "awaiting"),
            "loop": loop,
        }
        run_state_machine_as_test(
            type(f"CacheMachine_{kind}", (CacheMachine,), fields),
            settings=settings(
                max_examples=30,
                stateful_step_count=25,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                database=None,
            ),
        )
