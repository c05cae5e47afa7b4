"""Savers and stores of other packages, read by their public methods."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from langgraph.types import Command
from pymongo import MongoClient

from mongomem import MongoSaver, MongoStore
from mongomem.migration.saver_threads import SaverThreads
from mongomem.migration.store_items import StoreItems
from mongomem.store.documents.value import as_utc
from support.bag_of_words import bag_of_words
from support.migrations import GRAPHS, assert_same_threads, chat, config_of, copy, fill

pytestmark = pytest.mark.shares_database


@pytest.fixture(params=["sqlite", "memory", "mongomem"])
def old_saver(
    request: pytest.FixtureRequest, mongo_client: MongoClient, database_name: str
) -> Iterator[Any]:
    if request.param == "memory":
        yield InMemorySaver()
    elif request.param == "mongomem":
        yield MongoSaver(mongo_client, database_name, collection_prefix="old_")
    else:
        with SqliteSaver.from_conn_string(":memory:") as saver:
            yield saver


@pytest.fixture(params=["sqlite", "memory", "mongomem"])
def old_store(
    request: pytest.FixtureRequest, mongo_client: MongoClient, database_name: str
) -> Iterator[BaseStore]:
    if request.param == "memory":
        yield InMemoryStore()
    elif request.param == "mongomem":
        yield MongoStore(mongo_client, database_name, collection_prefix="old_")
    else:
        with SqliteStore.from_conn_string(":memory:") as store:
            store.setup()
            yield store


def test_threads_come_over_whole_and_go_on(
    old_saver: Any, mongo_client: MongoClient, database_name: str
) -> None:
    fill(old_saver)
    report = copy(mongo_client, database_name, SaverThreads(old_saver))
    assert report.is_clean
    assert report.threads == 8
    assert report.checkpoints.copied == report.checkpoints.found == report.compared
    new = MongoSaver(mongo_client, database_name)
    assert_same_threads(old_saver, new)
    again = copy(mongo_client, database_name, SaverThreads(old_saver))
    assert (again.checkpoints.copied, again.checkpoints.present) == (0, report.compared)
    nested = GRAPHS["nested"](new).invoke(Command(resume="yes"), config_of("nested"))
    assert nested["log"][-2:] == ["decided yes", "close"]


def test_items_come_over_with_their_times(
    old_store: BaseStore, mongo_client: MongoClient, database_name: str
) -> None:
    for number in range(250):
        old_store.put(("users", f"{number % 2}"), f"k{number}", {"n": number, "a": {"b": [None]}})
    old_store.put(("users",), "above", {"text": "ü"})
    report = copy(mongo_client, database_name, items=StoreItems(old_store))
    assert report.is_clean
    assert (report.items.found, report.items.copied, report.compared) == (251, 251, 251)
    store = MongoStore(mongo_client, database_name)
    there, here = (each.get(("users",), "above") for each in (old_store, store))
    assert there is not None
    assert here is not None
    assert here.value == there.value
    assert abs(here.created_at - as_utc(there.created_at)) < timedelta(milliseconds=1)
    again = copy(mongo_client, database_name, items=StoreItems(old_store))
    assert (again.items.copied, again.items.present) == (0, 251)


def test_items_are_found_by_meaning_after_a_reindex(
    mongo_client: MongoClient, database_name: str
) -> None:
    old = InMemoryStore()
    old.put(("a",), "home", {"text": "a flat in Lisbon"})
    old.put(("a",), "pet", {"text": "a cat"})
    copy(mongo_client, database_name, items=StoreItems(old))

    index: Any = {"embed": bag_of_words(64), "dims": 64, "fields": ["text"]}
    store = MongoStore(mongo_client, database_name, index=index)
    store.reindex()
    found = store.search(("a",), query="a flat in Lisbon", limit=1)
    assert [one.key for one in found] == ["home"]
    assert found[0].score


class Limited(InMemorySaver):
    """A saver whose listings end after a few, newest first, without a limit or with any."""

    def __init__(self, *, unless_told: bool) -> None:
        super().__init__()
        self.unless_told = unless_told

    def list(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None
    ) -> Iterator[Any]:
        # Where it takes a limit it is as that of Redis, which does not know `before`.
        found = [*super().list(config, before=None if self.unless_told else before)]
        found.sort(key=lambda one: one.config["configurable"]["checkpoint_id"], reverse=True)
        yield from found[: (limit or 5) if self.unless_told else 5]


@pytest.mark.parametrize("unless_told", [True, False])
def test_listings_that_end_early_are_read_to_the_last(
    mongo_client: MongoClient, database_name: str, unless_told: bool
) -> None:
    old = Limited(unless_told=unless_told)
    fill(old)
    report = copy(mongo_client, database_name, SaverThreads(old))
    assert report.is_clean
    assert report.threads == 8
    assert report.checkpoints.copied == sum(
        len(checkpoints) for spaces in old.storage.values() for checkpoints in spaces.values()
    )


class Unreadable(JsonPlusSerializer):
    """A serializer that cannot read what holds a word."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        if b"secret" in data[1]:
            raise ValueError("no key\nfor this")
        return super().loads_typed(data)


def test_a_listing_that_fails_is_named(mongo_client: MongoClient, database_name: str) -> None:
    saver = InMemorySaver(serde=Unreadable())
    chat(saver).invoke({"messages": "Hello"}, config_of("plain"))
    unreadable: Any = {**empty_checkpoint(), "ts": "secret"}
    saver.put(config_of("secret", checkpoint_ns=""), unreadable, {}, {})
    report = copy(mongo_client, database_name, SaverThreads(saver))
    assert report.checkpoints.copied == 3
    (left,) = report.left_out.first
    assert left.reason == "ValueError: no key for this"


def test_a_value_that_cannot_be_stored_is_named(
    mongo_client: MongoClient, database_name: str
) -> None:
    old = InMemoryStore()
    old.put(("a",), "good", {"n": 1})
    old.put(("a",), "bad", {"n": object()})
    report = copy(mongo_client, database_name, items=StoreItems(old))
    (left,) = report.left_out.first
    assert left.what == "item 'bad' in ('a',)"
    assert (report.items.found, report.items.copied, report.compared) == (2, 1, 1)
