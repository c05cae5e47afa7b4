"""`from_conn_string` and `connect`: who opens a client, who shares it, and who closes it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.graph import END, START, MessagesState, StateGraph
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import InvalidOperation

from mongomem import ConfigurationError, MongoMemory, MongoSaver, MongoStore, UsageError
from mongomem.engine.client_context import ClientContext
from support.waits import HANG_SECONDS

CONFIG: Any = {"configurable": {"thread_id": "1"}}
EVERYTHING = (MongoMemory, MongoSaver, MongoStore)


@pytest.fixture
def opening(mongo_uri: str, database_name: str) -> ClientContext[MongoSaver]:
    return MongoSaver.from_conn_string(mongo_uri, db_name=database_name)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every client that was closed, in order."""
    found: list[Any] = []
    close, aclose = MongoClient.close, AsyncMongoClient.close

    def record(client: Any) -> None:
        found.append(client)
        close(client)

    async def arecord(client: Any) -> None:
        found.append(client)
        await aclose(client)

    monkeypatch.setattr(MongoClient, "close", record)
    monkeypatch.setattr(AsyncMongoClient, "close", arecord)
    return found


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in threads at once; raise what one of them raised."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert failures == []


@pytest.mark.parametrize("opened", EVERYTHING)
def test_works_in_with(opened: Any, mongo_uri: str, database_name: str) -> None:
    with opened.from_conn_string(mongo_uri, db_name=database_name, appname="mongomem-test") as one:
        one.setup()
    with pytest.raises(InvalidOperation, match="Cannot use MongoClient after close"):
        one.setup()


@pytest.mark.parametrize("opened", EVERYTHING)
async def test_works_in_async_with(opened: Any, mongo_uri: str, database_name: str) -> None:
    async with opened.from_conn_string(mongo_uri, db_name=database_name) as one:
        await one.asetup()
        with pytest.raises(UsageError, match="await the async twin"):
            one.setup()
    with pytest.raises(InvalidOperation, match="Cannot use AsyncMongoClient after close"):
        await one.asetup()


def test_options_that_are_not_its_own_reach_the_client(mongo_uri: str, database_name: str) -> None:
    opening = MongoMemory.from_conn_string(
        mongo_uri, db_name=database_name, appname="mine", collection_prefix="p_", user_key="owner"
    )
    with opening as memory:
        memory.setup()
        assert memory._client.options.pool_options.appname == "mine"
        assert memory._user_key == "owner"
        assert "p_checkpoints" in memory._client[database_name].list_collection_names()


def test_one_that_was_not_entered_says_what_to_write(mongo_uri: str) -> None:
    opening = MongoMemory.from_conn_string(mongo_uri)
    with pytest.raises(UsageError, match=r"with MongoMemory.from_conn_string\(uri\) as memory"):
        _ = opening.saver
    builder = StateGraph(MessagesState)
    builder.add_node("echo", lambda state: state)
    builder.add_edge(START, "echo")
    builder.add_edge("echo", END)
    with pytest.raises(
        TypeError, match=r"not entered: write `with MongoSaver.from_conn_string\(uri\)"
    ):
        builder.compile(checkpointer=MongoSaver.from_conn_string(mongo_uri))  # type: ignore[arg-type]


@pytest.mark.parametrize("first_to_leave", [0, 1])
async def test_tasks_share_a_client_until_the_last_leaves(
    opening: ClientContext[MongoSaver], closed: list[Any], first_to_leave: int
) -> None:
    second_is_inside, one_has_left = asyncio.Event(), asyncio.Event()
    savers: list[MongoSaver] = []

    async def use(number: int) -> None:
        async with opening as saver:
            savers.append(saver)
            if len(savers) == 2:
                second_is_inside.set()
            await second_is_inside.wait()
            if number != first_to_leave:
                await one_has_left.wait()
                assert closed == []
            assert await saver.aget_tuple(CONFIG) is None
        one_has_left.set()

    await asyncio.gather(use(0), use(1))
    assert savers[0] is savers[1]
    assert len(closed) == 1


def test_threads_share_a_client_until_the_last_leaves(
    opening: ClientContext[MongoSaver], closed: list[Any]
) -> None:
    all_are_inside, others_have_left = threading.Barrier(4), threading.Barrier(4)
    savers: list[MongoSaver] = []

    def use(number: int) -> None:
        with opening as saver:
            savers.append(saver)
            all_are_inside.wait(20)
            if number == 0:  # the first that came, or any other: the order of leaving means nothing
                others_have_left.wait(20)
                assert closed == []
                assert saver.get_tuple(CONFIG) is None
        if number:
            others_have_left.wait(20)

    in_threads(4, use)
    assert len(set(map(id, savers))) == 1
    assert len(closed) == 1


