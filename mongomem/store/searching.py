"""Plans of semantic search on any MongoDB: keep a matrix fresh, rank in it, read the best again and score them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
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
from mongomem.store.reading import matching, passes
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

    Of the `count` best in the matrix some may be gone, or not match; as many more have to be looked at.
    """
    path = path_of(op.namespace_prefix)
    matrix = await fresh_matrix(context, indexing, path)
    wanted = op.offset + op.limit
    count = FILTERED * wanted if op.filter else wanted
    seen: set[str] = set()
    scored: list[tuple[Document, float]] = []
    while True:
        ranking = await Compute(lambda count=count: matrix.rank(query, count), matrix.size)  # type: ignore[misc]
        ids = [item for _, item in ranking if item not in seen]
        seen.update(ids)
        scored += await _scored(context, indexing, op, query, ids, now)
        if count - (len(seen) - len(scored)) >= wanted or not ids:
            break
        count = FILTERED * count
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]["_id"]))


async def _scored(
    context: Context, indexing: Indexing, op: SearchOp, query: Vector, ids: Sequence[str], now: datetime
) -> list[tuple[Document, float]]:
    if not ids:
        return []
    narrowed = to_query(op.filter or {}, field="value", exact_field="exact")
    found = await Find(
        context.items,
        {
            "_id": {"$in": list(ids)},
            "path": path_range(op.namespace_prefix),
            "index": indexing.fingerprint,
            "vectors": {"$exists": True},
            **context.expiry.condition(now),
            **narrowed,
        },
        RANKED,
        hint=BY_ID,
    )
    documents = [document for document in found if passes(op.filter, document)]
    return list(zip(documents, _scores(documents, query, indexing), strict=True))


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
        await Compute(lambda page=page: matrix.absorb(_changes(page, indexing)), len(page) * indexing.dims)  # type: ignore[misc]
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
