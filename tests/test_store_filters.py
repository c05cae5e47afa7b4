"""Filters: the table of what they mean, the oracle they follow, and a server that never leaves out a match."""

from __future__ import annotations

import re
from typing import Any

import mongomock
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.memory import _compare_values
from pymongo import MongoClient

from mongomem.errors import InvalidInputError
from mongomem.store.filters import MAX_DEPTH, check_filter, matches, to_query
from mongomem.store.store import MongoStore
from mongomem.store.values import encode_value
from store_fixtures import keys, named, words

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, 2.0**60])
    | st.sampled_from(["", "a", "1"])
)
data = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "0"]), inner, max_size=2),
    max_leaves=5,
)
operators = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
conditions = data | st.dictionaries(operators, data, min_size=1, max_size=2)
plain_filters = st.dictionaries(st.sampled_from(["a", "b", "0", "c"]), conditions, max_size=2)
filters = st.recursive(
    plain_filters,
    lambda inner: st.dictionaries(
        st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=2), min_size=1
    ),
    max_leaves=3,
)
values = st.dictionaries(st.sampled_from(["a", "b", "0"]), data, max_size=3)


def as_oracle(filter: dict[str, Any], value: dict[str, Any]) -> bool:
    return all(_compare_values(value.get(key), wanted) for key, wanted in filter.items())


def without_booleans(thing: Any) -> Any:
    """Booleans equal numbers for the oracle, since they do for Python; the contract says they are none."""
    if isinstance(thing, dict):
        return {key: without_booleans(part) for key, part in thing.items()}
    if isinstance(thing, list):
        return [without_booleans(part) for part in thing]
    return "b" if isinstance(thing, bool) else thing


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), data, max_size=2), values)
def test_equality_means_what_it_means_to_in_memory_store(filter: dict[str, Any], value: dict[str, Any]) -> None:
    wanted, actual = without_booleans(filter), without_booleans(value)
    assert matches(wanted, actual) == as_oracle(wanted, actual)


@given(operators, st.integers(-3, 3) | st.floats(-3, 3), st.integers(-3, 3) | st.floats(-3, 3))
def test_operators_on_numbers_mean_what_they_mean_to_in_memory_store(name: str, wanted: float, actual: float) -> None:
    condition = {"a": {name: wanted}}
    assert matches(condition, {"a": actual}) == as_oracle(condition, {"a": actual})


SCORES = [2, 9, 10, 100, "10", None, True]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("$eq", [10]),
        ("$ne", [2, 9, 100, "10", None, True]),
        ("$gt", [100]),
        ("$gte", [10, 100]),
        ("$lt", [2, 9]),
        ("$lte", [2, 9, 10]),
    ],
)
def test_numbers_compare_as_numbers_and_with_nothing_else(name: str, expected: list[Any]) -> None:
    found = [score for score in SCORES if matches({"score": {name: 10}}, {"score": score})]
    assert found == expected
    assert [type(score) for score in found] == [type(score) for score in expected]
    assert matches({"score": {name: 10}}, {}) == (name == "$ne")


