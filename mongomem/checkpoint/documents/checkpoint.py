"""The documents of checkpoints and of pending writes: each encoder beside its decoder. Pure.

A decoded document is checked: it is what was stored in this place, and whole. Its values are not
loaded yet (`mongomem.checkpoint.plans.load`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, cast

from langgraph.checkpoint.base import Checkpoint, writes_sort_key

from mongomem.arguments import checked_mapping, shown
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    checkpoint_doc_id,
    write_doc_id,
)
from mongomem.checkpoint.documents.config import (
    CheckpointRef,
    channel_name,
)
from mongomem.checkpoint.documents.fields import (
    SCHEMA_VERSION,
    Title,
    check_key,
    check_type,
    check_version,
    decode_value,
    decode_values,
    encode_value,
    read_epoch,
    read_field,
    read_time,
)
from mongomem.checkpoint.serde.chunks import StoredValue
from mongomem.checkpoint.serde.place_digest import Binding, checkpoint_binding, write_binding
from mongomem.checkpoint.serde.serializer import UnopenedError, ValueSerializer
from mongomem.engine.commands import Document
from mongomem.errors import ConfigurationError, CorruptDataError, InvalidInputError, MongomemError

T = TypeVar("T")

FLAGS = ("sends_in_parent", "parent_is_hidden", "hidden")
"""The fields of a checkpoint that are stored only where they are true."""


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as its document has it."""

    ref: CheckpointRef
    parent_id: str | None
    epoch: int
    body: StoredValue
    channels: dict[str, StoredValue]
    touched_at: datetime
    created_at: datetime
    sends_in_parent: bool
    parent_is_hidden: bool
    hidden: bool
    hidden_at: datetime | None = None

    @property
    def size(self) -> int:
        """Return how many serialized bytes it stands for."""
        return self.body.size + sum(value.size for value in self.channels.values())

    @property
    def binding(self) -> Binding:
        """Return what its content is bound to when it is stored."""
        return checkpoint_binding(
            self.ref.place,
            self.parent_id,
            self.epoch,
            self.created_at,
            self.sends_in_parent,
            self.body,
            self.channels,
        )


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """A pending write as its document has it; one with chunks tells the epoch of the thread that
    they belong to.
    """

    ref: CheckpointRef
    task_id: str
    task_path: str
    idx: int
    channel: str
    value: StoredValue
    epoch: int | None
    touched_at: datetime

    def sort_key(self) -> tuple[str, str, int]:
        """Return the place of the write among those of its super-step."""
        return writes_sort_key(self.task_path, self.task_id, self.idx)

    @property
    def binding(self) -> Binding:
        """Return what its content is bound to."""
        return write_binding(
            self.ref.place,
            self.task_id,
            self.task_path,
            self.idx,
            self.channel,
            self.epoch,
            self.value,
        )


def encode_checkpoint(
    checkpoint: StoredCheckpoint,
    readable: Document,
    serializer: ValueSerializer,
    *,
    compress: bool = True,
) -> Document:
    """Return the document of a checkpoint, its fields in the order in which they are stored.

    Args:
        checkpoint: What it stands for.
        readable: The fields that hold the readable copy of its metadata.
        serializer: Holds its content, encrypted where it encrypts.
        compress: Whether its content is compressed.
    """
    channels = checkpoint.channels.items()
    content = b"".join([checkpoint.body.inline, *(value.inline for _, value in channels)])
    return {
        "_id": checkpoint_doc_id(checkpoint.ref),
        "type": CHECKPOINT,
        **_encode_ref(checkpoint.ref),
        "parent_checkpoint_id": checkpoint.parent_id,
        "created_at": checkpoint.created_at,
        "touched_at": checkpoint.touched_at,
        "schema_version": SCHEMA_VERSION,
        "epoch": checkpoint.epoch,
        **readable,
        **{flag: True for flag in FLAGS if getattr(checkpoint, flag)},
        **({} if checkpoint.hidden_at is None else {"hidden_at": checkpoint.hidden_at}),
        "body": _described(checkpoint.body),
        "channels": [{"channel": channel, **_described(value)} for channel, value in channels],
        "content": serializer.seal(content, checkpoint.binding, compress),
    }


def _encode_ref(ref: CheckpointRef) -> Document:
    return {
        "thread_id": ref.thread_id,
        "checkpoint_ns": ref.checkpoint_ns,
        "checkpoint_id": ref.checkpoint_id,
    }


def _described(value: StoredValue) -> Document:
    return {**encode_value(value), "length": len(value.inline)}


def decode_checkpoint(document: Document, serializer: ValueSerializer) -> StoredCheckpoint:
    """Read a checkpoint document, and see that it is what was stored in this place.

    Raises:
        CorruptDataError: It is not, or lacks a field, or a field is of another type.
        SchemaVersionError: It was written by a newer mongomem.
    """
    where = Title("checkpoint {checkpoint_id} of thread {thread_id}", document)
    return _decoded(_read_checkpoint, document, serializer, where)


def _decoded(
    read: Callable[[Document, ValueSerializer], T],
    document: Document,
    serializer: ValueSerializer,
    where: Title,
) -> T:
    check_version(document, where)
    try:
        return read(document, serializer)
    except Exception as error:
        raise _unreadable(where, error) from error


def _read_checkpoint(document: Document, serializer: ValueSerializer) -> StoredCheckpoint:
    ref = _decode_ref(document)
    check_key(document, checkpoint_doc_id(ref))
    check_type(document, CHECKPOINT)
    described = [_document(fields) for fields in read_field(document, "channels", list)]
    opened = serializer.open(read_field(document, "content", dict))
    all_described = [read_field(document, "body", dict), *described]
    body, *values = decode_values(all_described, opened.content)
    channels = [read_field(fields, "channel", str) for fields in described]
    checkpoint = _record(document, ref, body, dict(zip(channels, values, strict=True)))
    opened.check(_provable(checkpoint))
    return checkpoint


