"""What counts as a difference between a source and a target."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.store.base import Item

from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.migration.comparison import (
    NOT_THERE,
    checkpoint_differences,
    is_same,
    item_differences,
)
from mongomem.migration.parts import Place, SourceCheckpoint, SourceItem, SourceWrite

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=timezone.utc)
CHECKPOINT: Any = {
    "id": "2",
    "ts": "then",
    "channel_values": {"a": [1], "b": {2, 3}},
    "channel_versions": {"a": 1},
}
SOURCE = SourceCheckpoint(
    Place(CheckpointRef("t", "", "2"), "1", 2),
    CHECKPOINT,
    {"step": 1},
    [SourceWrite("task", "", 0, "a", 5), SourceWrite("task", "", 1, "a", 6)],
)


def target(**changed: Any) -> CheckpointTuple:
    parts: dict[str, Any] = {
        "config": {"configurable": {"thread_id": "t", "checkpoint_id": "2"}},
        "checkpoint": CHECKPOINT,
        "metadata": {"step": 1, "more": True},
        "parent_config": {"configurable": {"thread_id": "t", "checkpoint_id": "1"}},
        "pending_writes": [("task", "a", 5), ("other", "a", 7), ("task", "a", 6)],
    }
    return CheckpointTuple(**{**parts, **changed})


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (target(), []),
        (None, [NOT_THERE]),
        (ValueError("it is damaged"), ["it is damaged"]),
        (target(parent_config=None), ["its parent is None, and was '1'"]),
        (target(metadata={"step": True}), ["metadata 'step'"]),
        (target(checkpoint={**CHECKPOINT, "ts": "now"}), ["field 'ts'"]),
        (target(checkpoint={**CHECKPOINT, "channel_values": {"a": [1]}}), ["channel 'b'"]),
        (target(pending_writes=[("task", "a", 6), ("task", "a", 5)]), ["writes of ('task', 'a')"]),
        (target(pending_writes=None), ["writes of ('task', 'a')"]),
    ],
)
def test_checkpoints(found: Any, told: list[str]) -> None:
    assert [*checkpoint_differences(SOURCE, found)] == told


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({1, 2, 3}, {3, 2, 1}, True),
        (float("nan"), float("nan"), True),
        (1, 1.0, False),
        (1, True, False),
        ((1,), [1], True),  # the serializer makes lists of tuples
        (np.arange(3), np.arange(3), True),
        (np.arange(3), np.arange(4), False),
        (object(), object(), False),
    ],
)
def test_values(one: Any, other: Any, same: bool) -> None:
    assert is_same(one, other) is same


def test_items() -> None:
    source = SourceItem(("a",), "k", {"n": 1}, NOW, NOW)
    cut = NOW.replace(microsecond=678_000)
    same = Item(value={"n": 1}, key="k", namespace=("a",), created_at=cut, updated_at=cut)
    assert [*item_differences(source, same)] == []
    assert [*item_differences(source, None)] == [NOT_THERE]
    later = NOW + timedelta(milliseconds=1)
    other = Item(value={"n": 1.0}, key="k", namespace=("a",), created_at=NOW, updated_at=later)
    assert [*item_differences(source, other)] == ["value", "updated_at"]
