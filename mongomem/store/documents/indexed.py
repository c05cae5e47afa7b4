"""What an index in memory holds of item documents: their codes and terms, and when they changed."""

from __future__ import annotations

from collections.abc import Sequence

from mongomem.engine.commands import Document
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.stored_item import timestamps_in, with_ids
from mongomem.store.vectors.memory_index import Change, Columns


def ranked_fields(indexing: IndexSettings) -> Document:
    """Build the projection of what `columns_in` reads."""
    return {"codes": 1, "terms": 1} if indexing.analyser else {"codes": 1}


def changed_fields(indexing: IndexSettings) -> Document:
    """Build the projection of what `changes_in` reads."""
    return {"changed_at": 1, "index": 1, **ranked_fields(indexing)}


def columns_in(documents: Sequence[Document]) -> Columns:
    """Read documents that have the vectors of one configuration."""
    items = with_ids(documents)
    return Columns(
        [document["_id"] for document in items],
        [document.get("codes") for document in items],
        [document.get("terms") for document in items],
    )


def changes_in(documents: Sequence[Document], indexing: IndexSettings) -> list[Change]:
    """Read documents as changes; vectors of another configuration count as none."""
    ours = {
        document["_id"]: (document.get("codes"), document.get("terms"))
        for document in documents
        if document.get("index") == indexing.fingerprint
    }
    return [
        Change(item, changed_at, *ours.get(item, (None, None)))
        for item, changed_at in timestamps_in(documents)
    ]
