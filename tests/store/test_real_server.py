"""What only a real server can show: plans of queries, round trips, rights, crashes, and many at
once.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import AutoReconnect, OperationFailure
from pymongo.monitoring import CommandListener

from mongomem.engine.commands import BulkWrite, Delete, DeleteMany, Replace, Update, UpdateMany
from mongomem.store.documents.item import Collections, indexes_for
from mongomem.store.plans import batch, reindex
from mongomem.store.plans.index_sync import MOST_AT_ONCE
from mongomem.store.plans.put import delete_namespace
from mongomem.store.plans.setup import setup
from mongomem.store.store import MongoStore
from mongomem.store.vectors.index_cache import MANY_KNOWN, MAX_DEFERRALS, MAX_DEFERRED
from mongomem.testing import FailingRunner, RecordingRunner
from support.stores import CountingEmbedder, keys, words
from support.waits import HANG_SECONDS

NS = ("users", "u1")


class Sent(CommandListener):
    """Keeps the commands that a client sends."""

    def __init__(self) -> None:
        self.commands: list[Any] = []

    @property
    def names(self) -> list[str]:
        return [
            command.command_name
            for command in self.commands
            if command.command_name not in ("endSessions", "ping")
        ]

    def started(self, event: Any) -> None:
        self.commands.append(event)

    def succeeded(self, event: Any) -> None: ...
    def failed(self, event: Any) -> None: ...


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
def client(mongo_uri: str, sent: Sent) -> Iterator[MongoClient]:
    with MongoClient(mongo_uri, event_listeners=[sent]) as client:
        yield client


# --- indexes and round trips
# -----------------------------------------------------------------------


def planners(reply: Any) -> list[Any]:
    """Collect the plans of an explanation: of a find or a write there is one, of an aggregation one
    in its cursor.
    """
    if "queryPlanner" in reply:
        return [reply["queryPlanner"]]
    return [stage["$cursor"]["queryPlanner"] for stage in reply["stages"] if "$cursor" in stage]


def stages(plan: Any) -> set[str]:
    """Collect the names of all stages of an explained plan."""
    if isinstance(plan, dict):
        own = {plan["stage"]} if "stage" in plan else set()
        return own.union(*(stages(part) for part in plan.values()))
    return set().union(*(stages(part) for part in plan)) if isinstance(plan, list) else set()


def test_every_query_uses_an_index_and_none_sorts(
    client: MongoClient, database_name: str, sent: Sent
) -> None:
    store, foreign = (
        MongoStore(client, database_name, index=words(fields=["text"])) for _ in range(2)
    )
    everything = [(user, n) for user in range(200) for n in range(15)]
    store.batch(
        [
            PutOp(
                ("users", f"u{user}"),
                f"k{n}",
                {"text": f"t{n}", "n": n},
                ttl=60 if user % 2 else None,
            )
            for user, n in everything
        ]
    )
    sent.commands.clear()
    for prefix in ((), ("users",), ("users", "u7")):
        store.search(prefix)
        store.search(prefix, filter={"n": {"$gt": 7}}, offset=3, limit=600)
        store.search(prefix, query="t3")
        foreign.put(("users", "u7"), "new", {"text": "t3"})
        store.search(prefix, query="t3", filter={"n": 4})
        store.search(prefix, query="t3", filter={"n": 4}, limit=300)
    store.get(("users", "u7"), "k1")
    store.list_namespaces(prefix=("users",))
    store.list_namespaces(suffix=("u7",), max_depth=1)
    store.delete(("users", "u7"), "k1")
    store.delete_namespace(("users", "u3"))
    explained = 0
    for event in list(sent.commands):
        name = event.command_name
        if name in ("find", "aggregate", "delete", "update") and "$listSearchIndexes" not in str(
            event.command
        ):
            command = {key: part for key, part in event.command.items() if key in EXPLAINABLE}
            command |= {"cursor": {}} if name == "aggregate" else {}
            command |= {
                kind: command[kind][:1] for kind in ("updates", "deletes") if kind in command
            }
            reply = client[database_name].command("explain", command, verbosity="queryPlanner")
            winners = [plan["winningPlan"] for plan in planners(reply)]
            found = stages(winners)
            if "settings" not in str(command[name]):
                assert not found & {"COLLSCAN", "SORT"}, command
                assert found & {"IXSCAN", "IDHACK", "DISTINCT_SCAN", "EOF"} or name == "update", (
                    command,
                    found,
                )
            explained += 1
    assert explained > 20


EXPLAINABLE = (
    "find",
    "filter",
    "sort",
    "projection",
    "limit",
    "skip",
    "hint",
    "aggregate",
    "pipeline",
    "update",
    "updates",
    "delete",
    "deletes",
)


def test_round_trips(client: MongoClient, database_name: str, sent: Sent) -> None:
    store = MongoStore(client, database_name, index=words(fields=["text"]))
    store.put(NS, "a", {"text": "fish"})
    store.search(
        NS, query="fish"
    )  # what is asked once: which backend, which configuration, the index

    def trips(action: Any) -> list[str]:
        sent.commands.clear()
        action()
        return sent.names

    assert trips(lambda: store.get(NS, "a")) == ["find"]
    assert trips(lambda: store.batch([GetOp(NS, "a"), GetOp(NS, "b"), GetOp(("x",), "c")])) == [
        "find"
    ]
    assert trips(lambda: store.put(NS, "b", {"text": "t"})) == ["find", "update"]
    assert trips(
        lambda: store.batch([PutOp(NS, f"k{n}", {"text": f"{n}"}) for n in range(200)])
    ) == ["find", "update"]
    assert trips(lambda: store.delete(NS, "b")) == ["delete"]
    assert trips(lambda: store.search(NS)) == ["find"]
    assert trips(lambda: store.search(NS, query="fish", limit=5)) == ["find", "find", "find"]
    assert trips(lambda: store.search(NS, query="fish", limit=5)) == ["find", "find"]
    for number in range(2 * (MAX_DEFERRALS + 1)):  # a change is loaded after so many deferrals
        MongoStore(client, database_name, index=words(fields=["text"])).put(
            NS, "k1", {"text": f"fish {number}"}
        )
        is_deferred = (number + 1) % (MAX_DEFERRALS + 1) != 0
        assert trips(lambda: store.search(NS, query="fish", limit=5)) == ["find"] * (
            2 if is_deferred else 3
        )
    assert trips(lambda: store.list_namespaces()) == ["aggregate"]
    store.put(("users", "u2"), "a", {"text": "fish"})
    assert trips(lambda: store.search(("users", "u2"), query="fish", limit=1)) == ["find", "find"]
    cold = MongoStore(client, database_name, index=words(fields=["text"]))
    assert trips(lambda: cold.search(("users", "u2"), query="fish", limit=1)) == [
        *("find", "aggregate", "aggregate"),  # the configuration, an item, whether Atlas answers
        *("hello", "find", "find"),
    ]
    assert trips(lambda: MongoStore(client, database_name, index=words())) == []


def test_beside_a_busy_writer_timestamps_are_read_with_what_is_new(
    client: MongoClient, database_name: str, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mongomem.store.vectors.watermark.ALLOWED_LATENESS_SECONDS", 1_000)
    store, foreign = (
        MongoStore(client, database_name, index=words(fields=["text"])) for _ in range(2)
    )
    foreign.batch([PutOp(NS, f"k{n}", {"text": f"t{n}"}) for n in range(MANY_KNOWN.start + 9)])
    for _ in range(2):  # a load, and what changed right before it
        store.search(NS, query="t3")

    def trips(expected: str) -> list[str]:
        sent.commands.clear()
        assert store.search(NS, query=expected, limit=1)[0].value == {"text": expected}
        return sent.names

    assert trips("t7") == ["aggregate", "find"]
    foreign.put(NS, "k7", {"text": "fresh"})
    assert trips("fresh") == ["aggregate", "find"]
    foreign.batch([PutOp(NS, f"k{n}", {"text": f"later{n}"}) for n in range(MAX_DEFERRED + 1)])
    assert trips("later3") == ["aggregate", "find"]
    foreign.batch([PutOp(NS, f"k{n}", {"text": f"last{n}"}) for n in range(MOST_AT_ONCE)])
    assert trips("last11") == ["aggregate", "find", "find", "find"]
    assert trips("last3") == ["aggregate", "find"]
    foreign.delete(NS, "k3")
    assert "k3" not in keys(store.search(NS, query="last3"))
    assert trips("last11") == ["aggregate", "find"]
    (aggregate,) = (one.command for one in sent.commands if one.command_name == "aggregate")
    explained = client[database_name].command(
        "explain",
        {key: part for key, part in aggregate.items() if key in EXPLAINABLE} | {"cursor": {}},
        verbosity="executionStats",
    )
    assert "'totalDocsExamined': 0" in str(explained)


def test_namespaces_are_listed_without_reading_items(
    client: MongoClient, database_name: str
) -> None:
    store = MongoStore(client, database_name)
    store.batch([PutOp(("users", f"u{n % 3}"), f"k{n}", {}) for n in range(300)])
    pipeline = [
        {
            "$match": {
                "path": {"$gte": ""},
                "expires_at": {"$not": {"$lte": store._context().now()}},
            }
        },
        {"$sort": {"path": 1}},
        {"$group": {"_id": "$path"}},
    ]
    explained = client[database_name].command(
        "explain",
        {"aggregate": "mongomem_store_items", "pipeline": pipeline, "cursor": {}},
        verbosity="executionStats",
    )
    assert "totalDocsExamined': 0" in str(explained)


# --- rights
# ----------------------------------------------------------------------------------------


@pytest.fixture
def limited(client: MongoClient, database_name: str) -> Any:
    """Make views with the rights of another user: a client whose commands the server refuses by a
    role's rules.

    The test server runs without access control, so the refusal is the server's own error, raised by
    a listener-free stand-in of the runner."""
    return lambda refused: Refusing(client[database_name], refused)


class Refusing:
    """A database that refuses some commands as a server with access control does (code 13,
    Unauthorized).
    """

    def __init__(self, database: Any, refused: tuple[str, ...]) -> None:
        self.database = database
        self.refused = refused

    def command(self, command: Any) -> Any:
        return self.database.command(command)

    def __getitem__(self, name: str) -> Any:
        return _RefusingCollection(self.database[name], self.refused)


class _RefusingCollection:
    def __init__(self, collection: Any, refused: tuple[str, ...]) -> None:
        self.collection = collection
        self.refused = refused

    def __getattr__(self, name: str) -> Any:
        if name in self.refused:
            raise OperationFailure("not authorized", 13)
        return getattr(self.collection, name)


WRITES = ("bulk_write", "update_many", "delete_many", "create_indexes")


def test_a_user_who_may_only_read_gets_and_searches(
    client: MongoClient, database_name: str, limited: Any
) -> None:
    index = words(fields=["text"])
    MongoStore(client, database_name, index=index).put(NS, "k", {"text": "fish"}, ttl=5)
    store = MongoStore(client, database_name, index=index)
    run = RecordingRunner(limited(WRITES))
    assert run(batch.get(store._context(), [GetOp(NS, "k")]))[0].value == {"text": "fish"}  # type: ignore[union-attr]
    for op in (
        SearchOp(NS),
        SearchOp(NS, query="fish"),
        SearchOp(NS, query="fish", filter={"text": "fish"}),
    ):
        assert keys(run(batch.search(store._context(), op))) == ["k"]
    assert run(batch.list_namespaces(store._context(), ListNamespacesOp())) == [NS]
    with pytest.raises(OperationFailure):
        run(batch.batch(store._context(), [PutOp(NS, "k", {})]))


def test_a_user_who_may_not_create_indexes_works_with_setup_off(
    client: MongoClient, database_name: str, limited: Any
) -> None:
    store = MongoStore(client, database_name, index=words(fields=["text"]), auto_setup=False)
    run = RecordingRunner(limited(("create_indexes",)))
    run(batch.batch(store._context(), [PutOp(NS, "k", {"text": "fish"}, ttl=5)]))
    assert keys(run(batch.search(store._context(), SearchOp(NS, query="fish")))) == ["k"]
    assert keys(run(batch.search(store._context(), SearchOp(NS)))) == ["k"]


# --- crashes
# ---------------------------------------------------------------------------------------


def test_indexes_that_were_dropped_are_made_again(
    client: MongoClient, database_name: str, sent: Sent
) -> None:
    items = client[database_name].mongomem_store_items

    def hints() -> list[Any]:
        sent.commands.clear()
        store.search(NS)
        return [
            command.command.get("hint")
            for command in sent.commands
            if command.command_name == "find"
        ]

    for drop in (items.drop_indexes, items.drop, lambda: client.drop_database(database_name)):
        store = MongoStore(client, database_name, index=words(fields=["text"]))
        store.put(NS, "k", {"text": "fish"})
        assert hints() == ["by_update"]
        drop()
        items.insert_one({"_id": "other"})
        assert hints() == ["by_update", None]
        assert hints() == [None]
        store.put(NS, "k", {"text": "fish"})
        assert set(items.index_information()) == {
            "_id_",
            "by_update",
            "by_change",
            "by_path",
            "by_expiry",
        }
        assert hints() == ["by_update"]
        assert keys(store.search(NS, query="fish")) == ["k"]


def test_reads_name_indexes_again_once_there_are_some(
    client: MongoClient, database_name: str, sent: Sent
) -> None:
    store = MongoStore(client, database_name, auto_setup=False)
    store.put(NS, "k", {"n": 1})
    assert keys(store.search(NS)) == ["k"]
    store.setup()
    sent.commands.clear()
    assert keys(store.search(NS)) == ["k"]
    assert [command.command["hint"] for command in sent.commands] == ["by_update"]


def scenario(store: MongoStore) -> Any:
    """A batch with everything in it."""
    return batch.batch(
        store._context(),
        [
            PutOp(NS, "new", {"text": "new fish", "n": 2}),
            PutOp(NS, "changed", {"text": "changed", "n": 2}, ttl=9),
            PutOp(NS, "gone", None),
            GetOp(NS, "changed"),
            SearchOp(NS, query="fish"),
            ListNamespacesOp((MatchCondition("prefix", NS),)),
        ],
    )


OLD = {"changed": {"text": "as before", "n": 1}, "gone": {"text": "gone", "n": 1}}
NEW = {"changed": {"text": "changed", "n": 2}, "new": {"text": "new fish", "n": 2}}


@pytest.mark.parametrize("performed", [False, True, 1, 2])
def test_a_batch_that_fails_anywhere_leaves_whole_items_and_can_be_repeated(
    client: MongoClient, database_name: str, performed: bool | int
) -> None:
    items = client[database_name].mongomem_store_items
    for at in range(30):
        items.delete_many({})
        store = MongoStore(
            client, database_name, index=words(fields=["text"]), ttl={"default_ttl": 5}
        )
        store.batch([PutOp(NS, key, value, ttl=5) for key, value in OLD.items()])
        state = store._context().setup_state
        state.set_up, state.config_checked_at = False, None
        runner = FailingRunner(client[database_name], at=at, performed=performed)
        with suppress(AutoReconnect):
            runner(scenario(store))
        for item in MongoStore(client, database_name).search(NS, refresh_ttl=False):
            assert item.value in (OLD.get(item.key), NEW.get(item.key))
        for item in store.search(NS, query="fish", limit=9):
            assert item.score is not None
        RecordingRunner(client[database_name])(scenario(store))
        assert {item.key: item.value for item in store.search(NS)} == NEW
        if runner.count <= at:
            assert at > 8
            return
    pytest.fail("the plan never ended")


def test_every_write_carries_the_shard_key(client: MongoClient, database_name: str) -> None:
    """The shard key of items is `path`; a deletion may name an item by its `_id` alone, wherever it
    was moved.

    Settings are one document and not sharded.
    """
    store = MongoStore(client, database_name, index=words(fields=["text"]))
    run = RecordingRunner(client[database_name])
    run(setup(store._context()))
    run(batch.batch(store._context(), [PutOp(NS, "a", {"text": "t"}, ttl=5), PutOp(NS, "b", None)]))
    run(batch.get(store._context(), [GetOp(NS, "a")]))
    run(delete_namespace(store._context(), NS))
    run(batch.batch(store._context(), [PutOp(NS, "a", {"text": "t"})]))
    run(reindex.reindex(MongoStore(client, database_name, index=words(fields=["$"]))._context()))
    filters = []
    for command in run.commands:
        if getattr(command, "collection", "") != store._context().items:
            continue
        if isinstance(command, BulkWrite):
            filters += [
                write.filter for write in command.writes if isinstance(write, (Update, Replace))
            ]
            assert all(
                isinstance(write.filter["_id"], str)
                for write in command.writes
                if isinstance(write, Delete)
            )
        elif isinstance(command, (UpdateMany, DeleteMany)):
            filters.append(command.filter)
    assert len(filters) >= 5
    assert all("path" in one or any("path" in part for part in one["$or"]) for one in filters)
    assert not any(index.unique for index in indexes_for(Collections("")))


# --- many at once
# ----------------------------------------------------------------------------------


@pytest.mark.parametrize("client_class", [MongoClient, AsyncMongoClient])
async def test_reads_and_writes_of_one_tick_share_round_trips(
    mongo_uri: str, database_name: str, client_class: Any, sent: Sent
) -> None:
    client = client_class(mongo_uri, event_listeners=[sent])
    store = MongoStore(client, database_name)
    await store.aput(NS, "k", {"n": -1})
    sent.commands.clear()
    await asyncio.gather(*(store.aput(NS, f"k{n}", {"n": n}) for n in range(50)))
    assert sent.names == ["find", "update"]
    sent.commands.clear()
    found = await asyncio.gather(*(store.aget(NS, f"k{n}") for n in range(60)))
    assert sent.names == ["find"]
    assert [item and item.value["n"] for item in found] == [*range(50), *[None] * 10]
    await asyncio.gather(
        store.adelete(NS, "k1"), store.aput(NS, "k2", {"n": 7}), store.adelete(NS, "k3")
    )
    assert [await store.aget(NS, key) is None for key in ("k1", "k2", "k3")] == [True, False, True]
    closing = client.close()
    if inspect.isawaitable(closing):
        await closing


async def test_an_error_reaches_only_the_one_who_caused_it(
    mongo_uri: str, database_name: str
) -> None:
    async with AsyncMongoClient(mongo_uri) as client:
        store = MongoStore(client, database_name)
        results = await asyncio.gather(
            store.aput(NS, "a", {}),
            store.aput(NS, "bad", {"x": {1}}),
            store.aput(NS, "c", {}),
            return_exceptions=True,
        )
        assert [type(result).__name__ for result in results] == [
            "NoneType",
            "UnstorableValueError",
            "NoneType",
        ]
        results = await asyncio.gather(
            store.aget(NS, 1.5), store.aget(NS, "a"), return_exceptions=True
        )  # type: ignore[arg-type]
        assert isinstance(results[0], ValueError)
        assert results[1].key == "a"  # type: ignore[union-attr]


async def test_who_is_cancelled_takes_nobody_along(mongo_uri: str, database_name: str) -> None:
    async with AsyncMongoClient(mongo_uri) as client:
        store = MongoStore(client, database_name)
        await store.aput(NS, "k", {"n": 1})
        for ticks in range(4):
            for victim in (0, 1, 2):
                tasks = [asyncio.create_task(store.aget(NS, "k")) for _ in range(3)]
                for _ in range(ticks):
                    await asyncio.sleep(0)
                tasks[victim].cancel()
                results = await asyncio.wait_for(
                    asyncio.gather(*tasks, return_exceptions=True), HANG_SECONDS
                )
                for number, result in enumerate(results):
                    if number == victim:
                        assert isinstance(result, asyncio.CancelledError)
                    else:
                        assert result.value == {"n": 1}  # type: ignore[union-attr]


def test_one_store_in_several_loops(mongo_uri: str, database_name: str) -> None:
    with MongoClient(mongo_uri) as client:
        store = MongoStore(client, database_name)

        async def work(number: int) -> int:
            await asyncio.gather(
                *(store.aput(("loop", str(number)), f"k{n}", {}) for n in range(5))
            )
            return len(await store.asearch(("loop", str(number))))

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(lambda number: asyncio.run(work(number)), range(8))) == [5] * 8


def test_threads_search_while_others_write(mongo_uri: str, database_name: str) -> None:
    with MongoClient(mongo_uri) as client:
        store = MongoStore(client, database_name, index=words(fields=["text"]))
        store.batch([PutOp(NS, f"base{n}", {"text": f"base fish{n}"}) for n in range(50)])

        def work(number: int) -> bool:
            if number % 2:
                store.put(NS, f"k{number}", {"text": f"unique{number} word"})
                found = store.search(NS, query=f"unique{number} word", limit=1)
                return keys(found) == [f"k{number}"]
            store.put(NS, f"k{number}", {"text": "passing"})
            store.delete(NS, f"k{number}")
            return f"k{number}" not in keys(store.search(NS, query="passing", limit=100))

        with ThreadPoolExecutor(16) as threads:
            assert all(threads.map(work, range(160)))


async def test_searches_of_one_cold_prefix_load_it_once(
    mongo_uri: str, database_name: str, sent: Sent
) -> None:
    def loads() -> int:
        return sum(command.command.get("projection") == {"codes": 1} for command in sent.commands)

    with MongoClient(mongo_uri, event_listeners=[sent]) as client:
        MongoStore(client, database_name, index=words(fields=["text"])).batch(
            [PutOp(NS, f"k{n}", {"text": f"fish number{n} {n}"}) for n in range(60)]
        )
        store = MongoStore(client, database_name, index=words(fields=["text"]))
        sent.commands.clear()
        with ThreadPoolExecutor(8) as threads:
            found = list(
                threads.map(
                    lambda n: store.search(NS, query=f"fish number{n} {n}", limit=1)[0].key,
                    range(8),
                )
            )
        assert loads() == 1
    async with AsyncMongoClient(mongo_uri, event_listeners=[sent]) as client:
        store = MongoStore(client, database_name, index=words(fields=["text"]))
        sent.commands.clear()
        searches = [store.asearch(NS, query=f"fish number{n} {n}", limit=1) for n in range(8)]
        assert [items[0].key for items in await asyncio.gather(*searches)] == found
        assert loads() == 1


def test_who_fails_to_load_leaves_it_to_the_next(
    mongo_client: MongoClient, database_name: str
) -> None:
    store = MongoStore(mongo_client, database_name, index=words(fields=["text"]), backend="exact")
    store.put(NS, "k", {"text": "fish"})
    for at in range(6):
        failing = FailingRunner(mongo_client[database_name], at)
        store._context().index_cache.invalidate(lambda path: True)
        with suppress(AutoReconnect):
            failing(batch.search(store._context(), SearchOp(NS, query="fish")))
        assert keys(store.search(NS, query="fish")) == ["k"]


async def test_an_embedder_is_asked_once_for_the_puts_of_one_tick(
    mongo_uri: str, database_name: str
) -> None:
    embedder = CountingEmbedder()
    async with AsyncMongoClient(mongo_uri) as client:
        store = MongoStore(
            client, database_name, index={"embed": embedder, "dims": 512, "fields": ["text"]}
        )
        await asyncio.gather(*(store.aput(NS, f"k{n}", {"text": f"t{n % 10}"}) for n in range(30)))
        assert len(embedder.calls) == 1
        assert len(embedder.texts) == 10


def test_ids_that_one_command_cannot_carry(
    mongo_uri: str, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MongoClient(mongo_uri) as client:
        store = MongoStore(client, database_name, index=words(fields=["text"]))
        absent = [GetOp(NS, f"{n}" + "k" * 2 * 2**20) for n in range(9)]
        assert store.batch([*absent, GetOp(NS, "k")]) == [None] * 10
        monkeypatch.setattr("mongomem.store.documents.namespace.LIST_BYTES", 200)
        names = [f"k{n:02}" for n in range(40)]
        for text in ("first", "second"):
            store.batch([PutOp(NS, name, {"text": f"{text} {name}"}) for name in names])
        found = store.batch([GetOp(NS, name) for name in names])
        assert [item.value["text"] for item in found] == [f"second {name}" for name in names]  # type: ignore[union-attr]
        store.batch([PutOp(NS, name, {"text": "third"}, index=False) for name in ("off", "none")])
        options: dict[str, Any]
        for options in ({}, {"filter": {"text": {"$ne": "x"}}}):
            whole = store.search(NS, query="second k07", limit=60, **options)
            assert whole[0].key == "k07"
            assert sorted(keys(whole)) == [*names, "none", "off"]
            assert (
                keys(store.search(NS, query="second k07", limit=60, offset=41, **options))
                == keys(whole)[41:]
            )
        store.batch([PutOp(NS, name, None) for name in names])
        assert keys(store.search(NS, query="second")) == ["none", "off"]
