"""Plans of semantic search: take candidates from a source, read them again, score them.

The order of a search, and why:

1. The source ranks its candidates by approximate scores. It knows codes and no values, so it can
   apply no filter.
2. The candidates are read by their ids as they are now, filtered and scored by their float32
   vectors. Only this decides an answer: a candidate that was deleted, has expired or changed costs
   a read and nothing else.
3. The first `count` candidates are at least as close as any item that is not a candidate. So the
   ranking ends once as many of them as the page needs have a score. Candidates behind them may have
   a score too, but an item that is no candidate may be closer than these.
4. Where a filter dropped too many, the server lists the ids that may match, and the source ranks
   among these (`_widen`).
5. Items without a score follow in the order of updates.

Refused: asking the server for the ids that may match first. It would read every item of the prefix,
also for a filter that most items match, where the best candidates suffice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mongomem.engine.commands import (
    Document,
    Find,
    slices,
)
from mongomem.store.context import Context
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import BY_CHANGE, ITEM_FIELDS, entries_in, name_of
from mongomem.store.documents.ops import Search
from mongomem.store.documents.stored_item import StoredItem, ids_in, sound_items
from mongomem.store.plans.candidates import Candidates, candidate_source
from mongomem.store.plans.index_sync import IndexScope
from mongomem.store.plans.model_check import check_model, warn_of_blank_paths
from mongomem.store.plans.plain_search import newest_matching
from mongomem.store.plans.read import find_by_id, find_with_hint, matches_search
from mongomem.store.plans.setup import ensure_config
from mongomem.store.vectors.quantization import (
    Vector,
    are_finite,
    decode_vectors,
    is_vector,
    similarities,
)

FoundItem: TypeAlias = tuple[StoredItem, float | None]
"""An item of the answer, and its score where it has one."""

ScoredItem: TypeAlias = tuple[StoredItem, float]

SCORING_FIELDS = {**ITEM_FIELDS, "index": 1, "vectors.vector": 1}
"""Projection of what an item and its score are read from."""

PAGE_SIZE = 2_000
"""Candidates read at a time: 12 MB of vectors of 1,536 dimensions."""

OVERSAMPLING = 4
"""How many times more candidates are asked for where a filter may drop some or dropped too many."""


@dataclass(frozen=True, slots=True)
class _Query:
    """A semantic search.

    Attributes:
        vector: The query, embedded: float32 of shape (dims,).
        now: The moment that decides which items have expired.
    """

    context: Context
    indexing: IndexSettings
    search: Search
    vector: Vector
    now: datetime

    @property
    def page_end(self) -> int:
        """How many of the best items the page and the pages before it hold."""
        return self.search.offset + self.search.limit


@dataclass(slots=True)
class _Rescored:
    """The candidates that were read so far.

    Attributes:
        seen: Their ids.
        scored: Those of them that match and have a score, by their ids.
    """

    seen: set[str] = field(default_factory=set)
    scored: dict[str, ScoredItem] = field(default_factory=dict)

    def count_scored(self, ids: Sequence[str]) -> int:
        """Count the ids whose items have a score."""
        return sum(item in self.scored for item in ids)

    def ranking(self) -> list[ScoredItem]:
        """Sort the items with a score, best first, and by id where scores are equal."""
        return sorted(self.scored.values(), key=lambda pair: (-pair[1], pair[0].id))


async def semantic_search(
    context: Context, indexing: IndexSettings, search: Search, vector: Vector, now: datetime
) -> list[FoundItem]:
    """Find the items below a prefix that match, closest in meaning first; items without a
    comparable vector follow, unscored.

    What was acknowledged before the search began is found, whoever wrote it. The order is total: by
    score, then by id; behind the scored items by update, then by id. With a `min_score` nothing
    follows the items that reach it.
    """
    indexing = await ensure_config(context, write=False) or indexing
    await check_model(context, indexing)
    query = _Query(context, indexing, search, vector, now)
    ranking = await _rank_and_rescore(query)
    lowest = search.min_score
    if lowest is not None:
        ranking = [pair for pair in ranking if pair[1] >= lowest]
    page: list[FoundItem] = [*ranking[search.offset : query.page_end]]
    if len(page) == search.limit or lowest is not None:
        return page
    return page + await _unscored(query, ranking, search.limit - len(page))


async def _unscored(query: _Query, ranking: Sequence[ScoredItem], limit: int) -> list[FoundItem]:
    """Read the items without a score that follow a ranking.

    They are the items that are not in the ranking, and not those that have no vectors: an item may
    get or lose its vectors meanwhile, and is in the answer once all the same.
    """
    found = await newest_matching(
        query.context,
        query.search,
        query.now,
        skip=max(0, query.search.offset - len(ranking)),
        limit=limit,
        exclude={stored.id for stored, _ in ranking},
    )
    if found and not ranking:
        await warn_of_blank_paths(query.context, least=1)
    return [(stored, None) for stored in found]


async def _rank_and_rescore(query: _Query) -> list[ScoredItem]:
    """Rank the best ``offset + limit`` items at least, or all items with a score."""
    scope = IndexScope(query.context, query.indexing, query.search.path)
    source = await candidate_source(scope, query.vector)
    count = query.page_end * (OVERSAMPLING if query.search.filter else 1)
    restrict_to: set[str] | None = None
    rescored = _Rescored()
    while True:
        candidates = await source.candidates(count, restrict_to)
        await _rescore(query, candidates, rescored)
        if _suffices(query, candidates, count, rescored):
            return rescored.ranking()
        count, restrict_to = await _widen(query, count, restrict_to)


def _suffices(query: _Query, candidates: Candidates, count: int, rescored: _Rescored) -> bool:
    """Say whether no item outside of a ranking can be on the page: all candidates were read, or
    enough of the best `count` have a score.
    """
    is_all = candidates.is_complete and len(candidates.ids) < count
    return is_all or rescored.count_scored(candidates.ids[:count]) >= query.page_end


async def _widen(
    query: _Query, count: int, restrict_to: set[str] | None
) -> tuple[int, set[str] | None]:
    """Choose how many candidates to ask for next, and among which ids.

    The server is asked once which ids may match. Where it cannot narrow, and where it did already,
    the number grows.
    """
    matching = await _ids_matching_filter(query) if restrict_to is None else None
    if matching is not None:
        return query.page_end, matching
    return count * OVERSAMPLING, restrict_to


async def _ids_matching_filter(query: _Query) -> set[str] | None:
    """Ask the server for the ids that may match the filter; None where it cannot narrow."""
    context, search = query.context, query.search
    if not search.narrowed:
        return None
    condition = {
        "prefixes": search.path,
        **context.expiry.condition(query.now),
        **search.narrowed,
    }
    find = Find(context.items, condition, {"_id": 1}, sort=[("changed_at", 1)])
    return set(ids_in(await find_with_hint(context, BY_CHANGE, find)))


async def _rescore(query: _Query, candidates: Candidates, rescored: _Rescored) -> None:
    """Read and score the candidates that were not read before, a page at a time."""
    new = [item for item in candidates.ids if item not in rescored.seen]
    narrowed = query.search.narrowed
    for ids in slices(new, PAGE_SIZE):
        documents = await find_by_id(query.context, ids, SCORING_FIELDS, narrowed)
        if not narrowed and len(documents) < len(ids):
            candidates.on_missing({*ids} - {document["_id"] for document in documents})
        rescored.scored |= _scores(query, documents)
    rescored.seen.update(new)


def _matching(query: _Query, documents: Sequence[Document]) -> dict[str, StoredItem]:
    """Choose the candidates that are answers as they are now: sound, not expired, and matching."""
    context, search = query.context, query.search
    return {
        stored.id: stored
        for stored in sound_items(documents, context.damage)
        if not context.expiry.has_expired(stored.expires_at, query.now)
        and matches_search(search, stored)
    }


def _scores(query: _Query, documents: Sequence[Document]) -> dict[str, ScoredItem]:
    """Score each item that matches by the best of its vectors; leave out items without a
    comparable one.
    """
    matching = _matching(query, documents)
    vectors = {
        document["_id"]: _take_vectors(query, document)
        for document in documents
        if document["_id"] in matching
    }
    comparable = {item: own for item, own in vectors.items() if own}
    scores: dict[str, ScoredItem] = {}
    for item, score in _best_scores(query, comparable).items():
        if score is None:
            _note_damage(query.context, item)
        else:
            scores[item] = matching[item], score
    return scores


def _best_scores(query: _Query, vectors: Mapping[str, Sequence[bytes]]) -> dict[str, float | None]:
    """Score items by the vectors of each; None where a number of these is not finite.

    All vectors are compared together, by a few calls of numpy.
    """
    if not vectors:
        return {}
    rows, are_sound = _decoded([vector for own in vectors.values() for vector in own])
    scores = similarities(rows, query.vector, query.indexing.metric)
    first_rows = np.cumsum([0, *map(len, vectors.values())])[:-1]
    best: list[float] = np.maximum.reduceat(scores, first_rows).tolist()
    is_sound: list[bool] = np.logical_and.reduceat(are_sound, first_rows).tolist()
    return {item: best[n] if is_sound[n] else None for n, item in enumerate(vectors)}


def _decoded(vectors: Sequence[bytes]) -> tuple[Vector, npt.NDArray[np.bool_]]:
    """Decode vectors, and say which of them are finite. Of the others all numbers are zero: they
    must not make numpy warn.
    """
    rows = decode_vectors(vectors)
    finite = are_finite(rows)
    if finite.all():
        return rows, finite
    return np.where(finite[:, None], rows, np.float32(0)), finite


def _take_vectors(query: _Query, document: Document) -> list[bytes]:
    """Take the vectors out of a document, which is large with them; none where they cannot be
    compared or read.
    """
    vectors: list[Any] = [entry.get("vector") for entry in entries_in(document)]
    document.pop("vectors", None)
    if document.get("index") != query.indexing.fingerprint:
        return []
    if not all(is_vector(vector, query.indexing.dims) for vector in vectors):
        _note_damage(query.context, document["_id"])
        return []
    return vectors


def _note_damage(context: Context, id: str) -> None:
    consequence = f"{name_of({'_id': id})} follows unscored: its vectors are damaged"
    context.damage.note(repr(id), consequence)
