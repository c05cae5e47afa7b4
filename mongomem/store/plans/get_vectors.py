"""The plan that reads items with the vectors that are stored with them: for maps, clusters and
evaluations. It embeds nothing and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.store.base import Item, SearchOp

from mongomem.engine.commands import Document, Find
from mongomem.errors import ConfigurationError
from mongomem.store.context import Context
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import BY_UPDATE, ITEM_FIELDS, entries_in, name_of
from mongomem.store.documents.ops import Search, checked_search
from mongomem.store.documents.stored_item import sound_items
from mongomem.store.plans.plain_search import NEWEST_FIRST
from mongomem.store.plans.read import find_with_hint
from mongomem.store.plans.setup import ensure_config
from mongomem.store.vectors.quantization import Vector, are_finite, decode_vectors, is_vector

EMBEDDED = {**ITEM_FIELDS, "vectors.path": 1, "vectors.vector": 1}


@dataclass(frozen=True, slots=True, eq=False)
class ItemVectors:
    """An item, and the vectors that are stored with it.

    Attributes:
        item: The item.
        paths: For each vector the path in the value whose text it was made of, e.g. ``"text"``.
        vectors: float32 of shape (len(paths), dims), as the embedder gave them.
    """

    item: Item
    paths: tuple[str, ...]
    vectors: Vector


async def get_vectors(
    context: Context, namespace_prefix: tuple[str, ...], limit: int
) -> list[ItemVectors]:
    """Read the items below a prefix that have comparable vectors, newest update first.

    Items without vectors, with vectors of another index configuration, and damaged ones are left
    out.

    Raises:
        ConfigurationError: The store has no index configuration.
        IndexMismatchError: The vectors of the store are made in another way.
        InvalidInputError: An argument is of the wrong kind.
    """
    search = checked_search(SearchOp(namespace_prefix, limit=limit), context.indexing)
    indexing = await ensure_config(context, write=False)
    if indexing is None or not indexing.has_vectors:
        raise ConfigurationError("a store without an embedder has no vectors")
    documents = await _embedded(context, indexing, search)
    readable = {
        document["_id"]: entries
        for document in documents
        if (entries := _entries(context, indexing, document))
    }
    return [
        ItemVectors(stored.item(), *_decoded(readable[stored.id]))
        for stored in sound_items(documents, context.damage)
        if stored.id in readable
    ]


async def _embedded(context: Context, indexing: IndexSettings, search: Search) -> list[Document]:
    """Read the documents below a prefix whose vectors an index configuration made."""
    if not search.limit:
        return []
    condition = {
        "prefixes": search.path,
        "index": indexing.fingerprint,
        "vectors.0": {"$exists": True},
        **context.expiry.condition(context.now()),
    }
    find = Find(context.items, condition, EMBEDDED, sort=NEWEST_FIRST, limit=search.limit)
    return await find_with_hint(context, BY_UPDATE, find)


def _entries(
    context: Context, indexing: IndexSettings, document: Document
) -> list[Mapping[str, Any]]:
    """List the vectors of a document with their paths; none where one of them is damaged."""
    entries = entries_in(document)
    if entries and all(_is_sound(entry, indexing.dims) for entry in entries):
        return entries
    consequence = f"{name_of(document)} is left out: its vectors are damaged"
    context.damage.note(repr(document["_id"]), consequence)
    return []


def _is_sound(entry: Mapping[str, Any], dims: int) -> bool:
    vector: Any = entry.get("vector")
    return (
        isinstance(entry.get("path"), str)
        and is_vector(vector, dims)
        and bool(are_finite(decode_vectors([vector]))[0])
    )


def _decoded(entries: list[Mapping[str, Any]]) -> tuple[tuple[str, ...], Vector]:
    paths = tuple(entry["path"] for entry in entries)
    return paths, decode_vectors([entry["vector"] for entry in entries])
