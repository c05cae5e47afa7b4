"""Tombstones: what a deletion fences off is not shown, and goes with the tombstone once the grace
is over.

A put is several statements of one command. `Split` lets a whole deletion run between two of them.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import mongomock
import pytest
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from pymongo import MongoClient
from pymongo.errors import AutoReconnect

from mongomem import MongoMemory, MongoSaver
from mongomem.checkpoint.documents.collections import THREAD
from mongomem.checkpoint.plans import copy_thread as copy_thread_plan
from mongomem.checkpoint.plans import delete as delete_plan
from mongomem.checkpoint.plans import put as put_plan
from mongomem.checkpoint.plans import put_writes as put_writes_plan
from mongomem.checkpoint.plans import read as read_plan
from mongomem.engine.commands import DatabaseCommand, Find
from mongomem.engine.runners import Runners
from mongomem.testing import FailingRunner, RecordingRunner
from support.stepping import Split, Stepped

GRACE = timedelta(hours=1)
TEXT = random.Random(4).randbytes(60_000).hex()
METADATA: Any = {"source": "loop", "step": 0, "parents": {}, "run_id": "run"}
COLLECTIONS = ("mongomem_checkpoints", "mongomem_checkpoint_writes")


def config(thread: str = "t", checkpoint_id: str | None = None, **more: Any) -> Any:
    own = {"checkpoint_id": checkpoint_id} if checkpoint_id else {}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **own, **more}}


def checkpoint(values: dict[str, Any], version: str = "1", checkpoint_id: str | None = None) -> Any:
    return {
        "v": 4,
        "id": checkpoint_id or str(uuid6()),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": {
            channel: "1" if channel == "static" else version for channel in values
        },
        "versions_seen": {},
        "updated_channels": None,
    }


class World:
    """A database and a clock; every saver is a process of its own."""

    def __init__(self, client: Any, name: str) -> None:
        self.client, self.name = client, name
        self.now = datetime.now(timezone.utc).replace(microsecond=0)

    def saver(self, runner: Any = None, **options: Any) -> MongoSaver:
        saver = MongoSaver(
            self.client, self.name, clock=lambda: self.now, grace=GRACE, auto_setup=False, **options
        )
        saver._caches.setup_state.is_ours, saver._caches.setup_state.tombstones_looked_for_at = (
            True,
            self.now,
        )
        if runner is not None:
            saver._runners = Runners(runner, saver._runners.arun)
        return saver

    def memory(self, **options: Any) -> MongoMemory:
        own = {"clock": lambda: self.now, "grace": GRACE, **options.pop("saver_options", {})}
        return MongoMemory(self.client, self.name, saver_options=own, **options)

    @property
    def database(self) -> Any:
        return self.saver()._runners.run.database  # type: ignore[attr-defined]

    def documents(self) -> list[dict[str, Any]]:
        return [one for name in COLLECTIONS for one in self.client[self.name][name].find()]

    def clean(self) -> None:
        saver = self.saver()
        saver._runners.run(delete_plan.remove_tombstones(saver._context()))


@pytest.fixture(params=["mongod", "mongomock"])
def world(request: Any, mongo_client: MongoClient, database_name: str) -> World:
    return World(
        mongo_client if request.param == "mongod" else mongomock.MongoClient(), database_name
    )


def straddle(world: World, delete: Callable[[], Any], **options: Any) -> Any:
    """Put a checkpoint whose thread is deleted between its statements; return its config."""
    warm = world.saver(**options)
    first = warm.put(config(user_id="ada"), checkpoint({"static": TEXT, "count": 1}), METADATA, {})
    warm._runners = Runners(Split(world.database, delete), warm._runners.arun)
    late = warm.put(
        {"configurable": {**first["configurable"], "user_id": "ada"}},
        checkpoint({"static": TEXT, "count": 2}, "2"),
        METADATA,
        {},
    )
    assert warm._runners.run.has_split  # type: ignore[attr-defined]
    return late


def delete(world: World) -> None:
    world.saver().delete_thread("t")


DELETIONS: dict[str, Callable[[World], Any]] = {
    "delete_thread": delete,
    "prune": lambda world: world.saver().prune(["t"], strategy="delete"),
    "delete_idle_threads": lambda world: _idle(world),
    "erase_user": lambda world: world.memory().erase_user("ada"),
    "delete_for_runs": lambda world: world.saver().delete_for_runs(["run"]),
}


def _idle(world: World) -> None:
    world.now += timedelta(minutes=1)
    world.saver().delete_idle_threads(timedelta(seconds=1))


def nothing_is_shown(world: World, late: Any) -> None:
    for saver in (world.saver(), world.saver(cache_bytes=0)):
        assert saver.get_tuple(config()) is None
        assert saver.get_tuple(late) is None
        assert list(saver.list(config())) == list(saver.list(None)) == []
        assert list(saver.list(config(), filter={"user_id": "ada"})) == []
        assert saver.list_threads() == []
        assert saver.get_delta_channel_history(config=late, channels=["static"]) == {
            "static": {"writes": []}
        }


@pytest.mark.parametrize("name", DELETIONS)
def test_a_put_that_a_deletion_overtook_is_not_shown_and_goes(world: World, name: str) -> None:
    late = straddle(world, lambda: DELETIONS[name](world))
    assert [one["type"] for one in world.documents()] == ["thread", "checkpoint"]
    nothing_is_shown(world, late)
    world.clean()
    assert len(world.documents()) == 2, "the grace is not over"
    world.now += GRACE
    world.clean()
    assert world.documents() == []
    nothing_is_shown(world, late)


def test_the_same_process_does_not_show_it_either(world: World) -> None:
    """Its caches say that the thread lives."""
    saver = world.saver()
    first = saver.put(config(), checkpoint({"count": 1}), METADATA, {})
    plain, saver._runners = (
        saver._runners,
        Runners(Split(world.database, lambda: delete(world)), saver._runners.arun),
    )
    late = saver.put(first, checkpoint({"count": 2}, "2"), METADATA, {})
    saver._runners = plain
    assert saver.get_tuple(late) is saver.get_tuple(config()) is None
    assert list(saver.list(config())) == []
    value = checkpoint({"count": 3}, "3")
    saver.put(late, value, METADATA, {})
    found = saver.get_tuple(config())
    assert found is not None
    assert found.checkpoint == value


HIGHEST = "ffffffff-ffff-6fff-bfff-ffffffffffff"


@pytest.mark.parametrize("writes", [0, 3, 70])
def test_what_lives_is_shown_also_below_one_that_has_ended(world: World, writes: int) -> None:
    """Ids are of the clocks of many machines: what has ended may have the highest one."""
    saver = world.saver()
    first = saver.put(config(), checkpoint({"count": 1}), METADATA, {})
    saver._runners = Runners(Split(world.database, lambda: delete(world)), saver._runners.arun)
    late = saver.put(first, checkpoint({"count": 2}, "2", HIGHEST), METADATA, {})
    values = [checkpoint({"static": TEXT, "count": number}, str(number)) for number in range(3)]
    at = config()
    for value in values:
        at = world.saver().put(at, value, METADATA, {})
    if writes:
        world.saver().put_writes(at, [("count", number) for number in range(writes)], "task")
    found = world.saver().get_tuple(config())
    assert found is not None
    assert found.checkpoint == values[-1]
    assert len(found.pending_writes or []) == writes
    assert world.saver().get_tuple(late) is None
    assert [one.checkpoint for one in world.saver().list(config())] == values[::-1]
    assert [one.checkpoint for one in world.saver().list(config(), limit=1)] == values[:1:-1]
    (history,) = (
        world.saver().get_delta_channel_history(config=config(), channels=["static"]).values()
    )
    assert history["seed"] == TEXT
    (thread,) = world.saver().list_threads(count_checkpoints=True)
    assert thread.checkpoint_count == 3


def test_a_new_life_is_cleaned_of_the_former_one(world: World) -> None:
    late = straddle(world, lambda: delete(world))
    world.saver().put_writes(late, [("count", "late"), ("static", TEXT * 2)], "task")
    value = checkpoint({"static": TEXT, "count": 3}, "3")
    stored = world.saver().put(config(user_id="bob"), value, METADATA, {})
    world.saver().put_writes(stored, [("count", 4)], "task")
    world.now += GRACE
    world.clean()
    assert {one["checkpoint_id"] for one in world.documents() if "checkpoint_id" in one} == {
        value["id"]
    }
    assert "ended_at" not in world.client[world.name][COLLECTIONS[0]].find_one({"type": THREAD})
    found = world.saver().get_tuple(config())
    assert found is not None
    assert found.checkpoint == value
    assert found.pending_writes == [("task", "count", 4)]
    assert [one.metadata for one in world.saver().list_threads()] == [{"user_id": "bob"}]


def test_young_writes_on_a_new_life_wait_for_their_checkpoint(world: World) -> None:
    straddle(world, lambda: delete(world))
    world.saver().put(config(), checkpoint({"count": 1}), METADATA, {})
    world.now += GRACE
    value = checkpoint({"count": 2}, "2")
    world.saver().put_writes(config(checkpoint_id=value["id"]), [("count", 3)], "task")
    world.clean()
    stored = world.saver().put(config(), value, METADATA, {})
    found = world.saver().get_tuple(stored)
    assert found is not None
    assert found.pending_writes == [("task", "count", 3)]
    world.saver().put_writes(config(checkpoint_id="of the former life"), [("count", 3)], "task")
    for _ in range(2):
        world.now += GRACE
        world.clean()
    assert {one.get("checkpoint_id") for one in world.documents()} >= {value["id"]}
    assert "of the former life" not in {one.get("checkpoint_id") for one in world.documents()}


@pytest.mark.parametrize("length", [1, 100_000])
def test_writes_that_come_after_a_deletion_go_with_the_tombstone(world: World, length: int) -> None:
    first = world.saver().put(config(), checkpoint({"count": 1}), METADATA, {})
    delete(world)
    world.now += GRACE / 2
    world.saver().put_writes(first, [("text", TEXT[:length])], "task")
    world.now += GRACE / 2
    world.clean()
    assert len(world.documents()) > 1, "it may still be a write that waits for its checkpoint"
    world.now += GRACE
    world.clean()
    assert world.documents() == []


def test_a_thread_that_never_got_a_checkpoint_goes(world: World) -> None:
    world.saver().put_writes(config(checkpoint_id="never"), [("text", TEXT)], "task")
    assert world.documents() != []
    assert world.saver().list_threads() == []
    world.now += GRACE
    world.clean()
    assert world.documents() == []


def test_writes_before_their_checkpoint_are_kept(world: World) -> None:
    value = checkpoint({"count": 1})
    at = config(checkpoint_id=value["id"])
    world.saver().put_writes(at, [("text", TEXT)], "task")
    world.now += GRACE / 2
    world.clean()
    world.saver().put(config(), value, METADATA, {})
    world.now += GRACE * 2
    world.clean()
    found = world.saver().get_tuple(at)
    assert found is not None
    assert found.pending_writes == [("task", "text", TEXT)]


CLEANERS: dict[str, Callable[[World], Any]] = {
    "delete_thread": lambda world: world.saver().delete_thread("other"),
    "prune": lambda world: world.saver().prune(["other"]),
    "delete_idle_threads": lambda world: world.saver().delete_idle_threads(timedelta(days=9)),
    "erase_user": lambda world: world.memory().erase_user("nobody"),
    "setup": lambda world: world.saver().setup(),
    "put": lambda world: world.saver().put(config("other"), checkpoint({"count": 1}), METADATA, {}),
}


@pytest.mark.parametrize("name", CLEANERS)
def test_what_cleans(world: World, name: str) -> None:
    straddle(world, lambda: delete(world))
    world.now += GRACE
    saver = world.saver
    world.saver = lambda *given, **more: _forgetful(saver(*given, **more))  # type: ignore[method-assign]
    CLEANERS[name](world)
    assert {one["thread_id"] for one in world.documents()} <= {"other"}


def _forgetful(saver: MongoSaver) -> MongoSaver:
    saver._caches.setup_state.tombstones_looked_for_at = None
    return saver


@pytest.mark.parametrize("name", ["prune", "delete_idle_threads"])
def test_a_dry_run_cleans_nothing(world: World, name: str) -> None:
    straddle(world, lambda: delete(world))
    world.now += GRACE
    before = world.documents()
    if name == "prune":
        world.saver().prune(["other"], dry_run=True)
    else:
        world.saver().delete_idle_threads(timedelta(days=9), dry_run=True)
    assert world.documents() == before


def test_a_put_looks_once_a_grace_and_with_one_command(world: World) -> None:
    saver = world.saver()
    runner = RecordingRunner(world.database)
    saver._runners = Runners(runner, saver._runners.arun)
    at, counts = config(), []
    for number in range(8):
        runner.commands.clear()
        at = saver.put(at, checkpoint({"count": number}, str(number)), METADATA, {})
        counts.append(sum(isinstance(one, DatabaseCommand) for one in runner.commands))
        world.now += GRACE / 2
    assert counts[1:] == [1, 2, 1, 2, 1, 2, 1]


def test_a_clock_that_was_set_back_does_not_end_the_looks(world: World) -> None:
    saver = world.saver()
    saver.put(config("gone"), checkpoint({"count": 1}), METADATA, {})
    saver.delete_thread("gone")
    world.now += GRACE
    saver._caches.setup_state.tombstones_looked_for_at = world.now + 1000 * GRACE
    saver.put(config(), checkpoint({"count": 1}), METADATA, {})
    assert {one["thread_id"] for one in world.documents()} == {"t"}


def test_a_look_that_fails_does_not_fail_the_put(world: World) -> None:
    recording = RecordingRunner(world.database)
    saver = _forgetful(world.saver(recording))
    saver.put(config("other"), checkpoint({"count": 1}), METADATA, {})
    assert isinstance(recording.commands[-1], Find)
    failing = FailingRunner(
        world.database, len(recording.commands) - 1, error=AutoReconnect("lost")
    )
    stored = _forgetful(world.saver(failing)).put(config(), checkpoint({"count": 1}), METADATA, {})
    assert failing.count == len(recording.commands)
    assert world.saver().get_tuple(stored) is not None


def test_each_look_is_bounded_and_the_next_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_plan, "MOST_AT_ONCE", 3)
    saver = world.saver()
    for number in range(8):
        saver.put(config(str(number)), checkpoint({"count": 1}), METADATA, {})
        saver._runners.run(delete_plan.delete_thread(saver._context(), str(number)))
    world.now += GRACE
    saver = _forgetful(world.saver())
    left = []
    for _ in range(4):
        left.append(len(world.documents()))
        saver._runners.run(delete_plan.clean_now_and_then(saver._context()))
    assert left == [8, 5, 2, 0]


@pytest.mark.parametrize("encrypts", [False, True])
def test_a_tombstone_says_nothing_of_the_thread(world: World, encrypts: bool) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef") if encrypts else None
    options: dict[str, Any] = {
        "serde": serde,
        "clear_metadata": ["user_id", "title", "topic", "preview"],
    }
    saver = world.saver(**options)
    at = saver.put(
        config(user_id="ada", topic="canary"), checkpoint({"messages": ["canary"]}), METADATA, {}
    )
    saver.update_thread("t", {"title": "canary"})
    saver.put_writes(at, [("count", "canary")], "task")
    assert "canary" in str(world.documents())
    saver.delete_thread("t")
    (tombstone,) = world.documents()
    told = {"_id", "thread_id", "type", "epoch", "generation", "schema_version"}
    told |= {"created_at", "touched_at", "stamped_at", "deleted_at"} | (
        {"name_key"} if encrypts else set()
    )
    assert tombstone.keys() == told


@pytest.mark.parametrize("broken_off_at", range(7))
@pytest.mark.parametrize("finish", ["erase", "clean"])
def test_a_deletion_that_broke_off_is_finished(
    world: World, broken_off_at: int, finish: str
) -> None:
    saver = world.saver()
    saver.put(config(user_id="ada"), checkpoint({"static": TEXT}), METADATA, {})
    saver._runners = Runners(FailingRunner(world.database, broken_off_at + 1), saver._runners.arun)
    with pytest.raises(AutoReconnect):
        saver.delete_thread("t")
    if finish == "erase":
        world.memory().erase_user("ada")
        assert [
            one.keys() & {"members", "identity", "updated_at"} for one in world.documents()
        ] == [set()]
    world.now += GRACE
    world.clean()
    if broken_off_at or finish == "erase":
        assert world.documents() == []


def test_a_stale_process_begins_a_new_life_once_the_tombstone_is_gone(world: World) -> None:
    stale = world.saver()
    first = stale.put(config(user_id="ada"), checkpoint({"static": TEXT, "count": 1}), METADATA, {})
    stale.update_thread("t", {"title": "old"})
    delete(world)
    world.now += GRACE
    world.clean()
    assert world.documents() == []
    value = checkpoint({"static": TEXT, "count": 2}, "2")
    seen: list[Any] = []

    def read() -> None:
        seen.append(
            (
                world.saver().get_tuple(config()),
                list(world.saver().list(None)),
                world.saver().list_threads(),
            )
        )

    stale._runners = Runners(Split(world.database, read), stale._runners.arun)
    stored = stale.put(first, value, METADATA, {})
    assert seen == [(None, [], [])]
    for saver in (stale, world.saver()):
        saver._runners = world.saver()._runners
        found = saver.get_tuple(stored)
        assert found is not None
        assert found.checkpoint == value
        assert [one.metadata for one in saver.list_threads()] == [{}]


@pytest.mark.parametrize("performed", [False, 1, 2, True])
def test_a_stale_process_that_breaks_off_leaves_what_is_cleaned(
    world: World, performed: bool | int
) -> None:
    for at in range(9):
        stale = world.saver()
        first = stale.put(config(), checkpoint({"static": TEXT, "count": 1}), METADATA, {})
        delete(world)
        world.now += GRACE
        world.clean()
        failing = FailingRunner(world.database, at, performed)
        stale._runners = Runners(failing, stale._runners.arun)
        value = checkpoint({"static": TEXT, "count": 2}, "2")
        with suppress(AutoReconnect):
            stale.put(first, value, METADATA, {})
        shown = [one.checkpoint for one in world.saver().list(None)]
        assert shown in ([], [value])
        assert [one.thread_id for one in world.saver().list_threads()] in ([], ["t"])
        if not shown:
            world.now += GRACE
            world.clean()
            assert {one["type"] for one in world.documents()} <= {"thread", "chunk"}
        world.saver().delete_thread("t")
        world.now += GRACE
        world.clean()
        assert world.documents() == []
    assert failing.count <= at


def test_a_copy_onto_a_thread_that_has_gone_is_whole(world: World) -> None:
    value = checkpoint({"static": TEXT})
    world.saver().put(config(), value, METADATA, {})
    world.saver().put(config("copy"), checkpoint({"static": TEXT[:9000]}), METADATA, {})
    for nth in itertools.count(1):
        stepped = Stepped(
            copy_thread_plan.copy_thread(world.saver()._context(), "t", "copy"), world.database
        ).to(DatabaseCommand, nth=nth)
        if stepped.command is None:
            break
        world.saver().delete_thread("copy")
        world.client[world.name][COLLECTIONS[0]].delete_many({"thread_id": "copy"})
        stepped.finish()
        listed = [one.checkpoint for one in world.saver().list(config("copy"))]
        assert listed in ([], [value]), nth
        world.saver().copy_thread("t", "copy")
        assert [one.checkpoint for one in world.saver().list(config("copy"))] == [value]
    assert nth > 5


SNAPSHOTS: dict[str, list[dict[str, Any]]] = {}


def dead_world(value: Any) -> tuple[World, dict[str, Any]]:
    """Make a thread whose tombstone is due, with what came behind it, and plans of processes that
    meet there.
    """
    world = World(mongomock.MongoClient(), "d")
    stale = world.saver()
    first = stale.put(config(), checkpoint({"static": TEXT, "count": 1}), METADATA, {})
    straddle(world, lambda: delete(world))
    world.now += GRACE
    return world, {
        "clean": lambda: delete_plan.remove_tombstones(world.saver()._context()),
        "put": lambda: put_plan.put(world.saver()._context(), config(), value, METADATA),
        "stale put": lambda: put_plan.put(stale._context(), first, value, METADATA),
        "put_writes": lambda: put_writes_plan.put_writes(
            world.saver()._context(),
            config(checkpoint_id=value["id"]),
            [("static", TEXT * 2)],
            "task",
            "",
        ),
        "get": lambda: read_plan.get_tuple(world.saver()._context(), config()),
        "delete_thread": lambda: delete_plan.delete_thread(world.saver()._context(), "t"),
    }


PAIRS = [
    ("put", "clean"),
    ("stale put", "clean"),
    ("put_writes", "clean"),
    ("clean", "clean"),
    ("delete_thread", "clean"),
]


def orders(first: int, second: int) -> Iterator[list[int]]:
    for places in itertools.combinations(range(first + second), first):
        yield [0 if place in places else 1 for place in range(first + second)]


def steps_of(name: str) -> int:
    world, plans = dead_world(checkpoint({"static": TEXT, "count": 2}, "2"))
    stepped, count = Stepped(plans[name](), world.database), 0
    while stepped.command is not None:
        stepped.step()
        count += 1
    return count


@pytest.mark.parametrize("names", PAIRS, ids=" and ".join)
def test_every_order_of_a_put_and_of_cleaning(names: tuple[str, str]) -> None:
    found_orders = list(orders(*map(steps_of, names)))
    chance = random.Random(5)
    for order in chance.sample(found_orders, min(len(found_orders), 60)):
        value = checkpoint({"static": TEXT, "count": 2}, "2")
        world, plans = dead_world(value)
        processes = [Stepped(plans[name](), world.database) for name in names]
        for index in order:
            processes[index].step()
            shown = world.saver().get_tuple(config())
            assert shown is None or shown.checkpoint == value, order
        for process in processes:
            process.finish()
        is_put = {"put", "stale put"} & {*names}
        if "put_writes" in names:
            world.saver().put(config(), value, METADATA, {})
        found = world.saver().get_tuple(config(checkpoint_id=value["id"]))
        assert (found is not None) == bool(is_put or "put_writes" in names), order
        if found is not None:
            assert found.checkpoint == value
            assert found.pending_writes == (
                [("task", "static", TEXT * 2)] if "put_writes" in names else []
            ), order
        for _ in range(3):
            world.now += GRACE
            world.clean()
        ids = {one["checkpoint_id"] for one in world.documents() if "checkpoint_id" in one}
        assert ids == ({value["id"]} if found is not None else set()), order
        if found is None:
            assert world.documents() == []


def test_the_split_is_where_it_should_be(world: World) -> None:
    """This file is worth nothing if the deletion does not run between the thread and the
    checkpoint.
    """
    kinds: list[Any] = []

    def look() -> None:
        kinds.extend(one["type"] for one in world.documents() if one["type"] != "chunk")
        delete(world)

    straddle(world, look)
    assert kinds == ["thread", "checkpoint"]
    commands = RecordingRunner(world.database)
    saver = world.saver()
    commands(delete_plan.remove_tombstones(saver._context()))
    assert [type(one) for one in commands.commands] == [Find]
