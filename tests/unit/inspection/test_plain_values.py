"""Values as JSON can say them: any value ends in JSON, bounded, and no method of it is called."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from mongomem.inspection.plain_values import MORE, WHOLE, Bounds, plain, text_of_bytes


class Colour(Enum):
    RED = "red"


@dataclass
class Note:
    text: str
    _own: int = 1


class Slotted:
    __slots__ = ("text",)

    def __init__(self) -> None:
        self.text = "here"


class Loud:
    """Whatever is asked of it, it does something."""

    def __init__(self) -> None:
        self.text = "quiet"

    def __repr__(self) -> str:
        raise AssertionError

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


class Broken(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError


NOTE = f"{__name__}.Note"
SAID: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (2**70, 2**70),
    (2**3000, "(an integer of 3001 bits)"),
    (1.5, 1.5),
    (float("nan"), "nan"),
    (float("-inf"), "-inf"),
    (b"abc", "(3 bytes)"),
    (Colour.RED, "red"),
    (Decimal("1.50"), "1.50"),
    (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    (PurePosixPath("a/b"), "a/b"),
    (date(2026, 1, 2), "2026-01-02"),
    (datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc), "2026-01-02T03:04:05+00:00"),
    ((1, [2], {3}), [1, [2], [3]]),
    (deque([1]), [1]),
    ({1: "a", "b": None}, {"1": "a", "b": None}),
    (Note("x"), {"(class)": NOTE, "text": "x"}),
    (Slotted(), {"(class)": f"{__name__}.Slotted", "text": "here"}),
    (Loud(), {"(class)": f"{__name__}.Loud", "text": "quiet"}),
    (Broken(a=1), {"(class)": f"{__name__}.Broken"}),
]


@pytest.mark.parametrize(("value", "said"), SAID, ids=[type(value).__name__ for value, _ in SAID])
def test_what_is_said_of_values(value: Any, said: Any) -> None:
    assert plain(value) == said
    json.dumps(plain(value), allow_nan=False)


def test_messages_by_what_they_say() -> None:
    call = {"name": "look", "args": {"at": "it"}, "id": "1", "type": "tool_call"}
    said = plain(AIMessage("Hello", id="a", tool_calls=[call]))
    assert (said["type"], said["content"], said["id"]) == ("ai", "Hello", "a")
    assert said["tool_calls"] == [call]
    assert "response_metadata" not in said


def test_bounds() -> None:
    bounds = Bounds(text=3, elements=2, depth=2)
    assert plain("abcdef", bounds) == "abc… (6 characters)"
    assert plain([1, 2, 3, 4], bounds) == [1, 2, f"{MORE} 2"]
    assert plain({"a": 1, "b": 2, "c": 3}, bounds) == {"a": 1, "b": 2, MORE: 1}
    assert plain([[[1]]], bounds) == [["…"]]
    assert plain(["abcdef"] * 200, WHOLE) == ["abcdef"] * 200
    endless: list[Any] = []
    endless.append(endless)
    json.dumps(plain(endless, WHOLE))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
)


@given(VALUES)
def test_anything_is_json(value: Any) -> None:
    json.dumps(plain(value, Bounds(text=5, elements=3, depth=3)), allow_nan=False)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (99_400, "99.4 kB"),
        (99_600, "100 kB"),
        (1_500_000, "1.5 MB"),
        (3e13, "30.0 TB"),
    ],
)
def test_bytes_in_the_unit_that_suits(count: float, said: str) -> None:
    assert text_of_bytes(count) == said
