"""What a caller gives to a cache: keys, pairs, namespaces and times to live, checked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

from mongomem.arguments import checked_list, checked_mapping, checked_text, looking_at, shown
from mongomem.errors import InvalidInputError

Namespace: TypeAlias = tuple[str, ...]

FullKey: TypeAlias = tuple[Namespace, str]

LAST_DATE = datetime(9999, 12, 31, tzinfo=timezone.utc)
"""When what lives longer than dates go expires."""


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to be set.

    Attributes:
        seconds: How long it lives; None for ever.
    """

    namespace: Namespace
    key: str
    value: Any
    seconds: float | None

    def expires_at(self, now: datetime) -> datetime | None:
        """Return when it expires that is set now; `now` where its time is over at once."""
        if self.seconds is None:
            return None
        try:
            return now + timedelta(seconds=max(self.seconds, 0))
        except OverflowError:
            return LAST_DATE


def checked_keys(keys: object) -> list[FullKey]:
    """Return the keys that are asked for, each once.

    Raises:
        InvalidInputError: They are no list of pairs of namespace and key.
    """
    return list(dict.fromkeys([_full_key(one) for one in checked_list("keys", keys)]))


def checked_pairs(pairs: object) -> list[NewEntry]:
    """Return the entries that are to be set. Their values are as they were given.

    Raises:
        InvalidInputError: They are no mapping of namespace and key to value and time to live.
    """
    given = checked_mapping("pairs", pairs).items()
    return [_new_entry(_full_key(key, "pairs"), pair) for key, pair in given]


def checked_namespaces(namespaces: object) -> list[Namespace] | None:
    """Return the namespaces that are to be cleared; None for all.

    Raises:
        InvalidInputError: They are no list of namespaces.
    """
    if namespaces is None:
        return None
    given = checked_list("namespaces", namespaces)
    return list(dict.fromkeys([_namespace("namespaces", one) for one in given]))


def _new_entry(full_key: FullKey, pair: object) -> NewEntry:
    value, ttl = _pair("pairs", pair, "a value and its ttl")
    return NewEntry(*full_key, value, _seconds(ttl))


def _full_key(full_key: object, name: str = "keys") -> FullKey:
    namespace, key = _pair(name, full_key, "a namespace and a key")
    return _namespace(f"a namespace of {name}", namespace), checked_text(f"a key of {name}", key)


def _pair(name: str, pair: object, what: str) -> Sequence[Any]:
    with looking_at(name):
        if isinstance(pair, tuple | list) and len(pair) == 2:
            return pair
    raise InvalidInputError(f"{name}: {shown(pair)} is no pair of {what}")


def _namespace(name: str, namespace: object) -> Namespace:
    if not isinstance(namespace, tuple | list):
        raise InvalidInputError(
            f"{name}: a namespace is a tuple of labels, and {shown(namespace)} is none"
        )
    with looking_at(name):
        labels = [*namespace]
    return tuple([checked_text(f"{name}: a label", label) for label in labels])


def _seconds(ttl: object) -> float | None:
    """Return a time to live in seconds, as a number of its own that can be compared.

    Raises:
        InvalidInputError: It is no number and not None.
    """
    if ttl is None:
        return None
    number: float | None = None
    if isinstance(ttl, int) and not isinstance(ttl, bool):
        number = int.__int__(ttl)
    elif isinstance(ttl, float):
        number = float.__float__(ttl)
    if number is None or number != number:  # which NaN alone is
        raise InvalidInputError(f"the ttl of pairs is seconds or None, not {shown(ttl)}")
    return number
