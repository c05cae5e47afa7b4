"""Plans of semantic search on any MongoDB: keep a matrix fresh, rank in it, read the best again and
score them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

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
from mongomem.store.vectors.quantization import (
    Metric,
    Vector,
    are_finite,
    decode_vectors,
    is_vector,
    similarities,
)

Scored: TypeAlias = tuple[StoredItem, float | None]

Ranked: TypeAlias = tuple[StoredItem, float]

RANKED = {**SHOWN, "index": 1, "vectors.vector": 1}

PAGE = 2_000
"""Candidates read at a time: 12 MB of vectors of 1,536 dimensions."""

FILTERED = 4
"""How many times more candidates are looked at where a filter may drop some, or has dropped too
many."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A search by meaning, its query as a vector, and the moment by which items expire in it."""

    context: Context
    indexing: IndexSettings
    search: Search
    query: Vector
    now: datetime

    @property
    def wanted(self) -> int:
        """How many of the best items a page and the pages before it hold."""
        return self.search.offset + self.search.limit


@dataclass(slots=True)
class _Looked:
    """What one ranking has read: the ids it looked at, and by their ids the items among them that
    have a score.
    """

    seen: set[str] = field(default_factory=set)
    scored: dict[str, Ranked] = field(default_factory=dict)

    def answers_among(self, ids: Sequence[str]) -> int:
        """Count the ids whose items have a score."""
        return sum(item in self.scored for item in ids)

    def ranking(self) -> list[Ranked]:
        """Sort the items with a score, best first, and by id where scores are equal."""
        return sorted(self.scored.values(), key=lambda pair: (-pair[1], pair[0].id))


async def semantic_search(
    context: Context, indexing: IndexSettings, search: Search, query: Vector, now: datetime
) -> list[Scored]:
    """Find the items below a prefix that match, closest in meaning first; those without a vector
    follow, unscored.

    What was acknowledged before the search began is in it, whoever wrote it. The order is total: by
    score, then by id; behind it by update, then by id. With a lowest score nothing follows, and
    pages end there.
    """
    indexing = await check_configuration(context) or indexing
    await compare_answers(context, indexing)
    question = _Question(context, indexing, search, query, now)
    ranking = await _ranked(question)
    lowest = search.min_score
    if lowest is not None:
        ranking = [pair for pair in ranking if pair[1] >= lowest]
    page: list[Scored] = list(ranking[search.offset : question.wanted])
    if (missing := search.limit - len(page)) and lowest is None:
        page += await _unscored(question, ranking, missing)
    return page


async def _unscored(question: _Question, ranking: Sequence[Ranked], missing: int) -> list[Scored]:
    """Read what follows a ranking: the items without a score, as many as a page misses."""
    context, search = question.context, question.search
    answered = {
        stored.id for stored, _ in ranking
    }  # by their ids: what has a vector changes meanwhile
    skip = max(0, search.offset - len(ranking))
    rest = await newest_matching(
        context, search, question.now, skip=skip, limit=missing, without=answered
    )
    if rest and not ranking:
        await warn_of_blank_paths(context, least=1)
    return [(stored, None) for stored in rest]


async def _ranked(question: _Question) -> list[Ranked]:
    """Rank the best ``offset + limit`` items at least, or all there are.

    The first `count` ids of a proposal are closer than every id that was not proposed. So a look is
    enough once `wanted` of those have a score: an item behind them may have one too, but is not
    known to be the next best. Some of the `count` may be gone, or not match the filter. Then the
    next look is wider, see `_wider`.

    Refused: to ask the server first which ids may match the filter. It would look at every item
    below the prefix, for a filter that most items may match, where the best few are proposed from
    memory. Also refused: to rank by the filter in the matrix, which holds codes and no values.
    """
    propose, matrix = await proposer(
        question.context, question.indexing, question.search.path, question.query
    )
    count = FILTERED * question.wanted if question.search.filter else question.wanted
    among: set[str] | None = None
    looked = _Looked()
    while True:
        proposal = await propose(count, among)
        await _look_at(question, proposal.ids, matrix, looked)
        is_all = proposal.final and len(proposal.ids) < count
        if is_all or looked.answers_among(proposal.ids[:count]) >= question.wanted:
            return looked.ranking()
        count, among = await _wider(question, count, among)


