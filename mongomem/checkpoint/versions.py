"""Versions of channels."""

from __future__ import annotations

import random


def next_version(current: str | float | None) -> str:
    """Return a version above `current`, as the in-memory and Postgres savers write it.

    A zero-padded counter, so that strings order as numbers do, and a random fraction, so that two
    branches that count to the same number differ. A thread that was begun with integer or float
    versions goes on from them.
    """
    if current is None:
        count = 0
    elif isinstance(current, str):
        count = int(current.split(".")[0])
    else:
        count = int(current)
    return f"{count + 1:032}.{random.random():016}"  # noqa: S311 (tells branches apart, guards nothing)
