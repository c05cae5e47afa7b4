"""Graphs with a cache: a node with a CachePolicy runs once for an input, in whichever process."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import CachePolicy, Send
from pymongo import MongoClient

from mongomem import MongoCache, MongoMemory
from support.caches import World
from support.savers import KINDS, client_of
from support.waits import HANG_SECONDS

pytestmark = pytest.mark.shares_database

ROOT = Path(__file__).parents[2]


@dataclasses.dataclass
class Total:
    of: int


class State(TypedDict, total=False):
    n: int
    result: Any


class Counted:
    """A graph of one node that counts its runs, on a cache, run in the way of a kind."""

    def __init__(self, kind: str, cache: Any, ttl: int | None = None, made: Any = Total) -> None:
        self.kind, self.runs = kind, 0

        def work(state: State) -> State:
            self.runs += 1
            return {"result": made(state["n"])}

        builder = StateGraph(State)
        builder.add_node("work", work, cache_policy=CachePolicy(ttl=ttl))
        builder.add_edge(START, "work")
        self.graph = builder.compile(cache=cache)

    async def run(self, n: int) -> Any:
        if self.kind in ("threaded", "awaiting"):
            return (await self.graph.ainvoke({"n": n}))["result"]
        return self.graph.invoke({"n": n})["result"]


async def test_a_node_runs_once_for_an_input_until_its_time_is_over(world: World) -> None:
    one = Counted(world.kind, world.cache().target, ttl=60)
    other = Counted(world.kind, world.cache().target, ttl=60)  # a cache that has seen nothing
    for graph in (one, other, one):
        assert await graph.run(3) == Total(3)
    assert (one.runs, other.runs) == (1, 0)
    assert await other.run(4) == Total(4)
    assert (one.runs, other.runs) == (1, 1)
    world.wait(60)
    assert await one.run(3) == Total(3)
    assert (one.runs, other.runs) == (2, 1)


async def test_clear_cache_of_a_graph(world: World) -> None:
    graph = Counted(world.kind, world.cache().target)
    await graph.run(1)
    if graph.kind in ("threaded", "awaiting"):
        await graph.graph.aclear_cache(["work"])
    else:
        graph.graph.clear_cache(["work"])
    await graph.run(1)
    assert graph.runs == 2
    assert world.entries.count_documents({}) == 1


async def test_a_result_that_is_not_revived_is_computed_again(world: World) -> None:
    @dataclasses.dataclass
    class Local:
        of: int

    graph = Counted(world.kind, world.cache().target, made=Local)
    assert [await graph.run(1), await graph.run(1)] == [Local(1), Local(1)]
    assert graph.runs == 2


async def test_two_clients_share_a_cache(mongo_uri: str, database_name: str) -> None:
    first = ""
    for kind in [kind for kind in KINDS if kind != "mongomock"]:
        async with client_of(kind, mongo_uri) as client:
            graph = Counted(kind, MongoCache(client, database_name), ttl=3600)
            assert await graph.run(5) == Total(5)
            assert graph.runs == (not first), kind
            first = first or kind


async def test_all_three_of_a_memory_in_one_graph(world: World) -> None:
    memory = MongoMemory(world.client, world.name)
    runs: list[int] = []

    def split(state: MessagesState) -> list[Send]:
        return [Send("part", number) for number in (1, 2, 3)]

    def part(number: int) -> dict[str, Any]:
        runs.append(number)
        return {"messages": [AIMessage(f"part {number}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("part", part, cache_policy=CachePolicy())
    builder.add_conditional_edges(START, split, ["part"])
    graph = builder.compile(checkpointer=memory.saver, store=memory.store, cache=memory.cache)
    is_async = world.kind in ("threaded", "awaiting")
    for thread in ("1", "2"):
        config: Any = {"configurable": {"thread_id": thread}}
        given: Any = {"messages": "Hi"}
        state = await graph.ainvoke(given, config) if is_async else graph.invoke(given, config)
        assert [one.text for one in state["messages"]] == ["Hi", "part 1", "part 2", "part 3"]
    assert sorted(runs) == [1, 2, 3]


async def test_tasks_of_the_functional_interface(world: World) -> None:
    runs: list[int] = []

    @task(cache_policy=CachePolicy(ttl=60))
    def square(n: int) -> int:
        runs.append(n)
        return n * n

    @entrypoint(cache=world.cache().target)
    def flow(n: int) -> int:
        return square(n).result()

    @entrypoint(cache=world.cache().target)
    async def aflow(n: int) -> int:
        return await square(n)

    async def awaited(n: int) -> int:
        if sys.version_info >= (3, 11):
            return await aflow.ainvoke(n)
        return await asyncio.to_thread(flow.invoke, n)  # LangGraph awaits no task before 3.11

    is_async = world.kind in ("threaded", "awaiting")
    for _ in range(2):
        assert (await awaited(3) if is_async else flow.invoke(3)) == 9
    assert runs == [3]


PROGRAM = """
import asyncio, sys
from typing import TypedDict
from langgraph.graph import START, StateGraph
from langgraph.types import CachePolicy
from mongomem import MongoCache

class State(TypedDict):
    n: int

def work(state):
    print("runs")
    return {"n": state["n"] * 2}

builder = StateGraph(State).add_node("work", work, cache_policy=CachePolicy(ttl=3600))
builder.add_edge(START, "work")
uri, name, way = sys.argv[1:]

async def main():
    async with MongoCache.from_conn_string(uri, db_name=name) as cache:
        print((await builder.compile(cache=cache).ainvoke({"n": 4}))["n"])

if way == "async":
    asyncio.run(main())
else:
    with MongoCache.from_conn_string(uri, db_name=name) as cache:
        print(builder.compile(cache=cache).invoke({"n": 4})["n"])
"""


def test_a_node_runs_once_over_three_processes(mongo_uri: str, database_name: str) -> None:
    def run(way: str) -> list[str]:
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, mongo_uri, database_name, way],
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert ran.stderr == ""
        return ran.stdout.split()

    assert [run(way) for way in ("sync", "async", "sync")] == [["runs", "8"], ["8"], ["8"]]


@pytest.mark.parametrize("kind", ["threaded", "awaiting"])
async def test_many_runs_at_once_on_a_new_cache(
    kind: str, mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    async with client_of(kind, mongo_uri) as client:
        cache: MongoCache[Any] = MongoCache(client, database_name, collection_prefix=f"{kind}_")
        graph = Counted(kind, cache)
        results = await asyncio.gather(*(graph.run(n % 5) for n in range(50)))
        assert results == [Total(n % 5) for n in range(50)]
        assert mongo_client[database_name][f"{kind}_cache_entries"].count_documents({}) == 5
        before = graph.runs
        await asyncio.gather(*(graph.run(n % 5) for n in range(50)))
        assert graph.runs == before
