"""The first search of a prefix, whose index is read in parts that the server sends unasked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.store.base import PutOp
from pymongo import MongoClient
from pymongo.errors import AutoReconnect

from mongomem import LocalServer
from mongomem.store.plans.index_sync import _Loading
from mongomem.store.store import MongoStore
from mongomem.store.vectors.memory_index import Columns, MemoryIndex
from support.savers import KINDS, client_of
from support.stores import keys, store_on, words

NS = ("users", "u1")
ITEMS = 2_500
"""Two and a half parts."""

WRITES = [PutOp(NS, f"k{n:04}", {"text": f"fish number{n}"}) for n in range(ITEMS)]
REAL_KINDS = [kind for kind in KINDS if kind != "mongomock"]


@pytest.fixture(scope="module")
def failing_uri() -> Iterator[str]:
    """The URI of a server that fails as it is told, and has the items in the database ``t``."""
    parameters = {"enableTestCommands": True}
    with LocalServer(throw_away=True, parameters=parameters) as server:
        with MongoClient(server.uri) as client:
            MongoStore(client, "t", index=words(fields=["text"])).batch(WRITES)
        yield server.uri


CLOSES = {"closeConnection": True}
FORGETS = {"errorCode": 43}
"""The server does not know the cursor."""


def fail(uri: str, mode: Any, how: dict[str, Any] = CLOSES) -> None:
    """Have the server fail reads that go on."""
    data = {"failCommands": ["getMore"], **how}
    with MongoClient(uri) as client:
        client.admin.command({"configureFailPoint": "failCommand", "mode": mode, "data": data})


@pytest.mark.parametrize("how", [CLOSES, FORGETS], ids=["connection", "cursor"])
@pytest.mark.parametrize("kind", REAL_KINDS)
async def test_what_is_lost_begins_the_load_anew(
    failing_uri: str, kind: str, how: dict[str, Any]
) -> None:
    async with client_of(kind, failing_uri) as client:
        store = store_on(client, kind, "t", index=words(fields=["text"]))
        fail(failing_uri, {"times": 1}, how)
        try:
            found = await store("search", NS, query="fish number2468", limit=100)
        finally:
            fail(failing_uri, "off")
    assert "k2468" in keys(found)
    assert store.target._context().index_cache.get("users\0u1", list).index.item_count == ITEMS


@pytest.mark.parametrize("kind", REAL_KINDS)
async def test_a_connection_that_is_lost_again_is_told(failing_uri: str, kind: str) -> None:
    async with client_of(kind, failing_uri) as client:
        store = store_on(client, kind, "t", index=words(fields=["text"]))
        fail(failing_uri, "alwaysOn")
        try:
            with pytest.raises(AutoReconnect):
                await store("search", NS, query="fish")
        finally:
            fail(failing_uri, "off")
        found = await store("search", NS, query="fish number7", limit=100)
    assert "k0007" in keys(found)


def test_two_loads_that_overlap_miss_nothing(
    mongo_client: MongoClient, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search whose load takes longer than its claim holds, and another one that loads meanwhile:
    what changed behind the beginning of the first and before that of the second is found.
    """
    monkeypatch.setattr("mongomem.store.vectors.index_cache.LOAD_SECONDS", 0.0)
    monkeypatch.setattr("mongomem.store.vectors.watermark.ALLOWED_LATENESS_SECONDS", 0)
    monkeypatch.setattr("mongomem.store.context.CHECK_VALID_SECONDS", 0.0)
    index = words(fields=["text"])
    MongoStore(mongo_client, database_name, index=index).batch(WRITES)
    store, taken, take = MongoStore(mongo_client, database_name, index=index), [], _Loading.take

    def interrupted(loading: _Loading, items: Columns) -> bool:
        wants_more = take(loading, items)
        taken.append(items)
        if len(taken) == 1:
            other = MongoStore(mongo_client, database_name, index=index)
            other.put(NS, "k0001", {"text": "cat"})
            time.sleep(2)  # a floor is a whole second of the server's time
            assert keys(store.search(NS, query="cat", limit=1)) == ["k0001"]
        return wants_more

    monkeypatch.setattr(_Loading, "take", interrupted)
    store.search(NS, query="cat", limit=1)
    assert len(taken) == 6
    assert keys(store.search(NS, query="cat", limit=1)) == ["k0001"]


def test_a_prefix_that_is_scanned_counts_no_item_twice(failing_uri: str) -> None:
    index = words(fields=["text"])
    with MongoClient(failing_uri) as client:
        large = MongoStore(client, "t", index=index).search(NS, query="number7 fish", limit=5)
        small = MongoStore(client, "t", index=index, index_cache_bytes=2_000)
        small.search(NS, query="fish")
        fail(failing_uri, {"times": 1})
        try:
            found = small.search(NS, query="number7 fish", limit=5)
        finally:
            fail(failing_uri, "off")
    assert [(one.key, one.score) for one in found] == [(one.key, one.score) for one in large]


async def test_a_scan_of_words_leaves_the_event_loop(
    mongo_uri: str, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, threads = MemoryIndex.load, dict[int, threading.Thread]()

    def noted(index: MemoryIndex, items: Columns) -> list[str]:
        threads[len(items.ids)] = threading.current_thread()
        return load(index, items)

    options: dict[str, Any] = {"index": {"rank": "words", "fields": ["text"]}}
    async with client_of("awaiting", mongo_uri) as client:
        store = MongoStore(client, database_name, **options, index_cache_bytes=2_000)
        await store.abatch(
            [PutOp(NS, f"k{n:04}", {"text": f"fish number{n}"}) for n in range(3_000)]
        )
        await store.asearch(NS, query="fish")
        monkeypatch.setattr(MemoryIndex, "load", noted)
        found = await store.asearch(NS, query="number2468", limit=1)
    assert keys(found) == ["k2468"]
    assert threads[3_000] is not threading.current_thread()
