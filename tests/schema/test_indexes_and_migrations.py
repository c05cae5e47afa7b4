"""Indexes and migrations: idempotent, resumable, safe when many do them at once; and documents of
past versions.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from bson import json_util
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure

from mongomem import MongoSaver, MongoStore, SchemaVersionError
from mongomem.engine.commands import BulkWrite, CreateIndexes, ListIndexes, Update, UpdateMany
from mongomem.engine.effects import Sleep
from mongomem.schema.indexes import Index, ensure_indexes
from mongomem.schema.migrations import Migration, migrate
from mongomem.testing import FailingRunner, RecordingRunner

FIXTURES = Path(__file__).parents[1] / "fixtures"


def rename(name: str) -> Any:
    async def apply(collection: str) -> None:
        await UpdateMany(
            collection, {"old": {"$exists": True}, name: None}, [{"$set": {name: "$old"}}]
        )

    return apply


MIGRATIONS = [Migration(2, rename("second")), Migration(3, rename("third"))]


def test_migrations_run_once_in_order_and_are_recorded(
    mongo_client: MongoClient, database_name: str
) -> None:
    database = mongo_client[database_name]
    database["data"].insert_one({"old": 7})
    runner = RecordingRunner(database)
    runner(migrate("settings", MIGRATIONS, "data"))
    document = database["data"].find_one({}, {"_id": 0})
    assert document == {"old": 7, "second": 7, "third": 7}
    assert database["settings"].find_one({"_id": "schema"}) == {"_id": "schema", "version": 3}
    runner.commands.clear()
    runner(migrate("settings", MIGRATIONS, "data"))
    assert len(runner.commands) == 1


@pytest.mark.parametrize("auto_setup", [False, True])
def test_a_store_brings_older_data_up_to_date(
    auto_setup: bool, mongo_client: MongoClient, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mark(context: Any) -> None:
        await BulkWrite(
            context.names.settings, [Update({"_id": "mark"}, {"$inc": {"times": 1}}, upsert=True)]
        )

    monkeypatch.setattr("mongomem.store.plans.setup.MIGRATIONS", (Migration(2, mark),))
    for _ in range(2):
        store = MongoStore(mongo_client, database_name, auto_setup=auto_setup)
        store.put(("a",), "k", {"b": 1}) if auto_setup else store.setup()
    settings = mongo_client[database_name]["mongomem_store_settings"]
    assert settings.find_one({"_id": "schema"}) == {"_id": "schema", "version": 2}
    assert settings.find_one({"_id": "mark"}) == {"_id": "mark", "times": 1}


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("performed", [False, True])
def test_an_interrupted_migration_is_resumed(
    at: int, performed: bool, mongo_client: MongoClient, database_name: str
) -> None:
    database = mongo_client[database_name]
    database["data"].insert_one({"old": 7})
    with pytest.raises(AutoReconnect):
        FailingRunner(database, at, performed)(migrate("settings", MIGRATIONS, "data"))
    RecordingRunner(database)(migrate("settings", MIGRATIONS, "data"))
    assert database["data"].find_one({}, {"_id": 0}) == {"old": 7, "second": 7, "third": 7}


def test_eight_processes_set_up_at_once(mongo_uri: str, database_name: str) -> None:
    def set_up(_: int) -> list[str]:
        with MongoSaver.from_conn_string(mongo_uri, db_name=database_name, ttl=60) as saver:
            saver.setup()
            saver.setup()
            return sorted(saver._runners.run.database["mongomem_checkpoints"].index_information())  # type: ignore[attr-defined]

    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(set_up, range(8)))
    assert names == [names[0]] * 8
    assert "expiry" in names[0]


def test_a_changed_ttl_changes_the_index(mongo_client: MongoClient, database_name: str) -> None:
    for minutes, seconds in ((60, 3960), (10, 660)):
        MongoSaver(mongo_client, database_name, ttl=minutes).setup()
        found = mongo_client[database_name]["mongomem_checkpoint_writes"].index_information()[
            "expiry"
        ]
        assert found["expireAfterSeconds"] == seconds
    MongoSaver(mongo_client, database_name, ttl=timedelta(seconds=10)).setup()
    assert (
        mongo_client[database_name]["mongomem_checkpoints"].index_information()["expiry"][
            "expireAfterSeconds"
        ]
        == 11
    )


def test_a_refused_build_is_tried_again_and_not_for_ever() -> None:
    refusal = OperationFailure("another index build is in progress", 40333)
    pauses: list[float] = []

    def refuse(command: Any) -> Any:
        if isinstance(command, ListIndexes):
            return []
        if isinstance(command, CreateIndexes):
            raise refusal
        assert isinstance(command, Sleep)
        pauses.append(command.seconds)
        return None

    plan = ensure_indexes([Index("data", "by_a", (("a", 1),))])
    with pytest.raises(OperationFailure, match="in progress"):
        run_steps(plan, refuse)
    assert pauses == [0.25, 0.5, 1, 2, 4, 8, 16]


def run_steps(plan: Any, perform: Any) -> None:
    resume, answer = plan.send, None
    while True:
        command = resume(answer)
        try:
            resume, answer = plan.send, perform(command)
        except OperationFailure as error:
            resume, answer = plan.throw, error


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("schema_*.json")), ids=lambda path: path.stem)
def test_documents_of_every_past_version_load(
    path: Path, mongo_client: MongoClient, database_name: str
) -> None:
    stored = json_util.loads(path.read_text())
    for name, documents in stored["collections"].items():
        mongo_client[database_name][name].insert_many(documents)
    saver = MongoSaver(mongo_client, database_name, collection_prefix="")
    found = list(saver.list({"configurable": {"thread_id": "thread-1"}}))
    assert [one.config["configurable"]["checkpoint_id"] for one in found] == stored["expected"][
        "ids"
    ]
    assert found[0].checkpoint["channel_values"]["messages"] == stored["expected"]["messages"]
    assert found[0].pending_writes == [("task", "messages", "late")]
    saver.put(found[0].config, {**found[0].checkpoint, "id": "2"}, {"source": "loop"}, {})
    newest = saver.get_tuple({"configurable": {"thread_id": "thread-1"}})
    assert newest is not None
    assert newest.checkpoint["channel_values"] == found[0].checkpoint["channel_values"]


def test_a_document_of_the_future_is_refused_by_name(
    mongo_client: MongoClient, database_name: str
) -> None:
    saver = MongoSaver(mongo_client, database_name)
    checkpoint: Any = {
        "v": 4,
        "id": "1",
        "ts": "",
        "channel_values": {"a": 1},
        "channel_versions": {"a": "1"},
        "versions_seen": {},
        "updated_channels": None,
    }
    config = saver.put(
        {"configurable": {"thread_id": "t", "checkpoint_ns": ""}},
        checkpoint,
        {"source": "loop"},
        {},
    )
    mongo_client[database_name]["mongomem_checkpoints"].update_many(
        {}, {"$set": {"schema_version": 99}}
    )
    with pytest.raises(SchemaVersionError, match=r"'1' of thread 't' has schema version 99"):
        saver.get_tuple(config)
    with pytest.raises(SchemaVersionError):
        MongoSaver(mongo_client, database_name).put(
            config, {**checkpoint, "id": "2"}, {"source": "loop"}, {}
        )


def test_update_requests_are_values() -> None:
    assert Update({"_id": 1}, {"$set": {"a": 1}}) == Update({"_id": 1}, {"$set": {"a": 1}})
