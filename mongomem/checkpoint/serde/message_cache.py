"""The message cache: lists of messages, serialized and deserialized message by message.

A chat appends a message or two to a list of hundreds. Its saver serializes the whole list at every
super-step and deserializes it at every turn: for a long chat that is most of what a turn costs, and
all but those two messages were serialized or deserialized before. So the cache keeps a snapshot of
each message, beside the serializer's bytes of it. A message that is read again is a copy of its
snapshot, and a message that matches its snapshot is stored as those bytes.

`MessageCache.dumps` and `loads` give what the serializer itself gives. Everything else than a list
of LangChain's own messages with plain content is left to the serializer, and so are other
serializers than ``JsonPlusSerializer``, whose msgpack has a list as its elements.

A snapshot relies on private slots of pydantic, and on how langgraph writes lists. `cached_types`
compares cache and serializer once in each process, on specimens; classes on which they differ are
not cached.

The format of lists is that of msgpack
(https://github.com/msgpack/msgpack/blob/master/spec.md): an array is a header and its elements one
behind the other. The serializer writes an object as an extension, whose header has its length.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from mongomem.checkpoint.serde.cache import BoundedCache, Doorkeeper
from mongomem.checkpoint.serde.message_snapshots import (
    SNAPSHOT_BYTES,
    MessageSnapshot,
    identical,
    layout_of,
    snapshot_of,
)
from mongomem.checkpoint.serde.message_types import MESSAGE_TYPES, has_known_slots, specimen

logger = logging.getLogger("mongomem")

MSGPACK = "msgpack"
"""The serializer's name for the encoding whose lists are split into elements."""

MIN_MESSAGES = 8
"""Shorter lists go to the serializer as a whole."""


class MessageCache:
    """The snapshots that a saver has made, bounded in bytes. Safe to share between threads.

    Snapshots of messages that were deserialized serve reading and writing. One of a message that a
    caller made serves writing only: the serializer may deserialize it a little different, with
    defaults that are set and no longer left.

    Args:
        capacity: The most bytes that it holds.
        types: The message classes that are cached. None: those of `cached_types`.
    """

    def __init__(self, capacity: int, types: frozenset[type[Any]] | None = None) -> None:
        half = capacity // 2
        self._types = types
        self._by_data: BoundedCache[bytes, MessageSnapshot] = BoundedCache(half, _weight)
        self._by_id: BoundedCache[str, MessageSnapshot] = BoundedCache(half, _weight)
        self._doorkeeper = Doorkeeper(half)

    def dumps(self, serde: SerializerProtocol, value: list[Any]) -> tuple[str, bytes]:
        """Serialize a list."""
        if len(value) < MIN_MESSAGES:
            return serde.dumps_typed(value)
        cached = self._cached_elements(value)
        if 2 * len([one for one in cached if one is None]) > len(value):
            return serde.dumps_typed(value)
        elements = self._dump_elements(serde, value, cached)
        return serde.dumps_typed(value) if elements is None else (MSGPACK, join(elements))

    def _dump_elements(
        self, serde: SerializerProtocol, value: list[Any], cached: list[bytes | None]
    ) -> list[bytes] | None:
        """Serialize the messages that are not `cached`; None where one has no bytes of its own."""
        elements: list[bytes] = []
        for one, known in zip(value, cached, strict=True):
            element = self._dump_element(serde, one) if known is None else known
            if element is None:
                return None
            elements.append(element)
        return elements

    def loads(self, serde: SerializerProtocol, data: bytes) -> Any:
        """Deserialize a value.

        A list that is not cached must take no longer than it does without a cache, so the order of
        the questions is that of their cost: of a list the first messages alone are looked at before
        it is split. Refused: to decide for every message. A few that are cached by chance do not
        pay for splitting a list of hundreds.
        """
        opening = opening_of(data)
        if (
            opening
            and self._is_worth_splitting(opening, data)
            and (elements := split_elements(data))
        ):
            return self._load_elements(serde, opening, elements)
        return serde.loads_typed((MSGPACK, data))

    def _load_elements(
        self, serde: SerializerProtocol, opening: Opening, elements: list[bytes]
    ) -> list[Any]:
        """Deserialize a list, as copies of snapshots where there are some; cache the rest."""
        snapshots = [self._by_data.get(element) for element in elements]
        value = [
            self._load_element(serde, element) if snapshot is None else snapshot.copy()
            for snapshot, element in zip(snapshots, elements, strict=True)
        ]
        if 2 * len([one for one in snapshots if one is None]) > len(elements):
            self._check_cached(opening, elements)
        return value

    def clear(self) -> None:
        """Forget everything."""
        for part in (self._by_data, self._by_id, self._doorkeeper):
            part.clear()
        layout_of.cache_clear()

    @property
    def types(self) -> frozenset[type[Any]]:
        """The message classes that are cached."""
        return cached_types() if self._types is None else self._types

    def _is_worth_splitting(self, opening: Opening, data: bytes) -> bool:
        """Say whether a list is cached, or is to be cached now."""
        key = hash(opening.elements)
        if self._doorkeeper.refuses(key):
            return False
        if self._by_data.get(opening.last) is not None:
            return True
        return self._doorkeeper.admit(key, 2 * len(data) + opening.count * SNAPSHOT_BYTES)

    def _check_cached(self, opening: Opening, elements: list[bytes]) -> None:
        """Refuse a list from now on of which most could not be cached."""
        if 2 * len(self._by_data.get_all(elements)) < len(elements):
            self._doorkeeper.refuse(hash(opening.elements))

    def _cached_elements(self, value: list[Any]) -> list[bytes | None]:
        """Return, in order, the bytes of the messages that match their snapshots; None for any
        other.
        """
        types, snapshot_by_id = self.types, self._by_id.get
        return [
            snapshot.data
            if type(one) in types
            and type(message_id := one.__dict__.get("id")) is str
            and (snapshot := snapshot_by_id(message_id)) is not None
            and snapshot.matches(one)
            else None
            for one in value
        ]

    def _dump_element(self, serde: SerializerProtocol, value: Any) -> bytes | None:
        """Serialize one element; of a message a copy of its snapshot: nobody can change that
        between the snapshot and its bytes.
        """
        snapshot = self._snapshot_of(value)
        encoding, data = serde.dumps_typed([value if snapshot is None else snapshot.copy()])
        if encoding != MSGPACK:
            return None
        element = data[1:]  # behind the header of a list of one
        if snapshot is not None:
            weight = snapshot.weight + 2 * len(element)
            self._keep_for_writing(replace(snapshot, data=element, weight=weight))
        return element

    def _load_element(self, serde: SerializerProtocol, element: bytes) -> Any:
        value = serde.loads_typed((MSGPACK, element))
        snapshot = self._snapshot_of(value, element)
        if snapshot is not None:
            self._by_data.put(element, snapshot)
            self._keep_for_writing(snapshot)
        return value

    def _snapshot_of(self, value: Any, element: bytes = b"") -> MessageSnapshot | None:
        return snapshot_of(value, element) if type(value) in self.types else None

    def _keep_for_writing(self, snapshot: MessageSnapshot) -> None:
        if type(message_id := snapshot.fields.get("id")) is str:
            self._by_id.put(message_id, snapshot)


