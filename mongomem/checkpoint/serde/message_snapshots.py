"""Snapshots of messages: the state of a message at one moment, which nobody can change.

There are snapshots only of LangChain's own message classes with plain content: texts, numbers,
lists and dicts. Of a message with anything else in it, an array, an object of the application, or
of a subclass, there is none. Only `mongomem.checkpoint.serde.message_cache` knows snapshots. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mongomem.checkpoint.serde.message_types import LEAVES, set_slot

DEEPEST = 16
"""How deeply the content of a snapshot may be nested."""

SNAPSHOT_BYTES, CONTAINER_BYTES, LEAF_BYTES = 600, 120, 40
"""About what a snapshot, a container and anything else in it occupy, texts not counted (CPython
3.11)."""

EMPTIES: Mapping[type[Any], Any] = {dict: {}, list: []}
"""One empty container of each type, shared by all snapshots. Copies of snapshots have their own."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What snapshots have in common; most messages of a class share one.

    Attributes:
        message_type: The class of the message.
        fields_set: The names of the fields that were set and not left to their default.
        types: The types of its fields, in their order.
        empty: The names of the fields that hold an empty container, and the type of that.
        nested: The names of the fields that hold anything else than a text, None or an empty
            container.
    """

    message_type: type[Any]
    fields_set: frozenset[str]
    types: tuple[type[Any], ...]
    empty: tuple[tuple[str, type[Any]], ...]
    nested: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessageSnapshot:
    """The state of a message, and its bytes as an element of a list. Shares nothing mutable with
    any message.

    Attributes:
        data: The serialized bytes.
        layout: Its class, and which types of values its fields have.
        fields: Its fields.
        extra: Its extra fields, beyond those of its class.
        weight: About how many bytes it holds.
    """

    data: bytes
    layout: Layout
    fields: dict[str, Any]
    extra: dict[str, Any] | None
    weight: int

    def copy(self) -> Any:
        """Return a new message in this state, put together as pydantic's own ``model_copy`` does.

        Texts and None, which most fields are, are shared, so only the fields that the layout lists
        are copied. `copy.deepcopy` of a message would take ten times as long.
        """
        layout, fields, extra = self.layout, self.fields.copy(), self.extra
        for name, container in layout.empty:
            fields[name] = container()
        for name in layout.nested:
            fields[name] = plain_copy(fields[name])
        if extra is not None:
            extra = plain_copy(extra) if extra else {}
        message = object.__new__(layout.message_type)
        set_slot(message, "__dict__", fields)
        set_slot(message, "__pydantic_fields_set__", set(layout.fields_set))
        set_slot(message, "__pydantic_extra__", extra)
        set_slot(message, "__pydantic_private__", None)
        return message

    def matches(self, message: Any) -> bool:
        """Say whether a message is in this state, so that `data` is its bytes.

        Types are compared first: only then is it sure that comparing values calls no ``__eq__`` of
        the application.
        """
        layout, fields, extra = self.layout, message.__dict__, message.__pydantic_extra__
        if type(message) is not layout.message_type:
            return False
        if tuple(map(type, fields.values())) != layout.types:
            return False
        try:
            is_equal = identical(fields, self.fields) if layout.nested else fields == self.fields
            return is_equal and (
                identical(extra, self.extra) if self.extra else extra == self.extra
            )
        except RuntimeError:  # another thread is changing it
            return False


def snapshot_of(message: Any, data: bytes = b"") -> MessageSnapshot | None:
    """Make the snapshot of a message of a class whose slots are known, or None where it holds
    something that is not plain.

    Everything is copied before anything is looked at: another thread may change the message
    meanwhile, and layout and weight must be those of what the snapshot holds. `copy.deepcopy` was
    refused: it copies by the methods of the application's classes, and does not say whether a value
    is plain.
    """
    if message.__pydantic_private__ is not None:
        return None
    try:
        fields = {
            name: value if value is None or type(value) is str else plain_copy(value)
            for name, value in message.__dict__.items()
        }
        extra = plain_copy(message.__pydantic_extra__)
    except (NotPlainError, RuntimeError):  # RuntimeError: another thread is changing it
        return None
    layout = _share_empties(type(message), frozenset(message.__pydantic_fields_set__), fields)
    nested = [fields[name] for name in layout.nested]
    weight = SNAPSHOT_BYTES + 2 * len(data) + sum(map(weight_of, [*nested, extra]))
    return MessageSnapshot(data, layout, fields, extra, weight)


def _share_empties(message_type: Any, fields_set: frozenset[str], fields: dict[str, Any]) -> Layout:
    """Return the layout of fields, and put the shared `EMPTIES` in the place of their empty
    containers: most containers of most messages are empty.
    """
    empty: list[tuple[str, type[Any]]] = []
    nested: list[str] = []
    for name, value in fields.items():
        kind = type(value)
        if kind in EMPTIES and not value:
            fields[name] = EMPTIES[kind]
            empty.append((name, kind))
        elif value is not None and kind is not str:
            nested.append(name)
    types = tuple(map(type, fields.values()))
    return layout_of(message_type, fields_set, types, tuple(empty), tuple(nested))


@lru_cache(maxsize=256)
def layout_of(
    message_type: Any,
    fields_set: frozenset[str],
    types: tuple[Any, ...],
    empty: tuple[tuple[str, Any], ...],
    nested: tuple[str, ...],
) -> Layout:
    """Return the one layout that all messages like this share."""
    return Layout(message_type, fields_set, types, empty, nested)


class NotPlainError(TypeError):
    """A value is not made of plain ones."""


def plain_copy(value: Any, depth_left: int = DEEPEST) -> Any:
    """Copy a leaf, or lists and dicts of leaves.

    Raises:
        NotPlainError: It is something else, a subclass of those, or nested too deeply.
    """
    kind = type(value)
    if kind in LEAVES:
        return value
    if depth_left and kind is dict:
        return {plain_copy(key, 0): plain_copy(one, depth_left - 1) for key, one in value.items()}
    if depth_left and kind is list:
        return [plain_copy(one, depth_left - 1) for one in value]
    raise NotPlainError(kind.__name__)


def weight_of(value: Any) -> int:
    """Return about how many bytes the objects of a plain value occupy, texts not counted."""
    kind = type(value)
    if kind is dict:
        return CONTAINER_BYTES + sum([LEAF_BYTES + weight_of(one) for one in value.values()])
    return CONTAINER_BYTES + sum(map(weight_of, value)) if kind is list else LEAF_BYTES


def identical(one: Any, other: Any) -> bool:
    """Say whether a value is the plain value `other`: of its types, in its order, and so of the
    same bytes.
    """
    kind = type(other)
    if type(one) is not kind:
        return False
    if kind is float:
        return bool(one.hex() == other.hex())
    if kind is list:
        return len(one) == len(other) and all(map(identical, one, other))
    if kind is dict:
        return identical([*one], [*other]) and all(map(identical, one.values(), other.values()))
    return bool(one == other)
