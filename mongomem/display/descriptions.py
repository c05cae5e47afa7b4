"""What a line says of a value of a state or of an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice

from langchain_core.messages import BaseMessage

from mongomem.arguments import shown
from mongomem.display.markup import one_line

LONGEST = 80
"""Characters of a description."""

SHORT_ID = 6
"""How many characters of a checkpoint's id are shown: its last, which are random."""

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
    if (checkpoint := _checkpoint_in(value)) is not None:
        return checkpoint
    if isinstance(value, Mapping):
        entries = islice(value.items(), MOST_ELEMENTS)
        return ", ".join(f"{_single(key)}: {_single(entry)}" for key, entry in entries)
    return _listed(value) if isinstance(value, (list, tuple)) else ""


def _listed(elements: Sequence[object]) -> str:
    """Describe the first elements; of checkpoints say how many there are."""
    told = ", ".join(map(_single, elements[:MOST_ELEMENTS]))
    return told if _checkpoint_in(elements[0]) is None else f"{len(elements)}: {told}"


def _single(value: object) -> str:
    """Describe what is described as a whole: collections in collections by their repr."""
    if isinstance(value, BaseMessage):
        return _message(value)
    if (checkpoint := _checkpoint_in(value)) is not None:
        return checkpoint
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return shown(value)


def _checkpoint_in(value: object) -> str | None:
    """Name the checkpoint of a config by its namespace and the end of its id; None for anything
    else.
    """
    given = value.get("configurable") if isinstance(value, Mapping) else None
    found = given.get("checkpoint_id") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(found, str):
        return None
    namespace = given.get("checkpoint_ns")
    return f"{namespace} {short_id(found)}" if namespace else short_id(found)


def short_id(checkpoint_id: str) -> str:
    """Name a checkpoint by the end of its id."""
    return f"…{checkpoint_id[-SHORT_ID:]}"


def _message(message: BaseMessage) -> str:
    """Say who speaks: the text, or the tools that are called."""
    called = ", ".join(str(call.get("name")) for call in getattr(message, "tool_calls", None) or ())
    text = str(message.text)
    return f"{message.type}: {text}" if text or not called else f"{message.type} calls {called}"
