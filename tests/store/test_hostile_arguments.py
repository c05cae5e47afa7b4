"""Every public parameter of the store x every hostile value: answered, or refused by one error that
names it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import mongomock
import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from pymongo import AsyncMongoClient, MongoClient
from pymongo.monitoring import CommandListener

from mongomem.store.store import MongoStore
from support.hostile import HOSTILE, Verdict
from support.savers import KINDS, Calls
from support.stores import words

NS = ("users", "u1")


class Counted(CommandListener):
    """Counts the commands that a client sends."""

    def __init__(self) -> None:
        self.sent = 0

    def started(self, event: Any) -> None:
        self.sent += 1

    def succeeded(self, event: Any) -> None: ...
    def failed(self, event: Any) -> None: ...


@asynccontextmanager
async def counted(kind: str, uri: str) -> AsyncIterator[tuple[Any, Callable[[], Any]]]:
    """Open a client of a kind, with a function whose answer changes when something is asked of the
    server.
    """
    listener = Counted()
    if kind == "mongomock":
        client = mongomock.MongoClient()
        yield client, lambda: None
    elif kind == "awaiting":
        async with AsyncMongoClient(uri, event_listeners=[listener]) as awaiting:
            yield awaiting, lambda: listener.sent
    else:
        with MongoClient(uri, event_listeners=[listener]) as blocking:
            yield blocking, lambda: listener.sent


def batch(op: Any) -> Callable[[Calls], Awaitable[Any]]:
    return lambda store: store("batch", [PutOp(NS, "never", {"n": 1}), op])


NAMESPACE, NUMBER = "namespace", "{}"
FILTER, VALUE = "[Ff]ilter", "item|value"

METHODS: dict[str, tuple[str, Callable[[Any], Callable[[Calls], Awaitable[Any]]]]] = {
    "get.namespace": ("namespace", lambda bad: lambda store: store("get", bad, "k")),
    "get.key": ("key", lambda bad: lambda store: store("get", NS, bad)),
    "get.refresh_ttl": (
        "refresh_ttl",
        lambda bad: lambda store: store("get", NS, "k", refresh_ttl=bad),
    ),
    "put.namespace": ("namespace", lambda bad: lambda store: store("put", bad, "k", {"n": 1})),
    "put.key": ("key", lambda bad: lambda store: store("put", NS, bad, {"n": 1})),
    "put.value": (VALUE, lambda bad: lambda store: store("put", NS, "k", bad)),
    "put.value.field": (
        VALUE,
        lambda bad: lambda store: store("put", NS, "k", {"text": "t", "n": bad}),
    ),
    "put.value.list": (
        VALUE,
        lambda bad: lambda store: store("put", NS, "k", {"n": [bad, (bad,)]}),
    ),
    "put.index": ("index", lambda bad: lambda store: store("put", NS, "k", {"a": "b"}, bad)),
    "put.ttl": ("ttl", lambda bad: lambda store: store("put", NS, "k", {"n": 1}, ttl=bad)),
    "delete.namespace": ("namespace", lambda bad: lambda store: store("delete", bad, "k")),
    "delete.key": ("key", lambda bad: lambda store: store("delete", NS, bad)),
    "delete_namespace": ("prefix", lambda bad: lambda store: store("delete_namespace", bad)),
    "search.prefix": ("namespace_prefix", lambda bad: lambda store: store("search", bad)),
    "search.query": ("query", lambda bad: lambda store: store("search", NS, query=bad)),
    "search.filter": (FILTER, lambda bad: lambda store: store("search", NS, filter=bad)),
    "search.filter.field": (
        FILTER,
        lambda bad: lambda store: store("search", NS, filter={"n": bad}),
    ),
    "search.filter.in": (
        FILTER,
        lambda bad: lambda store: store("search", NS, filter={"n": {"$in": bad}}),
    ),
    "search.filter.and": (
        FILTER,
        lambda bad: lambda store: store("search", NS, filter={"$and": [bad]}),
    ),
    "search.filter.not": (
        FILTER,
        lambda bad: lambda store: store("search", NS, filter={"$not": {"n": {"$not": bad}}}),
    ),
    **{
        f"search.filter.{name}": (
            FILTER,
            lambda bad, name=name: (
                lambda store: store("search", NS, query="t", filter={"n.m": {name: bad}})
            ),
        )
        for name in ("$eq", "$ne", "$gt", "$lte", "$contains", "$exists", "$nin")
    },
    "search.limit": ("limit", lambda bad: lambda store: store("search", NS, query="t", limit=bad)),
    "search.offset": (
        "offset",
        lambda bad: lambda store: store("search", NS, filter={"n": 1}, offset=bad),
    ),
    "search.refresh_ttl": (
        "refresh_ttl",
        lambda bad: lambda store: store("search", NS, refresh_ttl=bad),
    ),
    "search.explain": (
        "explain",
        lambda bad: lambda store: store("search", NS, query="t", explain=bad),
    ),
    "search.min_score": (
        "min_score",
        lambda bad: lambda store: store("search", NS, query="t", min_score=bad),
    ),
    "list.prefix": ("prefix", lambda bad: lambda store: store("list_namespaces", prefix=bad)),
    "list.suffix": ("suffix", lambda bad: lambda store: store("list_namespaces", suffix=bad)),
    "list.max_depth": (
        "max_depth",
        lambda bad: lambda store: store("list_namespaces", max_depth=bad),
    ),
    "list.limit": ("limit", lambda bad: lambda store: store("list_namespaces", limit=bad)),
    "list.offset": ("offset", lambda bad: lambda store: store("list_namespaces", offset=bad)),
    "batch": ("ops", lambda bad: lambda store: store("batch", bad)),
    "batch.op": ("ops", batch),
    "start_ttl_sweeper": (
        "sweep_interval_minutes",
        lambda bad: lambda store: store("start_ttl_sweeper", bad),
    ),
    "stop_ttl_sweeper": ("timeout", lambda bad: lambda store: store("stop_ttl_sweeper", bad)),
    "GetOp.namespace": ("namespace", lambda bad: batch(GetOp(bad, "k"))),
    "GetOp.key": ("key", lambda bad: batch(GetOp(NS, bad))),
    "GetOp.refresh_ttl": ("refresh_ttl", lambda bad: batch(GetOp(NS, "k", bad))),
    "PutOp.namespace": ("namespace", lambda bad: batch(PutOp(bad, "k", {"n": 1}))),
    "PutOp.key": ("key", lambda bad: batch(PutOp(NS, bad, {"n": 1}))),
    "PutOp.value": (VALUE, lambda bad: batch(PutOp(NS, "k", bad))),
    "PutOp.index": ("index", lambda bad: batch(PutOp(NS, "k", {"a": "b"}, bad))),
    "PutOp.ttl": ("ttl", lambda bad: batch(PutOp(NS, "k", {"n": 1}, None, bad))),
    "PutOp.deletion": ("index|ttl", lambda bad: batch(PutOp(NS, "k", None, bad, bad))),
    "SearchOp.namespace_prefix": ("namespace_prefix", lambda bad: batch(SearchOp(bad))),
    "SearchOp.filter": (FILTER, lambda bad: batch(SearchOp(NS, filter=bad))),
    "SearchOp.limit": ("limit", lambda bad: batch(SearchOp(NS, limit=bad))),
    "SearchOp.offset": ("offset", lambda bad: batch(SearchOp(NS, offset=bad))),
    "SearchOp.query": ("query", lambda bad: batch(SearchOp(NS, query=bad))),
    "SearchOp.refresh_ttl": ("refresh_ttl", lambda bad: batch(SearchOp(NS, refresh_ttl=bad))),
    "ListNamespacesOp.match_conditions": (
        "match_conditions",
        lambda bad: batch(ListNamespacesOp(bad)),
    ),
    "ListNamespacesOp.condition": ("match_conditions", lambda bad: batch(ListNamespacesOp((bad,)))),
    "ListNamespacesOp.max_depth": ("max_depth", lambda bad: batch(ListNamespacesOp(None, bad))),
    "ListNamespacesOp.limit": ("limit", lambda bad: batch(ListNamespacesOp(None, None, bad))),
    "ListNamespacesOp.offset": ("offset", lambda bad: batch(ListNamespacesOp(None, None, 1, bad))),
    "MatchCondition.match_type": (
        "match_type",
        lambda bad: batch(ListNamespacesOp((MatchCondition(bad, NS),))),
    ),
    "MatchCondition.path": (
        "prefix",
        lambda bad: batch(ListNamespacesOp((MatchCondition("prefix", bad),))),
    ),
}
"""What a message says, and a call with a value in one place, by the name of the place."""

SLOW = ("many times over",)
"""Seconds to refuse, by code that comes before any client: met by a sync and an async kind."""

OPTIONS = {
    **dict.fromkeys(
        (
            "ttl",
            "auto_setup",
            "collection_prefix",
            "backend",
            "index_cache_bytes",
            "concerns",
            "clock",
        ),
        None,
    ),
    **{
        f"ttl.{name}": name
        for name in ("default_ttl", "refresh_on_read", "omit_expired", "sweep_interval_minutes")
    },
}
"""Options of the constructor, and the keys of those that have some."""


@pytest.mark.parametrize("kind", KINDS)
async def test_hostile_arguments_are_answered_or_refused(
    mongo_uri: str, database_name: str, kind: str
) -> None:
    verdict = Verdict()
    async with counted(kind, mongo_uri) as (client, asked):
        store = Calls(MongoStore(client, database_name, index=words(fields=["text"])), kind)
        await store("put", NS, "k", {"text": "t", "n": {"m": [1]}})
        for name, (parameter, call) in METHODS.items():
            if "Op." in name and kind in ("threaded", "mongomock"):
                continue  # one way through `batch` like another
            for value, make in HOSTILE.items():
                if value in SLOW and kind not in ("blocking", "awaiting"):
                    continue
                before, error = asked(), None
                try:
                    await call(make())(store)
                except Exception as raised:
                    error = raised
                verdict.judge(f"{name} = {value}", parameter, error)
                if error is not None and asked() != before:
                    verdict.faults.append(f"{name} = {value}: refused after the server was asked")
        assert verdict.faults == []
        assert verdict.refused > 3_000


def test_hostile_options_are_taken_or_refused_without_io() -> None:
    verdict = Verdict()
    client: Any = MongoClient("mongodb://localhost:1", connect=False)
    for name, key in OPTIONS.items():
        for value, make in HOSTILE.items():
            option = {name.partition(".")[0]: {key: make()} if key else make()}
            error = None
            try:
                MongoStore(client, "x", **option)
            except Exception as raised:
                error = raised
            verdict.judge(f"{name} = {value}", key or name, error)
    assert verdict.faults == []
    assert verdict.refused > 900


@pytest.mark.parametrize("value", HOSTILE)
def test_a_clock_that_tells_no_time_is_refused(value: str) -> None:
    store = MongoStore(mongomock.MongoClient(), "x", clock=HOSTILE[value])
    verdict = Verdict()
    for call in (lambda: store.search(NS), lambda: store.put(NS, "k", {}, ttl=5), store.sweep_ttl):
        error = None
        try:
            call()
        except Exception as raised:
            error = raised
        verdict.judge(value, "clock", error)
    assert verdict.faults == []
