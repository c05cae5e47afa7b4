"""Metadata of checkpoints: the readable copy, and what a filter on it means.

The truth of a checkpoint's metadata is the serializer's bytes. Beside it stands a copy that a
person and the server can read, which leaves out what BSON cannot say and what is too long to be
looked for. The server narrows a filter to a superset on that copy; `contains` decides on the truth.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from mongomem.arguments import checked_mapping, shown
from mongomem.engine.commands import Document
from mongomem.errors import InvalidInputError

LONGEST_TEXT = 512
LONGEST_COPY = 4096
LARGEST_INTEGER = 2**63 - 1
"""The largest BSON integer."""

CLEAR_WHEN_SEALED = frozenset({"source", "step", "run_id"})
"""Metadata that stays readable beside an encrypting serializer, unless the user says otherwise."""

LOOKED_FOR = ("run_id", "source", "step")
"""The keys that have room in every readable copy."""

MOST_OMITTED = 64

DEEPEST, MOST_VALUES = 64, 100_000
"""How far what a caller passes may be nested, and how many values it may have: BSON holds documents
of 100 levels."""

ANY = "*"
"""Stands among the omitted keys for keys that are too many or too odd to be named."""

ABSENT = object()


STEP_METADATA = frozenset(
    {"source", "step", "parents", "run_id", "counters_since_delta_snapshot", "writes"}
)
"""Metadata that tells of one super-step and not of its thread."""


def queryable_copy(
    metadata: Mapping[str, Any], clear: Collection[str] | None, first: Sequence[str] = ()
) -> tuple[Document, list[str]]:
    """Return the readable copy, and the keys that it leaves out.

    Args:
        metadata: What was serialized.
        clear: The keys that may be read by anybody with access to the database; None means all.
        first: The keys that are looked for, and so have room before all others.
    """
    copy: Document = {}
    omitted: list[str] = []
    room = LONGEST_COPY
    looked_for = [key for key in (*first, *LOOKED_FOR) if key in metadata]
    for key in dict.fromkeys([*looked_for, *metadata]):
        value = ABSENT
        if (clear is None or key in clear) and is_field(key):
            longest = LONGEST_COPY if key in looked_for else LONGEST_TEXT
            value = queryable_value(metadata[key], longest)
        cost = len(repr(value)) + len(str(key))
        if value is ABSENT or cost > room:
            omitted.append(key if _is_text(key) else ANY)
        else:
            copy[key] = value
            room -= cost
    return copy, _bounded(omitted, clear)


def _bounded(omitted: list[str], clear: Collection[str] | None) -> list[str]:
    """Return the omitted keys, or `ANY` for them where they are too many or may not be read."""
    return omitted if clear is None and len(omitted) <= MOST_OMITTED else [ANY] * bool(omitted)


def _is_text(value: object) -> bool:
    return type(value) is str and len(value) <= LONGEST_TEXT and value.isprintable()


def is_field(key: object) -> bool:
    """Whether a key can be a part of a dotted path of the query language."""
    return type(key) is str and _is_name(key)


@lru_cache(maxsize=1024)
def _is_name(key: str) -> bool:
    return _is_text(key) and key != "" and "." not in key and not key.startswith("$")


def queryable_value(value: Any, longest: int = LONGEST_TEXT) -> Any:
    """Return `value` as BSON that compares as the truth does, or ABSENT."""
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        return value if _is_encodable(value) and len(value) <= longest else ABSENT
    if type(value) is int:
        return value if abs(value) <= LARGEST_INTEGER else ABSENT
    if type(value) is float:
        return value if math.isfinite(value) else ABSENT
    if type(value) in (dict, list) and not value:
        return type(value)()
    return ABSENT if excess(value, LONGEST_COPY) else _readable_container(value)


def _readable_container(value: Any) -> Any:
    if isinstance(value, list | tuple):
        values = [_readable_part(one) for one in _elements(value)]
        return ABSENT if any(one is ABSENT for one in values) else values
    if isinstance(value, Mapping):
        fields = {
            key: _readable_part(one) if is_field(key) else ABSENT
            for key, one in _fields(value).items()
        }
        return ABSENT if any(one is ABSENT for one in fields.values()) else fields
    return ABSENT


def _readable_part(value: Any) -> Any:
    return (
        _readable_container(value)
        if isinstance(value, list | tuple | Mapping)
        else queryable_value(value)
    )


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_filter(filter: object) -> Mapping[str, Any]:
    """Return a metadata filter with string keys that are no operators.

    Raises:
        InvalidInputError: It is something else, or too deep or too large (`check_nesting`).
    """
    if filter is None:
        return {}
    wanted = checked_mapping("filter", filter)
    for key in wanted:
        if not isinstance(key, str) or str.startswith(key, "$"):
            raise InvalidInputError(
                f"filter keys are metadata keys, and none begins with '$': {shown(key)}"
            )
    check_nesting("filter", wanted)
    return {plain(key): plain(one) for key, one in wanted.items()}


def check_nesting(name: str, values: Mapping[str, Any]) -> None:
    """Refuse what is too deep or too large to be walked through.

    Raises:
        InvalidInputError: It is deeper than `DEEPEST`, or has more than `MOST_VALUES`.
    """
    if found := excess(values, MOST_VALUES):
        raise InvalidInputError(f"{name} {found}")


def excess(value: object, most: int) -> str:
    """Say what is too much of a value: that it has more than `most` values, or more than `DEEPEST`
    levels; or "".
    """
    level: list[object] = [value]
    room = most
    for _ in range(DEEPEST):
        level = [*islice(chain.from_iterable(map(_parts, level)), room + 1)]
        room -= len(level)
        if room < 0:
            return f"has more than {most} values"
        if not level:
            return ""
    return f"is nested deeper than {DEEPEST} levels"


def _parts(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return [*_fields(value).values()]
    return _elements(value) if isinstance(value, list | tuple) else []


def _fields(value: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return what is in a mapping, and not what a subclass of dict says is in it."""
    return (
        dict(dict.items(value))
        if isinstance(value, dict)
        else checked_mapping("a mapping in it", value)
    )


