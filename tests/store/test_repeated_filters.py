"""Searches by a filter that was searched by before: the ids that match it are known then, and what
has changed since counts all the same.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from langgraph.store.base import PutOp, SearchOp
from pymongo import MongoClient

from mongomem import MongoStore
from mongomem.store.plans import batch
from support.stepping import Stepped
from support.stores import keys, words

NS = ("users", "u1")
ITEMS = 700
RARE = {"kind": "rare"}


def options(rank: str) -> dict[str, Any]:
    return {"index": words(fields=["text"], rank=rank), "backend": "exact"}


def value(kind: str, text: str = "fish") -> dict[str, Any]:
    return {"text": f"{text} word{len(kind)}", "kind": kind}


def loaded(client: MongoClient, database: str, rank: str) -> MongoStore:
    """Return a store with many common items, which are closer to "fish" than the few rare ones."""
    store = MongoStore(client, database, **options(rank))
    store.batch([PutOp(NS, f"c{n:03}", value("common")) for n in range(ITEMS)])
    store.batch([PutOp(NS, f"r{n}", value("rare", "far away")) for n in range(8)])
    return store


@pytest.mark.parametrize("rank", ["vector", "hybrid"])
def test_what_matches_now_is_found_after_any_changes(
    mongo_client: MongoClient, database_name: str, rank: str
) -> None:
    source = random.Random(5)
    writer = loaded(mongo_client, database_name, rank)
    reader = MongoStore(mongo_client, database_name, **options(rank))
    matching = {f"r{n}" for n in range(8)}
    for _ in range(60):
        for _ in range(source.choice([0, 1, 1, 3, 12])):
            key = source.choice([f"r{source.randrange(20)}", f"c{source.randrange(ITEMS):03}"])
            matching.discard(key)
            change = source.choice(["rare", "common", "delete"])
            if change == "delete":
                writer.delete(NS, key)
                continue
            writer.put(NS, key, value(change, source.choice(["fish", "far away"])))
            if change == "rare":
                matching.add(key)
        assert {*keys(reader.search(NS, query="fish", filter=RARE, limit=200))} == matching
        best = keys(reader.search(NS, query="fish", filter=RARE, limit=5))
        whole = keys(
            MongoStore(mongo_client, database_name, **options(rank)).search(
                NS, query="fish", filter=RARE, limit=5
            )
        )
        assert best == whole


def test_a_filter_that_was_searched_by_before_costs_no_more_than_none(
    mongo_client: MongoClient, database_name: str
) -> None:
    loaded(mongo_client, database_name, "vector")
    store = MongoStore(mongo_client, database_name, **options("vector"))

    def commands(filter: dict[str, Any] | None) -> int:
        op = SearchOp(NS, filter, query="fish", limit=5)
        plan = Stepped(batch.search(store._context(), op), mongo_client[database_name])
        assert len(plan.finish()) == 5
        return plan.commands

    commands(None)  # loads the index
    commands(None)  # meets all that was just written
    unfiltered, first = commands(None), commands(RARE)
    assert commands(RARE) == unfiltered < first
    assert commands({"kind": {"$in": ["rare", "none"]}}) == first


@pytest.mark.parametrize("rank", ["vector", "hybrid"])
@pytest.mark.parametrize("few", [1, 9], ids=["one change", "nine changes"])
def test_what_changes_while_the_matching_ids_are_read_is_found_later(
    mongo_client: MongoClient, database_name: str, rank: str, few: int
) -> None:
    writer = loaded(mongo_client, database_name, rank)
    expected = {f"r{n}" for n in range(8)}
    op = SearchOp(NS, RARE, query="fish", limit=200)

    number, has_ended = 0, False
    while not has_ended:
        store = MongoStore(mongo_client, database_name, **options(rank))
        store.search(NS, query="fish")
        plan = Stepped(batch.search(store._context(), op), mongo_client[database_name])
        plan.perform(number)
        has_ended = plan.ended
        names = [f"c{number:02}{n}" for n in range(few)]
        writer.batch([PutOp(NS, name, value("rare")) for name in names])
        expected.update(names)
        plan.finish()
        for _ in range(8):
            assert {*keys(store.search(NS, query="fish", filter=RARE, limit=200))} == expected
        number += 1
