"""The names of queries, which tell what a list of ids is good for."""

from __future__ import annotations

from typing import Any

import pytest

from mongomem.store.documents.filter_query import QueryName, name_of_query, to_query

KIND: dict[str, Any] = {"user": "ada", "age": {"$gt": 3}, "tags": {"$in": ["a", "b"]}}


def name_of(wanted: dict[str, Any]) -> QueryName:
    """Name the query of a filter."""
    return name_of_query(to_query(wanted, field="value", exact_field="exact"))


@pytest.mark.parametrize(
    ("other", "is_equal", "is_of_kind"),
    [
        (dict(KIND), True, True),
        ({**KIND, "user": "bob"}, False, True),
        ({**KIND, "age": {"$gt": 4}, "tags": {"$in": ["c"]}}, False, True),
        ({**KIND, "age": {"$lt": 3}}, False, False),
        ({"user": "ada", "age": {"$gt": 3}}, False, False),
        ({"$or": [KIND, {"user": "bob"}]}, False, False),
    ],
)
def test_queries_of_one_kind_differ_in_what_they_compare_with(
    other: dict[str, Any], is_equal: bool, is_of_kind: bool
) -> None:
    one, another = name_of(KIND), name_of(other)
    assert (one.whole == another.whole, one.kind == another.kind) == (is_equal, is_of_kind)


def test_branches_belong_to_a_kind() -> None:
    one, two, three = (
        name_of({"$or": [{name: value}, {"b": 1}]})
        for name, value in (("a", 1), ("a", 2), ("c", 1))
    )
    assert one.kind == two.kind != three.kind
