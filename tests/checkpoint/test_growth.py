"""Size, growth and retention: what users of other savers ran into, and what is right instead."""

from __future__ import annotations

import operator
import random
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pymongo import MongoClient
from typing_extensions import TypedDict

from mongomem.checkpoint.saver import MongoSaver
from mongomem.engine.runners import Runners
from mongomem.errors import InvalidInputError
from mongomem.testing import FailingRunner
from support.graphs import Steps
from support.savers import KINDS, Calls, saver_of

MEGABYTE = 2**20
noise = random.Random(7)


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def calls(
    mongo_uri: str, database_name: str, kind: str, clock: Clock
) -> AsyncIterator[Calls]:
    async with saver_of(kind, mongo_uri, database_name, clock=clock) as saver:
        yield Calls(saver, kind)


def text(size: int) -> str:
    return noise.randbytes(size // 2).hex()


def stored_bytes(client: MongoClient, database: str, **query: Any) -> int:
    """Return how many bytes of documents a database holds."""
    total = 0
    for name in client[database].list_collection_names():
        pipeline = [
            {"$match": query},
            {"$group": {"_id": None, "size": {"$sum": {"$bsonSize": "$$ROOT"}}}},
        ]
        total += sum(found["size"] for found in client[database][name].aggregate(pipeline))
    return total


def count_of(client: MongoClient, database: str, **query: Any) -> int:
    return sum(
        client[database][name].count_documents(query)
        for name in client[database].list_collection_names()
    )


class Chat(TypedDict):
    messages: Annotated[list, operator.add]


def test_a_chat_of_twice_the_turns_takes_about_twice_the_bytes(
    mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    builder = StateGraph(Chat)
    builder.add_node("answer", lambda state: {"messages": [text(1024)]})
    builder.add_edge(START, "answer")
    with MongoClient(mongo_uri) as client:
        graph = builder.compile(checkpointer=MongoSaver(client, database_name))
        sizes = []
        for _ in range(2):
            for _ in range(50):
                graph.invoke({"messages": [text(1024)]}, {"configurable": {"thread_id": "chat"}})
            sizes.append(stored_bytes(mongo_client, database_name))
    assert sizes[1] <= 2.3 * sizes[0]
    assert sizes[1] < 10 * 200 * 1024


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_a_static_channel_is_stored_once(
    calls: Calls, mongo_client: MongoClient, database_name: str
) -> None:
    steps, static = Steps(calls), text(2 * MEGABYTE)
    configs = [await steps.put(static=static, small="step 0")]
    configs += [await steps.put(small=f"step {number}") for number in range(1, 50)]
    assert stored_bytes(mongo_client, database_name) < 2 * (len(static) + 50 * 1000)
    third = await calls("get_tuple", configs[3])
    assert third.checkpoint["channel_values"] == {"static": static, "small": "step 3"}


@pytest.mark.parametrize("kind", ["blocking"])
async def test_a_channel_above_16_mb_round_trips(calls: Calls) -> None:
    large = noise.randbytes(17 * MEGABYTE)
    found = await calls("get_tuple", await Steps(calls).put(large=large))
    assert found.checkpoint["channel_values"]["large"] == large


@pytest.mark.parametrize("kind", ["awaiting"])
async def test_a_channel_and_metadata_together_above_16_mb_round_trip(calls: Calls) -> None:
    large, note = noise.randbytes(12 * MEGABYTE), text(6 * MEGABYTE)
    found = await calls("get_tuple", await Steps(calls).put({"note": note}, large=large))
    assert found.checkpoint["channel_values"]["large"] == large
    assert found.metadata["note"] == note
    assert [one.metadata["note"] for one in await calls.list(None, filter={"note": note})] == [note]


@pytest.mark.parametrize("kind", ["blocking"])
async def test_a_pending_write_above_16_mb_round_trips(calls: Calls) -> None:
    large = noise.randbytes(17 * MEGABYTE)
    config = await Steps(calls).put(a=1)
    await calls("put_writes", config, [("small", 1), ("large", large)], "task")
    found = await calls("get_tuple", config)
    assert found.pending_writes == [("task", "small", 1), ("task", "large", large)]


@pytest.mark.parametrize("kind", ["awaiting"])
async def test_many_channels_that_sum_to_20_mb_round_trip(calls: Calls) -> None:
    channels = {f"channel {number}": noise.randbytes(MEGABYTE // 2) for number in range(40)}
    found = await calls("get_tuple", await Steps(calls).put(**channels))
    assert found.checkpoint["channel_values"] == channels


def test_a_pause_within_a_subgraph_above_16_mb_is_not_lost(
    mongo_uri: str, database_name: str
) -> None:
    class Inner(TypedDict, total=False):
        blob: bytes
        answer: str

    class Outer(TypedDict, total=False):
        answer: str

    large = noise.randbytes(17 * MEGABYTE)
    inner = StateGraph(Inner)
    inner.add_node("fill", lambda state: {"blob": large})
    inner.add_node(
        "ask", lambda state: {"answer": f"{interrupt('well?')}, {state['blob'] == large}"}
    )
    inner.add_edge(START, "fill")
    inner.add_edge("fill", "ask")
    outer = StateGraph(Outer)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    config = {"configurable": {"thread_id": "t"}}
    for given in ({"answer": ""}, Command(resume="yes")):  # the second one in another process
        with MongoClient(mongo_uri) as client:
            result = outer.compile(checkpointer=MongoSaver(client, database_name)).invoke(
                given, config
            )
    assert result["answer"] == "yes, True"


def with_runner(saver: MongoSaver, runner: Callable[[Any], Any]) -> MongoSaver:
    saver._runners = Runners(runner, saver._runners.arun)
    return saver


def test_after_a_put_that_failed_anywhere_the_previous_checkpoint_loads_and_the_thread_goes_on(
    mongo_client: MongoClient, database_name: str
) -> None:
    database = mongo_client[database_name]

    async def scenario(at: int, performed: bool) -> bool:
        saver = MongoSaver(mongo_client, database_name, auto_setup=False)
        steps = Steps(Calls(saver, "blocking"), f"{at} {performed}")
        before = await steps.put(large=text(20_000), small=1)
        values = steps.values
        steps.calls = Calls(with_runner(saver, FailingRunner(database, at, performed)), "blocking")
        failed = False
        try:
            await steps.put(large=text(20_000), small=2)
        except Exception as error:
            assert str(error) == "injected failure"  # noqa: PT017 (which command fails is what is varied)
            failed = True
        fresh = MongoSaver(mongo_client, database_name, auto_setup=False)
        assert fresh.get_tuple(before).checkpoint["channel_values"] == values
        steps.calls = Calls(fresh, "blocking")
        assert (
            fresh.get_tuple(await steps.put(small=3)).checkpoint["channel_values"] == steps.values
        )
        return failed

    for performed in (False, True):
        outcomes = [run(scenario(at, performed)) for at in range(6)]
        assert outcomes[0]
        assert not outcomes[-1]


def run(plan: Any) -> Any:
    """Run a coroutine that never waits."""
    try:
        plan.send(None)
    except StopIteration as finished:
        return finished.value
    raise AssertionError("it waits")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_put_of_what_cannot_be_serialized_writes_nothing(calls: Calls) -> None:
    steps = Steps(calls)
    before = await steps.put(a=1, large=text(10_000))
    with pytest.raises(TypeError):
        await steps.put(a=2, large=text(10_000), odd=open)
    assert [one.config for one in await calls.list(None)] == [before]


@pytest.mark.parametrize("kind", KINDS)
async def test_pruning_keeps_the_newest_of_each_namespace_and_collects_the_rest(
    calls: Calls, clock: Clock
) -> None:
    parts = [
        Steps(calls),
        Steps(calls, "t", "child:1"),
        Steps(calls, "t", "child:1|grand:2"),
        Steps(calls, "other"),
    ]
    for part in parts:
        for number in range(4):
            await part.put(large=text(20_000), number=number)
            await calls(
                "put_writes", part.config, [("a", number), ("b", noise.randbytes(70_000))], "task"
            )
    newest = [await calls("get_tuple", part.config) for part in parts]
    for _ in range(2):
        await calls("prune", ["t"])
        clock.now += timedelta(hours=2)
    kept = await calls.list({"configurable": {"thread_id": "t"}})
    assert [
        one.checkpoint
        for one in sorted(kept, key=lambda one: one.config["configurable"]["checkpoint_ns"])
    ] == [one.checkpoint for one in newest[:3]]
    assert [one.pending_writes for one in newest] == [
        (await calls("get_tuple", part.config)).pending_writes for part in parts
    ]
    assert len(await calls.list({"configurable": {"thread_id": "other"}})) == 4


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_the_chunks_of_what_was_pruned_go_after_the_grace(
    calls: Calls, clock: Clock, mongo_client: MongoClient, database_name: str
) -> None:
    steps = Steps(calls)
    for _ in range(5):
        await steps.put(large=text(50_000))
    full = stored_bytes(mongo_client, database_name)
    for _ in range(2):
        await calls("prune", ["t"])
        clock.now += timedelta(hours=2)
    assert stored_bytes(mongo_client, database_name) < 0.3 * full
    assert (await calls("get_tuple", steps.config)).checkpoint["channel_values"] == steps.values


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [0, -1, -100, True, 1.5, "1", None])
async def test_keeping_none_or_fewer_raises_and_removes_nothing(wrong: Any, calls: Calls) -> None:
    steps = Steps(calls)
    await steps.put(a=1)
    await steps.put(a=2)
    with pytest.raises(InvalidInputError):
        await calls("prune", ["t"], keep_last=wrong)
    assert len(await calls.list(None)) == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_a_dry_run_tells_what_a_real_one_removes(calls: Calls, clock: Clock) -> None:
    steps = Steps(calls)
    for number in range(6):
        await steps.put(number=number)
        clock.now += timedelta(days=1)
    rule = {"keep_last": 2, "older_than": timedelta(days=3)}
    told = await calls("prune", ["t"], dry_run=True, **rule)
    assert len(await calls.list(None)) == 6
    assert await calls("prune", ["t"], **rule) == told
    assert [one.checkpoint["channel_values"]["number"] for one in await calls.list(None)] == [
        5,
        4,
        3,
    ]
    assert [len(one.removed) for one in told] == [3]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_thread_is_idle_by_its_newest_checkpoint_in_any_namespace(
    calls: Calls, clock: Clock
) -> None:
    old, busy = Steps(calls, "old"), Steps(calls, "busy")
    await old.put(a=1)
    await busy.put(a=1)
    clock.now += timedelta(days=10)
    await Steps(calls, "busy", "child:1").put(a=1)
    told = await calls("delete_idle_threads", timedelta(days=5), dry_run=True)
    done = await calls("delete_idle_threads", timedelta(days=5))
    assert [one.thread_id for one in told] == [one.thread_id for one in done] == ["old"]
    assert {one.config["configurable"]["thread_id"] for one in await calls.list(None)} == {"busy"}
