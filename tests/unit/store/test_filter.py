"""Filters: the table of what they mean, the oracle they follow, and the query that narrows them."""

from __future__ import annotations

import re
from typing import Any

import mongomock
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.memory import _compare_values

from mongomem.errors import InvalidInputError
from mongomem.store.documents.filter import MAX_DEPTH, checked_filter, matches
from mongomem.store.documents.filter_query import to_query
from support.filters import data, document_of, filters, operators, values
from support.stores import named


def is_match(filter: dict[str, Any], value: dict[str, Any]) -> bool:
    return matches(checked_filter(filter), value)


def as_oracle(filter: dict[str, Any], value: dict[str, Any]) -> bool:
    return all(_compare_values(value.get(key), wanted) for key, wanted in filter.items())


def without_booleans(thing: Any) -> Any:
    """Booleans equal numbers for the oracle, since they do for Python; the contract says they are
    none.
    """
    if isinstance(thing, dict):
        return {key: without_booleans(part) for key, part in thing.items()}
    if isinstance(thing, list):
        return [without_booleans(part) for part in thing]
    return "b" if isinstance(thing, bool) else thing


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), data, max_size=2), values)
def test_equality_means_what_it_means_to_in_memory_store(
    filter: dict[str, Any], value: dict[str, Any]
) -> None:
    wanted, actual = without_booleans(filter), without_booleans(value)
    assert is_match(wanted, actual) == as_oracle(wanted, actual)


