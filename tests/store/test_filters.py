"""Filters on a server: it never leaves out a match, and answers or refuses however deep one is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo import MongoClient

from mongomem.errors import InvalidInputError
from mongomem.store.documents.filter import MAX_DEPTH, checked_filter, matches
from mongomem.store.documents.filter_query import to_query
from mongomem.store.store import MongoStore
from support.filters import document_of, filters, values
from support.stores import keys, words


@given(st.lists(values, min_size=1, max_size=6), st.lists(filters, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_server_narrows_to_no_less_than_the_matches(
    narrowing_client: MongoClient, items: list[dict[str, Any]], queries: list[dict[str, Any]]
) -> None:
    collection = narrowing_client["test_store_filters"].items
    collection.delete_many({})
    collection.insert_many({"_id": n, **document_of(item)} for n, item in enumerate(items))
    for drawn in map(checked_filter, queries):
        query = to_query(drawn, field="value", exact_field="exact")
        found = {document["_id"] for document in collection.find(query)}
        assert {n for n, item in enumerate(items) if matches(drawn, item)} <= found


@pytest.fixture(scope="module")
def narrowing_client(mongo_client: MongoClient) -> Any:
    yield mongo_client
    mongo_client.drop_database("test_store_filters")


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
