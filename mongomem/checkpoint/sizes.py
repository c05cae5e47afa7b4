"""About how large values are, before they are serialized: what decides whether that leaves the event loop. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from langgraph.checkpoint.base import Checkpoint

from mongomem.checkpoint.caches import Parent
from mongomem.checkpoint.encoding import holds

SAMPLE = 8
"""How many of the values in a container are looked at, those of a list from its end: what is new stands there."""

DEEPEST = 4
"""How many containers in each other are looked into."""

LEAST_BYTES = 8
"""What any value counts for."""


def size_to_serialize(checkpoint: Checkpoint, parent: Parent) -> int:
    """Return about how many bytes come of the values that the parent does not hold at the same version."""
    versions = checkpoint["channel_versions"]
    return sum(
        rough_size(value) + (parent.channels[channel].size if channel in parent.channels else 0)
        for channel, value in checkpoint["channel_values"].items()
        if not holds(parent, channel, versions.get(channel))
    )


def rough_size(value: Any, room: int = DEEPEST) -> int:
    """Return about how many bytes a value comes to, where what was not looked at is like what was."""
    if isinstance(value, str):
        return LEAST_BYTES + len(value)
    if isinstance(value, list | tuple):
        sample = value[-SAMPLE:]
    elif isinstance(value, Mapping):
        sample = list(islice(value.values(), SAMPLE))
    elif fields := getattr(value, "__dict__", None):
        return rough_size(fields, room)
    else:
        return LEAST_BYTES + _buffer_size(value)
    if not room or not sample:
        return LEAST_BYTES
    return sum(rough_size(one, room - 1) for one in sample) * len(value) // len(sample)


def _buffer_size(value: Any) -> int:
    """Return how many bytes a buffer has, such as bytes or an array of numpy; 0 for anything else."""
    try:
        return memoryview(value).nbytes
    except (TypeError, ValueError, BufferError):
        return 0
