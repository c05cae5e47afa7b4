"""Expiry: minutes, counted from the last use; a clock in hand, and the server's own monitor
once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp, SearchOp
from pymongo import MongoClient

from mongomem.store.store import MongoStore
from support.savers import KINDS, Calls
from support.stores import Clock, keys, store_of, words

NS = ("users", "u1")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=KINDS)
async def store(
    request: pytest.FixtureRequest, mongo_uri: str, database_name: str, clock: Clock
) -> AsyncIterator[Calls]:
    options: dict[str, Any] = {
        "ttl": {"default_ttl": 1},
        "index": words(fields=["text"]),
        "clock": clock,
    }
    async with store_of(request.param, mongo_uri, database_name, **options) as calls:
        yield calls


async def there(store: Calls, key: str) -> bool:
    return await store("get", NS, key, refresh_ttl=False) is not None


async def test_minutes_by_default_by_item_and_never(store: Calls, clock: Clock) -> None:
    await store("put", NS, "default", {})
    await store("put", NS, "five", {}, ttl=5)
    await store("put", NS, "half", {}, ttl=0.5)
    await store("put", NS, "never", {}, ttl=None)
    for minute, alive in {0.4: 4, 0.6: 3, 1.1: 2, 4.9: 2, 5.1: 1, 1_000_000: 1}.items():
        clock.now = Clock().now + timedelta(minutes=minute)
        assert (
            sum([await there(store, key) for key in ("default", "five", "half", "never")]) == alive
        ), minute


async def test_an_expired_item_is_absent_everywhere_and_its_key_is_free(
    store: Calls, clock: Clock
) -> None:
    await store("put", NS, "k", {"text": "old"})
    created = (await store("get", NS, "k")).created_at
    assert keys(await store("search", NS, query="old")) == ["k"]
    clock.advance(minutes=1)
    assert await store("get", NS, "k") is None
    assert await store("search", NS) == []
    assert await store("search", NS, filter={"text": "old"}) == []
    assert await store("search", NS, query="old") == []
    assert await store("list_namespaces") == []
    await store("put", NS, "k", {"text": "old", "n": 2})
    item = await store("get", NS, "k")
    assert item.created_at == item.updated_at == created + timedelta(minutes=1)


async def test_an_update_begins_the_time_anew_and_may_end_it(store: Calls, clock: Clock) -> None:
    await store("put", NS, "k", {})
    clock.advance(minutes=0.9)
    await store("put", NS, "k", {})
    clock.advance(minutes=0.9)
    assert await there(store, "k")
    await store("put", NS, "k", {}, ttl=None)
    clock.advance(minutes=100)
    assert await there(store, "k")


async def test_reading_refreshes_unless_told_otherwise(store: Calls, clock: Clock) -> None:
    for key in ("got", "left", "batch"):
        await store("put", NS, key, {})
    clock.advance(minutes=0.9)
    await store("get", NS, "got")
    await store("get", NS, "left", refresh_ttl=False)
    await store("batch", [GetOp(NS, "batch")])
    clock.advance(minutes=0.9)
    assert [await there(store, key) for key in ("got", "left", "batch")] == [True, False, True]


@pytest.mark.parametrize("query", [None, "fish"])
async def test_a_search_refreshes_what_it_returns_and_nothing_else(
    store: Calls, clock: Clock, query: str | None
) -> None:
    for n in range(4):
        await store("put", NS, f"k{n}", {"text": "fish", "n": n})
    clock.advance(minutes=0.9)
    found = keys(await store("search", NS, query=query, filter={"n": {"$gt": 0}}, limit=2))
    await store("search", NS, query=query, refresh_ttl=False)
    await store("batch", [SearchOp(NS, refresh_ttl=False)])
    clock.advance(minutes=0.9)
    assert sorted(keys(await store("search", NS, refresh_ttl=False))) == sorted(found)
    assert len(found) == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_a_config_with_some_keys(
    mongo_uri: str, database_name: str, kind: str, clock: Clock
) -> None:
    async with store_of(
        kind, mongo_uri, database_name, ttl={"refresh_on_read": False}, clock=clock
    ) as calls:
        await calls("put", NS, "never", {})
        await calls("put", NS, "k", {}, ttl=1)
        clock.advance(minutes=0.9)
        await calls("get", NS, "k")
        await calls("get", NS, "never", refresh_ttl=True)
        clock.advance(minutes=0.2)
        assert [await there(calls, key) for key in ("k", "never")] == [False, True]
        assert calls.target.ttl_config == {"refresh_on_read": False}


async def test_expired_items_may_be_shown_until_the_server_removes_them(
    mongo_uri: str, database_name: str, clock: Clock
) -> None:
    async with store_of(
        "blocking", mongo_uri, database_name, ttl={"omit_expired": False}, clock=clock
    ) as calls:
        await calls("put", NS, "k", {}, ttl=1)
        clock.advance(minutes=2)
        assert await there(calls, "k")
        assert keys(await calls("search", NS, refresh_ttl=False)) == ["k"]


def test_a_plain_get_writes_nothing_and_a_refresh_only_what_it_must(
    mongo_uri: str, database_name: str
) -> None:
    with MongoClient(mongo_uri) as client:
        store = MongoStore(client, database_name)
        store.batch([PutOp(NS, "plain", {}), PutOp(NS, "mortal", {}, ttl=5)])
        (before,) = client[database_name].mongomem_store_items.find({"key": "mortal"})
        store.get(NS, "plain")
        store.get(NS, "mortal")
        (after,) = client[database_name].mongomem_store_items.find({"key": "mortal"})
        assert {name for name in after if after[name] != before[name]} <= {"expires_at"}


def test_the_server_has_an_index_that_removes(mongo_uri: str, database_name: str) -> None:
    with MongoClient(mongo_uri) as client:
        store = MongoStore(client, database_name)
        store.put(NS, "k", {}, ttl=1)
        (index,) = [
            one
            for one in client[database_name].mongomem_store_items.list_indexes()
            if one.get("expireAfterSeconds") is not None
        ]
        assert (dict(index["key"]), index["expireAfterSeconds"]) == ({"expires_at": 1}, 0)
        (document,) = client[database_name].mongomem_store_items.find()
        assert document["expires_at"] - document["updated_at"] == timedelta(minutes=1)
        assert document["ttl_minutes"] == 1.0
