"""Plans that write: puts and deletions of one batch, and the deletion of whole namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

import numpy as np
from langgraph.store.base import InvalidNamespaceError

from mongomem.engine.commands import Delete, DeleteMany, Document, Update, Write
from mongomem.engine.effects import EmbedDocuments
from mongomem.engine.upserts import bulk_upsert
from mongomem.store.context import Context
from mongomem.store.documents.index_config import EmbeddedText, IndexSettings
from mongomem.store.documents.item import Embedded, NewItem, check_size, encode_item, vectors_of
from mongomem.store.documents.namespace import (
    Namespace,
    id_range,
    name_of_item,
    path_of,
    path_range,
    paths_meet,
    slices,
)
from mongomem.store.documents.ops import GroupedOps, check_namespace
from mongomem.store.documents.value import as_utc
from mongomem.store.plans.model_check import compare_answers, warn_of_blank_paths
from mongomem.store.plans.read import find_named
from mongomem.store.plans.setup import agree_on_configuration
from mongomem.store.vectors.quantization import Vector

LONG = 2**20
"""From this many characters of texts and names on the size of an item is looked at before anything
is asked, and not only when it is embedded."""


async def write(context: Context, batch: GroupedOps) -> None:
    """Embed, then write all puts and deletions of a batch.

    Each item changes at once, with its vectors. What fails before the one write, an embedder or an
    item too large, leaves everything as it was; a batch cut short may have changed some items and
    not others, and does the rest when it is repeated.
    """
    puts = batch.puts
    _check_long(context, puts.values())
    existing = await _existing(context, puts)
    writes: dict[str, Write] = {item: Delete({"_id": item}) for item in batch.deletions}
    writes.update(await updates_of(context, puts, existing))
    for part in slices(writes):  # the server answers with the ids of what it made, in one message
        await bulk_upsert(context.items, [writes[item] for item in part])


async def updates_of(
    context: Context, puts: Mapping[str, NewItem], existing: Mapping[str, Document]
) -> dict[str, Update]:
    """Embed puts, and return their updates by item. Of what is about to be replaced, `existing`
    holds `expires_at` and `created_at`, and the vectors that may be used again.
    """
    embedded = await _embed_puts(context, puts, existing)
    return dict(_updates(context, puts, existing, embedded))


def _updates(
    context: Context,
    puts: Mapping[str, NewItem],
    existing: Mapping[str, Document],
    embedded: Mapping[str, Embedded],
) -> Iterator[tuple[str, Update]]:
    """Encode the puts, and refuse those that are too large. The time is that after embedding, which
    may take longer than an item is to live.
    """
    now = context.now()
    for item, put in puts.items():
        there = existing.get(item)
        revive = there is not None and not _lives(context, there, now)
        update = encode_item(put, embedded.get(item), now=now, there=there, revive=revive)
        check_size(update, name_of_item(put.namespace, put.key))
        yield item, update


def _check_long(context: Context, puts: Iterable[NewItem]) -> None:
    """Refuse items that are too large as they are, before their long texts are embedded, which
    takes its time.
    """
    for put in puts:
        if len(put.id) + sum(len(text.text) for text in put.texts) > LONG:
            update = encode_item(put, None, now=context.now(), there=None, revive=False)
            check_size(update, name_of_item(put.namespace, put.key))


async def embed(
    context: Context,
    indexing: IndexSettings,
    texts: Mapping[str, Sequence[EmbeddedText]],
    known: Mapping[str, Vector],
) -> dict[str, Embedded]:
    """Give the texts of each item their vectors: those `known` by digest, or new ones.

    Equal texts are embedded once, all new ones in one call.
    """
    digests = {
        item: {indexing.digest(text.text): text for text in each} for item, each in texts.items()
    }
    missing = {
        key: text.text
        for each in digests.values()
        for key, text in each.items()
        if key not in known
    }
    vectors = {**known, **await _new_vectors(context, indexing, missing)} if missing else known
    named = indexing.fingerprint, indexing.generation, indexing.metric
    return {
        item: Embedded(*named, each, _rows(each, vectors, indexing.dims))
        for item, each in digests.items()
    }


async def _new_vectors(
    context: Context, indexing: IndexSettings, texts: Mapping[str, str]
) -> dict[str, Vector]:
    """Embed texts, by their digests, and see that the embedder answers as it did before."""
    made = await EmbedDocuments(indexing.embedder, list(texts.values()))
    await compare_answers(context, indexing)
    return dict(zip(texts, made, strict=True))


async def delete_namespace(context: Context, prefix: Namespace) -> int:
    """Delete every item below a prefix; return how many. Repeating it finishes what was cut short.

    Those go that stand there, and those whose names are from there, wherever somebody has moved
    them.

    Raises:
        InvalidNamespaceError: The prefix is empty: everything of everyone is never meant by
            accident.
    """
    checked = check_namespace(prefix, "prefix")
    if not checked:
        raise InvalidNamespaceError("delete_namespace needs a prefix of one label or more")
    reply = await DeleteMany(
        context.items, {"$or": [{"path": path_range(checked)}, {"_id": id_range(checked)}]}
    )
    context.matrices.forget(partial(paths_meet, path_of(checked)))
    return int(reply.deleted_count)


async def sweep(context: Context) -> int:
    """Delete every item whose time is over; return how many. The server does the same within a
    minute.
    """
    reply = await DeleteMany(context.items, {"expires_at": {"$lte": context.now()}})
    return int(reply.deleted_count)


async def _existing(context: Context, puts: Mapping[str, NewItem]) -> dict[str, Document]:
    """Read what the puts are about to replace: whether it lives, and its vectors where texts may be
    the same.
    """
    if not puts:
        return {}
    shown = {"expires_at": 1, "created_at": 1}
    if any(put.texts for put in puts.values()):
        shown |= {"vectors.digest": 1, "vectors.vector": 1, "generation": 1}
    return await find_named(context, puts, shown)


def _lives(context: Context, document: Document, now: datetime) -> bool:
    """Say whether an item has not expired, and knows since when it is there."""
    moment = document.get("expires_at")
    is_over = isinstance(moment, datetime) and context.expiry.is_over(as_utc(moment), now)
    return isinstance(document.get("created_at"), datetime) and not is_over


async def _embed_puts(
    context: Context, puts: Mapping[str, NewItem], existing: Mapping[str, Document]
) -> dict[str, Embedded]:
    """Embed the texts of puts, and see that it is done as the store has it: the first vectors
    decide that.

    What the store calls the configuration may turn out only then; then it is done once more.
    """
    indexing = context.indexing
    if indexing is None or not puts:
        return {}
    texts = {item: put.texts for item, put in puts.items()}
    embedded = await embed(context, indexing, texts, vectors_of(existing.values(), indexing))
    await agree_on_configuration(context)
    agreed = context.indexing or indexing
    if (agreed.fingerprint, agreed.generation) != (indexing.fingerprint, indexing.generation):
        return await _embed_puts(context, puts, existing)
    for put in puts.values():
        context.coverage.note(indexing.paths(put.index_fields), {text.path for text in put.texts})
    await warn_of_blank_paths(context)
    return embedded


def _rows(digests: Iterable[str], vectors: Mapping[str, Vector], dims: int) -> Vector:
    rows: Vector = np.array([vectors[digest] for digest in digests], dtype=np.float32).reshape(
        -1, dims
    )
    return rows
