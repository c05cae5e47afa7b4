"""Plans of semantic search: take candidates from a source, read them again, score them.

Items are ranked by meaning, by words, or by both (`mongomem.store.vectors.fusion`).

The order of a search, and why:

1. The source ranks its candidates by approximate scores. It knows codes and no values, so it can
   apply no filter.
2. The candidates are read by their ids as they are now, filtered and scored by their float32
   vectors and their terms. Only this decides an answer: a candidate that was deleted, has expired
   or changed costs a read and nothing else.
3. The first `count` candidates are at least as close as any item that is not a candidate. So the
   ranking ends once as many of them as the page needs have a score. Candidates behind them may have
   a score too, but an item that is no candidate may be closer than these.
4. Where a filter dropped too many, the server lists the ids that may match, and the source ranks
   among these (`_widen`). Where it listed them for another search before, the source ranks among
   these from the first. Where the last filter of the same kind matched few items, the server lists
   them before anything is ranked (`_first_round`).
5. Items without a score follow in the order of updates.

Refused: asking the server first for the ids that may match, by any filter. It would read every item
of the prefix, also for a filter that most items match, where the best candidates suffice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias

from mongomem.engine.commands import (
    Document,
    Find,
    slices,
)
from mongomem.engine.effects import HEAVY_BYTES, Compute
from mongomem.errors import CorruptDataError
from mongomem.store.context import Context
from mongomem.store.documents.filter_query import name_of_query
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import BY_CHANGE, ITEM_FIELDS, name_of
from mongomem.store.documents.ops import Search
from mongomem.store.documents.score import SCORED_FIELDS, TERM_FIELDS, scored_documents
from mongomem.store.documents.stored_item import Score, StoredItem, ids_in, sound_items, texts_in
from mongomem.store.plans.candidates import Candidates, CandidateSource, candidate_source
from mongomem.store.plans.index_sync import IndexScope
from mongomem.store.plans.model_check import check_model, warn_of_blank_paths
from mongomem.store.plans.plain_search import newest_matching
from mongomem.store.plans.read import find_by_id, find_with_hint, matches_search
from mongomem.store.plans.setup import ensure_config
from mongomem.store.vectors.fusion import Ranking
from mongomem.store.vectors.quantization import Vector
from mongomem.store.words.analysis import WORK_PER_CHARACTER
from mongomem.store.words.bm25 import TermStatistics, WordQuery
from mongomem.store.words.query import ParsedQuery, Phrase, parse_query

ScoredItem: TypeAlias = tuple[StoredItem, Score]

FoundItem: TypeAlias = tuple[StoredItem, Score | None]
"""An item of the answer, and its score where it has one."""

RARITY_POWER = 0.75
"""How much the rarity of a word counts in the meaning of a query, where its words can be weighted
(docs/decisions/hybrid-ranking.md)."""

PAGE_SIZE = 2_000
"""Candidates read at a time: 12 MB of vectors of 1,536 dimensions."""

OVERSAMPLING = 4
"""How many times more candidates are asked for where a filter may drop some or dropped too many."""


@dataclass(frozen=True, slots=True)
class _Query:
    """A semantic search.

    Attributes:
        vector: The query, embedded: float32 of shape (dims,).
        parsed: The query as words; None where items are ranked by meaning alone.
        now: The moment that decides which items have expired.
    """

    context: Context
    indexing: IndexSettings
    search: Search
    vector: Vector
    parsed: ParsedQuery | None
    now: datetime

    @property
    def page_end(self) -> int:
        """How many of the best items the page and the pages before it hold."""
        return self.search.offset + self.search.limit

    @property
    def phrases(self) -> Sequence[Phrase]:
        """What must stand in a text of an item."""
        return self.parsed.phrases if self.parsed else ()

    @property
    def needs_words(self) -> bool:
        """Say whether an item without a word of the query has no score: no meaning and no phrase
        makes it an answer.
        """
        return not self.indexing.has_vectors and not self.phrases

    @property
    def fields(self) -> dict[str, int]:
        return ITEM_FIELDS | SCORED_FIELDS | ({} if self.parsed is None else TERM_FIELDS)


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
        return sorted(self.scored.values(), key=lambda pair: (-pair[1].value, pair[0].id))


async def semantic_search(
    context: Context, indexing: IndexSettings, search: Search, vector: Vector, now: datetime
) -> list[FoundItem]:
    """Find the items below a prefix that match, best first; items that cannot be scored follow.

    What was acknowledged before the search began is found, whoever wrote it. The order is total: by
    score, then by id; behind the scored items by update, then by id. With a `min_score` nothing
    follows the items that reach it, and with a phrase nothing that has no vector.
    """
    indexing = await ensure_config(context, write=False) or indexing
    await check_model(context, indexing)
    query = _Query(context, indexing, search, vector, await _parsed(indexing, search), now)
    ranking = await _rank_and_rescore(query)
    lowest = search.min_score
    if lowest is not None:
        ranking = [pair for pair in ranking if pair[1].value >= lowest]
    page: list[FoundItem] = [*ranking[search.offset : query.page_end]]
    if len(page) == search.limit or lowest is not None or query.phrases:
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


async def _parsed(indexing: IndexSettings, search: Search) -> ParsedQuery | None:
    """Find the words of a query, where items are ranked by words."""
    analyser, text = indexing.analyser, search.query
    if analyser is None or text is None:
        return None
    parsed: ParsedQuery = await Compute(
        partial(parse_query, text, analyser), len(text) * WORK_PER_CHARACTER
    )
    return parsed


async def _ranking(query: _Query, source: CandidateSource) -> Ranking:
    """Weight the words of a query by how rare they are among the items."""
    parsed = query.parsed
    if parsed is None or not parsed.words:
        return Ranking(query.vector)
    statistics = await source.statistics(parsed.hashes)
    if statistics is None:
        return Ranking(query.vector)
    vector = await _weighted_vector(query, parsed, statistics)
    return Ranking(vector, WordQuery.of(parsed.hashes, statistics, is_needed=query.needs_words))


async def _weighted_vector(
    query: _Query, parsed: ParsedQuery, statistics: TermStatistics
) -> Vector:
    """Embed a query whose rare words count more, where the model can do that."""
    weights = (statistics.rarity()[parsed.places()] ** RARITY_POWER).tolist()
    spans = [(word.start, word.end) for word in parsed.words]
    text = query.search.query or ""
    weigh = partial(query.indexing.embedder.embed_weighted, text, spans, weights)
    weighted: Vector | None = await Compute(weigh, len(text) * WORK_PER_CHARACTER)
    return query.vector if weighted is None else weighted


async def _rank_and_rescore(query: _Query) -> list[ScoredItem]:
    """Rank the best ``offset + limit`` items at least, or all items with a score."""
    scope = IndexScope(query.context, query.indexing, query.search.path)
    source = await candidate_source(scope)
    ranking = await _ranking(query, source)
    if ranking.words is None and query.needs_words:
        return []
    chosen, rescored = await _first_round(query, source), _Rescored()
    while True:
        candidates = await source.candidates(ranking, chosen.count, chosen.restrict_to)
        await _rescore(query, ranking, candidates, rescored)
        if _suffices(query, candidates, chosen.count, rescored):
            return rescored.ranking()
        chosen = await _widen(query, source, chosen)


@dataclass(frozen=True, slots=True)
class _Round:
    """Which candidates are asked for.

    Attributes:
        count: How many.
        restrict_to: Among which ids; None: all.
        may_narrow: The server was not asked yet which ids may match the filter.
    """

    count: int
    restrict_to: set[str] | None
    may_narrow: bool


async def _first_round(query: _Query, source: CandidateSource) -> _Round:
    """Choose the candidates to begin with. More than the page needs are asked for where some may
    not match. Among ids that were listed for a filter before, all match that have not changed; for
    a filter that may match few items they are listed at once.
    """
    holding = await _ids_holding_phrases(query, source)
    if holding is not None:
        return _Round(OVERSAMPLING * query.page_end, holding, may_narrow=False)
    count = query.page_end * (OVERSAMPLING if query.search.filter else 1)
    if not query.search.narrowed:
        return _Round(count, None, may_narrow=False)
    name = name_of_query(query.search.narrowed)
    matching = source.matching(name)
    if matching is not None:
        return _Round(query.page_end, matching, may_narrow=True)
    if source.is_selective(name):
        return await _narrowed_round(query, source)
    return _Round(count, None, may_narrow=True)


async def _narrowed_round(query: _Query, source: CandidateSource) -> _Round:
    """Ask the server which ids may match the filter."""
    matching = await _ids_matching_filter(query)
    source.note_matching(name_of_query(query.search.narrowed), matching)
    return _Round(query.page_end, matching, may_narrow=False)


async def _ids_holding_phrases(query: _Query, source: CandidateSource) -> set[str] | None:
    """List the ids of the items that may hold the phrases of a query; None: all items may."""
    if query.parsed is None or not query.phrases:
        return None
    return await source.holding(query.parsed.phrase_hashes())


def _suffices(query: _Query, candidates: Candidates, count: int, rescored: _Rescored) -> bool:
    """Say whether no item outside of a ranking can be on the page: all candidates were read, or
    enough of the best `count` have a score.
    """
    is_all = candidates.is_complete and len(candidates.ids) < count
    return is_all or rescored.count_scored(candidates.ids[:count]) >= query.page_end


async def _widen(query: _Query, source: CandidateSource, last: _Round) -> _Round:
    """Choose which candidates to ask for next.

    The server is asked once which ids may match. Where it cannot narrow, where it did already, and
    where few candidates were read, the number grows.
    """
    if last.may_narrow and last.count >= OVERSAMPLING * query.page_end:
        return await _narrowed_round(query, source)
    return replace(last, count=last.count * OVERSAMPLING)


async def _ids_matching_filter(query: _Query) -> set[str]:
    """Ask the server for the ids that may match the filter. Expired items are among them: what
    expires is decided when candidates are read, and another clock than this one may refresh it.
    """
    context, search = query.context, query.search
    condition = {"prefixes": search.path, **search.narrowed}
    find = Find(context.items, condition, {"_id": 1}, sort=[("changed_at", 1)])
    return set(ids_in(await find_with_hint(context, BY_CHANGE, find)))


async def _rescore(
    query: _Query, ranking: Ranking, candidates: Candidates, rescored: _Rescored
) -> None:
    """Read and score the candidates that were not read before, a page at a time."""
    new = [item for item in candidates.ids if item not in rescored.seen]
    narrowed = query.search.narrowed
    for ids in slices(new, PAGE_SIZE):
        documents = await find_by_id(query.context, ids, query.fields, narrowed)
        if not narrowed and len(documents) < len(ids):
            candidates.on_missing({*ids} - {document["_id"] for document in documents})
        score = partial(_scores, query, ranking, documents)
        # A phrase is looked for in all of an item's texts, which may be megabytes.
        rescored.scored |= await Compute(score, HEAVY_BYTES if query.phrases else 0)
    rescored.seen.update(new)


def _matching(query: _Query, documents: Sequence[Document]) -> dict[str, StoredItem]:
    """Choose the candidates that are answers as they are now: sound, not expired, and matching."""
    context, search = query.context, query.search
    matching = {
        stored.id: stored
        for stored in sound_items(documents, context.damage)
        if not context.expiry.has_expired(stored.expires_at, query.now)
        and matches_search(search, stored)
    }
    if not query.phrases:
        return matching
    return {
        document["_id"]: matching[document["_id"]]
        for document in documents
        if document["_id"] in matching and _holds_phrases(query, document)
    }


def _holds_phrases(query: _Query, document: Document) -> bool:
    """Say whether the phrases of a query stand in the texts of an item."""
    try:
        texts = texts_in(document, query.indexing)
    except CorruptDataError:  # its own choice of paths is damaged
        return False
    return query.parsed is None or query.parsed.holds_phrases(text.readable for text in texts)


def _scores(
    query: _Query, ranking: Ranking, documents: Sequence[Document]
) -> dict[str, ScoredItem]:
    """Score each item that matches; leave out items that cannot be scored."""
    matching = _matching(query, documents)
    answers = [document for document in documents if document["_id"] in matching]
    scored = scored_documents(query.indexing, ranking, answers)
    for item in scored.damaged:
        _note_damage(query.context, item, "follows unscored: its vectors are damaged")
    for item in scored.without_words:
        _note_damage(query.context, item, "ranks by meaning alone: its terms are damaged")
    return {item: (matching[item], score) for item, score in scored.scores.items()}


def _note_damage(context: Context, id: str, consequence: str) -> None:
    context.damage.note(repr(id), f"{name_of({'_id': id})} {consequence}")
