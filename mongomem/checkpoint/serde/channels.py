"""From a checkpoint to what is stored of it, by comparison with its parent. Pure.

A channel that the parent document holds at the same version keeps the parent's reference and is not
serialized again, also where it is absent from ``channel_values``: a channel that left the graph, a
snapshot of a DeltaChannel. Otherwise a value that is present is encoded, and one that is not is
empty. Documents are compared, never ``new_versions`` (``bulk_update_state(..., "__copy__")`` passes
none) and never (channel, version) alone (integer versions collide between forks).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.base import Checkpoint

from mongomem.arguments import shown
from mongomem.checkpoint.serde.chunks import (
    NO_PARENT_CHUNKS,
    ChunkedValue,
    ParentChunks,
    StoredValue,
    chunk_value,
    fits,
    inline_value,
)
from mongomem.checkpoint.serde.serializer import ValueSerializer
from mongomem.errors import MongomemError, UnstorableValueError

INLINE_BYTES = 4096
"""What the values of one document may hold inline, all together."""

ENDS_BYTES = 256 * 1024
"""What the ends of cut values may come to in one document; above it tails become chunks as well."""

FRESH_BYTES = 2048
"""A new value up to this long stays inline: most are read once and replaced."""

KEPT_BYTES = 256
"""A value that outlived a super-step stays inline up to this long; a longer one becomes a chunk to
refer to."""

SHORT_STATE = 64 * 1024
"""Up to this many serialized bytes of state nothing is packed: there is little to save, and each
packing makes a put wait for the interpreter lock, which the running graph takes meanwhile
(docs/decisions/uncompressed-content.md)."""

SENDS_IN_CHECKPOINT = 4
"""The checkpoint format from which on pending sends are a channel (langgraph 0.5); older ones leave
them with the writes of the parent, as ``PostgresSaver`` knows too."""


@dataclass(frozen=True, slots=True)
class ParentState:
    """What a put must know of its parent document.

    Attributes:
        versions: The version of every channel.
        channels: The values that it holds.
        referenced: What is known of their chunks, by channel.
        generation: The generation of the thread that it was seen under; None if that was not known.
    """

    versions: dict[str, str | int | float]
    channels: dict[str, StoredValue]
    referenced: dict[str, ParentChunks]
    generation: int | None

    def weight(self) -> int:
        """Return about how many bytes it holds."""
        total = 100 * len(self.versions)
        for value in self.channels.values():
            total += len(value.inline)
        for chunks in self.referenced.values():
            total += _content_bytes(chunks) + 100 * len(chunks.hashes)
        return total


def _content_bytes(chunks: ParentChunks) -> int:
    """Return how many bytes of content the process still has of the chunks of a value."""
    segments = sum(len(segment.content) for segment in chunks.segments)
    return segments + sum(len(content) for _, content in chunks.open_chunks)


NO_PARENT = ParentState({}, {}, {}, None)

Serialized = tuple[str, bytes]


BODY = ""
"""The key of the body among values: no channel has an empty name."""


@dataclass(frozen=True, slots=True)
class EncodedCheckpoint:
    """What a document of a checkpoint holds.

    Attributes:
        body: The checkpoint without its values, with its metadata.
        channels: The values, by channel.
        referenced: The chunks that each of the values reaches.
        chunks: Content by hash: the chunks that the parent does not reach, to be written.
        sends_in_parent: Whether the format is one that leaves pending sends with the parent's
            writes.
        compress: Whether content is compressed: not while the whole state is short.
    """

    body: StoredValue
    channels: dict[str, StoredValue]
    referenced: dict[str, ParentChunks]
    chunks: dict[bytes, bytes]
    sends_in_parent: bool
    compress: bool

    @property
    def new_bytes(self) -> int:
        """Return how many bytes of content and of names of channels are to be written."""
        inline = [len(name) + len(one.inline) for name, one in self.channels.items()]
        return len(self.body.inline) + sum(inline) + sum(map(len, self.chunks.values()))


def serialize_body(
    checkpoint: Checkpoint, metadata: Mapping[str, Any], serializer: ValueSerializer
) -> Serialized:
    """Serialize a checkpoint without its values, together with its metadata."""
    bare = {field: value for field, value in checkpoint.items() if field != "channel_values"}
    try:
        return serialized(
            serializer,
            "the checkpoint %s",
            checkpoint["id"],
            {"checkpoint": bare, "metadata": dict(metadata)},
        )
    except UnstorableValueError:
        for field, value in {**bare, "metadata": dict(metadata)}.items():
            serialized(serializer, "the field %s of a checkpoint", field, value)
        raise


def serialize_values(
    checkpoint: Checkpoint,
    parent: ParentState,
    serializer: ValueSerializer,
    done: Container[str] = (),
) -> dict[str, Serialized]:
    """Serialize the values that are neither `done` nor held by the parent at the same version."""
    versions = checkpoint["channel_versions"]
    return {
        channel: serialized(serializer, "channel %s", channel, value)
        for channel, value in checkpoint["channel_values"].items()
        if channel not in done and not holds(parent, channel, versions.get(channel))
    }


def serialized(serializer: ValueSerializer, what: str, name: str, value: Any) -> Serialized:
    """Serialize a value. `what` has room for its name, which is written only where a message is.

    Raises:
        UnstorableValueError: The serializer cannot; says what it was to serialize.
    """
    try:
        return serializer.dumps(value)
    except MongomemError:
        raise
    except Exception as error:
        raise UnstorableValueError(
            f"{what % shown(name)} cannot be serialized: {type(error).__name__}: "
            f"{shown(str(error))}"
        ) from error


def holds(parent: ParentState, channel: str, version: str | float | None) -> bool:
    """Say whether the parent document holds a value of the channel at this version."""
    return (
        version is not None
        and channel in parent.channels
        and parent.versions.get(channel) == version
    )


def encode(
    values: Mapping[str, Serialized], checkpoint: Checkpoint, parent: ParentState, key: bytes
) -> EncodedCheckpoint:
    """Decide what of the values is inline, what is chunks and what is the parent's.

    What the parent holds at the same version comes first, for nothing of it is serialized or cut,
    unless it is to stay inline for longer than `KEPT_BYTES` allows. New values are decided on
    together, since all share the room of one document. Tails are looked at last: their sum is known
    only when all is cut. Refused: to cut without tails from the start, which writes a chunk more
    for every value that grows.
    """
    versions = checkpoint["channel_versions"]
    kept = {
        channel: parent.channels[channel]
        for channel in versions
        if holds(parent, channel, versions[channel])
    }
    fresh = {channel: value for channel, value in values.items() if channel not in kept}
    cuts = _cut(kept, fresh, parent, key)
    stored = kept | {channel: made.stored for channel, made in cuts.items()}
    size = sum([value.size for value in stored.values()])
    return EncodedCheckpoint(
        stored.pop(BODY),
        stored,
        _known(parent, kept, cuts),
        {name: content for made in cuts.values() for name, content in made.chunks.items()},
        checkpoint["v"] < SENDS_IN_CHECKPOINT,
        size > SHORT_STATE,
    )


def are_inline(values: Mapping[str, Serialized]) -> bool:
    """Say whether new values all stay inline, so that they need no chunk."""
    return all(_stay(values))


def _stay(values: Mapping[str, Serialized]) -> list[bool]:
    """Say which of the new values stay inline."""
    return fits([len(data) for _, data in values.values()], FRESH_BYTES, INLINE_BYTES)


def _cut(
    kept: Mapping[str, StoredValue],
    fresh: Mapping[str, Serialized],
    parent: ParentState,
    key: bytes,
) -> dict[str, ChunkedValue]:
    """Cut what is not stored as the parent stores it, without tails where these come to more than
    `ENDS_BYTES`.
    """
    cuts = _cut_kept(kept, key) | _cut_fresh(fresh, parent, key)
    if sum(len(made.stored.inline) for made in cuts.values()) > ENDS_BYTES:
        cuts |= _cut_without_tails(fresh, cuts, key)
    return cuts


def _known(
    parent: ParentState, kept: Mapping[str, StoredValue], cuts: Mapping[str, ChunkedValue]
) -> dict[str, ParentChunks]:
    """Return what the next put will know of the chunks of each value; a value without chunks has no
    entry.
    """
    known = {
        channel: parent.referenced[channel] for channel in kept if channel in parent.referenced
    }
    return known | {
        channel: made.referenced for channel, made in cuts.items() if made.referenced.hashes
    }


def _cut_kept(kept: Mapping[str, StoredValue], key: bytes) -> dict[str, ChunkedValue]:
    """Cut the inline values of the parent that are too long to stay inline in one more document."""
    return {
        channel: chunk_value(one.type, one.inline, key)
        for channel, one in kept.items()
        if not one.hash_levels and one.size > KEPT_BYTES
    }


def _cut_without_tails(
    fresh: Mapping[str, Serialized], cuts: Mapping[str, ChunkedValue], key: bytes
) -> dict[str, ChunkedValue]:
    """Cut the new values that are in chunks again, so that none leaves a tail in the document."""
    return {
        channel: chunk_value(*fresh[channel], key, keep_tail=False)
        for channel in fresh
        if cuts[channel].stored.hash_levels
    }


def _cut_fresh(
    values: Mapping[str, Serialized], parent: ParentState, key: bytes
) -> dict[str, ChunkedValue]:
    """Keep the new values inline for which there is room, and cut the others."""
    return {
        channel: inline_value(*value)
        if stays
        else chunk_value(*value, key, parent.referenced.get(channel, NO_PARENT_CHUNKS))
        for (channel, value), stays in zip(values.items(), _stay(values), strict=True)
    }
