"""The contract of BaseStore without search by meaning, over every runner."""

from __future__ import annotations

import asyncio
import enum
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from bson import ObjectId
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from pymongo import MongoClient

from mongomem.errors import ConfigurationError, InvalidInputError, UnstorableValueError, UsageError
from mongomem.store.store import MongoStore
from support.savers import KINDS, Calls
from support.stores import keys, named, store_of

NS = ("users", "u1")


class Level(enum.Enum):
    HIGH = "high"


@pytest.fixture(params=KINDS)
async def store(
    request: pytest.FixtureRequest, mongo_uri: str, database_name: str
) -> AsyncIterator[Calls]:
    async with store_of(request.param, mongo_uri, database_name) as calls:
        yield calls


async def test_an_item_comes_back_as_it_was_put(store: Calls) -> None:
    before = datetime.now(timezone.utc) - timedelta(milliseconds=1)
    await store("put", NS, "k", {"a": 1, "b": [True, None, 2.5, {"c": "ü"}]})
    item = await store("get", NS, "k")
    assert (item.namespace, item.key) == (NS, "k")
    assert item.value == {"a": 1, "b": [True, None, 2.5, {"c": "ü"}]}
    assert before <= item.created_at == item.updated_at <= datetime.now(timezone.utc)
    assert item.created_at.tzinfo is not None
    assert await store("get", NS, "other") is None
    assert await store("get", ("users",), "k") is None


async def test_an_update_keeps_when_it_was_created(store: Calls) -> None:
    await store("put", NS, "k", {"a": 1, "b": 2})
    first = await store("get", NS, "k")
    await asyncio.sleep(0.01)
    await store("put", NS, "k", {"a": 3})
    item = await store("get", NS, "k")
    assert item.value == {"a": 3}
    assert item.created_at == first.created_at < item.updated_at


async def test_delete_and_put_of_nothing_remove(store: Calls) -> None:
    await store("batch", [PutOp(NS, "a", {}), PutOp(NS, "b", {})])
    await store("delete", NS, "a")
    await store("delete", NS, "a")
    await store("put", NS, "b", None)
    assert await store("batch", [GetOp(NS, "a"), GetOp(NS, "b")]) == [None, None]
    assert await store("list_namespaces") == []


async def test_reads_of_a_batch_see_the_state_before_it_and_the_last_put_wins(store: Calls) -> None:
    await store("put", NS, "k", {"n": 0})
    results = await store(
        "batch",
        [
            PutOp(NS, "k", {"n": 1}),
            GetOp(NS, "k"),
            PutOp(NS, "k", None),
            SearchOp(NS),
            PutOp(NS, "k", {"n": 2}),
            ListNamespacesOp(),
            GetOp(NS, "none"),
        ],
    )
    assert results[0] is results[2] is results[4] is results[6] is None
    assert results[1].value == {"n": 0}
    assert [item.value for item in results[3]] == [{"n": 0}]
    assert results[5] == [NS]
    assert (await store("get", NS, "k")).value == {"n": 2}


async def test_nothing_of_a_batch_is_written_when_something_in_it_is_wrong(store: Calls) -> None:
    good = PutOp(NS, "good", {"n": 1})
    for bad in (
        PutOp(NS, "bad", {"a": {1, 2}}),
        PutOp(("a.b",), "bad", {}),
        PutOp(("",), "bad", {}),
        PutOp(NS, "bad", {"text": "x" * 17 * 2**20}),
        PutOp(NS, 1.0, {}),
        PutOp(NS, "bad", [1]),
        PutOp(NS, "bad", {}, index=True),
        PutOp(NS, "bad", {}, ttl=-1),
        SearchOp(NS, limit=-1),
        GetOp(("a\x00b",), "k"),
        "no operation",
    ):
        with pytest.raises(ValueError):  # noqa: PT011  each has a test of its own
            await store("batch", [good, bad, GetOp(NS, "good")])
        assert await store("get", NS, "good") is None


async def test_an_item_too_large_is_named(store: Calls) -> None:
    with pytest.raises(UnstorableValueError, match=r"item 'big' in \('users', 'u1'\).*16 MB"):
        await store("put", NS, "big", {"text": "x" * 17 * 2**20})


@pytest.mark.parametrize(
    "value",
    [
        {"n": 2**70},
        {"$set": {"a.b": 1}},
        {"t": (1, 2)},
        {"a\x00b": "c\x00d"},
        {"when": datetime(2024, 5, 1, 1, 2, 3, 4, timezone.utc)},
    ],
    ids=named,
)
async def test_odd_values_come_back_exactly(store: Calls, value: dict[str, Any]) -> None:
    await store("put", NS, "k", value)
    assert (await store("get", NS, "k")).value == value
    assert [
        item.value
        for item in await store("search", NS, filter=value if "$set" not in value else None)
    ] == [value]


