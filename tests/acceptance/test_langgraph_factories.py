"""The factories of `mongomem.langgraph`, entered as a LangGraph server does, without one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mongomem import ConfigurationError, MongoSaver, MongoStore
from mongomem.langgraph import checkpointer, memory, store
from mongomem.langgraph.settings import CHECKPOINTER, STORE, THREAD_TTL, URI, VARIANT
from support.databases import with_database

THREAD: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch, mongo_uri: str, database_name: str) -> None:
    """As a server sets them; in the test of one that says nothing they are taken away."""
    for name in (CHECKPOINTER, THREAD_TTL, VARIANT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(URI, with_database(mongo_uri, database_name))
    monkeypatch.setenv(STORE, json.dumps({"index": {"rank": "words"}, "ttl": {"default_ttl": 5}}))


async def test_what_is_entered_in_one_loop_has_one_client(database_name: str) -> None:
    async with checkpointer() as saver, store() as items, memory() as both:
        assert isinstance(saver, MongoSaver)
        assert isinstance(items, MongoStore)
        assert (both.saver, both.store) == (saver, items)
        await items.aput(("a",), "k", {"text": "I like jazz"})
        assert [item.key for item in await items.asearch(("a",), query="jazz")] == ["k"]
        assert await saver.aget_tuple(THREAD) is None


async def test_each_loop_has_a_client_of_its_own() -> None:
    async def entered() -> int:
        async with memory() as one:
            await one.store.aput(("a",), "k", {"text": "x"})
            return id(one)

    async with memory() as here:
        there = await asyncio.to_thread(asyncio.run, entered())
        assert there != id(here)
        assert await here.store.aget(("a",), "k") is not None


async def test_what_was_left_can_be_entered_again() -> None:
    for _ in range(2):
        async with store() as items:
            await items.aput(("a",), "k", {"text": "x"})


async def test_options_win_over_the_environment(
    database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store(db_name=f"{database_name}2", index=None, open_timeout=None) as other:
        assert await other.aget(("a",), "k") is None
        assert other.supports_ttl
    monkeypatch.setenv(STORE, json.dumps({"index": {"dims": 3}}))
    async with store(index={"rank": "words"}) as items:
        await items.aput(("a",), "k", {"text": "jazz"})
        assert len(await items.asearch(("a",), query="jazz")) == 1


@pytest.mark.parametrize("factory", [checkpointer, store, memory])
async def test_without_a_server_it_is_said_how_to_name_one(
    factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URI, " ")
    with pytest.raises(ConfigurationError, match="MONGODB_URI is not set"):
        await factory().__aenter__()


async def test_an_error_is_raised_anew_until_it_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    right = json.dumps({"index": {"rank": "words"}})
    for given, told in ((json.dumps({"indx": {}}), "Unknown options"), ("{", "is no JSON")):
        monkeypatch.setenv(STORE, given)
        with pytest.raises(ConfigurationError, match=told):
            await checkpointer().__aenter__()
    monkeypatch.setenv(STORE, right)
    async with checkpointer() as saver:
        assert await saver.aget_tuple(THREAD) is None
