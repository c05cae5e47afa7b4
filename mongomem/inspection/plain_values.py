"""Values as JSON can say them, bounded, so that anything that is stored can be shown. Pure.

Nothing of a value is called but what plain data and LangChain's messages have: of another object
its class and its fields are told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from itertools import islice
from math import isfinite
from pathlib import PurePath
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage

from mongomem.arguments import shown

MOST = 2**62

LONGEST_INTEGER_BITS = 2_000
"""Longer integers are told by their length: Python writes no text of very long ones."""

CLASS = "(class)"
"""The member that tells the class of an object that is no plain data."""

MORE = "(more)"
"""The member, or the last element, that tells how many others there are."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a value is told.

    Attributes:
        text: Characters of a text.
        elements: Elements of a list, and members of an object.
        depth: How deep objects are looked into.
    """

    text: int = 2_000
    elements: int = 100
    depth: int = 12


WHOLE = Bounds(MOST, MOST, 100)
"""All of a value, as deep as Python can follow."""


def plain(value: object, bounds: Bounds = Bounds()) -> Any:
    """Return a value as JSON can say it. Never raises, whatever the value does when it is looked
    at.
    """
    try:
        return _plain(value, bounds, bounds.depth)
    except Exception:  # whatever the methods of a value do
        return {CLASS: _class_of(value)}


def _plain(value: object, bounds: Bounds, depth: int) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value, bounds, depth)
    if value is None or isinstance(value, SCALARS):
        return _scalar(value, bounds)
    if depth <= 0:
        return "…"
    if isinstance(value, Mapping):
        return _object({_key(key): one for key, one in value.items()}, bounds, depth)
    if isinstance(value, list | tuple | set | frozenset | deque):
        return _array(value, len(value), bounds, depth)
    return _instance(value, bounds, depth)


SCALARS = (
    *(bool, str, int, float, bytes, bytearray),
    *(date, time, UUID, Decimal, PurePath),
)


def _scalar(value: object, bounds: Bounds) -> Any:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal | PurePath):
        return str(value)
    return _number_or_text(value, bounds)


def _number_or_text(value: object, bounds: Bounds) -> Any:
    if isinstance(value, str):
        return cut(str.__str__(value), bounds.text)
    if isinstance(value, bytes | bytearray):
        return f"({len(value)} bytes)"
    if isinstance(value, float):
        return float.__float__(value) if isfinite(value) else str(float(value))
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return _integer(value) if is_integer else value


def _integer(value: Any) -> Any:
    bits = int.bit_length(value)
    return f"(an integer of {bits} bits)" if bits > LONGEST_INTEGER_BITS else int.__int__(value)


def cut(text: str, length: int) -> str:
    """Cut a text, and say how long it is."""
    return text if len(text) <= length else f"{text[:length]}… ({len(text)} characters)"


def _key(key: object) -> str:
    return str.__str__(key) if isinstance(key, str) else shown(key)


def _object(fields: Mapping[str, object], bounds: Bounds, depth: int) -> dict[str, Any]:
    told = {
        cut(name, bounds.text): _plain(one, bounds, depth - 1)
        for name, one in islice(fields.items(), bounds.elements)
    }
    left = len(fields) - bounds.elements
    return told | ({MORE: left} if left > 0 else {})


def _array(elements: Iterable[object], count: int, bounds: Bounds, depth: int) -> list[Any]:
    told = [_plain(one, bounds, depth - 1) for one in islice(elements, bounds.elements)]
    left = count - bounds.elements
    return [*told, f"{MORE} {left}"] if left > 0 else told


def _instance(value: object, bounds: Bounds, depth: int) -> Any:
    """Tell an object by its fields. Those of a message that say nothing are left out."""
    fields = _fields_of(value)
    if isinstance(value, BaseMessage):
        said = {name: one for name, one in fields.items() if one not in (None, "", [], {}, False)}
        head = {"type": value.type, "content": fields.get("content")}
        return _object(head | said, bounds, depth)
    if not fields:
        return {CLASS: _class_of(value), "shown": shown(value)}
    return {CLASS: _class_of(value), **_object(fields, bounds, depth)}


def _fields_of(value: object) -> dict[str, object]:
    """Return what an object holds: its own attributes, without calling any of its methods."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        held = {}
    slots = [
        name
        for one in type(value).__mro__
        for name in _names(getattr(one, "__slots__", ()))
        if not name.startswith("_")
    ]
    own = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return own | {name: one for name, one in dict(held).items() if not str(name).startswith("_")}


def _names(slots: object) -> list[str]:
    if isinstance(slots, str):
        return [slots]
    return [one for one in slots if isinstance(one, str)] if isinstance(slots, Iterable) else []


def _class_of(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def text_of_bytes(count: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    unit = "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if count < 999.5:
            break
        count, unit = count / 1000, larger
    return f"{count:.0f} {unit}" if unit == "B" or count >= 99.5 else f"{count:.1f} {unit}"
