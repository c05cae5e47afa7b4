"""The life of threads: what users of other savers ran into, and what is right instead."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from pymongo import MongoClient

from mongomem.checkpoint.saver import MongoSaver
from mongomem.errors import ConfigurationError
from support.graphs import Steps
from support.savers import KINDS, Calls, client_of, saver_of

TTL = timedelta(minutes=60)
COLLECTIONS = ("mongomem_checkpoints", "mongomem_checkpoint_writes")


class Clock:
    def __init__(self) -> None:
        self.now = datetime(
            2100, 1, 1, tzinfo=timezone.utc
        )  # behind every clock of a server that expires documents

    def __call__(self) -> datetime:
        return self.now

    def forward(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def calls(
    mongo_uri: str, database_name: str, kind: str, clock: Clock
) -> AsyncIterator[Calls]:
    async with saver_of(kind, mongo_uri, database_name, clock=clock, ttl=TTL) as saver:
        yield Calls(saver, kind)


class Monitor:
    """Does what the server's TTL monitor does, by its indexes, at the time of the test's clock."""

    def __init__(self, client: MongoClient, database: str, clock: Clock) -> None:
        self.database = client[database]
        self.clock = clock

    def run(self) -> None:
        for name in self.database.list_collection_names():
            for index in self.database[name].list_indexes():
                if "expireAfterSeconds" in index:
                    due = self.clock.now - timedelta(seconds=index["expireAfterSeconds"])
                    (field,) = index["key"]
                    self.database[name].delete_many({field: {"$lt": due}})

    def documents(self) -> list[dict[str, Any]]:
        return [
            one
            for name in self.database.list_collection_names()
            for one in self.database[name].find()
        ]


@pytest.fixture
def monitor(mongo_client: MongoClient, database_name: str, clock: Clock) -> Monitor:
    return Monitor(mongo_client, database_name, clock)


@pytest.mark.parametrize("kind", ["blocking", "awaiting", "threaded"])
@pytest.mark.parametrize("pause", [3, 31, 59])
async def test_the_newest_state_is_complete_when_the_oldest_data_is_due(
    pause: int,
    calls: Calls,
    clock: Clock,
    monitor: Monitor,
    mongo_client: MongoClient,
    database_name: str,
) -> None:
    steps, written = Steps(calls), [("a", 1), ("b", "x" * 100_000)]
    await steps.put(static="s" * 30_000, number=0)
    while clock.now < datetime(2100, 1, 1, 4, tzinfo=timezone.utc):
        clock.forward(pause)
        monitor.run()
        await steps.put(number=steps.number)
        await calls("put_writes", steps.config, written, "task")
    clock.forward(59)
    monitor.run()
    fresh = MongoSaver(mongo_client, database_name, ttl=TTL, clock=clock)
    found = fresh.get_tuple({"configurable": {"thread_id": "t"}})
    assert found.checkpoint["channel_values"] == steps.values
    assert found.pending_writes == [("task", *one) for one in written]
    assert [one.thread_id for one in fresh.list_threads()] == ["t"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_thread_reads_as_absent_once_its_time_is_over(calls: Calls, clock: Clock) -> None:
    steps = Steps(calls)
    await steps.put(a=1)
    clock.forward(59.9)
    assert await calls("get_tuple", steps.config) is not None
    clock.forward(0.2)
    thread = {"configurable": {"thread_id": "t"}}
    assert await calls("get_tuple", steps.config) is None
    assert await calls("get_tuple", thread) is None
    assert await calls.list(thread) == []
    assert await calls("list_threads") == []


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_every_document_of_an_expired_thread_goes(
    calls: Calls, clock: Clock, monitor: Monitor
) -> None:
    steps = Steps(calls)
    for number in range(3):
        await steps.put(large=f"{number}" * 20_000)
        await calls("put_writes", steps.config, [("a", 1), ("b", "x" * 100_000)], "task")
        clock.forward(20)
    clock.forward(1.1 * 60)
    assert monitor.documents()
    monitor.run()
    assert monitor.documents() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_thread_that_comes_back_after_its_time_begins_anew(
    calls: Calls, clock: Clock
) -> None:
    steps = Steps(calls)
    await steps.put(static="s" * 30_000, a=1)
    await steps.put(a=2)
    clock.forward(63)
    await steps.put(a=3)
    found = await calls("get_tuple", {"configurable": {"thread_id": "t"}})
    assert found.checkpoint["channel_values"] == steps.values
    assert len(await calls.list({"configurable": {"thread_id": "t"}})) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_special_writes_replace_and_regular_ones_stay_with_a_ttl_on(
    calls: Calls, clock: Clock
) -> None:
    config = await Steps(calls).put(a=1)
    for writes in (
        [(INTERRUPT, "first")],
        [(INTERRUPT, "second")],
        [(RESUME, "r1")],
        [(RESUME, "r2")],
        [(ERROR, "e1")],
        [(ERROR, "e2")],
        [("a", 1), ("b", 2)],
        [("a", 9)],
    ):
        await calls("put_writes", config, writes, "task")
        clock.forward(7)
    found = (await calls("get_tuple", config)).pending_writes
    special = [("task", RESUME, "r2"), ("task", INTERRUPT, "second"), ("task", ERROR, "e2")]
    assert found == [*special, ("task", "a", 1), ("task", "b", 2)]


@pytest.fixture
def los_angeles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("los_angeles")
@pytest.mark.parametrize("ttl", [None, 60])
@pytest.mark.parametrize("aware", [False, True])
async def test_every_document_carries_a_stamp_in_utc(
    aware: bool, ttl: float | None, mongo_uri: str, database_name: str, mongo_client: MongoClient
) -> None:
    with MongoClient(mongo_uri, tz_aware=aware) as client:
        saver = MongoSaver(client, database_name, ttl=ttl)
        steps = Steps(Calls(saver, "blocking"))
        await steps.put(large="x" * 20_000)
        saver.put_writes(steps.config, [("a", 1), (INTERRUPT, "x" * 100_000)], "task")
        assert saver.get_tuple(steps.config) is not None
        (thread,) = saver.list_threads()
    now = datetime.now(timezone.utc)
    assert thread.created_at.utcoffset() == timedelta(0)
    assert abs(now - thread.updated_at) < timedelta(minutes=1)
    documents = [one for name in COLLECTIONS for one in mongo_client[database_name][name].find()]
    assert {one.get("type", "") for one in documents} >= {
        "thread",
        "checkpoint",
        "chunk",
        "msgpack",
    }
    for document in documents:
        for field in [name for name in document if name.endswith("_at")] + ["touched_at"]:
            assert abs(now.replace(tzinfo=None) - document[field]) < timedelta(minutes=1), field


async def test_a_ttl_turned_on_later_covers_what_is_there(
    mongo_client: MongoClient, database_name: str, clock: Clock, monitor: Monitor
) -> None:
    eternal = MongoSaver(mongo_client, database_name, clock=clock)
    steps = Steps(Calls(eternal, "blocking"))
    await steps.put(large="x" * 20_000)
    eternal.put_writes(steps.config, [("a", 1)], "task")
    clock.forward(24 * 60)
    monitor.run()
    assert eternal.get_tuple(steps.config) is not None
    MongoSaver(mongo_client, database_name, clock=clock, ttl=48 * 60).setup()
    monitor.run()
    assert eternal.get_tuple(steps.config) is not None
    mortal = MongoSaver(mongo_client, database_name, clock=clock, ttl=60)
    mortal.setup()
    assert mortal.get_tuple(steps.config) is None
    monitor.run()
    assert monitor.documents() == []


async def test_the_life_of_threads_can_be_changed(
    mongo_client: MongoClient, database_name: str
) -> None:
    for minutes in (60, 30, 600):
        MongoSaver(mongo_client, database_name, ttl=minutes).setup()
        for name in COLLECTIONS:
            (index,) = (
                one
                for one in mongo_client[database_name][name].list_indexes()
                if "expireAfterSeconds" in one
            )
            assert index["expireAfterSeconds"] == pytest.approx(minutes * 66, abs=1)


@pytest.mark.parametrize("kind", KINDS)
async def test_for_ever_ends_a_life_that_the_collections_have(
    kind: str, mongo_uri: str, mongo_client: MongoClient, database_name: str, clock: Clock
) -> None:
    async with client_of(kind, mongo_uri) as client:
        mortal = Calls(MongoSaver(client, database_name, ttl=TTL, clock=clock), kind)
        steps = Steps(mortal)
        await steps.put(a=1)
        clock.forward(minutes=61)
        assert await mortal("get_tuple", steps.config) is None
        immortal = Calls(MongoSaver(client, database_name, ttl=None, clock=clock), kind)
        await immortal("setup")
        await immortal("setup")
        assert (await immortal("get_tuple", steps.config)).checkpoint["channel_values"] == {"a": 1}
        not_told = Calls(MongoSaver(client, database_name, clock=clock), kind)
        await not_told("setup")
        assert await not_told("get_tuple", steps.config) is not None
        looker = client if kind == "mongomock" else mongo_client
        for name in COLLECTIONS:
            assert not [
                one
                for one in looker[database_name][name].list_indexes()
                if "expireAfterSeconds" in one
            ]


async def test_a_saver_that_is_told_nothing_keeps_the_life_that_the_collections_have(
    mongo_client: MongoClient, database_name: str
) -> None:
    MongoSaver(mongo_client, database_name, ttl=60).setup()
    saver = MongoSaver(mongo_client, database_name)
    saver.setup()
    assert saver._context().ttl == timedelta(minutes=60)
    indexes = mongo_client[database_name]["mongomem_checkpoints"].list_indexes()
    assert [one["expireAfterSeconds"] for one in indexes if "expireAfterSeconds" in one] == [3960]


def test_minutes_and_a_timedelta_mean_the_same(mongo_client: MongoClient) -> None:
    assert MongoSaver(mongo_client, ttl=90)._options.ttl == timedelta(minutes=90)
    assert MongoSaver(mongo_client, ttl=timedelta(hours=1.5))._options.ttl == timedelta(minutes=90)


@pytest.mark.parametrize(
    "wrong", [0, -1, timedelta(0), True, "60", {"default_ttl": 60}, float("nan"), float("inf")]
)
def test_a_ttl_that_is_no_time_is_refused(wrong: Any, mongo_client: MongoClient) -> None:
    with pytest.raises(ConfigurationError):
        MongoSaver(mongo_client, ttl=wrong)
