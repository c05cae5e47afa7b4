"""Copies of what a caller passed, for what is stored of it only after the call has been made. Pure.

The caller may go on with its state at once. What has not been serialized by then is therefore
copied: the containers and the messages, and not what else stands in them.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from langgraph.checkpoint.base import Checkpoint

from mongomem.checkpoint.serde.channels import ParentState, holds
from mongomem.checkpoint.serde.message_snapshots import EMPTIES, KINDS, LEAVES, set_slot

DEEPEST = 64
"""How many containers in each other are copied; what is nested deeper no serializer of LangGraph
takes."""

FLAT = frozenset({set, deque, bytearray})
"""Containers of which a copy of their own is enough: what is in them has a hash, or seldom
changes."""

NESTING = frozenset({list, tuple, dict})
"""Containers that are copied with what is in them."""


def own_copy(checkpoint: Checkpoint) -> Checkpoint:
    """Copy a checkpoint as far as others may put something else in its place: its fields, versions
    and channels.

    Of lists and dicts in channels, which values are in them; those are shared.
    """
    values = {
        channel: value.copy() if type(value) in (list, dict) else value
        for channel, value in checkpoint["channel_values"].items()
    }
    return {
        **checkpoint,
        "channel_values": values,
        "channel_versions": {**checkpoint["channel_versions"]},
    }


def detached_values(checkpoint: Checkpoint, parent: ParentState) -> Checkpoint:
    """Copy a checkpoint with the values that its parent does not hold, each of them `detached`, and
    no others.
    """
    versions = checkpoint["channel_versions"]
    values = {
        channel: detached(value)
        for channel, value in checkpoint["channel_values"].items()
        if not holds(parent, channel, versions.get(channel))
    }
    return {**checkpoint, "channel_values": values}


def detached(value: Any) -> Any:
    """Copy lists, dicts, tuples and LangChain's messages, in whatever depth; anything else is
    shared.

    What stands in several places is copied once, as by `copy.deepcopy`: few objects may stand in
    endless places.
    """
    return _copy(value, DEEPEST, {})


Copied = dict[int, tuple[Any, Any]]
"""By the id of a container or message: itself, which so keeps its id, and its copy."""


def _copy(value: Any, room: int, copied: Copied) -> Any:
    kind = type(value)
    if kind in FLAT:
        return value.copy()
    if kind in KINDS:
        return _copy_message(value, room, copied)
    if not room or kind not in NESTING:
        return value
    known = copied.get(id(value))
    return known[1] if known else _copy_container(value, kind, room - 1, copied)


def _copy_container(value: Any, kind: type, room: int, copied: Copied) -> Any:
    """Copy what may hold itself; a tuple does so through a list or dict, which ends the way."""
    if kind is dict:
        fields: dict[Any, Any] = {}
        copied[id(value)] = value, fields
        fields.update(
            {
                key: one if type(one) in LEAVES else _copy(one, room, copied)
                for key, one in value.items()
            }
        )
        return fields
    values: list[Any] = []
    if kind is list:
        copied[id(value)] = value, values
    values += [
        one if type(one) in LEAVES else _COPIES.get(type(one), _copy)(one, room, copied)
        for one in value
    ]
    if kind is list:
        return values
    copied[id(value)] = value, tuple(values)
    return copied[id(value)][1]


def _copy_message(message: Any, room: int, copied: Copied) -> Any:
    """Copy a message as pydantic's own ``model_copy`` does, with its containers, most of which are
    empty.

    All of it stands in one function: one call more for each message takes 5 % of the time.
    """
    if not room:
        return message
    if known := copied.get(id(message)):
        return known[1]
    made = object.__new__(type(message))
    copied[id(message)] = message, made
    fields, extra, room = message.__dict__.copy(), message.__pydantic_extra__, room - 1
    for name, one in fields.items():
        if type(one) not in LEAVES:
            fields[name] = (
                _copy(one, room, copied) if one or type(one) not in EMPTIES else one.copy()
            )
    if extra is not None:
        extra = _copy(extra, room, copied) if extra else {}
    set_slot(made, "__dict__", fields)
    set_slot(made, "__pydantic_fields_set__", message.__pydantic_fields_set__)
    set_slot(made, "__pydantic_extra__", extra)
    set_slot(made, "__pydantic_private__", message.__pydantic_private__)
    return made


_COPIES = dict.fromkeys(KINDS, _copy_message)
"""How elements of lists are copied that are no leaves and not copied in the usual way: by one call
a message."""
