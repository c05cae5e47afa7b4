"""MongoMemory: both memories in one graph, and everything about a user."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from pymongo import AsyncMongoClient, MongoClient

from bag_of_words import bag_of_words
from mongomem import MongoMemory, MongoSaver, MongoStore, UsageError
from mongomem.drivers import Concerns
from saver_fixtures import KINDS, client_of

INDEX: Any = {"embed": bag_of_words(64), "dims": 64, "fields": ["text"]}


def chat(*, is_async: bool = False) -> StateGraph:
    def remember(state: MessagesState, runtime: Runtime, config: RunnableConfig) -> dict[str, Any]:
        namespace = (config["configurable"]["user_id"], "memories")
        text = state["messages"][-1].content
        found = runtime.store.search(namespace, query=text, limit=3)
        runtime.store.put(namespace, f"m{len(state['messages'])}-{config['configurable']['thread_id']}", {"text": text})
        return {"messages": [AIMessage("; ".join(item.value["text"] for item in found))]}

    async def aremember(state: MessagesState, runtime: Runtime, config: RunnableConfig) -> dict[str, Any]:
        namespace = (config["configurable"]["user_id"], "memories")
        text = state["messages"][-1].content
        found = await runtime.store.asearch(namespace, query=text, limit=3)
        key = f"m{len(state['messages'])}-{config['configurable']['thread_id']}"
        await runtime.store.aput(namespace, key, {"text": text})
        return {"messages": [AIMessage("; ".join(item.value["text"] for item in found))]}

    builder = StateGraph(MessagesState)
    builder.add_node("remember", aremember if is_async else remember)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", END)
    return builder


class Talk:
    """Runs the graph in the way that the client's kind has."""

    def __init__(self, memory: MongoMemory, kind: str) -> None:
        self.is_async = kind in ("threaded", "awaiting")
        self.graph = chat(is_async=self.is_async).compile(checkpointer=memory.saver, store=memory.store)

    async def say(self, user: str, thread: str, text: str) -> str:
        config: Any = {"configurable": {"thread_id": thread, "user_id": user}}
        given: Any = {"messages": [HumanMessage(text)]}
        result = await self.graph.ainvoke(given, config) if self.is_async else self.graph.invoke(given, config)
        return str(result["messages"][-1].content)


@pytest.fixture(params=KINDS)
async def kind_and_memory(request: Any, mongo_uri: str, database_name: str) -> AsyncIterator[tuple[str, MongoMemory]]:
    async with client_of(request.param, mongo_uri) as client:
        yield request.param, MongoMemory(client, database_name, index=INDEX)


async def test_a_new_thread_of_the_same_user_still_knows_the_user(kind_and_memory: Any) -> None:
    kind, memory = kind_and_memory
    talk = Talk(memory, kind)
    assert await talk.say("ada", "1", "I like green tea") == ""
    assert await talk.say("ada", "2", "which tea do I like") == "I like green tea"
    assert await talk.say("bob", "3", "which tea do I like") == ""


async def test_erase_takes_everything_of_one_user_and_nothing_of_another(kind_and_memory: Any) -> None:
    kind, memory = kind_and_memory
    talk = Talk(memory, kind)
    for user, thread in (("ada", "1"), ("ada", "2"), ("adam", "3")):
        await talk.say(user, thread, f"{user} likes tea")
    export = [one async for one in memory.aexport_user("ada")] if talk.is_async else list(memory.export_user("ada"))
    assert {getattr(one, "key", None) for one in export} == {None, "m1-1", "m1-2"}
    assert len([one for one in export if hasattr(one, "checkpoint")]) == 6
    erased = await memory.aerase_user("ada") if talk.is_async else memory.erase_user("ada")
    assert sorted(erased.threads) == ["1", "2"]
    assert erased.memories == 2
    again = await memory.aerase_user("ada") if talk.is_async else memory.erase_user("ada")
    assert (again.threads, again.memories) == ([], 0)
    assert await talk.say("adam", "4", "who likes tea") == "adam likes tea"


def test_erasing_leaves_no_document_of_the_user(mongo_client: MongoClient, database_name: str) -> None:
    memory = MongoMemory(mongo_client, database_name, index=INDEX)
    graph = chat().compile(checkpointer=memory.saver, store=memory.store)
    config: Any = {"configurable": {"thread_id": "1", "user_id": "ada"}}
    graph.invoke({"messages": [HumanMessage("canary " * 2000)]}, config)
    memory.erase_user("ada")
    left = {
        name: list(mongo_client[database_name][name].find())
        for name in mongo_client[database_name].list_collection_names()
    }
    assert "canary" not in str(left)
    assert [document["type"] for document in left["checkpoints"]] == ["thread"]
    assert "metadata" not in left["checkpoints"][0]


