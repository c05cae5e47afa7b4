"""About how large values are, before they are serialized: what decides whether that leaves the
event loop. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from langgraph.checkpoint.base import Checkpoint

from mongomem.checkpoint.serde.channels import ParentState, holds

SAMPLE = 8
"""How many of the values in a container are looked at, from its end: what is new stands there."""

DEEPEST = 6
"""How many containers in each other are looked into."""

LEAST_BYTES = 8
"""What any value counts for."""

SCALARS = frozenset({int, float, bool, type(None)})
"""Types whose values are small. They and plain strings, which most values are, are asked for
first."""


def size_to_serialize(checkpoint: Checkpoint, parent: ParentState) -> int:
    """Return about how many bytes come of the values that the parent does not hold at the same
    version.
    """
    versions = checkpoint["channel_versions"]
    return sum(
        estimate_size(value) + (parent.channels[channel].size if channel in parent.channels else 0)
        for channel, value in checkpoint["channel_values"].items()
        if not holds(parent, channel, versions.get(channel))
    )


def estimate_size(value: Any, depth_left: int = DEEPEST) -> int:
    """Return about how many bytes a value comes to, where what was not looked at is like what was.

    Asks the built-in types alone and calls nothing of a value's own: those may fail, lie or take
    long.
    """
    kind = type(value)
    if kind is str:
        return LEAST_BYTES + len(value)
    if kind in SCALARS or (kind in (list, dict) and not value):
        return LEAST_BYTES
    try:
        if isinstance(value, str):
            return LEAST_BYTES + str.__len__(value)
        count, sample = _sample(value)
    except Exception:  # it has no fields, or whatever a value may do when it is only looked at
        count, sample = 0, []
    if not sample or not depth_left:
        return LEAST_BYTES + _buffer_size(value)
    return sum([estimate_size(one, depth_left - 1) for one in sample]) * count // len(sample)


def _sample(value: Any) -> tuple[int, list[Any]]:
    """Return how many values are in a value, and the last of them."""
    for container, length, last in SAMPLED:
        if isinstance(value, container):
            return length(value), last(value)
    if type(value) in (set, frozenset, deque):
        return len(value), list(islice(value, SAMPLE))
    fields = object.__getattribute__(value, "__dict__")
    return (1, [fields]) if type(fields) is dict else (0, [])


SAMPLED: tuple[tuple[type, Callable[[Any], int], Callable[[Any], list[Any]]], ...] = (
    (list, list.__len__, lambda value: list.__getitem__(value, slice(-SAMPLE, None))),
    (tuple, tuple.__len__, lambda value: [*tuple.__getitem__(value, slice(-SAMPLE, None))]),
    (dict, dict.__len__, lambda value: [*islice(reversed(dict.values(value)), SAMPLE)]),
)
"""Containers by class, with how long they are and their last values: asked of the class, since a
subclass may answer otherwise."""


def _buffer_size(value: Any) -> int:
    """Return how many bytes a buffer has, as bytes or an array of numpy; 0 for anything else."""
    try:
        return memoryview(value).nbytes
    except Exception:  # no buffer, one that cannot be shown as such, or one that fails
        return 0
