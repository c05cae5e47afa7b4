"""The query that narrows a search by its filter on the server, to a superset of the matches.

`mongomem.store.documents.filter` decides what matches; the query only spares reading the rest. So
each rule here is one-sided: it may be left out, and it must not exclude a match. A part of a filter
that has no such rule adds no clause. In a conjunction the other clauses still narrow; a disjunction
narrows only where each of its branches does. These add no clause:

* ``$ne``, ``$nin`` and ``$not``: the negation of a superset is no superset. MongoDB also gives
  ``$ne`` another meaning on arrays.
* Equality of objects: MongoDB compares their keys in order.
* A comparison with None or a boolean by a range, with a number that is not finite, or with an
  integer of more than 64 bits.
* A key that no path can name, and a path that is deeper than documents are.

Equality of lists narrows by length only. A query that is too large is left out whole.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import bson

from mongomem.store.documents.filter import JUNCTIONS, NOT, has_operators
from mongomem.store.documents.value import is_int64, is_plain_key, is_text

Query: TypeAlias = dict[str, Any]

RANGES = ("$gt", "$gte", "$lt", "$lte")

LARGEST_QUERY = 4 * 2**20
"""Bytes of a query: a command carries ids beside it, see `LIST_BYTES` of namespaces."""

MOST_NAMES = 100
"""Names in one path of a query: documents are not nested deeper (MongoDB 4.4 to 8.2)."""


def to_query(filter: Mapping[str, Any], *, field: str, exact_field: str) -> Query:
    """Build a query that finds at least every document whose value matches; ``{}`` finds all.

    Args:
        filter: What `checked_filter` returned.
        field: The field that holds the readable value.
        exact_field: The field that holds exact bytes. A document that has it is always found, since
            its readable value differs from the value.
    """
    clauses = _clauses(filter, field)
    if not clauses:
        return {}
    query: Query = {"$or": [_all_of(clauses), {exact_field: {"$exists": True}}]}
    return query if len(bson.encode(query)) <= LARGEST_QUERY else {}


class QueryName(NamedTuple):
    """Names a query that `to_query` built.

    Attributes:
        whole: Equal for equal queries.
        kind: Equal for queries that differ in what they compare with only.
    """

    whole: bytes
    kind: bytes


def name_of_query(query: Query) -> QueryName:
    """Name a query that `to_query` built."""
    return QueryName(_digest(query), _digest(_without_operands(query)))


def _digest(query: Query) -> bytes:
    return hashlib.blake2b(bson.encode(query), digest_size=16).digest()


def _without_operands(part: Any) -> Any:
    """Leave of a part of a query its fields and operators."""
    if isinstance(part, dict):
        return {name: _without_operands(inner) for name, inner in part.items()}
    if isinstance(part, list) and any(isinstance(one, dict) for one in part):
        return [_without_operands(one) for one in part]
    return None


def _clauses(filter: Mapping[str, Any], field: str) -> list[Query]:
    clauses: list[Query] = []
    for key, wanted in filter.items():
        if key in JUNCTIONS:
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
    if isinstance(wanted, dict) and not has_operators(wanted):
        return [
            clause for inner, part in wanted.items() for clause in _part_clauses(path, inner, part)
        ]
    tests = wanted if isinstance(wanted, dict) else {"$eq": wanted}
    conditions = (
        _condition(name, operand, is_dotted="." in key) for name, operand in tests.items()
    )
    return [{path: condition} for condition in conditions if condition]


def _can_be_named(key: str) -> bool:
    """Say whether a query can name a field, and every field on the way to it."""
    return all(is_plain_key(name) and is_text(name) for name in key.split("."))


def _condition(name: str, operand: Any, *, is_dotted: bool) -> Query | None:
    """Build the condition of one operator; None where the server cannot narrow by it.

    `is_dotted` says that the key of the field has dots. For the server such a path leads into
    arrays too, so a field that is missing for Python may exist for the server.
    """
    if name == "$eq" and isinstance(operand, list):
        return {"$size": len(operand)}
    operator = "$eq" if name == "$contains" else name
    return {operator: operand} if _narrows(operator, operand, is_dotted) else None


def _narrows(operator: str, operand: Any, is_dotted: bool) -> bool:
    """Say whether MongoDB finds by an operator at least what Python does."""
    if operator == "$exists":
        return bool(operand) or not is_dotted
    if operator == "$in":
        return all(_is_comparable(one, is_dotted=is_dotted) for one in operand)
    if operator == "$eq":
        return _is_comparable(operand, is_dotted=is_dotted)
    has_order = operator in RANGES and operand is not None and not isinstance(operand, bool)
    return has_order and _is_comparable(operand)


def _is_comparable(operand: Any, *, is_dotted: bool = False) -> bool:
    """Say whether MongoDB compares with an operand as Python does, and BSON can hold it."""
    if isinstance(operand, str):
        return is_text(operand)
    if isinstance(operand, float):
        return math.isfinite(operand)
    return (operand is None and not is_dotted) or (isinstance(operand, int) and is_int64(operand))


def _all_of(clauses: list[Query]) -> Query:
    return clauses[0] if len(clauses) == 1 else {"$and": clauses}
