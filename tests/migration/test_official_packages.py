"""Databases that the official packages wrote, those of today and their first versions."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import pytest
from bson import ObjectId
from langgraph.checkpoint.mongodb import MongoDBSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.store.mongodb import MongoDBStore
from langgraph.types import Command
from pymongo import MongoClient

from mongomem import MongoSaver, MongoStore
from mongomem.engine.commands import as_utc
from mongomem.migration.mongodb_items import ITEMS, MongoDBItems
from mongomem.migration.mongodb_threads import CHECKPOINTS, WRITES, MongoDBThreads
from mongomem.migration.store_items import StoreItems
from support.migrations import (
    GRAPHS,
    ODD,
    assert_same_threads,
    chat,
    config_of,
    copy,
    documents_of,
    fill,
    refund,
    store_former,
)

pytestmark = pytest.mark.shares_database


TARGETS = ("mongomem_checkpoints", "mongomem_checkpoint_writes")


@dataclasses.dataclass
class Note:
    """A class of an application, which stands in a state."""

    text: str


def official(client: MongoClient, db_name: str, **options: Any) -> MongoDBSaver:
    return MongoDBSaver(client, db_name, **options)


def kept(database_name: str) -> tuple[Any, ...]:
    return database_name, CHECKPOINTS, WRITES


def test_threads_of_many_kinds_come_over_whole(
    mongo_client: MongoClient, database_name: str
) -> None:
    old = official(mongo_client, database_name)
    fill(old)
    before = documents_of(mongo_client, *kept(database_name))
    source = MongoDBThreads(mongo_client, database_name)
    source.check()

    report = copy(mongo_client, database_name, source)

    assert report.is_clean
    assert report.threads == 8
    assert report.checkpoints.copied == report.checkpoints.found == report.compared
    assert documents_of(mongo_client, *kept(database_name)) == before
    new = MongoSaver(mongo_client, database_name)
    assert_same_threads(old, new)
    odd = new.get_tuple(config_of("odd"))
    assert odd is not None
    assert {key: odd.metadata[key] for key in ODD} == ODD
    of_ada = new.list_threads(filter={"user_id": "ada"})
    assert [one.thread_id for one in of_ada] == ["odd", "chat"]


def test_threads_go_on_where_they_waited(mongo_client: MongoClient, database_name: str) -> None:
    old = official(mongo_client, database_name)
    fill(old)
    copy(mongo_client, database_name, MongoDBThreads(mongo_client, database_name))
    new = MongoSaver(mongo_client, database_name)
    nested = GRAPHS["nested"](new).invoke(Command(resume="yes"), config_of("nested"))
    assert nested["log"][-2:] == ["decided yes", "close"]
    graph, config = GRAPHS["asking"](new), config_of("asking")
    waits = graph.get_state(config).interrupts
    assert len(waits) == 2
    for answer in ("first", "second"):
        resume = {one.id: answer for one in graph.get_state(config).interrupts}
        done = graph.invoke(Command(resume=resume), config)
    assert done["log"][-1] == "finish"
    counted = GRAPHS["counting"](new).invoke({"items": ["y"]}, config_of("counting"))
    assert counted["items"][-1] == f"step {counted['last']}"
    assert len(counted["items"]) == 12


def test_pending_writes_keep_their_places(mongo_client: MongoClient, database_name: str) -> None:
    fill(official(mongo_client, database_name))
    copy(mongo_client, database_name, MongoDBThreads(mongo_client, database_name))
    names = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "task_path", "idx")
    old, new = (
        {tuple(one[name] for name in names) for one in mongo_client[database_name][written].find()}
        for written in (WRITES, TARGETS[1])
    )
    assert old
    assert new == old


def test_what_the_first_versions_stored(mongo_client: MongoClient, database_name: str) -> None:
    former = store_former(mongo_client, database_name)
    assert former["versions"]["langgraph-checkpoint-mongodb"] == "0.2.0"
    assert former["versions"]["langgraph-store-mongodb"] == "0.1.0"
    names = (*kept(database_name), ITEMS)
    mongo_client[database_name][ITEMS].create_index("updated_at", expireAfterSeconds=86_400)
    before = documents_of(mongo_client, *names)

    report = copy(
        mongo_client,
        database_name,
        MongoDBThreads(mongo_client, database_name),
        MongoDBItems(mongo_client, database_name),
    )

    assert report.is_clean
    assert (report.threads, report.checkpoints.copied, report.items.copied) == (2, 8, 2)
    assert documents_of(mongo_client, *names) == before
    new, store = MongoSaver(mongo_client, database_name), MongoStore(mongo_client, database_name)
    found = new.get_tuple(config_of("chat"))
    assert found is not None
    assert found.metadata["odd key"] == {"a": [1, None, {"b": 2}]}
    paid = refund(new).invoke(Command(resume=True), config_of("refund"))
    assert [one.text for one in paid["messages"]] == ["Refund 1001", "paid"]
    (home,) = former[ITEMS][:1]
    item = store.get(("ada", "memories"), "home", refresh_ttl=False)
    assert item is not None
    assert (item.value, item.updated_at) == (home["value"], as_utc(home["updated_at"]))
    (stored,) = mongo_client[database_name]["mongomem_store_items"].find({"key": "home"})
    assert stored["ttl_minutes"] == 1440


def test_a_thread_has_the_times_of_its_checkpoints(
    mongo_client: MongoClient, database_name: str
) -> None:
    former = store_former(mongo_client, database_name)
    copy(mongo_client, database_name, MongoDBThreads(mongo_client, database_name))
    threads = MongoSaver(mongo_client, database_name).list_threads()
    assert [one.thread_id for one in threads] == ["refund", "chat"]
    written = max(one["_id"].generation_time for one in former[CHECKPOINTS])
    assert all(abs((one.updated_at - written).total_seconds()) < 2 for one in threads)


def test_a_second_copy_changes_nothing_and_takes_in_what_came(
    mongo_client: MongoClient, database_name: str
) -> None:
    old = official(mongo_client, database_name)
    source = MongoDBThreads(mongo_client, database_name)
    chat(old).invoke({"messages": "Hello"}, config_of("chat"))
    copy(mongo_client, database_name, source)
    before = documents_of(mongo_client, database_name, *TARGETS)
    again = copy(mongo_client, database_name, source)
    assert (again.checkpoints.copied, again.checkpoints.present) == (0, 3)
    assert documents_of(mongo_client, database_name, *TARGETS) == before

    chat(old).invoke({"messages": "Go on"}, config_of("chat"))
    chat(MongoSaver(mongo_client, database_name)).invoke({"messages": "Here"}, config_of("other"))
    more = copy(mongo_client, database_name, source)
    assert (more.checkpoints.copied, more.checkpoints.present) == (3, 3)
    assert more.is_clean


def test_a_thread_that_went_on_in_the_target_keeps_that(
    mongo_client: MongoClient, database_name: str
) -> None:
    old, new = official(mongo_client, database_name), MongoSaver(mongo_client, database_name)
    source = MongoDBThreads(mongo_client, database_name)
    chat(old).invoke({"messages": "Hello"}, config_of("chat"))
    copy(mongo_client, database_name, source)
    went_on = chat(new).invoke({"messages": "Here"}, config_of("chat"))
    (before,) = new.list_threads()
    assert copy(mongo_client, database_name, source).is_clean
    (after,) = new.list_threads()
    assert after.updated_at == before.updated_at
    assert chat(new).get_state(config_of("chat")).values == went_on


def test_what_cannot_be_read_is_named_and_the_rest_comes_over(
    mongo_client: MongoClient, database_name: str
) -> None:
    plain = official(mongo_client, database_name)
    secret = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    chat(plain).invoke({"messages": "Hello"}, config_of("plain"))
    chat(plain).invoke({"messages": "Hello"}, config_of("damaged"))
    chat(official(mongo_client, database_name, serde=secret)).invoke(
        {"messages": "Hello"}, config_of("secret")
    )
    checkpoints = mongo_client[database_name][CHECKPOINTS]
    (one, *_) = checkpoints.find({"thread_id": "damaged"}).sort("checkpoint_id", 1)
    checkpoints.update_one({"_id": one["_id"]}, {"$set": {"checkpoint": b"\xc1 not msgpack"}})
    checkpoints.insert_one({"_id": ObjectId(), "thread_id": {"no": "id"}, "checkpoint_id": "1"})
    checkpoints.insert_one({"_id": ObjectId(), "thread_id": "plain", "checkpoint_id": 1.5})

    report = copy(mongo_client, database_name, MongoDBThreads(mongo_client, database_name))

    named = {left.what: left.reason for left in report.left_out.first}
    assert report.left_out.count == len(named) == 6
    assert sum("encrypted (msgpack+aes)" in reason for reason in named.values()) == 3
    assert named[f"checkpoint {one['checkpoint_id']!r} of thread 'damaged'"]
    assert report.checkpoints.copied == 5
    assert not report.differences.count
    new = MongoSaver(mongo_client, database_name)
    assert {thread.thread_id for thread in new.list_threads()} == {"plain", "damaged"}

    with_key = MongoDBThreads(mongo_client, database_name, serde=secret)
    assert copy(mongo_client, database_name, with_key).checkpoints.copied == 3


def test_classes_that_are_not_imported_are_no_plain_data(
    mongo_client: MongoClient, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = official(mongo_client, database_name)
    config = config_of("noted")
    chat(old).update_state(config, {"messages": [("ai", "noted")]})
    noted = old.get_tuple(config)
    assert noted is not None
    note = dataclasses.replace(Note("here"))
    old.put_writes(noted.config, [("note", note)], "task")
    source = MongoDBThreads(mongo_client, database_name)

    with monkeypatch.context() as without:
        without.delitem(sys.modules, __name__)
        (left,) = copy(mongo_client, database_name, source).left_out.first
    assert f"{__name__}.Note" in left.reason
    assert "--import" in left.reason

    assert copy(mongo_client, database_name, source).is_clean
    found = MongoSaver(mongo_client, database_name).get_tuple(config)
    assert found is not None
    assert found.pending_writes == [("task", "note", note)]


def test_ids_of_threads_that_are_no_strings(mongo_client: MongoClient, database_name: str) -> None:
    """The saver takes strings alone since 0.5; before it stored what it was given."""
    store_former(mongo_client, database_name)
    both = [mongo_client[database_name][name] for name in (CHECKPOINTS, WRITES)]
    for collection in both:
        collection.update_many({"thread_id": "refund"}, {"$set": {"thread_id": 7}})
    report = copy(mongo_client, database_name, MongoDBThreads(mongo_client, database_name))
    assert report.is_clean
    assert report.checkpoints.copied == 8
    paid = refund(MongoSaver(mongo_client, database_name)).invoke(
        Command(resume=True), config_of("7")
    )
    assert paid["messages"][-1].text == "paid"


def test_items_of_the_store_come_over_with_their_times(
    mongo_client: MongoClient, database_name: str
) -> None:
    old = MongoDBStore(mongo_client[database_name][ITEMS])
    for number in range(205):
        old.put(("users", f"{number % 3}"), f"k{number}", {"n": number, "nested": {"a": [1.5]}})
    mongo_client[database_name][ITEMS].insert_one({"_id": ObjectId(), "key": "broken"})
    before = documents_of(mongo_client, database_name, ITEMS)

    report = copy(mongo_client, database_name, items=MongoDBItems(mongo_client, database_name))

    assert documents_of(mongo_client, database_name, ITEMS) == before
    assert (report.items.found, report.items.copied, report.compared) == (206, 205, 205)
    (left,) = report.left_out.first
    assert "'broken'" in left.what
    assert not report.differences.count
    store = MongoStore(mongo_client, database_name)
    there, here = (
        {(one.namespace, one.key): one.value for one in each.search(("users",), limit=300)}
        for each in (old, store)
    )
    assert here == there

    again = copy(mongo_client, database_name, items=MongoDBItems(mongo_client, database_name))
    assert (again.items.copied, again.items.present) == (0, 205)


def test_the_store_by_its_public_methods_is_not_read_whole(
    mongo_client: MongoClient, database_name: str
) -> None:
    """It has no pages, so what may be missing is named; its documents are read whole."""
    old = MongoDBStore(mongo_client[database_name][ITEMS])
    old.put(("a",), "k", {"n": 1})
    before = documents_of(mongo_client, database_name, ITEMS)
    report = copy(mongo_client, database_name, items=StoreItems(old))
    assert documents_of(mongo_client, database_name, ITEMS) == before
    assert report.items.copied == 1
    assert [left.what for left in report.left_out.first] == [
        "items of ('a',) behind the first 1",
        "namespaces behind the first 1",
    ]


def test_an_item_that_was_updated_in_the_target_stays_and_is_named(
    mongo_client: MongoClient, database_name: str
) -> None:
    MongoDBStore(mongo_client[database_name][ITEMS]).put(("a",), "k", {"n": 1})
    source = MongoDBItems(mongo_client, database_name)
    copy(mongo_client, database_name, items=source)
    store = MongoStore(mongo_client, database_name)
    store.put(("a",), "k", {"n": 2})
    report = copy(mongo_client, database_name, items=source)
    assert report.items.copied == 0
    (differs,) = report.differences.first
    assert differs.reason == "value; updated_at"
    item = store.get(("a",), "k")
    assert item is not None
    assert item.value == {"n": 2}
