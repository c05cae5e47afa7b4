"""Plans of semantic search on any MongoDB: keep a matrix fresh, rank in it, read the best again and score them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np

from mongomem.engine.commands import Document, Find
from mongomem.store.context import Context
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import BY_CHANGE, SHOWN, entries_in, name_of
from mongomem.store.documents.ops import Search
from mongomem.store.documents.stored_item import StoredItem, ids_in, sound_items
from mongomem.store.plans.candidates import proposer
from mongomem.store.plans.model_check import compare_answers, warn_of_blank_paths
from mongomem.store.plans.plain_search import newest_matching
from mongomem.store.plans.read import answers, find_by_id, find_with_hint
from mongomem.store.plans.setup import check_configuration
from mongomem.store.vectors.memory_index import MemoryIndex
from mongomem.store.vectors.quantization import Vector, are_finite, decode_vectors, is_vector, similarities

Scored: TypeAlias = tuple[StoredItem, float | None]

RANKED = {**SHOWN, "index": 1, "vectors.vector": 1}

PAGE = 2_000
"""Candidates read at a time: 12 MB of vectors of 1,536 dimensions."""

FILTERED = 4
"""How many times more candidates are looked at where a filter may drop some, or has dropped too many."""


async def semantic_search(
    context: Context, indexing: IndexSettings, search: Search, query: Vector, now: datetime
) -> list[Scored]:
    """Find the items below a prefix that match, closest in meaning first; those without a vector follow, unscored.

    What was acknowledged before the search began is in it, whoever wrote it. The order is total: by
    score, then by id; behind it by update, then by id. With a lowest score nothing follows, and pages end there.
    """
    indexing = await check_configuration(context) or indexing
    await compare_answers(context, indexing)
    scored = await _ranked(context, indexing, search, query, now)
    end, lowest = search.offset + search.limit, search.min_score
    if lowest is not None:
        scored = [pair for pair in scored if pair[1] >= lowest]
    page: list[Scored] = list(scored[search.offset : end])
    if (missing := search.limit - len(page)) and lowest is None:
        answered = {stored.id for stored, _ in scored}  # by their ids: what has a vector changes meanwhile
        skip = max(0, search.offset - len(scored))
        rest = await newest_matching(context, search, now, skip=skip, limit=missing, without=answered)
        page += [(stored, None) for stored in rest]
        if rest and not scored:
            await warn_of_blank_paths(context, least=1)
    return page


async def _ranked(
    context: Context, indexing: IndexSettings, search: Search, query: Vector, now: datetime
) -> list[tuple[StoredItem, float]]:
    """Rank the best ``offset + limit`` items at least, or all there are.

    Of the first `count` proposals each is certain to be closer than all that was not proposed. But some
    may be gone, or not match the filter; then more have to be looked at, and where the first look was
    not enough, the server says which ones may match at all.
    """
    propose, matrix = await proposer(context, indexing, search.path, query)
    wanted = search.offset + search.limit
    count = FILTERED * wanted if search.filter else wanted
    among: set[str] | None = None
    seen: set[str] = set()
    scored: dict[str, tuple[StoredItem, float]] = {}
    while True:
        proposal = await propose(count, among)
        new = [item for item in proposal.ids if item not in seen]
        for start in range(0, len(new), PAGE):
            documents = await _candidates(context, search, new[start : start + PAGE], matrix)
            scored |= _scored(context, indexing, documents, _found(context, search, documents, now), query)
        seen.update(new)
        enough = sum(item in scored for item in proposal.ids[:count]) >= wanted
        if enough or (proposal.final and len(proposal.ids) < count):
            return sorted(scored.values(), key=lambda pair: (-pair[1], pair[0].id))
        narrowed = None if among is not None else await _possible(context, search, now)
        among, count = (among, count * FILTERED) if narrowed is None else (narrowed, wanted)


async def _possible(context: Context, search: Search, now: datetime) -> set[str] | None:
    """Ask the server for the ids that may match the filter; None where it cannot narrow."""
    if not search.narrowed:
        return None
    query = {"prefixes": search.path, **context.expiry.condition(now), **search.narrowed}
    return set(
        ids_in(
            await find_with_hint(context, BY_CHANGE, Find(context.items, query, {"_id": 1}, sort=[("changed_at", 1)]))
        )
    )


async def _candidates(
    context: Context, search: Search, ids: Sequence[str], matrix: MemoryIndex | None
) -> list[Document]:
    """Read candidates as they are now. Those that are gone leave the matrix."""
    if not ids:
        return []
    seen = matrix.seen(ids) if matrix is not None and not search.narrowed else {}
    found = await find_by_id(context, ids, RANKED, search.narrowed)
    if matrix is not None and len(seen) > len(found):
        there = {document["_id"] for document in found}
        matrix.forget({item: stamp for item, stamp in seen.items() if item not in there})
    return found


def _found(context: Context, search: Search, documents: Sequence[Document], now: datetime) -> dict[str, StoredItem]:
    """Choose the candidates that are answers as they are now: sound, not expired, and matching."""
    return {
        stored.id: stored
        for stored in sound_items(documents, context.damage)
        if not context.expiry.is_over(stored.expires_at, now) and answers(search, stored)
    }


def _scored(
    context: Context,
    indexing: IndexSettings,
    documents: Sequence[Document],
    found: Mapping[str, StoredItem],
    query: Vector,
) -> dict[str, tuple[StoredItem, float]]:
    """Score each item that was found by the best of its vectors; leave out those without a comparable one."""
    coded = [
        (document, vectors)
        for document in documents
        if document["_id"] in found and (vectors := _vectors(context, indexing, document))
    ]
    if not coded:
        return {}
    starts = np.cumsum([0, *(len(own) for _, own in coded[:-1])])
    rows = decode_vectors([vector for _, own in coded for vector in own])
    finite = are_finite(rows)
    if not finite.all():
        rows = np.where(finite[:, None], rows, np.float32(0))
    sound = np.logical_and.reduceat(finite, starts)
    best = np.maximum.reduceat(similarities(rows, query, indexing.metric), starts).tolist()
    for (document, _), is_sound in zip(coded, sound, strict=True):
        if not is_sound:
            _note(context, document)
    return {
        document["_id"]: (found[document["_id"]], score)
        for (document, _), score, is_sound in zip(coded, best, sound, strict=True)
        if is_sound
    }


def _vectors(context: Context, indexing: IndexSettings, document: Document) -> list[bytes]:
    """Take the vectors out of a document, which is large with them; none where they cannot be compared or read."""
    vectors: list[Any] = [entry.get("vector") for entry in entries_in(document)]
    document.pop("vectors", None)
    if document.get("index") != indexing.fingerprint:
        return []
    if not all(is_vector(vector, indexing.dims) for vector in vectors):
        _note(context, document)
        return []
    return vectors


def _note(context: Context, document: Document) -> None:
    consequence = f"{name_of(document)} follows unscored: its vectors are damaged"
    context.damage.note(repr(document["_id"]), consequence)
