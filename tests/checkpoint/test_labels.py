"""Titles, tags and flags that a caller sets by hand; what else a list of threads shows."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from typing import Any

import mongomock
import numpy as np
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from pymongo import MongoClient

from mongomem import ConfigurationError, InvalidInputError, MongoSaver, Thread, ThreadNotFoundError
from mongomem.checkpoint.documents import thread_list
from mongomem.checkpoint.documents.preview import LONGEST_PREVIEW, preview_of
from mongomem.checkpoint.documents.thread_list import MOST_BYTES
from support.graphs import Steps, asking
from support.savers import KINDS, Calls, saver_of

pytestmark = pytest.mark.shares_database


@pytest.fixture(params=KINDS)
async def calls(request: Any, mongo_uri: str, database_name: str) -> AsyncIterator[Calls]:
    async with saver_of(request.param, mongo_uri, database_name) as saver:
        yield Calls(saver, request.param)


async def only(calls: Calls, **more: Any) -> Thread:
    (thread,) = await calls("list_threads", **more)
    return thread


async def test_labels_survive_turns_and_are_filtered_by(calls: Calls) -> None:
    steps = Steps(calls, "t", user_id="ada", topic="tea", title="of the run")
    await steps.put(a=1)
    await Steps(calls, "other", user_id="ada").put(a=1)
    before = [one.thread_id for one in await calls("list_threads")]
    given = {
        "title": "Green tea",
        "tags": ["a", "b"],
        "archived": False,
        "score": 1.5,
        "nested": {"a": [1, {"b": None}]},
    }
    told = await calls("update_thread", "t", given)
    whole = {"user_id": "ada", "topic": "tea", **given}
    assert told.metadata == whole
    assert [one.thread_id for one in await calls("list_threads")] == before, "it keeps its place"
    await steps.put(a=2)
    assert [one.metadata for one in await calls("list_threads", filter={"title": "Green tea"})] == [
        whole
    ]
    for wanted in (
        {"archived": False},
        {"archived": False, "user_id": "ada"},
        {"tags": ["b"]},
        {"nested": {"a": [1]}},
        {"topic": "tea", "score": 1.5},
    ):
        assert (await only(calls, filter=wanted)).thread_id == "t", wanted
    for wanted in (
        {"title": "of the run"},
        {"archived": True},
        {"archived": 0},
        {"title": "Green tea", "user_id": "bob"},
    ):
        assert await calls("list_threads", filter=wanted) == [], wanted
    told = await calls("update_thread", "t", {"title": None, "archived": True, "never": None})
    assert told == await only(calls, filter={"archived": True})
    assert told.metadata == {**whole, "title": "of the run", "archived": True}
    assert told.updated_at == (await only(calls, filter={"topic": "tea"})).updated_at
    assert await calls("update_thread", "t", {}) == told


async def test_no_checkpoint_is_made_and_a_question_waits(calls: Calls) -> None:
    graph, config = asking(calls.target, questions=1), {"configurable": {"thread_id": "t"}}
    run = graph.ainvoke if calls.is_async else None
    asked = await run({"log": []}, config) if run else graph.invoke({"log": []}, config)
    before = await calls.list({"configurable": {"thread_id": "t"}})
    await calls("update_thread", "t", {"title": "waiting"})
    assert await calls.list({"configurable": {"thread_id": "t"}}) == before
    state = await graph.aget_state(config) if run else graph.get_state(config)
    assert state.interrupts == tuple(asked["__interrupt__"])
    answer: Any = Command(resume="yes")
    done = await run(answer, config) if run else graph.invoke(answer, config)
    assert "ask0: yes" in done["log"]
    assert (await only(calls)).metadata["title"] == "waiting"


async def test_labels_go_with_their_thread(calls: Calls) -> None:
    await Steps(calls).put(a=1)
    await calls("update_thread", "t", {"title": "old"})
    await calls("delete_thread", "t")
    with pytest.raises(ThreadNotFoundError, match="'t'"):
        await calls("update_thread", "t", {"title": "x"})
    await Steps(calls).put(a=1)
    assert (await only(calls)).metadata == {}


async def test_a_copy_takes_the_labels_and_one_that_is_there_keeps_its_own(calls: Calls) -> None:
    for thread in ("source", "target"):
        await Steps(calls, thread).put(a=1)
        await calls("update_thread", thread, {"title": thread})
    for target in ("target", "fresh"):
        await calls("copy_thread", "source", target)
    titles = {one.thread_id: one.metadata["title"] for one in await calls("list_threads")}
    assert titles == {"source": "source", "target": "target", "fresh": "source"}


async def test_a_label_under_the_users_key_is_one_more_user(calls: Calls) -> None:
    await Steps(calls, "t", user_id="ada").put(a=1)
    told = await calls("update_thread", "t", {"user_id": uuid.UUID(int=5), "title": "shared"})
    assert told.metadata == {"user_id": str(uuid.UUID(int=5)), "title": "shared"}
    for user in ("ada", uuid.UUID(int=5)):
        assert (await only(calls, filter={"user_id": user})).metadata == told.metadata
    for wrong in (None, True, ["ada"], 1.5):
        with pytest.raises(InvalidInputError, match="user_id"):
            await calls("update_thread", "t", {"user_id": wrong})
    assert await only(calls) == told


@pytest.mark.parametrize("thread", ["never was", "", "never a checkpoint"])
async def test_what_is_not_there_cannot_be_labelled(calls: Calls, thread: str) -> None:
    config: Any = {
        "configurable": {
            "thread_id": "never a checkpoint",
            "checkpoint_ns": "",
            "checkpoint_id": "1",
        }
    }
    await calls("put_writes", config, [("a", "x" * 100_000)], "task")
    with pytest.raises(LookupError, match="there is no thread"):
        await calls("update_thread", thread, {"title": "x"})
    assert await calls("list_threads") == []


DEEP: Any = []
for _ in range(100):
    DEEP = [DEEP]
ITSELF: list[Any] = []
ITSELF += [ITSELF, ITSELF]

WRONG: dict[str, Any] = {
    "none": None,
    "text": "title",
    "pairs": [("title", "x")],
    "key": {7: "x"},
    "empty key": {"": "x"},
    "dotted": {"a.b": 1},
    "operator": {"$set": {"epoch": 1}},
    "NUL": {"a\0b": 1},
    "object": {"title": object()},
    "bytes": {"title": b"x"},
    "set": {"tags": {"a"}},
    "time": {"at": datetime(2026, 1, 1, tzinfo=timezone.utc)},
    "uuid": {"id": uuid.UUID(int=5)},
    "large int": {"n": 2**63},
    "nan": {"n": float("nan")},
    "array": {"n": np.arange(3)},
    "surrogate": {"title": "\ud800"},
    "long": {"title": "x" * 5000},
    "long inside": {"tags": ["x" * 5000]},
    "inner key": {"nested": {"$where": 1}},
    "deep": {"nested": DEEP},
    "itself": {"nested": ITSELF},
    "many": {f"label {number}": "x" * 400 for number in range(60)},
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_cannot_be_a_label_is_refused(calls: Calls, name: str) -> None:
    await Steps(calls).put(a=1)
    before = await calls("list_threads")
    with pytest.raises(InvalidInputError) as caught:
        await calls("update_thread", "t", WRONG[name])
    assert len(str(caught.value)) < 400
    assert await calls("list_threads") == before


async def test_labels_are_bounded_over_many_calls(calls: Calls) -> None:
    await Steps(calls).put(a=1)
    for number in range(39):
        await calls("update_thread", "t", {f"label {number}": "x" * 400})
    with pytest.raises(InvalidInputError, match=str(MOST_BYTES)):
        await calls("update_thread", "t", {"one more": "x" * 400})
    assert 30 < len((await only(calls)).metadata) < 41
    told = await calls("update_thread", "t", {f"label {number}": None for number in range(100)})
    assert told.metadata == {}


@pytest.fixture
def saver(mongo_client: MongoClient, database_name: str) -> MongoSaver:
    return MongoSaver(mongo_client, database_name)


def put(saver: MongoSaver, thread: str = "t", **channels: Any) -> None:
    with pytest.raises(StopIteration):
        Steps(Calls(saver, "blocking"), thread).put(**channels).send(None)


def test_two_who_label_at_once_lose_nothing(
    saver: MongoSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(saver, a=1)
    merged, raced = thread_list._merged_labels, []

    def racing(held: Any, more: Any) -> Any:
        if len(raced) < 3:
            raced.append(1)
            saver.update_thread("t", {f"other {len(raced)}": True})
        return merged(held, more)

    monkeypatch.setattr(thread_list, "_merged_labels", racing)
    saver.update_thread("t", {"title": "x"})
    assert saver.list_threads()[0].metadata.keys() == {"title", "other 1", "other 2", "other 3"}


def test_an_expired_thread_is_not_labelled(mongo_client: MongoClient, database_name: str) -> None:
    now = [datetime(2026, 1, 1, tzinfo=timezone.utc)]
    saver = MongoSaver(mongo_client, database_name, ttl=60, clock=lambda: now[0])
    put(saver, a=1)
    saver.update_thread("t", {"title": "x"})
    now[0] += timedelta(minutes=61)
    with pytest.raises(ThreadNotFoundError):
        saver.update_thread("t", {"title": "y"})


def test_labels_of_encrypted_threads_need_leave_to_stand_readable(
    mongo_client: MongoClient, database_name: str
) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    saver = MongoSaver(mongo_client, database_name, serde=serde)
    put(saver, messages=[HumanMessage("canary")])
    with pytest.raises(ConfigurationError, match=r"'title'.*clear_metadata"):
        saver.update_thread("t", {"title": "canary"})
    assert saver.list_threads()[0].preview is None
    assert "canary" not in str(list(mongo_client[database_name].mongomem_checkpoints.find()))
    allowed = MongoSaver(
        mongo_client, database_name, serde=serde, clear_metadata=["title", "preview"]
    )
    allowed.update_thread("t", {"title": "Tea"})
    put(allowed, messages=[HumanMessage("hello")])
    (thread,) = allowed.list_threads(filter={"title": "Tea"})
    assert (thread.metadata, thread.preview) == ({"title": "Tea"}, "hello")


# --- counts and previews
# --------------------------------------------------------------------------------------------


async def test_checkpoints_are_counted_where_that_is_asked_for(calls: Calls) -> None:
    for thread, count in (("a", 3), ("b", 1)):
        for namespace in ("", "child:1"):
            steps = Steps(calls, thread, namespace)
            for number in range(count):
                await steps.put(a=number)
    assert {one.checkpoint_count for one in await calls("list_threads")} == {None}
    counts = {
        one.thread_id: one.checkpoint_count
        for one in await calls("list_threads", count_checkpoints=True)
    }
    assert counts == {"a": 6, "b": 2}
    await calls("prune", ["a"])
    assert (await only(calls, limit=1, count_checkpoints=True)).checkpoint_count == 2
    assert await calls("list_threads", limit=0, count_checkpoints=True) == []
    for wrong in (None, 1, "yes"):
        with pytest.raises(InvalidInputError, match="count_checkpoints"):
            await calls("list_threads", count_checkpoints=wrong)


async def test_the_last_message_is_previewed(calls: Calls) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node(
        "answer", lambda state: {"messages": [AIMessage(state["messages"][-1].content[::-1])]}
    )
    builder.add_edge(START, "answer")
    graph: Any = builder.compile(checkpointer=calls.target)
    config: Any = {"configurable": {"thread_id": "t"}}
    for text in ("hello\n  there", "x" * 500):
        given = {"messages": [HumanMessage(text)]}
        await graph.ainvoke(given, config) if calls.is_async else graph.invoke(given, config)
        assert (await only(calls)).preview == " ".join(text[::-1].split())[:LONGEST_PREVIEW]
    await calls("copy_thread", "t", "copy")
    assert {one.preview for one in await calls("list_threads")} == {"x" * LONGEST_PREVIEW}


class Odd:
    @property
    def content(self) -> str:
        raise RuntimeError("no content")


@pytest.mark.parametrize(
    ("messages", "preview"),
    [
        ([HumanMessage("a"), AIMessage("b")], "b"),
        (
            [AIMessage("said"), AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])],
            "said",
        ),
        ([AIMessage("said"), ToolMessage("result", tool_call_id="1")], "result"),
        (
            [
                HumanMessage(
                    [{"type": "text", "text": "a "}, {"type": "image_url", "image_url": "x"}, "b"]
                )
            ],
            "a b",
        ),
        ([{"role": "user", "content": "plain"}], "plain"),
        (["text"], "text"),
        ([("user", "pair")], None),
        ([Odd()], None),
        ([None, 5, b"x"], None),
        ([AIMessage("\ud800x")], "x"),
        ([AIMessage("e\u0301" * 400)], ("e\u0301" * 400)[:LONGEST_PREVIEW]),
        ([], None),
    ],
)
def test_previews(messages: list[Any], preview: str | None) -> None:
    checkpoint: Any = {"channel_values": {"messages": messages}}
    assert preview_of(checkpoint, "", None) == {"preview": preview}
    assert preview_of(checkpoint, "", ["source"]) == preview_of(checkpoint, "child:1", None) == {}


@pytest.mark.parametrize(
    "values", [{}, {"messages": "text"}, {"messages": ("a",)}, {"messages": {"a": 1}}]
)
def test_what_is_no_list_of_messages_has_no_preview(values: Any) -> None:
    assert preview_of({"channel_values": values}, "", None) == {}  # type: ignore[typeddict-item]


def test_messages_that_are_gone_are_not_previewed(saver: MongoSaver) -> None:
    put(saver, messages=["secret"])
    put(saver, other=1)
    assert saver.list_threads()[0].preview == "secret"
    put(saver, messages=[])
    assert saver.list_threads()[0].preview is None


@pytest.mark.parametrize("before", [0, "t", b"", ("t",), {"thread_id": "t"}, object()])
def test_what_no_list_goes_on_behind_is_refused(before: Any) -> None:
    with pytest.raises(InvalidInputError, match="before must be a Thread or a datetime"):
        MongoSaver(mongomock.MongoClient()).list_threads(before=before)


def test_ends_of_the_calendar(saver: MongoSaver) -> None:
    put(saver, a=1)
    for hours in (-12, 0, 14):
        zone = timezone(timedelta(hours=hours))
        for before, count in (
            (datetime.max.replace(tzinfo=zone), 1),
            (datetime.min.replace(tzinfo=zone), 0),
        ):
            try:
                assert len(saver.list_threads(before=before)) == count
            except InvalidInputError:
                assert hours
