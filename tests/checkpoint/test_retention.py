"""What goes by a retention policy: at once and in rounds beside the puts, against a plain
computation; what waits for an answer; what is left out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from bson import Binary
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from pymongo import MongoClient

from mongomem import ConfigurationError, MongoMemory, MongoSaver, Retention
from mongomem.checkpoint.documents.collections import CHUNK, thread_doc_id
from mongomem.checkpoint.plans.prune import PruneReport
from mongomem.checkpoint.retention.background import MARGIN, RetentionWork, step
from mongomem.checkpoint.retention.sweep import PAGE_SIZE, RetentionReport
from mongomem.engine.commands import UpdateMany
from support.graphs import asking, nested
from support.savers import KINDS, Calls, saver_of
from support.stepping import Stepped
from support.stores import Clock

pytestmark = pytest.mark.shares_database

GRACE = timedelta(hours=1)
HOUR = timedelta(hours=1)
METADATA: Any = {"source": "loop", "step": 0, "parents": {}}
NAMESPACES = ("", "child")


def config_of(thread_id: str, namespace: str = "", checkpoint_id: str | None = None) -> Any:
    place = {"thread_id": thread_id, "checkpoint_ns": namespace}
    return {"configurable": place | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


def checkpoint_of(text: str = "x") -> Any:
    return {
        "v": 4,
        "id": str(uuid6()),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": {"a": text},
        "channel_versions": {"a": f"{random.random()}"},
        "versions_seen": {},
        "updated_channels": None,
    }


@dataclass
class Model:
    """What a plain computation knows of threads: when what was put."""

    checkpoints: dict[str, dict[str, list[tuple[str, datetime]]]] = field(default_factory=dict)
    waiting: set[tuple[str, str]] = field(default_factory=set)

    def put(self, thread_id: str, namespace: str, checkpoint_id: str, now: datetime) -> None:
        own = self.checkpoints.setdefault(thread_id, {}).setdefault(namespace, [])
        own.append((checkpoint_id, now))
        self.waiting.discard((thread_id, namespace))

    def updated_at(self, thread_id: str) -> datetime:
        return max(at for own in self.checkpoints[thread_id].values() for _, at in own)

    def deleted(self, policy: Retention, now: datetime) -> set[str]:
        found = set()
        for thread_id in self.checkpoints:
            waits = any((thread_id, namespace) in self.waiting for namespace in NAMESPACES)
            age = policy.waiting_threads if waits else policy.idle_threads
            if age is not None and self.updated_at(thread_id) < now - age:
                found.add(thread_id)
        return found

    def removed(self, policy: Retention, now: datetime) -> dict[str, set[str]]:
        """Return the checkpoints that go from threads that stay."""
        found: dict[str, set[str]] = {}
        for thread_id in self.checkpoints.keys() - self.deleted(policy, now):
            for own in self.checkpoints[thread_id].values():
                for checkpoint_id, at in own[: -(policy.keep_last or 1)] if policy.prunes else ():
                    if policy.older_than is None or at < now - policy.older_than:
                        found.setdefault(thread_id, set()).add(checkpoint_id)
        return found

    def left(self, policy: Retention, now: datetime) -> dict[str, set[str]]:
        gone, removed = self.deleted(policy, now), self.removed(policy, now)
        return {
            thread_id: {one for own in namespaces.values() for one, _ in own}
            - removed.get(thread_id, set())
            for thread_id, namespaces in self.checkpoints.items()
            if thread_id not in gone
        }


def play(saver: MongoSaver, clock: Clock, chance: random.Random, puts: int) -> Model:
    """Put checkpoints on some threads, in two namespaces, with pauses and questions."""
    model, configs = Model(), dict[tuple[str, str], Any]()
    for _ in range(puts):
        thread_id, namespace = f"t{chance.randrange(6)}", chance.choice(NAMESPACES)
        config = configs.get((thread_id, namespace), config_of(thread_id, namespace))
        checkpoint = checkpoint_of(chance.choice(["short", "long " * 900]))
        placed = saver.put(config, checkpoint, METADATA, {})
        configs[thread_id, namespace] = placed
        model.put(thread_id, namespace, checkpoint["id"], clock.now)
        if chance.random() < 0.15:
            saver.put_writes(placed, [("__interrupt__", "well?")], "task")
            model.waiting.add((thread_id, namespace))
        clock.advance(minutes=chance.choice([0, 1, 30, 240]))
    return model


def policy_of(chance: random.Random) -> Retention:
    idle = chance.choice([None, 6 * HOUR, 12 * HOUR])
    while True:
        try:
            return Retention(
                keep_last=chance.choice([None, 1, 2, 5]),
                older_than=chance.choice([None, HOUR, 8 * HOUR]),
                idle_threads=idle,
                waiting_threads=chance.choice([None, 18 * HOUR]) if idle else None,
            )
        except ConfigurationError:
            continue  # one by which nothing would go


def left(saver: MongoSaver) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in saver.list(None):
        place = one.config["configurable"]
        found.setdefault(place["thread_id"], set()).add(place["checkpoint_id"])
    return found


def told(report: RetentionReport) -> tuple[set[str], dict[str, set[str]]]:
    """Return the threads and the checkpoints that a report tells of."""
    assert report.left_out == {}
    assert all(one.hidden == [] for one in report.pruned)
    removed = {
        one.thread_id: {config["configurable"]["checkpoint_id"] for config in one.removed}
        for one in report.pruned
    }
    return {one.thread_id for one in report.deleted}, removed


def a_round(saver: MongoSaver, policy: Retention) -> int:
    """Carry out a round by steps; return how many those were."""
    settings = saver._runners.run.database["mongomem_checkpoint_settings"]  # type: ignore[attr-defined]
    for number in range(1, 100):
        work = RetentionWork()
        saver._runners.run(step(saver._context(), work, policy))
        assert not work.has_failed
        if settings.find_one({"_id": "retention"})["ended_at"] is not None:
            return number
    raise AssertionError("the round does not end")


@pytest.mark.parametrize("seed", range(25))
def test_at_once_goes_what_a_plain_computation_says(
    seed: int, mongo_client: MongoClient, database_name: str
) -> None:
    chance, clock = random.Random(seed), Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock, grace=GRACE)
    model, policy = play(saver, clock, chance, 60), policy_of(chance)
    expected = model.deleted(policy, clock.now), model.removed(policy, clock.now)
    dry = saver.apply_retention(policy, dry_run=True)
    assert told(dry) == expected
    assert left(saver) == model.left(Retention(keep_last=999), clock.now)
    went = saver.apply_retention(policy)
    assert went == dry
    assert left(saver) == model.left(policy, clock.now)
    assert told(saver.apply_retention(policy)) == (set(), {})


@pytest.mark.parametrize("seed", range(25))
def test_rounds_leave_what_a_plain_computation_says(
    seed: int, mongo_client: MongoClient, database_name: str
) -> None:
    """Rounds beside puts. What comes to an age while its thread is not updated goes when the thread
    has come to it; at last nothing more is to go, and no garbage is left either.
    """
    chance, clock = random.Random(seed), Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock, grace=GRACE)
    policy, model = policy_of(chance), Model()
    for _ in range(3):
        model = merged(model, play(saver, clock, chance, 15))
        clock.advance(minutes=1)
        a_round(saver, policy)
        found, expected = left(saver), model.left(policy, clock.now)
        assert found.keys() == expected.keys()
        assert all(found[one] >= expected[one] for one in found)
        assert found == expected or policy.older_than is not None
        model = kept(model, found)
        clock.now += GRACE + MARGIN
    clock.now += timedelta(days=2)
    for _ in range(3):
        a_round(saver, policy)
        clock.now += GRACE + MARGIN
    assert left(saver) == model.left(policy, clock.now)
    chunks = mongo_client[database_name]["mongomem_checkpoints"]
    if policy.prunes:
        assert chunks.count_documents({"type": CHUNK, "idle_since": {"$exists": True}}) == 0
    for one in left(saver):
        assert saver.get_tuple(config_of(one, "")) or saver.get_tuple(config_of(one, "child"))


def merged(model: Model, later: Model) -> Model:
    """Return what is known after more was put."""
    for thread_id, namespaces in later.checkpoints.items():
        for namespace, own in namespaces.items():
            model.waiting.discard((thread_id, namespace))
            model.checkpoints.setdefault(thread_id, {}).setdefault(namespace, []).extend(own)
    model.waiting |= later.waiting
    return model


def kept(model: Model, ids: dict[str, set[str]]) -> Model:
    """Return what is known of the checkpoints that are left."""
    checkpoints = {
        thread_id: {
            namespace: [one for one in own if one[0] in ids[thread_id]]
            for namespace, own in namespaces.items()
        }
        for thread_id, namespaces in model.checkpoints.items()
        if thread_id in ids
    }
    return Model(checkpoints, {one for one in model.waiting if one[0] in ids})


# Rounds.


def test_a_round_goes_page_by_page_and_is_not_begun_again_too_soon(
    mongo_client: MongoClient, database_name: str
) -> None:
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock, grace=GRACE)
    policy = Retention(keep_last=1)
    for number in range(2 * PAGE_SIZE + 1):
        for _ in range(2):
            saver.put(config_of(f"t{number}"), checkpoint_of(), METADATA, {})
        clock.advance(minutes=0.01)
    assert a_round(saver, policy) == 3
    assert {len(ids) for ids in left(saver).values()} == {1}
    late = saver.put(config_of("late"), checkpoint_of(), METADATA, {})
    saver.put(late, checkpoint_of(), METADATA, {})
    work = RetentionWork()
    saver._runners.run(step(saver._context(), work, policy))
    assert len(left(saver)["late"]) == 2
    assert work.due_at is not None
    clock.now = work.due_at
    a_round(saver, policy)
    assert len(left(saver)["late"]) == 1


def test_another_policy_begins_anew(mongo_client: MongoClient, database_name: str) -> None:
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock)
    for _ in range(4):
        saver.put(config_of("t"), checkpoint_of(), METADATA, {})
    clock.advance(minutes=1)
    for keep_last in (3, 2, 1):
        a_round(saver, Retention(keep_last=keep_last))
        assert len(left(saver)["t"]) == keep_last


@pytest.mark.parametrize(
    "damage",
    [{"began": "yesterday"}, {"scan": -7}, {"behind": {}}, {"policy": None}, {"began": []}],
)
def test_a_record_that_is_damaged_begins_anew(
    damage: dict[str, Any], mongo_client: MongoClient, database_name: str
) -> None:
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock)
    for _ in range(2):
        saver.put(config_of("t"), checkpoint_of(), METADATA, {})
    clock.advance(minutes=1)
    policy = Retention(keep_last=1)
    settings = mongo_client[database_name]["mongomem_checkpoint_settings"]
    a_round(saver, Retention(keep_last=2))
    settings.update_one(
        {"_id": "retention"}, {"$set": {"policy": "1 - - -", "ended_at": None, **damage}}
    )
    a_round(saver, policy)
    clock.now += GRACE + MARGIN
    a_round(saver, policy)
    assert len(left(saver)["t"]) == 1


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_round_of_a_clock_that_was_far_ahead_holds_nobody_up(
    is_whole: bool, mongo_client: MongoClient, database_name: str
) -> None:
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock)
    policy = Retention(keep_last=1, idle_threads=timedelta(days=90))
    clock.now += timedelta(days=400)
    a_round(saver, policy)
    clock.now -= timedelta(days=400)
    if not is_whole:
        settings = mongo_client[database_name]["mongomem_checkpoint_settings"]
        settings.update_one({"_id": "retention"}, {"$set": {"ended_at": None, "scan": 0}})
    for _ in range(2):
        saver.put(config_of("t"), checkpoint_of(), METADATA, {})
    clock.advance(minutes=1)
    saver._runners.run(step(saver._context(), RetentionWork(), policy))
    a_round(saver, policy)
    assert len(left(saver)["t"]) == 1


# What waits for an answer, and what is in use.


@pytest.mark.parametrize("kind", ["asking", "side by side", "nested"])
def test_a_thread_that_waits_for_an_answer_stays(
    kind: str, mongo_client: MongoClient, database_name: str
) -> None:
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock)
    graph = {
        "asking": lambda: asking(saver, questions=2),
        "side by side": lambda: asking(saver, side_by_side=2),
        "nested": lambda: nested(saver),
    }[kind]()
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"log": []}, config)
    policy = Retention(keep_last=1, idle_threads=timedelta(days=30))
    clock.now += timedelta(days=40)
    assert told(saver.apply_retention(policy))[0] == set()
    a_round(saver, policy)
    state = graph.get_state(config)
    assert state.interrupts
    for _ in range(4):
        if not (interrupts := graph.get_state(config).interrupts):
            break
        graph.invoke(Command(resume={one.id: "yes" for one in interrupts}), config)
    assert graph.get_state(config).next == ()
    assert told(saver.apply_retention(policy))[0] == set()
    clock.now += timedelta(days=40)
    assert told(saver.apply_retention(policy, dry_run=True))[0] == {"t"}
    a_round(saver, policy)
    clock.now += GRACE + MARGIN
    a_round(saver, policy)
    assert saver.list_threads() == []


@pytest.mark.parametrize("child_saver", [None, True])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_question_of_a_subgraph_that_its_caller_went_on_without_is_none(
    child_saver: Any, encrypted: bool, mongo_client: MongoClient, database_name: str
) -> None:
    clock = Clock()
    aes = EncryptedSerializer.from_pycryptodome_aes(key=b"sixteen bytes...")
    saver = MongoSaver(mongo_client, database_name, clock=clock, serde=aes if encrypted else None)
    config: Any = {"configurable": {"thread_id": "t"}}
    graph = nested(saver, child_saver=child_saver)
    graph.invoke({"log": []}, config)
    policy = Retention(idle_threads=timedelta(days=30))
    clock.now += timedelta(days=40)
    assert told(saver.apply_retention(policy))[0] == set()
    # A process that ended before the graph above had stored that it is interrupted too.
    writes = mongo_client[database_name]["mongomem_checkpoint_writes"]
    writes.delete_many({"channel": "__interrupt__", "checkpoint_ns": ""})
    assert told(saver.apply_retention(policy))[0] == set()
    graph.update_state(config, {"log": ["never mind"]}, as_node="close")
    assert told(saver.apply_retention(policy))[0] == set()
    clock.now += timedelta(days=40)
    assert told(saver.apply_retention(policy))[0] == {"t"}


@pytest.mark.parametrize("damage", [{"body": 7}, {"content.data": Binary(b"?")}])
def test_a_question_that_cannot_be_read_counts(
    damage: dict[str, Any], mongo_client: MongoClient, database_name: str
) -> None:
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock)
    nested(saver).invoke({"log": []}, {"configurable": {"thread_id": "t"}})
    mongo_client[database_name]["mongomem_checkpoint_writes"].delete_many({"checkpoint_ns": ""})
    checkpoints = mongo_client[database_name]["mongomem_checkpoints"]
    inner = {"type": "checkpoint", "checkpoint_ns": {"$ne": ""}}
    checkpoints.update_many(inner, {"$set": damage})
    clock.now += timedelta(days=40)
    fresh = MongoSaver(mongo_client, database_name, clock=clock)
    assert fresh.apply_retention(Retention(idle_threads=timedelta(days=30))).deleted == []


def test_a_thread_that_waits_goes_where_that_is_asked_for(
    mongo_client: MongoClient, database_name: str
) -> None:
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock)
    asking(saver).invoke({"log": []}, {"configurable": {"thread_id": "t"}})
    policy = Retention(idle_threads=timedelta(days=30), waiting_threads=timedelta(days=60))
    clock.now += timedelta(days=59)
    assert told(saver.apply_retention(policy))[0] == set()
    clock.now += timedelta(days=2)
    assert told(saver.apply_retention(policy))[0] == {"t"}


def test_a_run_that_has_stored_writes_keeps_its_thread(
    mongo_client: MongoClient, database_name: str
) -> None:
    """A run without a new checkpoint yet, as one that goes on after an error."""
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock)
    placed = saver.put(config_of("t"), checkpoint_of(), METADATA, {})
    clock.now += timedelta(days=40)
    saver.put_writes(placed, [("a", 1)], "task")
    policy = Retention(idle_threads=timedelta(days=30))
    assert told(saver.apply_retention(policy))[0] == set()
    clock.now += timedelta(days=31)
    assert told(saver.apply_retention(policy))[0] == {"t"}


def test_a_thread_that_is_used_while_it_is_looked_at_stays(
    mongo_client: MongoClient, database_name: str
) -> None:
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock)
    placed = saver.put(config_of("t"), checkpoint_of(), METADATA, {})
    clock.now += timedelta(days=40)
    plan = saver._applying_retention(Retention(idle_threads=timedelta(days=30)), False)
    stepped = Stepped(plan, saver._runners.run.database)  # type: ignore[attr-defined]
    stepped.to(UpdateMany, "checkpoints")
    assert not stepped.ended
    saver.put(placed, checkpoint_of(), METADATA, {})
    assert stepped.finish().deleted == []
    assert len(left(saver)["t"]) == 2


# What else.


@pytest.mark.parametrize("kind", KINDS)
async def test_a_policy_is_carried_out_on_every_kind_of_client(
    kind: str, mongo_uri: str, database_name: str
) -> None:
    clock = Clock()
    policy = Retention(keep_last=2)
    async with saver_of(kind, mongo_uri, database_name, clock=clock, retention=policy) as saver:
        calls, config = Calls(saver, kind), config_of("t")
        for _ in range(5):
            config = await calls("put", config, checkpoint_of(), METADATA, {})
        await calls("close")
        await calls("close")
        report = await calls("apply_retention", dry_run=True)
        assert isinstance(report.pruned[0], PruneReport)
        assert await calls("apply_retention") == report
        assert len(await calls.list(config_of("t"))) == 2
        assert (await calls("apply_retention", Retention(keep_last=1))).pruned != []


def test_without_a_policy_there_is_nothing_to_carry_out(mongo_client: MongoClient) -> None:
    with pytest.raises(ConfigurationError, match="retention is not configured"):
        MongoSaver(mongo_client).apply_retention()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "must say what goes"),
        ({"waiting_threads": HOUR}, "must say what goes"),
        ({"keep_last": 1, "waiting_threads": HOUR}, "waiting_threads must be at least"),
        ({"idle_threads": 2 * HOUR, "waiting_threads": HOUR}, "waiting_threads must be at least"),
        ({"keep_last": 0}, "keep_last must be a whole number from 1"),
        ({"keep_last": True}, "keep_last must be"),
        ({"older_than": timedelta(0)}, "older_than must be a positive timedelta"),
        ({"idle_threads": 30}, "idle_threads must be a positive timedelta"),
    ],
)
def test_a_policy_that_is_none_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Retention(**fields)


def test_spans_longer_than_the_calendar_keep_everything(
    mongo_client: MongoClient, database_name: str
) -> None:
    saver = MongoSaver(mongo_client, database_name)
    saver.put(config_of("t"), checkpoint_of(), METADATA, {})
    policy = Retention(older_than=timedelta.max, idle_threads=timedelta.max)
    assert told(saver.apply_retention(policy)) == (set(), {})
    a_round(saver, policy)
    assert len(left(saver)["t"]) == 1


def test_a_damaged_thread_is_left_out_and_named(
    mongo_client: MongoClient, database_name: str
) -> None:
    clock = Clock()
    saver = MongoSaver(mongo_client, database_name, clock=clock)
    for thread_id in ("bad", "good"):
        for _ in range(3):
            saver.put(config_of(thread_id), checkpoint_of("long " * 2000), METADATA, {})
    clock.advance(minutes=1)
    checkpoints = mongo_client[database_name]["mongomem_checkpoints"]
    checkpoints.update_many(
        {"thread_id": "bad", "type": "checkpoint"}, {"$set": {"content.data": Binary(b"?")}}
    )
    fresh = MongoSaver(mongo_client, database_name, clock=clock)
    report = fresh.apply_retention(Retention(keep_last=1))
    assert [one.thread_id for one in report.pruned] == ["good"]
    assert [*report.left_out] == ["bad"]
    assert checkpoints.count_documents({"thread_id": "bad", "type": "checkpoint"}) == 3
    assert checkpoints.find_one({"_id": thread_doc_id("bad")}) is not None


def test_a_memory_hands_it_on(mongo_client: MongoClient, database_name: str) -> None:
    policy = Retention(keep_last=1)
    memory = MongoMemory(mongo_client, database_name, retention=policy)
    assert memory.saver._retention.policy is policy
    options = {"retention": Retention(keep_last=2)}
    memory = MongoMemory(mongo_client, database_name, saver_options=options)
    assert memory.saver._retention.policy == Retention(keep_last=2)
    with pytest.raises(ConfigurationError, match=r"retention must be a mongomem\.Retention"):
        MongoMemory(mongo_client, database_name, retention={"keep_last": 1})  # type: ignore[arg-type]


def test_the_conversation_stays_whole(mongo_client: MongoClient, database_name: str) -> None:
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", f"answer {len(state['messages'])}")]}

    memory = MongoMemory(mongo_client, database_name)
    builder = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer")
    graph = builder.compile(checkpointer=memory.saver)
    config = memory.user("ada").config("t")
    for number in range(6):
        graph.invoke({"messages": f"question {number}"}, config)
        memory.saver.apply_retention(Retention(keep_last=1))
    assert len(list(memory.saver.list(config))) == 1
    assert len(graph.get_state(config).values["messages"]) == 12
