"""The libraries that agents are built with, on every kind of client, as on LangGraph's in-memory
classes.

`langchain.agents.create_agent` runs sync tools in worker threads, LangMem's executor reflects in a
thread of its own, deepagents' backend calls the sync methods of the store in a worker thread where
a native twin is missing: all of that must work beside the event loop that an ``AsyncMongoClient``
belongs to."""

from __future__ import annotations

import asyncio
import json
import re
import warnings
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
)
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.func import task
from langgraph.types import CachePolicy, Command

from support.agents import (
    KINDS,
    Memories,
    ScriptedModel,
    assert_as_in_memory,
    calling,
    memories_of,
    obeying,
    says,
)

with warnings.catch_warnings():
    # langmem 0.0.30 imports a name from where LangGraph no longer wants it
    warnings.filterwarnings(
        "ignore", message="Importing Send from langgraph.constants", category=DeprecationWarning
    )
    from langmem import (
        ReflectionExecutor,
        create_manage_memory_tool,
        create_memory_store_manager,
        create_search_memory_tool,
    )

pytestmark = pytest.mark.shares_database

OF_USER = ("memories", "{langgraph_user_id}")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


@pytest.fixture(params=KINDS)
async def memories(
    request: pytest.FixtureRequest, mongo_uri: str, database_name: str
) -> AsyncIterator[Memories]:
    async with memories_of(request.param, mongo_uri, database_name) as made:
        yield made


def thread(number: int, user: str = "ada") -> dict[str, Any]:
    return {
        "configurable": {
            "thread_id": f"thread {number}",
            "langgraph_user_id": user,
            "user_id": user,
        }
    }


def _facts(runtime: ToolRuntime) -> tuple[str, ...]:
    return (runtime.config["configurable"]["user_id"], "facts")


@tool
def remember(key: str, text: str, runtime: ToolRuntime) -> str:
    """Remember a fact about the user."""
    assert runtime.store is not None
    runtime.store.put(_facts(runtime), key, {"text": text})
    return f"remembered {key}"


@tool
def recall(query: str, runtime: ToolRuntime) -> str:
    """Search what is known about the user."""
    assert runtime.store is not None
    return json.dumps(
        [item.value["text"] for item in runtime.store.search(_facts(runtime), query=query, limit=1)]
    )


@tool
def forget(key: str, runtime: ToolRuntime) -> str:
    """Forget a fact about the user."""
    assert runtime.store is not None
    runtime.store.delete(_facts(runtime), key)
    return f"forgot {key}, know {[item.key for item in runtime.store.search(_facts(runtime))]}"


class CountsUsers(AgentMiddleware):
    """Looks into the store before each turn. LangChain runs a sync hook that has no twin on the
    loop itself.
    """

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return _told_of(state, runtime.store.list_namespaces(suffix=("facts",)))

    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return _told_of(state, await runtime.store.alist_namespaces(suffix=("facts",)))


def _told_of(state: Any, namespaces: list[tuple[str, ...]]) -> dict[str, Any]:
    if state["messages"][-1].type != "human":
        return {}
    return {"messages": [("system", f"{len(namespaces)} users known")]}


async def test_an_agent_with_sync_tools(memories: Memories) -> None:
    async def scenario(memories: Memories) -> list[Any]:
        agent = create_agent(
            ScriptedModel(
                reply=lambda messages: obeying([m for m in messages if m.type != "system"])
            ),
            [remember, recall, forget],
            middleware=[CountsUsers(), HumanInTheLoopMiddleware(interrupt_on={"forget": True})],
            checkpointer=memories.saver,
            store=memories.store,
        )
        jazz = ("remember", {"key": "music", "text": "Ada listens to jazz"})
        dog = ("remember", {"key": "dog", "text": "Ada walks a dog called Brunel"})
        told = [await memories.call(agent, "invoke", says(jazz, dog), thread(1))]
        told += [
            await memories.call(agent, "invoke", says(("recall", {"query": "a dog"})), thread(2))
        ]
        told += [
            await memories.call(
                agent, "invoke", says(("recall", {"query": "a dog"})), thread(3, "grace")
            )
        ]
        told += [await memories.call(agent, "invoke", says(("forget", {"key": "dog"})), thread(2))]
        told += [await memories.call(agent, "get_state", thread(2))]
        approval = Command(resume={"decisions": [{"type": "approve"}]})
        told += [await memories.call(agent, "invoke", approval, thread(2))]
        told += [[state.values, state.next] for state in await memories.history(agent, thread(2))]
        return told

    await assert_as_in_memory(scenario, memories)


