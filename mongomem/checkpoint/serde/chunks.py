"""Values as content-defined chunks: what makes storage grow with what changed.

A value is serialized bytes. A small one stays inline in its document. A larger one is cut by
content-defined chunking (FastCDC), and each chunk is stored once per thread under the hash of its
content: appending to a list, trimming its head or editing its middle makes one or two new chunks.

There are chunks of two sizes. Where a value changes, chunks of about 1 KB keep the change small;
where it does not, one chunk of about 16 KB replaces a dozen of them, so that a long value is few
documents to read. Segments are what lies between two large cuts. A segment is rewritten as one
large chunk once the parent references every small chunk of it; a value that has nothing in common
with the parent is stored in large chunks at once.

Head and tail of a value stay inline in the document. The head is its first bytes, where serializers
write lengths that change at every step. The tail is what lies behind its last cut, which the next
append would change. The hashes of the chunks, joined, are bytes themselves: a hash list. While it
is long it is cut and stored the same way, one level up, and its own tail stays inline too:

    bytes     = head + chunks of the hashes in hash_levels[-1] + tail
    hash_levels[-1] = chunks of the hashes in hash_levels[-2], joined, + the inline end of this
                level, and so on up to hash_levels[0]

The format depends on no cutter: any cut that joins to the same bytes reads the same. Pure: no
document, no serializer, no server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from pyfastcdc import FastCDC

HASH_BYTES = 16
"""Length of the hash of a chunk."""

HEAD_BYTES = 16

SMALL, LARGE = 1024, 16 * 1024
"""Average sizes of chunks. Measured on 400 turns of two 1 KB messages (docs/performance.md)."""

HASH_LIST = 256
"""Average size of a chunk of a hash list."""

LONGEST_HASH_LIST = 32 * HASH_BYTES
"""The longest hash list that is not cut and stored one level up."""


@dataclass(frozen=True, slots=True)
class StoredValue:
    """What a document holds of a value.

    Attributes:
        type: The serializer's name for the encoding, e.g. ``"msgpack"``.
        inline: The inline bytes: all of them, or head and tail of a value in chunks.
        hash_levels: The inline bytes of the hash list by level, the highest first; empty where
            `inline` is all.
        size: Length of the serialized bytes.
    """

    type: str
    inline: bytes
    hash_levels: tuple[bytes, ...]
    size: int

    def join(self, pieces: Sequence[bytes]) -> bytes:
        """Return the serialized bytes, given the contents of the chunks in order."""
        if not self.hash_levels:
            return self.inline
        return b"".join([self.inline[:HEAD_BYTES], *pieces, self.inline[HEAD_BYTES:]])


Chunk: TypeAlias = tuple[bytes, bytes]
"""A chunk: its hash and its content."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a value between two large cuts, and the hashes of the chunks it is stored as."""

    content: bytes
    hashes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ParentChunks:
    """The chunks of the same channel in the parent document.

    `segments` and `open_chunks` only avoid work: a value that begins with them is neither cut nor
    hashed there again. Without them the same bytes are stored.

    Attributes:
        hashes: Those of all chunks that the value references, of content and hash lists.
        segments: Its finished segments, in order, where the process still has them.
        open_chunks: The chunks behind them, of the segment that is not finished, likewise.
    """

    hashes: frozenset[bytes] = frozenset()
    segments: tuple[Segment, ...] = ()
    open_chunks: tuple[Chunk, ...] = ()


NO_PARENT_CHUNKS = ParentChunks()


@dataclass(frozen=True, slots=True)
class ChunkedValue:
    """A value, chunked.

    Attributes:
        stored: What the document holds.
        chunks: Content by hash: the chunks that the parent does not reference, to be written.
        referenced: All chunks of the value, for the next put.
    """

    stored: StoredValue
    chunks: dict[bytes, bytes]
    referenced: ParentChunks


def inline_value(type: str, data: bytes) -> ChunkedValue:
    """Keep a value in the document."""
    return ChunkedValue(StoredValue(type, data, (), len(data)), {}, NO_PARENT_CHUNKS)


