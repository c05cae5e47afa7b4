"""Values: what is stored comes back exactly, and what cannot be stored is refused with its path."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict
from datetime import timedelta, timezone
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mongomem.errors import CorruptDataError, UnstorableValueError
from mongomem.store.documents.value import decode_value, encode_value

times = st.datetimes(
    timezones=st.sampled_from([None, timezone.utc, timezone(timedelta(hours=-7, minutes=-30))])
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
keys = texts | st.sampled_from(
    ["a.b", "$set", "", "_id", "~tuple", "~", "x\x00y", "$ref", "\uff04"]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=5)
)
values = st.recursive(
    scalars | times,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner)
    ),
    max_leaves=8,
)


def typed(value: Any) -> Any:
    """Make types part of equality: 1, 1.0 and True differ, and so do lists and tuples."""
    if isinstance(value, dict):
        return "object", [(key, typed(element)) for key, element in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [typed(element) for element in value]
    return type(value).__name__, value


def stored(value: dict[str, Any]) -> dict[str, Any]:
    """Send a value through BSON and back."""
    encoded = encode_value(value, "item")
    document = bson.decode(bson.encode({"value": encoded.readable, "exact": encoded.exact}))
    return decode_value(document["value"], document["exact"])


@given(st.dictionaries(keys, values, max_size=4))
def test_a_value_comes_back_with_every_type(value: dict[str, Any]) -> None:
    assert typed(stored(value)) == typed(value)


@given(
    st.dictionaries(st.sampled_from("abc"), st.none() | st.booleans() | st.integers(-9, 9) | texts)
)
def test_plain_json_needs_no_second_copy(value: dict[str, Any]) -> None:
    encoded = encode_value(value, "item")
    assert encoded.exact is None
    assert encoded.readable == value


def test_not_a_number_comes_back() -> None:
    assert math.isnan(stored({"n": math.nan})["n"])


def test_a_large_integer_has_a_readable_copy() -> None:
    encoded = encode_value({"n": 2**70}, "item")
    assert encoded.readable == {"n": hex(2**70)}
    assert stored({"n": 2**70}) == {"n": 2**70}
    assert stored({"n": 10**5000}) == {"n": 10**5000}


def test_what_looks_like_a_reference_stays_data() -> None:
    reference = {"owner": {"$ref": "users", "$id": 1}}
    assert stored(reference) == reference


def test_subclasses_come_back_as_the_plain_type() -> None:
    class Level(enum.IntEnum):
        HIGH = 3

    assert typed(stored({"o": OrderedDict(a=1), "l": Level.HIGH})) == typed({"o": {"a": 1}, "l": 3})


def test_the_caller_may_change_the_value_at_once() -> None:
    value: dict[str, Any] = {"list": [1]}
    encoded = encode_value(value, "item")
    value["list"].append(2)
    assert decode_value(encoded.readable, encoded.exact) == {"list": [1]}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": {"b": [1, {2, 3}]}}, "a.b[1]"),
        ({"a": object()}, "at a"),
        ({"a": {1: "x"}}, "at a"),
        ({1: "x"}, "the value itself"),
        ({"a": ["\ud800"]}, "a[0]"),
        ({"\ud800": 1}, "the value itself"),
        ({"a": 1j}, "at a"),
        (nested(120), "deeper than"),
    ],
    ids=[
        "set",
        "object",
        "integer key",
        "integer key at the top",
        "surrogate",
        "surrogate key",
        "complex",
        "deep",
    ],
)
def test_what_cannot_be_stored_names_item_and_path(value: Any, place: str) -> None:
    with pytest.raises(UnstorableValueError, match="item 'k'") as refused:
        encode_value(value, "item 'k'")
    assert place in str(refused.value)


def test_a_value_within_itself_is_refused() -> None:
    value: dict[str, Any] = {}
    value["self"] = value
    with pytest.raises(UnstorableValueError, match="within itself"):
        encode_value(value, "item")


@pytest.mark.parametrize(
    "exact", [{"value": {"~object": 3}}, {"value": {"~shell": "rm"}}, {"value": [1]}]
)
def test_exact_bytes_that_an_attacker_wrote_make_nothing_but_an_error(
    exact: dict[str, Any],
) -> None:
    with pytest.raises((CorruptDataError, TypeError)):
        decode_value({}, bson.encode(exact))
