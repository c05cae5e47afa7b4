"""Lists of messages, serialized and revived by element.

A chat appends a message or two to a list of hundreds. Its saver serializes the whole list at every
super-step and revives it at every turn: for a long chat that is most of what a turn costs, and all but
those two messages have been through it before. So a memo keeps an image of each message that it has
seen, beside the serializer's bytes of it. A message that is revived is a copy of its image, and one
whose every field is still that of its image is stored as those bytes.

What comes out is what the serializer itself would give: an image is made only of LangChain's own
message classes with plain content (texts, numbers, lists, dicts), it shares nothing mutable with
anybody, and its bytes were made from it or it from them. Everything else is left to the serializer,
and so are other serializers than ``JsonPlusSerializer``, whose msgpack has a list as its elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from langchain_core import messages
from langgraph.checkpoint.serde.base import SerializerProtocol

from mongomem.checkpoint.bounded import BoundedCache
from mongomem.checkpoint.elements import first, join, split

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
"""The classes that images are made of: they have no private state, and make up nothing when they are revived."""

MSGPACK = "msgpack"
"""The serializer's name for the encoding whose lists are taken apart."""

FEWEST = 8
"""Shorter lists go to the serializer whole."""

DEEPEST = 16
"""How deeply the content of an image may be nested."""

MARK_BYTES = 64
"""How much of a list's first element marks the list as read before; a message ends with its id."""

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
        empty: The names of the fields that hold an empty container, and the type of that.
        deep: The names of the fields that hold something else than a text, None or an empty container.
    """

    kind: type[Any]
    given: frozenset[str]
    empty: tuple[tuple[str, type[Any]], ...]
    deep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Image:
    """A message as it was, and its bytes as an element of a list. Shares nothing mutable with anybody.

    Attributes:
        data: The serialized bytes.
        shape: Its class, and which kinds of values it has where.
        fields: Its fields.
        extra: What it was given beyond the fields of its class.
    """

    data: bytes
    shape: Shape
    fields: dict[str, Any]
    extra: dict[str, Any] | None

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
        set_slot(made, "__pydantic_extra__", plain_copy(extra) if extra else extra and {})
        set_slot(made, "__pydantic_private__", None)
        return made

    def shows(self, message: Any) -> bool:
        """Say whether a message is still as it was, so that its bytes are those of the message."""
        fields, extra, own = message.__dict__, message.__pydantic_extra__, self.fields
        return (
            type(message) is self.shape.kind
            and fields == own
            and extra == self.extra
            and message.__pydantic_private__ is None
            and (not self.shape.deep or all(same(fields[name], own[name]) for name in self.shape.deep))
            and (not extra or same(extra, self.extra))
        )

    def weight(self) -> int:
        """Return about how many bytes it holds: its fields are about as long as its data."""
        return 2 * len(self.data) + 600


def image_of(message: Any, data: bytes = b"") -> Image | None:
    """Make the image of a message, or None where it holds something that is not plain."""
    if type(message) not in KINDS or message.__pydantic_private__ is not None:
        return None
    try:
        fields, extra = plain_copy(message.__dict__), plain_copy(message.__pydantic_extra__)
    except (NotPlainError, RuntimeError):  # RuntimeError: another thread is changing it
        return None
    containers = [(name, type(value)) for name, value in fields.items() if value is not None and type(value) is not str]
    empty = tuple([(name, kind) for name, kind in containers if kind in EMPTIES and not fields[name]])
    deep = tuple([name for name, _ in containers if (name, type(fields[name])) not in empty])
    fields.update([(name, EMPTIES[kind]) for name, kind in empty])
    shape = _shared(Shape(type(message), frozenset(message.__pydantic_fields_set__), empty, deep))
    return Image(data, shape, fields, extra)


@lru_cache(maxsize=256)
def _shared(shape: Shape) -> Shape:
    """Return the one object that stands for all equal shapes."""
    return shape


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


def same(one: Any, other: Any) -> bool:
    """Say whether a value is the plain value `other`: of its types, in its order, and so of the same bytes."""
    kind = type(other)
    if type(one) is not kind:
        return False
    if kind is dict:
        return len(one) == len(other) and all(map(same, one, other)) and all(map(same, one.values(), other.values()))
    if kind is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one.hex() == other.hex() if kind is float else one == other)


class MessageMemo:
    """The images that were made with one serializer, bounded in bytes. Safe to share between threads.

    Those of messages that were revived serve both ways. One of a message that a caller made serves the way out only:
    the serializer may revive it a little different, with defaults that are given and no longer left.

    The serializer is passed with each call and not kept, so that a memo can live as long as that does.
    """

    def __init__(self, capacity: int) -> None:
        self._by_data: BoundedCache[bytes, Image] = BoundedCache(capacity // 2, Image.weight)
        self._by_id: BoundedCache[str | None, Image] = BoundedCache(capacity // 2, Image.weight)
        self._begun: BoundedCache[bytes, bool] = BoundedCache(capacity // 16, lambda _: 0)

    def dumps(self, serde: SerializerProtocol, value: list[Any]) -> tuple[str, bytes]:
        """Serialize a list."""
        known = self._known(value) if len(value) >= FEWEST else {}
        if 2 * len(known) < len(value):
            return serde.dumps_typed(value)
        elements: list[bytes] = []
        for place, one in enumerate(value):
            element = known.get(place) or self._element(serde, one)
            if element is None:
                return serde.dumps_typed(value)
            elements.append(element)
        return MSGPACK, join(elements)

    def loads(self, serde: SerializerProtocol, data: bytes) -> Any:
        """Revive a value.

        A list is learned when it is read for the second time: the first may be the last, and takes no longer than ever.
        """
        if not self._has_begun(first(data)) or len(elements := split(data) or []) < FEWEST:
            return serde.loads_typed((MSGPACK, data))
        images = self._by_data.get_all(elements)
        return [image.copy() if (image := images.get(one)) else self._revived(serde, one) for one in elements]

    def clear(self) -> None:
        """Forget everything."""
        for cache in (self._by_data, self._by_id, self._begun):
            cache.clear()

    def _known(self, value: list[Any]) -> dict[int, bytes]:
        """Return the bytes of the messages that are as they were, by their places."""
        messages_of = {place: one for place, one in enumerate(value) if type(one) in KINDS and type(one.id) is str}
        images = self._by_id.get_all([one.id for one in messages_of.values()])
        return {
            place: image.data
            for place, one in messages_of.items()
            if (image := images.get(one.id)) is not None and image.shows(one)
        }

    def _element(self, serde: SerializerProtocol, value: Any) -> bytes | None:
        """Serialize one element. Of a message its image is: nobody can change it before there are bytes of it."""
        image = image_of(value)
        encoding, data = serde.dumps_typed([image.copy() if image else value])
        if encoding != MSGPACK:
            return None
        if image is not None:
            self._remember(replace(image, data=data[1:]))
        return data[1:]  # behind the header of a list of one

    def _revived(self, serde: SerializerProtocol, element: bytes) -> Any:
        value = serde.loads_typed((MSGPACK, element))
        image = image_of(value, element)
        if image is not None:
            self._by_data.put(element, image)
            self._remember(image)
        return value

    def _has_begun(self, element: bytes | None) -> bool:
        """Say whether a list that begins with this element was read before."""
        if element is None:
            return False
        has_begun = self._begun.get(element[-MARK_BYTES:]) is not None
        self._begun.put(element[-MARK_BYTES:], True)
        return has_begun

    def _remember(self, image: Image) -> None:
        if type(message_id := image.fields.get("id")) is str:
            self._by_id.put(message_id, image)
