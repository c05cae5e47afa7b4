"""Plans of semantic search on any MongoDB: keep a matrix fresh, rank in it, read the best again and score them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

import numpy as np
from langgraph.store.base import SearchOp

from mongomem.commands import Document, Find
from mongomem.search.codes import decode_vectors
from mongomem.search.matrix import Matrix
from mongomem.search.metrics import Vector, similarities
from mongomem.store.context import Context
from mongomem.store.documents import BY_CHANGE, SHOWN
from mongomem.store.filters import to_query
from mongomem.store.indexing import Indexing
from mongomem.store.namespaces import path_of
from mongomem.store.ordered import matching
from mongomem.store.proposing import proposer
from mongomem.store.reading import find_by, find_by_id, is_there, passes
from mongomem.store.setup import check_configuration
from mongomem.store.watching import compare_answers, warn_of_blank_paths

Scored: TypeAlias = tuple[Document, float | None]

RANKED = {**SHOWN, "index": 1, "vectors.vector": 1}

PAGE = 2_000
"""Candidates read at a time: 12 MB of vectors of 1,536 dimensions."""

FILTERED = 4
"""How many times more candidates are looked at where a filter may drop some, or has dropped too many."""


async def semantic_search(
    context: Context, indexing: Indexing, op: SearchOp, query: Vector, now: datetime
) -> list[Scored]:
    """Find the items below a prefix that match, closest in meaning first; those without a vector follow, unscored.

    What was acknowledged before the search began is in it, whoever wrote it. The order is total: by
    score, then by id; behind it by update, then by id.
    """
    indexing = await check_configuration(context) or indexing
    await compare_answers(context, indexing)
    scored = await _ranked(context, indexing, op, query, now)
    page: list[Scored] = list(scored[op.offset : op.offset + op.limit])
    if missing := op.limit - len(page):
        answered = {document["_id"] for document, _ in scored}  # by their ids: what has a vector changes meanwhile
        skip = max(0, op.offset - len(scored))
        rest = await matching(context, op, now, skip=skip, limit=missing, without=answered)
        page += [(document, None) for document in rest]
        if rest and not scored:
            await warn_of_blank_paths(context, least=1)
    return page


async def _ranked(
    context: Context, indexing: Indexing, op: SearchOp, query: Vector, now: datetime
) -> list[tuple[Document, float]]:
    """Rank the best ``offset + limit`` items at least, or all there are.

    Of the first `count` proposals each is certain to be closer than all that was not proposed. But some
    may be gone, or not match the filter; then more have to be looked at, and where the first look was
    not enough, the server says which ones may match at all.
    """
    propose, matrix = await proposer(context, indexing, path_of(op.namespace_prefix), query)
    wanted = op.offset + op.limit
    count = FILTERED * wanted if op.filter else wanted
    among: set[str] | None = None
    seen: set[str] = set()
    scored: dict[str, tuple[Document, float]] = {}
    while True:
        proposal = await propose(count, among)
        new = [item for item in proposal.ids if item not in seen]
        for start in range(0, len(new), PAGE):
            there = await _candidates(context, op, new[start : start + PAGE], matrix)
            scored |= _scored([document for document in there if is_found(context, op, document, now)], query, indexing)
        seen.update(new)
        enough = sum(item in scored for item in proposal.ids[:count]) >= wanted
        if enough or (proposal.final and len(proposal.ids) < count):
            return sorted(scored.values(), key=lambda pair: (-pair[1], pair[0]["_id"]))
        narrowed = None if among is not None else await _possible(context, op, now)
        among, count = (among, count * FILTERED) if narrowed is None else (narrowed, wanted)


async def _possible(context: Context, op: SearchOp, now: datetime) -> set[str] | None:
    """Ask the server for the ids that may match the filter; None where it cannot narrow."""
    narrowed = to_query(op.filter or {}, field="value", exact_field="exact")
    if not narrowed:
        return None
    query = {"prefixes": path_of(op.namespace_prefix), **context.expiry.condition(now), **narrowed}
    found = await find_by(context, BY_CHANGE, Find(context.items, query, {"_id": 1}, sort=[("changed_at", 1)]))
    return {document["_id"] for document in found}


async def _candidates(context: Context, op: SearchOp, ids: Sequence[str], matrix: Matrix | None) -> list[Document]:
    """Read candidates as they are now. Those that are gone leave the matrix."""
    if not ids:
        return []
    narrowed = to_query(op.filter or {}, field="value", exact_field="exact")
    seen = matrix.seen(ids) if matrix is not None and not narrowed else {}
    found = await find_by_id(context, ids, RANKED, narrowed)
    if matrix is not None and len(seen) > len(found):
        there = {document["_id"] for document in found}
        matrix.forget({item: stamp for item, stamp in seen.items() if item not in there})
    return found


def is_found(context: Context, op: SearchOp, document: Document, now: datetime) -> bool:
    """Say whether a candidate, as it is now, is an answer: not expired, and matching."""
    return is_there(context, document, now) and passes(op.filter, document)


def _scored(documents: Sequence[Document], query: Vector, indexing: Indexing) -> dict[str, tuple[Document, float]]:
    """Score each document by the best of its vectors; leave out those without a comparable one."""
    vectors = [
        [entry["vector"] for entry in document.get("vectors", ())]
        if document.get("index") == indexing.fingerprint
        else []
        for document in documents
    ]
    coded = [(document, own) for document, own in zip(documents, vectors, strict=True) if own]
    if not coded:
        return {}
    starts = np.cumsum([0, *(len(own) for _, own in coded[:-1])])
    rows = decode_vectors([vector for _, own in coded for vector in own])
    best = np.maximum.reduceat(similarities(rows, query, indexing.metric), starts).tolist()
    for document, _ in coded:
        del document["vectors"]
    return {document["_id"]: (document, score) for (document, _), score in zip(coded, best, strict=True)}
