"""Copies of what a caller passed, for what is stored of it only after the call has been made. Pure.

The caller may go on with its state at once. What has not been serialized by then is therefore
copied: the containers and the messages, and not what else stands in them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from langgraph.checkpoint.base import Checkpoint

from mongomem.checkpoint.serde.channels import ParentState, holds
from mongomem.checkpoint.serde.message_types import LEAVES, MESSAGE_TYPES, set_slot

DEEPEST = 64
"""How many containers in each other are copied; what is nested deeper no serializer of LangGraph
takes."""

EMPTIABLE = frozenset({dict, list})
"""Containers of which fields of messages hold empty ones."""

FLAT = frozenset({set, deque, bytearray})
"""Containers of which a shallow copy is enough: what they hold has a hash, or seldom changes."""


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
    """Copy lists, dicts, tuples and LangChain's messages, at any depth; anything else is shared.

    An object that is referred to from several places is copied once, as by `copy.deepcopy`: a value
    of few objects may refer to them endlessly often.
    """
    return _copy(value, DEEPEST, {})


Copied = dict[int, tuple[Any, Any]]
"""By the id of a container or message: itself, which so keeps its id, and its copy."""


def _copy(value: Any, depth_left: int, copied: Copied) -> Any:
    kind = type(value)
    if kind in FLAT:
        return value.copy()
    make = _COPIES.get(kind) if depth_left > 0 else None
    if make is None:
        return value
    done = copied.get(id(value))
    return make(value, depth_left - 1, copied) if done is None else done[1]


def _copy_dict(value: dict[Any, Any], depth_left: int, copied: Copied) -> dict[Any, Any]:
    made = value.copy()
    copied[id(value)] = value, made
    return _copy_values(made, depth_left, copied)


def _copy_values(fields: dict[Any, Any], depth_left: int, copied: Copied) -> dict[Any, Any]:
    """Put copies in the place of the values of a dict that is a copy already. Most containers in
    messages are empty: these need not be remembered.
    """
    for name, one in fields.items():
        kind = type(one)
        if kind not in LEAVES:
            is_empty = kind in EMPTIABLE and not one
            fields[name] = kind() if is_empty else _copy(one, depth_left, copied)
    return fields


def _copy_list(value: list[Any], depth_left: int, copied: Copied) -> list[Any]:
    made: list[Any] = []
    copied[id(value)] = value, made
    made += [
        one if type(one) in LEAVES else _ELEMENTS.get(type(one), _copy)(one, depth_left, copied)
        for one in value
    ]
    return made


def _copy_tuple(value: tuple[Any, ...], depth_left: int, copied: Copied) -> tuple[Any, ...]:
    """Copy a tuple. One that contains itself does so through a list or dict, which is copied by
    then and ends the recursion.
    """
    made = tuple([one if type(one) in LEAVES else _copy(one, depth_left, copied) for one in value])
    done: tuple[Any, ...] = copied.setdefault(id(value), (value, made))[1]
    return done


def _copy_message(message: Any, depth_left: int, copied: Copied) -> Any:
    """Copy a message as pydantic's own ``model_copy`` does, with the containers in it.

    `copied` has the new message before it has fields: a message may hold itself.
    """
    if done := copied.get(id(message)):
        return done[1]
    made = object.__new__(type(message))
    copied[id(message)] = message, made
    fields = {**message.__dict__}
    extra = message.__pydantic_extra__
    if extra is not None:
        extra = _copy_values({**extra}, depth_left, copied) if extra else {}
    # What `_copy_values` does, without a call for each message of a long list.
    for name, one in fields.items():
        kind = type(one)
        if kind in EMPTIABLE and not one:
            fields[name] = kind()
        elif kind not in LEAVES:
            fields[name] = _copy(one, depth_left, copied)
    set_slot(made, "__dict__", fields)
    set_slot(made, "__pydantic_fields_set__", message.__pydantic_fields_set__)
    set_slot(made, "__pydantic_extra__", extra)
    set_slot(made, "__pydantic_private__", message.__pydantic_private__)
    return made


_COPIES: dict[type, Callable[[Any, int, Copied], Any]] = {
    dict: _copy_dict,
    list: _copy_list,
    tuple: _copy_tuple,
    **dict.fromkeys(MESSAGE_TYPES, _copy_message),
}
_ELEMENTS = dict.fromkeys(MESSAGE_TYPES, _copy_message)
"""How elements of lists are copied that `_copy` need not look at first: lists are long, and most
elements of long lists are messages."""
