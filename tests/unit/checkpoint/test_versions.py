"""Versions of channels: above the last, of its kind, so that a thread from any saver goes on."""

from __future__ import annotations

import math
from typing import Any

import mongomock
import pytest

from mongomem import InvalidInputError, MongoSaver
from mongomem.checkpoint.serde.versions import next_version
from support.stores import named

KINDS: list[Any] = [
    None,
    "00000000000000000000000000000007.0.5",
    "7",
    0,
    7,
    2**63,
    2**70,
    0.0,
    7.5,
    2.0**60,
    1e300,
    -3,
]


@pytest.mark.parametrize("current", KINDS, ids=named)
def test_the_next_version_is_above_the_last_and_of_its_kind(current: Any) -> None:
    following = [next_version(current, 0.5)]
    for _ in range(20):
        following.append(next_version(following[-1], 0.5))
    assert following == sorted(set(following))
    assert {type(one) for one in following} == {str if current is None else type(current)}
    assert current is None or current == "7" or current < following[0]


def test_two_branches_that_count_alike_differ() -> None:
    assert next_version(None, 0.25) != next_version(None, 0.5)
    saver = MongoSaver(mongomock.MongoClient())
    assert saver.get_next_version(None, None) != saver.get_next_version(None, None)


@pytest.mark.parametrize(
    "wrong", [True, "", "a", ".5", b"1", [], {}, math.nan, math.inf, object()], ids=named
)
def test_what_is_no_version_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="version"):
        next_version(wrong, 0.5)