async def test_keys_may_hold_any_character(store: Calls) -> None:
    odd = ["", ".", "\x00", "\x00\x00", "$", "*", "ü", "a/b", " "]
    await store("batch", [PutOp(NS, key, {"key": key}) for key in odd])
    for key in odd:
        assert (await store("get", NS, key)).value == {"key": key}
    assert sorted(keys(await store("search", NS, limit=20))) == sorted(odd)


@pytest.mark.parametrize("key", [UUID(int=7), 7, -(2**70), ObjectId("0" * 24), Level.HIGH], ids=str)
async def test_a_key_of_another_kind_is_its_string(store: Calls, key: Any) -> None:
    """As for LangGraph's other stores: ``BaseStore.put`` takes ``str(key)``."""
    plain = InMemoryStore()
    written = key.value if isinstance(key, Level) else key  # whose `str` depends on Python
    plain.put(NS, written, {"n": 1})
    await store("put", NS, key, {"n": 1})
    expected = plain.get(NS, written)
    for asked in (key, str(written)):
        item = await store("get", NS, asked)
        assert expected is not None
        assert (item.key, item.value) == (expected.key, expected.value)
    assert [item.key for item in await store("batch", [GetOp(NS, key)])] == [str(written)]
    await store("delete", NS, key)
    assert await store("get", NS, str(written)) is None


AWKWARD = ["u", "u1", "u10", "a", "ab", "%", "_", "*", "/", ":", "$", "|", "Ж", "中", "u ", "U"]


async def test_labels_are_never_mixed_up(store: Calls) -> None:
    namespaces = [(one,) for one in AWKWARD] + [("u", one) for one in AWKWARD]
    await store(
        "batch", [PutOp(namespace, "k", {"is": list(namespace)}) for namespace in namespaces]
    )
    for namespace in namespaces:
        below = [other for other in namespaces if other[: len(namespace)] == namespace]
        found = await store("search", namespace, limit=100)
        assert sorted(item.namespace for item in found) == sorted(below)
        literal = [
            condition for condition in [MatchCondition("prefix", namespace)] if "*" not in namespace
        ]
        if literal:
            assert await store("list_namespaces", prefix=namespace) == sorted(below)
    assert await store("list_namespaces") == sorted(namespaces)
    assert len(await store("search", (), limit=100)) == len(namespaces)


async def test_pages_are_stable_and_complete(store: Calls) -> None:
    await store("batch", [PutOp(NS, f"k{n}", {"n": n, "odd": n % 2 == 1}) for n in range(95)])
    for chosen, expected in ((None, 95), ({"odd": True}, 47), ({"n": {"$ne": 3}}, 94)):
        pages = [
            await store("search", NS, filter=chosen, limit=10, offset=start)
            for start in range(0, 100, 10)
        ]
        found = [key for page in pages for key in keys(page)]
        assert len(found) == len(set(found)) == expected
        assert keys(await store("search", NS, filter=chosen, limit=100)) == found
    assert await store("search", NS, limit=0) == []
    assert await store("search", NS, limit=0, filter={"odd": True}) == []
    assert len(await store("search", NS)) == 10


async def test_the_newest_update_comes_first(store: Calls) -> None:
    for key in ("a", "b", "c", "a"):
        await store("put", NS, key, {"k": key})
        await asyncio.sleep(0.003)
    found = await store("search", NS)
    assert keys(found) == ["a", "c", "b"]
    assert [item.score for item in found] == [None] * 3


async def test_search_with_a_query_and_no_index_is_plain_search(store: Calls) -> None:
    await store("put", NS, "k", {"a": 1}, index=["a"])
    assert keys(await store("search", NS, query="anything")) == ["k"]


async def test_a_filter_that_few_far_ones_match_finds_them(store: Calls) -> None:
    await store(
        "batch", [PutOp(NS, f"k{n:04}", {"n": n, "rare": n % 50 == 49}) for n in range(600)]
    )
    found = await store("search", NS, filter={"rare": True}, limit=10)
    assert len(found) == 10
    assert all(item.value["rare"] for item in found)
    assert len(await store("search", NS, filter={"rare": {"$ne": False}}, limit=100)) == 12


