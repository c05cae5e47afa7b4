"""Values as content-defined chunks: what makes storage grow with what changed.

A value is serialized bytes. A small one stays inline in its document. A larger one is cut where its
content says so (FastCDC), and each chunk is stored once per thread under the hash of its content:
appending to a list, trimming its head or editing its middle makes one or two new chunks. The names
of the chunks, joined, are bytes themselves; while they are long they are cut and stored the same
way, one level up. What stays in the document is the top: a few names and the number of levels.

    levels 0     the bytes themselves
    levels 1     names of chunks of the bytes
    levels 2     names of chunks of names of chunks of the bytes, ...

The format depends on no cutter: any cut that joins to the same bytes reads the same. Pure: no
document, no serializer, no server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from pyfastcdc import FastCDC

NAME_BYTES = 16
"""Length of a chunk's name: a keyed hash of its content."""

AVERAGE_CHUNK_BYTES = 1024
"""Measured on 400 turns of two 1 KB messages: 1 KB stores less than 2 or 4 KB chunks do."""

MOST_CHUNKS = 4096
"""A value of more than this many average chunks is cut into larger ones, so that 100 MB stays 6,400 documents."""

LARGEST_AVERAGE = 64 * 1024

TOP_BYTES = 16 * NAME_BYTES
"""The longest list of names that stays in a document."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a document holds of a value.

    Attributes:
        type: The serializer's name for the encoding, e.g. ``"msgpack"``.
        data: The bytes, or the joined names of the chunks one level below.
        levels: How many levels of names lie above the bytes.
        size: Length of the serialized bytes.
    """

    type: str
    data: bytes
    levels: int
    size: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A stored value with all of its chunks, by name."""

    stored: Stored
    chunks: dict[bytes, bytes]


def inline(type: str, data: bytes) -> Cut:
    """Keep a value in the document."""
    return Cut(Stored(type, data, 0, len(data)), {})


def cut(type: str, data: bytes, key: bytes) -> Cut:
    """Cut a value into chunks named under `key`, with as many levels of names as it needs."""
    chunks: dict[bytes, bytes] = {}
    levels, top = 0, data
    while levels == 0 or len(top) > TOP_BYTES:
        pieces = [(name_of(piece, key), piece) for piece in _pieces(top)]
        chunks.update(pieces)
        top = b"".join(name for name, _ in pieces)
        levels += 1
    return Cut(Stored(type, top, levels, len(data)), chunks)


def name_of(piece: bytes, key: bytes) -> bytes:
    """Name a chunk by its content: the same content under the same key has one name."""
    return blake2b(piece, digest_size=NAME_BYTES, key=key).digest()


def names(top: bytes) -> list[bytes]:
    """Split joined names."""
    return [top[start : start + NAME_BYTES] for start in range(0, len(top), NAME_BYTES)]


def _pieces(data: bytes) -> Iterator[bytes]:
    average = AVERAGE_CHUNK_BYTES
    while average * MOST_CHUNKS < len(data) and average < LARGEST_AVERAGE:
        average *= 4
    # A cutter is made per call: pyfastcdc's are not safe to share between threads.
    for chunk in FastCDC(average, min_size=average // 4, max_size=average * 4).cut_buf(data):
        yield bytes(chunk.data)


def fits(sizes: Sequence[int], each: int, together: int) -> list[bool]:
    """Say which of the values of these sizes stay inline: none above `each`, the smallest first, up to `together`."""
    keep = [False] * len(sizes)
    for position in sorted(range(len(sizes)), key=lambda position: sizes[position]):
        together -= sizes[position]
        keep[position] = sizes[position] <= each and together >= 0
    return keep
