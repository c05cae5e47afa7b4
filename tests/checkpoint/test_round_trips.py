"""Speed, async and connections: what users of other savers ran into, and what is right instead."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from pymongo import AsyncMongoClient, MongoClient
from pymongo.monitoring import CommandListener

from mongomem.checkpoint.saver import MongoSaver
from mongomem.engine.effects import HEAVY_BYTES
from mongomem.engine.writes import UpdateCommand
from mongomem.errors import UsageError
from support.graphs import State, Steps
from support.savers import Calls
from support.waits import HANG_SECONDS

COLLECTIONS = ("mongomem_checkpoints", "mongomem_checkpoint_writes")
THREAD: Any = {"configurable": {"thread_id": "t"}}


class Heard(CommandListener):
    """The commands that reached the server, and whether a cursor stayed open behind a reply."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []
        self.open_cursors: set[int] = set()

    def started(self, event: Any) -> None:
        self.commands.append(dict(event.command))

    def succeeded(self, event: Any) -> None:
        if cursor := event.reply.get("cursor"):
            self.open_cursors.add(cursor["id"])

    def failed(self, event: Any) -> None:
        pass


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def client(mongo_uri: str, heard: Heard) -> AsyncIterator[AsyncMongoClient]:
    async with AsyncMongoClient(mongo_uri, event_listeners=[heard]) as client:
        yield client


@pytest.fixture
def saver(client: AsyncMongoClient, database_name: str) -> MongoSaver:
    return MongoSaver(client, database_name, ttl=60)


