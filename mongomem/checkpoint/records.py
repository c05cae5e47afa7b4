"""Records: documents of checkpoints and writes, read and checked, their values not yet loaded. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from langgraph.checkpoint.base import writes_sort_key

from mongomem.checkpoint.addresses import Address
from mongomem.checkpoint.chunks import Stored
from mongomem.checkpoint.codec import Codec
from mongomem.checkpoint.documents import check_version, read_value, read_values, utc
from mongomem.commands import Document
from mongomem.errors import ConfigurationError, CorruptDataError, MongomemError


@dataclass(frozen=True, slots=True)
class Record:
    """A checkpoint as its document has it, with the epoch of its thread that it belongs to."""

    address: Address
    parent_id: str | None
    body: Stored
    channels: dict[str, Stored]
    touched_at: datetime
    created_at: datetime
    sends_in_parent: bool
    parent_is_hidden: bool
    hidden: bool
    epoch: int

    @property
    def size(self) -> int:
        """Return how many serialized bytes it stands for."""
        return self.body.size + sum(value.size for value in self.channels.values())


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """A pending write as its document has it; one with chunks tells the epoch of the thread that they belong to."""

    address: Address
    task_id: str
    task_path: str
    idx: int
    channel: str
    value: Stored
    epoch: int | None

    def sort_key(self) -> tuple[str, str, int]:
        """Return the place of the write among those of its super-step."""
        return writes_sort_key(self.task_path, self.task_id, self.idx)


def read_record(document: Document, codec: Codec) -> Record:
    """Read a checkpoint document.

    Raises:
        CorruptDataError: It lacks a field, or a field is of another type.
        SchemaVersionError: It was written by a newer mongomem.
    """
    where = f"checkpoint {document.get('checkpoint_id')!r} of thread {document.get('thread_id')!r}"
    check_version(document, where)
    try:
        address = _address(document)
        body, *values = read_values([document["body"], *document["channels"]], codec.open(document["content"]))
        channels = {_text(fields["channel"]): value for fields, value in zip(document["channels"], values, strict=True)}
        parent_id = document["parent_checkpoint_id"]
        return Record(
            address,
            None if parent_id is None else _text(parent_id),
            body,
            channels,
            utc(document["touched_at"]),
            utc(document["created_at"]),
            bool(document.get("sends_in_parent")),
            bool(document.get("parent_is_hidden")),
            bool(document.get("hidden")),
            int(document["epoch"]),
        )
    except Exception as error:
        raise _unreadable(where, error) from error


def read_write(document: Document, codec: Codec) -> WriteRecord:
    """Read the document of a pending write.

    Raises:
        CorruptDataError: It lacks a field, or a field is of another type.
        SchemaVersionError: It was written by a newer mongomem.
    """
    where = f"write to checkpoint {document.get('checkpoint_id')!r} of thread {document.get('thread_id')!r}"
    check_version(document, where)
    try:
        return WriteRecord(
            _address(document),
            _text(document["task_id"]),
            _text(document["task_path"]),
            int(document["idx"]),
            _text(document["channel"]),
            read_value(document, codec.open(document)),
            document.get("epoch"),
        )
    except Exception as error:
        raise _unreadable(where, error) from error


def _address(document: Document) -> Address:
    return Address(*(_text(document[field]) for field in ("thread_id", "checkpoint_ns", "checkpoint_id")))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where a string belongs")
    return value


def _unreadable(where: str, error: Exception) -> MongomemError:
    """Return what to raise for a document that cannot be read: what to do about it, if that is known."""
    if isinstance(error, ConfigurationError):
        return ConfigurationError(f"{where}: {error}")
    return CorruptDataError(f"{where}: its document is not readable: {error!r}")
