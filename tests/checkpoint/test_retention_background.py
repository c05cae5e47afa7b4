"""The retention beside the puts: in whichever way a saver is called, by one process at a time, with
a holder of the lease that is killed; it fails without anybody's graph learning of it, and it ends.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import START, MessagesState, StateGraph
from pymongo import AsyncMongoClient, MongoClient

from mongomem import MongoMemory, MongoSaver, Retention
from mongomem.checkpoint.documents.collections import CHUNK
from mongomem.checkpoint.plans.prune import PruneReport, read_roots
from mongomem.checkpoint.retention import sweep
from mongomem.checkpoint.retention.background import PAUSE, RetentionWork, step
from mongomem.checkpoint.retention.lease import LEASE, Lease
from mongomem.engine.commands import BulkWrite, Command
from mongomem.engine.workers import Background
from support.savers import KINDS, Calls, saver_of
from support.spans import Spans, name_of, provided
from support.stepping import Stepped
from support.stores import Clock
from support.waits import HANG_SECONDS, await_that

pytestmark = pytest.mark.shares_database

ROOT = Path(__file__).parents[2]
METADATA: Any = {"source": "loop", "step": 0, "parents": {}}
POLICY = Retention(keep_last=2)
SETTINGS = "mongomem_checkpoint_settings"


def config_of(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


def checkpoint_of(text: str = "x") -> Any:
    return {
        "v": 4,
        "id": str(uuid6()),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": {"a": text},
        "channel_versions": {"a": str(uuid6())},
        "versions_seen": {},
        "updated_channels": None,
    }


async def put_some(calls: Calls, thread_id: str, count: int) -> None:
    config = config_of(thread_id)
    for _ in range(count):
        config = await calls("put", config, checkpoint_of(), METADATA, {})


async def until(holds: Any) -> None:
    """Wait beside the event loop, which has work of its own to do."""
    await asyncio.to_thread(await_that, holds)


def run(saver: MongoSaver, policy: Retention = POLICY) -> RetentionWork:
    """Carry out a step here; return what is remembered of it."""
    work = RetentionWork()
    saver._runners.run(step(saver._context(), work, policy))
    return work


# Beside the puts.


@pytest.mark.parametrize("kind", [*KINDS[:-1]])
async def test_puts_are_followed_by_the_retention(
    kind: str, mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    clock = Clock()
    stored = mongo_client[database_name]["mongomem_checkpoints"]
    query = {"thread_id": "a", "type": "checkpoint"}
    async with saver_of(kind, mongo_uri, database_name, clock=clock, retention=POLICY) as saver:
        calls = Calls(saver, kind)
        before = MongoSaver(mongo_client, database_name, clock=clock)
        await put_some(Calls(before, "blocking"), "a", 6)
        clock.now += 2 * PAUSE
        await put_some(calls, "b", 1)
        await until(lambda: stored.count_documents(query) == 2)
        await calls("close")
        clock.now += timedelta(days=1)
        await put_some(Calls(before, "blocking"), "a", 6)
        await put_some(calls, "b", 1)
        assert stored.count_documents(query) == 8  # closed: puts go on without it


async def test_on_mongomock_too(mongo_uri: str, database_name: str) -> None:
    clock = Clock()
    async with saver_of(
        "mongomock", mongo_uri, database_name, clock=clock, retention=POLICY
    ) as saver:
        await put_some(Calls(saver, "mongomock"), "a", 6)
        clock.now += timedelta(hours=2)
        await put_some(Calls(saver, "mongomock"), "b", 1)
        await until(lambda: len(list(saver.list(config_of("a")))) == 2)
        saver.close()


@pytest.mark.parametrize("native", [False, True])
async def test_a_graph_runs_beside_it(native: bool, mongo_uri: str, database_name: str) -> None:
    """Async turns of several threads while a retention prunes them again and again."""

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", f"answer {len(state['messages'])} " + "x" * 3000)]}

    clock = Clock()
    client: Any = (AsyncMongoClient if native else MongoClient)(mongo_uri)
    options = {"clock": clock, "grace": timedelta(0)}
    memory = MongoMemory(
        client, database_name, retention=Retention(keep_last=1), saver_options=options
    )
    builder = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer")
    graph = builder.compile(checkpointer=memory.saver)

    async def talk(name: str) -> int:
        config = memory.user("ada").config(name)
        for number in range(8):
            await graph.ainvoke({"messages": f"question {number}"}, config)
            clock.now += timedelta(minutes=2)
        return len((await graph.aget_state(config)).values["messages"])

    assert await asyncio.gather(*(talk(f"t{number}") for number in range(4))) == [16] * 4
    await (memory.aclose() if native else asyncio.to_thread(memory.close))
    await (client.close() if native else asyncio.to_thread(client.close))


def test_a_step_waits_for_its_turn(mongo_client: MongoClient, database_name: str) -> None:
    """Puts in a row begin one step, and not one each."""
    begun: list[object] = []

    class Counting(Background):
        def in_thread(self, work: Any) -> None:
            begun.append(work)

    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock, retention=POLICY)
    saver._retention.background = Counting()
    for _ in range(3):
        saver.put(config_of("a"), checkpoint_of(), METADATA, {})
    assert len(begun) == 1
    clock.now += PAUSE
    saver.put(config_of("a"), checkpoint_of(), METADATA, {})
    assert len(begun) == 2


# The lease.


def record(client: MongoClient, database_name: str) -> dict[str, Any]:
    return client[database_name][SETTINGS].find_one({"_id": "retention"}) or {}


def age(client: MongoClient, database_name: str, by: timedelta) -> None:
    """Let the lease have been renewed so long ago, by the clock of the server."""
    collection = client[database_name][SETTINGS]
    shift = {"$subtract": ["$$NOW", by // timedelta(milliseconds=1)]}
    collection.update_one({"_id": "retention"}, [{"$set": {"renewed_at": shift}}])


def test_one_of_many_takes_the_lease(mongo_client: MongoClient, database_name: str) -> None:
    saver = MongoSaver(mongo_client, database_name)
    barrier, took = threading.Barrier(16), []

    def take(number: int) -> None:
        lease = Lease(SETTINGS, str(number))
        barrier.wait()
        if saver._runners.run(lease.take()):
            took.append(lease.holder)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert took == [record(mongo_client, database_name)["holder"]]


def test_a_lease_ends_when_it_is_given_back_or_has_run_out(
    mongo_client: MongoClient, database_name: str
) -> None:
    saver = MongoSaver(mongo_client, database_name)
    run, one, other = saver._runners.run, Lease(SETTINGS, "one"), Lease(SETTINGS, "other")
    assert run(one.take())
    assert run(one.take())
    assert not run(other.take())
    assert run(one.renew("t"))
    assert run(one.read())["at_work_on"] == "t"
    assert run(one.give_back({"scan": 1}))
    assert run(other.take())
    assert not run(one.renew("t"))
    assert run(one.read()) == {}
    age(mongo_client, database_name, LEASE / 2)
    assert not run(one.take())
    age(mongo_client, database_name, LEASE + timedelta(seconds=1))
    assert run(one.take())
    assert not run(other.give_back({}))
    assert record(mongo_client, database_name)["scan"] == 1


def test_a_holder_that_was_too_slow_stops(mongo_client: MongoClient, database_name: str) -> None:
    """Another takes the lease between two of its threads: it works on no further one, and leaves
    the record to the other.
    """
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock)
    for thread_id in ("a", "b"):
        for _ in range(4):
            saver.put(config_of(thread_id), checkpoint_of(), METADATA, {})
    clock.advance(minutes=1)
    work = RetentionWork()
    stepped = Stepped(step(saver._context(), work, POLICY), saver._runners.run.database)  # type: ignore[attr-defined]
    stepped.to(BulkWrite, SETTINGS)
    while record(mongo_client, database_name).get("at_work_on") is None:
        stepped.step()
    age(mongo_client, database_name, 2 * LEASE)
    assert saver._runners.run(Lease(SETTINGS, "other").take())
    stepped.finish()
    counts = [len(list(saver.list(config_of(one)))) for one in ("a", "b")]
    assert sorted(counts) == [2, 4]
    assert record(mongo_client, database_name)["holder"] == "other"
    assert work.due_at == clock.now + LEASE


HOLDER = """
import sys
from datetime import datetime, timedelta, timezone
from pymongo import MongoClient
from mongomem import MongoSaver, Retention
from mongomem.checkpoint.retention.background import RetentionWork, step
from mongomem.engine.commands import BulkWrite, UpdateMany
from support.stepping import Stepped