@pytest.mark.parametrize(
    ("filter", "value", "expected"),
    [
        ({}, {"a": 1}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": [True]}, {"a": [1]}, False),
        ({"a": None}, {}, True),
        ({"a": "x"}, {"a": ["x"]}, False),
        ({"a": ["x"]}, {"a": ["x", "y"]}, False),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ({"a": {"$eq": {"b": 1}}}, {"a": {"b": 1, "c": 2}}, False),
        ({"a": {"b": {"$gt": 1}}}, {"a": {"b": 2}}, True),
        ({"a": {"b": {"$gt": 1}}}, {"a": "text"}, False),
        ({"a": {"$gt": "2024-01-01"}}, {"a": "2024-05-01"}, True),
        ({"a": {"$gt": 1, "$lt": 3}}, {"a": 2}, True),
        ({"a.b": 1}, {"a": {"b": 1}}, False),
        ({"a.b": 1}, {"a.b": 1}, True),
        ({"$or": [{"a": 1}, {"b": 2}]}, {"b": 2}, True),
        ({"$and": [{"a": 1}, {"b": 2}]}, {"b": 2}, False),
        ({"$and": [{"$or": [{"a": 1}, {"a": 2}]}], "c": 3}, {"a": 2, "c": 3}, True),
    ],
)
def test_filters_by_example(filter: dict[str, Any], value: dict[str, Any], expected: bool) -> None:
    check_filter(filter)
    assert matches(filter, value) is expected


@pytest.mark.parametrize(
    "filter",
    [
        {"$ne": None},
        {"$where": "true"},
        {"a": {"$where": "true"}},
        {"a": {"b": {"$regex": "x"}}},
        {"a": {"$eq": {"$expr": 1}}},
        {"a": [{"$function": {}}]},
        {"$or": [{"a": {"$exists": True}}]},
        {"$nor": [{"a": 1}]},
        {"$or": []},
        {"$or": {"a": 1}},
        {"a": {"$gt": 1, "b": 2}},
        {"a": {"$in": [1]}},
        {1: 2},
        {"a": re.compile("x")},
        {"a": {"$eq": re.compile("x")}},
        {"a": {1, 2}},
        {"a": object()},
        [("a", 1)],
        "a",
        b"a",
        re.compile("a"),
    ],
    ids=named,
)
def test_what_is_no_filter_is_refused(filter: Any) -> None:
    with pytest.raises(InvalidInputError):
        check_filter(filter)


def test_a_filter_within_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["a"] = endless
    with pytest.raises(InvalidInputError, match="nested"):
        check_filter(endless)


@given(filters, values)
@settings(max_examples=300)
def test_mongomock_narrows_to_no_less_than_the_matches(filter: dict[str, Any], value: dict[str, Any]) -> None:
    check_filter(filter)
    collection = mongomock.MongoClient().db.items
    collection.insert_one({"value": encode_value(value, "item").readable})
    found = bool(list(collection.find(to_query(filter, field="value", exact_field="exact"))))
    assert found or not matches(filter, value)


@given(st.lists(values, min_size=1, max_size=6), st.lists(filters, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_server_narrows_to_no_less_than_the_matches(
    narrowing_client: MongoClient, items: list[dict[str, Any]], queries: list[dict[str, Any]]
) -> None:
    collection = narrowing_client["test_store_filters"].items
    collection.delete_many({})
    collection.insert_many({"_id": n, "value": encode_value(item, "i").readable} for n, item in enumerate(items))
    for drawn in queries:
        query = to_query(drawn, field="value", exact_field="exact")
        found = {document["_id"] for document in collection.find(query)}
        assert {n for n, item in enumerate(items) if matches(drawn, item)} <= found


@pytest.fixture(scope="module")
def narrowing_client(mongo_client: MongoClient) -> Any:
    yield mongo_client
    mongo_client.drop_database("test_store_filters")


@pytest.mark.parametrize(
    ("filter", "clauses"),
    [
        ({}, []),
        ({"a": 1}, [{"value.a": {"$eq": 1}}]),
        ({"a": {"b": "x"}}, [{"value.a.b": {"$eq": "x"}}]),
        ({"a": {"$gt": 1, "$lte": 5}}, [{"value.a": {"$gt": 1}}, {"value.a": {"$lte": 5}}]),
        ({"a": [1, 2]}, [{"value.a": {"$size": 2}}]),
        ({"a": {"$ne": 1}}, []),
        ({"a": 2**70}, []),
        ({"a": float("nan")}, []),
        ({"a": "\ud800"}, []),
        ({"a.b": 1}, []),
        ({"$or": [{"a": 1}, {"b": {"$ne": 1}}]}, []),
        ({"$or": [{"a": 1}, {"b": 2}]}, [{"$or": [{"value.a": {"$eq": 1}}, {"value.b": {"$eq": 2}}]}]),
        ({"$and": [{"a": 1}, {"b": {"$ne": 1}}]}, [{"value.a": {"$eq": 1}}]),
    ],
    ids=named,
)
def test_queries_by_example(filter: dict[str, Any], clauses: list[Any]) -> None:
    query = to_query(filter, field="value", exact_field="exact")
    if not clauses:
        assert query == {}
    else:
        narrowed = clauses[0] if len(clauses) == 1 else {"$and": clauses}
        assert query == {"$or": [narrowed, {"exact": {"$exists": True}}]}


@pytest.mark.parametrize("junction", ["$or", "$and"])
@pytest.mark.parametrize("fields", [0, 1])
def test_deep_filters_are_answered_or_refused(
    mongo_client: MongoClient, database_name: str, junction: str, fields: int
) -> None:
    """However the levels are shared between junctions and fields."""
    store = MongoStore(mongo_client, database_name, index=words(fields=["text"]))

    def nested(levels: int) -> Any:
        value: Any = {"a": 1}
        chosen: Any = {"a": 1}
        for _ in range(levels * fields // 2):
            value, chosen = {"a": value}, {"a": chosen}
        for _ in range(levels - levels * fields // 2):
            chosen = {junction: [chosen, {"b": 1}] if junction == "$or" else [chosen]}
        return value, chosen

    for levels in range(0, MAX_DEPTH + 1, 4):
        value, chosen = nested(levels)
        store.put(("n",), "k", {**value, "text": "fish"})
        for query in (None, "fish"):
            assert keys(store.search(("n",), query=query, filter=chosen)) == ["k"]
    for levels in (150, 3_000):
        with pytest.raises(InvalidInputError, match="nested"):
            store.search(("n",), filter=nested(levels)[1])
