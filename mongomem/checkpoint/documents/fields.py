"""The fields of documents, read and checked one by one, and the schema version. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any, TypeVar

from mongomem.arguments import shown
from mongomem.checkpoint.serde.chunks import HASH_BYTES, StoredValue
from mongomem.engine.commands import Document, as_utc
from mongomem.errors import CorruptDataError, SchemaVersionError

T = TypeVar("T")


SCHEMA_VERSION = 1
"""The version of the documents that this code writes. Every older one stays readable."""


LARGEST_EPOCH = 2**63 - 2**32
"""Epochs are below that, so that there is always a next one. Those of the first format were random,
up to 2**62."""


MOST_LEVELS = 16
"""How many levels a hash list may have: each has a sixteenth of the hashes of the one below."""


def next_epoch(now: datetime, last: int | None = None) -> int:
    """Return an epoch above `last`, and above those of a thread whose document is gone:
    microseconds since 1970.

    Epochs of a thread only grow, so what carries a lower one belongs to a life that has ended.
    """
    return max(int(now.timestamp() * 1_000_000), -1 if last is None else last + 1)


def whole_milliseconds(moment: datetime) -> datetime:
    """Return a time as BSON keeps it."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def encode_value(value: StoredValue) -> Document:
    """Return the fields that describe a stored value, whose inline bytes are elsewhere."""
    fields: Document = {"type": value.type}
    if value.hash_levels:
        fields |= {"chunks": list(value.hash_levels), "size": value.size}
    return fields


def decode_value(fields: Mapping[str, Any], inline: bytes) -> StoredValue:
    """Read the description of a stored value whose inline bytes were found.

    Raises:
        CorruptDataError: It lacks a field, or a field is of another type.
    """
    kind = read_field(fields, "type", str)
    if "chunks" not in fields:
        return StoredValue(kind, inline, (), len(inline))
    levels = tuple(fields["chunks"]) if isinstance(fields["chunks"], list) else ()
    if not 0 < len(levels) <= MOST_LEVELS or not all(isinstance(one, bytes) for one in levels):
        raise CorruptDataError(f"its chunks are no names by level: {shown(fields['chunks'])}")
    # Lists of lower levels are whole only together with what their chunks hold.
    if len(levels[0]) % HASH_BYTES:
        raise CorruptDataError(f"its chunks are no names of {HASH_BYTES} bytes each")
    return StoredValue(
        kind, inline, tuple([bytes(one) for one in levels]), read_count(fields, "size")
    )


def decode_values(described: Sequence[Mapping[str, Any]], content: bytes) -> list[StoredValue]:
    """Read the values of a document, whose inline bytes are one behind the other in its content,
    each of its `length`.
    """
    lengths = [read_count(fields, "length") for fields in described]
    if sum(lengths) != len(content):
        raise CorruptDataError(
            f"its values have {sum(lengths)} bytes, and {len(content)} are there"
        )
    stops = accumulate(lengths)
    return [
        decode_value(fields, content[stop - length : stop])
        for fields, length, stop in zip(described, lengths, stops, strict=True)
    ]


def read_field(fields: Mapping[str, Any], field: str, kind: type[T]) -> T:
    """Return a field of a document.

    Raises:
        CorruptDataError: It is not there, or is of another type.
    """
    value = fields.get(field)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise CorruptDataError(f"its {field} is {shown(value)}, where {kind.__name__} belongs")
    return value


def read_count(fields: Mapping[str, Any], field: str) -> int:
    """Return a field that is a number from 0 on."""
    count = read_field(fields, field, int)
    if count < 0:
        raise CorruptDataError(f"its {field} is {count}, which is below 0")
    return int(count)


def is_epoch(value: object) -> bool:
    """Say whether a value is an epoch."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_EPOCH


def read_epoch(fields: Mapping[str, Any]) -> int:
    """Return the epoch of a document."""
    epoch = read_field(fields, "epoch", int)
    if not is_epoch(epoch):
        raise CorruptDataError(f"its epoch is {epoch}, which is none")
    return epoch


def read_time(fields: Mapping[str, Any], field: str) -> datetime:
    """Return a field that is a time, aware and in UTC. One beyond the year 9999 comes as something
    else.
    """
    return as_utc(read_field(fields, field, datetime))


@dataclass(frozen=True, slots=True)
class Title:
    """What messages call a document, by the fields that name it. Written only with a message."""

    text: str
    document: Mapping[str, Any]

    def __str__(self) -> str:
        named = {field: shown(self.document.get(field)) for field in ("thread_id", "checkpoint_id")}
        return self.text.format_map(named)


def check_version(document: Mapping[str, Any], what: object) -> None:
    """Refuse a document from the future.

    Raises:
        SchemaVersionError: It was written by a newer mongomem.
        CorruptDataError: Its version is none.
    """
    version = document.get("schema_version", SCHEMA_VERSION)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise CorruptDataError(f"{what} has schema version {shown(version)}, which is none")
    if version > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"{what} has schema version {version}; this mongomem reads up to {SCHEMA_VERSION}: "
            "upgrade it"
        )


def check_key(document: Mapping[str, Any], key: bytes) -> None:
    """Compare the `_id` of a document with the one that its fields come to.

    Raises:
        CorruptDataError: It is another one: a field was changed, or the document is a copy of
            another's.
    """
    if document.get("_id") != key:
        raise CorruptDataError("its _id is that of another document")


def check_type(document: Mapping[str, Any], kind: str) -> None:
    """Compare what a document says to be with what it should be.

    Raises:
        CorruptDataError: It is something else.
    """
    if document.get("type") != kind:
        raise CorruptDataError(f"its type is {shown(document.get('type'))}, where {kind} belongs")


def living_epoch(
    thread_id: str, threads: Sequence[Mapping[str, Any]], field: str = "epoch"
) -> int | None:
    """Return the epoch of a thread document that was read; None where there is none, and so nothing
    that lives.

    Raises:
        CorruptDataError: It is none, or the document says to be of another thread.
    """
    if not threads:
        return None
    named: Any = threads[0].get("thread_id")
    epoch: Any = threads[0].get(field)
    if type(named) is not str or named != thread_id:
        raise CorruptDataError(
            f"thread {shown(thread_id)}: its document says to be of thread {shown(named)}"
        )
    if not is_epoch(epoch):
        raise CorruptDataError(
            f"thread {shown(thread_id)}: its document is not readable: its epoch is {shown(epoch)}"
        )
    return int(epoch)
