"""When items expire. A time to live counts minutes, as LangGraph's TTLConfig does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mongomem.errors import ConfigurationError, InvalidInputError
from mongomem.store.values import named

LONGEST_MINUTES = 60 * 24 * 366 * 1000
"""A thousand years: later than this no date can be written."""

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
        omit_expired: Whether an item is absent from the moment on that its time is over. Else it may be seen
            until the server's TTL monitor has removed it, within about a minute.
    """

    omit_expired: bool = True

    def condition(self, now: datetime) -> dict[str, Any]:
        """Build the condition that holds for items that are there."""
        return {"expires_at": {"$not": {"$lte": now}}} if self.omit_expired else {}

    def is_over(self, expires_at: datetime | None, now: datetime) -> bool:
        """Say whether an item that expires then counts as absent now."""
        return self.omit_expired and expires_at is not None and expires_at <= now


def resolve_expiry(ttl: Any) -> Expiry:
    """Read LangGraph's TTLConfig, any of whose keys may be missing.

    ``sweep_interval_minutes`` is accepted and without effect: the server sweeps.

    Raises:
        ConfigurationError: An option is unknown or of the wrong kind.
    """
    if ttl is not None and not isinstance(ttl, Mapping):
        raise ConfigurationError(
            f'ttl of a store is a TTLConfig such as {{"default_ttl": 60}}, in minutes, not {ttl!r}'
        )
    for name, given in (ttl or {}).items():
        if name not in _OPTIONS:
            raise ConfigurationError(f"Unknown option of ttl: {name!r}; there are {sorted(_OPTIONS)}")
        kinds = _OPTIONS[name]
        if not isinstance(given, kinds) or (isinstance(given, bool) and kinds is not bool):
            raise ConfigurationError(f"ttl option {name}: {given!r} is of the wrong kind")
    if ttl and ttl.get("default_ttl") is not None:
        try:
            check_minutes(ttl["default_ttl"])
        except InvalidInputError as error:
            raise ConfigurationError(f"default_ttl: {error}") from error
    return Expiry(omit_expired=(ttl or {}).get("omit_expired", True))


def check_minutes(ttl: Any) -> None:
    """Refuse what is no time to live: None (for ever) or a positive number of minutes.

    Raises:
        InvalidInputError: It is something else.
    """
    if ttl is None:
        return
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)):
        raise InvalidInputError(f"ttl counts minutes: it must be a number or None, not {named(ttl)}")
    if not 0 < ttl <= LONGEST_MINUTES:  # which NaN is not
        raise InvalidInputError(f"ttl counts minutes: it is above 0 and at most {LONGEST_MINUTES}, not {named(ttl)}")


def expires_at(ttl_minutes: float, now: datetime) -> datetime:
    """Say when an item expires that was used now."""
    return now + timedelta(minutes=ttl_minutes)
