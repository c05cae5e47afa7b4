"""`cache_messages`: what is stored and read is the same with a message cache and without it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from pymongo import MongoClient

from mongomem.checkpoint.saver import MongoSaver
from mongomem.checkpoint.serde import message_cache
from mongomem.checkpoint.serde.message_cache import MessageCache
from mongomem.errors import ConfigurationError

TURNS = 12
CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}


def play(saver: MongoSaver) -> list[list[AnyMessage]]:
    """Have a conversation; return the messages of all checkpoints of its history."""

    def reply(state: MessagesState) -> dict[str, Any]:
        count = len(state["messages"])
        return {
            "messages": [AIMessage("y" * 300, id=f"m{count}", additional_kwargs={"n": [count]})]
        }

    graph = StateGraph(MessagesState).add_node("reply", reply).add_edge(START, "reply")
    chat = graph.compile(checkpointer=saver)
    for turn in range(TURNS):
        chat.invoke({"messages": [HumanMessage("x" * 300, id=f"m{2 * turn}")]}, CONFIG)
    return [one.values.get("messages", []) for one in chat.get_state_history(CONFIG)]


def chunks_of(client: MongoClient, database: str, prefix: str) -> set[bytes]:
    """Return the `_id` of all chunks there are: digests of the thread and of their contents."""
    chunks = client[database][f"{prefix}checkpoints"].find({"type": "chunk"}, {"_id": 1})
    return {one["_id"] for one in chunks}


def test_without_the_cache_the_serializer_alone_is_asked(
    mongo_client: MongoClient, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    caching = MongoSaver(mongo_client, database_name, collection_prefix="caching_")
    expected = play(caching)
    assert caching._caches.messages is not None
    assert caching._caches.messages._by_data.count > TURNS

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("the message cache was asked")

    for method in ("__init__", "dumps", "loads"):
        monkeypatch.setattr(MessageCache, method, refuse)
    for function in ("snapshot_of", "split_elements", "opening_of", "cached_types"):
        monkeypatch.setattr(message_cache, function, refuse)
    plain = MongoSaver(
        mongo_client, database_name, collection_prefix="plain_", cache_messages=False
    )
    assert play(plain) == expected
    assert chunks_of(mongo_client, database_name, "plain_") == chunks_of(
        mongo_client, database_name, "caching_"
    )


def test_whether_messages_are_cached_is_a_flag(mongo_client: MongoClient) -> None:
    for wrong in (None, 1, "yes"):
        with pytest.raises(ConfigurationError, match="cache_messages"):
            MongoSaver(mongo_client, cache_messages=wrong)  # type: ignore[arg-type]