def _elements(value: list[Any] | tuple[Any, ...]) -> list[Any]:
    """Return what is in a list, and not what a subclass says is in it."""
    return [*(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value))]


def plain(value: Any) -> Any:
    """Return a value that `check_nesting` has passed in built-in types, whatever subclasses of them
    do.
    """
    if isinstance(value, Mapping):
        return {plain(key): plain(one) for key, one in _fields(value).items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in _elements(value)]
    if isinstance(value, str) and not isinstance(value, Enum):
        return str.__str__(value)
    return value


def contains(metadata: Any, wanted: Any) -> bool:
    """Decide whether `metadata` contains `wanted` as PostgreSQL's ``jsonb @>`` does.

    A mapping contains a mapping whose every key it has with a contained value; an array contains an
    array whose every element one of its own contains; scalars are equal, and true is not 1.
    (https://www.postgresql.org/docs/current/datatype-json.html#JSON-CONTAINMENT)
    """
    if isinstance(wanted, Mapping):
        return isinstance(metadata, Mapping) and all(
            key in metadata and contains(metadata[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return isinstance(metadata, list | tuple) and all(
            any(contains(one, value) for one in metadata) for value in wanted
        )
    if isinstance(metadata, bool) or isinstance(wanted, bool):
        return metadata is wanted
    try:
        return bool(metadata == wanted)
    except Exception:  # what compares as no scalar does, e.g. an array, is equal to none
        return False


def superset_query(wanted: Mapping[str, Any]) -> Document:
    """Return a query that every document whose metadata contains `wanted` matches."""
    conditions = [
        {"$or": [{path: value}, {"metadata_omitted": {"$in": [path.split(".")[1], ANY]}}]}
        for path, value in equality_clauses(wanted).items()
    ]
    return {"$and": conditions} if conditions else {}


def equality_clauses(wanted: Mapping[str, Any]) -> Document:
    """Return the scalars of a filter by their paths: what the readable copy has equal where it has
    the key at all.
    """
    return dict(
        found
        for key, one in wanted.items()
        if is_field(key)
        for found in _scalars(f"metadata.{key}", one)
    )


def _scalars(path: str, wanted: Any) -> list[tuple[str, Any]]:
    """Return the paths to scalars that the query language can compare."""
    if isinstance(wanted, Mapping):
        return [
            found
            for key, value in wanted.items()
            if is_field(key)
            for found in _scalars(f"{path}.{key}", value)
        ]
    if (
        isinstance(wanted, list | tuple)
        or wanted is None
        or queryable_value(wanted, LONGEST_COPY) is ABSENT
    ):
        return []
    return [(path, wanted)]
