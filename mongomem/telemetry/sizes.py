"""How large documents are as BSON, without encoding them (https://bsonspec.org/spec.html)."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from bson import Binary, Int64, ObjectId, Timestamp
from bson.raw_bson import RawBSONDocument

ENVELOPE = 5
"""Bytes of a document or a list beside its elements: its length and its end."""

ELEMENT = 2
"""Bytes of an element beside its name and its value: its type and the end of its name."""

LARGEST_INT32 = 2**31 - 1


def size_of(value: Any) -> int:
    """Return how many bytes a value has as BSON; of a dataclass those of its fields together.

    Exact for what mongomem stores. What is of no known type counts nothing.
    """
    measure = _SIZES.get(type(value))
    if measure is not None:
        return measure(value)
    if is_dataclass(value):
        return sum(size_of(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, Mapping):
        return _size_of_document(value)
    return _size_of_list(value) if isinstance(value, list | tuple) else 0


def _size_of_document(document: Mapping[str, Any]) -> int:
    size = ENVELOPE
    for name, value in document.items():
        size += ELEMENT + _utf8(name) + size_of(value)
    return size


def _size_of_list(values: list[Any] | tuple[Any, ...]) -> int:
    """Return the size of a list, whose elements are named by their numbers."""
    count, power = len(values), 10
    names = count
    while power < count:
        names, power = names + count - power, power * 10
    return ENVELOPE + ELEMENT * count + names + sum(map(size_of, values))


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_SIZES: Mapping[type, Callable[[Any], int]] = {
    dict: _size_of_document,
    list: _size_of_list,
    tuple: _size_of_list,
    str: lambda text: 5 + _utf8(text),
    bytes: lambda data: 5 + len(data),
    Binary: lambda data: 5 + len(data),
    bool: lambda _: 1,
    int: lambda number: 4 if -LARGEST_INT32 - 1 <= number <= LARGEST_INT32 else 8,
    Int64: lambda _: 8,
    float: lambda _: 8,
    datetime.datetime: lambda _: 8,
    Timestamp: lambda _: 8,
    ObjectId: lambda _: 12,
    RawBSONDocument: lambda document: len(document.raw),
    type(None): lambda _: 0,
}
