"""Savers and stores of other packages, read by their public methods."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore
from langgraph.types import Command
from pymongo import MongoClient
from typing_extensions import TypedDict

from mongomem import MongoSaver, MongoStore
from mongomem.engine.commands import as_utc
from mongomem.migration.item_copies import ItemCopies
from mongomem.migration.report import Report
from mongomem.migration.saver_threads import SaverThreads
from mongomem.migration.store_items import StoreItems
from support.bag_of_words import bag_of_words
from support.graphs import extend
from support.migrations import GRAPHS, assert_same_threads, chat, config_of, copy, fill
from support.stores import Clock

pytestmark = pytest.mark.shares_database


@pytest.fixture(params=["sqlite", "memory", "mongomem", "postgres"])
def old_saver(
    request: pytest.FixtureRequest, mongo_client: MongoClient, database_name: str
) -> Iterator[Any]:
    if request.param == "memory":
        yield InMemorySaver()
    elif request.param == "mongomem":
        yield MongoSaver(mongo_client, database_name, collection_prefix="old_")
    elif request.param == "sqlite":
        with SqliteSaver.from_conn_string(":memory:") as saver:
            yield saver
    else:
        with PostgresSaver.from_conn_string(request.getfixturevalue("postgres_uri")) as saver:
            yield saver


@pytest.fixture(params=["sqlite", "memory", "mongomem", "postgres"])
def old_store(
    request: pytest.FixtureRequest, mongo_client: MongoClient, database_name: str
) -> Iterator[BaseStore]:
    if request.param == "memory":
        yield InMemoryStore()
    elif request.param == "mongomem":
        yield MongoStore(mongo_client, database_name, collection_prefix="old_")
    elif request.param == "sqlite":
        with SqliteStore.from_conn_string(":memory:") as store:
            store.setup()
            yield store
    else:
        with PostgresStore.from_conn_string(request.getfixturevalue("postgres_uri")) as store:
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


def test_a_checkpoint_that_was_put_by_its_own_config_has_no_parent(
    old_saver: Any, mongo_client: MongoClient, database_name: str
) -> None:
    config: dict[str, Any] = {"configurable": {"thread_id": "again", "checkpoint_ns": ""}}
    old_saver.put(config, empty_checkpoint(), {}, {})
    one = old_saver.get_tuple(config)
    old_saver.put(one.config, one.checkpoint, one.metadata, {})
    report = copy(mongo_client, database_name, SaverThreads(old_saver))
    assert report.is_clean
    assert report.compared == 1
    assert MongoSaver(mongo_client, database_name).get_tuple(config).parent_config is None


def go_on(graph: Any, config: dict[str, Any]) -> list[Any]:
    """Answer what a thread waits for, or begin a new turn; return what is seen of each step."""
    seen = []
    for _ in range(3):
        interrupts = graph.get_state(config).interrupts
        answers = {one.id: f"answer to {one.value}" for one in interrupts}
        given = Command(resume=answers) if answers else {"topic": "later"}
        result = graph.invoke(given, config)
        # Their ids are those of the run, and they come in any order.
        asked = sorted(repr(one.value) for one in result.pop("__interrupt__", ()))
        seen.append((result, asked))
        if not answers:
            break
    state = graph.get_state(config)
    return [*seen, state.values, state.next, len([*graph.get_state_history(config)])]


@pytest.mark.parametrize("name", [name for name in GRAPHS if name != "counting"])
def test_threads_go_on_as_they_would_have_at_their_source(
    name: str, old_saver: Any, mongo_client: MongoClient, database_name: str
) -> None:
    old, config = GRAPHS[name](old_saver), config_of(name)
    old.invoke({"topic": "x"}, config)
    past = [*old.get_state_history(config)][-2]
    fork = old.update_state(past.config, {"log": ["forked"]}) if name == "forked" else config
    assert copy(mongo_client, database_name, SaverThreads(old_saver)).is_clean
    new = GRAPHS[name](MongoSaver(mongo_client, database_name))
    assert go_on(new, fork) == go_on(old, fork)


def gathering(saver: Any) -> Any:
    """Compile nodes side by side that append to one DeltaChannel: which comes first is told by the
    paths of tasks alone, and not by their ids.
    """
    channel = DeltaChannel(extend, list, snapshot_frequency=1000)
    schema = TypedDict("Gathered", {"items": Annotated[list, channel]})  # noqa: UP013 (a type made here)
    builder = StateGraph(schema)
    for name in "abcdefgh":
        builder.add_node(name, lambda state, name=name: {"items": [name]})
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


def test_what_parallel_tasks_wrote_keeps_its_order(
    old_saver: Any, mongo_client: MongoClient, database_name: str
) -> None:
    old, config = gathering(old_saver), config_of("gathered")
    for _ in range(3):
        old.invoke({"items": ["given"]}, config)
    assert copy(mongo_client, database_name, SaverThreads(old_saver)).is_clean
    new = gathering(MongoSaver(mongo_client, database_name))
    for _ in range(2):
        assert new.get_state(config).values == {"items": ["given", *"abcdefgh"] * 3}
        assert [*new.get_state_history(config)] == [*old.get_state_history(config)]
        copy(mongo_client, database_name, SaverThreads(old_saver))
    assert new.invoke({"items": ["more"]}, config) == old.invoke({"items": ["more"]}, config)


class Turned(InMemorySaver):
    """A saver that gives pending writes in the other order, once it is told to."""

    is_turned = False

    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        if found is None or not self.is_turned:
            return found
        return found._replace(pending_writes=[*reversed(found.pending_writes or ())])


def test_another_order_of_what_parallel_tasks_wrote_is_a_difference(
    mongo_client: MongoClient, database_name: str
) -> None:
    old = Turned()
    gathering(old).invoke({"items": ["given"]}, config_of("gathered"))
    source = SaverThreads(old)
    assert copy(mongo_client, database_name, source).is_clean
    old.is_turned = True
    differences = copy(mongo_client, database_name, source).differences
    assert [one.reason for one in differences.first] == ["the order of its writes"]


def damage(saver: Any, thread_id: str, kind: str, data: bytes) -> None:
    """Put other bytes in the place of what the newest checkpoint of a thread is made of."""
    if isinstance(saver, InMemorySaver):
        newest = max(saver.storage[thread_id][""])
        _, *others = saver.storage[thread_id][""][newest]
        saver.storage[thread_id][""][newest] = ((kind, data), *others)
        return
    is_sqlite = isinstance(saver, SqliteSaver)
    table, column = ("checkpoints", "checkpoint") if is_sqlite else ("checkpoint_blobs", "blob")
    mark = "?" if is_sqlite else "%s"
    saver.conn.execute(
        f"UPDATE {table} SET type = {mark}, {column} = {mark} WHERE thread_id = {mark}",
        (kind, data, thread_id),
    )


@pytest.mark.parametrize("old_saver", ["sqlite", "memory", "postgres"], indirect=True)
def test_what_cannot_be_read_is_named_and_the_others_come_over(
    old_saver: Any, mongo_client: MongoClient, database_name: str
) -> None:
    """A listing would end at it, and there are threads before and behind it."""
    for name in ("oldest", "damaged", "middle", "of a newer kind", "newest"):
        chat(old_saver).invoke({"messages": "Hello"}, config_of(name))
    damage(old_saver, "damaged", "msgpack", b"\xc1")
    damage(old_saver, "of a newer kind", "zip", b"PK")

    report = copy(mongo_client, database_name, SaverThreads(old_saver))

    named = {left.what.partition(" of ")[2]: left.reason for left in report.left_out.first}
    assert named.keys() == {"thread 'damaged'", "thread 'of a newer kind'"}
    assert all(len(reason.splitlines()) == 1 for reason in named.values())
    assert (report.threads, report.differences.count) == (5, 0)
    new = MongoSaver(mongo_client, database_name)
    for name in ("oldest", "middle", "newest"):
        assert [*new.list(config_of(name))] == [*old_saver.list(config_of(name))]
    assert report.checkpoints.copied + report.left_out.count == report.checkpoints.found == 15


@pytest.mark.parametrize("old_saver", ["sqlite", "memory", "postgres"], indirect=True)
def test_a_thread_whose_id_is_none_is_named(
    old_saver: Any, mongo_client: MongoClient, database_name: str
) -> None:
    for name in ("before", "", "behind"):
        chat(old_saver).invoke({"messages": "Hello"}, config_of(name))
    report = copy(mongo_client, database_name, SaverThreads(old_saver))
    (left,) = report.left_out.first
    assert (left.what, left.reason) == ("thread ''", "a thread_id is not empty")
    assert report.checkpoints.copied == 6


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


def test_a_ttl_of_sqlite_is_not_refreshed_and_not_told(
    mongo_client: MongoClient, database_name: str
) -> None:
    ttl: Any = {"default_ttl": 60, "refresh_on_read": True}
    clock = Clock()
    target = MongoStore(mongo_client, database_name, ttl={"default_ttl": 5}, clock=clock)
    with SqliteStore.from_conn_string(":memory:", ttl=ttl) as old:
        old.setup()
        for key, minutes in (("default", 60), ("never", None), ("short", 5)):
            old.put(("a",), key, {"n": 1}, ttl=minutes)
        expiry = "SELECT key, expires_at FROM store ORDER BY key"
        before = old.conn.execute(expiry).fetchall()
        report = Report()
        ItemCopies(StoreItems(old), target, report).make()
        assert old.conn.execute(expiry).fetchall() == before
    assert (report.items.copied, report.left_out.count) == (3, 0)
    found = mongo_client[database_name]["mongomem_store_items"].find({})
    assert [as_utc(one["expires_at"]) for one in found] == [clock.now + timedelta(minutes=5)] * 3


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


def test_a_checkpoint_that_the_serializer_refuses_is_named(
    mongo_client: MongoClient, database_name: str
) -> None:
    saver = InMemorySaver(serde=Unreadable())
    chat(saver).invoke({"messages": "Hello"}, config_of("plain"))
    unreadable: Any = {**empty_checkpoint(), "ts": "secret"}
    saver.put(config_of("secret", checkpoint_ns=""), unreadable, {}, {})
    report = copy(mongo_client, database_name, SaverThreads(saver))
    assert report.checkpoints.copied == 3
    (left,) = report.left_out.first
    assert left.what == f"checkpoint {unreadable['id']!r} of thread 'secret'"
    assert left.reason == "ValueError: no key for this"


class Ending(InMemorySaver):
    """A saver whose listings fail behind the checkpoints of one thread."""

    def list(self, config: Any, **options: Any) -> Iterator[Any]:
        yield from super().list(config or config_of("plain"))
        if config is None:
            raise LookupError("no such page")


def test_a_listing_that_fails_is_named(mongo_client: MongoClient, database_name: str) -> None:
    saver = Ending()
    for name in ("plain", "behind"):
        chat(saver).invoke({"messages": "Hello"}, config_of(name))
    report = copy(mongo_client, database_name, SaverThreads(saver))
    assert report.checkpoints.copied == 3
    (left,) = report.left_out.first
    assert left.what == "what the saver lists behind these threads"
    assert left.reason == "LookupError: no such page"


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
