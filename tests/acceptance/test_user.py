"""One user of both memories: ``memory.user(id)``, on every kind of client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import mongomock
import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from mongomem import (
    ConfigurationError,
    InvalidInputError,
    MongoMemory,
    UnstorableValueError,
    UsageError,
    User,
    user_namespace,
)
from support.hostile import HOSTILE, Verdict
from support.savers import KINDS, Calls, client_of
from support.stores import keys, words

INDEX: Any = words(64, fields=["text"])
IDS: list[Any] = ["ada", "ada@example.com", "ada@example", "zoë.李", 7, UUID(int=5), "langgraph"]


@dataclass
class Users:
    """Users of one memory, called in the way of its client's kind."""

    memory: MongoMemory
    kind: str

    def __call__(self, user_id: Any) -> Calls:
        return Calls(self.memory.user(user_id), self.kind)

    async def run(self, builder: StateGraph, text: str, config: Any, user: User) -> Any:
        graph = builder.compile(checkpointer=self.memory.saver, store=self.memory.store)
        given: Any = {"messages": [HumanMessage(text)]}
        if self.kind in ("threaded", "awaiting"):
            return await graph.ainvoke(given, config, context={"user_id": user.id})
        return graph.invoke(given, config, context={"user_id": user.id})


@pytest.fixture(params=KINDS)
async def users(request: Any, mongo_uri: str, database_name: str) -> AsyncIterator[Users]:
    async with client_of(request.param, mongo_uri) as client:
        yield Users(MongoMemory(client, database_name, index=INDEX), request.param)


def chat(kind: str) -> StateGraph:
    """Make a graph whose node builds the namespace of the user by itself."""

    def known(state: MessagesState, runtime: Runtime[dict[str, Any]]) -> dict[str, Any]:
        namespace = (*user_namespace(runtime.context["user_id"]), "memories")
        found = runtime.store.search(namespace, query=state["messages"][-1].text)  # type: ignore[union-attr]
        return {"messages": [("ai", "; ".join(item.value["text"] for item in found))]}

    async def aknown(state: MessagesState, runtime: Runtime[dict[str, Any]]) -> dict[str, Any]:
        namespace = (*user_namespace(runtime.context["user_id"]), "memories")
        found = await runtime.store.asearch(namespace, query=state["messages"][-1].text)  # type: ignore[union-attr]
        return {"messages": [("ai", "; ".join(item.value["text"] for item in found))]}

    builder = StateGraph(MessagesState, context_schema=dict)
    builder.add_node("known", aknown if kind in ("threaded", "awaiting") else known)
    return builder.add_edge(START, "known")


async def test_users_of_every_kind_of_id_have_their_own(users: Users) -> None:
    graph = chat(users.kind)
    for user_id in IDS:
        user = users(user_id)
        await user("remember", f"likes {user_id}")
        await user("update_profile", {"name": str(user_id)})
        config = user.target.config("t" + str(user_id))
        said = await users.run(graph, "what do I like", config, user.target)
        assert said["messages"][-1].text == f"likes {user_id}"
    for user_id in IDS:
        user = users(user_id)
        assert [one.thread_id for one in await user("threads")] == ["t" + str(user_id)]
        assert [one.value["text"] for one in await user("recall")] == [f"likes {user_id}"]
        assert await user("profile") == {"name": str(user_id)}
        erased = await user("erase")
        assert (erased.threads, erased.memories) == (["t" + str(user_id)], 2)
        assert await user("recall") == []
        assert await user("profile") == {}


async def test_memories_are_recalled_and_forgotten(users: Users) -> None:
    ada = users("ada")
    first = await ada("remember", "green tea is good", kind="taste", strength=3)
    await ada("remember", "my dog is Brunel", key="dog")
    await ada("remember", "my cat is Ada", key="dog")
    assert [one.key for one in await ada("recall")] == ["dog", first]
    found = await ada("recall", "which tea is good", limit=1)
    assert [one.value for one in found] == [
        {"text": "green tea is good", "kind": "taste", "strength": 3}
    ]
    assert found[0].score > 0
    assert keys(await ada("recall", filter={"kind": "taste"})) == [first]
    assert await ada("recall", limit=0) == []
    await ada("forget", first)
    await ada("forget", "nothing of that name")
    assert keys(await ada("recall")) == ["dog"]
    assert await users("bob")("recall") == []


