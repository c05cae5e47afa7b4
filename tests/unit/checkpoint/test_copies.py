"""Copies of what a caller passed: containers and messages are copied, anything else is shared."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from mongomem.checkpoint.serde.copies import detached


class Silent:
    """A value that does not say whether it is true."""

    def __bool__(self) -> bool:
        raise ValueError("asked")


@pytest.mark.parametrize("artifact", [np.arange(3), np.arange(0), Silent()])
def test_a_message_may_hold_what_is_neither_true_nor_false(artifact: Any) -> None:
    message = ToolMessage("x", tool_call_id="1", artifact=artifact)
    (copied,) = detached([message])
    assert copied is not message
    assert copied.artifact is artifact


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, ({"b": []},)]},
        [deque([1]), {2}, bytearray(b"a")],
        ((), ([],)),
        [HumanMessage("x", id="1", more={"a": [1]})],
        {"message": HumanMessage([{"type": "text"}], additional_kwargs={"a": {}})},
    ],
)
def test_a_copy_is_equal_and_shares_no_container(value: Any) -> None:
    copied = detached(value)
    assert copied == value
    assert not _containers(copied) & _containers(value)


def test_a_message_without_extra_fields_gets_a_dict_of_its_own() -> None:
    message = HumanMessage("x")
    (copied,) = detached([message])
    copied.more = 1
    assert not hasattr(message, "more")


def test_a_tuple_that_contains_itself_is_one_tuple() -> None:
    inner: list[Any] = []
    value = (inner,)
    inner.append(value)
    copied = detached(value)
    assert copied is copied[0][0] is not value


def _containers(value: Any) -> set[int]:
    """Return the identities of all mutable containers and messages in a value."""
    if isinstance(value, HumanMessage):
        return {id(value)} | _containers(value.__dict__) | _containers(value.__pydantic_extra__)
    if isinstance(value, dict):
        return {id(value)}.union(*map(_containers, value.values()))
    if isinstance(value, list | tuple):
        found = set[int]().union(*map(_containers, value))
        return found | {id(value)} if isinstance(value, list) else found
    return {id(value)} if isinstance(value, set | deque | bytearray) else set()
