"""Changes merged into one item: what a patch means, and that no concurrent writer loses any."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import mongomock
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import InvalidNamespaceError
from pymongo import AsyncMongoClient, MongoClient

from mongomem import ContentionError, CorruptDataError, InvalidInputError, MongoStore
from mongomem.engine.commands import BulkWrite, Find
from mongomem.engine.effects import Sleep
from mongomem.store.plans import merge
from mongomem.store.plans.merge import MAX_ATTEMPTS, merge_item, merge_patch
from support.stepping import Stepped
from support.stores import Clock, words

NS, KEY = ("ada", "profile"), "profile"

RFC_7386: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]
"""The test cases of RFC 7386, appendix A."""


@pytest.mark.parametrize(("target", "patch", "merged"), RFC_7386)
def test_a_patch_means_what_the_standard_says(target: Any, patch: Any, merged: Any) -> None:
    before = json.dumps([target, patch])
    assert merge_patch(target, patch) == merged
    assert json.dumps([target, patch]) == before


def store_with(clock: Callable[[], datetime] | None = None, **options: Any) -> MongoStore:
    return MongoStore(mongomock.MongoClient(), **({"clock": clock} if clock else {}), **options)


def database_of(store: MongoStore) -> Any:
    return store._runners.run.database  # type: ignore[attr-defined]


def merged(store: MongoStore, changes: Any, ttl: float | None = None) -> dict[str, Any]:
    return store._runners.run(merge_item(store._context(), NS, KEY, changes, ttl))


def value(store: MongoStore) -> Any:
    item = store.get(NS, KEY)
    return None if item is None else item.value


def test_an_item_is_made_kept_and_changed() -> None:
    clock = Clock()
    clock.now = datetime.now(timezone.utc).replace(microsecond=0)
    store = store_with(clock, index=words())
    assert merged(store, {"name": "Ada", "likes": {"tea": True, "gin": False}}) == value(store)
    made = store.get(NS, KEY)
    clock.advance(minutes=1)
    assert merged(store, {"likes": {"gin": None, "rum": 1}, "at": (1, 2)}) == {
        "name": "Ada",
        "likes": {"tea": True, "rum": 1},
        "at": (1, 2),
    }
    changed = store.get(NS, KEY)
    assert made is not None
    assert changed is not None
    assert changed.value["at"] == (1, 2)
    assert changed.created_at == made.created_at
    assert changed.updated_at == made.updated_at + timedelta(minutes=1)


def test_an_item_lives_as_long_as_it_is_told() -> None:
    clock = Clock()
    clock.now = datetime.now(timezone.utc).replace(microsecond=0)
    store = store_with(clock)
    merged(store, {"a": 1}, ttl=10)
    clock.advance(minutes=11)
    assert merged(store, {"b": 1}, ttl=10) == {"b": 1}, "what has expired begins anew"
    clock.advance(minutes=9)
    assert merged(store, {"c": 1}) == {"b": 1, "c": 1}
    clock.advance(minutes=100)
    assert value(store) == {"b": 1, "c": 1}


def test_what_is_stored_is_what_was_passed_at_the_call() -> None:
    store, changes = store_with(), {"likes": {"tea": [1]}}
    plan = Stepped(merge_item(store._context(), NS, KEY, changes), database_of(store))
    plan.perform(1)
    changes["likes"]["tea"].append(2)
    plan.perform()
    assert value(store) == {"likes": {"tea": [1]}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (None, "changes must be a mapping"),
        ([("a", 1)], "changes must be a mapping"),
        ("a", "changes must be a mapping"),
        ({"a": {"b": {1}}}, "changes: at a.b: a set cannot be stored"),
        ({1: 2}, "the key 1 is a int"),
        ({"a": "x" * 17_000_000}, "over the 16 MB"),
    ],
)
def test_changes_that_cannot_be_stored_are_named(changes: Any, told: str) -> None:
    store = store_with()
    merged(store, {"name": "Ada"})
    with pytest.raises(InvalidInputError, match=told):
        merged(store, changes)
    assert value(store) == {"name": "Ada"}


def test_a_wrong_place_is_refused_before_anything_is_read() -> None:
    plan = merge_item(store_with()._context(), ("a.b",), KEY, {})
    with pytest.raises(InvalidNamespaceError):
        plan.send(None)


def test_a_damaged_item_is_not_merged_into() -> None:
    store = store_with()
    merged(store, {"name": "Ada"})
    items = database_of(store)[store._context().items].collection
    items.update_one({}, {"$set": {"value": 7}})
    with pytest.raises(CorruptDataError, match="profile"):
        merged(store, {"a": 1})
    items.update_one({}, {"$set": {"value": {"b": 1}}, "$unset": {"changed_at": ""}})
    assert merged(store, {"a": 1}) == {"a": 1, "b": 1}, "one without a stamp is merged into"


def test_the_write_is_one_and_conditional() -> None:
    store = store_with()
    merged(store, {"a": 1})
    plan = merge_item(store._context(), NS, KEY, {"b": 1})
    find: Any = plan.send(None)
    assert isinstance(find, Find)
    write: Any = plan.send(find.perform(database_of(store)))
    assert isinstance(write, BulkWrite)
    assert "changed_at" in write.writes[0].filter
    assert not write.writes[0].upsert
    with pytest.raises(StopIteration) as finished:
        plan.send(write.perform(database_of(store)))
    assert finished.value.value == value(store) == {"a": 1, "b": 1}


def test_what_never_settles_ends_in_one_error() -> None:
    store, pauses = store_with(), []
    plan = merge_item(store._context(), NS, KEY, {"a": 1})

    def go_on(answer: Any) -> Any:
        """Perform one command, with another write before each write of the plan."""
        command = plan.send(answer)
        if isinstance(command, Sleep):
            pauses.append(command.seconds)
            return None
        if isinstance(command, BulkWrite):
            store.put(NS, KEY, {"of": "another"})
        return command.perform(database_of(store))

    def to_its_end() -> None:
        answer = None
        while True:
            answer = go_on(answer)

    store.put(NS, KEY, {"of": "another"})
    with pytest.raises(ContentionError, match="try again"):
        to_its_end()
    assert len(pauses) == MAX_ATTEMPTS
    assert all(0 <= seconds <= merge.LONGEST_PAUSE_SECONDS for seconds in pauses)
    assert value(store) == {"of": "another"}


WRITERS = 3
PATCHES = [{f"w{one}": one, "all": {str(one): one}} for one in range(WRITERS)]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(order=st.lists(st.integers(0, WRITERS), max_size=30))
def test_no_interleaving_loses_a_change(
    order: list[int], mongo_client: MongoClient, shared_database: str
) -> None:
    """Three writers that merge, one command at a time, and one who puts the whole item anew. Each
    change of the item is what one of them does to what was there, and is what that one returns.
    """
    store = MongoStore(mongo_client, shared_database, auto_setup=False)
    store.delete(NS, KEY)
    plans = [
        Stepped(merge_item(store._context(), NS, KEY, patch), database_of(store))
        for patch in PATCHES
    ]
    there, written = None, {}
    for turn in [*order, *(one for _ in range(4 * WRITERS) for one in range(WRITERS))]:
        if turn == WRITERS:
            store.put(NS, KEY, {"anew": True})
            there = {"anew": True}
            continue
        plans[turn].perform(1)
        if (found := value(store)) != there:
            assert turn not in written
            assert found == merge_patch(there, PATCHES[turn])
            there = written[turn] = found
    assert {one: plan.result for one, plan in enumerate(plans) if plan.ended} == written
    assert len(written) == WRITERS


def everything(writers: int, each: int) -> dict[str, Any]:
    return {
        "count": {f"{one}-{step}": step for one in range(writers) for step in range(each)},
        **{f"w{one}": each - 1 for one in range(writers)},
    }


def changes_of(one: int, each: int) -> list[dict[str, Any]]:
    return [{"count": {f"{one}-{step}": step}, f"w{one}": step} for step in range(each)]


def test_many_threads_lose_nothing(mongo_uri: str, database_name: str) -> None:
    writers, each = 12, 6
    with MongoClient(mongo_uri) as client:
        stores = [MongoStore(client, database_name) for _ in range(writers)]

        def write(one: int) -> None:
            for changes in changes_of(one, each):
                merged(stores[one], changes)

        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(write, range(writers)))
        assert value(stores[0]) == everything(writers, each)


async def test_many_tasks_lose_nothing(mongo_uri: str, database_name: str) -> None:
    writers, each = 12, 6
    async with AsyncMongoClient(mongo_uri) as client:
        store = MongoStore(client, database_name)

        async def write(one: int) -> None:
            for changes in changes_of(one, each):
                await store._runners.arun(merge_item(store._context(), NS, KEY, changes))

        await asyncio.gather(*map(write, range(writers)))
        item = await store.aget(NS, KEY)
    assert item is not None
    assert item.value == everything(writers, each)