async def test_filters_compare_numbers_as_numbers(store: Calls) -> None:
    scores = {
        "two": 2,
        "nine": 9,
        "ten": 10,
        "hundred": 100,
        "text": "10",
        "none": None,
        "true": True,
        "list": [10],
    }
    await store(
        "batch",
        [
            *(PutOp(NS, key, {"score": score}) for key, score in scores.items()),
            PutOp(NS, "missing", {}),
        ],
    )
    for condition, expected in {
        "$eq": ["ten"],
        "$ne": ["hundred", "list", "missing", "nine", "none", "text", "true", "two"],
        "$gt": ["hundred"],
        "$gte": ["hundred", "ten"],
        "$lt": ["nine", "two"],
        "$lte": ["nine", "ten", "two"],
    }.items():
        assert (
            sorted(keys(await store("search", NS, filter={"score": {condition: 10}}, limit=20)))
            == expected
        )
    both = {"$or": [{"score": 2}, {"score": {"$gt": 50}}], "$and": [{"score": {"$ne": 3}}]}
    assert sorted(keys(await store("search", NS, filter=both))) == ["hundred", "two"]


async def test_namespaces_are_listed_like_those_of_in_memory_store(store: Calls) -> None:
    oracle = InMemoryStore()
    namespaces = [
        ("a", "b", "c"),
        ("a", "b", "d", "e"),
        ("a", "b", "d", "i"),
        ("a", "b", "f"),
        ("a", "c", "f"),
        ("x", "a", "b", "c"),
    ]
    ops = [PutOp(namespace, key, {}) for namespace in namespaces for key in ("k", "l")]
    oracle.batch(ops)
    await store("batch", ops)
    for arguments in (
        {},
        {"prefix": ("a", "b"), "max_depth": 3},
        {"prefix": ("a", "*", "f")},
        {"suffix": ("a", "*", "c")},
        {"prefix": ("a",), "suffix": ("f",)},
        {"max_depth": 1},
        {"max_depth": 2, "limit": 2},
        {"max_depth": 2, "limit": 2, "offset": 1},
        {"limit": 0},
        {"prefix": ("*", "b"), "limit": 2, "offset": 1},
        {"prefix": ("nothing",)},
    ):
        assert await store("list_namespaces", **arguments) == oracle.list_namespaces(**arguments), (
            arguments
        )


async def test_several_prefix_conditions_all_hold(store: Calls) -> None:
    await store("batch", [PutOp(("a", "b"), "k", {}), PutOp(("a", "c"), "k", {})])
    conditions = (MatchCondition("prefix", ("a",)), MatchCondition("prefix", ("*", "c")))
    assert await store("batch", [ListNamespacesOp(conditions)]) == [[("a", "c")]]


async def test_delete_namespace_takes_what_is_below_and_nothing_else(store: Calls) -> None:
    await store(
        "batch",
        [PutOp(ns, "k", {}) for ns in (("u",), ("u", "a"), ("u", "a", "b"), ("u1",), ("ua",))],
    )
    assert await store("delete_namespace", ("u",)) == 3
    assert await store("delete_namespace", ("u",)) == 0
    assert await store("list_namespaces") == [("u1",), ("ua",)]
    with pytest.raises(InvalidNamespaceError):
        await store("delete_namespace", ())


# --- what is refused
# -------------------------------------------------------------------------------

HOSTILE = [{"$ne": None}, {"$gt": ""}, __import__("re").compile("x"), [1], b"a", 1, None, 1.5]


async def test_hostile_arguments_touch_no_document(store: Calls) -> None:
    await store("put", NS, "k", {"n": 1})
    for bad in HOSTILE:
        await refuse_everywhere(store, bad)
    assert [item.value for item in await store("search", ())] == [{"n": 1}]


async def refuse_everywhere(store: Calls, bad: Any) -> None:
    no_key = bad if bad != 1 else True  # an integer is its string
    for name, arguments, options in (
        ("get", (NS, no_key), {}),
        ("delete", (NS, no_key), {}),
        ("put", (NS, no_key, {"n": 2}), {}),
        ("get", (bad, "k"), {}),
        ("delete", (bad, "k"), {}),
        ("put", (bad, "k", {"n": 2}), {}),
        ("search", (bad,), {}),
        ("delete_namespace", (bad,), {}),
        ("get", (("users", bad), "k"), {}),
        ("put", (("users", bad), "k", {}), {}),
        ("search", (("users", bad),), {}),
        ("delete_namespace", (("users", bad),), {}),
        ("list_namespaces", (), {"suffix": ("users", bad)}),
        ("get", (NS, "k"), {"refresh_ttl": bad if bad is not None else 1}),
        ("search", (NS,), {"limit": bad if bad != 1 else True}),
        ("search", (NS,), {"offset": bad if bad != 1 else -1}),
        ("put", (NS, "k", {"n": 2}), {"index": bad if bad is not None else 1}),
        ("put", (NS, "k", {"n": 2}), {"ttl": bad if bad not in (None, 1, 1.5) else 0}),
    ):
        with pytest.raises((TypeError, ValueError)):
            await store(name, *arguments, **options)


