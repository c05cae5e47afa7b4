"""Documents of items: how they are laid out, and the indexes that serve every query of the store.

    {_id: "users NUL u1 NUL NUL likes",          path, two NULs, key
     namespace: ["users", "u1"], key: "likes",
     path: "users NUL u1",                       the shard key; every filter of a write carries it
     prefixes: ["", "users", "users NUL u1"],    a prefix search is an equality on it
     value: {...},                               readable; what is read unless there is `exact`
     exact: binary,                              with a digest of `value`, see
                                                 `mongomem.store.documents.value`
     created_at, updated_at: dates,
     expires_at: date, ttl_minutes: 5.0,         only where the item expires
     changed_at: timestamp,                      of the server's logical clock, set by every write
     index: "a1b2...", index_fields: [...],      which configuration made the vectors; the item's
                                                 own choice
     generation: 1,                              how many forced reindexes were before; absent: 0
     vectors: [{path, digest, vector}],          one for each text; float32
     codes: binary,                              see `mongomem.store.vectors.quantization`
     terms: binary,                              see `mongomem.store.words.stored_terms`
     schema_version: 1}

One document per item makes every put atomic: value, vectors and expiry change together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import bson

from mongomem.arguments import shown
from mongomem.engine.commands import MAX_DOCUMENT_BYTES, Document, Update
from mongomem.errors import UnstorableValueError
from mongomem.schema.indexes import Index
from mongomem.store.documents.index_config import EmbeddedText, IndexSettings
from mongomem.store.documents.namespace import (
    SEPARATOR,
    Namespace,
    item_id,
    name_of_item,
    namespace_of,
    path_of,
    prefixes_of,
)
from mongomem.store.documents.ttl import expires_at
from mongomem.store.documents.value import EncodedValue
from mongomem.store.vectors.quantization import (
    Metric,
    Vector,
    are_finite,
    decode_vectors,
    encode_vector,
    is_vector,
    quantize,
)
from mongomem.store.words.stored_terms import encode_terms

SCHEMA_VERSION = 1

BY_UPDATE = "by_update"
BY_CHANGE = "by_change"
BY_ID = "_id_"

ITEM_FIELDS = dict.fromkeys(
    (
        *("namespace", "key", "path", "prefixes", "value", "exact"),
        *("created_at", "updated_at", "expires_at", "ttl_minutes", "schema_version"),
    ),
    1,
)
"""Projection of what an item is read from, see `mongomem.store.documents.stored_item`."""

VECTOR_FIELDS = ("index", "generation", "vectors", "codes", "terms")
OPTIONAL = ("exact", "expires_at", "ttl_minutes", "index_fields", *VECTOR_FIELDS)
"""Fields that a put removes where the new item does not have them."""


@dataclass(frozen=True, slots=True)
class Collections:
    """Where a store keeps its documents. Two with different prefixes in one database never meet."""

    prefix: str

    @property
    def items(self) -> str:
        return f"{self.prefix}store_items"

    @property
    def settings(self) -> str:
        return f"{self.prefix}store_settings"


def indexes_for(names: Collections) -> list[Index]:
    """List the indexes.

    `BY_UPDATE` serves plain search in its order. `BY_CHANGE` covers the read that syncs an index in
    memory. `by_path` serves the listing of namespaces, and is what the shard key needs.
    """
    return [
        Index(names.items, BY_UPDATE, (("prefixes", 1), ("updated_at", -1), ("_id", 1))),
        Index(names.items, BY_CHANGE, (("prefixes", 1), ("changed_at", 1), ("_id", 1))),
        Index(names.items, "by_path", (("path", 1), ("expires_at", 1))),
        Index(
            names.items,
            "by_expiry",
            (("expires_at", 1),),
            partial={"expires_at": {"$exists": True}},
            expire_after_seconds=0,
        ),
    ]


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to be written, checked and encoded; its texts are still to be embedded."""

    namespace: Namespace
    key: str
    value: EncodedValue
    texts: Sequence[EmbeddedText]
    index_fields: Sequence[str] | bool | None
    ttl_minutes: float | None

    @property
    def id(self) -> str:
        return item_id(self.namespace, self.key)


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """Vectors of the texts of one item, in their order and by their digests, by a named index
    configuration.

    Attributes:
        terms: What the texts are searched by, each term as often as they have it; None where
            nothing is ranked by words.
        mark: That of the analyser of the terms.
    """

    fingerprint: str
    generation: int
    metric: Metric
    texts: Mapping[str, EmbeddedText]
    vectors: Vector
    terms: Sequence[str] | None = None
    mark: bytes | None = None