def _provable(record: StoredCheckpoint) -> Binding:
    """Return what the content of a stored checkpoint must be bound to: one without a parent may
    have been cut off from it by a removal.
    """
    binding = record.binding
    return binding if record.parent_id is not None else Binding(binding.place, None)


def _record(
    document: Document, ref: CheckpointRef, body: StoredValue, channels: dict[str, StoredValue]
) -> StoredCheckpoint:
    return StoredCheckpoint(
        ref,
        _optional(document, "parent_checkpoint_id"),
        read_epoch(document),
        body,
        channels,
        read_time(document, "touched_at"),
        read_time(document, "created_at"),
        _flag(document, "sends_in_parent"),
        _flag(document, "parent_is_hidden"),
        _flag(document, "hidden"),
        read_time(document, "hidden_at") if "hidden_at" in document else None,
    )


def encode_write(
    write: StoredWrite, serializer: ValueSerializer, *, compress: bool = True
) -> Document:
    """Return the document of a pending write, its fields in the order in which they are stored."""
    return {
        "_id": write_doc_id(write.ref, write.task_id, write.idx),
        **_encode_ref(write.ref),
        "task_id": write.task_id,
        "task_path": write.task_path,
        "idx": write.idx,
        "channel": write.channel,
        "touched_at": write.touched_at,
        "schema_version": SCHEMA_VERSION,
        **({} if write.epoch is None else {"epoch": write.epoch}),
        **encode_value(write.value),
        **serializer.seal(write.value.inline, write.binding, compress),
    }


def decode_write(document: Document, serializer: ValueSerializer) -> StoredWrite:
    """Read the document of a pending write, and see that it is what was stored in this place.

    Raises:
        CorruptDataError: It is not, or lacks a field, or a field is of another type.
        SchemaVersionError: It was written by a newer mongomem.
    """
    where = Title("write to checkpoint {checkpoint_id} of thread {thread_id}", document)
    return _decoded(_read_write, document, serializer, where)


def _read_write(document: Document, serializer: ValueSerializer) -> StoredWrite:
    ref, task_id = _decode_ref(document), read_field(document, "task_id", str)
    idx = int(read_field(document, "idx", int))
    check_key(document, write_doc_id(ref, task_id, idx))
    opened = serializer.open(document)
    write = StoredWrite(
        ref,
        task_id,
        read_field(document, "task_path", str),
        idx,
        read_field(document, "channel", str),
        decode_value(document, opened.content),
        read_epoch(document) if "epoch" in document else None,
        read_time(document, "touched_at"),
    )
    opened.check(write.binding)
    return write


def _decode_ref(document: Document) -> CheckpointRef:
    return CheckpointRef(
        read_field(document, "thread_id", str),
        read_field(document, "checkpoint_ns", str),
        read_field(document, "checkpoint_id", str),
    )


def _document(value: object) -> Document:
    if not isinstance(value, dict):
        raise CorruptDataError(f"{shown(value)} stands where a document belongs")
    return value


def _optional(document: Document, field: str) -> str | None:
    """Return a string that need not be given, but has its field."""
    return None if document[field] is None else read_field(document, field, str)


def _flag(document: Document, field: str) -> bool:
    """Return a flag that only stands there where it is set."""
    return read_field(document, field, bool) if document.get(field) is not None else False


def _unreadable(where: Title, error: Exception) -> MongomemError:
    """Return the error for a document that cannot be read; it says what to do, if that is known."""
    if isinstance(error, UnopenedError):
        return UnopenedError(f"{where}: {error}", error.obstacle)
    if isinstance(error, ConfigurationError):
        return ConfigurationError(f"{where}: {error}")
    why = (
        str(error)
        if isinstance(error, CorruptDataError)
        else f"its document is not readable: {shown(error)}"
    )
    return CorruptDataError(f"{where}: {why}")


FIELDS = {"id": str, "v": int, "channel_values": Mapping, "channel_versions": Mapping}


def checked_checkpoint(checkpoint: object) -> Checkpoint:
    """Return a checkpoint with dicts of its own for its fields, values and versions.

    Raises:
        InvalidInputError: A field is missing or of another type, or a channel has no name.
    """
    fields = checked_mapping("checkpoint", checkpoint)
    for field, kind in FIELDS.items():
        if not isinstance(fields.get(field), kind) or isinstance(fields.get(field), bool):
            raise InvalidInputError(f"a checkpoint has a field {field!r} of type {kind.__name__}")
    if not (text := str.__str__(fields["id"])):
        raise InvalidInputError("the id of a checkpoint is not empty")
    versions = _by_channel("channel_versions", fields["channel_versions"])
    own = {
        "id": text,
        "v": int.__int__(fields["v"]),
        "channel_values": _by_channel("channel_values", fields["channel_values"]),
        "channel_versions": {name: _checked_version(one) for name, one in versions.items()},
    }
    return cast("Checkpoint", fields | own)


def _by_channel(field: str, values: object) -> dict[str, Any]:
    """Return values by channel in a dict of its own, its keys checked."""
    return {
        channel_name(name): one
        for name, one in checked_mapping(f"checkpoint {field}", values).items()
    }


def _checked_version(version: object) -> str | int | float:
    """Return a version in its built-in type, whatever a subclass of it does."""
    if type(version) is str or type(version) is int:
        return version
    if isinstance(version, str):
        return str.__str__(version)
    if isinstance(version, float):
        return float.__float__(version)
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInputError(
            f"the version of a channel is a string or a number, not {shown(version)}"
        )
    return int.__int__(version)
