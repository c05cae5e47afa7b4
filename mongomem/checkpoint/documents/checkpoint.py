"""Records: documents of checkpoints and writes, read and checked, their values not yet loaded.
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from langgraph.checkpoint.base import writes_sort_key

from mongomem.arguments import shown
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    Title,
    check_key,
    check_type,
    check_version,
    checkpoint_doc_id,
    read_epoch,
    read_field,
    read_time,
    read_value,
    read_values,
    write_doc_id,
)
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.serde.chunks import StoredValue
from mongomem.checkpoint.serde.place_digest import Binding, checkpoint_binding, write_binding
from mongomem.checkpoint.serde.serializer import UnopenedError, ValueSerializer
from mongomem.engine.commands import Document
from mongomem.errors import ConfigurationError, CorruptDataError, MongomemError


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as its document has it."""

    address: CheckpointRef
    parent_id: str | None
    epoch: int
    body: StoredValue
    channels: dict[str, StoredValue]
    touched_at: datetime
    created_at: datetime
    sends_in_parent: bool
    parent_is_hidden: bool
    hidden: bool

    @property
    def size(self) -> int:
        """Return how many serialized bytes it stands for."""
        return self.body.size + sum(value.size for value in self.channels.values())

    @property
    def binding(self) -> Binding:
        """Return what its content is bound to. One without a parent may have been cut off from
        it.
        """
        made = checkpoint_binding(
            self.address.place,
            self.parent_id,
            self.epoch,
            self.created_at,
            self.sends_in_parent,
            self.body,
            self.channels,
        )
        return made if self.parent_id is not None else Binding(made.place, None)


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """A pending write as its document has it; one with chunks tells the epoch of the thread that
    they belong to.
    """

    address: CheckpointRef
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
            self.address.place,
            self.task_id,
            self.task_path,
            self.idx,
            self.channel,
            self.epoch,
            self.value,
        )


def decode_checkpoint(document: Document, codec: ValueSerializer) -> StoredCheckpoint:
    """Read a checkpoint document, and see that it is what was stored in this place.

    Raises:
        CorruptDataError: It is not, or lacks a field, or a field is of another type.
        SchemaVersionError: It was written by a newer mongomem.
    """
    where = Title("checkpoint {checkpoint_id} of thread {thread_id}", document)
    check_version(document, where)
    try:
        address = _address(document)
        check_key(document, checkpoint_doc_id(address))
        check_type(document, CHECKPOINT)
        described = [_document(fields) for fields in read_field(document, "channels", list)]
        opened = codec.open(read_field(document, "content", dict))
        body, *values = read_values(
            [read_field(document, "body", dict), *described], opened.content
        )
        channels = [read_field(fields, "channel", str) for fields in described]
        record = _record(document, address, body, dict(zip(channels, values, strict=True)))
        opened.check(record.binding)
    except Exception as error:
        raise _unreadable(where, error) from error
    return record


def _record(
    document: Document, address: CheckpointRef, body: StoredValue, channels: dict[str, StoredValue]
) -> StoredCheckpoint:
    return StoredCheckpoint(
        address,
        _optional(document, "parent_checkpoint_id"),
        read_epoch(document),
        body,
        channels,
        read_time(document, "touched_at"),
        read_time(document, "created_at"),
        _flag(document, "sends_in_parent"),
        _flag(document, "parent_is_hidden"),
        _flag(document, "hidden"),
    )


def decode_write(document: Document, codec: ValueSerializer) -> StoredWrite:
    """Read the document of a pending write, and see that it is what was stored in this place.

    Raises:
        CorruptDataError: It is not, or lacks a field, or a field is of another type.
        SchemaVersionError: It was written by a newer mongomem.
    """
    where = Title("write to checkpoint {checkpoint_id} of thread {thread_id}", document)
    check_version(document, where)
    try:
        address, task_id, idx = (
            _address(document),
            read_field(document, "task_id", str),
            document["idx"],
        )
        check_key(document, write_doc_id(address, task_id, read_field(document, "idx", int)))
        opened = codec.open(document)
        write = StoredWrite(
            address,
            task_id,
            read_field(document, "task_path", str),
            int(idx),
            read_field(document, "channel", str),
            read_value(document, opened.content),
            read_epoch(document) if "epoch" in document else None,
            read_time(document, "touched_at"),
        )
        opened.check(write.binding)
    except Exception as error:
        raise _unreadable(where, error) from error
    return write


def _address(document: Document) -> CheckpointRef:
    return CheckpointRef(
        *(
            read_field(document, field, str)
            for field in ("thread_id", "checkpoint_ns", "checkpoint_id")
        )
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
    """Return what to raise for a document that cannot be read: what to do about it, if that is
    known.
    """
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
