"""What a cache does: get, set and clear, expiry, values, serializers, sizes, setup."""

from __future__ import annotations

import dataclasses
import logging
from collections import deque
from dataclasses import replace
from datetime import timedelta
from typing import Any

import mongomock
import pytest
from bson import ObjectId
from langchain_core.messages import AIMessage
from langgraph.cache.base import BaseCache
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Send
from pymongo import MongoClient
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    OperationFailure,
    ServerSelectionTimeoutError,
)

from mongomem import ConfigurationError, MongoCache, MongoMemory, UnstorableValueError, UsageError
from mongomem.cache.documents.entry import entry_id, is_own_id
from mongomem.cache.plans.entries import TOO_LARGE_FOR_SERVER
from mongomem.engine.commands import MAX_DOCUMENT_BYTES, BulkWrite
from mongomem.engine.runners import BlockingRunner
from mongomem.testing import FailingRunner, MongomockDatabase
from support.caches import NS, World
from support.savers import Calls

pytestmark = pytest.mark.shares_database

KEY = (NS, "k")


@dataclasses.dataclass
class Point:
    x: int


async def test_what_is_set_is_found_by_its_namespace_and_key(world: World) -> None:
    cache = world.cache()
    assert await cache("get", [KEY]) == {}
    pairs = {KEY: ("value", None), (NS, "other"): (None, None), ((), ""): ([], None)}
    await cache("set", pairs)
    found = await cache("get", [*pairs, (NS, "absent"), (NS[:2], "k"), KEY])
    assert found == {KEY: "value", (NS, "other"): None, ((), ""): []}
    assert list(found) == list(pairs)
    assert await world.cache()("get", [[[*NS], "k"]]) == {KEY: "value"}


async def test_nothing_is_asked_for_nothing_is_done(world: World) -> None:
    cache = world.cache()
    assert await cache("get", ()) == {}
    await cache("set", {})
    await cache("clear", [])
    assert world.entries.count_documents({}) == 0


async def test_a_set_replaces(world: World) -> None:
    cache = world.cache()
    await cache("set", {KEY: (1, 60)})
    await cache("set", {KEY: ("x" * 1000, None)})
    world.wait(61)
    assert await cache("get", [KEY]) == {KEY: "x" * 1000}
    assert world.entries.count_documents({}) == 1
    assert "expires_at" not in world.entries.find_one()


async def test_an_entry_is_absent_from_the_moment_on_that_its_time_is_over(world: World) -> None:
    cache = world.cache()
    ttls = {"none": None, "minute": 60, "half": 0.5, "zero": 0, "negative": -5, "huge": 10**30}
    await cache("set", {(NS, name): (name, ttl) for name, ttl in ttls.items()})
    for second, alive in {
        0.0: {"none", "minute", "half", "huge"},
        0.499: {"none", "minute", "half", "huge"},
        0.5: {"none", "minute", "huge"},
        59.999: {"none", "minute", "huge"},
        60.0: {"none", "huge"},
        10**9: {"none", "huge"},
    }.items():
        world.clock.now = type(world.clock)().now + timedelta(seconds=second)
        found = await cache("get", [(NS, name) for name in ttls])
        assert {key for _, key in found} == alive, second
    assert world.entries.count_documents({}) == len(ttls)  # the server has not deleted any


async def test_the_server_has_an_index_that_removes(world: World) -> None:
    await world.cache()("set", {KEY: (1, 60), (NS, "for ever"): (1, None)})
    (index,) = [one for one in world.entries.list_indexes() if "expireAfterSeconds" in one]
    assert dict(index["key"]) == {"expires_at": 1}
    assert index["expireAfterSeconds"] == 0
    document = world.entries.find_one({"key": "k"})
    assert document["expires_at"] - document["created_at"] == timedelta(seconds=60)


