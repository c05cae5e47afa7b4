"""Plans that write: puts and deletions of one batch, and the deletion of whole namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from langgraph.store.base import InvalidNamespaceError

from mongomem.commands import Delete, DeleteMany, Document, Write
from mongomem.effects import EmbedDocuments
from mongomem.search.codes import decode_vectors
from mongomem.search.metrics import Vector
from mongomem.store.batches import Batch, check_namespace
from mongomem.store.context import Context
from mongomem.store.documents import Embedded, Put, check_size, put_update
from mongomem.store.indexing import Indexing, Text
from mongomem.store.namespaces import Namespace, path_of, path_range, slices
from mongomem.store.reading import find_by_id, is_there
from mongomem.store.setup import agree_on_configuration
from mongomem.store.watching import compare_answers, warn_of_blank_paths
from mongomem.upserts import write_all

LONG_TEXTS = 2**20
"""From this many characters on the size of an item is looked at before its texts are embedded, and not only after."""


async def write(context: Context, batch: Batch) -> None:
    """Embed, then write all puts and deletions of a batch.

    Each item changes at once, with its vectors. What fails before the one write, an embedder or an item
    too large, leaves everything as it was; a batch cut short may have changed some items and not others,
    and does the rest when it is repeated.
    """
    puts = batch.puts
    _check_long(context, puts.values())
    existing = await _existing(context, puts)
    embedded = await _embed_puts(context, puts, existing)
    now = context.now()  # and not before: embedding may take longer than an item is to live
    writes: dict[str, Write] = {}
    for item, put in puts.items():
        revive = item in existing and not is_there(context, existing[item], now)
        writes[item] = update = put_update(put, embedded.get(item), now=now, revive=revive)
        check_size(update, f"item {put.key!r} in {put.namespace!r}")
    for item, deletion in batch.deletions.items():
        writes[item] = Delete({"_id": item, "path": path_of(deletion.namespace)})
    for part in slices(writes):  # the server answers with the ids of what it made, in one message
        await write_all(context.items, [writes[item] for item in part])


def _check_long(context: Context, puts: Iterable[Put]) -> None:
    """Refuse items that are too large as they are, before their long texts are embedded, which takes its time."""
    for put in puts:
        if sum(len(text.text) for text in put.texts) > LONG_TEXTS:
            check_size(put_update(put, None, now=context.now(), revive=False), f"item {put.key!r} in {put.namespace!r}")


async def embed(
    context: Context, indexing: Indexing, texts: Mapping[str, Sequence[Text]], known: Mapping[str, Vector]
) -> dict[str, Embedded]:
    """Give the texts of each item their vectors: those `known` by digest, or new ones.

    Equal texts are embedded once, all new ones in one call.
    """
    digests = {item: {indexing.digest(text.text): text for text in each} for item, each in texts.items()}
    missing = {key: text.text for each in digests.values() for key, text in each.items() if key not in known}
    made = await EmbedDocuments(indexing.embedder, list(missing.values())) if missing else ()
    if missing:
        await compare_answers(context, indexing)
    vectors = {**known, **dict(zip(missing, made, strict=True))}
    named = indexing.fingerprint, indexing.generation, indexing.metric
    return {item: Embedded(*named, each, _rows(each, vectors, indexing.dims)) for item, each in digests.items()}


async def delete_namespace(context: Context, prefix: Namespace) -> int:
    """Delete every item below a prefix; return how many. Repeating it finishes what was cut short.

    Raises:
        InvalidNamespaceError: The prefix is empty: everything of everyone is never meant by accident.
    """
    check_namespace(prefix, "prefix")
    if not prefix:
        raise InvalidNamespaceError("delete_namespace needs a prefix of one label or more")
    reply = await DeleteMany(context.items, {"path": path_range(prefix)})
    context.matrices.forget(path_of(prefix))
    return int(reply.deleted_count)


async def _existing(context: Context, puts: Mapping[str, Put]) -> dict[str, Document]:
    """Read what the puts are about to replace: whether it has expired, and its vectors where texts may be the same."""
    if not puts:
        return {}
    shown = {"expires_at": 1}
    if any(put.texts for put in puts.values()):
        shown |= {"vectors.digest": 1, "vectors.vector": 1, "generation": 1}
    return {document["_id"]: document for document in await find_by_id(context, puts, shown)}


async def _embed_puts(
    context: Context, puts: Mapping[str, Put], existing: Mapping[str, Document]
) -> dict[str, Embedded]:
    """Embed the texts of puts, and see that it is done as the store has it: the first vectors decide that.

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


def vectors_of(documents: Iterable[Document], indexing: Indexing) -> dict[str, Vector]:
    """Collect the vectors that documents hold, by the digests of their texts; not those that are to be made anew."""
    current = (document for document in documents if document.get("generation", 0) == indexing.generation)
    stored = {entry["digest"]: entry["vector"] for document in current for entry in document.get("vectors", ())}
    return {digest: decode_vectors([vector])[0] for digest, vector in stored.items()}


def _rows(digests: Iterable[str], vectors: Mapping[str, Vector], dims: int) -> Vector:
    rows: Vector = np.array([vectors[digest] for digest in digests], dtype=np.float32).reshape(-1, dims)
    return rows
