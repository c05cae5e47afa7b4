"""Images of messages: what a message was, kept so that nobody can change it.

An image is made only of LangChain's own message classes with plain content: texts, numbers, lists
and dicts. Anything else about a message, a subclass, an array, an object of the application, and
there is none. What such images are for stands in `mongomem.checkpoint.serde.message_cache`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from langchain_core import messages

KINDS: frozenset[type[Any]] = frozenset(
    {
        messages.AIMessage,
        messages.AIMessageChunk,
        messages.ChatMessage,
        messages.FunctionMessage,
        messages.HumanMessage,
        messages.SystemMessage,
        messages.ToolMessage,
    }
)
"""The classes that images are made of: they have no private state, make up nothing when they are
revived, and are allowed by every serializer (``SAFE_MSGPACK_TYPES`` of langgraph)."""

DEEPEST = 16
"""How deeply the content of an image may be nested."""

IMAGE_BYTES, CONTAINER_BYTES, LEAF_BYTES = 600, 120, 40
"""About what an image, a container and anything else in it occupy, texts not counted (CPython
3.11)."""

LEAVES = frozenset({type(None), bool, int, float, str, bytes})

EMPTIES: Mapping[type[Any], Any] = {dict: {}, list: []}
"""What stands in images for containers that are empty. Nobody else gets to see these two."""

set_slot = object.__setattr__


@dataclass(frozen=True, slots=True)
class Shape:
    """What images have in common; most messages of a kind share one.

    Attributes:
        kind: The class of the message.
        given: The names of the fields that were set and not left to their default.
        types: The types of its fields, in their order.
        empty: The names of the fields that hold an empty container, and the type of that.
        deep: The names of the fields that hold something else than a text, None or an empty
            container.
    """

    kind: type[Any]
    given: frozenset[str]
    types: tuple[type[Any], ...]
    empty: tuple[tuple[str, type[Any]], ...]
    deep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessageSnapshot:
    """A message as it was, and its bytes as an element of a list. Shares nothing mutable with
    anybody.

    Attributes:
        data: The serialized bytes.
        shape: Its class, and which kinds of values it has where.
        fields: Its fields.
        extra: What it was given beyond the fields of its class.
        weight: About how many bytes it holds.
    """

    data: bytes
    shape: Shape
    fields: dict[str, Any]
    extra: dict[str, Any] | None
    weight: int

    def copy(self) -> Any:
        """Return a new message like it, put together as pydantic's own ``model_copy`` does."""
        shape, fields, extra = self.shape, self.fields.copy(), self.extra
        for name, kind in shape.empty:
            fields[name] = kind()
        for name in shape.deep:
            fields[name] = plain_copy(fields[name])
        made = object.__new__(shape.kind)
        set_slot(made, "__dict__", fields)
        set_slot(made, "__pydantic_fields_set__", set(shape.given))
        set_slot(
            made,
            "__pydantic_extra__",
            None if extra is None else plain_copy(extra) if extra else {},
        )
        set_slot(made, "__pydantic_private__", None)
        return made

    def shows(self, message: Any) -> bool:
        """Say whether a message is still as it was, so that its bytes are those of the message."""
        shape, fields, extra = self.shape, message.__dict__, message.__pydantic_extra__
        # Types first: only then is it sure that a comparison asks nobody else's ``__eq__``.
        if type(message) is not shape.kind or tuple(map(type, fields.values())) != shape.types:
            return False
        try:
            is_same = same(fields, self.fields) if shape.deep else fields == self.fields
            return is_same and (same(extra, self.extra) if self.extra else extra == self.extra)
        except RuntimeError:  # another thread is changing it
            return False


def snapshot_of(message: Any, data: bytes = b"") -> MessageSnapshot | None:
    """Make the image of a message, or None where it holds something that is not plain.

    Everything is copied before anything is looked at: another thread may change the message
    meanwhile, and kinds and weight must be those of what the image holds. Texts and None, which
    most fields are, are taken as they are, and the containers of most others are empty: one shared
    object stands for all of these, and only the `deep` fields cost a copy, here and in every
    message made of the image. `copy.deepcopy` would copy by the methods of the application's
    classes, and not say whether a value is plain.
    """
    if type(message) not in KINDS or message.__pydantic_private__ is not None:
        return None
    try:
        fields = {
            name: value if value is None or type(value) is str else plain_copy(value)
            for name, value in message.__dict__.items()
        }
        extra = plain_copy(message.__pydantic_extra__)
    except (NotPlainError, RuntimeError):  # RuntimeError: another thread is changing it
        return None
    others = [
        (name, type(value))
        for name, value in fields.items()
        if value is not None and type(value) is not str
    ]
    empty = tuple([(name, kind) for name, kind in others if kind in EMPTIES and not fields[name]])
    deep = tuple([name for name, kind in others if kind not in EMPTIES or fields[name]])
    return _image(message, data, fields, extra, empty, deep)


def _image(
    message: Any,
    data: bytes,
    fields: dict[str, Any],
    extra: dict[str, Any] | None,
    empty: tuple[tuple[str, type[Any]], ...],
    deep: tuple[str, ...],
) -> MessageSnapshot:
    """Make the image of a message from plain copies of its fields, which it keeps."""
    for name, container in empty:
        fields[name] = EMPTIES[container]
    given, types = frozenset(message.__pydantic_fields_set__), tuple(map(type, fields.values()))
    weight = (
        IMAGE_BYTES
        + 2 * len(data)
        + sum([weight_of(fields[name]) for name in deep])
        + weight_of(extra)
    )
    kind: Any = type(message)
    return MessageSnapshot(data, shape_of(kind, given, types, empty, deep), fields, extra, weight)


@lru_cache(maxsize=256)
def shape_of(
    kind: Any,
    given: frozenset[str],
    types: tuple[Any, ...],
    empty: tuple[tuple[str, Any], ...],
    deep: tuple[str, ...],
) -> Shape:
    """Return the one shape that all messages like this share."""
    return Shape(kind, given, types, empty, deep)


class NotPlainError(TypeError):
    """A value is not made of plain ones."""


def plain_copy(value: Any, room: int = DEEPEST) -> Any:
    """Copy a leaf, or lists and dicts of leaves.

    Raises:
        NotPlainError: It is something else, a subclass of those, or nested too deeply.
    """
    kind = type(value)
    if kind in LEAVES:
        return value
    if room and kind is dict:
        return {plain_copy(key, 0): plain_copy(one, room - 1) for key, one in value.items()}
    if room and kind is list:
        return [plain_copy(one, room - 1) for one in value]
    raise NotPlainError(kind.__name__)


def weight_of(value: Any) -> int:
    """Return about how many bytes the objects of a plain value occupy, texts not counted."""
    kind = type(value)
    if kind is dict:
        return CONTAINER_BYTES + sum([LEAF_BYTES + weight_of(one) for one in value.values()])
    return CONTAINER_BYTES + sum(map(weight_of, value)) if kind is list else LEAF_BYTES


def same(one: Any, other: Any) -> bool:
    """Say whether a value is the plain value `other`: of its types, in its order, and so of the
    same bytes.
    """
    kind = type(other)
    if type(one) is not kind:
        return False
    if kind is dict:
        return (
            len(one) == len(other)
            and all(map(same, one, other))
            and all(map(same, one.values(), other.values()))
        )
    if kind is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one.hex() == other.hex() if kind is float else one == other)
