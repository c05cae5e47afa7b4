"""What is stored is what was passed at the moment of the call, whatever the caller does before it
is carried out.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp
from pymongo import MongoClient
from pymongo.monitoring import CommandListener

from mongomem import InvalidInputError, MongoMemory, MongoSaver, MongoStore, User
from mongomem.checkpoint.documents.metadata import queryable_copy
from mongomem.checkpoint.serde.copies import detached
from mongomem.checkpoint.serde.message_snapshots import KINDS
from mongomem.engine.effects import HEAVY_BYTES
from support.hostile import deep, many_times_over
from support.savers import client_of
from support.stores import words

pytestmark = pytest.mark.shares_database

ASYNC_KINDS = ("threaded", "awaiting")
THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
METADATA: Any = {"source": "loop", "step": 0, "parents": {}}
LONG = random.Random(3).randbytes(HEAVY_BYTES).hex()


@pytest.fixture(params=ASYNC_KINDS)
async def memory(request: Any, mongo_uri: str, database_name: str) -> AsyncIterator[MongoMemory]:
    async with client_of(request.param, mongo_uri) as client:
        yield MongoMemory(client, database_name, index=words())


def checkpoint_of(**values: Any) -> Any:
    versions = {channel: f"{1:032}.{random.random()}" for channel in values}
    return {
        "v": 4,
        "id": str(uuid6()),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": sorted(values),
    }


async def awaited(coroutine: Any) -> Any:
    return await coroutine


async def in_task(coroutine: Any) -> Any:
    return await asyncio.ensure_future(coroutine)


async def gathered(coroutine: Any) -> Any:
    return (await asyncio.gather(asyncio.sleep(0), coroutine))[1]


async def much_later(coroutine: Any) -> Any:
    await asyncio.sleep(0.05)
    return await coroutine


WAYS = [awaited, in_task, gathered, much_later]


# The store.


@pytest.mark.parametrize("way", WAYS)
async def test_an_item_is_as_it_was_put(memory: MongoMemory, way: Callable[[Any], Any]) -> None:
    store, value, fields = memory.store, {"text": "tea", "list": [1], "dict": {"a": 1}}, ["text"]
    call = store.aput(("ada",), "k", value, fields)
    value["text"] = "coffee"
    value["list"].append(2)
    value["dict"]["b"] = 2
    value["more"] = True
    fields.append("list")
    await way(call)
    item = await store.aget(("ada",), "k")
    assert item is not None
    assert item.value == {"text": "tea", "list": [1], "dict": {"a": 1}}
    assert (await store.asearch(("ada",), query="tea"))[0].score == pytest.approx(1.0)
    stored = memory.store._runners.arun.database.get_collection("mongomem_store_items")  # type: ignore[attr-defined]
    document = stored.find_one({"key": "k"})
    assert (await document if inspect.isawaitable(document) else document)["index_fields"] == [
        "text"
    ]


async def test_puts_that_share_a_batch_each_keep_what_was_passed(memory: MongoMemory) -> None:
    store, value = memory.store, {"n": 0}
    calls = []
    for number in range(10):
        value["n"] = number
        calls.append(store.aput(("ada",), str(number % 5), value))
    value["n"] = 99
    await asyncio.gather(*calls, store.adelete(("ada",), "4"))
    found = await store.asearch(("ada",))
    assert {item.key: item.value["n"] for item in found} == {"0": 5, "1": 6, "2": 7, "3": 8}


@pytest.mark.parametrize("way", WAYS)
async def test_a_batch_is_as_it_was_passed(memory: MongoMemory, way: Callable[[Any], Any]) -> None:
    store, value = memory.store, {"n": 1}
    ops: list[Any] = [PutOp(("ada",), "k", value), GetOp(("ada",), "k")]
    call = store.abatch(ops)
    value["n"] = 2
    ops.append(PutOp(("ada",), "late", {"n": 3}))
    assert await way(call) == [None, None]
    assert [(item.key, item.value) for item in await store.asearch(("ada",))] == [("k", {"n": 1})]


async def test_a_batch_may_be_a_generator(memory: MongoMemory) -> None:
    def ops() -> Iterator[PutOp]:
        for number in range(3):
            yield PutOp(("ada",), str(number), {"n": number})

    assert await memory.store.abatch(ops()) == [None] * 3


async def test_what_is_wrong_is_raised_where_the_call_is_awaited(memory: MongoMemory) -> None:
    saver, store = memory.saver, memory.store
    wrong: Any = object()
    calls = {
        store.aput(("ada",), "k", wrong): InvalidInputError,
        store.aput((), "k", {}): InvalidNamespaceError,
        store.aput(("ada",), "k", {"a": wrong}): InvalidInputError,
        store.adelete(("a.b",), "k"): InvalidNamespaceError,
        store.aget(wrong, "k"): InvalidInputError,
        store.abatch([wrong]): InvalidInputError,
        store.asearch(wrong): InvalidInputError,
        saver.aput(THREAD, wrong, METADATA, {}): InvalidInputError,
        saver.aput_writes(THREAD, [("a", 1)], "task"): InvalidInputError,
        saver.aget_tuple(wrong): InvalidInputError,
    }
    good = store.aput(("ada",), "good", {"n": 1})
    answers = await asyncio.gather(*calls, good, return_exceptions=True)
    for answer, expected in zip(answers[:-1], calls.values(), strict=True):
        assert isinstance(answer, expected), answer
    assert [item.key for item in await store.asearch(("ada",))] == ["good"]


# The saver.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_warm", [False, True])
async def test_a_checkpoint_is_as_it_was_put(
    memory: MongoMemory, way: Callable[[Any], Any], is_warm: bool
) -> None:
    saver, config = memory.saver, THREAD
    if is_warm:
        config = await saver.aput(THREAD, checkpoint_of(other=1), METADATA, {})
    message = HumanMessage("hello", id="1")
    checkpoint = checkpoint_of(messages=[message], log=["a"], state={"deep": [1]}, number=1)
    versions = dict(checkpoint["channel_versions"])
    metadata: Any = {**METADATA, "tags": ["one"], "more": {"a": [1]}}
    call = saver.aput(config, checkpoint, metadata, {})
    message.content = "changed"
    checkpoint["channel_values"]["messages"].append(AIMessage("late"))
    checkpoint["channel_values"]["log"][0] = "b"
    checkpoint["channel_values"]["state"]["deep"].append(2)
    checkpoint["channel_values"]["number"] = 2
    checkpoint["channel_values"]["late"] = 1
    checkpoint["channel_versions"]["late"] = checkpoint["channel_versions"]["log"] = "9"
    checkpoint["id"] = "late"
    metadata["tags"].append("two")
    metadata["more"]["a"].append(2)
    metadata["step"] = 7
    await way(call)
    found = await saver.aget_tuple(THREAD)
    assert found is not None
    assert found.checkpoint["channel_values"] == {
        "messages": [HumanMessage("hello", id="1")],
        "log": ["a"],
        "state": {"deep": [1]},
        "number": 1,
    }
    assert found.checkpoint["channel_versions"] == versions
    assert found.metadata == {**METADATA, "tags": ["one"], "more": {"a": [1]}}
    assert [
        one.metadata["more"] async for one in saver.alist(None, filter={"tags": ["one"], "step": 0})
    ] == [{"a": [1]}]
    assert [one async for one in saver.alist(None, filter={"tags": ["two"]})] == []
    (thread,) = await saver.alist_threads()
    assert thread.metadata["more"] == {"a": [1]}


@pytest.mark.parametrize("way", WAYS)
async def test_pending_writes_are_as_they_were_passed(
    memory: MongoMemory, way: Callable[[Any], Any]
) -> None:
    saver = memory.saver
    config = await saver.aput(THREAD, checkpoint_of(a=1), METADATA, {})
    value, writes = ["x"], deque([("a", ["x"])])
    writes[0] = ("a", value)
    call = saver.aput_writes(config, writes, "task")
    value.append("y")
    writes.append(("b", 1))
    await way(call)
    found = await saver.aget_tuple(THREAD)
    assert found is not None
    assert found.pending_writes == [("task", "a", ["x"])]


@pytest.mark.parametrize("way", WAYS)
async def test_a_state_that_is_serialized_beside_the_loop_is_as_it_was_put(
    memory: MongoMemory, way: Callable[[Any], Any]
) -> None:
    message = AIMessage(["part"], id="1", additional_kwargs={"a": [1]}, tool_calls=[])
    values = {
        "text": LONG,
        "messages": [HumanMessage(LONG[:1_000], id=str(number)) for number in range(100)]
        + [message],
        "state": {"deep": ([1], {"a": deque([1])}, {1, 2}, bytearray(b"ab"))},
    }
    call = memory.saver.aput(THREAD, checkpoint_of(**values), METADATA, {})
    values["messages"][3].content = "changed"
    values["messages"].append(HumanMessage("late"))
    message.content.append("late")
    message.additional_kwargs["a"].append(2)
    message.additional_kwargs["b"] = 1
    message.tool_calls.append({"name": "late", "args": {}, "id": "1"})
    values["state"]["deep"][0].append(2)
    values["state"]["deep"][1]["a"].append(2)
    values["state"]["deep"][2].add(3)
    values["state"]["deep"][3].extend(b"c")
    values["state"]["late"] = 1
    await way(call)
    found = await memory.saver.aget_tuple(THREAD)
    assert found is not None
    loaded = found.checkpoint["channel_values"]
    assert loaded["messages"][3].content == LONG[:1_000]
    assert len(loaded["messages"]) == 101
    assert loaded["messages"][-1] == AIMessage(["part"], id="1", additional_kwargs={"a": [1]})
    assert loaded["state"] == {
        "deep": [[1], {"a": deque([1])}, {1, 2}, b"ab"]
    }  # as LangGraph's serializer has them


@pytest.mark.parametrize("kind", sorted(KINDS, key=lambda kind: kind.__name__))
def test_a_detached_message_is_equal_and_shares_nothing(kind: Any) -> None:
    more = {
        "ToolMessage": {"tool_call_id": "1"},
        "FunctionMessage": {"name": "f"},
        "ChatMessage": {"role": "r"},
    }
    message = kind(content=[{"type": "text", "text": "a"}], id="1", **more.get(kind.__name__, {}))
    message.additional_kwargs["a"] = {"b": [1]}
    copied = detached(message)
    assert copied == message
    assert type(copied) is kind
    assert copied.model_fields_set == message.model_fields_set
    copied.content[0]["text"] = "b"
    copied.additional_kwargs["a"]["b"].append(2)
    copied.response_metadata["c"] = 1
    assert message.content == [{"type": "text", "text": "a"}]
    assert message.additional_kwargs == {"a": {"b": [1]}}
    assert message.response_metadata == {}


def test_what_contains_itself_is_detached_without_end() -> None:
    value: list[Any] = []
    value.append(value)
    value += [value, (value, {"a": value})]
    copied = detached(value)
    assert copied is not value
    assert copied[0] is copied[1] is copied[2][0] is copied[2][1]["a"] is copied


def test_messages_that_hold_each_other_are_detached_without_end() -> None:
    message, other = HumanMessage("a"), HumanMessage("b")
    message.content, other.content = other, message  # type: ignore[assignment]
    copied: Any = detached({"a": [message, message]})["a"]
    assert copied[0] is copied[1] is copied[0].content.content is not message
    deepest: Any = HumanMessage("x")
    for _ in range(3_000):
        outer = HumanMessage("x")
        outer.content, deepest = deepest, outer
    assert detached(deepest) is not deepest


def test_what_stands_in_endless_places_is_copied_once_and_shown_nowhere() -> None:
    value = many_times_over(60)
    copied = detached(value)
    for _ in range(60):
        assert copied[0] is copied[1]
        copied, value = copied[0], value[0]
        assert copied is not value
    metadata = {"wide": many_times_over(60), "deep": deep(5_000), "a": 1}
    assert queryable_copy(metadata, None) == ({"a": 1}, ["wide", "deep"])


async def test_a_parent_that_is_gone_does_not_let_later_changes_in(memory: MongoMemory) -> None:
    """The one case in which a value is serialized after the call: what the parent was relied on
    for.
    """
    saver, log = memory.saver, ["a"]
    checkpoint = checkpoint_of(log=log, other={"b": 1})
    config = await saver.aput(THREAD, checkpoint, METADATA, {})
    other = MongoSaver(saver._runners.arun.database.client, saver._runners.arun.database.name)  # type: ignore[attr-defined]
    await other.adelete_thread("t")
    following = {**checkpoint, "id": str(uuid6())}
    call = saver.aput(config, following, METADATA, {})
    log.append("late")
    checkpoint["channel_values"]["other"]["late"] = 1
    checkpoint["channel_values"]["late"] = 1
    await call
    found = await saver.aget_tuple(THREAD)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"log": ["a"], "other": {"b": 1}}


async def test_labels_and_names_are_as_they_were_passed(memory: MongoMemory) -> None:
    saver = memory.saver
    for name in ("one", "two"):
        config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        await saver.aput(config, checkpoint_of(a=1), {**METADATA, "run_id": name}, {})
    labels: dict[str, Any] = {"title": "Tea", "tags": {"all": ["a"]}}
    call: Any = saver.aupdate_thread("two", labels)
    labels["title"] = "late"
    labels["tags"]["all"].append("late")
    assert (await call).metadata["title"] == "Tea"
    (two,) = [thread for thread in await saver.alist_threads() if thread.thread_id == "two"]
    assert two.metadata["tags"] == {"all": ["a"]}
    runs = ["one"]
    call = saver.adelete_for_runs(runs)
    runs.append("two")
    await call
    names = ["two"]
    call = saver.aprune(names, strategy="delete")
    names[0] = "one"
    await call
    assert [one async for one in saver.alist(None)] == []


# How it is done.


async def test_a_call_that_is_never_awaited_does_nothing(memory: MongoMemory) -> None:
    calls = {
        "put": memory.saver.aput(THREAD, checkpoint_of(a=1), METADATA, {}),
        "get_tuple": memory.saver.aget_tuple(THREAD),
        "_ask": memory.store.aput(("ada",), "k", {"n": 1}),
        "batch": memory.store.abatch([PutOp(("ada",), "k", {"n": 1})]),
    }
    for name, call in calls.items():
        assert inspect.iscoroutine(call)
        assert call.__name__ == name
        call.close()
    forgotten = {
        "put": lambda: memory.saver.aput(THREAD, checkpoint_of(a=1), METADATA, {}),
        "batch": lambda: memory.store.abatch([PutOp(("ada",), "k", {"n": 1})]),
    }
    for name, forget in forgotten.items():
        with pytest.warns(RuntimeWarning, match=f"coroutine '{name}' was never awaited"):
            forget()
    assert await memory.saver.aget_tuple(THREAD) is None
    assert await memory.store.asearch(("ada",)) == []


def test_a_call_may_be_made_where_no_loop_runs(mongo_uri: str, database_name: str) -> None:
    async def put_and_get(call: Any) -> Any:
        await call
        return await store.aget(("ada",), "k")

    with MongoClient(mongo_uri) as client:
        store, value = MongoStore(client, database_name), {"n": 1}
        call = store.aput(("ada",), "k", value)
        value["n"] = 2
        assert asyncio.run(put_and_get(call)).value == {"n": 1}


def test_async_methods_are_known_as_such() -> None:
    """Mocks made from a class, and frameworks, ask whether a method is to be awaited."""
    is_coroutine_function: Any = (
        inspect if sys.version_info >= (3, 12) else asyncio
    ).iscoroutinefunction
    for cls in (MongoSaver, MongoStore, MongoMemory, User):
        for name, method in inspect.getmembers(cls, callable):
            if (
                name[0] == "a"
                and hasattr(cls, name[1:])
                and method.__module__.startswith("mongomem")
            ):
                is_stream = name in ("alist", "aexport", "aexport_user")
                assert is_coroutine_function(method) is not is_stream, name
    mock = MagicMock(spec=MongoSaver)
    call = mock.aput(1)
    assert inspect.iscoroutine(call)
    call.close()


class Sent(CommandListener):
    """Counts what is sent."""

    def __init__(self) -> None:
        self.count = 0

    def started(self, event: Any) -> None:
        self.count += 1

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass


async def test_nothing_is_sent_before_the_call_is_awaited(
    mongo_uri: str, database_name: str
) -> None:
    sent = Sent()
    with MongoClient(mongo_uri, event_listeners=[sent]) as client:
        store = MongoStore(client, database_name)
        call = store.aput(("ada",), "k", {"n": 1})
        await asyncio.sleep(0.05)
        assert sent.count == 0
        await call
        assert sent.count > 0