@given(operators, st.integers(-3, 3) | st.floats(-3, 3), st.integers(-3, 3) | st.floats(-3, 3))
def test_operators_on_numbers_mean_what_they_mean_to_in_memory_store(
    name: str, wanted: float, actual: float
) -> None:
    condition = {"a": {name: wanted}}
    assert is_match(condition, {"a": actual}) == as_oracle(condition, {"a": actual})


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
    found = [score for score in SCORES if is_match({"score": {name: 10}}, {"score": score})]
    assert found == expected
    assert [type(score) for score in found] == [type(score) for score in expected]
    assert is_match({"score": {name: 10}}, {}) == (name == "$ne")


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
        ({"a.b": 1}, {"a": {"b": 1}}, True),
        ({"a.b": 1}, {"a.b": 1}, True),
        ({"a.b": 1}, {"a.b": 2, "a": {"b": 1}}, False),
        ({"a.b": 2}, {"a.b": 2, "a": {"b": 1}}, True),
        ({"a.b": None}, {"a.b": None, "a": {"b": 1}}, True),
        ({"a.b.c": 1}, {"a": {"b.c": 1}}, True),
        ({"a.b.c": 1}, {"a": {"b.c": 2, "b": {"c": 1}}}, False),
        ({"a.b": 1}, {"a": [{"b": 1}]}, False),
        ({"a.b": None}, {"a": [{"b": 1}]}, True),
        ({"a.0": 1}, {"a": [1]}, False),
        ({"a.b": None}, {}, True),
        ({"a.b": {"$gt": 1}}, {"a": {"b": 2}}, True),
        ({"a.b": {"c": 1}}, {"a": {"b": {"c": 1, "d": 2}}}, True),
        ({"a": {"b.c": 1}}, {"a": {"b": {"c": 1}}}, True),
        ({"a": {"$eq": {"b.c": 1}}}, {"a": {"b": {"c": 1}}}, False),
        ({".": 1}, {"": {"": 1}}, True),
        ({"a": {"$in": [1, "x"]}}, {"a": "x"}, True),
        ({"a": {"$in": [1, "x"]}}, {"a": True}, False),
        ({"a": {"$in": [1, "x"]}}, {"a": [1]}, False),
        ({"a": {"$in": [[1], {"b": 2}]}}, {"a": {"b": 2}}, True),
        ({"a": {"$in": [[1], {"b": 2}]}}, {"a": {"b": 2, "c": 3}}, False),
        ({"a": {"$in": [None]}}, {}, True),
        ({"a": {"$in": []}}, {"a": 1}, False),
        ({"a": {"$in": (1,)}}, {"a": 1}, True),
        ({"a": {"$nin": [1, "x"]}}, {"a": 2}, True),
        ({"a": {"$nin": [1, "x"]}}, {}, True),
        ({"a": {"$nin": [None]}}, {}, False),
        ({"a": {"$nin": []}}, {}, True),
        ({"a": {"$exists": True}}, {"a": None}, True),
        ({"a": {"$exists": True}}, {}, False),
        ({"a": {"$exists": False}}, {}, True),
        ({"a": {"$exists": False}}, {"a": None}, False),
        ({"a.b": {"$exists": False}}, {"a": [{"b": 1}]}, True),
        ({"a.b": {"$exists": True}}, {"a": {"b": None}}, True),
        ({"a": {"b": {"$exists": False}}}, {"a": {}}, True),
        ({"a": {"b": {"$exists": False}}}, {"a": 1}, False),
        ({"a": {"$contains": "x"}}, {"a": ["y", "x"]}, True),
        ({"a": {"$contains": "x"}}, {"a": "x"}, False),
        ({"a": {"$contains": "x"}}, {"a": "axb"}, False),
        ({"a": {"$contains": 1}}, {"a": [True, "1"]}, False),
        ({"a": {"$contains": None}}, {"a": [None]}, True),
        ({"a": {"$contains": None}}, {"a": []}, False),
        ({"a": {"$contains": [1]}}, {"a": [[1]]}, True),
        ({"a": {"$contains": {"b": 1}}}, {"a": [{"b": 1}]}, True),
        ({"a": {"$contains": 1}}, {"a": (1, 2)}, True),
        ({"a": {"$contains": 1}}, {}, False),
        ({"a": {"$not": {"$gt": 1}}}, {"a": 1}, True),
        ({"a": {"$not": {"$gt": 1}}}, {"a": 2}, False),
        ({"a": {"$not": {"$gt": 1}}}, {"a": "text"}, True),
        ({"a": {"$not": {"$gt": 1}}}, {}, True),
        ({"a": {"$not": {"$not": {"$gt": 1}}}}, {"a": 2}, True),
        ({"a": {"$not": {"$gt": 1, "$lt": 3}}}, {"a": 3}, True),
        ({"a": {"$not": {"b": 1}}}, {"a": {"b": 2}}, True),
        ({"$not": {"a": 1}}, {"a": 2}, True),
        ({"$not": {"a": 1, "b": 2}}, {"a": 1}, True),
        ({"$not": {"a": 1}, "b": 2}, {"b": 3}, False),
        ({"$not": {}}, {"a": 1}, False),
        ({"$and": [{"$not": {"$or": [{"a": 1}, {"a": 2}]}}]}, {"a": 3}, True),
        ({"$or": [{"a": 1}, {"b": 2}]}, {"b": 2}, True),
        ({"$and": [{"a": 1}, {"b": 2}]}, {"b": 2}, False),
        ({"$and": [{"$or": [{"a": 1}, {"a": 2}]}], "c": 3}, {"a": 2, "c": 3}, True),
    ],
)
def test_filters_by_example(filter: dict[str, Any], value: dict[str, Any], expected: bool) -> None:
    assert is_match(filter, value) is expected