async def test_an_agent_that_summarises_what_was_long_ago(memories: Memories) -> None:
    """Its middleware removes all messages and puts a summary and the last ones in their place."""

    async def scenario(memories: Memories) -> list[Any]:
        agent = create_agent(
            ScriptedModel(reply=lambda messages: AIMessage(f"heard {len(messages)} messages")),
            middleware=[
                SummarizationMiddleware(
                    ScriptedModel(reply=lambda messages: AIMessage("they spoke of numbers")),
                    trigger=("messages", 6),
                    keep=("messages", 2),
                )
            ],
            checkpointer=memories.saver,
            store=memories.store,
        )
        told = [
            await memories.call(agent, "invoke", {"messages": f"number {number}"}, thread(1))
            for number in range(6)
        ]
        assert "they spoke of numbers" in told[-1]["messages"][0].content
        told += [[state.values, state.next] for state in await memories.history(agent, thread(1))]
        return told

    await assert_as_in_memory(scenario, memories)


async def test_an_agent_whose_tool_keeps_results(memories: Memories) -> None:
    async def scenario(memories: Memories) -> list[Any]:
        asked: list[str] = []

        @task(cache_policy=CachePolicy())
        def measure(city: str) -> str:
            asked.append(city)
            return f"{len(city)} degrees in {city}"

        @tool
        def weather(city: str) -> str:
            """Tell the weather of a city."""
            return measure(city).result()

        agent = create_agent(
            ScriptedModel(reply=obeying),
            [weather],
            checkpointer=memories.saver,
            store=memories.store,
            cache=memories.cache,
        )
        cities = ("Oslo", "Rome", "Oslo")
        told: list[Any] = [
            await memories.call(agent, "invoke", says(("weather", {"city": city})), thread(number))
            for number, city in enumerate(cities)
        ]
        assert asked == ["Oslo", "Rome"]
        return told

    await assert_as_in_memory(scenario, memories)


async def test_the_memory_tools_of_langmem(memories: Memories) -> None:
    async def scenario(memories: Memories) -> list[Any]:
        tools = [create_manage_memory_tool(OF_USER), create_search_memory_tool(OF_USER)]
        agent = create_agent(
            ScriptedModel(reply=obeying), tools, checkpointer=memories.saver, store=memories.store
        )
        jazz = ("manage_memory", {"content": "I like jazz"})
        told = [await memories.call(agent, "invoke", says(jazz), thread(1))]
        (key,) = UUID.findall(told[0]["messages"][-1].content)
        told += [
            await memories.call(
                agent, "invoke", says(("manage_memory", {"content": "My dog is old"})), thread(1)
            )
        ]
        search = ("search_memory", {"query": "do you like jazz", "limit": 1})
        told += [await memories.call(agent, "invoke", says(search), thread(2))]
        told += [await memories.call(agent, "invoke", says(search), thread(3, "grace"))]
        update = ("manage_memory", {"content": "I like the blues", "action": "update", "id": key})
        told += [await memories.call(agent, "invoke", says(update), thread(2))]
        told += [
            await memories.call(
                agent, "invoke", says(("search_memory", {"query": "blues"})), thread(2)
            )
        ]
        told += [
            await memories.call(
                agent, "invoke", says(("manage_memory", {"action": "delete", "id": key})), thread(2)
            )
        ]
        told += [
            [
                item.value
                for item in await memories.call(
                    memories.store, "search", ("memories",), query="blues"
                )
            ]
        ]
        return told

    await assert_as_in_memory(scenario, memories)


