"""Sizes of documents against what PyMongo encodes."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import bson
from bson import Binary, Int64, ObjectId, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from mongomem.engine.commands import Update
from mongomem.telemetry.sizes import size_of

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31) - 2, 2**31 + 2),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.binary(max_size=30),
    st.binary(max_size=30).map(lambda data: Binary(data, 9)),
    st.just(Int64(7)),
    st.just(ObjectId()),
    st.just(Timestamp(1, 2)),
    st.datetimes(timezones=st.just(timezone.utc)),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_a_document_has_the_size_that_it_is_encoded_to(document: dict[str, Any]) -> None:
    assert size_of(document) == len(bson.encode(document))


@given(st.integers(0, 1200))
def test_lists_are_named_by_numbers(length: int) -> None:
    document = {"a": list(range(length))}
    assert size_of(document) == len(bson.encode(document))


def test_a_write_has_the_sizes_of_its_fields() -> None:
    write = Update({"a": 1}, {"$set": {"b": "c"}}, upsert=True)
    assert size_of(write) == len(bson.encode(write.filter)) + len(bson.encode(write.update)) + 1


def test_what_is_of_no_known_type_counts_nothing() -> None:
    assert size_of(object()) == 0
    assert size_of(datetime) == 0
    assert size_of({"a": object()}) == 8