@pytest.mark.parametrize(
    "filter",
    [
        {"$ne": None},
        {"$where": "true"},
        {"a": {"$where": "true"}},
        {"a": {"b": {"$regex": "x"}}},
        {"a": {"$eq": {"$expr": 1}}},
        {"a": [{"$function": {}}]},
        {"$or": [{"a": {"$type": "array"}}]},
        {"a": {"$in": [{"$where": "1"}]}},
        {"a": {"$not": {"$regex": "x"}}},
        {"a": {"b": {"$not": {"$where": 1}}}},
        {"$not": {"$where": "1"}},
        {"$not": [{"a": 1}]},
        {"$not": 1},
        {"a": {"$not": 1}},
        {"a": {"$not": [1]}},
        {"a": {"$in": 1}},
        {"a": {"$in": "abc"}},
        {"a": {"$in": {"b": 1}}},
        {"a": {"$nin": None}},
        {"a": {"$exists": 1}},
        {"a": {"$exists": None}},
        {"a": {"$contains": re.compile("x")}},
        {"a": {"$contains": {1}}},
        {"a": {"$not": {"$gt": 1, "b": 2}}},
        {"a": {"$elemMatch": {"b": 1}}},
        {"a": {"$all": [1]}},
        {"$nor": [{"a": 1}]},
        {"$or": []},
        {"$or": {"a": 1}},
        {"a": {"$gt": 1, "b": 2}},
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
        checked_filter(filter)


def test_a_filter_within_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["a"] = endless
    with pytest.raises(InvalidInputError, match="nested"):
        checked_filter(endless)
    within: list[Any] = []
    within += [within, within]
    with pytest.raises(InvalidInputError, match="nested"):
        checked_filter({"a": {"$in": within}})


def test_a_filter_that_stands_for_more_than_it_holds_is_refused() -> None:
    wide: list[Any] = [1]
    for _ in range(MAX_DEPTH - 2):
        wide = [wide, wide]
    with pytest.raises(InvalidInputError, match="lists and objects"):
        checked_filter({"a": wide})
    checked_filter({"a": {"$in": [f"u{n}" for n in range(50_000)]}})


def test_an_unknown_operator_is_told_which_there_are() -> None:
    with pytest.raises(InvalidInputError, match="there are") as refused:
        checked_filter({"a": {"b": {"$regex": "x"}}})
    for name in ("$regex", "$eq", "$in", "$nin", "$exists", "$contains", "$not", "$and", "$or"):
        assert name in str(refused.value)


def test_a_filter_is_taken_as_it_is_now() -> None:
    given: dict[str, Any] = {"a": {"$in": [1]}, "b": {"c": [1]}}
    checked = checked_filter(given)
    given["a"]["$in"].append(2)
    given["b"]["c"].append(2)
    assert checked == {"a": {"$in": [1]}, "b": {"c": [1]}}


def reached(value: Any, key: str) -> list[Any]:
    """Find what a key leads to: nothing, or one thing."""
    if not isinstance(value, dict):
        return []
    if key in value:
        return [value[key]]
    head, _, rest = key.partition(".")
    return reached(value.get(head), rest) if head != key else []


def same(one: Any, other: Any) -> bool:
    """Compare as JSON does."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def below(one: Any, other: Any) -> bool:
    numbers = all(
        isinstance(side, (int, float)) and not isinstance(side, bool) for side in (one, other)
    )
    return (numbers or all(isinstance(side, str) for side in (one, other))) and one < other


def comparable(one: Any, other: Any) -> bool:
    return (
        below(one, other)
        or below(other, one)
        or (same(one, other) and isinstance(one, (str, int, float)))
    )


def is_said(filter: dict[str, Any], value: dict[str, Any]) -> bool:
    """Decide a filter once more, as the documentation says it."""
    for key, wanted in filter.items():
        if key == "$and":
            said = all(is_said(branch, value) for branch in wanted)
        elif key == "$or":
            said = any(is_said(branch, value) for branch in wanted)
        elif key == "$not":
            said = not is_said(wanted, value)
        else:
            said = part_is_said(reached(value, key), wanted)
        if not said:
            return False
    return True


def part_is_said(found: list[Any], wanted: Any) -> bool:
    actual = found[0] if found else None
    if isinstance(wanted, dict) and any(name.startswith("$") for name in wanted):
        return all(expression_is_said(found, name, operand) for name, operand in wanted.items())
    if isinstance(wanted, dict):
        return isinstance(actual, dict) and is_said(wanted, actual)
    if isinstance(wanted, list):
        if not isinstance(actual, list) or len(actual) != len(wanted):
            return False
        return all(part_is_said([one], part) for one, part in zip(actual, wanted, strict=True))
    return same(actual, wanted)


def expression_is_said(found: list[Any], name: str, operand: Any) -> bool:
    actual = found[0] if found else None
    return {
        "$eq": lambda: same(actual, operand),
        "$ne": lambda: not same(actual, operand),
        "$gt": lambda: below(operand, actual),
        "$gte": lambda: comparable(actual, operand) and not below(actual, operand),
        "$lt": lambda: below(actual, operand),
        "$lte": lambda: comparable(actual, operand) and not below(operand, actual),
        "$in": lambda: any(same(actual, one) for one in operand),
        "$nin": lambda: not any(same(actual, one) for one in operand),
        "$exists": lambda: bool(found) == operand,
        "$contains": lambda: isinstance(actual, list) and any(same(one, operand) for one in actual),
        "$not": lambda: not part_is_said(found, operand),
    }[name]()


@given(filters, values)
@settings(max_examples=500)
def test_filters_mean_what_is_said(filter: dict[str, Any], value: dict[str, Any]) -> None:
    assert is_match(filter, value) == is_said(filter, value)


@given(filters, values)
@settings(max_examples=300)
def test_mongomock_narrows_to_no_less_than_the_matches(
    filter: dict[str, Any], value: dict[str, Any]
) -> None:
    checked = checked_filter(filter)
    collection = mongomock.MongoClient().db.items
    collection.insert_one(document_of(value))
    found = bool(list(collection.find(to_query(checked, field="value", exact_field="exact"))))
    assert found or not matches(checked, value)


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
        ({"a.b": 1}, [{"value.a.b": {"$eq": 1}}]),
        ({"a.b": None}, []),
        ({"a.$b": 1}, []),
        ({"a..b": 1}, []),
        ({".".join("a" * 200): 1}, []),
        ({"a": {"$in": [1, None]}}, [{"value.a": {"$in": [1, None]}}]),
        ({"a": {"$in": [1, [2]]}}, []),
        ({"a.b": {"$in": [1, None]}}, []),
        ({"a": {"$nin": [1]}}, []),
        ({"a": {"$contains": 1}}, [{"value.a": {"$eq": 1}}]),
        ({"a": {"$contains": [1]}}, []),
        ({"a": {"$exists": False}}, [{"value.a": {"$exists": False}}]),
        ({"a.b": {"$exists": False}}, []),
        ({"a.b": {"$exists": True}}, [{"value.a.b": {"$exists": True}}]),
        ({"a": {"$not": {"$gt": 1}}}, []),
        ({"$not": {"a": 1}}, []),
        ({"$or": [{"a": 1}, {"b": {"$ne": 1}}]}, []),
        (
            {"$or": [{"a": 1}, {"b": 2}]},
            [{"$or": [{"value.a": {"$eq": 1}}, {"value.b": {"$eq": 2}}]}],
        ),
        ({"$and": [{"a": 1}, {"b": {"$ne": 1}}]}, [{"value.a": {"$eq": 1}}]),
    ],
    ids=named,
)
def test_queries_by_example(filter: dict[str, Any], clauses: list[Any]) -> None:
    query = to_query(checked_filter(filter), field="value", exact_field="exact")
    if not clauses:
        assert query == {}
    else:
        narrowed = clauses[0] if len(clauses) == 1 else {"$and": clauses}
        assert query == {"$or": [narrowed, {"exact": {"$exists": True}}]}


def test_a_query_too_large_narrows_nothing() -> None:
    for wanted in ("x" * 5 * 2**20, {"$in": [f"{n:0200}" for n in range(30_000)]}):
        assert to_query(checked_filter({"a": wanted}), field="value", exact_field="exact") == {}