def test_many_entries_and_exits_at_once_close_what_they_open(
    opening: ClientContext[MongoSaver], closed: list[Any]
) -> None:
    def use(_: int) -> None:
        for _ in range(20):
            with opening as saver:
                assert saver.get_tuple(CONFIG) is None

    in_threads(8, use)
    assert opening._opened == {}
    assert len(closed) == len(set(map(id, closed)))


def test_each_loop_has_a_client_of_its_own(
    opening: ClientContext[MongoSaver], closed: list[Any]
) -> None:
    all_are_inside = threading.Barrier(5)

    async def use() -> None:
        async with opening as saver:
            await asyncio.to_thread(all_are_inside.wait, 20)
            assert await saver.aget_tuple(CONFIG) is None

    def use_in_a_loop_or_not(number: int) -> None:
        if number:
            asyncio.run(use())
        else:
            with opening as saver:
                all_are_inside.wait(20)
                assert saver.get_tuple(CONFIG) is None

    in_threads(5, use_in_a_loop_or_not)
    assert len(set(map(id, closed))) == 5
    assert opening._opened == {}


async def test_entering_within_gives_the_same_and_entering_again_a_new_one(
    opening: ClientContext[MongoSaver],
) -> None:
    async with opening as outer, opening as inner:
        assert inner is outer
    async with opening as again:
        assert again is not outer
        assert await again.aget_tuple(CONFIG) is None


async def test_what_fails_to_build_closes_its_client(mongo_uri: str, closed: list[Any]) -> None:
    opening = MongoSaver.from_conn_string(mongo_uri, ttl=-1)
    with pytest.raises(ConfigurationError, match="ttl"), opening:
        pass
    with pytest.raises(ConfigurationError, match="ttl"):
        await opening.__aenter__()
    with pytest.raises(ConfigurationError, match="user_key"):
        MongoMemory.connect(mongo_uri, user_key="a.b")
    assert [type(client) for client in closed] == [MongoClient, AsyncMongoClient, MongoClient]
    assert opening._opened == {}


def test_a_client_that_cannot_be_made_leaves_nothing(mongo_uri: str) -> None:
    opening = MongoSaver.from_conn_string(mongo_uri, no_such_option=1)
    with pytest.raises(Exception, match="no_such_option"):
        opening.__enter__()
    assert opening._opened == {}


async def test_leaving_too_often_is_a_mistake_that_is_named(
    opening: ClientContext[MongoSaver],
) -> None:
    with opening as saver:
        with pytest.raises(
            UsageError, match=r"left in this event loop more often than entered.*`async with`"
        ):
            await opening.__aexit__()
        assert saver.get_tuple(CONFIG) is None
    with pytest.raises(
        UsageError, match=r"MongoSaver.from_conn_string\(...\) was left more often than entered"
    ):
        opening.__exit__()


def test_connect_and_close_for_notebooks(mongo_uri: str, database_name: str) -> None:
    memory = MongoMemory.connect(mongo_uri, db_name=database_name)
    memory.setup()
    memory.store.put(("ada",), "k", {"text": "tea"})
    memory.close()
    with pytest.raises(InvalidOperation, match="Cannot use MongoClient after close"):
        memory.store.get(("ada",), "k")


async def test_aconnect_and_aclose(mongo_uri: str, database_name: str) -> None:
    memory = await MongoMemory.aconnect(mongo_uri, db_name=database_name)
    await memory.asetup()
    await memory.aclose()
    with pytest.raises(InvalidOperation, match="Cannot use AsyncMongoClient after close"):
        await memory.asetup()


@pytest.mark.parametrize("kind", [MongoClient, AsyncMongoClient])
async def test_a_client_that_was_passed_in_stays_open_however_its_memory_is_left(
    kind: Any, mongo_uri: str, database_name: str
) -> None:
    client = kind(mongo_uri)
    async with MongoMemory(client, database_name) as memory:
        assert await memory.saver.aget_tuple(CONFIG) is None
    with MongoMemory(client, database_name) as memory:
        assert await memory.saver.aget_tuple(CONFIG) is None
    assert await memory.saver.aget_tuple(CONFIG) is None
    closed = client.close()
    if closed is not None:
        await closed


async def test_the_wrong_close_says_the_right_one_and_leaves_the_client_open(
    mongo_uri: str, database_name: str
) -> None:
    memory = await MongoMemory.aconnect(mongo_uri, db_name=database_name)
    with pytest.raises(UsageError, match=r"AsyncMongoClient: write `await memory.aclose\(\)`"):
        memory.close()
    assert await memory.saver.aget_tuple(CONFIG) is None
    await memory.aclose()
    memory = MongoMemory.connect(mongo_uri, db_name=database_name)
    with pytest.raises(UsageError, match=r"is a MongoClient: write `memory.close\(\)`"):
        await memory.aclose()
    assert memory.saver.get_tuple(CONFIG) is None
    memory.close()
