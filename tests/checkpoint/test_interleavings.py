"""Put, get, delete_thread and two prunes, interleaved at their commands, with a clock in hand.

Each is a plan that is stepped by hand: one command at a time, in every order of two plans, and in
many of four. Whatever the order: what a put was told is stored reads back whole unless its thread
was deleted; what is read is one of the states that were there; nothing is ever corrupt; and garbage
is collected in the end."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import mongomock
import pytest
from langgraph.checkpoint.base.id import uuid6

from mongomem.checkpoint.documents.collections import CHUNK
from mongomem.checkpoint.plans import delete as delete_plan
from mongomem.checkpoint.plans import prune as prune_plan
from mongomem.checkpoint.plans import put as put_plan
from mongomem.checkpoint.plans import read as read_plan
from mongomem.checkpoint.plans.thread_state import read_base
from mongomem.checkpoint.retention.background import RetentionWork, step
from mongomem.checkpoint.retention.policy import Retention
from mongomem.checkpoint.saver import MongoSaver
from mongomem.engine.commands import DatabaseCommand, Plan
from mongomem.testing import MongomockDatabase

GRACE = timedelta(hours=1)
THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
METADATA: Any = {"source": "loop", "step": 0, "parents": {}}
TEXT = random.Random(1).randbytes(30_000).hex()


def checkpoint_of(number: int) -> Any:
    version = f"{number:032}.5"
    return {
        "v": 4,
        "id": str(uuid6()),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": {
            "messages": [TEXT[: 9_000 * (number + 1)]],
            "static": TEXT[40_000:46_000],
        },
        "channel_versions": {"messages": version, "static": "1"},
        "versions_seen": {},
        "updated_channels": None,
    }


CHECKPOINTS = [checkpoint_of(number) for number in range(4)]
"""Three that are stored, and the one that the put in question stores on top."""


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def __call__(self) -> datetime:
        return self.now


class World:
    """A thread of three checkpoints, copied from a snapshot; every process has a saver, and so
    caches, of its own.
    """

    snapshot: dict[str, list[dict[str, Any]]] | None = None

    def __init__(self) -> None:
        self.client, self.clock = mongomock.MongoClient(), Clock()
        self.database = MongomockDatabase(self.client["d"])
        if World.snapshot is None:
            self._build()
        for name, documents in (World.snapshot or {}).items():
            self.client["d"][name].delete_many({})
            self.client["d"][name].insert_many([dict(document) for document in documents])
        self.parent = {
            "configurable": {**THREAD["configurable"], "checkpoint_id": CHECKPOINTS[2]["id"]}
        }
        self.child = {
            "configurable": {**THREAD["configurable"], "checkpoint_id": CHECKPOINTS[3]["id"]}
        }

    def _build(self) -> None:
        saver, config = self.saver(), THREAD
        for checkpoint in CHECKPOINTS[:3]:
            config = saver.put(config, checkpoint, METADATA, {})
            saver.put_writes(config, [("messages", "w")], "task")
        World.snapshot = {
            name: list(self.client["d"][name].find())
            for name in ("mongomem_checkpoints", "mongomem_checkpoint_writes")
        }

    def saver(self) -> MongoSaver:
        saver = MongoSaver(self.client, "d", grace=GRACE, clock=self.clock, auto_setup=False)
        # A process that has looked at its collections, and for tombstones: else every order of that
        # would be tried too.
        saver._caches.setup_state.is_ours, saver._caches.setup_state.tombstones_looked_for_at = (
            True,
            self.clock.now,
        )
        return saver


class Process:
    """A plan, performed one database command at a step."""

    def __init__(self, world: World, plan: Plan[Any]) -> None:
        self.world, self.plan = world, plan
        self.result: Any = None
        self.error: Exception | None = None
        self.is_done = False

    def step(self) -> None:
        """Go on to the end of the next database command, and through whatever follows it without
        one.
        """
        resume, answer, performed = self.plan.send, None, 0
        if hasattr(self, "resume"):
            resume, answer = self.resume
        while not self.is_done:
            try:
                command = resume(answer)
            except StopIteration as finished:
                self.result, self.is_done = finished.value, True
                return
            except Exception as error:
                self.error, self.is_done = error, True
                return
            if performed and isinstance(command, DatabaseCommand):
                self.resume = (lambda _answer, command=command: command), None
                return
            try:
                resume, answer = self.plan.send, command.perform(self.world.database)
            except Exception as error:
                resume, answer = self.plan.throw, error
            performed += isinstance(command, DatabaseCommand)


async def put(world: World, *, warm: bool) -> Any:
    saver = world.saver()
    if warm:
        await read_plan.get_tuple(saver._context(), world.parent)
        thread = await read_base(saver._context(), _address(world))
        saver._caches.threads.put("t", thread.thread)
        saver._caches.parents.put(_address(world), thread.parent)
    return await put_plan.put(saver._context(), world.parent, CHECKPOINTS[3], METADATA)


def _address(world: World) -> Any:
    return read_plan.ref_of_config(world.parent)


async def get(world: World) -> Any:
    return await read_plan.get_tuple(world.saver()._context(), THREAD)


async def delete_thread(world: World) -> Any:
    return await delete_plan.delete_thread(world.saver()._context(), "t")


async def prune_twice(world: World) -> Any:
    await prune_plan.prune(world.saver()._context(), ["t"], "keep_latest", 1, None, dry_run=False)
    world.clock.now += GRACE * 2
    await prune_plan.prune(world.saver()._context(), ["t"], "keep_latest", 1, None, dry_run=False)


async def retain_twice(world: World) -> Any:
    """Two rounds of a retention, each one step, more than a grace apart."""
    for _ in range(2):
        work = RetentionWork()
        await step(world.saver()._context(), work, Retention(keep_last=1))
        assert not work.has_failed
        world.clock.now += GRACE * 2


PLANS: dict[str, Any] = {
    "put": lambda world: put(world, warm=False),
    "warm put": lambda world: put(world, warm=True),
    "get": get,
    "delete_thread": delete_thread,
    "prune twice": prune_twice,
    "retain twice": retain_twice,
}


def length(name: str) -> int:
    """Count the steps of a plan that runs alone."""
    world = World()
    process, steps = Process(world, PLANS[name](world)), 0
    while not process.is_done:
        process.step()
        steps += 1
    assert process.error is None
    return steps


def run(names: Sequence[str], order: Sequence[int]) -> None:
    world = World()
    processes = [Process(world, PLANS[name](world)) for name in names]
    for index in order:
        processes[index].step()
    for process in processes:
        while not process.is_done:
            process.step()
    told = " ".join(str(index) for index in order)
    assert [process.error for process in processes] == [None] * len(processes), told
    check(world, dict(zip(names, processes, strict=True)), told)


def check(world: World, processes: dict[str, Process], told: str) -> None:
    stored = {checkpoint["id"]: checkpoint for checkpoint in CHECKPOINTS}
    listed = list(world.saver().list(THREAD))
    assert all(one.checkpoint == stored[one.checkpoint["id"]] for one in listed), told
    if "put" in processes or "warm put" in processes:
        found = world.saver().get_tuple(world.child)
        assert found is not None or "delete_thread" in processes, told
    if (read := processes.get("get")) is not None and read.result is not None:
        assert read.result.checkpoint == stored[read.result.checkpoint["id"]], told
    for _ in range(2):
        world.clock.now += GRACE * 2
        world.saver().prune(["t"])
    left = world.client["d"]["mongomem_checkpoints"]
    assert len(list(world.saver().list(THREAD))) == len(
        {one.checkpoint["id"] for one in listed[:1]}
    ), told
    if not listed:
        assert left.count_documents({"type": CHUNK}) == 0, told


def orders(first: int, second: int) -> Iterator[list[int]]:
    """Yield every order of the steps of two plans."""
    for places in itertools.combinations(range(first + second), first):
        yield [0 if place in places else 1 for place in range(first + second)]


PAIRS = [
    ("put", "prune twice"),
    ("warm put", "delete_thread"),
    ("put", "delete_thread"),
    ("get", "delete_thread"),
    ("put", "get"),
]


@pytest.mark.parametrize("names", PAIRS, ids=" and ".join)
def test_every_order_of_two(names: tuple[str, str]) -> None:
    for order in orders(length(names[0]), length(names[1])):
        run(names, order)


@pytest.mark.parametrize(
    "names",
    [
        ("put", "get", "delete_thread", "prune twice"),
        ("warm put", "prune twice", "get"),
        ("get", "prune twice"),
        ("warm put", "prune twice"),
        ("put", "retain twice"),
        ("warm put", "get", "retain twice"),
        ("warm put", "prune twice", "retain twice"),
        ("put", "delete_thread", "retain twice"),
        ("retain twice", "retain twice"),
    ],
    ids=" and ".join,
)
def test_many_orders_of_several(names: tuple[str, ...]) -> None:
    chance = random.Random(7)
    steps = [index for index, name in enumerate(names) for _ in range(length(name))]
    for _ in range(120):
        chance.shuffle(steps)
        run(names, steps)
