"""Versions of channels."""

from __future__ import annotations

import math
from typing import TypeAlias

from mongomem.arguments import shown
from mongomem.errors import InvalidInputError

Version: TypeAlias = str | int | float
"""LangGraph compares the versions of a thread with each other: all of a thread are of one kind."""


def next_version(current: object, fraction: float) -> Version:
    """Return a version above `current`, of its kind.

    Without one, and above a string, it is as the in-memory and Postgres savers write it: a
    zero-padded counter, so that strings order as numbers do, and a random fraction, so that two
    branches that count to the same number differ. A thread that came from a saver with integers or
    floats counts on in these.

    Args:
        current: The version before.
        fraction: The random fraction, from 0 to 1.

    Raises:
        InvalidInputError: `current` is no version.
    """
    if current is None:
        return _as_string(1, fraction)
    if isinstance(current, str):
        count = str.__str__(current).partition(".")[0]
        if count.isdecimal():
            return _as_string(int(count) + 1, fraction)
    elif isinstance(current, float):
        if math.isfinite(current):
            return _above(float.__float__(current))
    elif isinstance(current, int) and not isinstance(current, bool):
        return int.__int__(current) + 1
    raise InvalidInputError(
        f"the version of a channel is a number, or a string that begins with one: {shown(current)}"
    )


def _above(number: float) -> float:
    """Return a larger float: from 2**53 on, to add 1 changes nothing."""
    return max(number + 1, math.nextafter(number, math.inf))


def _as_string(count: int, fraction: float) -> str:
    return f"{count:032}.{fraction:016}"