async def test_the_memory_tools_of_langmem_without_a_graph(memories: Memories) -> None:
    async def scenario(memories: Memories) -> list[Any]:
        manage = create_manage_memory_tool(("team",), store=memories.store)
        search = create_search_memory_tool(
            ("team",), store=memories.store, response_format="content_and_artifact"
        )
        told = [
            await memories.call(manage, "invoke", {"content": text})
            for text in ("tea at five", "cake at six")
        ]
        return [
            *told,
            await memories.call(
                search,
                "invoke",
                {"query": "cake", "limit": 1, "filter": {"content": "cake at six"}},
            ),
        ]

    await assert_as_in_memory(scenario, memories)


def extracting(messages: Sequence[BaseMessage]) -> AIMessage:
    """Insert a memory for each sentence; where "jazz" and "dog" are known, change the one and
    remove the other.
    """
    text = "\n".join(str(message.content) for message in messages)
    ids = {
        text: key
        for key, text in re.findall(r"<instance id=(\w+) [^>]*>\s*.*?'content': '([^']*)'", text)
    }
    if "I like jazz" not in ids:
        return calling(
            ("Memory", {"content": "I like jazz"}), ("Memory", {"content": "My dog is old"})
        )
    edit = {"op": "replace", "path": "/content", "value": "I like the blues"}
    patch = {"json_doc_id": ids["I like jazz"], "planned_edits": "the blues", "patches": [edit]}
    return calling(("PatchDoc", patch), ("RemoveDoc", {"json_doc_id": ids["My dog is old"]}))


def searching(messages: Sequence[BaseMessage]) -> AIMessage:
    """Look for memories by two queries."""
    return calling(
        ("search_memory", {"query": "jazz"}), ("search_memory", {"query": "dog", "offset": 0})
    )


HEARD = {"messages": [{"role": "user", "content": "I like jazz and have an old dog"}]}


@pytest.mark.parametrize("queried", [False, True], ids=["by messages", "by queries"])
async def test_the_store_manager_of_langmem(queried: bool, memories: Memories) -> None:
    async def scenario(memories: Memories) -> list[Any]:
        manager = create_memory_store_manager(
            ScriptedModel(reply=extracting),
            namespace=OF_USER,
            store=memories.store,
            query_model=ScriptedModel(reply=searching) if queried else None,
            enable_deletes=True,
        )
        told: list[Any] = []
        for _ in range(2):
            told += [await memories.call(manager, "invoke", HEARD, thread(1))]
            found = await memories.call(
                memories.store, "search", ("memories", "ada"), query="jazz and the blues"
            )
            told += [[item.value for item in found]]
        await memories.call(
            manager,
            "put",
            "profile",
            {"kind": "Memory", "content": {"content": "Ada"}},
            config=thread(1),
        )
        told += [await memories.call(manager, "get", "profile", config=thread(1))]
        await memories.call(manager, "delete", "profile", config=thread(1))
        told += [await memories.call(manager, "search", query="blues", config=thread(1))]
        return told

    await assert_as_in_memory(scenario, memories)


async def test_the_reflection_executor_of_langmem_beside_the_loop(memories: Memories) -> None:
    async def scenario(memories: Memories) -> list[Any]:
        manager = create_memory_store_manager(
            ScriptedModel(reply=extracting), namespace=OF_USER, store=memories.store
        )
        executor = ReflectionExecutor(manager, store=memories.store)
        try:
            reflected = executor.submit(HEARD, config=thread(1), after_seconds=0)
            told = [await asyncio.wrap_future(reflected)]
            told += [await memories.call(executor, "search", "jazz", namespace=("memories", "ada"))]
        finally:
            await asyncio.to_thread(executor.shutdown)
        return told

    await assert_as_in_memory(scenario, memories)
