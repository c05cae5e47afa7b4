"""Values as content-defined chunks: what makes storage grow with what changed.

A value is serialized bytes. A small one stays inline in its document. A larger one is cut where its
content says so (FastCDC), and each chunk is stored once per thread under the hash of its content:
appending to a list, trimming its head or editing its middle makes one or two new chunks.

Two sizes of cut serve two ends. Where a value changes, chunks of about 1 KB keep the change small; where
it has come to rest, one chunk of about 16 KB stands for a dozen of them, so that a long value is few
documents to read. A region goes from small to large once the parent reaches every small chunk of
it; a value with nothing to share goes large at once. The first bytes stay in the document, for there
serializers write lengths, which change at every step.

The names of the chunks, joined, are bytes themselves; while they are long they are cut and stored the
same way, one level up. What stays in the document is the head, the top names, and the number of levels.

    levels 0     the bytes themselves
    levels 1     head, and names of chunks of the rest
    levels 2     head, and names of chunks of names of chunks of the rest, ...

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

HEAD_BYTES = 16

SMALL, LARGE = 1024, 16 * 1024
"""Average sizes of chunks of values. Measured on 400 turns of two 1 KB messages (docs/design.md)."""

NAMES = 256
"""Average size of a chunk of names: the last one is written anew at every step."""

TOP_BYTES = 16 * NAME_BYTES
"""The longest list of names that stays in a document."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a document holds of a value.

    Attributes:
        type: The serializer's name for the encoding, e.g. ``"msgpack"``.
        head: The bytes, or the first of them where there are levels.
        top: The joined names of the chunks one level below; empty without levels.
        levels: How many levels of names lie above the bytes.
        size: Length of the serialized bytes.
    """

    type: str
    head: bytes
    top: bytes
    levels: int
    size: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A stored value with all of its chunks, by name."""

    stored: Stored
    chunks: dict[bytes, bytes]


def inline(type: str, data: bytes) -> Cut:
    """Keep a value in the document."""
    return Cut(Stored(type, data, b"", 0, len(data)), {})


def cut(type: str, data: bytes, key: bytes, known: frozenset[bytes] = frozenset()) -> Cut:
    """Cut a value into chunks named under `key`, with as many levels of names as it needs.

    Args:
        type: The serializer's name for the encoding.
        data: The serialized bytes.
        key: Secret for the names, or empty.
        known: The chunks that the parent's value reaches.
    """
    pieces = list(_pieces(memoryview(data)[HEAD_BYTES:], key, known))
    chunks, levels, top = dict(pieces), 1, _joined(pieces)
    while len(top) > TOP_BYTES:
        pieces = [(name_of(piece, key), piece) for piece in _cut(top, NAMES)]
        chunks.update(pieces)
        top = _joined(pieces)
        levels += 1
    return Cut(Stored(type, data[:HEAD_BYTES], top, levels, len(data)), chunks)


def name_of(piece: bytes, key: bytes) -> bytes:
    """Name a chunk by its content: the same content under the same key has one name."""
    return blake2b(piece, digest_size=NAME_BYTES, key=key).digest()


def names(top: bytes) -> list[bytes]:
    """Split joined names."""
    return [top[start : start + NAME_BYTES] for start in range(0, len(top), NAME_BYTES)]


def _joined(pieces: Sequence[tuple[bytes, bytes]]) -> bytes:
    return b"".join([name for name, _ in pieces])


def _pieces(data: memoryview, key: bytes, known: frozenset[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the named chunks of a value: large ones for regions at rest, small ones where it changes."""
    regions = list(_cut(data, LARGE))
    for position, region in enumerate(regions):
        whole = (name_of(region, key), region)
        is_open = position == len(regions) - 1  # ends with the value and not by its content: it will grow
        if not is_open and (not known or whole[0] in known):
            yield whole
            continue
        small = [(name_of(piece, key), piece) for piece in _cut(region, SMALL)]
        at_rest = not is_open and all(name in known for name, _ in small)
        yield from [whole] if at_rest else small


def _cut(data: bytes | memoryview, average: int) -> Iterator[bytes]:
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
