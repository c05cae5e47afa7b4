"""Plans that bring stored values back: chunks by level, then bytes, then objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from mongomem.checkpoint.addresses import Address
from mongomem.checkpoint.chunks import Stored, names
from mongomem.checkpoint.codec import CONTENT_FIELDS
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import chunk_key
from mongomem.commands import Document, Find
from mongomem.errors import CorruptDataError, MongomemError


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


async def load(context: Context, values: Sequence[Placed]) -> list[Loaded]:
    """Load values: one command a level for all of them, none for what the chunk cache holds.

    Raises:
        MissingChunkError: A chunk is gone.
    """
    return await descend(context, values, floor=0)


async def descend(context: Context, values: Sequence[Placed], *, floor: int) -> list[Loaded]:
    """Replace names by what they name until each value is at most at level `floor`.

    ``floor=0`` yields the bytes, ``floor=1`` joined names of the lowest chunks: enough to know
    every name without reading content.
    """
    tops = [placed.value.top for placed in values]
    reached: list[set[bytes]] = [set() for _ in values]
    for level in range(max((placed.value.levels for placed in values), default=0), floor, -1):
        below = {index: names(tops[index]) for index, placed in enumerate(values) if placed.value.levels >= level}
        keys = {index: [chunk_key(values[index].thread_id, name) for name in listed] for index, listed in below.items()}
        content = await _fetch(
            context, {values[index].thread_id for index in below}, list(chain.from_iterable(keys.values()))
        )
        for index, listed in below.items():
            reached[index].update(listed)
            tops[index] = b"".join([content[key] for key in keys[index]])
    heads = [placed.value.head if floor == 0 else b"" for placed in values]
    return [Loaded(head + top, frozenset(found)) for head, top, found in zip(heads, tops, reached, strict=True)]


async def _fetch(context: Context, thread_ids: set[str], keys: list[bytes]) -> dict[bytes, bytes]:
    """Return chunks by `_id`: from the cache, and in one command what it has not."""
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
    except MongomemError:
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
