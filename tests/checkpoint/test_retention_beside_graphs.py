"""Graphs of many kinds whose threads a retention prunes after each step and meanwhile, compared
with the same graphs on the in-memory saver, which keeps everything.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.types import Command
from pymongo import MongoClient

from mongomem import MongoSaver, Retention
from mongomem.checkpoint.documents.ancestry import CheckpointNode, Wait, plan_removal
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.plans.prune import read_roots
from mongomem.checkpoint.retention.background import MARGIN, RetentionWork, step
from support.graphs import asking, chain_of, counting, mapping, nested
from support.stores import Clock
from support.waits import HANG_SECONDS

pytestmark = pytest.mark.shares_database

ROOT = Path(__file__).parents[2]
GRACE = timedelta(hours=1)
LAST = Retention(keep_last=1)
LONG = "x" * 3000

Made = Callable[[Any], Any]

GRAPHS: Mapping[str, Made] = {
    "asking": lambda saver: asking(saver, questions=2, side_by_side=2),
    "subgraphs": nested,
    "subgraphs with memories": lambda saver: nested(saver, child_saver=True),
    "sends": lambda saver: mapping(saver, str),
    "chain": lambda saver: chain_of(saver, "one", "two"),
    "rebuilt": lambda saver: counting(saver, 1000),
    "snapshots": lambda saver: counting(saver, 3),
}


def config_of(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def given_to(name: str, number: int) -> dict[str, Any]:
    return (
        {"items": [f"{number} {LONG}"]}
        if name in ("rebuilt", "snapshots")
        else {"topic": f"{number} {LONG}"}
    )


def seen(graph: Any, config: Any) -> Any:
    """Return what a thread shows, its subgraphs too, without ids."""

    def shown(state: Any) -> Any:
        if not hasattr(state, "values"):
            return None
        asked = sorted(repr(one.value) for one in state.interrupts)
        tasks = [(task.name, shown(task.state)) for task in state.tasks]
        return state.values, state.next, asked, tasks

    return shown(graph.get_state(config, subgraphs=True))


def steps(graph: Any, config: Any, name: str, turns: int = 3) -> Iterator[Any]:
    """Take turns, answer what is asked, one task after the other, and change the state by hand;
    give what is seen behind each step.
    """
    for number in range(turns):
        graph.invoke(given_to(name, number), config)
        yield seen(graph, config)
        for _ in range(6):
            interrupts = graph.get_state(config).interrupts
            if not interrupts:
                break
            first = min(interrupts, key=lambda one: repr(one.value))
            graph.invoke(Command(resume={first.id: f"answer to {first.value}"}), config)
            yield seen(graph, config)
        graph.update_state(config, given_to(name, 100 + number))
        yield seen(graph, config)


def a_round(saver: MongoSaver, policy: Retention) -> None:
    """Carry out a round of the retention that goes on beside puts."""
    settings = saver._runners.run.database["mongomem_checkpoint_settings"]  # type: ignore[attr-defined]
    for _ in range(100):
        work = RetentionWork()
        saver._runners.run(step(saver._context(), work, policy))
        assert not work.has_failed
        if settings.find_one({"_id": "retention"})["ended_at"] is not None:
            return
    raise AssertionError("the round does not end")


def assert_nothing_is_missing(saver: MongoSaver, thread_id: str) -> None:
    """Fail where a chunk is missing that anything of a thread leads to."""
    roots = saver._runners.run(read_roots(saver._context(), thread_id))
    stored = saver._runners.run.database["mongomem_checkpoints"]  # type: ignore[attr-defined]
    held = {
        one["_id"] for one in stored.find({"type": "chunk", "thread_id": thread_id}, {"_id": 1})
    }
    assert {*roots.living} <= held
    for one in saver.list(config_of(thread_id)):
        assert one.parent_config is None or saver.get_tuple(one.parent_config) is not None


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_retention_behind_each_step_changes_nothing_that_a_graph_sees(
    name: str, encrypted: bool, mongo_client: MongoClient, database_name: str
) -> None:
    clock = Clock()
    aes = EncryptedSerializer.from_pycryptodome_aes(key=b"sixteen bytes...")
    options: dict[str, Any] = {"clock": clock, "grace": GRACE, "serde": aes if encrypted else None}
    saver = MongoSaver(mongo_client, database_name, **options)
    old, new = GRAPHS[name](InMemorySaver()), GRAPHS[name](saver)
    config = config_of("t")
    both = zip(steps(old, config, name), steps(new, config, name), strict=True)
    for number, (expected, found) in enumerate(both):
        assert found == expected
        clock.advance(minutes=1)
        if number % 2:
            a_round(MongoSaver(mongo_client, database_name, **options), LAST)
        else:
            assert saver.apply_retention(LAST).left_out == {}
        clock.now += GRACE + MARGIN
        assert len([*saver.list({"configurable": {"thread_id": "t", "checkpoint_ns": ""}})]) == 1
        assert seen(new, config) == expected
        fresh = MongoSaver(mongo_client, database_name, **options)
        assert seen(GRAPHS[name](fresh), config) == expected
        assert_nothing_is_missing(fresh, "t")


# A run that is going on.


@pytest.mark.parametrize("frequency", [2, 3, 7, 1000])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_slow_run_keeps_what_it_began_at(
    frequency: int, at_once: bool, mongo_client: MongoClient, database_name: str
) -> None:
    """Others go on with the thread meanwhile, and it is pruned: what the run puts is rebuilt from
    a checkpoint that is no longer among the newest.
    """
    clock = Clock()
    options: dict[str, Any] = {"clock": clock, "grace": GRACE}
    slow, fast = (MongoSaver(mongo_client, database_name, **options) for _ in range(2))
    config = config_of("t")
    for number in range(3):
        counting(slow, frequency).invoke(given_to("rebuilt", number), config)
    run = counting(slow, frequency).stream(
        given_to("rebuilt", 100), config, stream_mode="values", durability="sync"
    )
    next(run)
    for number in range(4):
        counting(fast, frequency).invoke(given_to("rebuilt", number), config)
        clock.advance(minutes=5)
        if at_once:
            fast.apply_retention(LAST)
        else:
            a_round(fast, Retention(keep_last=1, older_than=timedelta(minutes=number + 1)))
    (*_, last) = run
    fresh = MongoSaver(mongo_client, database_name, **options)
    assert counting(fresh, frequency).get_state(config).values == last
    clock.now += GRACE + MARGIN
    for _ in range(2):
        fresh.apply_retention(LAST)
        clock.now += GRACE + MARGIN
    assert counting(fresh, frequency).get_state(config).values == last
    assert_nothing_is_missing(fresh, "t")


def test_what_waited_for_the_grace_goes(mongo_client: MongoClient, database_name: str) -> None:
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock, grace=GRACE)
    stored = mongo_client[database_name]["mongomem_checkpoints"]
    config = config_of("t")
    for number in range(6):
        counting(saver, 2).invoke(given_to("rebuilt", number), config)
    expected = counting(saver, 2).get_state(config).values
    dry = saver.apply_retention(LAST, dry_run=True)
    assert saver.apply_retention(LAST) == dry
    assert dry.pruned[0].removed == []
    assert len(dry.pruned[0].hidden) == 17
    assert len(list(saver.list(config))) == 1
    clock.advance(minutes=30)
    assert saver.apply_retention(LAST).pruned == []
    assert stored.count_documents({"type": "checkpoint"}) == 18
    clock.now += GRACE
    assert len(saver.apply_retention(LAST).pruned[0].removed) > 10
    assert stored.count_documents({"type": "checkpoint"}) < 8
    assert counting(saver, 2).get_state(config).values == expected


def test_rounds_collect_what_waited_and_its_chunks(
    mongo_client: MongoClient, database_name: str
) -> None:
    """Of a thread that nobody updates any more: hidden first, then removed, then its chunks."""
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock, grace=GRACE)
    config, graph = config_of("t"), counting(saver, 2)
    stored = mongo_client[database_name]["mongomem_checkpoints"]

    def rounds(count: int) -> Iterator[tuple[int, int]]:
        for _ in range(count):
            a_round(saver, LAST)
            yield (
                stored.count_documents({"type": "checkpoint"}),
                stored.count_documents({"idle_since": {"$exists": True}}),
            )
            clock.now += GRACE + MARGIN

    graph.invoke(given_to("rebuilt", 0), config)
    (*_,) = rounds(6)  # the first ones go through all threads
    for number in range(6):
        graph.invoke(given_to("rebuilt", number), config)
        graph.update_state(config, {"last": random.Random(number).randbytes(9000).hex()})
    expected = graph.get_state(config).values
    clock.advance(minutes=1)
    hidden, removed, collected, *later = rounds(5)
    assert hidden[0] > removed[0]
    assert removed[1] > 0
    assert collected == (removed[0], 0)
    assert later == [collected] * 2
    assert graph.get_state(config).values == expected


def node(number: int, *, hidden: bool = False, hidden_at: Any = None, delta: str = "a") -> Any:
    ref = CheckpointRef("t", "", f"{number}")
    parent = f"{number - 1}" if number else None
    created_at = Clock().now
    return CheckpointNode(
        ref, parent, created_at, hidden, hidden_at, delta=frozenset(delta), versioned=frozenset("a")
    )


@pytest.mark.parametrize(
    ("since", "stays"),
    [(None, False), (GRACE, False), (2 * GRACE, False), (GRACE / 2, True), (-GRACE, True)],
)
def test_what_was_hidden_before_waits_from_then_on(since: Any, stays: bool) -> None:
    now = Clock().now
    old = node(1, hidden=True, hidden_at=None if since is None else now - since)
    newest = CheckpointNode(CheckpointRef("t", "", "9"), None, now, delta=frozenset("a"))
    what = plan_removal([old, newest], set(), Wait(now, GRACE))
    assert (what.removed == [old.ref]) is not stays
    assert what.hidden == []


def test_where_nothing_is_rebuilt_nothing_waits() -> None:
    now = Clock().now
    nodes = [node(number, delta="") for number in range(3)]
    going = {one.ref for one in nodes[:-1]}
    assert {*plan_removal(nodes, going, Wait(now, GRACE)).removed} == going


# Other processes.

RETAINER = """
import sys
from datetime import timedelta
from pathlib import Path
from pymongo import MongoClient
from mongomem import MongoSaver, Retention
from mongomem.checkpoint.retention.background import RetentionWork, step

