"""Copies of what a caller passed, for what is stored of it only after the call has been made. Pure.

The caller may go on with its state at once. What has not been serialized by then is therefore copied: the containers
and the messages, and not what else stands in them.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from langgraph.checkpoint.base import Checkpoint

from mongomem.checkpoint.caches import Parent
from mongomem.checkpoint.encoding import holds
from mongomem.checkpoint.images import EMPTIES, KINDS, LEAVES, set_slot

DEEPEST = 64
"""How many containers in each other are copied; what is nested deeper no serializer of LangGraph takes."""

FLAT = frozenset({set, deque, bytearray})
"""Containers of which a copy of their own is enough: what is in them has a hash, or seldom changes."""


def own_copy(checkpoint: Checkpoint) -> Checkpoint:
    """Copy a checkpoint as far as others may put something else in its place: its fields, versions and channels.

    Of lists and dicts in channels, which values are in them; those are shared.
    """
    values = {
        channel: value.copy() if type(value) in (list, dict) else value
        for channel, value in checkpoint["channel_values"].items()
    }
    return {**checkpoint, "channel_values": values, "channel_versions": {**checkpoint["channel_versions"]}}


def detached_values(checkpoint: Checkpoint, parent: Parent) -> Checkpoint:
    """Copy a checkpoint with the values that its parent does not hold, each of them `detached`, and no others."""
    versions = checkpoint["channel_versions"]
    values = {
        channel: detached(value)
        for channel, value in checkpoint["channel_values"].items()
        if not holds(parent, channel, versions.get(channel))
    }
    return {**checkpoint, "channel_values": values}


def detached(value: Any, room: int = DEEPEST) -> Any:
    """Copy lists, dicts, tuples and LangChain's messages, in whatever depth; anything else is shared."""
    kind = type(value)
    if kind in FLAT:
        return value.copy()
    if not room:
        return value
    if kind is list or kind is tuple:
        return kind([one if type(one) in LEAVES else _COPIES.get(type(one), detached)(one, room - 1) for one in value])
    if kind is dict:
        return {key: one if type(one) in LEAVES else detached(one, room - 1) for key, one in value.items()}
    return _detached_message(value, room) if kind in KINDS else value


def _detached_message(message: Any, room: int) -> Any:
    """Copy a message as pydantic's own ``model_copy`` does, with its containers, most of which are empty."""
    fields, extra = message.__dict__.copy(), message.__pydantic_extra__
    for name, one in fields.items():
        if type(one) not in LEAVES:
            fields[name] = detached(one, room) if one or type(one) not in EMPTIES else one.copy()
    if extra is not None:
        extra = detached(extra, room) if extra else {}
    copied = object.__new__(type(message))
    set_slot(copied, "__dict__", fields)
    set_slot(copied, "__pydantic_fields_set__", message.__pydantic_fields_set__)
    set_slot(copied, "__pydantic_extra__", extra)
    set_slot(copied, "__pydantic_private__", message.__pydantic_private__)
    return copied


_COPIES = dict.fromkeys(KINDS, _detached_message)
"""How elements of lists are copied that are no leaves and not `detached` in the usual way: by one call a message."""
