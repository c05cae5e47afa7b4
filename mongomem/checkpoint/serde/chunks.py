"""Values as content-defined chunks: what makes storage grow with what changed.

A value is serialized bytes. A small one stays inline in its document. A larger one is cut where its
content says so (FastCDC), and each chunk is stored once per thread under the hash of its content:
appending to a list, trimming its head or editing its middle makes one or two new chunks.

Two sizes of cut serve two ends. Where a value changes, chunks of about 1 KB keep the change small;
where it has come to rest, one chunk of about 16 KB stands for a dozen of them, so that a long value
is few documents to read. A region goes from small to large once the parent reaches every small
chunk of it; a value with nothing to share goes large at once.

The ends of a value stay in the document: its first bytes, where serializers write lengths that
change at every step, and what lies behind its last cut, which the next append would make a new
chunk of. The names of the chunks, joined, are bytes themselves; while they are long they are cut
and stored the same way, one level up, and their unfinished end stays in the document too:

    bytes    = head + chunks named by names[-1] + tail
    names[-1] = chunks named by names[-2], + what names holds in that place, and so on up to
    names[0]

The format depends on no cutter: any cut that joins to the same bytes reads the same. Pure: no
document, no serializer, no server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from pyfastcdc import FastCDC

NAME_BYTES = 16
"""Length of a chunk's name: a keyed hash of its content."""

HEAD_BYTES = 16

SMALL, LARGE = 1024, 16 * 1024
"""Average sizes of chunks of values. Measured on 400 turns of two 1 KB messages
(docs/performance.md)."""

LONGEST_SMALL = 4 * SMALL
"""The longest chunk that a small cut makes."""

NAMES = 256
"""Average size of a chunk of names."""

LONGEST_NAMES = 32 * NAME_BYTES
"""Names beyond this are cut and stored one level up."""


@dataclass(frozen=True, slots=True)
class StoredValue:
    """What a document holds of a value.

    Attributes:
        type: The serializer's name for the encoding, e.g. ``"msgpack"``.
        ends: The bytes; of a value in chunks its head and its tail, joined.
        names: Joined names of chunks, the highest level first; empty where `ends` is all.
        size: Length of the serialized bytes.
    """

    type: str
    ends: bytes
    names: tuple[bytes, ...]
    size: int

    def whole(self, pieces: Sequence[bytes]) -> bytes:
        """Put the bytes together: the ends, and between them the pieces that the lowest names
        name.
        """
        return (
            b"".join([self.ends[:HEAD_BYTES], *pieces, self.ends[HEAD_BYTES:]])
            if self.names
            else self.ends
        )


Chunk: TypeAlias = tuple[bytes, bytes]
"""A chunk: its name and its content."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a value between two large cuts, and the chunks that it is stored as."""

    content: bytes
    names: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ParentChunks:
    """What is known of the same channel in the parent document.

    Attributes:
        names: Every chunk that its value reaches.
        regions: Its regions, in order, where the process still has them: a value that begins with
            them is not cut and hashed there again.
        growing: The pieces behind them, likewise.
    """

    names: frozenset[bytes] = frozenset()
    regions: tuple[Segment, ...] = ()
    growing: tuple[Chunk, ...] = ()


NO_PARENT_CHUNKS = ParentChunks()


@dataclass(frozen=True, slots=True)
class ChunkedValue:
    """A stored value with all of its chunks that are not known, by name, and what the next cut will
    want to know.
    """

    stored: StoredValue
    chunks: dict[bytes, bytes]
    known: ParentChunks


def inline_value(type: str, data: bytes) -> ChunkedValue:
    """Keep a value in the document."""
    return ChunkedValue(StoredValue(type, data, (), len(data)), {}, NO_PARENT_CHUNKS)


def chunk_value(
    type: str,
    data: bytes,
    key: bytes,
    known: ParentChunks = NO_PARENT_CHUNKS,
    *,
    keep_tail: bool = True,
) -> ChunkedValue:
    """Cut a value into chunks named under `key`, with as many levels of names as it needs.

    From the front to the back: regions that are finished, the pieces of the one that grows, the
    tail behind them. What the parent has of regions and pieces is compared and not cut again, so
    the time is that of what changed. From the bottom to the top: names, and names of names. Cutting
    the whole value anew would hash a long history at every step to find nothing new in it.

    Without `keep_tail` the tail becomes a chunk too: for documents that hold too much already.
    """
    regions, rest, chunks = _regions(data, key, known)
    before = known.growing if len(regions) == len(known.regions) else ()
    growing, tail = _growing(rest, key, before, keep_tail)
    chunks |= dict(growing)
    listed = [name for region in regions for name in region.names] + [name for name, _ in growing]
    names, reached = _names_by_level(b"".join(listed), key, chunks)
    stored = StoredValue(type, data[:HEAD_BYTES] + tail, names, len(data))
    new = {name: piece for name, piece in chunks.items() if name not in known.names}
    return ChunkedValue(stored, new, ParentChunks(reached, regions, tuple(growing)))