async def test_hostile_filters_prefixes_and_queries(store: Calls) -> None:
    for bad in HOSTILE:
        if bad is not None:
            await refuse_in_searches(store, bad)


async def refuse_in_searches(store: Calls, bad: Any) -> None:
    for options in ({"filter": bad}, {"filter": {"a": {"$where": bad}}}, {"query": bad}):
        with pytest.raises((TypeError, ValueError)):
            await store("search", NS, **options)
    for options in ({"prefix": bad}, {"suffix": bad}, {"max_depth": bad if bad != 1 else -1}):
        with pytest.raises((TypeError, ValueError)):
            await store("list_namespaces", **options)


async def test_namespaces_that_langgraph_refuses_are_refused(store: Calls) -> None:
    for bad in ((), ("langgraph", "x"), ("a.b",), ("",), ("a\x00",), (1,), ("\ud800",)):
        with pytest.raises(InvalidNamespaceError):
            await store("put", bad, "k", {})
    for bad in (("a.b",), ("",), (1,)):
        with pytest.raises(InvalidNamespaceError):
            await store("get", bad, "k")
        with pytest.raises(InvalidNamespaceError):
            await store("search", bad)
        with pytest.raises(InvalidNamespaceError):
            await store("list_namespaces", prefix=bad)


# --- construction and concurrency
# ------------------------------------------------------------------


def test_a_sync_call_on_an_async_client_says_what_to_write() -> None:
    from pymongo import AsyncMongoClient

    store = MongoStore(AsyncMongoClient("mongodb://localhost:1", connect=False), "x")
    with pytest.raises(UsageError, match="await"):
        store.get(NS, "k")


@pytest.mark.parametrize(
    "options",
    [
        {"index": {"dims": 3}},
        {"index": {"embed": "local", "typo": 1}},
        {"index": {"embed": lambda texts: texts, "dims": 2, "metric": "hamming"}},
        {"index": {"embed": lambda texts: texts, "dims": 2, "fields": "text"}},
        {"index": {"embed": lambda texts: texts, "dims": 2, "fields": []}},
        {"index": {"embed": lambda texts: texts}},
        {"ttl": {"default_ttl": -1}},
        {"ttl": {"default_ttl": True}},
        {"ttl": {"minutes": 1}},
        {"ttl": {"omit_expired": "yes"}},
        {"backend": "faiss"},
    ],
    ids=named,
)
def test_options_that_mean_nothing_are_refused_without_io(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        MongoStore(MongoClient("mongodb://localhost:1", connect=False), "x", **options)


def test_every_public_method_is_defined_on_the_class_itself() -> None:
    inherited = [
        name
        for name in vars(BaseStore)
        if not name.startswith("_") and name not in vars(MongoStore)
    ]
    assert inherited == ["ttl_config"]
    assert MongoStore.supports_ttl


def test_fifty_threads_upsert_one_key(mongo_uri: str, database_name: str) -> None:
    with MongoClient(mongo_uri) as client, ThreadPoolExecutor(50) as threads:
        store = MongoStore(client, database_name)
        for turn in range(5):
            list(threads.map(lambda n, key=f"k{turn}": store.put(NS, key, {"n": n}), range(50)))
            assert store.get(NS, f"k{turn}").value["n"] in range(50)  # type: ignore[union-attr]
        assert len(store.search(NS, limit=100)) == 5


async def test_fifty_tasks_upsert_one_key(mongo_uri: str, database_name: str) -> None:
    for kind in ("threaded", "awaiting"):
        async with store_of(kind, mongo_uri, database_name) as calls:
            await asyncio.gather(*(calls("put", NS, kind, {"n": n}) for n in range(50)))
            assert (await calls("get", NS, kind)).value["n"] in range(50)


def test_eight_stores_set_up_at_once(mongo_uri: str, database_name: str) -> None:
    with MongoClient(mongo_uri) as client, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: MongoStore(client, database_name).setup(), range(8)))


def test_prefixed_stores_do_not_meet(mongo_uri: str, database_name: str) -> None:
    with MongoClient(mongo_uri) as client:
        one, other = (
            MongoStore(client, database_name, collection_prefix=prefix) for prefix in ("a_", "b_")
        )
        one.put(NS, "k", {"of": "one"})
        assert other.get(NS, "k") is None
        assert client[database_name].list_collection_names() == ["a_store_items"]


