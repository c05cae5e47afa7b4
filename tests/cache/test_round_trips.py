"""How often the server is asked, what a call does on an event loop, and calls at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pymongo import AsyncMongoClient, MongoClient
from pymongo.monitoring import CommandListener

from mongomem import MongoCache
from mongomem.engine.effects import HEAVY_BYTES
from support.caches import NS

KEYS: list[Any] = [((*NS, str(number % 7)), str(number)) for number in range(500)]


class Heard(CommandListener):
    """The names of the commands that reached the server."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, event: Any) -> None:
        if not event.command_name.startswith("sasl"):  # a new connection's
            self.names.append(event.command_name)

    def succeeded(self, event: Any) -> None: ...
    def failed(self, event: Any) -> None: ...

    def since(self) -> list[str]:
        names, self.names = self.names, []
        return names


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def client(mongo_uri: str, heard: Heard) -> AsyncIterator[AsyncMongoClient]:
    async with AsyncMongoClient(mongo_uri, event_listeners=[heard]) as client:
        yield client


async def test_one_round_trip_a_call(
    client: AsyncMongoClient, heard: Heard, database_name: str
) -> None:
    cache: MongoCache[Any] = MongoCache(client, database_name)
    assert await cache.aget(KEYS) == {}
    assert heard.since() == ["find"]
    await cache.aset({KEYS[0]: (0, 60)})
    assert heard.since() == [
        *("listIndexes", "find", "find"),  # whose is it?
        *("listIndexes", "createIndexes", "update"),
    ]
    await cache.aset({key: (number, 60) for number, key in enumerate(KEYS)})
    assert heard.since() == ["update"]
    assert await cache.aget(KEYS) == {key: number for number, key in enumerate(KEYS)}
    assert heard.since() == ["find"]
    await cache.aclear([(*NS, str(number)) for number in range(7)])
    assert heard.since() == ["delete"]
    await cache.aclear()
    assert heard.since() == ["delete"]
    await cache.aget([])
    await cache.aset({})
    await cache.aclear([])
    assert heard.since() == []
    again: MongoCache[Any] = MongoCache(client, database_name)
    await again.aset({KEYS[0]: (0, 60)})
    assert heard.since() == ["listIndexes", "listIndexes", "update"]


async def test_reads_are_by_id(client: AsyncMongoClient, database_name: str) -> None:
    cache: MongoCache[Any] = MongoCache(client, database_name)
    await cache.aset({key: (number, None) for number, key in enumerate(KEYS)})
    entries = client[database_name]["mongomem_cache_entries"]
    from mongomem.cache.documents.entry import entries_in, entry_id

    for query, count in (
        ({"_id": {"$in": [entry_id(*key) for key in KEYS[:10]]}}, 10),
        ({"$or": [entries_in((*NS, "1")), entries_in((*NS, "2"))]}, 144),
    ):
        told = await client[database_name].command(
            "explain",
            {"find": entries.name, "filter": query},
            verbosity="executionStats",
        )
        stats = told["executionStats"]
        assert stats["nReturned"] == stats["totalDocsExamined"] == count
        assert stats["totalKeysExamined"] <= 2 * count


class Watched(JsonPlusSerializer):
    """A serializer that knows on which threads it worked."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        self.threads.append(threading.current_thread())
        return super().dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        self.threads.append(threading.current_thread())
        return super().loads_typed(data)


@pytest.mark.parametrize("is_long", [False, True])
async def test_long_values_leave_the_loop(
    client: AsyncMongoClient, database_name: str, is_long: bool
) -> None:
    serde = Watched()
    cache: MongoCache[Any] = MongoCache(client, database_name, serde=serde)
    value = "x" * (3 * HEAVY_BYTES if is_long else 10)
    await cache.aset({KEYS[0]: (deque([("a", value)]), None)})
    assert await cache.aget(KEYS[:1]) != {}
    beside = [thread is not threading.current_thread() for thread in serde.threads]
    assert beside == [is_long] * 2


@pytest.mark.parametrize("text", ["short", "long " * HEAVY_BYTES])
async def test_what_is_stored_is_what_was_passed_at_the_call(
    client: AsyncMongoClient, database_name: str, text: str
) -> None:
    cache: MongoCache[Any] = MongoCache(client, database_name)
    messages = [text]
    writes = deque([("messages", messages), ("fields", {"a": messages})])
    pairs: dict[Any, Any] = {KEYS[0]: (writes, None)}
    called = cache.aset(pairs)
    messages.append("later")
    writes.append(("later", 1))
    pairs.clear()
    await called
    (found,) = (await cache.aget(KEYS[:1])).values()
    assert [tuple(one) for one in found] == [("messages", [text]), ("fields", {"a": [text]})]


async def test_many_sets_at_once_on_a_new_cache(
    client: AsyncMongoClient, database_name: str
) -> None:
    cache: MongoCache[Any] = MongoCache(client, database_name)
    await asyncio.gather(
        *(cache.aset({key: (f"{number} {key}", 60) for key in KEYS[:20]}) for number in range(30))
    )
    found = await cache.aget(KEYS[:20])
    assert len(found) == 20
    assert all(value.partition(" ")[2] == str(key) for key, value in found.items())


def test_sets_gets_and_clears_at_once_answer_nothing_else(
    mongo_uri: str, database_name: str
) -> None:
    def work(number: int) -> None:
        key = KEYS[number % 5]
        cache.set({key: (str(key), 60)})
        assert set(cache.get(KEYS[:5]).items()) <= {(key, str(key)) for key in KEYS[:5]}
        if number % 10 == 0:
            cache.clear([key[0]])

    with MongoClient(mongo_uri) as client, ThreadPoolExecutor(8) as pool:
        cache: MongoCache[Any] = MongoCache(client, database_name)
        assert len([*pool.map(work, range(200))]) == 200
        cache.clear()
        assert cache.get(KEYS[:5]) == {}