async def test_everything_stands_where_saver_and_store_find_it(users: Users) -> None:
    ada, store = users("ada@example.com"), Calls(users.memory.store, users.kind)
    namespace = ada.target.namespace
    assert namespace == user_namespace("ada@example.com") == ("ada@example%2Ecom",)
    key = await ada("remember", "likes tea")
    await ada("update_profile", {"name": "Ada"})
    item = await store("get", (*namespace, "memories"), key)
    assert item.value == {"text": "likes tea"}
    profile = await store("get", (*namespace, "profile"), "profile")
    assert profile.value == {"name": "Ada"}
    await store("put", (*namespace, "memories", "trips"), "k", {"text": "was in Lisbon"})
    assert {one.value["text"] for one in await ada("recall", "Lisbon")} == {
        "likes tea",
        "was in Lisbon",
    }
    assert [one.score for one in await ada("recall", "Ada") if one.value.get("name")] == []


async def test_profiles_are_merged(users: Users) -> None:
    ada = users("ada")
    assert await ada("profile") == {}
    assert await ada("update_profile", {"name": "Ada", "likes": {"tea": True}}) == {
        "name": "Ada",
        "likes": {"tea": True},
    }
    merged = await ada("update_profile", {"name": None, "likes": {"rum": False}, "born": 1815})
    assert merged == await ada("profile") == {"likes": {"tea": True, "rum": False}, "born": 1815}
    assert await ada("update_profile", {}) == merged


async def test_a_sync_method_on_the_loop_of_its_client_names_the_twin(
    mongo_uri: str, database_name: str
) -> None:
    async with client_of("awaiting", mongo_uri) as client:
        zoe = MongoMemory(client, database_name).user("zoe")
        with pytest.raises(UsageError, match=r"the async twin, .* an a in front .*arecall"):
            zoe.recall()


@pytest.mark.parametrize("kind", ["threaded", "awaiting"])
async def test_concurrent_changes_of_a_profile_are_all_there(
    kind: str, mongo_uri: str, database_name: str
) -> None:
    async with client_of(kind, mongo_uri) as client:
        ada = MongoMemory(client, database_name).user("ada")
        await asyncio.gather(*(ada.aupdate_profile({"seen": {str(n): n}}) for n in range(10)))
        assert await ada.aprofile() == {"seen": {str(n): n for n in range(10)}}


async def test_threads_are_listed_as_the_saver_lists_them(users: Users) -> None:
    ada, graph = users("ada"), chat(users.kind)
    for thread in ("1", "2", "3"):
        await users.run(graph, f"hello {thread}", ada.target.config(thread), ada.target)
    await users.run(graph, "hello", users("bob").target.config("4"), users("bob").target)
    saver = Calls(users.memory.saver, users.kind)
    await saver("update_thread", "2", {"title": "Two"})
    assert [one.thread_id for one in await ada("threads")] == ["3", "2", "1"]
    first = (await ada("threads", limit=1, count_checkpoints=True))[0]
    assert (first.thread_id, first.checkpoint_count) == ("3", 3)
    assert [one.thread_id for one in await ada("threads", before=first)] == ["2", "1"]
    assert [one.thread_id for one in await ada("threads", filter={"title": "Two"})] == ["2"]
    mine = await ada("threads", filter={"user_id": "ada"})
    assert {one.thread_id for one in mine} == {"1", "2", "3"}
    for other in ("bob", None, {"$in": ["bob"]}):
        with pytest.raises(InvalidInputError, match="user_id of this filter is"):
            await ada("threads", filter={"user_id": other})


def test_a_config_names_user_and_thread() -> None:
    memory = MongoMemory(mongomock.MongoClient(), user_key="owner")
    ada = memory.user(UUID(int=5))
    assert ada.id == str(UUID(int=5))
    assert repr(ada) == f"User({ada.id!r})"
    assert ada.config(7, model="small") == {
        "configurable": {"thread_id": "7", "model": "small", "owner": ada.id}
    }
    made = [ada.config()["configurable"]["thread_id"] for _ in range(2)]
    assert len({str(UUID(one)) for one in made}) == 2
    assert ada.config("1", owner=UUID(int=5)) == ada.config("1", owner=ada.id) == ada.config("1")
    with pytest.raises(InvalidInputError, match="owner of this config is"):
        ada.config("1", owner="bob")
    with pytest.raises(InvalidInputError, match="thread_id"):
        ada.config("")