def test_from_conn_string_owns_its_client(mongo_uri: str, database_name: str) -> None:
    with MongoStore.from_conn_string(mongo_uri, db_name=database_name, appname="mine") as store:
        store.put(NS, "k", {"n": 1})
        assert store.get(NS, "k").value == {"n": 1}  # type: ignore[union-attr]


async def test_numbers_without_bound_are_answered_or_refused(store: Calls) -> None:
    await store("put", NS, "k", {"n": 1})
    for query in (None, "k"):
        for chosen in (None, {"n": 1}):
            found = await store("search", NS, query=query, filter=chosen, limit=sys.maxsize)
            assert keys(found) == ["k"]
            for offset in (2**63, 10**5_000):
                assert (
                    await store(
                        "search", NS, query=query, filter=chosen, limit=10**30, offset=offset
                    )
                    == []
                )
    assert await store("list_namespaces", limit=10**30) == [NS]
    assert await store("list_namespaces", limit=sys.maxsize, offset=2**63) == []
    for ttl in (10**400, 10**5_000, -(10**5_000), float("inf"), float("nan")):
        with pytest.raises(InvalidInputError, match="ttl"):
            await store("put", NS, "k", {}, ttl=ttl)
    with pytest.raises(InvalidInputError, match="limit"):
        await store("search", NS, limit=-(10**5_000))


async def test_names_longer_than_any_document_are_refused(store: Calls) -> None:
    long = "k" * 6 * 2**20
    for namespace, key in ((NS, long), (("u", "y" * 2**20), "k"), (tuple("x" * 1_500), "k")):
        with pytest.raises(UnstorableValueError, match="indexes"):
            await store("put", namespace, key, {"text": "x"})
    await store("put", NS, "k" * 2**19, {"text": "x"})
    await store("put", tuple("x" * 900), "k", {"text": "x"})
    for name, *arguments in (("get",), ("delete",), ("put", {})):
        with pytest.raises(InvalidInputError, match="longer"):
            await store(name, NS, 3 * long, *arguments)
        with pytest.raises(InvalidNamespaceError, match="longer"):
            await store(name, ("u", long), "k", *arguments)
    with pytest.raises(InvalidNamespaceError, match="longer"):
        await store("search", ("u", long))
    assert await store("get", NS, long) is None


async def test_a_list_is_a_namespace_and_comes_back_as_a_tuple(store: Calls) -> None:
    await store("put", ["users", "u1"], "k", {"n": 1})
    await store("batch", [PutOp(["users", "u2"], "k", {"n": 2}), PutOp(["users", "u3"], "k", None)])  # type: ignore[arg-type]
    assert (await store("get", ["users", "u1"], "k")).namespace == ("users", "u1")
    assert (await store("get", ("users", "u1"), "k")).value == {"n": 1}
    assert sorted(item.namespace for item in await store("search", ["users"])) == [
        ("users", "u1"),
        ("users", "u2"),
    ]
    assert await store("list_namespaces", prefix=["users"], suffix=["u2"]) == [("users", "u2")]
    assert await store("list_namespaces", prefix=[]) == [("users", "u1"), ("users", "u2")]
    conditions: Any = [MatchCondition("prefix", ["*", "u1"])]  # type: ignore[arg-type]
    assert await store("batch", [ListNamespacesOp(conditions)]) == [[("users", "u1")]]
    await store("delete", ["users", "u1"], "k")
    assert await store("get", ("users", "u1"), "k") is None
    assert await store("delete_namespace", ["users"]) == 1
    for bad in ([], ["langgraph"], ["a.b"], [""], [1]):
        with pytest.raises(InvalidNamespaceError):
            await store("put", bad, "k", {})


async def test_a_namespace_is_taken_as_it_is_now(store: Calls) -> None:
    labels = ["users", "u1"]
    op: Any = PutOp(labels, "k", {"n": 1})  # type: ignore[arg-type]
    await store("batch", [op])
    labels.append("x")
    assert [item.namespace for item in await store("search", ())] == [("users", "u1")]


async def test_values_of_enums_are_what_they_are_equal_to(store: Calls) -> None:
    class Color(str, enum.Enum):
        RED = "red"

    await store("put", (Color.RED,), Color.RED, {Color.RED: Color.RED})
    item = await store("get", ("red",), "red")
    assert (item.namespace, item.key, item.value) == (("red",), "red", {"red": "red"})
    assert type(item.value["red"]) is str
    assert keys(await store("search", ("red",), filter={"red": Color.RED})) == ["red"]
