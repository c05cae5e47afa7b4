"""Searches by a filter that was searched by before: the ids that match it are known then, and what
has changed since counts all the same.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from langgraph.store.base import PutOp, SearchOp
from pymongo import MongoClient

from mongomem import MongoStore
from mongomem.store.documents.filter_query import name_of_query, to_query
from mongomem.store.plans import batch
from mongomem.store.vectors.matching_ids import ID_BYTES, MOST_FILTERS, VALID_SECONDS
from support.stepping import Stepped
from support.stores import Clock, keys, words

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
def test_where_a_filter_of_a_kind_matched_few_the_next_one_is_listed_at_once(
    mongo_client: MongoClient, database_name: str, rank: str
) -> None:
    writer = loaded(mongo_client, database_name, rank)
    seldom = ("scarce", "odd", "uncommon")
    writer.batch([PutOp(NS, f"{kind}{n}", value(kind, "far")) for kind in seldom for n in range(8)])
    store = MongoStore(mongo_client, database_name, **options(rank))

    def commands(filter: dict[str, Any]) -> int:
        op = SearchOp(NS, filter, query="fish", limit=5)
        plan = Stepped(batch.search(store._context(), op), mongo_client[database_name])
        assert {item.value["kind"] for item in plan.finish()} == {filter["kind"]}
        return plan.commands

    for _ in range(2):
        store.search(NS, query="fish")
    first = commands(RARE)
    assert commands({"kind": "scarce"}) < first
    assert commands({"kind": "common"}) < first  # listed at once, and not worth it
    assert commands({"kind": "odd"}) == first
    assert commands({"kind": "uncommon"}) < first


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


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def seconds() -> list[float]:
    """What the monotonic clock of the reader shows."""
    return [1000.0]


@pytest.fixture
def reader(
    mongo_client: MongoClient, database_name: str, clock: Clock, seconds: list[float]
) -> MongoStore:
    """A store whose searches by `RARE` are by the ids that the first one of them listed."""
    store = MongoStore(
        mongo_client,
        database_name,
        ttl={"refresh_on_read": False},
        clock=clock,
        **options("vector"),
    )
    store._store_context = replace(store._store_context, monotonic=lambda: seconds[0])
    return store


def rare(reader: MongoStore, **more: Any) -> set[str]:
    return {*keys(reader.search(NS, query="fish", filter=RARE, limit=20, **more))}


def listed(reader: MongoStore) -> set[str] | None:
    """Return the keys of what is kept for `RARE`."""
    (index,) = reader._context().index_cache._indexes.values()
    query = to_query(RARE, field="value", exact_field="exact")
    found = index.matching(name_of_query(query).whole, reader._context().monotonic())
    return None if found is None else {one.rpartition("\x00")[2] for one in found}


def expect_kept(reader: MongoStore, expected: set[str]) -> None:
    """Fail unless a list is kept, with these among its ids."""
    held = listed(reader)
    assert held is not None
    assert held >= expected


def test_items_that_expire_while_a_list_is_kept_are_not_found(
    reader: MongoStore, clock: Clock, mongo_client: MongoClient, database_name: str
) -> None:
    """By the clock at first, and then because the server has removed them."""
    loaded(mongo_client, database_name, "vector")
    for minutes in (1, 2, 3):
        reader.put(NS, f"t{minutes}", value("rare", "far away"), ttl=minutes)
    lasting = {f"r{n}" for n in range(8)}
    assert rare(reader) == lasting | {"t1", "t2", "t3"}
    expect_kept(reader, {"t1", "t2", "t3"})
    clock.advance(minutes=1.5)
    assert rare(reader) == lasting | {"t2", "t3"}
    items = mongo_client[database_name]["mongomem_store_items"]
    clock.advance(minutes=1)
    items.delete_many({"expires_at": {"$lt": clock.now}})  # as the TTL index of the server does
    assert rare(reader) == lasting | {"t3"}
    assert rare(reader, refresh_ttl=True) == lasting | {"t3"}
    clock.advance(minutes=2)
    expect_kept(reader, {"t1", "t3"})
    assert rare(reader) == lasting | {"t3"}
    clock.advance(minutes=2)
    assert rare(reader) == lasting


def test_items_that_expired_before_they_were_listed_and_are_put_again_are_found(
    reader: MongoStore, clock: Clock, mongo_client: MongoClient, database_name: str
) -> None:
    writer = loaded(mongo_client, database_name, "vector")
    reader.put(NS, "t", value("rare", "far away"), ttl=1)
    clock.advance(minutes=2)
    lasting = {f"r{n}" for n in range(8)}
    assert rare(reader) == lasting
    expect_kept(reader, lasting)
    writer.put(NS, "t", value("rare"), ttl=None)
    assert rare(reader) == lasting | {"t"}


@pytest.mark.parametrize("how", ["delete", "batch", "server", "another kind"])
def test_items_that_are_deleted_while_a_list_is_kept_are_not_found(
    how: str, reader: MongoStore, mongo_client: MongoClient, database_name: str
) -> None:
    writer = loaded(mongo_client, database_name, "vector")
    lasting = {f"r{n}" for n in range(8)}
    assert rare(reader) == lasting
    expect_kept(reader, lasting)
    for number in range(4):
        key = f"r{number}"
        if how == "delete":
            writer.delete(NS, key)
        elif how == "batch":
            writer.batch([PutOp(NS, key, None), PutOp(NS, f"new{number}", value("common"))])
        elif how == "server":
            mongo_client[database_name]["mongomem_store_items"].delete_one({"key": key})
        else:
            writer.put(NS, key, value("common"))
        lasting.discard(key)
        assert rare(reader) == lasting
        expect_kept(reader, lasting)
        assert len(reader.search(NS, query="fish", filter=RARE, limit=3)) == 3
    writer.put(NS, "r0", value("rare"))
    assert rare(reader) == lasting | {"r0"}


def test_a_namespace_that_is_deleted_leaves_no_list(
    reader: MongoStore, mongo_client: MongoClient, database_name: str
) -> None:
    writer = loaded(mongo_client, database_name, "vector")
    assert len(rare(reader)) == 8
    writer.delete_namespace(NS)
    assert rare(reader) == set()
    reader.put(NS, "one", value("rare"))
    assert rare(reader) == {"one"}


def test_a_list_ends_by_the_clock_and_the_next_search_asks_again(
    reader: MongoStore, seconds: list[float], mongo_client: MongoClient, database_name: str
) -> None:
    loaded(mongo_client, database_name, "vector")
    lasting = rare(reader)
    expect_kept(reader, lasting)
    seconds[0] += VALID_SECONDS - 1
    expect_kept(reader, lasting)
    seconds[0] += 1
    assert listed(reader) is None
    assert rare(reader) == lasting
    expect_kept(reader, lasting)


def test_searches_by_many_filters_hold_no_more_than_a_few_lists(
    reader: MongoStore, mongo_client: MongoClient, database_name: str
) -> None:
    writer = MongoStore(mongo_client, database_name, **options("vector"))
    kinds = [f"kind {n}" for n in range(2 * MOST_FILTERS)]
    items = [PutOp(NS, f"c{n}", value("common")) for n in range(ITEMS)]
    rares = [PutOp(NS, f"{kind} {n}", value(kind, "far away")) for kind in kinds for n in range(3)]
    writer.batch([*items, *rares])
    reader.search(NS, query="fish")
    (index,) = reader._context().index_cache._indexes.values()
    bare = index.index.size
    for _ in range(2):
        for kind in kinds:
            found = reader.search(NS, query="fish", filter={"kind": kind}, limit=5)
            assert {one.value["kind"] for one in found} == {kind}
            assert len(found) == 3
            assert bare < index.size <= bare + MOST_FILTERS * 3 * ID_BYTES
    assert reader._context().index_cache.size <= index.size