def _names_by_level(
    listed: bytes, key: bytes, chunks: dict[bytes, bytes]
) -> tuple[tuple[bytes, ...], frozenset[bytes]]:
    """Cut joined names while they are long, into `chunks`; return what stays of each level, and all
    names there are.
    """
    unfinished, reached = list[bytes](), set(split(listed))
    while len(listed) > LONGEST_NAMES:
        *complete, rest = _cut(listed, NAMES)
        pieces = _named(complete, key)
        listed = b"".join([name for name, _ in pieces])
        unfinished.append(rest)
        chunks.update(pieces)
        reached.update(split(listed))
    return (listed, *reversed(unfinished)), frozenset(reached)


def content_hash(piece: bytes, key: bytes) -> bytes:
    """Name a chunk by its content: the same content under the same key has one name."""
    return blake2b(piece, digest_size=NAME_BYTES, key=key).digest()


def split(names: bytes) -> list[bytes]:
    """Split joined names."""
    return [names[start : start + NAME_BYTES] for start in range(0, len(names), NAME_BYTES)]


def _regions(
    data: bytes, key: bytes, known: ParentChunks
) -> tuple[tuple[Segment, ...], bytes, dict[bytes, bytes]]:
    """Return the finished regions of a value, the rest behind them, and the chunks that have to be
    looked at.
    """
    chunks: dict[bytes, bytes] = {}
    regions: list[Segment] = []
    start = HEAD_BYTES
    for region in known.regions:
        if not data.startswith(region.content, start):
            break
        regions.append(_at_rest(region, key, chunks))
        start += len(region.content)
    # A cut depends on nothing before the one before it, so cutting goes on where the known regions
    # end.
    *finished, growing = _cut(data[start:], LARGE)
    regions += [_region(content, key, known, chunks) for content in finished]
    return tuple(regions), growing, chunks


def _growing(
    content: bytes, key: bytes, before: Sequence[Chunk], keep_tail: bool
) -> tuple[list[Chunk], bytes]:
    """Return the pieces of an unfinished region, those from `before` that it begins with as they
    are, and its tail.

    Without `keep_tail` the tail is the last of the pieces, and empty.
    """
    pieces: list[Chunk] = []
    start = 0
    for name, piece in before:
        if not content.startswith(piece, start):
            break
        pieces.append((name, piece))
        start += len(piece)
    *complete, tail = _cut(content[start:], SMALL)
    return (
        (pieces + _named(complete, key), tail)
        if keep_tail
        else (pieces + _named([*complete, tail], key), b"")
    )


def _at_rest(region: Segment, key: bytes, chunks: dict[bytes, bytes]) -> Segment:
    """Store a region that did not change as one large chunk."""
    if len(region.names) == 1:
        return region
    name = content_hash(region.content, key)
    chunks[name] = region.content
    return Segment(region.content, (name,))


def _region(content: bytes, key: bytes, known: ParentChunks, chunks: dict[bytes, bytes]) -> Segment:
    """Store a region large where all of it is new or all of it is known, else small where it
    changed.
    """
    name = content_hash(content, key)
    small = _named(_cut(content, SMALL), key) if known.names and name not in known.names else []
    if all(one in known.names for one, _ in small):
        small = [(name, content)]
    chunks.update(small)
    return Segment(content, tuple([one for one, _ in small]))


def _named(pieces: Sequence[bytes], key: bytes) -> list[Chunk]:
    return [(content_hash(piece, key), piece) for piece in pieces]


def _cut(data: bytes, average: int) -> list[bytes]:
    """Cut data; the last piece ends with it and not by its content, so it will grow. Empty data is
    one empty piece.
    """
    # A cutter is made per call: pyfastcdc's are not safe to share between threads.
    cutter = FastCDC(average, min_size=average // 4, max_size=average * 4)
    return [bytes(chunk.data) for chunk in cutter.cut_buf(data)] or [b""]


def fits(sizes: Sequence[int], each: int, together: int) -> list[bool]:
    """Say which of the values of these sizes stay inline: none above `each`, the smallest first, up
    to `together`.
    """
    keep = [False] * len(sizes)
    for position in sorted(range(len(sizes)), key=lambda position: sizes[position]):
        together -= sizes[position]
        keep[position] = sizes[position] <= each and together >= 0
    return keep
