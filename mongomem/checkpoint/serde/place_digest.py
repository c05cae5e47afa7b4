"""What stored content is bound to, so that it is read in no other place: digests of where it
belongs. Pure.

A digest of a place is BLAKE2b, 16 bytes, over the JSON array of what names the place and of what
describes the content there: ASCII, without spaces, bytes as hexadecimal digits. Encrypted content
carries it inside of what is encrypted; beside plain content stands the digest of that content under
it (`mongomem.checkpoint.serde.serializer`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from hashlib import blake2b
from typing import Any

from mongomem.checkpoint.serde.chunks import StoredValue

DIGEST_BYTES = 16

BEGAN = datetime(1970, 1, 1, tzinfo=timezone.utc)

MILLISECOND = timedelta(milliseconds=1)

Place = tuple[str, str, str | None]
"""A thread id, a checkpoint namespace and a checkpoint id."""

_json = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Binding:
    """The digests that content stands with.

    Attributes:
        place: Where it belongs, and what describes it there.
        parent: Of a checkpoint also what it continues: by itself, since a removal cuts checkpoints
            off. None where that was done, and any will do.
    """

    place: bytes
    parent: bytes | None = b""


def chunk_binding(thread_id: str, name: bytes) -> Binding:
    """Bind a chunk to its thread and its name."""
    return Binding(_digest(["chunk", thread_id, name.hex()]))


def name_key_binding(thread_id: str) -> Binding:
    """Bind the secret that chunks are named with to its thread."""
    return Binding(_digest(["name_key", thread_id]))


def write_binding(
    place: Place,
    task_id: str,
    task_path: str,
    idx: int,
    channel: str,
    epoch: int | None,
    value: StoredValue,
) -> Binding:
    """Bind the content of a pending write to its checkpoint, its task and its place there."""
    task = [task_id, task_path, idx, channel, epoch]
    return Binding(_digest(["write", *place, *task, *_description(value)]))


def checkpoint_binding(
    place: Place,
    parent_id: str | None,
    epoch: int,
    created_at: datetime,
    sends_in_parent: bool,
    body: StoredValue,
    channels: Mapping[str, StoredValue],
) -> Binding:
    """Bind the content of a checkpoint to its place, its life, its time, and its channels with all
    that they name.
    """
    milliseconds = (created_at - BEGAN) // MILLISECOND
    described = [
        _description(body),
        *[[channel, *_description(value)] for channel, value in channels.items()],
    ]
    return Binding(
        _digest(["checkpoint", *place, epoch, milliseconds, sends_in_parent, described]),
        _digest(["parent", *place, parent_id]),
    )


def cache_entry_binding(
    namespace: tuple[str, ...], key: str, kind: str, expires_at: datetime | None
) -> Binding:
    """Bind the value of an entry of a cache to its namespace and key, its type and its life."""
    end = None if expires_at is None else (expires_at - BEGAN) // MILLISECOND
    return Binding(_digest(["cache_entry", [*namespace], key, kind, end]))


def _description(value: StoredValue) -> list[Any]:
    return [value.type, value.size, len(value.inline), [names.hex() for names in value.hash_levels]]


def _digest(parts: list[Any]) -> bytes:
    return blake2b(_json(parts).encode(), digest_size=DIGEST_BYTES).digest()