def test_a_namespace_of_the_application_is_used() -> None:
    memory = MongoMemory(mongomock.MongoClient(), user_namespace=lambda user: ("users", user))
    memory.user("ada").remember("likes tea", key="k")
    assert memory.user("ada").namespace == ("users", "ada")
    item = memory.store.get(("users", "ada", "memories"), "k")
    assert item is not None
    assert item.value == {"text": "likes tea"}


async def test_a_query_without_an_embedder_says_what_to_do(
    mongo_uri: str, database_name: str
) -> None:
    async with client_of("awaiting", mongo_uri) as client:
        ada = MongoMemory(client, database_name).user("ada")
        await ada.aremember("first")
        await ada.aremember("second")
        with pytest.raises(
            ConfigurationError, match=r"a query needs an embedder: MongoMemory\("
        ) as told:
            await ada.arecall("tea")
        assert "\n" not in str(told.value)
        assert [one.value["text"] for one in await ada.arecall()] == ["second", "first"]


async def test_what_is_stored_is_what_was_passed_at_the_call(
    mongo_uri: str, database_name: str
) -> None:
    async with client_of("awaiting", mongo_uri) as client:
        ada = MongoMemory(client, database_name).user("ada")
        tags, changes = ["a"], {"likes": ["tea"]}
        calls = ada.aremember("tea", key="k", tags=tags), ada.aupdate_profile(changes)
        tags.append("late")
        changes["likes"].append("late")
        for call in calls:
            await call  # type: ignore[misc]
        assert (await ada.arecall())[0].value["tags"] == ["a"]
        assert await ada.aprofile() == {"likes": ["tea"]}


def test_memories_live_as_the_store_says() -> None:
    memory = MongoMemory(mongomock.MongoClient(), "app", ttl={"default_ttl": 5})
    memory.user("ada").remember("tea")
    memory.user("ada").update_profile({"a": 1})
    items = memory._client["app"]["mongomem_store_items"].find()
    assert [item["ttl_minutes"] for item in items] == [5.0, 5.0]


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda ada: ada.remember(7), InvalidInputError, "text must be a string"),
        (lambda ada: ada.remember("a", key=""), InvalidInputError, "key is empty"),
        (lambda ada: ada.remember("a", tags={1}), UnstorableValueError, "at tags: a set cannot"),
        (lambda ada: ada.forget(7.0), InvalidInputError, "key must be a string"),
        (lambda ada: ada.forget(None), InvalidInputError, "key must be a string"),
        (lambda ada: ada.threads(filter=7), InvalidInputError, "filter must be a mapping"),
        (lambda ada: ada.recall(filter={"a": {"$x": 1}}), InvalidInputError, "filter"),
        (lambda ada: ada.recall(limit=-1), InvalidInputError, "limit must be"),
        (lambda ada: ada.update_profile([]), InvalidInputError, "changes must be a mapping"),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: type[Exception], told: str) -> None:
    ada = MongoMemory(mongomock.MongoClient()).user("ada")
    with pytest.raises(error, match=told) as caught:
        call(ada)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "method", "parameter"),
    [
        ("user_id", lambda memory, one: memory.user(one), "user|namespace"),
        ("thread_id", lambda memory, one: memory.user("a").config(one), "thread_id"),
        ("user_id", lambda memory, one: memory.user("a").config("1", user_id=one), "user_id"),
        ("text", lambda memory, one: memory.user("a").remember(one), "text|item|document"),
        ("key", lambda memory, one: memory.user("a").remember("x", key=one), "key|item|document"),
        ("key", lambda memory, one: memory.user("a").forget(one), "key"),
        ("field", lambda memory, one: memory.user("a").remember("x", key="k", f=one), "item"),
        ("query", lambda memory, one: memory.user("a").recall(one), "query"),
        ("filter", lambda memory, one: memory.user("a").recall(filter=one), "filter"),
        ("filter", lambda memory, one: memory.user("a").threads(filter=one), "filter|metadata"),
        ("changes", lambda memory, one: memory.user("b").update_profile(one), "changes|item"),
        ("data", lambda memory, one: memory.import_user(one), "data"),
    ],
)
def test_hostile_arguments_are_taken_or_named(name: str, method: Any, parameter: str) -> None:
    memory = MongoMemory(mongomock.MongoClient(), index=INDEX)
    verdict = Verdict()
    for label, make in HOSTILE.items():
        error: Exception | None = None
        try:
            method(memory, make())
        except Exception as raised:
            error = raised
        verdict.judge(f"{name} {label}", parameter, error)
    assert verdict.faults == []
    assert verdict.refused > 0