def _weight(snapshot: MessageSnapshot) -> int:
    return snapshot.weight


# Lists as msgpack has them

FIXARRAY, ARRAY_16, ARRAY_32 = 0x90, 0xDC, 0xDD
LENGTH_OF_ARRAY = {ARRAY_16: 2, ARRAY_32: 4}
"""How many bytes the length of an array has; a fixarray has it in its marker."""

LENGTH_OF_EXTENSION = {0xC7: 1, 0xC8: 2, 0xC9: 4}
"""How many bytes the length of an ext 8, 16 or 32 has; behind them is the type, one byte."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The first `MIN_MESSAGES` elements of a serialized list of objects: what a list is recognized
    by, since chats grow at their other end.

    Attributes:
        elements: Their bytes.
        last: The bytes of the last of them.
        count: How many elements the whole list has.
    """

    elements: bytes
    last: bytes
    count: int


def opening_of(data: bytes) -> Opening | None:
    """Return the opening of a serialized list of objects, or None where it is shorter or something
    else.
    """
    count, start = _header_of(data)
    if count < MIN_MESSAGES:
        return None
    last_start, stop = start, start
    for _ in range(MIN_MESSAGES):
        last_start, end = stop, _end_of(data, stop)
        if end is None:
            return None
        stop = end
    return Opening(data[start:stop], data[last_start:stop], count)


def split_elements(data: bytes) -> list[bytes] | None:
    """Return the elements of a serialized list of objects, or None where it is something else."""
    count, start = _header_of(data)
    elements: list[bytes] = []
    for _ in range(count):
        stop = _end_of(data, start)
        if stop is None:
            return None
        elements.append(data[start:stop])
        start = stop
    return elements if elements and start == len(data) else None


def join(elements: Sequence[bytes]) -> bytes:
    """Return the serialized list of serialized elements."""
    return b"".join([_header(len(elements)), *elements])