def chunk_value(
    type: str,
    data: bytes,
    key: bytes,
    parent: ParentChunks = NO_PARENT_CHUNKS,
    *,
    keep_tail: bool = True,
) -> ChunkedValue:
    """Cut a value into chunks that are hashed under `key`, with as many levels of hash lists as it
    needs.

    From the front to the back: finished segments, the chunks of the open segment, the tail. What
    the parent has of segments and chunks is compared and not cut again, so the time is that of what
    changed. Refused: cutting the whole value every time, which hashes a long history at every step
    to find nothing new in it; and small chunks throughout, which are twelve times the documents of
    a read. Then from the bottom to the top: the hash list, and the hash lists of its chunks.

    Without `keep_tail` the tail becomes a chunk too: for documents that hold too much already.
    """
    chunks: dict[bytes, bytes] = {}
    segments, open_content = _segments(data, key, parent, chunks)
    before = parent.open_chunks if len(segments) == len(parent.segments) else ()
    open_chunks, tail = _chunk_open_segment(open_content, key, before, keep_tail)
    chunks.update(open_chunks)
    levels, reached = _hash_levels(_hash_list(segments, open_chunks), key, chunks)
    return ChunkedValue(
        StoredValue(type, data[:HEAD_BYTES] + tail, levels, len(data)),
        {name: content for name, content in chunks.items() if name not in parent.hashes},
        ParentChunks(reached, segments, tuple(open_chunks)),
    )


def _segments(
    data: bytes, key: bytes, parent: ParentChunks, chunks: dict[bytes, bytes]
) -> tuple[tuple[Segment, ...], bytes]:
    """Return the finished segments of a value, and the content behind them: the open segment.

    A cut depends on nothing in front of the cut before it, so cutting goes on where the segments
    end that the value has in common with the parent. `chunks` takes the chunks that the parent may
    not reference yet.
    """
    segments: list[Segment] = []
    start = HEAD_BYTES
    for segment in parent.segments:
        if not data.startswith(segment.content, start):
            break
        segments.append(_coarsened(segment, key, chunks))
        start += len(segment.content)
    *finished, open_content = _cut(data[start:], LARGE)
    segments += [_new_segment(content, key, parent.hashes, chunks) for content in finished]
    return tuple(segments), open_content


def _coarsened(segment: Segment, key: bytes, chunks: dict[bytes, bytes]) -> Segment:
    """Store a segment that did not change as one large chunk."""
    if len(segment.hashes) == 1:
        return segment
    name = content_hash(segment.content, key)
    chunks[name] = segment.content
    return Segment(segment.content, (name,))


def _new_segment(
    content: bytes, key: bytes, referenced: frozenset[bytes], chunks: dict[bytes, bytes]
) -> Segment:
    """Store a segment that was cut now: as one large chunk where the parent references nothing at
    all, that chunk, or every small chunk of it; else as small chunks, of which it may reference
    some.
    """
    large = [(content_hash(content, key), content)]
    is_fine = bool(referenced) and large[0][0] not in referenced
    small = _hashed(_cut(content, SMALL), key) if is_fine else []
    stored = large if all(name in referenced for name, _ in small) else small
    chunks.update(stored)
    return Segment(content, tuple([name for name, _ in stored]))


def _chunk_open_segment(
    content: bytes, key: bytes, before: Sequence[Chunk], keep_tail: bool
) -> tuple[list[Chunk], bytes]:
    """Return the small chunks of an unfinished segment, those from `before` that it begins with as
    they are, and its tail, which is empty where it became a chunk.
    """
    chunks: list[Chunk] = []
    start = 0
    for chunk in before:
        if not content.startswith(chunk[1], start):
            break
        chunks.append(chunk)
        start += len(chunk[1])
    *complete, tail = _cut(content[start:], SMALL)
    if not keep_tail:
        complete, tail = [*complete, tail], b""
    return chunks + _hashed(complete, key), tail


def _hash_list(segments: Sequence[Segment], open_chunks: Sequence[Chunk]) -> bytes:
    hashes = [name for segment in segments for name in segment.hashes]
    return b"".join([*hashes, *[name for name, _ in open_chunks]])


def _hash_levels(
    hash_list: bytes, key: bytes, chunks: dict[bytes, bytes]
) -> tuple[tuple[bytes, ...], frozenset[bytes]]:
    """Cut a hash list while it is long, into `chunks`; return the inline bytes of each level, the
    highest first, and all hashes there are.
    """
    inline_ends, reached = list[bytes](), set(split_hashes(hash_list))
    while len(hash_list) > LONGEST_HASH_LIST:
        *complete, inline_end = _cut(hash_list, HASH_LIST)
        inline_ends.append(inline_end)
        level = _hashed(complete, key)
        chunks.update(level)
        hash_list = b"".join([name for name, _ in level])
        reached.update(split_hashes(hash_list))
    return (hash_list, *reversed(inline_ends)), frozenset(reached)


def _hashed(contents: Sequence[bytes], key: bytes) -> list[Chunk]:
    return [(content_hash(content, key), content) for content in contents]


def content_hash(content: bytes, key: bytes) -> bytes:
    """Return the hash of a chunk: the same content under the same key has one."""
    return blake2b(content, digest_size=HASH_BYTES, key=key).digest()


def split_hashes(hash_list: bytes) -> list[bytes]:
    """Split joined hashes."""
    return [hash_list[start : start + HASH_BYTES] for start in range(0, len(hash_list), HASH_BYTES)]


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
