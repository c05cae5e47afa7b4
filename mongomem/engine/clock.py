"""Time and randomness, as both memories take them when they are given no others: what a plan may
not take by itself.
"""

from __future__ import annotations

import secrets
import time
from datetime import datetime, timezone


def utc_now() -> datetime:
    """Return the time of this machine, aware and in UTC."""
    return datetime.now(timezone.utc)


def unix_time() -> float:
    """Return the time of this machine in seconds since 1970."""
    return time.time()


def monotonic() -> float:
    """Return seconds since some moment, which no change of the clock alters."""
    return time.monotonic()


def random_bytes(count: int) -> bytes:
    """Return bytes that nobody can guess."""
    return secrets.token_bytes(count)