def encode_item(
    put: NewItem,
    vectors: EmbeddedTexts | None,
    *,
    now: datetime,
    stored: Mapping[str, Any] | None,
    recreate: bool,
) -> Update:
    """Build the write of one item: an upsert, after which the document has the item's own path.

    Args:
        put: The item.
        vectors: Of its texts; None where nothing is embedded.
        now: The time of the update.
        stored: The document that is replaced, where there is one; its `created_at` stays.
        recreate: The stored item has expired or is damaged: `created_at` is now.
    """
    fields = _fields(put, vectors, now)
    created: Document = {"created_at": now}
    path: Any = path_of(put.namespace)
    stored_path = path if stored is None else stored.get("path")
    if stored_path != path:
        fields["path"], path = path, {"$eq": stored_path}
    update: Document = {
        "$set": fields | created if recreate else fields,
        "$currentDate": {"changed_at": {"$type": "timestamp"}},
    }
    if not recreate:
        update["$setOnInsert"] = created
    if absent := [name for name in OPTIONAL if name not in fields]:
        update["$unset"] = dict.fromkeys(absent, "")  # MongoDB before 5.0 refuses an empty $unset
    return Update({"_id": put.id, "path": path}, update, upsert=True)


def check_size(update: Update, name: str) -> None:
    """Refuse an item that no document can hold, before anything is sent.

    Its names count twice: the server's log, whose entries are documents too, has them beside the
    item.

    Raises:
        UnstorableValueError: It is larger than `MAX_DOCUMENT_BYTES`, names and vectors included.
    """
    changed = len(bson.encode(update.update)) if isinstance(update.update, dict) else 0
    size = 2 * len(bson.encode(update.filter)) + changed
    if size > MAX_DOCUMENT_BYTES:
        raise UnstorableValueError(
            f"{name}: {size:,} bytes with names and vectors, over the 16 MB of a document"
        )


def encode_vectors(embedded: EmbeddedTexts | None) -> Document:
    """Build the fields that make an item findable by meaning; none where nothing was embedded."""
    if embedded is None:
        return {}
    named: Document = {"index": embedded.fingerprint}
    if embedded.generation:
        named["generation"] = embedded.generation
    if not embedded.texts:
        return named
    codes = quantize(embedded.vectors, embedded.metric)
    fields = {**named, "vectors": _vector_entries(embedded), "codes": codes}
    if embedded.terms is not None and embedded.mark is not None:
        fields["terms"] = encode_terms(embedded.terms, embedded.mark, codes)
    return fields


def _vector_entries(embedded: EmbeddedTexts) -> list[Document]:
    return [
        {"path": text.path, "digest": digest, "vector": encode_vector(vector)}
        for (digest, text), vector in zip(embedded.texts.items(), embedded.vectors, strict=True)
    ]


def entries_in(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the entries of the `vectors` of a document; a damaged entry comes empty."""
    entries = document.get("vectors")
    if not isinstance(entries, list):
        return [] if entries is None else [{}]
    return [entry if isinstance(entry, dict) else {} for entry in entries]


def vectors_of(documents: Iterable[Document], indexing: IndexSettings) -> dict[str, Vector]:
    """Collect the vectors that documents hold, by the digests of their texts; not damaged or
    outdated ones.
    """
    stored = {
        entry["digest"]: entry["vector"]
        for document in documents
        if document.get("generation", 0) == indexing.generation
        for entry in entries_in(document)
        if isinstance(entry.get("digest"), str) and is_vector(entry.get("vector"), indexing.dims)
    }
    vectors = {digest: decode_vectors([vector], indexing.dims) for digest, vector in stored.items()}
    return {digest: rows[0] for digest, rows in vectors.items() if are_finite(rows)[0]}


def _fields(put: NewItem, embedded: EmbeddedTexts | None, now: datetime) -> Document:
    fields: Document = {
        "namespace": list(put.namespace),
        "prefixes": prefixes_of(put.namespace),
        "key": put.key,
        "value": put.value.readable,
        "updated_at": now,
        "schema_version": SCHEMA_VERSION,
        **encode_vectors(embedded),
    }
    if put.value.exact is not None:
        fields["exact"] = put.value.exact
    if put.index_fields is not None:
        fields["index_fields"] = put.index_fields
    if put.ttl_minutes is not None:
        fields["ttl_minutes"] = float(put.ttl_minutes)
        fields["expires_at"] = expires_at(put.ttl_minutes, now)
    return fields


def name_of(document: Mapping[str, Any]) -> str:
    """Call an item by namespace and key, for messages: those that its `_id` names, whatever else
    the document says.
    """
    named = document.get("_id")
    if not isinstance(named, str) or SEPARATOR * 2 not in named:
        return f"the item with the _id {shown(named)}"
    path, _, key = named.partition(SEPARATOR * 2)
    return name_of_item(namespace_of(path), key)