uri, name, way, stop = sys.argv[1:]
policy = Retention(keep_last=1)
saver = MongoSaver(MongoClient(uri), name, grace=timedelta(seconds=20))
print("ready", flush=True)
for _ in range(100_000):
    if Path(stop).exists():
        break
    if way == "at once":
        assert saver.apply_retention(policy).left_out == {}
        continue
    saver._runners.run(step(saver._context(), RetentionWork(), policy))
    # The next round begins at once.
    settings = saver._runners.run.database["mongomem_checkpoint_settings"]
    settings.update_one({"_id": "retention", "holder": None}, {"$unset": {"began": ""}})
"""
"""A process that prunes all threads again and again."""


@contextmanager
def retaining(uri: str, name: str, way: str, stop: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", RETAINER, uri, name, way, str(stop)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=HANG_SECONDS)


def test_graphs_run_while_two_processes_prune_their_threads(
    mongo_uri: str, mongo_client: MongoClient, database_name: str, tmp_path: Path
) -> None:
    """One of them is killed, wherever in its work it is."""
    stop = tmp_path / "stop"
    saver = MongoSaver(mongo_client, database_name, grace=timedelta(seconds=20))
    with (
        retaining(mongo_uri, database_name, "at once", stop) as one,
        retaining(mongo_uri, database_name, "by steps", stop) as other,
    ):
        for name, make in GRAPHS.items():
            config = config_of(name)
            old, new = make(InMemorySaver()), make(saver)
            for expected, found in zip(
                steps(old, config, name, 2), steps(new, config, name, 2), strict=True
            ):
                assert found == expected
            if name == "sends":
                other.kill()
                other.wait(HANG_SECONDS)
        stop.touch()
        _, errors = one.communicate(timeout=HANG_SECONDS)
        assert (one.returncode, errors) == (0, "")
    fresh = MongoSaver(mongo_client, database_name)
    for name, make in GRAPHS.items():
        assert_nothing_is_missing(fresh, name)
        assert seen(make(fresh), config_of(name)) == seen(make(saver), config_of(name))
