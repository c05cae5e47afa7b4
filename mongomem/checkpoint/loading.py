"""Plans that bring stored values back: chunks by level, then bytes, then objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from mongomem.checkpoint.addresses import Address
from mongomem.checkpoint.chunks import Stored, split
from mongomem.checkpoint.codec import CONTENT_FIELDS
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import chunk_key
from mongomem.commands import Document, Find, Plan
from mongomem.errors import ConfigurationError, CorruptDataError

T = TypeVar("T")


NO_NAMES: frozenset[bytes] = frozenset()


class MissingChunkError(CorruptDataError):
    """A chunk that a document refers to is not there. Readers look once more whether the document still is."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A stored value and the thread whose chunks it names."""

    thread_id: str
    value: Stored


@dataclass(frozen=True, slots=True)
class Loaded:
    """The bytes of a stored value, and the names of every chunk on the way to them."""

    data: bytes
    names: frozenset[bytes]


@dataclass(slots=True)
class Descent:
    """A value on its way from the highest names down: the names reached last, and all there were."""

    placed: Placed
    lowest: bytes
    reached: set[bytes]

    @classmethod
    def of(cls, placed: Placed) -> Descent:
        top = placed.value.names[0] if placed.value.names else b""
        return cls(placed, top, set(split(top)))

    def keys(self) -> list[bytes]:
        return [chunk_key(self.placed.thread_id, name) for name in split(self.lowest)]


async def load(context: Context, values: Sequence[Placed]) -> list[Loaded]:
    """Load values: one command a level for all of them, none for what the chunk cache holds.

    Raises:
        MissingChunkError: A chunk is gone.
        CorruptDataError: A chunk is not what was stored.
    """
    descents = await descend(context, [placed for placed in values if placed.value.names])
    keys = [descent.keys() for descent in descents]
    content = await _fetch(context, [descent.placed for descent in descents], list(chain.from_iterable(keys)))
    joined = iter(
        [_joined(descent, [content[key] for key in own]) for descent, own in zip(descents, keys, strict=True)]
    )
    return [next(joined) if placed.value.names else Loaded(placed.value.ends, NO_NAMES) for placed in values]


def _joined(descent: Descent, pieces: Sequence[bytes]) -> Loaded:
    value = descent.placed.value
    data = value.whole(pieces)
    if len(data) != value.size:
        raise CorruptDataError(
            f"thread {descent.placed.thread_id!r}: {value.size} bytes of a value were stored, and {len(data)} are there"
        )
    return Loaded(data, frozenset(descent.reached))


async def descend(context: Context, values: Sequence[Placed]) -> list[Descent]:
    """Follow names of names down to the lowest ones: enough to know every chunk without reading content."""
    descents = [Descent.of(placed) for placed in values]
    for level in range(1, max((len(placed.value.names) for placed in values), default=0)):
        down = [descent for descent in descents if len(descent.placed.value.names) > level]
        keys = [descent.keys() for descent in down]
        content = await _fetch(context, [descent.placed for descent in down], list(chain.from_iterable(keys)))
        for descent, own in zip(down, keys, strict=True):
            descent.lowest = b"".join([content[key] for key in own]) + descent.placed.value.names[level]
            descent.reached.update(split(descent.lowest))
    return descents


async def _fetch(context: Context, values: Sequence[Placed], keys: list[bytes]) -> dict[bytes, bytes]:
    """Return chunks by `_id`: from the cache, and in one command what it has not."""
    thread_ids = {placed.thread_id for placed in values if placed.value.names}
    content = context.state.chunks.get_all(keys)
    missing = list({key for key in keys if key not in content})
    if missing:
        query = {"_id": {"$in": missing}, "thread_id": {"$in": sorted(thread_ids)}}
        for document in await Find(context.checkpoints, query, dict.fromkeys(CONTENT_FIELDS, 1)):
            content[document["_id"]] = data = _opened(context, document)
            context.state.chunks.put(document["_id"], data)
    lost = [key for key in missing if key not in content]
    if lost:
        raise MissingChunkError(f"{len(lost)} chunks of {', '.join(map(repr, sorted(thread_ids)))} are missing")
    return content


def _opened(context: Context, document: Document) -> bytes:
    try:
        return context.codec.open(document)
    except ConfigurationError:
        raise
    except Exception as error:
        raise CorruptDataError(f"chunk {document['_id'].hex()} is not readable: {error!r}") from error


def revive(context: Context, address: Address, value: Stored, data: bytes) -> Any:
    """Deserialize a value.

    Raises:
        CorruptDataError: The serializer cannot read the bytes.
    """
    try:
        return context.codec.loads(value.type, data)
    except Exception as error:
        raise CorruptDataError(
            f"{address}: the serializer cannot read a value of type {value.type!r}: {error}"
        ) from error


@dataclass(frozen=True, slots=True)
class Body:
    """A checkpoint without its values, and its metadata."""

    checkpoint: dict[str, Any]
    metadata: Any


def revive_body(context: Context, address: Address, value: Stored, data: bytes) -> Body:
    """Deserialize the body of a checkpoint.

    Raises:
        CorruptDataError: The serializer cannot read the bytes, or they are something else.
    """
    revived = revive(context, address, value, data)
    try:
        checkpoint, metadata = revived["checkpoint"], revived["metadata"]
        if isinstance(checkpoint["channel_versions"], dict) and isinstance(metadata, dict):
            return Body(checkpoint, metadata)
    except (TypeError, KeyError, IndexError):
        pass
    raise CorruptDataError(f"{address}: what is stored as its body is no checkpoint")


async def look_twice(attempt: Callable[[], Plan[T]]) -> T:
    """Return what `attempt` reads. Where a chunk is missing begin anew: its thread may have been removed meanwhile.

    Raises:
        CorruptDataError: It is missing again, and so it is lost.
    """
    try:
        return await attempt()
    except MissingChunkError:
        return await attempt()
