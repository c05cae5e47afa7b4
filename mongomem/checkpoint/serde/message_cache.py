"""Lists of messages, serialized and revived by element.

A chat appends a message or two to a list of hundreds. Its saver serializes the whole list at every
super-step and revives it at every turn: for a long chat that is most of what a turn costs, and all
but those two messages have been through it before. So a memo keeps an image of each message that it
has seen, beside the serializer's bytes of it. A message that is revived is a copy of its image, and
one whose every field is still that of its image is stored as those bytes.

What comes out is what the serializer itself would give: an image is made only of LangChain's own
message classes with plain content (texts, numbers, lists, dicts), it shares nothing mutable with
anybody, and its bytes were made from it or it from them. Everything else is left to the serializer,
and so are other serializers than ``JsonPlusSerializer``, whose msgpack has a list as its elements.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from mongomem.checkpoint.serde.cache import BoundedCache
from mongomem.checkpoint.serde.message_snapshots import (
    KINDS,
    MessageSnapshot,
    shape_of,
    snapshot_of,
)
from mongomem.checkpoint.serde.msgpack_elements import first, join, split

MSGPACK = "msgpack"
"""The serializer's name for the encoding whose lists are taken apart."""

FEWEST = 8
"""Shorter lists go to the serializer whole."""

ADMITTED_OF = 16
"""Of so many lists that are not known one is learned while learning does not pay."""

MARK_BYTES = 64
"""How much of a list's first element marks the list as read before; a message ends with its id."""


class Begun(Enum):
    """What is known of a list by its beginning."""

    READ = "it was read before"
    NOT_LEARNED = "most of it cannot be learned, or there is no room for it"


class MessageCache:
    """The images that a saver has made, bounded in bytes. Safe to share between threads.

    Those of messages that were revived serve both ways. One of a message that a caller made serves
    the way out only: the serializer may revive it a little different, with defaults that are given
    and no longer left.
    """

    def __init__(self, capacity: int) -> None:
        self._by_data: BoundedCache[bytes, MessageSnapshot] = BoundedCache(
            capacity // 2, lambda image: image.weight
        )
        self._by_id: BoundedCache[str, MessageSnapshot] = BoundedCache(
            capacity // 2, lambda image: image.weight
        )
        self._begun: BoundedCache[bytes, Begun] = BoundedCache(capacity // 16, lambda _: 0)
        self._pays = True
        self._made = self._copied = self._turned_away = 0

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

        A list is learned when it is read for the second time: the first may be the last, and takes
        no longer than ever.
        """
        mark = (first(data) or b"")[-MARK_BYTES:]
        if not self._has_begun(mark) or len(elements := split(data) or []) < FEWEST:
            return serde.loads_typed((MSGPACK, data))
        images = [self._by_data.get(one) for one in elements]
        unknown = images.count(None)
        is_known = 2 * unknown <= len(images)
        if not is_known and not self._admits():
            return serde.loads_typed((MSGPACK, data))
        value = self._put_together(serde, elements, images)
        self._made, self._copied = self._made + unknown, self._copied + len(images) - unknown
        if not is_known:
            self._check_learned(mark, elements)
        return value

    def _put_together(
        self, serde: SerializerProtocol, elements: list[bytes], images: list[MessageSnapshot | None]
    ) -> list[Any]:
        """Revive a list: a copy of the image where there is one, else what the serializer makes of
        the element.
        """
        return [
            self._revived(serde, one) if image is None else image.copy()
            for one, image in zip(elements, images, strict=True)
        ]

    def _check_learned(self, mark: bytes, elements: list[bytes]) -> None:
        """Note of a list that was to be learned where most of it was not."""
        if 2 * len(self._by_data.get_all(elements)) < len(elements):
            self._begun.put(mark, Begun.NOT_LEARNED)

    def clear(self) -> None:
        """Forget everything."""
        for cache in (self._by_data, self._by_id, self._begun):
            cache.clear()
        shape_of.cache_clear()

    def _known(self, value: list[Any]) -> dict[int, bytes]:
        """Return the bytes of the messages that are as they were, by their places."""
        image_by_id = self._by_id.get
        return {
            place: image.data
            for place, one in enumerate(value)
            if type(one) in KINDS
            and type(message_id := one.__dict__.get("id")) is str
            and (image := image_by_id(message_id)) is not None
            and image.shows(one)
        }

    def _element(self, serde: SerializerProtocol, value: Any) -> bytes | None:
        """Serialize one element. Of a message its image is: nobody can change it before there are
        bytes of it.
        """
        image = snapshot_of(value)
        encoding, data = serde.dumps_typed([image.copy() if image else value])
        if encoding != MSGPACK:
            return None
        if image is not None:
            self._remember(replace(image, data=data[1:], weight=image.weight + 2 * len(data)))
        return data[1:]  # behind the header of a list of one

    def _revived(self, serde: SerializerProtocol, element: bytes) -> Any:
        value = serde.loads_typed((MSGPACK, element))
        image = snapshot_of(value, element)
        if image is not None:
            self._by_data.put(element, image)
            self._remember(image)
        return value

    def _has_begun(self, mark: bytes) -> bool:
        """Say whether a list that begins like this was read before, and may be learned."""
        begun = self._begun.get(mark)
        if mark and begun is None:
            self._begun.put(mark, Begun.READ)
        return begun is Begun.READ

    def _admits(self) -> bool:
        """Say whether to learn another list: every one while that pays, else one of several.

        It pays while images are copied more often than made. Where lists are read in turn, and are
        more than there is room for, they push each other out before they are of any use.
        """
        if self._made > self._by_data.count:
            self._pays, self._made, self._copied = self._copied >= self._made, 0, 0
        self._turned_away = 0 if self._pays else (self._turned_away + 1) % ADMITTED_OF
        return self._turned_away == 0

    def _remember(self, image: MessageSnapshot) -> None:
        if type(message_id := image.fields.get("id")) is str:
            self._by_id.put(message_id, image)
