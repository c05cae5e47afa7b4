"""Filters of ``search``: how they are checked, and what they mean.

`matches` is the meaning, decided in Python on the value itself, so that every backend agrees.
`mongomem.store.documents.filter_query` builds a query that narrows on the server. Only the
operators of the tables below exist; anything else that begins with ``$`` is refused at any depth.

The meaning is that of ``langgraph.store.memory._compare_values``: an object without operators
matches an object that has at least its fields, a list only one of the same length, and a missing
field is None. Beyond it: a boolean is no number, values that have no order never match a range
instead of raising, and a key with dots that a value does not hold as it is leads into its objects.

A new operator: what it takes in `_OPERANDS`, what it means in `_TESTS`; where the server can narrow
by it, `filter_query._narrows` (an operator that is not there narrows nothing, which is safe); the
docstring of ``MongoStore.search``; and `tests/support/filters.py`, so that the property tests use
it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mongomem.arguments import shown
from mongomem.errors import InvalidInputError
from mongomem.store.documents.value import elements, plain

Test = Callable[[Any, Any], bool]

MAX_DEPTH = 40
"""Levels of a filter: a query has up to four for each, and may have 200 (MongoDB 4.4 to 8.2)."""

MOST_PARTS = 10_000
"""Lists and objects of a filter. A list may be in it many times, and is counted each time."""

SCALARS = (str, bool, int, float, bytes, datetime, type(None))

NOT = "$not"
"""Negates a filter, and as an operator what a field must be."""


class _Missing:
    """The value of a missing field."""


MISSING = _Missing()


# --- what is a filter
# ------------------------------------------------------------------------------


def checked_filter(filter: object) -> dict[str, Any]:
    """Return a copy of a filter in plain types.

    Raises:
        InvalidInputError: Not a dict with string keys, an unknown operator at any depth, operators
            beside plain fields, a value that cannot be stored and so matches nothing, or nested too
            deep.
    """
    return _Check().filter(filter, 0)


@dataclass(slots=True)
class _Check:
    """One pass over a filter, before any query is made of it."""

    parts: int = 0

    def filter(self, given: object, depth: int) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise InvalidInputError(f"filter must be a dict, not {shown(given)}")
        self._enter(depth)
        return {
            _key(key): self._condition(_key(key), wanted, depth)
            for key, wanted in dict.items(given)
        }

    def _condition(self, key: str, wanted: object, depth: int) -> Any:
        if key in JUNCTIONS:
            return [self.filter(branch, depth + 1) for branch in _branches(key, wanted)]
        if key == NOT:
            return self.filter(wanted, depth + 1)
        if key.startswith("$"):
            raise _unknown(key)
        return self.part(wanted, depth)

    def part(self, wanted: object, depth: int) -> Any:
        """Check what a field must be: a value, fields of an object, or operators."""
        if not isinstance(wanted, dict) or not has_operators(wanted):
            return self.data(wanted, depth, self.part)
        self._enter(depth)
        names = _operator_names(wanted)
        operands = zip(names, dict.values(wanted), strict=True)
        return {name: _OPERANDS[name](self, name, operand, depth + 1) for name, operand in operands}

    def data(
        self, wanted: object, depth: int, element: Callable[[Any, int], Any] | None = None
    ) -> Any:
        """Check a value to compare with; its elements as data too, or by the given function."""
        inside = element or self.data
        if isinstance(wanted, dict):
            self._enter(depth)
            return {self._field(key): inside(part, depth + 1) for key, part in dict.items(wanted)}
        if isinstance(wanted, (list, tuple)):
            self._enter(depth)
            return [inside(part, depth + 1) for part in elements(wanted)]
        return _scalar(wanted)

    def values(self, name: str, wanted: object, depth: int) -> list[Any]:
        if not isinstance(wanted, (list, tuple)):
            raise InvalidInputError(
                f"{name} of a filter takes a list of values, not {shown(wanted)}"
            )
        checked: list[Any] = self.data(wanted, depth)
        return checked

    def negated(self, name: str, wanted: object, depth: int) -> Any:
        if not isinstance(wanted, dict):
            raise InvalidInputError(
                f'{name} of a filter takes an expression such as {{"$gt": 1}}, not '
                f"{shown(wanted)}; $ne takes a value"
            )
        return self.part(wanted, depth)

    def _field(self, key: object) -> str:
        name = _key(key)
        if name.startswith("$") and name not in _OPERANDS:
            raise _unknown(name)
        return name

    def _enter(self, depth: int) -> None:
        self.parts += 1
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"A filter is nested deeper than {MAX_DEPTH} levels")
        if self.parts > MOST_PARTS:
            raise InvalidInputError(f"A filter has more than {MOST_PARTS} lists and objects")


def _branches(name: str, wanted: object) -> list[Any]:
    branches = list(elements(wanted)) if isinstance(wanted, (list, tuple)) else []
    if not branches:
        raise InvalidInputError(
            f"{name} of a filter takes a list of one filter or more, not {shown(wanted)}"
        )
    return branches


def _operator_names(wanted: dict[Any, Any]) -> list[str]:
    """Return the keys of an object with operators: nothing but operators."""
    names = [_key(key) for key in dict.keys(wanted)]
    for name in names:
        if name.startswith("$") and name not in _OPERANDS:
            raise _unknown(name)
    if not all(name in _OPERANDS for name in names):
        raise InvalidInputError(f"A filter mixes operators and fields: {shown(names)}")
    return names


def _flag(name: str, wanted: object) -> bool:
    if not isinstance(wanted, bool):
        raise InvalidInputError(f"{name} of a filter takes True or False, not {shown(wanted)}")
    return wanted


def _as_data(check: _Check, _name: str, wanted: object, depth: int) -> Any:
    return check.data(wanted, depth)


_OPERANDS: dict[str, Callable[[_Check, str, object, int], Any]] = {
    **dict.fromkeys(("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$contains"), _as_data),
    **dict.fromkeys(("$in", "$nin"), _Check.values),
    "$exists": lambda _check, name, wanted, _depth: _flag(name, wanted),
    NOT: _Check.negated,
}
"""How the operand of an operator is checked."""


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise InvalidInputError(f"The keys of a filter are strings, not {shown(key)}")
    return str.__str__(key)


def _unknown(name: str) -> InvalidInputError:
    known = ", ".join([*_OPERANDS, *JUNCTIONS])
    return InvalidInputError(f"Unknown operator {shown(name)} in a filter; there are {known}")


def _scalar(wanted: object) -> Any:
    if not isinstance(wanted, SCALARS):
        kind = (
            "regular expressions"
            if isinstance(wanted, re.Pattern)
            else f"a {type(wanted).__name__}"
        )
        raise InvalidInputError(f"A filter cannot compare with {kind}")
    if isinstance(wanted, datetime):
        try:
            wanted.utcoffset()
        except Exception as error:  # whatever a time zone of the caller's own does
            raise InvalidInputError(f"A time in a filter cannot be read: {shown(error)}") from error
    return plain(wanted)


def has_operators(wanted: dict[Any, Any]) -> bool:
    """Say whether a key of an object begins with ``$``."""
    return any(isinstance(key, str) and str.startswith(key, "$") for key in dict.keys(wanted))


# --- the meaning
# -----------------------------------------------------------------------------------


def matches(filter: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    """Say whether the value of an item matches a filter that `checked_filter` returned."""
    return all(_meets(key, wanted, value) for key, wanted in filter.items())


def _meets(key: str, wanted: Any, value: Mapping[str, Any]) -> bool:
    if key in JUNCTIONS:
        return JUNCTIONS[key](matches(branch, value) for branch in wanted)
    if key == NOT:
        return not matches(wanted, value)
    return _matches_part(_at(value, key), wanted)


def _at(value: Any, key: str) -> Any:
    """Find a field by its whole key, else by the part before its first dot and then by the rest."""
    while key not in value:
        head, dot, key = key.partition(".")
        value = value.get(head) if dot else None
        if not isinstance(value, dict):
            return MISSING
    return value[key]


def _matches_part(actual: Any, wanted: Any) -> bool:
    """Say whether the value of a field is what a filter wants of it: operators, at least these
    fields, a list, or a scalar.
    """
    if isinstance(wanted, dict) and has_operators(wanted):
        return all(_TESTS[name](actual, operand) for name, operand in wanted.items())
    if isinstance(wanted, dict):
        return isinstance(actual, dict) and all(
            _matches_part(_at(actual, key), part) for key, part in wanted.items()
        )
    if isinstance(wanted, list):
        return _pairwise(_matches_part, actual, wanted)
    return _equal(actual, wanted)


def _equal(actual: Any, wanted: Any) -> bool:
    """Say whether two values are equal; a boolean equals no number, and a missing field None."""
    if isinstance(wanted, dict):
        return (
            isinstance(actual, dict)
            and actual.keys() == wanted.keys()
            and all(_equal(actual[key], part) for key, part in wanted.items())
        )
    if isinstance(wanted, list):
        return _pairwise(_equal, actual, wanted)
    if actual is MISSING:
        return wanted is None
    return isinstance(actual, bool) == isinstance(wanted, bool) and bool(actual == wanted)


def _pairwise(test: Test, actual: Any, wanted: list[Any]) -> bool:
    """Say whether a value is a list of the same length whose elements all pass a test."""
    if not isinstance(actual, (list, tuple)) or len(actual) != len(wanted):
        return False
    return all(test(*pair) for pair in zip(actual, wanted, strict=True))


def _ordered(compare: Test) -> Test:
    """Make a range test: numbers with numbers, texts with texts, times with times, nothing else."""

    def test(actual: Any, wanted: Any) -> bool:
        if _kind(actual) is None or _kind(actual) != _kind(wanted):
            return False
        return compare(actual, wanted)

    return test


def _kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, datetime):
        return "naive time" if value.utcoffset() is None else "aware time"
    return (
        "number" if isinstance(value, (int, float)) else "text" if isinstance(value, str) else None
    )


def _is_in(actual: Any, wanted: list[Any]) -> bool:
    return any(_equal(actual, one) for one in wanted)


def _contains(actual: Any, wanted: Any) -> bool:
    return isinstance(actual, (list, tuple)) and any(_equal(element, wanted) for element in actual)


_TESTS: dict[str, Test] = {
    "$eq": _equal,
    "$ne": lambda actual, wanted: not _equal(actual, wanted),
    "$gt": _ordered(operator.gt),
    "$gte": _ordered(operator.ge),
    "$lt": _ordered(operator.lt),
    "$lte": _ordered(operator.le),
    "$in": _is_in,
    "$nin": lambda actual, wanted: not _is_in(actual, wanted),
    "$exists": lambda actual, wanted: (actual is not MISSING) is wanted,
    "$contains": _contains,
    NOT: lambda actual, wanted: not _matches_part(actual, wanted),
}

JUNCTIONS: dict[str, Callable[[Iterator[bool]], bool]] = {"$and": all, "$or": any}
