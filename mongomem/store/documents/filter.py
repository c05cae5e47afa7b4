"""Filters of ``search``: what they mean, and what a server can narrow by.

`matches` is the meaning, decided in Python on the value itself, so that every backend agrees.
`to_query` gives a MongoDB query that finds at least all matches, to spare reading the rest. Only
the operators of the tables below exist; anything else that begins with ``$`` is refused at any
depth.

The meaning is that of ``langgraph.store.memory._compare_values``: an object without operators
matches an object that has at least its fields, a list only one of the same length, and a missing
field is None. Beyond it: a boolean is no number, values that have no order never match a range
instead of raising, and a key with dots that a value does not hold as it is leads into its objects.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import bson

from mongomem.arguments import shown
from mongomem.errors import InvalidInputError
from mongomem.store.documents.value import elements, is_int64, is_plain_key, is_text, plain

Query = dict[str, Any]
Test = Callable[[Any, Any], bool]

MAX_DEPTH = 40
"""Levels of a filter: a query has up to four for each, and may have 200 (MongoDB 4.4 to 8.2)."""

MOST_PARTS = 10_000
"""Lists and objects of a filter. One that holds a list many times over may stand for more than
there is time."""

LARGEST_QUERY = 4 * 2**20
"""Bytes of a query that narrows: beside it a command carries ids, see `LIST_BYTES` of
namespaces."""

MOST_NAMES = 100
"""Names in one path of a query: documents are not nested deeper (MongoDB 4.4 to 8.2)."""

SCALARS = (str, bool, int, float, bytes, datetime, type(None))

NOT = "$not"
"""Negates a filter, and as an operator what a field must be."""


class _Missing:
    """The value of a field that is not there."""


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
        if key in _JUNCTIONS:
            branches = list(elements(wanted)) if isinstance(wanted, (list, tuple)) else []
            if not branches:
                raise InvalidInputError(
                    f"{key} of a filter takes a list of one filter or more, not {shown(wanted)}"
                )
            return [self.filter(branch, depth + 1) for branch in branches]
        if key == NOT:
            return self.filter(wanted, depth + 1)
        if key.startswith("$"):
            raise _unknown(key)
        return self.part(wanted, depth)

    def part(self, wanted: object, depth: int) -> Any:
        """Check what a field must be: a value, fields of an object, or operators."""
        if not isinstance(wanted, dict) or not _has_operators(wanted):
            return self.data(wanted, depth, self.part)
        self._enter(depth)
        names = [_key(key) for key in dict.keys(wanted)]
        for name in names:
            if name.startswith("$") and name not in _OPERANDS:
                raise _unknown(name)
        if not all(name in _OPERANDS for name in names):
            raise InvalidInputError(f"A filter mixes operators and fields: {shown(names)}")
        return {
            _key(key): _OPERANDS[_key(key)](self, _key(key), part, depth + 1)
            for key, part in dict.items(wanted)
        }

    def data(
        self, wanted: object, depth: int, element: Callable[[Any, int], Any] | None = None
    ) -> Any:
        """Check a value to compare with, and what is in it: as data, or as the function given
        does.
        """
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
"""How what an operator takes is checked."""


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise InvalidInputError(f"The keys of a filter are strings, not {shown(key)}")
    return str.__str__(key)


def _unknown(name: str) -> InvalidInputError:
    known = ", ".join([*_OPERANDS, *_JUNCTIONS])
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


def _has_operators(wanted: dict[Any, Any]) -> bool:
    return any(isinstance(key, str) and str.startswith(key, "$") for key in dict.keys(wanted))


# --- the meaning
# -----------------------------------------------------------------------------------


def matches(filter: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    """Say whether the value of an item matches a filter that `checked_filter` returned."""
    return all(_meets(key, wanted, value) for key, wanted in filter.items())


def _meets(key: str, wanted: Any, value: Mapping[str, Any]) -> bool:
    if key in _JUNCTIONS:
        return _JUNCTIONS[key](matches(branch, value) for branch in wanted)
    if key == NOT:
        return not matches(wanted, value)
    return _matches_part(_at(value, key), wanted)


def _at(value: Any, key: str) -> Any:
    """Find a field: by its key as it is, else by what stands before its first dot and then by the
    rest.
    """
    while key not in value:
        head, dot, key = key.partition(".")
        value = value.get(head) if dot else None
        if not isinstance(value, dict):
            return MISSING
    return value[key]


def _matches_part(actual: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if _has_operators(wanted):
            return all(_TESTS[name](actual, operand) for name, operand in wanted.items())
        return isinstance(actual, dict) and all(
            _matches_part(_at(actual, key), part) for key, part in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(actual, (list, tuple))
            and len(actual) == len(wanted)
            and all(_matches_part(*pair) for pair in zip(actual, wanted, strict=True))
        )
    return _equal(actual, wanted)


def _equal(actual: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return (
            isinstance(actual, dict)
            and actual.keys() == wanted.keys()
            and all(_equal(actual[key], part) for key, part in wanted.items())
        )
    if isinstance(wanted, list):
        return (
            isinstance(actual, (list, tuple))
            and len(actual) == len(wanted)
            and all(_equal(*pair) for pair in zip(actual, wanted, strict=True))
        )
    if actual is MISSING:
        return wanted is None
    return isinstance(actual, bool) == isinstance(wanted, bool) and bool(actual == wanted)


def _ordered(compare: Test) -> Test:
    """Make a range test: numbers with numbers, texts with texts, times with times, and nothing
    else.
    """

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

_JUNCTIONS: dict[str, Callable[[Iterator[bool]], bool]] = {"$and": all, "$or": any}


# --- what the server can narrow by
# -----------------------------------------------------------------


def to_query(filter: Mapping[str, Any], *, field: str, exact_field: str) -> Query:
    """Build a query that finds at least every document whose value, under `field`, matches; ``{}``
    finds all.

    A document with exact bytes under `exact_field` is always found: its readable copy is not the
    truth.
    """
    clauses = _clauses(filter, field)
    if not clauses:
        return {}
    query: Query = {"$or": [_all_of(clauses), {exact_field: {"$exists": True}}]}
    return query if len(bson.encode(query)) <= LARGEST_QUERY else {}


def _clauses(filter: Mapping[str, Any], field: str) -> list[Query]:
    clauses: list[Query] = []
    for key, wanted in filter.items():
        if key in _JUNCTIONS:
            branches = [_clauses(branch, field) for branch in wanted]
            if key == "$and":
                clauses += [clause for branch in branches for clause in branch]
            elif all(branches):
                clauses.append({"$or": [_all_of(branch) for branch in branches]})
        elif key != NOT:
            clauses += _part_clauses(field, key, wanted)
    return clauses


def _part_clauses(field: str, key: str, wanted: Any) -> list[Query]:
    """Narrow one field; nothing where MongoDB's meaning could leave out a match (``$ne`` on arrays,
    say).
    """
    path = f"{field}.{key}"
    if path.count(".") > MOST_NAMES or not _can_be_named(key):
        return []
    if isinstance(wanted, dict) and not _has_operators(wanted):
        return [
            clause for inner, part in wanted.items() for clause in _part_clauses(path, inner, part)
        ]
    tests = wanted if isinstance(wanted, dict) else {"$eq": wanted}
    conditions = (_condition(name, operand, led="." in key) for name, operand in tests.items())
    return [{path: condition} for condition in conditions if condition]


def _can_be_named(key: str) -> bool:
    """Say whether a query can name a field, and every field on the way to it."""
    return all(is_plain_key(name) and is_text(name) for name in key.split("."))


def _condition(name: str, operand: Any, *, led: bool) -> Query | None:
    """Build what the server can be told of one operator; `led` says that dots led to the field.

    For the server a path goes into arrays too, so what is missing for Python may be there for it,
    where dots led.
    """
    if name == "$contains":
        name = "$eq"
    elif name == "$eq" and isinstance(operand, list):
        return {"$size": len(operand)}
    if name == "$exists":
        return {name: operand} if operand or not led else None
    if name in ("$eq", "$in"):
        wanted = operand if name == "$in" else [operand]
        return {name: operand} if all(_is_comparable(one, led=led) for one in wanted) else None
    narrows = name in _RANGES and operand is not None and not isinstance(operand, bool)
    return {name: operand} if narrows and _is_comparable(operand) else None


_RANGES = ("$gt", "$gte", "$lt", "$lte")


def _is_comparable(operand: Any, *, led: bool = False) -> bool:
    """Say whether MongoDB compares the operand as Python does, and can be told of it at all."""
    if isinstance(operand, str):
        return is_text(operand)
    if isinstance(operand, float):
        return math.isfinite(operand)
    return (operand is None and not led) or (isinstance(operand, int) and is_int64(operand))


def _all_of(clauses: list[Query]) -> Query:
    return clauses[0] if len(clauses) == 1 else {"$and": clauses}