async def _wider(
    question: _Question, count: int, among: set[str] | None
) -> tuple[int, set[str] | None]:
    """Choose how many to ask for next, and among which ids: those that may match, where the server
    can tell them.

    The server is asked once. Where it cannot narrow, or has already, the number grows.
    """
    possible = await _possible(question) if among is None else None
    return (count * FILTERED, among) if possible is None else (question.wanted, possible)


async def _possible(question: _Question) -> set[str] | None:
    """Ask the server for the ids that may match the filter; None where it cannot narrow."""
    context, search = question.context, question.search
    if not search.narrowed:
        return None
    condition = {
        "prefixes": search.path,
        **context.expiry.condition(question.now),
        **search.narrowed,
    }
    find = Find(context.items, condition, {"_id": 1}, sort=[("changed_at", 1)])
    return set(ids_in(await find_with_hint(context, BY_CHANGE, find)))


async def _look_at(
    question: _Question, ids: Sequence[str], matrix: MemoryIndex | None, looked: _Looked
) -> None:
    """Read and score the candidates that were not looked at before, a page at a time."""
    new = [item for item in ids if item not in looked.seen]
    for start in range(0, len(new), PAGE):
        documents = await _candidates(question, new[start : start + PAGE], matrix)
        looked.scored |= _scored(question, documents, _found(question, documents))
    looked.seen.update(new)


async def _candidates(
    question: _Question, ids: Sequence[str], matrix: MemoryIndex | None
) -> list[Document]:
    """Read candidates as they are now. Those that are gone leave the matrix."""
    if not ids:
        return []
    narrowed = question.search.narrowed
    seen = matrix.seen(ids) if matrix is not None and not narrowed else {}
    found = await find_by_id(question.context, ids, RANKED, narrowed)
    if matrix is not None and len(seen) > len(found):
        there = {document["_id"] for document in found}
        matrix.forget({item: stamp for item, stamp in seen.items() if item not in there})
    return found


def _found(question: _Question, documents: Sequence[Document]) -> dict[str, StoredItem]:
    """Choose the candidates that are answers as they are now: sound, not expired, and matching."""
    context, search, now = question.context, question.search, question.now
    return {
        stored.id: stored
        for stored in sound_items(documents, context.damage)
        if not context.expiry.is_over(stored.expires_at, now) and answers(search, stored)
    }


def _scored(
    question: _Question, documents: Sequence[Document], found: Mapping[str, StoredItem]
) -> dict[str, Ranked]:
    """Score each item that was found by the best of its vectors; leave out those without a
    comparable one.
    """
    context, indexing = question.context, question.indexing
    coded = [
        (document, vectors)
        for document in documents
        if document["_id"] in found and (vectors := _vectors(context, indexing, document))
    ]
    scored: dict[str, Ranked] = {}
    if not coded:
        return scored
    best, sound = _best_of_each([vectors for _, vectors in coded], question.query, indexing.metric)
    for (document, _), score, is_sound in zip(coded, best, sound, strict=True):
        if is_sound:
            scored[document["_id"]] = found[document["_id"]], score
        else:
            _note(context, document)
    return scored


def _best_of_each(
    vectors: Sequence[Sequence[bytes]], query: Vector, metric: Metric
) -> tuple[list[float], npt.NDArray[np.bool_]]:
    """Score items by the vectors of each: the best similarity, and whether all its numbers are
    finite.

    All vectors are compared at once. What is not finite counts as zero, so that one damaged item
    does not make numpy warn of the others.
    """
    starts = np.cumsum([0, *(len(own) for own in vectors[:-1])])
    rows = decode_vectors([vector for own in vectors for vector in own])
    finite = are_finite(rows)
    if not finite.all():
        rows = np.where(finite[:, None], rows, np.float32(0))
    best: list[float] = np.maximum.reduceat(similarities(rows, query, metric), starts).tolist()
    return best, np.logical_and.reduceat(finite, starts)


def _vectors(context: Context, indexing: IndexSettings, document: Document) -> list[bytes]:
    """Take the vectors out of a document, which is large with them; none where they cannot be
    compared or read.
    """
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
