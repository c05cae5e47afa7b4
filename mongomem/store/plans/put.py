"""Plans that write: puts and deletions of one batch, and the deletion of whole namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

import numpy as np
from langgraph.store.base import InvalidNamespaceError

from mongomem.engine.commands import Delete, DeleteMany, Document, Update, Write, as_utc
from mongomem.engine.effects import Compute, EmbedDocuments
from mongomem.engine.writes import bulk_upsert
from mongomem.store.context import Context
from mongomem.store.documents.index_config import EmbeddedText, IndexSettings
from mongomem.store.documents.item import (
    EmbeddedTexts,
    NewItem,
    check_size,
    encode_item,
    vectors_of,
)
from mongomem.store.documents.namespace import (
    Namespace,
    id_range,
    name_of_item,
    path_of,
    path_range,
    paths_meet,
    short_prefixes_of,
    split_by_bytes,
)
from mongomem.store.documents.ops import Deletion, GroupedOps, check_namespace
from mongomem.store.plans.model_check import check_model, warn_of_blank_paths
from mongomem.store.plans.read import find_named
from mongomem.store.plans.setup import ensure_config, warn_of_unused_index
from mongomem.store.vectors.quantization import Vector
from mongomem.store.words.analysis import WORK_PER_CHARACTER

LONG_CHARACTERS = 2**20
"""From this many characters of texts and names on, the size of an item is checked before anything
is embedded, and not only before it is written."""


async def write(context: Context, batch: GroupedOps) -> None:
    """Embed, then write all puts and deletions of a batch.

    The order, and why: what can fail without a write comes first. The size of long items is checked
    before their texts are embedded, which takes time and money. All texts are embedded before the
    index configuration is stored, and that before any item is written. So an embedder that fails,
    or an item that is too large, changes nothing.

    Each item changes at once, with its vectors. A batch cut short may have changed some items and
    not others, and does the rest when it is repeated.
    """
    puts = batch.puts
    _check_long_items(context, puts.values())
    existing = await _existing(context, puts)
    writes: dict[str, Write] = {item: Delete({"_id": item}) for item in batch.deletions}
    writes.update(await updates_of(context, puts, existing))
    longest = context.index_cache.longest_path
    known = context.index_cache.timestamps(_by_prefix(batch.deletions, longest))
    # The reply names the ids of what was created, and is one message too.
    for part in split_by_bytes(writes):
        await bulk_upsert(context.items, [writes[item] for item in part])
    context.index_cache.remove(known)


def _by_prefix(deletions: Mapping[str, Deletion], longest: int) -> dict[str, list[str]]:
    """List the ids of what is deleted by the paths of the indexes that may hold it, none longer
    than `longest`: all paths of a namespace of many labels are as long as the square of it.
    """
    ids: dict[str, list[str]] = {}
    for item, deletion in deletions.items():
        for path in short_prefixes_of(deletion.namespace, longest):
            ids.setdefault(path, []).append(item)
    return ids


async def updates_of(
    context: Context, puts: Mapping[str, NewItem], existing: Mapping[str, Document]
) -> dict[str, Update]:
    """Embed puts, and return their updates by item. Of what is about to be replaced, `existing`
    holds `expires_at` and `created_at`, and the vectors that may be used again.
    """
    vectors = await _embed_puts(context, puts, existing)
    return dict(_updates(context, puts, existing, vectors))


def _updates(
    context: Context,
    puts: Mapping[str, NewItem],
    existing: Mapping[str, Document],
    vectors: Mapping[str, EmbeddedTexts],
) -> Iterator[tuple[str, Update]]:
    """Encode the puts, and refuse items that are too large.

    The time is that after embedding, which may take longer than an item is to live.
    """
    now = context.now()
    for item, put in puts.items():
        stored = existing.get(item)
        recreate = stored is not None and not _is_alive(context, stored, now)
        update = encode_item(put, vectors.get(item), now=now, stored=stored, recreate=recreate)
        check_size(update, name_of_item(put.namespace, put.key))
        yield item, update


def _check_long_items(context: Context, puts: Iterable[NewItem]) -> None:
    """Refuse items that are too large without their vectors."""
    for put in puts:
        if len(put.id) + sum(len(text.text) for text in put.texts) > LONG_CHARACTERS:
            update = encode_item(put, None, now=context.now(), stored=None, recreate=False)
            check_size(update, name_of_item(put.namespace, put.key))


async def embed(
    context: Context,
    indexing: IndexSettings,
    texts: Mapping[str, Sequence[EmbeddedText]],
    known: Mapping[str, Vector],
) -> dict[str, EmbeddedTexts]:
    """Return the vectors of the texts of each item: those `known` by digest, or new ones.

    Equal texts are embedded once, all new ones in one call.
    """
    by_digest = {
        item: {indexing.digest(text.text): text for text in own} for item, own in texts.items()
    }
    new = {
        digest: text.text
        for own in by_digest.values()
        for digest, text in own.items()
        if digest not in known
    }
    vectors = {**known, **await _new_vectors(context, indexing, new)} if new else known
    return await _with_terms(indexing, by_digest, vectors)


async def _with_terms(
    indexing: IndexSettings,
    texts: Mapping[str, Mapping[str, EmbeddedText]],
    vectors: Mapping[str, Vector],
) -> dict[str, EmbeddedTexts]:
    """Find the terms of the texts of each item, off the event loop where the texts are long."""
    size = sum(len(text.text) for own in texts.values() for text in own.values())
    made: dict[str, EmbeddedTexts] = await Compute(
        lambda: {item: _embedded_texts(indexing, own, vectors) for item, own in texts.items()},
        size * WORK_PER_CHARACTER if indexing.analyser else 0,
    )
    return made


def _embedded_texts(
    indexing: IndexSettings, texts: Mapping[str, EmbeddedText], vectors: Mapping[str, Vector]
) -> EmbeddedTexts:
    """Choose the vectors of one item's texts, which are given by their digests, and find their
    terms.
    """
    rows = np.array([vectors[digest] for digest in texts], dtype=np.float32)
    return EmbeddedTexts(
        indexing.fingerprint,
        indexing.generation,
        indexing.metric,
        texts,
        rows.reshape(len(texts), indexing.dims),
        indexing.terms(text.text for text in texts.values()),
        indexing.mark,
    )


async def _new_vectors(
    context: Context, indexing: IndexSettings, texts: Mapping[str, str]
) -> dict[str, Vector]:
    """Embed texts, by their digests, and check that the embedder is still the same model."""
    vectors = await EmbedDocuments(indexing.embedder, list(texts.values()))
    await check_model(context, indexing)
    return dict(zip(texts, vectors, strict=True))


async def delete_namespace(context: Context, prefix: Namespace) -> int:
    """Delete every item below a prefix; return how many. Repeating it finishes what was cut short.

    An item that somebody has moved is deleted where its document is below the prefix, and where its
    `_id` is.

    Raises:
        InvalidNamespaceError: The prefix is empty: it would delete every item of the store.
    """
    checked = check_namespace(prefix, "prefix")
    if not checked:
        raise InvalidNamespaceError("delete_namespace needs a prefix of one label or more")
    reply = await DeleteMany(
        context.items, {"$or": [{"path": path_range(checked)}, {"_id": id_range(checked)}]}
    )
    context.index_cache.invalidate(partial(paths_meet, path_of(checked)))
    return int(reply.deleted_count)


async def delete_expired(context: Context) -> int:
    """Delete every item that has expired; return how many. The server does so within a minute."""
    reply = await DeleteMany(context.items, {"expires_at": {"$lte": context.now()}})
    return int(reply.deleted_count)


async def _existing(context: Context, puts: Mapping[str, NewItem]) -> dict[str, Document]:
    """Read what the puts replace: whether it is alive, and its vectors where some texts may be the
    same.
    """
    if not puts:
        return {}
    fields = {"expires_at": 1, "created_at": 1}
    if any(put.texts for put in puts.values()):
        fields |= {"vectors.digest": 1, "vectors.vector": 1, "generation": 1}
    return await find_named(context, puts, fields)


def _is_alive(context: Context, document: Document, now: datetime) -> bool:
    """Say whether an item has not expired, and has a readable `created_at`."""
    moment = document.get("expires_at")
    has_expired = isinstance(moment, datetime) and context.expiry.has_expired(as_utc(moment), now)
    return isinstance(document.get("created_at"), datetime) and not has_expired


async def _embed_puts(
    context: Context, puts: Mapping[str, NewItem], existing: Mapping[str, Document]
) -> dict[str, EmbeddedTexts]:
    """Embed the texts of puts, then make sure that the store has the same index configuration.

    The first vectors of a store decide its configuration. Where the store turns out to have other
    names for it, digests and fingerprints are made again by these.
    """
    indexing = context.indexing
    if indexing is None and any(put.index_fields is not False for put in puts.values()):
        await warn_of_unused_index(context)
    if indexing is None or not puts:
        return {}
    texts = {item: put.texts for item, put in puts.items()}
    vectors = await embed(context, indexing, texts, vectors_of(existing.values(), indexing))
    stored = await ensure_config(context, write=True) or indexing
    if (stored.fingerprint, stored.generation) != (indexing.fingerprint, indexing.generation):
        return await _embed_puts(context, puts, existing)
    await _note_paths(context, indexing, puts.values())
    return vectors


async def _note_paths(context: Context, indexing: IndexSettings, puts: Iterable[NewItem]) -> None:
    """Note which paths gave a text, and warn of those that never do."""
    for put in puts:
        found = {text.path for text in put.texts}
        context.coverage.note(indexing.paths(put.index_fields), found)
    await warn_of_blank_paths(context)
