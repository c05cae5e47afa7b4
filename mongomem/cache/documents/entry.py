"""Entries: how they are identified, written, read and checked, and the index that serves them.

Pure. `mongomem.cache.documents` has the schema, field by field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import blake2b
from typing import Any

import bson

from mongomem.arguments import shown
from mongomem.cache.documents.arguments import FullKey, Namespace, NewEntry
from mongomem.cache.documents.revival import revive
from mongomem.checkpoint.serde.channels import serialized
from mongomem.checkpoint.serde.place_digest import cache_entry_binding
from mongomem.checkpoint.serde.serializer import CONTENT_FIELDS, ValueSerializer
from mongomem.engine.commands import MAX_DOCUMENT_BYTES, Document
from mongomem.errors import CorruptDataError, SchemaVersionError
from mongomem.schema.indexes import Index

SCHEMA_VERSION = 1

HALF_BYTES = 16
"""The length of each half of an `_id`: the digest of a namespace, that of a key."""

BY_EXPIRY = "by_expiry"

READ_FIELDS = dict.fromkeys(("type", "expires_at", "schema_version", *CONTENT_FIELDS), 1)
"""Projection of what a value is read from."""


@dataclass(frozen=True, slots=True)
class Collections:
    """Where a cache keeps its documents."""

    prefix: str

    @property
    def entries(self) -> str:
        return f"{self.prefix}cache_entries"


def indexes_for(names: Collections) -> list[Index]:
    """List the indexes. `_id` serves every query, so there is one: that by which the server deletes
    what has expired.
    """
    return [
        Index(
            names.entries,
            BY_EXPIRY,
            (("expires_at", 1),),
            partial={"expires_at": {"$exists": True}},
            expire_after_seconds=0,
        )
    ]


def _digest(parts: Iterable[str]) -> bytes:
    """Digest texts, each behind its length: no two lists come to the same bytes."""
    hashed = blake2b(digest_size=HALF_BYTES)
    for part in parts:
        encoded = part.encode()
        hashed.update(len(encoded).to_bytes(8, "big") + encoded)
    return hashed.digest()


def entry_id(namespace: Namespace, key: str) -> bytes:
    """Return the `_id` of an entry, which is as long for any namespace and key."""
    return _digest(namespace) + _digest((key,))


def is_own_id(value: object) -> bool:
    """Say whether an `_id` is one that this module makes."""
    return isinstance(value, bytes) and len(value) == 2 * HALF_BYTES


def entries_in(namespace: Namespace) -> Document:
    """Return the query for the entries of a namespace, and of none below it."""
    return _range(_digest(namespace), HALF_BYTES)


def all_entries() -> Document:
    """Return the query for all entries: whatever has an `_id` of this module's."""
    return _range(b"", 2 * HALF_BYTES)


def _range(start: bytes, length: int) -> Document:
    return {"_id": {"$gte": start + b"\x00" * length, "$lte": start + b"\xff" * length}}


def encode_entry(new: NewEntry, serializer: ValueSerializer, now: datetime) -> Document | None:
    """Return the document of an entry that is set now; None where it is too large for one.

    Raises:
        UnstorableValueError: The serializer cannot serialize the value.
    """
    kind, data = serialized(serializer, "the value of key %s", new.key, new.value)
    if len(data) > MAX_DOCUMENT_BYTES:
        return None
    expires_at = new.expires_at(now)
    binding = cache_entry_binding(new.namespace, new.key, kind, expires_at)
    document: Document = {
        "_id": entry_id(new.namespace, new.key),
        "namespace": list(new.namespace),
        "key": new.key,
        "type": kind,
        **serializer.seal(data, binding),
        "created_at": now,
        **({} if expires_at is None else {"expires_at": expires_at}),
        "schema_version": SCHEMA_VERSION,
    }
    return document if len(bson.encode(document)) <= MAX_DOCUMENT_BYTES else None


def content_size(document: Mapping[str, Any]) -> int:
    """Return how many bytes of content a document holds, whatever its fields are."""
    held = [document.get(field) for field in CONTENT_FIELDS]
    return sum(len(one) for one in held if isinstance(one, bytes))


def has_expired(document: Mapping[str, Any], now: datetime) -> bool:
    """Say whether the time of an entry is over.

    Raises:
        CorruptDataError: Its expiry is no time.
    """
    expires_at = _expiry(document)
    return expires_at is not None and expires_at <= now


def decode_entry(
    document: Mapping[str, Any], full_key: FullKey, serializer: ValueSerializer
) -> Any:
    """Return the value of an entry.

    Raises:
        CorruptDataError: It is damaged, was set elsewhere or for another time, is encrypted
            otherwise than by this serializer, or cannot be revived.
        SchemaVersionError: A newer mongomem wrote it.
    """
    _check_version(document)
    kind = document.get("type")
    if not isinstance(kind, str):
        raise CorruptDataError(f"its type is {shown(kind)}, where a string belongs")
    opened = serializer.open(document)
    if opened.proof is None:
        raise CorruptDataError("its digest is missing")
    opened.check(cache_entry_binding(*full_key, kind, _expiry(document)))
    return revive(serializer, kind, opened.content)


def _expiry(document: Mapping[str, Any]) -> datetime | None:
    if "expires_at" not in document:
        return None
    moment = document["expires_at"]
    if not isinstance(moment, datetime):  # which one beyond the year 9999 is not
        raise CorruptDataError(f"its expires_at is {shown(moment)}, which is no time")
    aware = moment.tzinfo is not None
    return moment.astimezone(timezone.utc) if aware else moment.replace(tzinfo=timezone.utc)


def _check_version(document: Mapping[str, Any]) -> None:
    version = document.get("schema_version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise CorruptDataError(f"its schema version is {shown(version)}, which is none")
    if version > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"its schema version is {version}, and this mongomem reads up to {SCHEMA_VERSION}: "
            "upgrade it"
        )
