"""What others do to the same items meanwhile: nothing acknowledged is undone, nothing expired comes
back.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import mongomock
import pytest
from pymongo import MongoClient
from pymongo.errors import BulkWriteError

from mongomem import IndexMismatchError, MongoMemory, MongoStore
from mongomem.engine.commands import BulkWrite, Delete, Update
from mongomem.engine.effects import Sleep
from mongomem.engine.writes import bulk_upsert
from support.bag_of_words import bag_of_words

NS = ("u", "memories")


def index(dims: int, **more: Any) -> Any:
    return {"embed": bag_of_words(dims), "dims": dims, "fields": ["text"], **more}


class Clock:
    """A time in hand, from today on: mongomock deletes by TTL indexes and by the clock of the
    machine.
    """

    def __init__(self) -> None:
        self.now = datetime.now(timezone.utc).replace(microsecond=0)

    def __call__(self) -> datetime:
        return self.now


def failure(*indexes: int, code: int = 11000) -> BulkWriteError:
    return BulkWriteError({"writeErrors": [{"index": index, "code": code} for index in indexes]})


def test_only_what_met_another_writer_is_sent_again() -> None:
    writes = [
        *(Update({"_id": number}, {"$set": {"a": 1}}, upsert=True) for number in range(4)),
        Delete({"_id": 9}),
    ]
    plan = bulk_upsert("items", writes)
    first = plan.send(None)
    assert first == BulkWrite("items", writes, ordered=False)
    assert isinstance(plan.throw(failure(1, 3)), Sleep)
    assert plan.send(None) == BulkWrite("items", [writes[1], writes[3]], ordered=False)
    assert isinstance(plan.throw(failure(1)), Sleep)
    assert plan.send(None) == BulkWrite("items", [writes[3]], ordered=False)
    with pytest.raises(StopIteration):
        plan.send(None)


def test_other_failures_and_endless_ones_are_raised() -> None:
    with pytest.raises(BulkWriteError):
        attempt([Update({"_id": 1}, {})], failure(0, code=17419), 1)
    with pytest.raises(BulkWriteError):
        attempt([Update({"_id": 1}, {})], failure(0), 50)


def attempt(writes: Sequence[Any], error: BulkWriteError, times: int) -> None:
    plan = bulk_upsert("items", writes)
    command: Any = plan.send(None)
    for _ in range(times):
        command = plan.throw(error) if isinstance(command, BulkWrite) else plan.send(None)
    plan.close()
    pytest.fail(f"{command} was still sent")


def test_an_item_lives_its_time_however_long_its_embedding_takes() -> None:
    clock = Clock()

    def slow(texts: Sequence[str]) -> list[list[float]]:
        clock.now += timedelta(minutes=5)
        return [[1.0, 0.0] for _ in texts]

    options: Any = {
        "index": {"embed": slow, "dims": 2, "fields": ["text"], "model": "slow"},
        "clock": clock,
    }
    store = MongoStore(mongomock.MongoClient(), **options)
    store.put(NS, "k", {"text": "tea"}, ttl=1)
    found = store.get(NS, "k")
    assert found is not None
    assert found.updated_at == clock.now


def test_a_refresh_brings_nothing_back_and_shortens_nothing() -> None:
    clock, client = Clock(), mongomock.MongoClient()
    embed = bag_of_words(8)

    def slow(texts: Sequence[str]) -> Any:
        clock.now += timedelta(seconds=delay)
        return embed(texts)

    options: Any = {
        "index": {"embed": slow, "dims": 8, "fields": ["text"], "model": "slow"},
        "clock": clock,
    }
    store = MongoStore(client, ttl={"default_ttl": 1}, **options)
    delay = 0
    store.put(NS, "k", {"text": "tea"})
    clock.now += timedelta(seconds=55)
    delay = 10
    store.search(NS, query="tea")
    clock.now += timedelta(seconds=1)
    assert MongoStore(client, clock=clock).get(NS, "k") is None
    delay = 0
    store.put(NS, "k", {"text": "tea"})
    fresh = client["mongomem"]["mongomem_store_items"].find_one({"key": "k"})["expires_at"]
    late = Clock()
    late.now = clock.now - timedelta(seconds=30)
    MongoStore(client, ttl={"default_ttl": 1}, clock=late).get(NS, "k")
    assert client["mongomem"]["mongomem_store_items"].find_one({"key": "k"})["expires_at"] == fresh


def test_a_reindex_to_another_configuration_ends_the_one_before(
    mongo_client: MongoClient, database_name: str
) -> None:
    first = MongoStore(mongo_client, database_name, index=index(8))
    for number in range(120):
        first.put(NS, f"{number}", {"text": f"word {number}"})
    second = MongoStore(mongo_client, database_name, index=index(16))
    begun: list[bool] = []
    words = bag_of_words(4)

    def interrupting(texts: Sequence[str]) -> Any:
        if not begun:
            begun.append(True)
            second.reindex()
        return words(texts)

    options: Any = {"embed": interrupting, "dims": 4, "fields": ["text"], "model": "third"}
    third = MongoStore(mongo_client, database_name, index=options)
    with pytest.raises(IndexMismatchError):
        third.reindex()
    second.reindex()
    found = second.search(NS, query="word 7", limit=200)
    assert len(found) == 120
    assert all(item.score is not None for item in found)


def test_a_store_in_use_learns_of_a_reindex(
    mongo_client: MongoClient, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = MongoStore(mongo_client, database_name, index=index(8))
    old.put(NS, "a", {"text": "tea"})
    MongoStore(mongo_client, database_name, index=index(16)).reindex()
    monkeypatch.setattr("mongomem.store.context.CHECK_VALID_SECONDS", 0.0)
    with pytest.raises(IndexMismatchError):
        old.put(NS, "b", {"text": "coffee"})
    with pytest.raises(IndexMismatchError):
        old.search(NS, query="tea")


def test_an_export_misses_and_repeats_nothing_that_was_there_throughout(
    mongo_client: MongoClient, database_name: str
) -> None:
    memory = MongoMemory(mongo_client, database_name)
    for number in range(250):
        memory.store.put(("ada", "memories"), f"{number:03}", {"n": number})
    exported: list[str] = []
    for place, item in enumerate(memory.export_user("ada")):
        exported.append(item.key)  # type: ignore[union-attr]
        if place == 50:
            memory.store.put(("ada", "memories"), "240", {"n": "again"})
            for key in exported[:5]:
                memory.store.delete(("ada", "memories"), key)
    assert exported == [f"{number:03}" for number in range(250)]