async def test_clear_takes_all_or_exactly_the_namespaces(world: World) -> None:
    cache = world.cache()
    namespaces: list[Any] = [(), ("",), ("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("a", ""), NS]
    pairs = {(namespace, key): (key, None) for namespace in namespaces for key in ("k", "l")}

    async def there() -> set[Any]:
        return {namespace for namespace, _ in await cache("get", [*pairs])}

    for gone in namespaces:
        await cache("set", pairs)
        await cache("clear", [gone, ("absent",)])
        assert await there() == {*namespaces} - {gone}
    await cache("set", pairs)
    await cache("clear", [("a",), ("ab",), ("a",)])
    assert await there() == {*namespaces} - {("a",), ("ab",)}
    await cache("clear", None)
    assert world.entries.count_documents({}) == 0


@pytest.mark.parametrize(
    "full_key",
    [
        (("a", "b"), "c"),
        (("ab",), "c"),
        (("a",), "bc"),
        (("a\x00b",), "\x00"),
        (("ä", "𝄞"), "ñ"),
        (("x" * 100_000,) * 3, "y" * 1_000_000),
        (("n",) * 1_000, "$where"),
    ],
    ids=lambda one: repr(one)[:20],
)
def test_ids_are_short_and_no_two_keys_have_one(full_key: Any) -> None:
    others: list[Any] = [(("a", "b"), "d"), (("a",), "b"), (("a", "b", "c"), ""), ((), "abc")]
    ids = {entry_id(*one) for one in [full_key, *others]}
    assert len(ids) == 1 + len(others)
    assert all(is_own_id(one) for one in ids)


async def test_keys_of_any_length_and_letters(world: World) -> None:
    cache = world.cache()
    keys: list[Any] = [(("x" * 10_000, "a\x00b", "𝄞"), "y" * 1_000_000), (("$where", "a.b"), "")]
    await cache("set", {key: (number, None) for number, key in enumerate(keys)})
    assert await cache("get", keys) == {key: number for number, key in enumerate(keys)}


WRITES = deque(
    [
        ("messages", [AIMessage("hi", id="1")]),
        ("__pregel_tasks", Send("node", {"a": {1, 2}})),
        ("point", Point(1)),
        ("bytes", b"\x00\xff"),
        ("text", "long " * 5_000),
    ]
)


async def test_the_writes_of_a_task_come_back(world: World) -> None:
    await world.cache()("set", {KEY: (WRITES, None)})
    found = (await world.cache()("get", [KEY]))[KEY]
    assert [tuple(one) for one in found] == [*WRITES]
    found.clear()
    assert await world.cache()("get", [KEY]) != {KEY: found}


async def test_a_value_that_cannot_be_stored_is_named_and_nothing_is_written(world: World) -> None:
    cache = world.cache()
    with pytest.raises(UnstorableValueError, match=r"the value of key 'bad' cannot be serialized"):
        await cache("set", {KEY: (1, None), (NS, "bad"): (object(), None)})
    assert world.entries.count_documents({}) == 0


async def test_what_the_serializer_does_not_revive_is_a_miss_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    cache = world.cache()
    await cache("set", {KEY: (Local(1), None), (NS, "in it"): ([1, {"a": Local(2)}], None)})
    await cache("set", {(NS, "fine"): (Point(1), None)})
    with caplog.at_level(logging.WARNING, "mongomem"):
        for _ in range(2):
            found = await cache("get", [KEY, (NS, "in it"), (NS, "fine")])
            assert found == {(NS, "fine"): Point(1)}
    assert cache.target.unreadable_entries == 2
    (told,) = [one.getMessage() for one in caplog.records if one.name == "mongomem"]
    assert "key 'k'" in told
    assert "does not revive" in told
    assert "Local" in told


async def test_a_serializer_may_revive_less_or_more(world: World) -> None:
    await world.cache()("set", {KEY: (Point(1), None)})
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    allows = JsonPlusSerializer(allowed_msgpack_modules=[(Point.__module__, "Point")])
    assert await world.cache(serde=strict)("get", [KEY]) == {}
    assert await world.cache(serde=allows)("get", [KEY]) == {KEY: Point(1)}


class Untyped:
    """A serializer of the older protocol, which LangGraph takes too."""

    def dumps(self, obj: Any) -> bytes:
        return repr(obj).encode()

    def loads(self, data: bytes) -> Any:
        if data == b"'fails'":
            raise KeyError("fails")
        return data.decode()


async def test_any_serializer_is_taken(world: World) -> None:
    cache = world.cache(serde=Untyped())
    await cache("set", {KEY: (7, None), (NS, "bad"): ("fails", None)})
    assert await cache("get", [KEY, (NS, "bad")]) == {KEY: "7"}
    assert cache.target.unreadable_entries == 1


def encrypted(key: bytes) -> EncryptedSerializer:
    return EncryptedSerializer.from_pycryptodome_aes(key=key)


async def test_values_are_encrypted(world: World) -> None:
    own, other, plain = (
        world.cache(serde=encrypted(b"sixteen or more!")),
        world.cache(serde=encrypted(b"another key 1234")),
        world.cache(),
    )
    await own("set", {KEY: (WRITES, 60)})
    assert [tuple(one) for one in (await own("get", [KEY]))[KEY]] == [*WRITES]
    assert b"messages" not in repr(world.entries.find_one()).encode()
    for cache in (other, plain):
        assert await cache("get", [KEY]) == {}
        assert cache.target.unreadable_entries == 1
    await plain("set", {KEY: ("plain", None)})
    assert await own("get", [KEY]) == {}


async def test_what_is_too_large_is_not_kept_and_neither_is_what_was_before(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    cache = world.cache()
    # of four bytes a character: the document has no room left for the names of its fields
    values = [b"x" * MAX_DOCUMENT_BYTES, "x" * (MAX_DOCUMENT_BYTES - 100), b"x" * 2**25]
    with caplog.at_level(logging.WARNING, "mongomem"):
        for value in values:
            await cache("set", {KEY: (1, None), (NS, "other"): (2, None)})
            await cache("set", {KEY: (value, None), (NS, "other"): (3, None)})
            assert await cache("get", [KEY, (NS, "other")]) == {(NS, "other"): 3}
    (told,) = [one.getMessage() for one in caplog.records if one.name == "mongomem"]
    assert "not kept" in told
    assert "'k'" in told
    large = b"x" * (MAX_DOCUMENT_BYTES - 1_000)
    await cache("set", {KEY: (large, None)})  # a small server may refuse it, and nothing is raised
    assert await cache("get", [KEY]) in ({KEY: large}, {})
    await cache("set", {KEY: (large[: 2**22], None)})
    assert await cache("get", [KEY]) == {KEY: large[: 2**22]}


async def test_what_a_small_server_refuses_is_not_kept(
    mongo_client: MongoClient[Any], database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache: MongoCache[Any] = MongoCache(mongo_client, database_name)
    cache.set({KEY: (1, None), (NS, "other"): (1, None)})
    refused = {"code": TOO_LARGE_FOR_SERVER, "errmsg": "transaction is too large"}

    class Refusing(BulkWrite):
        def perform(self, database: Any) -> Any:
            (entry,) = (one for one in self.writes if one.document["key"] == KEY[1])
            BulkWrite(self.collection, [one for one in self.writes if one is not entry]).perform(
                database
            )
            failure = {**refused, "index": 0, "op": {"q": entry.filter, "u": entry.document}}
            raise BulkWriteError({"writeErrors": [failure]})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mongomem.engine.writes.BulkWrite", Refusing)
        cache.set({KEY: (2, None), (NS, "other"): (2, None)})
    assert cache.get([KEY, (NS, "other")]) == {(NS, "other"): 2}
    assert "refused a write of this size" in caplog.text


async def test_two_prefixes_never_meet(world: World) -> None:
    one, other = world.cache(), world.cache(collection_prefix="other_")
    await one("set", {KEY: (1, None)})
    await other("set", {KEY: (2, None)})
    await other("clear", None)
    assert await one("get", [KEY]) == {KEY: 1}
    assert await other("get", [KEY]) == {}


@pytest.mark.parametrize("foreign", [ObjectId(b"a" * 12), "an id", 7, b"bytes", b"b" * 28])
async def test_a_collection_of_others_is_refused_before_anything_is_changed(
    world: World, foreign: Any
) -> None:
    entries = world.entries.database["foreign_cache_entries"]
    entries.insert_one({"_id": foreign})
    cache = world.cache(collection_prefix="foreign_")
    for name, *arguments in (("set", {KEY: (1, None)}), ("clear",), ("clear", [NS]), ("setup",)):
        with pytest.raises(ConfigurationError, match="another package uses it"):
            await cache(name, *arguments)
    assert [one["_id"] for one in entries.find()] == [foreign]
    assert await cache("get", [KEY]) == {}


async def test_clear_leaves_what_others_put_there_later(world: World) -> None:
    cache = world.cache()
    await cache("set", {KEY: (1, None)})
    foreign = [ObjectId(b"a" * 12), "an id", 7, b"bytes", b"b" * 31, b"b" * 33]
    world.entries.insert_many([{"_id": one} for one in foreign])
    await cache("clear")
    assert [one["_id"] for one in world.entries.find()] == foreign


async def test_without_auto_setup_no_index_is_made(world: World) -> None:
    cache = world.cache(auto_setup=False, collection_prefix="bare_")
    bare = world.entries.database["bare_cache_entries"]
    bare.drop()
    await cache("set", {KEY: (1, 5)})
    assert await cache("get", [KEY]) == {KEY: 1}
    assert len([*bare.list_indexes()]) == 1
    await cache("setup")
    await cache("setup")
    assert len([*bare.list_indexes()]) == 2


def test_from_conn_string_owns_its_client(mongo_uri: str, database_name: str) -> None:
    with MongoCache.from_conn_string(mongo_uri, db_name=database_name, appname="mine") as cache:
        cache.set({KEY: (1, None)})
        assert cache.get([KEY]) == {KEY: 1}
        assert isinstance(cache, BaseCache)
    with (
        pytest.raises(ConfigurationError, match=r"no option 'ttl'"),
        MongoCache.from_conn_string(mongo_uri, ttl=5),
    ):
        pass


async def test_a_sync_method_on_the_loop_of_its_client_is_a_usage_error(mongo_uri: str) -> None:
    async with MongoCache.from_conn_string(mongo_uri) as cache:
        assert await cache.aget([KEY]) == {}
        with pytest.raises(UsageError):
            cache.get([KEY])


def test_where_no_server_answers_it_forgets_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with MongoClient("mongodb://localhost:1", serverSelectionTimeoutMS=1) as client:
        cache: MongoCache[Any] = MongoCache(client)
        with caplog.at_level(logging.WARNING, "mongomem"):
            for _ in range(2):
                cache.set({KEY: (1, None)})
                assert cache.get([KEY]) == {}
        assert len([one for one in caplog.records if "cannot be reached" in one.message]) == 1
        with pytest.raises(ServerSelectionTimeoutError):
            cache.clear()


def failing(at: int, error: Exception) -> MongoCache[Any]:
    """Make a cache whose n-th command fails."""
    client = mongomock.MongoClient()
    cache: MongoCache[Any] = MongoCache(client)
    runner = FailingRunner(MongomockDatabase(client["mongomem"]), at, error=error)
    cache._runners = replace(cache._runners, run=runner)
    return cache


@pytest.mark.parametrize("at", range(1, 8))  # the first command serializes
def test_a_lost_connection_costs_the_entries_and_nothing_else(
    at: int, caplog: pytest.LogCaptureFixture
) -> None:
    cache = failing(at, AutoReconnect("lost"))
    with caplog.at_level(logging.WARNING, "mongomem"):
        for number in range(3):
            cache.set({KEY: (number, None)})
            assert cache.get([KEY]).get(KEY) in (None, number)
    assert cache.get([KEY]) == {KEY: 2}
    assert len(caplog.records) == 1


def test_every_time_that_the_server_is_lost_is_told(caplog: pytest.LogCaptureFixture) -> None:
    cache = failing(0, AutoReconnect("lost"))
    works = replace(cache._runners, run=BlockingRunner(cache._runners.run.database))
    with caplog.at_level(logging.WARNING, "mongomem"):
        for told in (1, 2):
            cache._runners = failing(0, AutoReconnect("lost"))._runners
            assert cache.get([KEY]) == {}
            cache._runners = works
            assert cache.get([KEY]) == {}
            assert len(caplog.records) == told


@pytest.mark.parametrize("at", range(1, 7))
def test_other_errors_of_the_driver_pass_through(at: int) -> None:
    cache = failing(at, OperationFailure("refused", 13_000))
    with pytest.raises(OperationFailure):
        cache.set({KEY: (1, None)})
    cache.set({KEY: (2, None)})
    assert cache.get([KEY]) == {KEY: 2}


async def test_the_cache_of_a_memory(world: World) -> None:
    serde = encrypted(b"sixteen or more!")
    for options in ({"serde": serde}, {"saver_options": {"serde": serde}}):
        memory = MongoMemory(world.client, world.name, **options)
        cache = Calls(memory.cache, world.kind)
        await cache("set", {KEY: ("secret", None)})
        assert await cache("get", [KEY]) == {KEY: "secret"}
        assert "sealed" in world.entries.find_one()
    own = {"serde": JsonPlusSerializer(), "clock": world.clock}
    memory = MongoMemory(world.client, world.name, serde=serde, cache_options=own)
    assert memory.cache.serde is own["serde"]
    cache = Calls(memory, world.kind)
    await cache("setup")
    await cache("erase_user", "ada")
    assert world.entries.count_documents({}) == 1
