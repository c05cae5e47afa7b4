"""Searches stepped by hand past writes of others: what is there throughout is in the answer,
once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from itertools import combinations
from typing import Any

import pytest
from langgraph.store.base import PutOp, SearchOp
from pymongo import MongoClient

from mongomem import MongoStore
from mongomem.engine.commands import Command, Plan
from mongomem.engine.effects import Sleep
from mongomem.store.plans import batch
from mongomem.store.plans.reindex import reindex
from support.stepping import Stepped
from support.stores import keys, words

NS = ("users", "u1")
EXACT: Any = {"index": words(fields=["text"], rank="hybrid"), "backend": "exact"}


def stepped(
    plan: Plan[Any], database: Any, actions: Mapping[int, Callable[[], Any]], reply: Any = None
) -> tuple[Any, int]:
    """Run a plan with actions before its n-th commands; return its answer, and how many commands it
    had.
    """
    number = 0
    while True:
        try:
            command: Command[Any] = plan.send(reply)
        except StopIteration as finished:
            return finished.value, number
        actions.get(number, lambda: None)()
        reply = command.perform(database)
        number += 1


@pytest.mark.parametrize("index_cache_bytes", [2**20, 1], ids=["from memory", "by scan"])
@pytest.mark.parametrize("searched_before", [0, 1, 2], ids=["cold", "warm", "changes known"])
@pytest.mark.parametrize("filter", [None, {"n": {"$gte": 0}}])
def test_what_gets_and_loses_vectors_meanwhile_is_found_once(
    mongo_client: MongoClient,
    database_name: str,
    index_cache_bytes: int,
    searched_before: int,
    filter: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mongomem.store.vectors.index_cache.MANY_KNOWN", range(1, 100))
    writer = MongoStore(mongo_client, database_name, **EXACT)
    expected = sorted(f"k{n}" for n in range(12))

    def toggle(odd: int) -> Callable[[], Any]:
        choices = [(n, False if n % 2 == odd else None) for n in range(12)]
        puts = [
            PutOp(NS, f"k{n}", {"text": f"fish number{n}", "n": n}, index=choice)
            for n, choice in choices
        ]
        return lambda: writer.batch(puts)

    def search(actions: Mapping[int, Callable[[], Any]]) -> tuple[list[str], int]:
        store = MongoStore(
            mongo_client, database_name, **EXACT, index_cache_bytes=index_cache_bytes
        )
        toggle(0)()
        for _ in range(searched_before):
            store.search(NS, query="fish")
        plan = batch.search(store._context(), SearchOp(NS, filter, query="fish", limit=50))
        found, commands = stepped(plan, mongo_client[database_name], actions)
        return sorted(keys(found)), commands

    alone, commands = search({})
    assert alone == expected
    for place in range(commands):
        assert search({place: toggle(1)})[0] == expected, place
    for first, second in combinations(range(commands), 2):
        assert search({first: toggle(1), second: toggle(0)})[0] == expected, (first, second)


def test_what_is_reindexed_meanwhile_is_found_once(
    mongo_client: MongoClient, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mongomem.store.plans.reindex.PAGE_SIZE", 5)
    database = mongo_client[database_name]
    old, new = words(8, fields=["text"]), words(16, fields=["text"])
    expected = sorted(f"k{n}" for n in range(15))

    def search(place: int, share: int) -> tuple[list[str], int]:
        """Search by the new configuration; before a command of it, the reindex performs some of its
        own.
        """
        database.mongomem_store_items.drop()
        database.mongomem_store_settings.drop()
        MongoStore(mongo_client, database_name, index=old).batch(
            [PutOp(NS, key, {"text": key}) for key in expected]
        )
        store = MongoStore(mongo_client, database_name, index=new, backend="exact")
        conversion = Stepped(
            reindex(MongoStore(mongo_client, database_name, index=new)._context()), database
        )
        while database.mongomem_store_settings.find_one({"dims": 16}) is None:
            conversion.perform(1)
        plan = batch.search(store._context(), SearchOp(NS, query="k3", limit=50))
        found, commands = stepped(plan, database, {place: lambda: conversion.perform(share)})
        conversion.plan.close()
        return sorted(keys(found)), commands

    _, commands = search(-1, 0)
    for place in range(commands):
        for share in (4, 50):
            assert search(place, share)[0] == expected, (place, share)


@pytest.mark.parametrize("filter", [None, {"n": {"$gte": 0}}, {"n": {"$ne": -1}}])
@pytest.mark.parametrize("minutes", [-9, 0, 9])
def test_what_is_updated_while_pages_are_read_is_found_once(
    mongo_client: MongoClient,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
    filter: Any,
    minutes: int,
) -> None:
    """Also by a writer whose clock is behind or ahead."""
    monkeypatch.setattr("mongomem.store.plans.plain_search.PAGE_SIZE", 10)
    now = datetime(2030, 1, 1, tzinfo=timezone.utc)
    seconds = iter(range(10**6))
    store = MongoStore(
        mongo_client, database_name, clock=lambda: now + timedelta(seconds=next(seconds))
    )
    other = MongoStore(
        mongo_client,
        database_name,
        clock=lambda: now + timedelta(seconds=next(seconds), minutes=minutes),
    )
    for n in range(35):
        store.put(NS, f"k{n:02}", {"n": n})

    def again() -> None:
        oldest = store.search(NS, offset=34)[0]
        other.put(NS, oldest.key, oldest.value)

    def search(limit: int, actions: Mapping[int, Callable[[], Any]]) -> tuple[list[str], int]:
        plan = batch.search(store._context(), SearchOp(NS, filter, limit=limit))
        found, commands = stepped(plan, mongo_client[database_name], actions)
        return keys(found), commands

    alone, commands = search(50, {})
    assert alone == [f"k{n:02}" for n in reversed(range(35))]
    assert commands > 3
    for place in range(commands):
        assert sorted(search(50, {place: again})[0]) == sorted(alone), place
    for first, second in combinations(range(commands), 2):
        assert sorted(search(50, {first: again, second: again})[0]) == sorted(alone), (
            first,
            second,
        )


def test_who_waits_for_another_to_load_sees_what_was_written_since(
    mongo_client: MongoClient, database_name: str
) -> None:
    database = mongo_client[database_name]
    store = MongoStore(mongo_client, database_name, **EXACT)
    store.put(NS, "old", {"text": "fish"})
    first, second = (batch.search(store._context(), SearchOp(NS, query="fish")) for _ in range(2))
    loading = until(
        first, database, lambda command: "codes" in (getattr(command, "projection", None) or {})
    )
    loaded = loading.perform(database)
    store.put(NS, "new", {"text": "fish"})
    until(second, database, lambda command: isinstance(command, Sleep))
    until(first, database, lambda _command: False, loaded)
    found, _ = stepped(second, database, {})
    assert [(item.key, item.score is None) for item in found] == [("new", False), ("old", False)]


def until(plan: Plan[Any], database: Any, stops: Callable[[Any], bool], reply: Any = None) -> Any:
    """Run a plan to its first command that stops it, or to its end."""
    with suppress(StopIteration):
        while not stops(command := plan.send(reply)):
            reply = command.perform(database)
        return command
    return None


def test_what_is_updated_while_one_long_page_is_read_is_found(
    mongo_client: MongoClient, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server passed the place of an item before it was put there; that is shown by a page
    without the item.
    """
    database = mongo_client[database_name]
    store = MongoStore(mongo_client, database_name)
    store.batch([PutOp(NS, f"k{n}", {"n": n}) for n in range(10)])
    monkeypatch.setattr("mongomem.store.plans.plain_search.LONG_SECONDS", -1.0)
    plan = batch.search(store._context(), SearchOp(NS, {"n": {"$gte": 0}}, limit=50))
    page = plan.send(None).perform(database)
    store.put(NS, "k0", {"n": 0})
    found, _ = stepped(
        plan, database, {}, [document for document in page if document["key"] != "k0"]
    )
    assert sorted(keys(found)) == [f"k{n}" for n in range(10)]
