"""Lives of threads: what expires, what is deleted while others write, and what a copy or a new life
may rely on.

Plans are stepped by hand where an order matters: `stepped(world, plan).to(command)` stands before
the first such command."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import bson
import mongomock
import pytest
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from pymongo import MongoClient

from mongomem import ConfigurationError, CorruptDataError, InvalidInputError, MongoSaver
from mongomem.checkpoint.documents.collections import CHUNK
from mongomem.checkpoint.plans import copy_thread as copy_thread_plan
from mongomem.checkpoint.plans import delete as delete_plan
from mongomem.checkpoint.plans import prune as prune_plan
from mongomem.checkpoint.plans import put as put_plan
from mongomem.checkpoint.plans import put_writes as put_writes_plan
from mongomem.checkpoint.plans import threads as threads_plan
from mongomem.engine.commands import BulkWrite, DatabaseCommand, DeleteMany, Find, Plan
from mongomem.engine.writes import UpdateCommand
from mongomem.testing import MongomockDatabase, RecordingRunner
from support.stepping import Stepped

TEXT = random.Random(3).randbytes(60_000).hex()
METADATA: Any = {"source": "loop", "step": 0, "parents": {}}
TTL = timedelta(hours=1)


def config(thread: str = "t", checkpoint_id: str | None = None, **more: Any) -> Any:
    own = {"checkpoint_id": checkpoint_id} if checkpoint_id else {}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **own, **more}}


def checkpoint(values: dict[str, Any], version: str = "1") -> Any:
    return {
        "v": 4,
        "id": str(uuid6()),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": {
            channel: "1" if channel == "static" else version for channel in values
        },
        "versions_seen": {},
        "updated_channels": None,
    }


class World:
    """A mongomock database, a clock, and the deletions that a server would do by its TTL index."""

    def __init__(self) -> None:
        self.client = mongomock.MongoClient()
        # From today on, for mongomock too deletes by TTL indexes, and by the clock of the machine.
        self.now = datetime.now(timezone.utc).replace(microsecond=0)

    def saver(self, **options: Any) -> MongoSaver:
        return MongoSaver(self.client, "d", clock=lambda: self.now, **options)

    def expire(self) -> None:
        for name in ("mongomem_checkpoints", "mongomem_checkpoint_writes"):
            self.client["d"][name].delete_many({"touched_at": {"$lt": self.now - TTL * 1.1}})

    def documents(self) -> list[Any]:
        return list(self.client["d"]["mongomem_checkpoints"].find())

    def chunks(self, thread: str) -> int:
        return int(
            self.client["d"]["mongomem_checkpoints"].count_documents(
                {"type": CHUNK, "thread_id": thread}
            )
        )


@pytest.fixture
def world() -> World:
    return World()


def stepped(world: World, plan: Plan[Any]) -> Stepped:
    return Stepped(plan, MongomockDatabase(world.client["d"]))


def steps(world: World, make: Any) -> Iterator[Stepped]:
    """Yield a plan once before each of its database commands."""
    for nth in range(1, 60):
        plan = stepped(world, make()).to(DatabaseCommand, nth=nth)
        if plan.ended:
            return
        yield plan


def test_writes_on_an_expired_thread_do_not_bring_its_chunks_back(world: World) -> None:
    saver = world.saver(ttl=TTL)
    first = saver.put(config(), checkpoint({"static": TEXT, "count": 1}), METADATA, {})
    world.now += timedelta(minutes=61)
    saver.put_writes(first, [("count", 2)], "task")
    following = checkpoint({"static": TEXT, "count": 2}, "2")
    second = saver.put(first, following, METADATA, {})
    world.now += timedelta(minutes=6)
    world.expire()
    found = world.saver(ttl=TTL).get_tuple(second)
    assert found is not None
    assert found.checkpoint == following


def test_a_put_stamps_what_it_refers_to_before_it_writes(world: World) -> None:
    saver = world.saver(ttl=TTL)
    first = saver.put(config(), checkpoint({"static": TEXT, "count": 1}), METADATA, {})
    world.now += timedelta(minutes=50)
    following = checkpoint({"static": TEXT, "count": 2}, "2")
    crashed = stepped(
        world, put_plan.put(world.saver(ttl=TTL)._context(), first, following, METADATA)
    )
    crashed.to(BulkWrite, "mongomem_checkpoints")
    crashed.perform(1)
    world.now += timedelta(minutes=17)
    world.expire()
    found = world.saver(ttl=TTL).get_tuple(config())
    assert found is not None
    assert found.checkpoint == following


def test_a_saver_without_ttl_keeps_that_of_the_collections(world: World) -> None:
    world.saver(ttl=TTL).setup()
    saver = world.saver()
    first = saver.put(config(), checkpoint({"static": TEXT, "count": 1}), METADATA, {})
    for minute in range(20):
        world.now += timedelta(minutes=10)
        first = saver.put(
            first, checkpoint({"static": TEXT, "count": minute}, str(minute + 2)), METADATA, {}
        )
        world.expire()
    found = world.saver().get_tuple(config())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"static": TEXT, "count": 19}


def test_a_new_life_inherits_nothing(world: World) -> None:
    saver = world.saver(ttl=TTL)
    saver.put(config(user_id="ada", topic="tea"), checkpoint({"count": 1}), METADATA, {})
    world.now += timedelta(minutes=70)
    saver.put(config(), checkpoint({"count": 1}), METADATA, {})
    (thread,) = saver.list_threads()
    assert (thread.metadata, thread.created_at) == ({}, world.now)
    saver.put(config(user_id="bob"), checkpoint({"count": 2}), METADATA, {})
    saver.delete_thread("t")
    world.now += timedelta(minutes=1)
    saver.put(config(), checkpoint({"count": 3}), METADATA, {})
    (thread,) = saver.list_threads()
    assert (thread.metadata, thread.created_at) == ({}, world.now)


@pytest.mark.parametrize("value", ["short", TEXT[:9000]])
def test_a_put_reads_nothing_first_where_it_begins_a_thread_with_short_values(
    world: World, value: str
) -> None:
    saver = world.saver()
    saver.put(config("first"), checkpoint({"static": "short"}), METADATA, {})
    run = RecordingRunner(MongomockDatabase(world.client["d"]))
    run(put_plan.put(saver._context(), config(), checkpoint({"static": value}), METADATA))
    sent = [type(one) for one in run.commands if isinstance(one, DatabaseCommand)]
    assert sent == ([UpdateCommand] if value == "short" else [Find, UpdateCommand])


def test_a_put_of_a_process_that_does_not_know_a_thread_joins_its_life(world: World) -> None:
    world.saver().put(config(user_id="ada"), checkpoint({"count": 1}), METADATA, {})
    begun = world.now
    world.now += timedelta(minutes=1)
    world.saver().put(config(), checkpoint({"count": 2}), METADATA, {})
    (thread,) = world.saver().list_threads()
    assert (thread.metadata, thread.created_at) == ({"user_id": "ada"}, begun)
    assert len(list(world.saver().list(config()))) == 2
    world.saver().delete_thread("t")
    world.saver().put(config(), checkpoint({"count": 3}), METADATA, {})
    (found,) = world.saver().list(config())
    assert found.checkpoint["channel_values"] == {"count": 3}


@pytest.mark.parametrize("value", ["short", TEXT[:9000]])
def test_a_thread_that_refuses_a_put_keeps_nothing_of_it(world: World, value: str) -> None:
    right, wrong = (
        EncryptedSerializer.from_pycryptodome_aes(key=bytes([number]) * 16) for number in (1, 2)
    )
    world.saver(serde=right).put(config(), checkpoint({"static": TEXT[:9000]}), METADATA, {})
    before = world.documents()
    for options in ({}, {"serde": wrong}):
        with pytest.raises(ConfigurationError):
            world.saver(**options).put(config(), checkpoint({"static": value}), METADATA, {})
    assert world.documents() == before


def test_two_deletions_spare_what_is_put_between_and_behind_them() -> None:
    value = checkpoint({"static": TEXT})
    for first in range(1, 7):
        for second in range(1, 7):
            world = World()
            world.saver().put(config(), checkpoint({"static": TEXT}), METADATA, {})
            one, two = (
                stepped(world, delete_plan.delete_thread(world.saver()._context(), "t")).to(
                    DatabaseCommand, nth=nth
                )
                for nth in (first, second)
            )
            stored = world.saver().put(config(), value, METADATA, {})
            one.finish()
            two.finish()
            found = world.saver().get_tuple(stored)
            assert found is None or found.checkpoint == value
            world.now += timedelta(seconds=1)
            again = world.saver().put(config(), checkpoint({"static": TEXT}), METADATA, {})
            assert world.saver().get_tuple(again) is not None


def test_a_copy_is_whole_whatever_is_put_on_the_source_meanwhile() -> None:
    for nth in range(1, 12):
        world = World()
        saver = world.saver()
        first = saver.put(config(), checkpoint({"static": TEXT[:50_000]}), METADATA, {})
        saver.put_writes(first, [("static", TEXT)], "task")
        copy = stepped(
            world, copy_thread_plan.copy_thread(world.saver()._context(), "t", "copy")
        ).to(DatabaseCommand, nth=nth)
        second = saver.put(
            first, checkpoint({"static": TEXT[50_000:], "more": TEXT[::-1]}, "2"), METADATA, {}
        )
        saver.put_writes(second, [("static", TEXT[::-1] * 2)], "task")
        copy.finish()
        copied = list(world.saver().list(config("copy")))
        original = {one.checkpoint["id"]: one for one in saver.list(config())}
        assert copied
        for one in copied:
            assert one.checkpoint == original[one.checkpoint["id"]].checkpoint
            assert one.pending_writes in ([], original[one.checkpoint["id"]].pending_writes)


def test_a_copy_onto_a_thread_that_is_deleted_meanwhile_is_whole_or_gone() -> None:
    for nth in range(1, 12):
        world = World()
        saver = world.saver()
        value = checkpoint({"static": TEXT})
        saver.put(config(), value, METADATA, {})
        saver.put(config("copy"), checkpoint({"static": TEXT[:9000]}), METADATA, {})
        copy = stepped(world, copy_thread_plan.copy_thread(saver._context(), "t", "copy")).to(
            DatabaseCommand, nth=nth
        )
        world.saver().delete_thread("copy")
        copy.finish()
        listed = list(world.saver().list(config("copy")))
        assert [one.checkpoint for one in listed] in ([], [value])


def test_an_expired_thread_is_not_copied_and_is_erased(world: World) -> None:
    saver = world.saver(ttl=TTL)
    saver.put(config(user_id="ada"), checkpoint({"static": TEXT}), METADATA, {})
    world.now += timedelta(minutes=61)
    saver.copy_thread("t", "copy")
    assert world.saver().get_tuple(config("copy")) is None
    found = saver._runners.run(
        threads_plan.list_threads(saver._context(), {"user_id": "ada"}, 5, None, ended=True)
    )
    assert [thread.thread_id for thread in found] == ["t"]


def test_a_long_write_of_an_ended_life_harms_no_checkpoint() -> None:
    for nth in range(1, 8):
        world = World()
        value = checkpoint({"count": 1})
        world.saver().put(config(), checkpoint({"count": 0}), METADATA, {})
        target = config(checkpoint_id=value["id"])
        plan = put_writes_plan.put_writes(
            world.saver()._context(), target, [("count", TEXT * 2)], "task", ""
        )
        write = stepped(world, plan).to(DatabaseCommand, nth=nth)
        world.saver().delete_thread("t")
        write.finish()
        world.now += timedelta(seconds=1)
        stored = world.saver().put(config(), value, METADATA, {})
        found = world.saver().get_tuple(stored)
        assert found is not None
        assert found.pending_writes in ([], [("task", "count", TEXT * 2)])


def test_a_checkpoint_put_on_one_that_is_removed_meanwhile_stays_readable() -> None:
    for nth in range(1, 20):
        world = World()
        saver = world.saver()
        first = saver.put(config(), checkpoint({"static": TEXT}), METADATA, {})
        saver.put(first, checkpoint({"static": TEXT, "count": 1}, "2"), METADATA, {})
        plan = prune_plan.prune(
            world.saver()._context(), ["t"], "keep_latest", 1, None, dry_run=False
        )
        prune = stepped(world, plan).to(DatabaseCommand, nth=nth)
        fork = checkpoint({"static": TEXT, "count": 2}, "3")
        stored = world.saver().put(first, fork, METADATA, {})
        prune.finish()
        world.now += timedelta(hours=3)
        world.saver().prune(["t"])
        found = world.saver().get_tuple(stored)
        assert found is not None
        assert found.checkpoint == fork
        if found.parent_config is not None:
            assert world.saver().get_tuple(found.parent_config) is not None


@pytest.mark.parametrize("field", ["data", "packed"])
def test_content_that_was_cut_off_is_corrupt_and_not_another_value(
    world: World, field: str
) -> None:
    stored = world.saver().put(
        config(), checkpoint({"static": TEXT, "text": "word " * 900}), METADATA, {}
    )
    for document in world.client["d"]["mongomem_checkpoints"].find({field: {"$exists": True}}):
        shorter = document[field][: len(document[field]) // 2]
        world.client["d"]["mongomem_checkpoints"].update_one(
            {"_id": document["_id"]}, {"$set": {field: shorter}}
        )
    if world.client["d"]["mongomem_checkpoints"].count_documents({field: {"$exists": True}}):
        with pytest.raises(CorruptDataError):
            world.saver().get_tuple(stored)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("checkpoint", "checkpoint_ns", 7),
        ("checkpoint", "created_at", None),
        ("checkpoint", "touched_at", "now"),
        ("checkpoint", "channels", 5),
        ("checkpoint", "content", {"data": "text"}),
        ("checkpoint", "content", {}),
        ("chunk", "data", 7),
        ("write", "task_path", 7),
        ("write", "task_id", None),
        ("write", "idx", "x"),
    ],
)
def test_damaged_documents_are_named_and_left_out_of_listings(
    world: World, kind: str, field: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stored = world.saver().put(config(), checkpoint({"static": TEXT}), METADATA, {})
    world.saver().put_writes(stored, [("count", 1)], "task")
    collection = world.client["d"][
        "mongomem_checkpoint_writes" if kind == "write" else "mongomem_checkpoints"
    ]
    collection.update_many({} if kind == "write" else {"type": kind}, {"$set": {field: value}})
    for call in (
        lambda saver: list(saver.list(None)),
        lambda saver: saver.prune(["t"]),
        lambda saver: saver.copy_thread("t", "copy"),
    ):
        with suppress(CorruptDataError):
            call(world.saver())
    saver = world.saver()
    assert [list(saver.list(None)), list(saver.list(None))] == [[], []]
    assert saver.damaged_documents == 1
    assert [record.name for record in caplog.records if record.name == "mongomem"]
    with pytest.raises(CorruptDataError, match="thread 't'"):
        world.saver().get_tuple(stored)


@pytest.mark.parametrize("field", ["stamped_at", "epoch", "generation"])
def test_a_damaged_thread_document_is_named(world: World, field: str) -> None:
    stored = world.saver().put(config(), checkpoint({"count": 1}), METADATA, {})
    world.client["d"]["mongomem_checkpoints"].update_one(
        {"type": "thread"}, {"$unset": {field: ""}}
    )
    with pytest.raises(CorruptDataError, match="thread 't'"):
        world.saver().put(stored, checkpoint({"count": 2}, "2"), METADATA, {})


@pytest.mark.parametrize("channel", ["", ("a",), 5, b"a", "\ud800"])
def test_names_that_are_no_channels_are_refused(world: World, channel: Any) -> None:
    with pytest.raises(InvalidInputError):
        world.saver().put(config(), checkpoint({channel: 1}), METADATA, {})
    with pytest.raises(InvalidInputError):
        world.saver().put_writes(config(checkpoint_id="1"), [(channel, 1)], "task")
    assert list(world.client["d"]["mongomem_checkpoints"].find()) == []


@pytest.mark.parametrize("field", ["id", "v", "channel_values", "channel_versions"])
def test_what_is_no_checkpoint_is_refused(world: World, field: str) -> None:
    broken = checkpoint({"count": 1})
    for value in (None, 3.5, ...):
        wrong = {key: one for key, one in broken.items() if key != field} | (
            {} if value is ... else {field: value}
        )
        with pytest.raises(InvalidInputError, match=field):
            world.saver().put(config(), wrong, METADATA, {})  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="not empty"):
        world.saver().put(config(), {**broken, "id": ""}, METADATA, {})


def test_ten_thousand_channels_fit_a_document(
    mongo_client: MongoClient, database_name: str
) -> None:
    values = {f"channel {number}": TEXT[number : number + 3000] for number in range(10_000)}
    stored = MongoSaver(mongo_client, database_name).put(config(), checkpoint(values), METADATA, {})
    (document,) = mongo_client[database_name]["mongomem_checkpoints"].find({"type": "checkpoint"})
    assert len(bson.encode(document)) < 4_000_000
    found = MongoSaver(mongo_client, database_name).get_tuple(stored)
    assert found is not None
    assert found.checkpoint["channel_values"] == values


def test_what_is_looked_for_has_room_in_the_readable_copy(world: World) -> None:
    metadata: Any = {**METADATA, "prefs": ["x" * 500] * 10, "run_id": "r", "user_id": "a" * 2000}
    saver = world.saver()
    saver.put(config(), checkpoint({"count": 1}), metadata, {})
    assert [one.thread_id for one in saver.list_threads(filter={"user_id": "a" * 2000})] == ["t"]
    saver.delete_for_runs(["r"])
    assert list(saver.list(config())) == []


def test_odd_counters_do_not_stop_a_removal(world: World) -> None:
    metadata: Any = {**METADATA, "counters_since_delta_snapshot": 5}
    saver = world.saver()
    first = saver.put(config(), checkpoint({"count": 1}), metadata, {})
    saver.put(first, checkpoint({"count": 2}, "2"), metadata, {})
    saver.prune(["t"])
    assert len(list(saver.list(config()))) == 1


def test_another_key_is_named_and_harms_nothing(world: World) -> None:
    right, wrong = (
        EncryptedSerializer.from_pycryptodome_aes(key=bytes([number]) * 16) for number in (1, 2)
    )
    value = checkpoint({"static": TEXT})
    stored = world.saver(serde=right).put(config(secret="s"), value, METADATA, {})
    with pytest.raises(ConfigurationError, match="another encryption key"):
        world.saver(serde=wrong).put(stored, checkpoint({"static": TEXT}), METADATA, {})
    with pytest.raises(ConfigurationError, match="encrypted"):
        world.saver().get_tuple(stored)
    found = world.saver(serde=right).get_tuple(stored)
    assert found is not None
    assert found.checkpoint == value
    assert "secret" not in str(
        list(
            world.client["d"]["mongomem_checkpoints"].find(
                {}, {"content": 0, "data": 0, "packed": 0}
            )
        )
    )


def test_deletions_go_by_command(world: World) -> None:
    """The stepping of this file is worth nothing if it steps over what it is to stop at."""
    world.saver().put(config(), checkpoint({"count": 1}), METADATA, {})
    deletion = stepped(world, delete_plan.delete_thread(world.saver()._context(), "t"))
    kinds = [
        type(one.command).__name__
        for one in steps(World(), lambda: delete_plan.delete_thread(world.saver()._context(), "t"))
    ]
    assert kinds == ["Find", "UpdateMany", *["DeleteMany"] * 5, "UpdateMany"]
    assert isinstance(deletion.to(DeleteMany).command, DeleteMany)