async def test_many_puts_at_once_leave_the_loop_free_and_make_no_thread(
    saver: MongoSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await saver.asetup()
    calls, threads = Calls(saver, "awaiting"), threading.enumerate()
    monkeypatch.setattr(asyncio, "to_thread", None)
    turns, done = 0, asyncio.Event()

    async def watch() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(watch())
    await asyncio.gather(
        *(Steps(calls, str(uuid4())).put(messages=str(n) * 400) for n in range(200))
    )
    done.set()
    await watching
    assert turns > 200  # each put waits for the server at least once, and others run meanwhile
    made = [one.name for one in threading.enumerate() if one not in threads]
    assert not [
        name for name in made if not name.startswith("asyncio_")
    ]  # the driver looks addresses up in those


async def test_a_large_state_is_serialized_beside_the_loop(saver: MongoSaver) -> None:
    await saver.asetup()
    calls = Calls(saver, "awaiting")

    async def calls_on_the_loop(count: int) -> int:
        counted = 0

        def count_call(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal counted
            counted += event == "call"

        messages = [HumanMessage(str(number) * 100, id=str(number)) for number in range(count)]
        sys.setprofile(count_call)  # of this thread, which is the loop's
        try:
            await Steps(calls, str(uuid4())).put(messages=messages)
        finally:
            sys.setprofile(None)
        return counted

    await calls_on_the_loop(1)
    of_few, of_many = await calls_on_the_loop(10), await calls_on_the_loop(20_000)
    assert of_many < of_few + 30_000  # copying a message takes one call, serializing it several


async def test_a_first_large_state_is_serialized_off_the_loop(
    mongo_uri: str, database_name: str
) -> None:
    threads: list[threading.Thread] = []

    class Watched(JsonPlusSerializer):
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            if isinstance(obj, str) and len(obj) > HEAVY_BYTES:
                threads.append(threading.current_thread())
            return super().dumps_typed(obj)

    async with AsyncMongoClient(mongo_uri) as client:
        calls = Calls(MongoSaver(client, database_name, serde=Watched()), "awaiting")
        await Steps(calls).put(text="x" * 3_000_000)
    assert threads
    assert threading.current_thread() not in threads


async def test_no_lock_makes_puts_wait_for_each_other(
    saver: MongoSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await saver.asetup()
    calls, perform = Calls(saver, "awaiting"), UpdateCommand.aperform
    under_way, all_there = 0, asyncio.Event()

    async def together(command: UpdateCommand, database: Any) -> Any:
        nonlocal under_way
        under_way += 1
        if under_way == 100:
            all_there.set()
        await asyncio.wait_for(all_there.wait(), HANG_SECONDS)
        return await perform(command, database)

    monkeypatch.setattr(UpdateCommand, "aperform", together)
    await asyncio.gather(*(Steps(calls, str(uuid4())).put(a=1) for _ in range(100)))
    assert under_way >= 100


async def test_breaking_out_of_a_listing_has_not_read_the_rest(
    saver: MongoSaver, heard: Heard
) -> None:
    steps = Steps(Calls(saver, "awaiting"))
    for number in range(500):
        await steps.put(number=number)
    saver._caches.forget_all()
    heard.commands.clear()
    async for one in saver.alist(THREAD):
        assert one.config == steps.config
        break
    assert len(heard.commands) <= 3
    assert heard.open_cursors == {0}
    assert len([one async for one in saver.alist(THREAD)]) == 500
    assert heard.open_cursors == {0}


async def test_a_sync_method_on_an_async_client_fails_at_once_with_advice(
    saver: MongoSaver,
) -> None:
    for call in (
        lambda: saver.get_tuple(THREAD),
        lambda: next(saver.list(THREAD)),
        lambda: saver.delete_thread("t"),
    ):
        with pytest.raises(UsageError, match="await the async twin"):
            call()


async def test_an_idle_saver_does_nothing(saver: MongoSaver, heard: Heard) -> None:
    await Steps(Calls(saver, "awaiting")).put(a=1)
    heard.commands.clear()
    threads, tasks = threading.active_count(), asyncio.all_tasks()
    await asyncio.sleep(2)
    assert heard.commands == []
    assert threading.active_count() == threads
    assert {one.get_name() for one in asyncio.all_tasks()} <= {one.get_name() for one in tasks}


async def test_client_options_reach_the_client(
    mongo_uri: str, heard: Heard, database_name: str
) -> None:
    given: dict[str, Any] = {
        "db_name": database_name,
        "appname": "mine",
        "maxPoolSize": 7,
        "event_listeners": [heard],
    }
    with MongoSaver.from_conn_string(mongo_uri, ttl=5, **given) as saver:
        assert saver.get_tuple(THREAD) is None
        options = saver._runners.run.database.client.options
        assert (options.pool_options.appname, options.pool_options.max_pool_size) == ("mine", 7)
    async with MongoSaver.from_conn_string(mongo_uri, **given) as saver:
        assert await saver.aget_tuple(THREAD) is None
    assert [command["$db"] for command in heard.commands if "aggregate" in command] == [
        database_name
    ] * 2
    with pytest.raises(UsageError, match="from_conn_string"):
        StateGraph(State).add_node("a", print).add_edge(START, "a").compile(
            checkpointer=MongoSaver.from_conn_string(mongo_uri).get_tuple
        )


def test_a_closed_connection_is_not_noticed(mongo_uri: str, database_name: str) -> None:
    with MongoClient(mongo_uri) as client:
        saver = MongoSaver(client, database_name)
        steps, closed = Steps(Calls(saver, "blocking")), 0
        for operation in (
            lambda: steps.put(long="x" * 10_000).send(None),
            lambda: saver.put_writes(steps.config, [("a", 1)], "task"),
            lambda: saver.get_tuple(THREAD),
            lambda: list(saver.list(None)),
        ):
            for server in client._topology._servers.values():
                for connection in server.pool.conns:
                    connection.conn.sock.shutdown(socket.SHUT_RDWR)
                    closed += 1
            with contextlib.suppress(StopIteration):
                operation()
        assert closed >= 3
        assert saver.get_tuple(THREAD).pending_writes == [("task", "a", 1)]


async def test_memory_is_flat_over_300_steps(mongo_client: MongoClient, database_name: str) -> None:
    saver = MongoSaver(mongo_client, database_name, cache_bytes=2**20)
    builder = StateGraph(State)
    builder.add_node(
        "node", lambda state: {"topic": str(uuid4()) * 1000, "count": state["count"] + 1}
    )
    builder.add_edge(START, "node")
    builder.add_conditional_edges(
        "node", lambda state: "node" if state["count"] % 100 else "__end__"
    )
    graph = builder.compile(checkpointer=saver)
    used = []
    tracemalloc.start()
    for start in (0, 100, 200):
        await graph.ainvoke(
            {"count": start}, {**THREAD, "recursion_limit": 200}, durability="async"
        )
        used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert used[2] - used[1] < 2**20
