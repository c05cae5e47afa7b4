"""What a line says of a value of a state or of an item."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import islice

from langchain_core.messages import BaseMessage

from mongomem.arguments import shown
from mongomem.display.markup import one_line

LONGEST = 80
"""Characters of a description."""

MOST_ELEMENTS = 8
"""How many elements of a collection are looked at."""


def described(value: object, length: int = LONGEST) -> str:
    """Describe a value in one line: a text by itself, a message with its role, a time to the
    second, a collection by its elements, and anything else by its repr.

    Never raises, whatever the value does when it is looked at.
    """
    try:
        return one_line(_collection(value) if _is_collection(value) else _single(value), length)
    except Exception:  # whatever the methods of a value do
        return f"a {type(value).__name__}"


def same(one: object, other: object) -> bool:
    """Say whether two values are equal; values that cannot be compared are not."""
    if one is other:
        return True
    try:
        return bool(one == other)
    except Exception:  # whatever the comparison of a value does, as that of arrays
        return False


def _is_collection(value: object) -> bool:
    return isinstance(value, (Mapping, list, tuple)) and len(value) > 0


def _collection(value: object) -> str:
    if isinstance(value, Mapping):
        entries = islice(value.items(), MOST_ELEMENTS)
        return ", ".join(f"{_single(key)}: {_single(entry)}" for key, entry in entries)
    elements = value[:MOST_ELEMENTS] if isinstance(value, (list, tuple)) else ()
    return ", ".join(map(_single, elements))


def _single(value: object) -> str:
    """Describe what is described as a whole: collections in collections by their repr."""
    if isinstance(value, BaseMessage):
        return _message(value)
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return shown(value)


def _message(message: BaseMessage) -> str:
    """Say who speaks: the text, or the tools that are called."""
    called = ", ".join(str(call.get("name")) for call in getattr(message, "tool_calls", None) or ())
    text = str(message.text)
    return f"{message.type}: {text}" if text or not called else f"{message.type} calls {called}"