uri, name, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
clock = lambda: datetime(2030, 1, 1, 1, tzinfo=timezone.utc)
saver = MongoSaver(MongoClient(uri), name, clock=clock, grace=timedelta(0))
plan = step(saver._context(), RetentionWork(), Retention(keep_last=2))
stepped = Stepped(plan, saver._runners.run.database)
settings = saver._runners.run.database["mongomem_checkpoint_settings"]
while not (settings.find_one({"_id": "retention"}) or {}).get("at_work_on"):
    stepped.step()
for _ in range(at):
    stepped.step()
print("at work", flush=True)
sys.stdin.read()
"""
"""A process that stands still in the middle of its work."""


@contextmanager
def standing_still(uri: str, name: str, at: int) -> Iterator[subprocess.Popen[str]]:
    """Run a process until it stands before the command with a number; kill it at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, uri, name, str(at)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PATH": ""},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=HANG_SECONDS)


@pytest.mark.parametrize("at", [0, 5, 8, 11, 14])
def test_a_holder_that_is_killed_is_followed_by_another(
    at: int, mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    """Wherever in its work it was killed: what it began is finished, and no garbage is left."""
    clock = Clock()
    options: dict[str, Any] = {"clock": clock, "grace": timedelta(0)}
    saver = MongoSaver(mongo_client, database_name, **options)
    config = config_of("a")
    for number in range(6):
        config = saver.put(config, checkpoint_of(f"{number} " * 4000), METADATA, {})
    clock.advance(minutes=60)
    newest = list(saver.list(config_of("a"), limit=2))
    with standing_still(mongo_uri, database_name, at) as holder:
        assert run(saver).due_at == clock.now + LEASE
        assert record(mongo_client, database_name)["holder"] is not None
        holder.kill()
        holder.wait(HANG_SECONDS)
    age(mongo_client, database_name, LEASE / 2)
    run(saver)
    held = record(mongo_client, database_name)
    assert held["holder"] is not None
    assert "ended_at" not in held
    age(mongo_client, database_name, 2 * LEASE)
    fresh = MongoSaver(mongo_client, database_name, **options)
    for _ in range(3):
        assert not run(fresh).has_failed
        clock.now += timedelta(hours=1)
    assert [one.checkpoint for one in fresh.list(config_of("a"))] == [
        one.checkpoint for one in newest
    ]
    stored = mongo_client[database_name]["mongomem_checkpoints"]
    assert stored.count_documents({"type": "checkpoint"}) == 2
    living = {key for _, key in chunks_of(fresh)}
    assert {one["_id"] for one in stored.find({"type": CHUNK})} == living


def chunks_of(saver: MongoSaver) -> set[tuple[str, bytes]]:
    """Return the chunks that anything leads to, as a removal reads them."""
    roots = saver._runners.run(read_roots(saver._context(), "a"))
    return {("a", key) for key in roots.living}


TAKER = """
import sys
from pymongo import MongoClient
from mongomem import MongoSaver
from mongomem.checkpoint.retention.lease import Lease

saver = MongoSaver(MongoClient(sys.argv[1]), sys.argv[2])
saver._runners.run(Lease("mongomem_checkpoint_settings", "look").read())
print("ready", flush=True)
sys.stdin.readline()
print(saver._runners.run(Lease("mongomem_checkpoint_settings", sys.argv[3]).take()), flush=True)
"""


def test_one_of_two_processes_takes_the_lease(
    mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TAKER, mongo_uri, database_name, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
        )
        for name in ("one", "two")
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    told = [process.communicate("go\n", timeout=HANG_SECONDS)[0] for process in processes]
    assert sorted(told) == ["False\n", "True\n"]
    assert record(mongo_client, database_name)["holder"] in ("one", "two")


# What fails.


def test_a_failure_is_told_once_and_reaches_no_graph(
    mongo_client: MongoClient, database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock, retention=POLICY)
    saver.setup()
    database = mongo_client[database_name]
    database.drop_collection(SETTINGS)
    database.create_collection(SETTINGS, validator={"never": True})
    for _ in range(3):
        saver.put(config_of("a"), checkpoint_of(), METADATA, {})
        await_that(lambda: saver._retention.has_failed)
        await_that(lambda: not saver._retention.background._is_under_way())
        clock.now += LEASE + PAUSE
    told = [one.getMessage() for one in caplog.records if one.name == "mongomem"]
    assert len(told) == 1
    assert told[0].startswith("the retention could not be carried out, and is tried again later: ")
    database.command({"collMod": SETTINGS, "validator": {}})
    saver.put(config_of("b"), checkpoint_of(), METADATA, {})
    await_that(lambda: len(list(saver.list(config_of("a")))) == 2)
    await_that(lambda: not saver._retention.background._is_under_way())
    assert not saver._retention.has_failed
    saver.close()
    database.drop_collection(SETTINGS)


def test_a_damaged_thread_is_told_of_once(
    mongo_client: MongoClient, database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock)
    for thread_id in ("bad", "good"):
        for _ in range(4):
            saver.put(config_of(thread_id), checkpoint_of(), METADATA, {})
    clock.advance(minutes=1)
    mongo_client[database_name]["mongomem_checkpoints"].update_many(
        {"thread_id": "bad", "type": "checkpoint"}, {"$set": {"body": 7}}
    )
    work = RetentionWork()
    for _ in range(3):
        saver._runners.run(step(saver._context(), work, POLICY))
        clock.now += timedelta(hours=2)
    told = [one.getMessage() for one in caplog.records if "of the retention" in one.getMessage()]
    assert len(told) == 1
    assert "bad" in told[0]
    assert len(list(saver.list(config_of("good")))) == 2


def test_what_went_is_told(
    mongo_client: MongoClient, database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mongomem")
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock)
    for thread_id in ("old", "new", "new", "new"):
        saver.put(config_of(thread_id), checkpoint_of(), METADATA, {})
        clock.now += timedelta(days=1)
    policy = Retention(keep_last=1, idle_threads=timedelta(days=3))
    for _ in range(2):
        run(saver, policy)
    told = [one.getMessage() for one in caplog.records if one.name == "mongomem"]
    assert told == [
        "retention: deleted 1 threads, and 0 checkpoints of 0 others",
        "retention: deleted 0 threads, and 2 checkpoints of 1 others",
    ]


def test_a_client_that_was_closed_is_no_failure(
    mongo_uri: str, database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    client: MongoClient = MongoClient(mongo_uri)
    saver = MongoSaver(client, database_name)
    client.close()
    work = run(saver)
    assert work.has_failed
    assert [one for one in caplog.records if one.name == "mongomem"] == []


# How it ends.


class Gate:
    """Holds the retention before it works on a thread, until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self.commands = 0
        gate = self

        async def held(*_arguments: Any) -> PruneReport:
            await Held(gate)
            await Held(gate)
            raise AssertionError("nobody stopped it")

        monkeypatch.setattr(sweep, "prune_thread", held)


class Held(Command[None]):
    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def perform(self, database: Any) -> None:
        self.gate.commands += 1
        self.gate.reached.set()
        assert self.gate.open.wait(HANG_SECONDS)

    async def aperform(self, database: Any) -> None:
        self.gate.reached.set()
        await asyncio.Event().wait()


def open_when_closed(gate: Gate, work: RetentionWork) -> None:
    await_that(lambda: work.background._is_closed)
    gate.open.set()


def test_leaving_a_saver_stops_it_before_its_next_command(
    mongo_uri: str, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, clock = Gate(monkeypatch), Clock()
    options: dict[str, Any] = {"clock": clock, "db_name": database_name}
    with MongoSaver.from_conn_string(mongo_uri, **options) as saver:
        for _ in range(4):
            saver.put(config_of("a"), checkpoint_of(), METADATA, {})
    clock.advance(minutes=1)
    with MongoSaver.from_conn_string(mongo_uri, retention=POLICY, **options) as saver:
        saver.put(config_of("b"), checkpoint_of(), METADATA, {})
        assert gate.reached.wait(HANG_SECONDS)
        work = saver._retention
        closing = threading.Thread(target=open_when_closed, args=(gate, work))
        closing.start()
    closing.join()
    assert gate.commands == 1
    await_that(lambda: not work.background._is_under_way())
    assert not work.has_failed


async def test_leaving_an_async_saver_cancels_it(
    mongo_uri: str, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, clock = Gate(monkeypatch), Clock()
    options: dict[str, Any] = {"clock": clock, "db_name": database_name}
    async with MongoSaver.from_conn_string(mongo_uri, **options) as saver:
        for _ in range(4):
            await saver.aput(config_of("a"), checkpoint_of(), METADATA, {})
    clock.advance(minutes=1)
    async with MongoSaver.from_conn_string(mongo_uri, retention=POLICY, **options) as saver:
        await saver.aput(config_of("b"), checkpoint_of(), METADATA, {})
        await until(gate.reached.is_set)
        work = saver._retention
    assert not work.background._is_under_way()
    assert not work.has_failed


ENDING = """
import sys
from datetime import timedelta
from pymongo import MongoClient
from mongomem import MongoSaver, Retention
from langgraph.checkpoint.base.id import uuid6

saver = MongoSaver(MongoClient(sys.argv[1]), sys.argv[2], retention=Retention(keep_last=1))
config = {"configurable": {"thread_id": "a", "checkpoint_ns": ""}}
for _ in range(3):
    checkpoint = {"v": 4, "id": str(uuid6()), "ts": "", "channel_values": {"a": 1},
        "channel_versions": {"a": "1"}, "versions_seen": {}, "updated_channels": None}
    saver.put(config, checkpoint, {"source": "loop", "step": 0, "parents": {}}, {})
print("ended")
"""


def test_a_process_that_ends_waits_for_no_more_than_a_command(
    mongo_uri: str, database_name: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ENDING, mongo_uri, database_name],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        timeout=HANG_SECONDS,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ended\n", "")


# What is told of it.


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_a_step_is_a_span_of_its_own(kind: str, mongo_uri: str, database_name: str) -> None:
    clock = Clock()
    with provided(Spans()) as spans:
        async with saver_of(kind, mongo_uri, database_name, clock=clock, retention=POLICY) as saver:
            with spans.tracer.start_as_current_span("turn"):
                await put_some(Calls(saver, kind), "a", 1)
            await until(lambda: "saver.retention" in spans.operations)
            await Calls(saver, kind)("close")
        (span,) = [one for one in spans.own if name_of(one) == "retention"]
        assert span.parent is None
        assert span.attributes["mongomem.round_trips"] > 2
        (put,) = [one for one in spans.own if name_of(one) == "put"]
        assert put.parent is not None
