"""What a document says of a checkpoint, decoded and read by the serializer of the saver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import checked_checkpoint
from mongomem.checkpoint.documents.identity import named_metadata
from mongomem.checkpoint.plans.load import deserialize, deserialize_body
from mongomem.checkpoint.plans.put_writes import SerializedWrite
from mongomem.checkpoint.serde.channels import BODY, Serialized
from mongomem.checkpoint.serde.chunks import StoredValue
from mongomem.errors import ConfigurationError, InvalidInputError
from mongomem.transfer.given_thread import GivenCheckpoint, GivenThread
from mongomem.transfer.json_parts import Part
from mongomem.transfer.pieces import GivenPieces, decode_value

TASK = ("task_id", "task_path")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A checkpoint that is imported, as the serializer reads it and as bytes; whom it names, by
    identity key; its writes by task and path.
    """

    checkpoint: Checkpoint
    metadata: Any
    users: Mapping[str, tuple[str, ...]]
    values: dict[str, Serialized]
    writes: dict[tuple[str, str], list[SerializedWrite]]


def decode(context: Context, thread: GivenThread, given: GivenCheckpoint) -> Decoded:
    """Decode a checkpoint and its writes, and let the serializer read every value.

    Raises:
        InvalidInputError: One is no value, or none that the serializer reads.
    """
    pieces = GivenPieces.of(thread.pieces)
    part = given.read()
    body = _Value.of(part.member("checkpoint"), pieces)
    parts = part.member("channels").members()
    channels = {name: _Value.of(one, pieces) for name, one in parts}
    bare, metadata = _body(context, given, body)
    values = {name: one.deserialized(context, given) for name, one in channels.items()}
    with named_errors(part):
        checkpoint = checked_checkpoint({**bare, "channel_values": values})
        users = named_metadata({}, metadata, context.options.metadata_keys).by_key
    serialized = {name: one.serialized for name, one in {BODY: body, **channels}.items()}
    return Decoded(
        checkpoint,
        metadata,
        users,
        serialized,
        _writes(context, given, part.member("writes"), pieces),
    )


@contextmanager
def named_errors(part: Part) -> Iterator[None]:
    """Name the part in an error about it."""
    try:
        yield
    except (InvalidInputError, ConfigurationError) as error:
        raise part.named(error) from error


def _body(
    context: Context, given: GivenCheckpoint, value: _Value
) -> tuple[Checkpoint, CheckpointMetadata]:
    """Let the serializer read the body of a checkpoint.

    Raises:
        InvalidInputError: It is none, or that of another checkpoint.
    """
    try:
        checkpoint, metadata = deserialize_body(context, given.ref, value.stored, value.data)
    except Exception as error:
        raise value.part.named(error) from error
    if checkpoint.get("id") != given.ref.checkpoint_id:
        raise value.part.wrong(f"checkpoint {shown(given.ref.checkpoint_id)}")
    return checkpoint, metadata


@dataclass(frozen=True, slots=True)
class _Value:
    """A serialized value of a document that is imported."""

    part: Part
    serialized: Serialized

    @classmethod
    def of(cls, part: Part, pieces: GivenPieces) -> _Value:
        return cls(part, decode_value(part, pieces))

    @property
    def data(self) -> bytes:
        return self.serialized[1]

    @property
    def stored(self) -> StoredValue:
        kind, data = self.serialized
        return StoredValue(kind, data, (), len(data))

    def deserialized(self, context: Context, given: GivenCheckpoint) -> Any:
        """Let the serializer read the value.

        Raises:
            InvalidInputError: It does not.
        """
        try:
            return deserialize(context, given.ref, self.stored, self.data)
        except Exception as error:
            raise self.part.named(error) from error


def _writes(
    context: Context, given: GivenCheckpoint, writes: Part, pieces: GivenPieces
) -> dict[tuple[str, str], list[SerializedWrite]]:
    """Return the writes of a checkpoint by task and path."""
    found: dict[tuple[str, str], list[SerializedWrite]] = {}
    for part in writes.parts():
        value = _Value.of(part.member("value"), pieces)
        value.deserialized(context, given)
        task, path = (part.member(name).identifier(optional=True) for name in TASK)
        found.setdefault((task, path), []).append(_write(part, value))
    return found


def _write(part: Part, value: _Value) -> SerializedWrite:
    idx, channel = part.member("idx").number(-(2**31)), part.member("channel").identifier()
    return SerializedWrite(idx, channel, value.serialized)
