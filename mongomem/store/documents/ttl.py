"""When items expire. A time to live counts minutes, as LangGraph's TTLConfig does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, cast

from langgraph.store.base import TTLConfig

from mongomem.arguments import shown
from mongomem.errors import ConfigurationError, InvalidInputError
from mongomem.store.documents.value import plain

LONGEST_MINUTES = 60 * 24 * 366 * 1000
"""A thousand years: dates end there."""

LAST_DATE = datetime(9999, 12, 31, tzinfo=timezone.utc)

_OPTIONS: dict[str, type | tuple[type, ...]] = {
    "default_ttl": (int, float, type(None)),
    "refresh_on_read": bool,
    "omit_expired": bool,
    "sweep_interval_minutes": (int, float, type(None)),
}


@dataclass(frozen=True, slots=True)
class Expiry:
    """How a store treats items that expire.

    Attributes:
        omit_expired: Whether an item is absent from the moment on that its time is over. Else it
            may be seen until the server's TTL monitor has removed it, within about a minute.
    """

    omit_expired: bool = True

    def condition(self, now: datetime) -> dict[str, Any]:
        """Build the condition of items that have not expired."""
        return {"expires_at": {"$not": {"$lte": now}}} if self.omit_expired else {}

    def has_expired(self, expires_at: datetime | None, now: datetime) -> bool:
        """Say whether an item that expires at some time counts as absent now."""
        return self.omit_expired and expires_at is not None and expires_at <= now


def checked_config(ttl: object) -> TTLConfig | None:
    """Return a copy of LangGraph's TTLConfig, any of whose keys may be missing.

    ``sweep_interval_minutes`` is accepted and has no effect: the server deletes expired items.

    Raises:
        ConfigurationError: An option is unknown or of the wrong kind.
    """
    if ttl is None:
        return None
    options = dict(_checked_option(name, given) for name, given in _options(ttl))
    try:
        checked_minutes(options.get("default_ttl"), "default_ttl")
    except InvalidInputError as error:
        raise ConfigurationError(f"ttl option {error}") from error
    return cast("TTLConfig", options)


def _options(ttl: object) -> list[tuple[object, object]]:
    try:
        if isinstance(ttl, Mapping):
            return list(dict.items(ttl) if isinstance(ttl, dict) else ttl.items())
    except Exception as error:  # whatever a mapping of the caller's own does
        raise ConfigurationError(f"ttl cannot be read: {shown(error)}") from error
    raise ConfigurationError(
        f'ttl of a store is a TTLConfig such as {{"default_ttl": 60}}, in minutes, not {shown(ttl)}'
    )


def _checked_option(name: object, given: object) -> tuple[str, Any]:
    option = plain(name)
    if not isinstance(option, str) or option not in _OPTIONS:
        raise ConfigurationError(
            f"Unknown option of ttl: {shown(name)}; there are {sorted(_OPTIONS)}"
        )
    kinds = _OPTIONS[option]
    if not isinstance(given, kinds) or (isinstance(given, bool) and kinds is not bool):
        raise ConfigurationError(f"ttl option {option}: {shown(given)} is of the wrong kind")
    return option, plain(given)


def checked_minutes(minutes: object, name: str = "ttl") -> float | None:
    """Return a time to live: None (for ever) or a positive number of minutes.

    Raises:
        InvalidInputError: It is something else.
    """
    if minutes is None:
        return None
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)):
        raise InvalidInputError(
            f"{name} counts minutes: it must be a number or None, not {shown(minutes)}"
        )
    number: float = plain(minutes)
    if not 0 < number <= LONGEST_MINUTES:  # which NaN is not
        raise InvalidInputError(
            f"{name} counts minutes: it is above 0 and at most {LONGEST_MINUTES}, not "
            f"{shown(number)}"
        )
    return number


def expires_at(ttl_minutes: float, now: datetime) -> datetime:
    """Return when an item expires that is used now, at most `LAST_DATE`."""
    try:
        return now + timedelta(minutes=ttl_minutes)
    except OverflowError:
        return LAST_DATE
