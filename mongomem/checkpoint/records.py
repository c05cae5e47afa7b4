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
from mongomem.errors import CorruptDataError, MongomemError


@dataclass(frozen=True, slots=True)
class Record:
    """A checkpoint as its document has it."""

    address: Address
    parent_id: str | None
    body: Stored
    channels: dict[str, Stored]
    touched_at: datetime
    sends_in_parent: bool
    parent_is_hidden: bool

    @property
    def size(self) -> int:
        """Return how many serialized bytes it stands for."""
        return self.body.size + sum(value.size for value in self.channels.values())


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """A pending write as its document has it."""

    address: Address
    task_id: str
    task_path: str
    idx: int
    channel: str
    value: Stored

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
        address = Address(document["thread_id"], document["checkpoint_ns"], document["checkpoint_id"])
        body, *values = read_values([document["body"], *document["channels"]], codec.open(document["content"]))
        channels = {fields["channel"]: value for fields, value in zip(document["channels"], values, strict=True)}
        touched_at, old = utc(document["touched_at"]), bool(document.get("sends_in_parent"))
        cut_off = bool(document.get("parent_is_hidden"))
        return Record(address, document["parent_checkpoint_id"], body, channels, touched_at, old, cut_off)
    except MongomemError:
        raise
    except Exception as error:
        raise CorruptDataError(f"{where}: its document is not readable: {error!r}") from error


def read_write(document: Document, codec: Codec) -> WriteRecord:
    """Read the document of a pending write.

    Raises:
        CorruptDataError: It lacks a field, or a field is of another type.
        SchemaVersionError: It was written by a newer mongomem.
    """
    where = f"write to checkpoint {document.get('checkpoint_id')!r} of thread {document.get('thread_id')!r}"
    check_version(document, where)
    try:
        address = Address(document["thread_id"], document["checkpoint_ns"], document["checkpoint_id"])
        value = read_value(document, codec.open(document))
        return WriteRecord(
            address, document["task_id"], document["task_path"], int(document["idx"]), document["channel"], value
        )
    except MongomemError:
        raise
    except Exception as error:
        raise CorruptDataError(f"{where}: its document is not readable: {error!r}") from error
