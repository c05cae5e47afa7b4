"""Pending writes, time travel and concurrency: what users of other savers ran into, and what is
right instead.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, TASKS
from pymongo import AsyncMongoClient, MongoClient

from mongomem.checkpoint.plans.read import MOST_JOINED
from mongomem.checkpoint.saver import MongoSaver
from support.graphs import Play, Steps, chain_of
from support.savers import KINDS, Calls, saver_of
from support.waits import HANG_SECONDS

THREAD: Any = {"configurable": {"thread_id": "t"}}


pytestmark = pytest.mark.shares_database


@pytest.fixture
async def calls(mongo_uri: str, database_name: str, kind: str) -> AsyncIterator[Calls]:
    async with saver_of(kind, mongo_uri, database_name) as saver:
        yield Calls(saver, kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_first_regular_write_wins_and_the_last_special_one(calls: Calls) -> None:
    config = await Steps(calls).put(c=1)
    await calls("put_writes", config, [("a", 1), ("b", 2)], "task")
    await calls("put_writes", config, [(INTERRUPT, "x")], "task")
    three = [("task", INTERRUPT, "x"), ("task", "a", 1), ("task", "b", 2)]
    assert (await calls("get_tuple", config)).pending_writes == three
    await calls("put_writes", config, [("a", 9)], "task")
    assert (await calls("get_tuple", config)).pending_writes == three
    await calls("put_writes", config, [(ERROR, "e1")], "task")
    await calls("put_writes", config, [(ERROR, "e2")], "task")
    assert ("task", ERROR, "e2") in (await calls("get_tuple", config)).pending_writes
    assert len((await calls("get_tuple", config)).pending_writes) == 4


@pytest.mark.parametrize("kind", KINDS)
async def test_no_writes_are_stored_as_none(calls: Calls) -> None:
    config = await Steps(calls).put(c=1)
    for nothing in ([], (), deque()):
        await calls("put_writes", config, nothing, "task")
    assert (await calls("get_tuple", config)).pending_writes == []


@pytest.mark.parametrize("kind", KINDS)
async def test_writes_come_in_the_order_of_path_task_and_number(calls: Calls) -> None:
    config = await Steps(calls).put(c=1)
    for task, path in (("aaa", "~b1"), ("zzz", "~a1"), ("bbb", "~b1")):
        await calls(
            "put_writes", config, deque((f"c{number}", number) for number in range(12)), task, path
        )
    found = (await calls("get_tuple", config)).pending_writes
    assert found == [
        (task, f"c{number}", number) for task in ("zzz", "aaa", "bbb") for number in range(12)
    ]


@pytest.mark.parametrize("kind", KINDS)
async def test_any_number_of_long_writes_is_read_with_its_checkpoint(calls: Calls) -> None:
    for count in (MOST_JOINED - 1, MOST_JOINED, MOST_JOINED + 1, 5 * MOST_JOINED):
        config = await Steps(calls, f"thread {count}").put(c=1)
        for task in range(0, count, 50):
            some = [
                (f"c{number}", f"{number:04}" * (30_000 if number % 2 else 15_000))
                for number in range(task, min(task + 50, count))
            ]
            await calls("put_writes", config, some, f"{task:04}")
        found = (await calls("get_tuple", config)).pending_writes
        assert [(channel, value[:4]) for _, channel, value in found] == [
            (f"c{number}", f"{number:04}") for number in range(count)
        ]


def test_a_large_checkpoint_with_large_writes_is_read(
    mongo_client: MongoClient, database_name: str
) -> None:
    saver = MongoSaver(mongo_client, database_name)
    thread: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    config = saver.put(thread, empty_checkpoint(), {"source": "loop", "step": 1, "parents": {}}, {})
    padding = {"$set": {"padding": b"x" * 13_000_000}}  # as many channels make it
    mongo_client[database_name].mongomem_checkpoints.update_one({"type": "checkpoint"}, padding)
    writes = [(f"c{number}", os.urandom(60_000)) for number in range(MOST_JOINED - 1)]
    saver.put_writes(config, writes, "task")
    found = saver.get_tuple(thread)
    assert found is not None
    assert found.pending_writes == [("task", channel, value) for channel, value in writes]


@pytest.mark.parametrize("kind", KINDS)
async def test_writes_belong_to_their_checkpoint_whenever_they_come(calls: Calls) -> None:
    steps = Steps(calls)
    first = await steps.put(c=1)
    second = await steps.put(c=2)
    await calls("put_writes", first, [("late", 1)], "task")
    early = {
        "configurable": {
            **first["configurable"],
            "checkpoint_id": "ffffffff-0000-6000-8000-000000000000",
        }
    }
    await calls("put_writes", early, [("early", 2)], "task")
    assert (await calls("get_tuple", first)).pending_writes == [("task", "late", 1)]
    assert (await calls("get_tuple", second)).pending_writes == []
    assert await calls("get_tuple", early) is None
    checkpoint = (await calls("get_tuple", second)).checkpoint | {
        "id": "ffffffff-0000-6000-8000-000000000000"
    }
    for _ in range(2):  # put twice keeps the writes
        await calls("put", second, checkpoint, {"source": "loop", "step": 9}, {})
        found = await calls("get_tuple", early)
        assert (found.checkpoint, found.pending_writes) == (checkpoint, [("task", "early", 2)])
        assert found.parent_config == second
    assert len(await calls.list(THREAD)) == 3


@pytest.mark.parametrize("kind", KINDS)
async def test_list_and_get_tuple_give_equal_tuples(calls: Calls) -> None:
    for steps in (Steps(calls), Steps(calls, "t", "child:1")):
        for number in range(3):
            await steps.put(large="x" * 10_000 * number, number=number)
            writes = [
                ("a", number),
                (INTERRUPT, "?"),
                (RESUME, [1]),
                (TASKS, "t"),
                ("b", "y" * 70_000),
            ]
            await calls("put_writes", steps.config, writes, "task", "~path")
    listed = await calls.list(THREAD)
    assert len(listed) == 6
    for one in listed:
        assert len(one.pending_writes) == 5
        assert await calls("get_tuple", one.config) == one


@pytest.mark.parametrize("kind", KINDS)
async def test_a_config_may_carry_what_no_database_can_hold(calls: Calls) -> None:
    run_id = UUID("00000000-0000-4000-8000-000000000001")
    carried = {
        "run_id": run_id,
        "__pregel_send": print,
        "__pregel_read": deque(),
        "odd": object(),
        "user_id": "ada",
    }
    steps = Steps(calls, "t", "", **carried)
    steps.config |= {
        "run_id": run_id,
        "callbacks": [object()],
        "metadata": {"__own": "x", "lang": "en"},
    }
    config = await steps.put(c=1)
    await calls(
        "put_writes",
        {"configurable": {**carried, **config["configurable"]}},
        deque([("a", 1)]),
        "task",
    )
    (found,) = await calls.list(THREAD, filter={"user_id": "ada"})
    assert found.pending_writes == [("task", "a", 1)]
    assert found.metadata == {
        "source": "loop",
        "step": 0,
        "parents": {},
        "user_id": "ada",
        "lang": "en",
    }


@pytest.mark.parametrize("kind", KINDS)
async def test_only_what_comes_behind_a_fork_runs_again(calls: Calls) -> None:
    runs: list[str] = []
    play = Play(calls.target, calls.is_async)
    graph, config = chain_of(calls.target, "one", "two", "three", runs=runs), play.thread()
    await play.call(graph, "invoke", {"log": []}, config)
    base = next(one for one in await play.history(graph, config) if one.next == ("two",))
    children = []
    for values in (None, {"log": ["forked"]}):
        runs.clear()
        fork = await play.call(graph, "update_state", base.config, values, as_node="two")
        children.append(fork["configurable"]["checkpoint_id"])
        result = await play.call(graph, "invoke", None, fork)
        assert runs == ["three"]
        assert result["log"] == ["one", *((values or {}).get("log", [])), "three"]
    listed = [one async for one in play.each(calls.target, "list", config)]
    parents = {one.config["configurable"]["checkpoint_id"]: one.parent_config for one in listed}
    base_id = base.config["configurable"]["checkpoint_id"]
    assert [parents[child]["configurable"]["checkpoint_id"] for child in children] == [
        base_id,
        base_id,
    ]


PROCESS = """
import asyncio, sys
from pymongo import MongoClient
sys.path[:0] = sys.argv[4:]
from support.graphs import Steps
from mongomem.checkpoint.saver import MongoSaver
from support.savers import Calls