def _end_of(data: bytes, start: int) -> int | None:
    """Return where the extension ends that begins at `start`, or None where none does."""
    width = LENGTH_OF_EXTENSION.get(data[start]) if start < len(data) else None
    if width is None:
        return None
    length_end = start + 1 + width
    return length_end + 1 + int.from_bytes(data[start + 1 : length_end], "big")


def _header_of(data: bytes) -> tuple[int, int]:
    """Return how many elements a list has, 0 where the data is no list, and where they begin."""
    marker = data[0] if data else 0
    if marker & 0xF0 == FIXARRAY:
        return marker & 0x0F, 1
    width = LENGTH_OF_ARRAY.get(marker, 0)
    return int.from_bytes(data[1 : 1 + width], "big"), 1 + width


def _header(count: int) -> bytes:
    if count < 16:
        return bytes([FIXARRAY | count])
    marker = ARRAY_16 if count < 2**16 else ARRAY_32
    return bytes([marker]) + count.to_bytes(LENGTH_OF_ARRAY[marker], "big")


# The comparison with the installed versions of langchain-core, langgraph and pydantic

SPECIMEN_BYTES = 2**20
"""Room for all specimens."""


@cache
def cached_types() -> frozenset[type[Any]]:
    """Return the message classes that this process caches: those on which a cache gives what the
    serializer gives. Compared once, in a few milliseconds; differences are logged then.
    """
    return types_that_agree(MESSAGE_TYPES, JsonPlusSerializer())


def types_that_agree(
    types: frozenset[type[Any]], serde: SerializerProtocol
) -> frozenset[type[Any]]:
    """Return those of some message classes on which a cache gives what the serializer gives; log
    the others.
    """
    if agrees(types, serde):
        return types
    agreeing = frozenset([one for one in types if agrees(frozenset([one]), serde)])
    differing = ", ".join(sorted(one.__name__ for one in types - agreeing))
    logger.warning(
        "messages of these classes are not cached, because the installed langchain-core, langgraph "
        "or pydantic treats them otherwise than mongomem expects: %s",
        differing,
    )
    return agreeing


def agrees(types: frozenset[type[Any]], serde: SerializerProtocol) -> bool:
    """Say whether a cache gives what the serializer gives for specimens of all these classes:
    reading, writing what was read, writing what is new, and writing what was changed in place.
    """
    try:
        return all(map(has_known_slots, types)) and _is_transparent(
            MessageCache(SPECIMEN_BYTES, types), serde
        )
    except Exception:  # whatever another version does with what this one expects of it
        return False


def _is_transparent(tested: MessageCache, serde: SerializerProtocol) -> bool:
    data = serde.dumps_typed(_specimens(tested.types, "read"))[1]
    expected = serde.loads_typed((MSGPACK, data))
    found = [tested.loads(serde, data) for _ in ("read", "read and cached", "copied")]
    messages = [*tested.loads(serde, data), *_specimens(tested.types, "made")]
    return (
        all(_are_identical(one, expected) for one in found)
        and _writes_alike(tested, serde, messages)
        and _are_identical(tested.loads(serde, data), expected)
    )


def _writes_alike(tested: MessageCache, serde: SerializerProtocol, messages: list[Any]) -> bool:
    """Say whether messages are written as by the serializer: now, again, and when each of them has
    changed.
    """
    stored = serde.dumps_typed(messages)
    if not tested.dumps(serde, messages) == tested.dumps(serde, messages) == stored:
        return False
    for index, message in enumerate(messages):
        _change(message, index)
    return tested.dumps(serde, messages) == serde.dumps_typed(messages) != stored


def _specimens(types: Iterable[type[Any]], label: str) -> list[Any]:
    """Make specimens of some classes, at least as many as a list that is cached has messages."""
    kinds = sorted(types, key=lambda kind: kind.__name__)
    count = max(MIN_MESSAGES, len(kinds))
    return [
        specimen(kind, f"{label} {number}")
        for number, kind in zip(range(count), cycle(kinds), strict=False)
    ]


def _change(message: Any, index: int) -> None:
    """Change a message in one of the places where its state is."""
    if index % 3 == 0:
        message.content = "changed"
    elif index % 3 == 1:
        message.additional_kwargs["nested"]["changed"] = index
    else:
        message.more["changed"] = index


def _are_identical(messages: Sequence[Any], others: Sequence[Any]) -> bool:
    """Say whether messages are of the same classes and in the same state as others."""
    return len(messages) == len(others) and all(
        type(one) is type(other)
        and identical(one.__dict__, other.__dict__)
        and identical(one.__pydantic_extra__, other.__pydantic_extra__)
        and one.__pydantic_fields_set__ == other.__pydantic_fields_set__
        and one.__pydantic_private__ is other.__pydantic_private__ is None
        for one, other in zip(messages, others, strict=True)
    )