@pytest.mark.parametrize("opened", [MongoMemory, MongoSaver, MongoStore])
def test_from_conn_string_works_in_with(opened: Any, mongo_uri: str, database_name: str) -> None:
    with opened.from_conn_string(mongo_uri, db_name=database_name, appname="mongomem-test") as one:
        one.setup()
    with pytest.raises(Exception, match="Cannot use MongoClient after close"):
        one.setup()


@pytest.mark.parametrize("opened", [MongoMemory, MongoSaver, MongoStore])
async def test_from_conn_string_works_in_async_with(opened: Any, mongo_uri: str, database_name: str) -> None:
    async with opened.from_conn_string(mongo_uri, db_name=database_name) as one:
        await one.asetup()
        with pytest.raises(UsageError, match="await the async twin"):
            one.setup()


async def test_options_that_are_not_its_own_reach_the_client(mongo_uri: str, database_name: str) -> None:
    opening = MongoSaver.from_conn_string(mongo_uri, db_name=database_name, appname="mine", collection_prefix="p_")
    with opening as saver:
        saver.setup()
        assert opening._clients[0].options.pool_options.appname == "mine"
        assert "p_checkpoints" in opening._clients[0][database_name].list_collection_names()


def test_an_opening_that_was_not_entered_says_what_to_write(mongo_uri: str) -> None:
    opening = MongoMemory.from_conn_string(mongo_uri)
    with pytest.raises(UsageError, match=r"with MongoMemory.from_conn_string\(uri\) as memory"):
        _ = opening.saver
    with pytest.raises(TypeError, match=r"not entered: write `with MongoSaver.from_conn_string\(uri\)"):
        chat().compile(checkpointer=MongoSaver.from_conn_string(mongo_uri))  # type: ignore[arg-type]


def test_connect_and_close_for_notebooks(mongo_uri: str, database_name: str) -> None:
    memory = MongoMemory.connect(mongo_uri, db_name=database_name, index=INDEX)
    memory.setup()
    memory.store.put(("ada",), "k", {"text": "tea"})
    memory.close()
    with pytest.raises(Exception, match="Cannot use MongoClient after close"):
        memory.store.get(("ada",), "k")


async def test_aconnect_and_aclose(mongo_uri: str, database_name: str) -> None:
    memory = await MongoMemory.aconnect(mongo_uri, db_name=database_name)
    await memory.asetup()
    await memory.aclose()


def test_a_client_used_in_another_loop_is_named(mongo_uri: str, database_name: str) -> None:
    client: AsyncMongoClient = AsyncMongoClient(mongo_uri)
    saver = MongoSaver(client, database_name)
    config: Any = {"configurable": {"thread_id": "1"}}
    first = asyncio.new_event_loop()
    first.run_until_complete(saver.aget_tuple(config))
    second = asyncio.new_event_loop()
    with pytest.raises(UsageError, match="belongs to another event loop"):
        second.run_until_complete(saver.aget_tuple(config))
    first.run_until_complete(client.close())
    first.close()
    second.close()


def test_one_opening_serves_several_loops(mongo_uri: str, database_name: str) -> None:
    opening = MongoSaver.from_conn_string(mongo_uri, db_name=database_name)
    failures: list[BaseException] = []

    async def use() -> None:
        async with opening as saver:
            assert await saver.aget_tuple({"configurable": {"thread_id": "1"}}) is None

    def run() -> None:
        try:
            asyncio.run(use())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert opening._aclients == {}


async def test_a_sync_call_on_an_async_client_fails_at_once(mongo_uri: str, database_name: str) -> None:
    async with AsyncMongoClient(mongo_uri) as client:
        memory = MongoMemory(client, database_name)
        with pytest.raises(UsageError, match="AsyncMongoClient"):
            memory.saver.get_tuple({"configurable": {"thread_id": "1"}})
        with pytest.raises(UsageError, match="AsyncMongoClient"):
            memory.store.get(("a",), "k")
        with pytest.raises(UsageError, match="AsyncMongoClient"):
            memory.erase_user("ada")


def test_concerns_are_majority_and_primary_whatever_the_client_says(mongo_uri: str, database_name: str) -> None:
    with MongoClient(mongo_uri, readPreference="secondaryPreferred", w=1) as client:
        saver = MongoSaver(client, database_name)
        database = saver._drivers.run.database  # type: ignore[attr-defined]
        assert database.write_concern.document == {"w": "majority"}
        assert database.read_concern.level == "majority"
        assert database.read_preference == Concerns().read_preference
