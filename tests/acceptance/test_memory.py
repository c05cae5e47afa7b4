"""MongoMemory: both memories in one graph, and everything about a user."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import mongomock
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import AutoReconnect

import mongomem
from mongomem import (
    ConfigurationError,
    CorruptDataError,
    InvalidInputError,
    MongoMemory,
    MongoSaver,
    UsageError,
)
from mongomem.checkpoint.documents.identity import forms_of, identity
from mongomem.engine.commands import DeleteMany
from mongomem.engine.runners import Concerns
from mongomem.user_data import PAGE_SIZE
from support.bag_of_words import bag_of_words
from support.savers import KINDS, Calls, client_of, end

INDEX: Any = {"embed": bag_of_words(64), "dims": 64, "fields": ["text"]}


def chat(*, is_async: bool = False) -> StateGraph:
    def remember(state: MessagesState, runtime: Runtime, config: RunnableConfig) -> dict[str, Any]:
        namespace = (config["configurable"]["user_id"], "memories")
        text = state["messages"][-1].content
        found = runtime.store.search(namespace, query=text, limit=3)
        runtime.store.put(
            namespace,
            f"m{len(state['messages'])}-{config['configurable']['thread_id']}",
            {"text": text},
        )
        return {"messages": [AIMessage("; ".join(item.value["text"] for item in found))]}

    async def aremember(
        state: MessagesState, runtime: Runtime, config: RunnableConfig
    ) -> dict[str, Any]:
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
        self.graph = chat(is_async=self.is_async).compile(
            checkpointer=memory.saver, store=memory.store
        )

    async def say(self, user: str, thread: str, text: str) -> str:
        config: Any = {"configurable": {"thread_id": thread, "user_id": user}}
        given: Any = {"messages": [HumanMessage(text)]}
        result = (
            await self.graph.ainvoke(given, config)
            if self.is_async
            else self.graph.invoke(given, config)
        )
        return str(result["messages"][-1].content)


@pytest.fixture(params=KINDS)
async def kind_and_memory(
    request: Any, mongo_uri: str, database_name: str
) -> AsyncIterator[tuple[str, MongoMemory]]:
    async with client_of(request.param, mongo_uri) as client:
        yield request.param, MongoMemory(client, database_name, index=INDEX)


async def test_a_new_thread_of_the_same_user_still_knows_the_user(kind_and_memory: Any) -> None:
    kind, memory = kind_and_memory
    talk = Talk(memory, kind)
    assert await talk.say("ada", "1", "I like green tea") == ""
    assert await talk.say("ada", "2", "which tea do I like") == "I like green tea"
    assert await talk.say("bob", "3", "which tea do I like") == ""


async def test_erase_takes_everything_of_one_user_and_nothing_of_another(
    kind_and_memory: Any,
) -> None:
    kind, memory = kind_and_memory
    talk = Talk(memory, kind)
    for user, thread in (("ada", "1"), ("ada", "2"), ("adam", "3")):
        await talk.say(user, thread, f"{user} likes tea")
    export = (
        [one async for one in memory.aexport_user("ada")]
        if talk.is_async
        else list(memory.export_user("ada"))
    )
    assert {getattr(one, "key", None) for one in export} == {None, "m1-1", "m1-2"}
    assert len([one for one in export if hasattr(one, "checkpoint")]) == 6
    erased = await memory.aerase_user("ada") if talk.is_async else memory.erase_user("ada")
    assert sorted(erased.threads) == ["1", "2"]
    assert erased.memories == 2
    again = await memory.aerase_user("ada") if talk.is_async else memory.erase_user("ada")
    assert (again.threads, again.memories) == ([], 0)
    assert await talk.say("adam", "4", "who likes tea") == "adam likes tea"


def test_erasing_leaves_no_document_of_the_user(
    mongo_client: MongoClient, database_name: str
) -> None:
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
    assert [document["type"] for document in left["mongomem_checkpoints"]] == ["thread"]
    assert "metadata" not in left["mongomem_checkpoints"][0]


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
    end(first)
    end(second)


async def test_a_sync_call_on_an_async_client_fails_at_once(
    mongo_uri: str, database_name: str
) -> None:
    async with AsyncMongoClient(mongo_uri) as client:
        memory = MongoMemory(client, database_name)
        with pytest.raises(UsageError, match="AsyncMongoClient"):
            memory.saver.get_tuple({"configurable": {"thread_id": "1"}})
        with pytest.raises(UsageError, match="AsyncMongoClient"):
            memory.store.get(("a",), "k")
        with pytest.raises(UsageError, match="AsyncMongoClient"):
            memory.erase_user("ada")


def test_concerns_are_majority_and_primary_whatever_the_client_says(
    mongo_uri: str, database_name: str
) -> None:
    with MongoClient(mongo_uri, readPreference="secondaryPreferred", w=1) as client:
        saver = MongoSaver(client, database_name)
        database = saver._runners.run.database  # type: ignore[attr-defined]
        assert database.write_concern.document == {"w": "majority"}
        assert database.read_concern.level == "majority"
        assert database.read_preference == Concerns().read_preference


@pytest.mark.parametrize(
    ("stored", "asked"), [(7, "7"), ("7", 7), (7, 7), (-3, "-3"), (0, "0"), (UUID(int=5),) * 2]
)
async def test_a_user_id_is_one_with_its_string(
    kind_and_memory: Any, stored: Any, asked: Any
) -> None:
    kind, memory = kind_and_memory
    saver, store = Calls(memory.saver, kind), Calls(memory.store, kind)
    # LangGraph keeps strings and numbers of a config as metadata, and no UUID
    # (get_checkpoint_metadata).
    given = str(stored) if isinstance(stored, UUID) else stored
    held = {"as given": given, "as a string": str(stored), "of another": "77", "of yet another": 77}
    for thread_id, user_id in held.items():
        config: Any = {
            "configurable": {"thread_id": thread_id, "checkpoint_ns": "", "user_id": user_id}
        }
        await saver("put", config, empty_checkpoint(), {"source": "input", "step": -1}, {})
    await store("put", (str(stored),), "k", {"text": "tea"})
    exported = (
        [one async for one in memory.aexport_user(asked)]
        if saver.is_async
        else list(memory.export_user(asked))
    )
    ids = [
        one.config["configurable"]["thread_id"] for one in exported if hasattr(one, "checkpoint")
    ]
    assert sorted(ids) == ["as a string", "as given"]
    assert [one.key for one in exported if hasattr(one, "key")] == ["k"]
    erased = await memory.aerase_user(asked) if saver.is_async else memory.erase_user(asked)
    assert sorted(erased.threads) == ["as a string", "as given"]
    assert erased.memories == 1
    assert len(await saver.list(None)) == 2


@pytest.mark.parametrize(
    ("user_id", "forms"),
    [
        ("ada", ["ada"]),
        (7, ["7", 7]),
        ("7", ["7", 7]),
        ("-7", ["-7", -7]),
        *(
            ((text), [text])
            for text in ("07", "-0", "+7", " 7", "7.0", "1_0", "\u0667", "", "true")
        ),
        (2**63 - 1, [str(2**63 - 1), 2**63 - 1]),
        (2**63, [str(2**63)]),
        ("9" * 10_000, ["9" * 10_000]),
        (UUID(int=1), ["00000000-0000-0000-0000-000000000001"]),
    ],
)
def test_forms_of_a_user_id(user_id: Any, forms: list[Any]) -> None:
    assert forms_of(identity(user_id) or "") == forms


@pytest.mark.parametrize("wrong", [None, True, 7.0, b"7", ("7",), {"$ne": None}])
def test_what_is_no_user_id_is_refused(wrong: Any, database_name: str) -> None:
    memory = MongoMemory(mongomock.MongoClient(), database_name)
    with pytest.raises(InvalidInputError, match="user_id must be a string"):
        memory.erase_user(wrong)
    with pytest.raises(InvalidInputError, match="user_id must be a string"):
        list(memory.export_user(wrong))


SECRET = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
WITH_USERS: dict[str, Any] = {"clear_metadata": ["source", "step", "run_id", "user_id"]}


@pytest.mark.parametrize("first", [{}, WITH_USERS, {"clear_metadata": ["source"]}])
@pytest.mark.parametrize("later", [{}, WITH_USERS])
def test_users_of_encrypted_threads_are_found_however_their_metadata_stood(
    mongo_client: MongoClient, database_name: str, first: Any, later: Any
) -> None:
    def put(options: Any, user: Any, thread: str) -> None:
        saver = MongoSaver(mongo_client, database_name, serde=SECRET, **options)
        config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": "", "user_id": user}}
        saver.put(config, empty_checkpoint(), {"source": "loop", "step": 1, "parents": {}}, {})

    for number in range(
        12
    ):  # more than the first page of a listing, and the user is in the oldest one only
        put(first, "ada" if not number else None, "old")
    put(first, "grace", "other")
    put(first, 7, "of a number")
    put(later, "ada", "new")
    memory = MongoMemory(mongo_client, database_name, serde=SECRET, saver_options=later)
    exported = {one.config["configurable"]["thread_id"] for one in memory.export_user("ada")}
    assert exported == {"old", "new"}
    assert sorted(memory.erase_user("ada").threads) == ["new", "old"]
    assert sorted(memory.erase_user("7").threads) == ["of a number"]
    assert memory.erase_user("ada").threads == []
    assert {
        one["thread_id"]
        for one in mongo_client[database_name].mongomem_checkpoints.find({"type": "checkpoint"})
    } == {"other"}


def put_for(saver: MongoSaver, user: Any, thread: str) -> None:
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": "", "user_id": user}}
    saver.put(config, empty_checkpoint(), {"source": "loop", "step": 1, "parents": {}}, {})


def test_threads_that_cannot_be_read_are_told_and_hinder_nobody(
    mongo_client: MongoClient, database_name: str
) -> None:
    other_key = EncryptedSerializer.from_pycryptodome_aes(key=b"fedcba9876543210")
    put_for(MongoSaver(mongo_client, database_name, serde=other_key), "grace", "foreign")
    memory = MongoMemory(mongo_client, database_name, serde=SECRET)
    put_for(memory.saver, "ada", "own")
    memory.store.put(("ada",), "k", {"text": "x"})
    seen: list[Any] = []
    with pytest.raises(CorruptDataError, match="foreign"):
        seen.extend(memory.export_user("ada"))
    assert len(seen) == 2, "what is certain came before"
    erased = memory.erase_user("ada")
    assert (erased.threads, erased.memories, erased.undecided) == (["own"], 1, ["foreign"])
    assert memory.erase_user("ada").threads == []


@pytest.mark.parametrize("broken_off_at", range(1, 4))
def test_erasing_encrypted_threads_can_be_repeated(
    mongo_client: MongoClient,
    database_name: str,
    broken_off_at: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = MongoMemory(mongo_client, database_name, serde=SECRET)
    put_for(memory.saver, "ada", "own")
    put_for(memory.saver, "grace", "other")
    calls, perform = [0], DeleteMany.perform

    def failing(command: DeleteMany, database: Any) -> Any:
        calls[0] += 1
        if calls[0] == broken_off_at:
            raise AutoReconnect("lost")
        return perform(command, database)

    monkeypatch.setattr(DeleteMany, "perform", failing)
    with pytest.raises(AutoReconnect):
        memory.erase_user("ada")
    MongoMemory(mongo_client, database_name, serde=SECRET).erase_user("ada")
    left = mongo_client[database_name].mongomem_checkpoints.find({"type": {"$ne": "thread"}})
    assert {one["thread_id"] for one in left} == {"other"}
    assert [thread.thread_id for thread in memory.saver.list_threads()] == ["other"]


@pytest.mark.parametrize(
    "options", [{}, {"serde": SECRET}, {"serde": SECRET, "saver_options": WITH_USERS}]
)
@pytest.mark.parametrize("asked", ["ada", "grace"])
def test_a_thread_belongs_to_everybody_whom_it_was_put_for(
    mongo_client: MongoClient, database_name: str, options: dict[str, Any], asked: str
) -> None:
    memory = MongoMemory(mongo_client, database_name, **options)
    for user in ("ada", "grace", None, "ada", None):
        put_for(memory.saver, user, "shared")
    put_for(memory.saver, "bob", "other")
    mongo_client[database_name].mongomem_checkpoints.update_many(
        {"type": "checkpoint"}, {"$set": {"hidden": True}}
    )
    assert memory.erase_user("eve").threads == []
    assert memory.erase_user(asked).threads == ["shared"]


def test_the_namespace_that_is_suggested_is_of_one_user(database_name: str) -> None:
    memory = MongoMemory(
        mongomock.MongoClient(), database_name, user_namespace=lambda user_id: (f"{user_id}.",)
    )
    with pytest.raises(InvalidInputError) as caught:
        memory.erase_user("ada.x")
    suggested = eval(str(caught.value).split("e.g. ")[1])
    users = ["ada.x", "ada_x", "ada%2Ex", "ada", "ada@example.com", "ada@example_com"]
    assert len({suggested(user) for user in users}) == len(users)
    other = MongoMemory(mongomock.MongoClient(), database_name, user_namespace=suggested)
    assert [other.erase_user(user).memories for user in users] == [0] * len(users)


async def test_more_threads_than_a_page_are_all_erased(
    mongo_client: MongoClient, database_name: str
) -> None:
    memory = MongoMemory(mongo_client, database_name)
    for number in range(PAGE_SIZE + 3):
        config: Any = {
            "configurable": {
                "thread_id": str(number),
                "checkpoint_ns": "",
                "user_id": number % 2 or "1",
            }
        }
        memory.saver.put(
            config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {}
        )
    assert len(memory.erase_user("1").threads) == PAGE_SIZE + 3


NO_FIELDS = ["", "user.id", ".", "$user", "a\0b", None, 7]


@pytest.mark.parametrize("key", NO_FIELDS)
def test_a_user_key_that_is_no_field_is_refused(key: Any) -> None:
    client = mongomock.MongoClient()
    for saver_options in ({}, {"metadata_indexes": ()}):
        with pytest.raises(ConfigurationError, match="user_key names no field"):
            MongoMemory(client, user_key=key, saver_options=saver_options)


WRONG_OPTIONS: list[tuple[str, Any]] = [
    ("metadata_indexes", "user_id"),
    ("metadata_indexes", b"user_id"),
    ("metadata_indexes", 7),
    ("metadata_indexes", {"user_id": 1}),
    *(("metadata_indexes", ("user_id", key)) for key in NO_FIELDS),
    ("clear_metadata", "user_id"),
    ("clear_metadata", {"user_id", 7}),
    ("collection_prefix", None),
    ("collection_prefix", 7),
    ("collection_prefix", "a$"),
    ("collection_prefix", "a\0"),
    ("collection_prefix", "system."),
    ("grace", timedelta(seconds=-1)),
    ("grace", timedelta.max),
    ("grace", 3600),
    ("ttl", timedelta.max),
    ("cache_bytes", -1),
    ("cache_bytes", 1.5),
    ("cache_bytes", True),
    ("cache_bytes", None),
]


@pytest.mark.parametrize(("option", "wrong"), WRONG_OPTIONS)
def test_an_option_of_the_saver_that_is_wrong_is_refused_before_any_io(
    option: str, wrong: Any
) -> None:
    nowhere: MongoClient = MongoClient("mongodb://127.0.0.1:1", connect=False)
    options: Any = {option: wrong}
    with nowhere, pytest.raises(ConfigurationError, match=option):
        MongoSaver(nowhere, **options)


def test_options_of_the_saver_at_their_bounds() -> None:
    saver = MongoSaver(
        mongomock.MongoClient(),
        metadata_indexes=["user_id", "a$", "größe"],
        clear_metadata=frozenset({"user_id"}),
        collection_prefix="my.app_",
        grace=timedelta(0),
        cache_bytes=0,
    )
    assert saver._options.metadata_keys == ("user_id", "a$", "größe")
    assert saver._options.clear_metadata == ("user_id",)
    assert saver._options.collections.checkpoints == "my.app_checkpoints"


def test_a_node_that_makes_a_label_of_an_address_is_told_what_does(
    mongo_client: MongoClient, database_name: str
) -> None:
    memory = MongoMemory(mongo_client, database_name)
    graph = chat().compile(checkpointer=memory.saver, store=memory.store)
    config: Any = {"configurable": {"thread_id": "1", "user_id": "ada@example.org"}}
    with pytest.raises(ValueError, match=r"holds a period.*mongomem\.user_namespace\(user_id\)"):
        graph.invoke({"messages": [HumanMessage("hello")]}, config)
    memory.store.put((*mongomem.user_namespace("ada@example.org"), "memories"), "k", {"text": "x"})
    erased = memory.erase_user("ada@example.org")
    assert (erased.threads, erased.memories) == (["1"], 1)


def test_long_values_put_by_two_threads_at_once_meet_no_error(
    mongo_client: MongoClient, database_name: str
) -> None:
    """LangGraph writes a task's writes beside the checkpoint: with a long message both make the
    same chunks.
    """
    saver = MongoSaver(mongo_client, database_name)
    builder = StateGraph(MessagesState)
    builder.add_node(
        "answer", lambda state: {"messages": [AIMessage(state["messages"][-1].content[::-1])]}
    )
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    graph = builder.compile(checkpointer=saver)
    text = random.Random(5).randbytes(500_000).hex()
    for number in range(12):
        given: Any = {"messages": [HumanMessage(f"{number} {text}")]}
        graph.invoke(given, {"configurable": {"thread_id": f"long {number}"}})
        found = saver.get_tuple({"configurable": {"thread_id": f"long {number}"}})
        assert found is not None
        assert len(found.checkpoint["channel_values"]["messages"]) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"ttl": 5},
        {"index": "local"},
        {"index": {"embed": "local", "dims": "256"}},
        {"thread_ttl": "soon"},
    ],
)
def test_options_of_the_wrong_kind_say_what_belongs_there(options: Any) -> None:
    with pytest.raises(ConfigurationError):
        MongoMemory(mongomock.MongoClient(), **options)


@pytest.mark.parametrize("uri", [None, "", 5])
def test_a_missing_connection_string_is_named(uri: Any) -> None:
    with pytest.raises(ConfigurationError, match="connection string"):
        MongoMemory.connect(uri)
