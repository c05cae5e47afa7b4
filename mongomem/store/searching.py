"""Plans of semantic search on any MongoDB: keep a matrix fresh, rank in it, read the best again and score them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from langgraph.store.base import SearchOp

from mongomem.commands import Compute, Document, EmbedQuery, Find
from mongomem.search.codes import decode_vectors
from mongomem.search.matrix import Change, Matrix
from mongomem.search.metrics import Vector, similarities
from mongomem.store.context import Context
from mongomem.store.documents import BY_ID, SHOWN
from mongomem.store.filters import to_query
from mongomem.store.indexing import Indexing
from mongomem.store.namespaces import path_of, path_range
from mongomem.store.reading import is_there, matching, passes
from mongomem.store.setup import check_configuration

Scored: TypeAlias = tuple[Document, float | None]

CODED = {"changed_at": 1, "codes": 1, "index": 1}
RANKED = {**SHOWN, "index": 1, "vectors.vector": 1}
LOAD_PAGE = 16384
FILTERED = 4


async def semantic_search(context: Context, indexing: Indexing, op: SearchOp, now: datetime) -> list[Scored]:
    """Find the items below a prefix that match, closest in meaning first; those without a vector follow, unscored.

    What was acknowledged before the search began is in it, whoever wrote it. The order is total: by
    score, then by id; behind it by update, then by id.
    """
    query = await EmbedQuery(indexing.embedder, op.query or "")
    await check_configuration(context)
    scored = await _ranked(context, indexing, op, query, now)
    page: list[Scored] = list(scored[op.offset : op.offset + op.limit])
    missing = op.limit - len(page)
    if missing:
        unscored = {"$or": [{"codes": {"$exists": False}}, {"index": {"$ne": indexing.fingerprint}}]}
        skip = max(0, op.offset - len(scored))
        page += [(rest, None) for rest in await matching(context, op, unscored, now, skip=skip, limit=missing)]
    return page


async def _ranked(
    context: Context, indexing: Indexing, op: SearchOp, query: Vector, now: datetime
) -> list[tuple[Document, float]]:
    """Rank the best ``offset + limit`` items at least, or all there are.

    Of the `count` best in the matrix some may be gone, or not match the filter; as many more have to be
    looked at. Where the first look was not enough, the server says which ones may match at all.
    """
    matrix = await fresh_matrix(context, indexing, path_of(op.namespace_prefix))
    wanted = op.offset + op.limit
    count = FILTERED * wanted if op.filter else wanted
    among: set[str] | None = None
    seen: set[str] = set()
    scored: dict[str, tuple[Document, float]] = {}
    while True:
        ranking = await Compute(partial(matrix.rank, query, count, among), matrix.size)
        ids = [item for _, item in ranking if item not in seen]
        seen.update(ids)
        scored |= await _scored(context, indexing, matrix, op, query, ids, now)
        dropped = sum(item not in scored for _, item in ranking)
        if len(ranking) < count or count - dropped >= wanted:
            return sorted(scored.values(), key=lambda pair: (-pair[1], pair[0]["_id"]))
        if among is None:
            among = await _possible(context, op, now)
        count *= FILTERED


async def _possible(context: Context, op: SearchOp, now: datetime) -> set[str] | None:
    """Ask the server for the ids that may match the filter; None where it cannot narrow."""
    narrowed = to_query(op.filter or {}, field="value", exact_field="exact")
    if not narrowed:
        return None
    query = {"prefixes": path_of(op.namespace_prefix), **context.expiry.condition(now), **narrowed}
    return {document["_id"] for document in await Find(context.items, query, {"_id": 1})}


async def _scored(
    context: Context,
    indexing: Indexing,
    matrix: Matrix,
    op: SearchOp,
    query: Vector,
    ids: Sequence[str],
    now: datetime,
) -> dict[str, tuple[Document, float]]:
    """Read candidates as they are now, and score those that are still there, comparable, and match."""
    if not ids:
        return {}
    narrowed = to_query(op.filter or {}, field="value", exact_field="exact")
    condition = {"_id": {"$in": list(ids)}, "path": path_range(op.namespace_prefix), **narrowed}
    found = await Find(context.items, condition, RANKED, hint=BY_ID)
    if not narrowed:
        matrix.forget(set(ids).difference(document["_id"] for document in found))
    documents = [
        document
        for document in found
        if document.get("index") == indexing.fingerprint
        and "vectors" in document
        and is_there(context, document, now)
        and passes(op.filter, document)
    ]
    scores = _scores(documents, query, indexing)
    return {document["_id"]: (document, score) for document, score in zip(documents, scores, strict=True)}


def _scores(documents: Sequence[Document], query: Vector, indexing: Indexing) -> list[float]:
    """Score each document by the best of its vectors."""
    if not documents:
        return []
    counts = [len(document["vectors"]) for document in documents]
    vectors = decode_vectors([entry["vector"] for document in documents for entry in document["vectors"]])
    starts = np.cumsum([0, *counts[:-1]])
    best: list[float] = np.maximum.reduceat(similarities(vectors, query, indexing.metric), starts).tolist()
    return best


async def fresh_matrix(context: Context, indexing: Indexing, path: str) -> Matrix:
    """Return the matrix of a prefix with everything in it that was acknowledged before now."""
    matrix = context.matrices.get(path, indexing.dims, indexing.metric)
    if matrix.freshness.loaded:
        await _catch_up(context, indexing, matrix, path)
    else:
        await _load(context, indexing, matrix, path)
    context.matrices.trim()
    return matrix


async def _load(context: Context, indexing: Indexing, matrix: Matrix, path: str) -> None:
    began = time.monotonic()
    condition: dict[str, Any] = {"prefixes": path}
    stamps: list[Any] = []
    while True:
        page = await Find(context.items, condition, CODED, sort=[("changed_at", 1)], limit=LOAD_PAGE)
        await Compute(partial(matrix.absorb, _changes(page, indexing)), len(page) * indexing.dims)
        stamps += [document["changed_at"] for document in page[-1:]]
        if len(page) < LOAD_PAGE:
            break
        condition = {"prefixes": path, "changed_at": {"$gte": stamps[-1]}}
    matrix.note(stamps, began=began, ended=time.monotonic())


async def _catch_up(context: Context, indexing: Indexing, matrix: Matrix, path: str) -> None:
    began = time.monotonic()
    condition = {"prefixes": path, "changed_at": {"$gt": matrix.freshness.floor}}
    met = await Find(context.items, condition, {"changed_at": 1})
    unknown = matrix.unknown((document["_id"], document["changed_at"]) for document in met)
    for start in range(0, len(unknown), LOAD_PAGE):
        ids = unknown[start : start + LOAD_PAGE]
        page = await Find(context.items, {"_id": {"$in": ids}}, CODED, hint=BY_ID)
        matrix.absorb(_changes(page, indexing))
    matrix.note([document["changed_at"] for document in met], began=began, ended=time.monotonic())


def _changes(documents: Sequence[Document], indexing: Indexing) -> list[Change]:
    return [
        Change(
            document["_id"],
            document["changed_at"],
            document.get("codes") if document.get("index") == indexing.fingerprint else None,
        )
        for document in documents
    ]