async def main(uri, database, name):
    with MongoClient(uri) as client:
        calls = Calls(MongoSaver(client, database), "blocking")
        for number in range(40):
            steps = Steps(calls)
            newest = calls.target.get_tuple(steps.config)
            if newest is not None:
                steps.config, steps.number = newest.config, newest.metadata["step"]
            await steps.put(large=[f"{name} {number}"] * 800, name=name)
            await calls("put_writes", steps.config, [("same", number), ("__error__", name)], "task")

asyncio.run(main(*sys.argv[1:4]))
"""


def test_two_processes_write_to_one_thread(
    mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    paths = [path for path in sys.path if path]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, mongo_uri, database_name, name, *paths],
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("left", "right")
    ]
    for process in started:
        _, errors = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0, errors
    saver = MongoSaver(mongo_client, database_name)
    listed = list(saver.list(THREAD))
    assert len(listed) == 80
    for one in listed:
        name, values = (
            one.checkpoint["channel_values"]["name"],
            one.checkpoint["channel_values"]["large"],
        )
        assert set(values) == {values[0]}
        assert values[0].startswith(name)
        assert saver.get_tuple(one.config) == one


async def test_a_reader_sees_every_channel_while_another_writes(
    mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    writer = Steps(Calls(MongoSaver(mongo_client, database_name), "blocking"))
    await writer.put(long="x" * 9_000, number=0)
    done, wrong, reads = threading.Event(), [], []

    def read() -> None:
        with MongoClient(mongo_uri) as client:
            while not done.is_set():
                saver = MongoSaver(
                    client, database_name, cache_bytes=0 if len(reads) % 2 else 2**20
                )
                values = saver.get_tuple(THREAD).checkpoint["channel_values"]
                reads.append(values["number"])
                if (
                    values.keys() != {"long", "number"}
                    or len(values["long"]) != 9_000 + values["number"]
                ):
                    wrong.append(values)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 1000):
        await writer.put(long="x" * (9_000 + number), number=number)
    done.set()
    reader.join()
    assert not wrong
    assert len(set(reads)) > 10


@pytest.mark.parametrize("kind", KINDS)
async def test_repeated_content_of_a_changed_value_reads_as_it_was(calls: Calls) -> None:
    steps = Steps(calls)
    placed = [await steps.put(long=f"{number}" * 50_000) for number in range(12)]
    for number, config in enumerate(placed):
        assert (await calls("get_tuple", config)).checkpoint["channel_values"] == {
            "long": f"{number}" * 50_000
        }


@pytest.mark.parametrize("kind", ["awaiting", "threaded"])
async def test_cancelling_a_put_leaves_nothing_half_written(calls: Calls) -> None:
    steps = Steps(calls)
    await steps.put(long="x" * 50_000, number=0)
    cancelled = 0
    for number in range(1, 30):
        before = steps.config
        task = asyncio.ensure_future(steps.put(long=f"{number}" * 50_000, number=number))
        await asyncio.sleep(0.0004 * (number % 15))
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            cancelled += 1
            await asyncio.sleep(0.01)
        for one in await calls.list(THREAD):
            values = one.checkpoint["channel_values"]
            assert values["long"] in (f"{values['number']}" * 50_000, "x" * 50_000)
        steps.config = before
    assert cancelled
    steps.config = await steps.put(long="end", number=-1)
    assert (await calls("get_tuple", steps.config)).checkpoint["channel_values"] == steps.values


@pytest.mark.parametrize("kind", KINDS)
async def test_a_late_write_does_not_bring_a_deleted_thread_back(calls: Calls) -> None:
    steps = Steps(calls)
    config = await steps.put(c=1)
    await calls("delete_thread", "t")
    for value in (1, "x" * 100_000):
        await calls("put_writes", config, [("a", value), (INTERRUPT, value)], "task")
    assert await calls("get_tuple", config) is None
    assert await calls("get_tuple", THREAD) is None
    assert await calls.list(None) == []
    assert await calls("list_threads") == []
    anew = await Steps(calls).put(c=2)
    assert (await calls("get_tuple", THREAD)).config == anew
    assert (await calls("get_tuple", anew)).pending_writes == []


async def test_savers_under_different_prefixes_do_not_meet(
    mongo_client: MongoClient, database_name: str
) -> None:
    both = [
        MongoSaver(mongo_client, database_name, collection_prefix=prefix)
        for prefix in ("left_", "right_")
    ]
    left, right = (Steps(Calls(saver, "blocking")) for saver in both)
    await left.put(c="left")
    await right.put(c="right")
    both[0].put_writes(left.config, [("a", 1)], "task")
    assert [saver.get_tuple(THREAD).checkpoint["channel_values"] for saver in both] == [
        {"c": "left"},
        {"c": "right"},
    ]
    both[0].delete_thread("t")
    assert [len(list(saver.list(None))) for saver in both] == [0, 1]


async def test_concurrent_puts_of_one_async_client_on_one_thread(
    mongo_uri: str, database_name: str
) -> None:
    async with AsyncMongoClient(mongo_uri) as client:
        calls = Calls(MongoSaver(client, database_name), "awaiting")
        await asyncio.gather(*(Steps(calls).put(long=f"{number}" * 9_000) for number in range(50)))
        assert len(await calls.list(THREAD)) == 50


@pytest.mark.parametrize("kind", KINDS)
async def test_a_copy_leaves_what_the_target_has_and_brings_what_it_lacks(calls: Calls) -> None:
    steps, copied = Steps(calls), {"configurable": {"thread_id": "copy", "checkpoint_ns": ""}}
    for number in range(3):
        await steps.put(number=number)
    await calls("copy_thread", "t", "copy")
    mine: Any = (await calls("get_tuple", copied)).config
    await calls("put_writes", mine, [("a", "of the copy")], "task")
    await calls("put_writes", mine, [(RESUME, "of the copy")], "task")
    before = await calls.list(copied)
    await calls("put_writes", steps.config, [("a", "of the source"), ("b", 1)], "task")
    await calls("put_writes", steps.config, [(RESUME, "of the source")], "task")
    await calls("prune", ["t"])
    await calls("copy_thread", "t", "copy")
    after = await calls.list(copied)
    assert [one._replace(pending_writes=None) for one in after] == [
        one._replace(pending_writes=None) for one in before
    ]
    assert sorted(after[0].pending_writes) == [
        ("task", RESUME, "of the copy"),
        ("task", "a", "of the copy"),
        ("task", "b", 1),
    ]
    await steps.put(number=3)
    await calls("copy_thread", "t", "copy")
    assert [one.checkpoint["channel_values"]["number"] for one in await calls.list(copied)] == [
        3,
        2,
        1,
        0,
    ]
