"""A failure at every command of every plan: the checkpoint before stays loadable, and the call can
be repeated.

The commands are counted by running: each scenario is run with a failure at its first command, its
second and so on, until it gets through. Of the failing command nothing, all, or the first writes
reach the server."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.base.id import uuid6
from pymongo import MongoClient
from pymongo.errors import AutoReconnect

from mongomem.checkpoint.retention.policy import Retention
from mongomem.checkpoint.saver import MongoSaver
from mongomem.engine.runners import Runners
from mongomem.testing import FailingRunner

PERFORMED: tuple[bool | int, ...] = (False, True, 2)
"""How much of the failing command reaches the server: nothing, all, or the first two writes of a
bulk."""

MOST_COMMANDS = 40
LONG = [f"message {number} " + "x" * 700 for number in range(40)]
METADATA: Any = {"source": "loop", "step": 0, "parents": {}}


def config_of(thread_id: str, checkpoint_id: str | None = None) -> Any:
    found: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": ""}
    return {"configurable": found | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


def checkpoint_of(saver: MongoSaver, messages: list[str]) -> Any:
    version = saver.get_next_version(None, None)
    return {
        "v": 4,
        "id": str(uuid6()),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": {"messages": messages, "count": len(messages)},
        "channel_versions": {"messages": version, "count": version},
        "versions_seen": {},
        "updated_channels": None,
    }


class World:
    """A thread with three checkpoints of three runs, their writes, and what was there before a
    crash.
    """

    def __init__(self, client: MongoClient, database_name: str) -> None:
        self.client, self.database_name = client, database_name
        self.thread = f"t-{uuid4()}"
        self.copy = f"copy-{uuid4()}"
        saver = self.saver()
        config = config_of(self.thread)
        self.configs = []
        for number in range(3):
            checkpoint = checkpoint_of(saver, LONG[: 10 + 10 * number])
            metadata: Any = {**METADATA, "step": number, "run_id": f"run-{self.thread}-{number}"}
            config = saver.put(config, checkpoint, metadata, {})
            saver.put_writes(config, [("messages", "w" * 10), ("count", number)], f"task-{number}")
            self.configs.append(config)
        self.before = self.tuples(self.thread)
        self.next = checkpoint_of(saver, LONG)

    def saver(self, runner: Any = None) -> MongoSaver:
        saver = MongoSaver(self.client, self.database_name, grace=timedelta(0), cache_bytes=10**6)
        if runner is not None:
            saver._runners = Runners(runner, saver._runners.arun)
        return saver

    def failing(self, at: int, performed: bool | int) -> tuple[MongoSaver, FailingRunner]:
        runner = FailingRunner(self.saver()._runners.run.database, at, performed)  # type: ignore[attr-defined]
        return self.saver(runner), runner

    def tuples(self, thread_id: str) -> list[CheckpointTuple]:
        return list(self.saver().list(config_of(thread_id)))


Check = Callable[[World], None]


@dataclass(frozen=True)
class Scenario:
    """A call, what must hold wherever it broke off, and what must hold once it was repeated."""

    call: Callable[[World, MongoSaver], Any]
    halfway: Check
    finally_: Check


def unharmed(world: World) -> None:
    assert world.tuples(world.thread) == world.before


def readable(world: World) -> None:
    """Whatever is still listed is whole, and only what was there."""
    for one in world.tuples(world.thread):
        (was,) = [old for old in world.before if old.config == one.config]
        assert one.checkpoint == was.checkpoint


def put_before_or_after(world: World) -> None:
    found = world.tuples(world.thread)
    assert found[-3:] == world.before
    assert [one.checkpoint for one in found[:-3]] in ([], [world.next])


def put_is_there(world: World) -> None:
    newest, *older = world.tuples(world.thread)
    assert newest.checkpoint == world.next
    assert older == world.before


def writes_are_there(world: World) -> None:
    newest, *older = world.tuples(world.thread)
    assert older == world.before[1:]
    assert newest.pending_writes is not None
    assert {("late", "messages", "v" * 100_000), ("late", "count", 1)} <= set(newest.pending_writes)


def thread_is_gone(world: World) -> None:
    assert world.tuples(world.thread) == []
    left = world.client[world.database_name]
    assert (
        left["mongomem_checkpoints"].count_documents(
            {"thread_id": world.thread, "type": {"$ne": "thread"}}
        )
        == 0
    )
    assert left["mongomem_checkpoint_writes"].count_documents({"thread_id": world.thread}) == 0


def only_the_newest(world: World) -> None:
    (newest,) = world.tuples(world.thread)
    assert newest == world.before[0]._replace(parent_config=None)


def middle_is_gone(world: World) -> None:
    assert world.tuples(world.thread) == [
        world.before[0]._replace(parent_config=None),
        world.before[2],
    ]


def copied(world: World) -> None:
    unharmed(world)
    found = world.tuples(world.copy)
    assert [one.checkpoint for one in found] == [one.checkpoint for one in world.before]
    assert [one.pending_writes for one in found] == [one.pending_writes for one in world.before]


def labelled(world: World) -> None:
    unharmed(world)
    assert world.saver().list_threads(limit=5)[0].metadata["title"] == "Tea"


def parent_of(world: World) -> Any:
    return world.configs[-1]


SCENARIOS: dict[str, Scenario] = {
    "setup": Scenario(lambda world, saver: saver.setup(), unharmed, unharmed),
    "put": Scenario(
        lambda world, saver: saver.put(parent_of(world), world.next, METADATA, {}),
        put_before_or_after,
        put_is_there,
    ),
    "put_writes": Scenario(
        lambda world, saver: saver.put_writes(
            parent_of(world), [("messages", "v" * 100_000), ("count", 1)], "late", "path"
        ),
        lambda world: None,
        writes_are_there,
    ),
    "get": Scenario(lambda world, saver: saver.get(config_of(world.thread)), unharmed, unharmed),
    "get_tuple": Scenario(
        lambda world, saver: saver.get_tuple(config_of(world.thread)), unharmed, unharmed
    ),
    "list": Scenario(
        lambda world, saver: list(saver.list(config_of(world.thread))), unharmed, unharmed
    ),
    "list_threads": Scenario(
        lambda world, saver: saver.list_threads(limit=5, count_checkpoints=True), unharmed, unharmed
    ),
    "update_thread": Scenario(
        lambda world, saver: saver.update_thread(world.thread, {"title": "Tea"}), unharmed, labelled
    ),
    "get_delta_channel_history": Scenario(
        lambda world, saver: saver.get_delta_channel_history(
            config=parent_of(world), channels=["messages"]
        ),
        unharmed,
        unharmed,
    ),
    "delete_thread": Scenario(
        lambda world, saver: saver.delete_thread(world.thread), readable, thread_is_gone
    ),
    "delete_for_runs": Scenario(
        lambda world, saver: saver.delete_for_runs([f"run-{world.thread}-1"]),
        readable,
        middle_is_gone,
    ),
    "copy_thread": Scenario(
        lambda world, saver: saver.copy_thread(world.thread, world.copy), unharmed, copied
    ),
    "prune": Scenario(lambda world, saver: saver.prune([world.thread]), readable, only_the_newest),
    "delete_idle_threads": Scenario(
        lambda world, saver: saver.delete_idle_threads(timedelta(microseconds=1)),
        readable,
        thread_is_gone,
    ),
    "apply_retention": Scenario(
        lambda world, saver: saver.apply_retention(Retention(keep_last=1)),
        readable,
        only_the_newest,
    ),
}

WITHOUT_COMMANDS = {"close", "from_conn_string", "get_next_version", "with_allowlist"}


def public_methods() -> set[str]:
    return {
        name
        for name, member in inspect.getmembers(MongoSaver)
        if callable(member)
        and not name.startswith("_")
        and not (name[0] == "a" and hasattr(MongoSaver, name[1:]))
    }


def test_every_public_method_has_a_scenario() -> None:
    assert public_methods() - WITHOUT_COMMANDS == SCENARIOS.keys()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_failure_at_any_command_harms_nothing(
    name: str, mongo_client: MongoClient, database_name: str
) -> None:
    scenario = SCENARIOS[name]
    failures = 0
    for performed in PERFORMED:
        for at in range(MOST_COMMANDS):
            world = World(mongo_client, database_name)
            saver, runner = world.failing(at, performed)
            try:
                scenario.call(world, saver)
            except AutoReconnect:
                failures += 1
                scenario.halfway(world)
                scenario.call(world, saver)
                scenario.call(world, world.saver())
            scenario.finally_(world)
            mongo_client[database_name]["mongomem_checkpoints"].delete_many({})
            mongo_client[database_name]["mongomem_checkpoint_writes"].delete_many({})
            if runner.count <= at:
                break
        else:
            pytest.fail(f"{name} takes more than {MOST_COMMANDS} commands")
    assert failures > 0


def test_a_warm_put_that_loses_its_reply_can_be_repeated(
    mongo_client: MongoClient, database_name: str
) -> None:
    world = World(mongo_client, database_name)
    saver = world.saver()
    saver.get_tuple(parent_of(world))
    saver.put(parent_of(world), checkpoint_of(saver, LONG[:35]), METADATA, {})
    runner = FailingRunner(saver._runners.run.database, 0, performed=True)  # type: ignore[attr-defined]
    saver._runners = Runners(runner, saver._runners.arun)
    latest = world.tuples(world.thread)[0]
    following = checkpoint_of(saver, LONG)
    with pytest.raises(AutoReconnect):
        saver.put(latest.config, following, METADATA, {})
    assert saver.put(latest.config, following, METADATA, {}) == config_of(
        world.thread, following["id"]
    )
    newest, *older = world.tuples(world.thread)
    assert (newest.checkpoint, older[0]) == (following, latest)
