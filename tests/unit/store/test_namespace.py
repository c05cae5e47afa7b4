"""Namespaces as paths: never mixed up, sorted as their tuples, matched as InMemoryStore does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import MatchCondition
from langgraph.store.memory import _does_match

from mongomem.store.documents.namespace import (
    item_id,
    literal_prefix,
    matches_conditions,
    namespace_of,
    path_of,
    path_range,
    prefixes_of,
    short_prefixes_of,
)

labels = st.text(
    st.characters(exclude_characters=".\x00", exclude_categories=["Cs"]), min_size=1, max_size=4
)
awkward = st.sampled_from(
    ["u", "u1", "u10", "a", "ab", "*", "%", "_", "/", ":", "$", "|", "\x01", "Ж", "中"]
)
namespaces = st.lists(labels | awkward, max_size=4).map(tuple)


@given(namespaces)
def test_a_path_splits_into_its_labels(namespace: tuple[str, ...]) -> None:
    assert namespace_of(path_of(namespace)) == namespace


@given(namespaces, namespaces)
def test_paths_sort_as_their_namespaces(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (path_of(one).encode() < path_of(other).encode()) == (one < other)


@given(namespaces, namespaces)
def test_prefixes_and_ranges_say_what_begins_with_what(
    prefix: tuple[str, ...], namespace: tuple[str, ...]
) -> None:
    begins = namespace[: len(prefix)] == prefix
    assert (path_of(prefix) in prefixes_of(namespace)) == begins
    bounds = path_range(prefix)
    path = path_of(namespace)
    assert (bounds["$gte"] <= path and ("$lt" not in bounds or path < bounds["$lt"])) == begins


@given(namespaces, st.text(max_size=5), namespaces, st.text(max_size=5))
def test_every_item_has_a_name_of_its_own(
    one: tuple[str, ...], key: str, other: tuple[str, ...], its: str
) -> None:
    assert (item_id(one, key) == item_id(other, its)) == ((one, key) == (other, its))


@given(
    namespaces, st.lists(st.tuples(st.sampled_from(["prefix", "suffix"]), namespaces), max_size=3)
)
def test_conditions_mean_what_they_mean_to_in_memory_store(
    namespace: tuple[str, ...], drawn: list[tuple[str, tuple[str, ...]]]
) -> None:
    conditions = [MatchCondition(kind, path) for kind, path in drawn]
    expected = all(_does_match(condition, namespace) for condition in conditions)
    assert matches_conditions(namespace, conditions) == expected
    if expected:
        start = literal_prefix(conditions)
        assert namespace[: len(start)] == start


def test_a_wildcard_in_a_suffix_stands_for_one_label() -> None:
    condition = [MatchCondition("suffix", ("a", "*", "c"))]
    assert matches_conditions(("x", "a", "b", "c"), condition)
    assert not matches_conditions(("a", "c"), condition)


@pytest.mark.parametrize("longest", [-1, 0, 1, 3, 4, 100])
def test_prefixes_up_to_a_length(longest: int) -> None:
    namespace = ("a", "bc", "d")
    expected = [path for path in prefixes_of(namespace) if len(path) <= longest]
    assert [*short_prefixes_of(namespace, longest)] == expected


def test_prefixes_of_a_namespace_without_end_are_made_one_by_one() -> None:
    """All of them would be as long as the square of the namespace."""
    many = ["label"] * 100_000
    assert len([*short_prefixes_of(many, 100)]) == 17
