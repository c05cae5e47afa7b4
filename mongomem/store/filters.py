"""Filters of ``search``: what they mean, and what a server can narrow by.

`matches` is the meaning, decided in Python on the value itself, so that every backend agrees.
`to_query` gives a MongoDB query that finds at least all matches, to spare reading the rest. Only the
operators of the tables below exist; anything else that begins with ``$`` is refused at any depth.

The meaning is that of ``langgraph.store.memory._compare_values``: keys are literal, an object without
operators matches an object that has at least its fields, a list only one of the same length, and a
missing field is None. Beyond it: a boolean is no number, and values that have no order never match a
range instead of raising.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from mongomem.errors import InvalidInputError
from mongomem.store.values import is_int64, is_plain_key

Query = dict[str, Any]
Test = Callable[[Any, Any], bool]

MAX_DEPTH = 40
"""Levels of a filter: a query has up to four for each, and may have 200 (MongoDB 4.4 to 8.2)."""

SCALARS = (str, bool, int, float, bytes, datetime, type(None))


def check_filter(filter: Any, depth: int = 0) -> None:
    """Refuse what is no filter, before any query is made of it.

    Raises:
        InvalidInputError: Not a dict with string keys, an unknown operator at any depth, operators beside
            plain fields, a value that cannot be stored and so matches nothing, or nested too deep, by `depth`.
    """
    if not isinstance(filter, dict):
        raise InvalidInputError(f"filter must be a dict, not {type(filter).__name__}")
    _check_depth(depth)
    for key, wanted in filter.items():
        if key in _JUNCTIONS:
            _check_junction(key, wanted, depth)
        else:
            _check_key(key)
            _check_wanted(wanted, depth)


def _check_junction(key: str, branches: Any, depth: int) -> None:
    if not isinstance(branches, (list, tuple)) or not branches:
        raise InvalidInputError(f"{key} takes a list of one filter or more, not {branches!r}")
    for branch in branches:
        check_filter(branch, depth + 1)


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidInputError(f"A filter is nested deeper than {MAX_DEPTH} levels")


def _check_key(key: Any) -> None:
    if not isinstance(key, str):
        raise InvalidInputError(f"The keys of a filter are strings, not {key!r}")
    if key.startswith("$"):
        known = ", ".join([*_TESTS, *_JUNCTIONS])
        raise InvalidInputError(f"Unknown operator {key!r} in a filter; there are {known}")


def _check_wanted(wanted: Any, depth: int) -> None:
    _check_depth(depth)
    if isinstance(wanted, dict):
        if _has_operators(wanted) and not all(key in _TESTS for key in wanted):
            for key in wanted:
                _check_key(key) if key not in _TESTS else None
            raise InvalidInputError(f"A filter mixes operators and fields: {list(wanted)}")
        for key, part in wanted.items():
            if key not in _TESTS:
                _check_key(key)
            _check_wanted(part, depth + 1)
    elif isinstance(wanted, (list, tuple)):
        for part in wanted:
            _check_wanted(part, depth + 1)
    elif not isinstance(wanted, SCALARS):
        kind = "regular expressions" if isinstance(wanted, re.Pattern) else f"a {type(wanted).__name__}"
        raise InvalidInputError(f"A filter cannot compare with {kind}")


def _has_operators(wanted: Mapping[Any, Any]) -> bool:
    return any(isinstance(key, str) and key.startswith("$") for key in wanted)


# --- the meaning -----------------------------------------------------------------------------------


def matches(filter: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    """Say whether the value of an item matches a filter that `check_filter` has passed."""
    return all(
        _JUNCTIONS[key](matches(branch, value) for branch in wanted)
        if key in _JUNCTIONS
        else _matches_part(value.get(key), wanted)
        for key, wanted in filter.items()
    )


def _matches_part(actual: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if _has_operators(wanted):
            return all(_TESTS[name](actual, operand) for name, operand in wanted.items())
        return isinstance(actual, dict) and all(_matches_part(actual.get(key), part) for key, part in wanted.items())
    if isinstance(wanted, (list, tuple)):
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
    if isinstance(wanted, (list, tuple)):
        return (
            isinstance(actual, (list, tuple))
            and len(actual) == len(wanted)
            and all(_equal(*pair) for pair in zip(actual, wanted, strict=True))
        )
    return isinstance(actual, bool) == isinstance(wanted, bool) and bool(actual == wanted)


def _ordered(compare: Test) -> Test:
    """Make a range test: numbers with numbers, texts with texts, times with times, and nothing else."""

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
    return "number" if isinstance(value, (int, float)) else "text" if isinstance(value, str) else None


_TESTS: dict[str, Test] = {
    "$eq": _equal,
    "$ne": lambda actual, wanted: not _equal(actual, wanted),
    "$gt": _ordered(operator.gt),
    "$gte": _ordered(operator.ge),
    "$lt": _ordered(operator.lt),
    "$lte": _ordered(operator.le),
}

_JUNCTIONS: dict[str, Callable[[Iterator[bool]], bool]] = {"$and": all, "$or": any}


# --- what the server can narrow by -----------------------------------------------------------------


def to_query(filter: Mapping[str, Any], *, field: str, exact_field: str) -> Query:
    """Build a query that finds at least every document whose value, under `field`, matches; ``{}`` finds all.

    A document with exact bytes under `exact_field` is always found: its readable copy is not the truth.
    """
    clauses = _clauses(filter, field)
    if not clauses:
        return {}
    return {"$or": [_all_of(clauses), {exact_field: {"$exists": True}}]}


def _clauses(filter: Mapping[str, Any], field: str) -> list[Query]:
    clauses: list[Query] = []
    for key, wanted in filter.items():
        if key in _JUNCTIONS:
            branches = [_clauses(branch, field) for branch in wanted]
            if key == "$and":
                clauses += [clause for branch in branches for clause in branch]
            elif all(branches):
                clauses.append({"$or": [_all_of(branch) for branch in branches]})
        else:
            clauses += _part_clauses(f"{field}.{key}" if _is_plain(key) else None, wanted)
    return clauses


def _part_clauses(path: str | None, wanted: Any) -> list[Query]:
    """Narrow one field; nothing where MongoDB's meaning could leave out a match (``$ne`` on arrays, say)."""
    if path is None:
        return []
    if isinstance(wanted, dict) and not _has_operators(wanted):
        parts = [_part_clauses(f"{path}.{key}" if _is_plain(key) else None, part) for key, part in wanted.items()]
        return [clause for part in parts for clause in part]
    tests = wanted if isinstance(wanted, dict) else {"$eq": wanted}
    return [{path: condition} for name, operand in tests.items() if (condition := _condition(name, operand))]


def _condition(name: str, operand: Any) -> Query | None:
    if isinstance(operand, (list, tuple)) and name == "$eq":
        return {"$size": len(operand)}
    narrows = name == "$eq" or (name != "$ne" and operand is not None and not isinstance(operand, bool))
    return {name: operand} if narrows and _is_comparable(operand) else None


def _is_comparable(operand: Any) -> bool:
    """Say whether MongoDB compares the operand as Python does, and can be told of it at all."""
    if isinstance(operand, str):
        return _is_encodable(operand)
    if isinstance(operand, float):
        return math.isfinite(operand)
    return operand is None or (isinstance(operand, int) and is_int64(operand))


def _is_plain(key: str) -> bool:
    return is_plain_key(key) and _is_encodable(key)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _all_of(clauses: list[Query]) -> Query:
    return clauses[0] if len(clauses) == 1 else {"$and": clauses}
