"""Time and randomness, as both memories take them when they are given no others: what a plan may
not take by itself.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import datetime, timezone

from mongomem.arguments import shown
from mongomem.errors import ConfigurationError


def utc_now() -> datetime:
    """Return the time of this machine, aware and in UTC."""
    return datetime.now(timezone.utc)


def checked_clock(clock: object) -> Callable[[], datetime]:
    """Return a clock, which tells aware times in UTC.

    Raises:
        ConfigurationError: It is no function; or, when it is read, it tells something else than an
            aware time.
    """
    if not callable(clock):
        raise ConfigurationError(
            f"clock must be a function that tells the time, not {shown(clock)}"
        )
    read: Callable[[], object] = clock
    return lambda: _aware(read())


def _aware(told: object) -> datetime:
    if not isinstance(told, datetime) or told.tzinfo is None:
        raise ConfigurationError(
            f"clock must tell the time as an aware datetime, not {shown(told)}"
        )
    try:
        return told.astimezone(timezone.utc)
    except Exception as error:  # out of the range of dates, or whatever a time zone does
        raise ConfigurationError(
            f"clock tells a time that has no equal in UTC: {shown(told)}"
        ) from error


def in_milliseconds(moment: datetime) -> datetime:
    """Return a time as MongoDB keeps it: in whole milliseconds."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def unix_time() -> float:
    """Return the time of this machine in seconds since 1970."""
    return time.time()


def monotonic() -> float:
    """Return seconds since some moment, which no change of the clock alters."""
    return time.monotonic()


def random_bytes(count: int) -> bytes:
    """Return bytes that nobody can guess."""
    return secrets.token_bytes(count)
