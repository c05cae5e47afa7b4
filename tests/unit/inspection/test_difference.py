"""What differs between two states."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.inspection.difference import Difference, differences
from mongomem.inspection.plain_values import Bounds
from mongomem.inspection.state import State

HELLO, BYE = HumanMessage("Hello", id="h"), AIMessage("Bye", id="b")
EDITED = HumanMessage("Hi", id="h")


def state(**values: Any) -> State:
    return State(CheckpointRef("t"), None, "", {}, values, {}, (), (), ())


def shape(found: list[Difference]) -> list[Any]:
    """Return names and kinds, and those of the parts."""
    return [(one.name, one.kind, shape([*one.parts])) for one in found]


DIFFERENT: list[tuple[Any, Any, list[Any]]] = [
    (1, 1, []),
    (1, 2, [("x", "changed", [])]),
    ([1, 2], [1, 2, 3], [("x", "changed", [("[2]", "added", [])])]),
    ([1, 2, 3], [2, 3], [("x", "changed", [("[0]", "removed", [])])]),
    ([1, 2, 3], [1, 9, 3], [("x", "changed", [("[1]", "changed", [])])]),
    ({"a": 1}, {"b": 1}, [("x", "changed", [("a", "removed", []), ("b", "added", [])])]),
    ([HELLO], [HELLO, BYE], [("x", "changed", [("b", "added", [])])]),
    ([HELLO, BYE], [EDITED], [("x", "changed", [("h", "changed", []), ("b", "removed", [])])]),
    (
        {"a": [{"id": "1", "n": 1}]},
        {"a": [{"id": "1", "n": 2}]},
        [("x", "changed", [("a", "changed", [("1", "changed", [("n", "changed", [])])])])],
    ),
]


@pytest.mark.parametrize(("before", "after", "said"), DIFFERENT)
def test_what_became_of_values(before: Any, after: Any, said: list[Any]) -> None:
    assert shape(differences(state(x=before), state(x=after))) == said


def test_channels_that_come_and_go() -> None:
    found = differences(state(old=1, same=[1]), state(new=None, same=[1]))
    assert [one.json(Bounds()) for one in found] == [
        {"name": "old", "kind": "removed", "before": 1},
        {"name": "new", "kind": "added", "after": None},
    ]
