"""How well the documents of items answer a query, as they are now: by vectors, by terms, or by
both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mongomem.engine.commands import Document
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import entries_in
from mongomem.store.documents.stored_item import Score
from mongomem.store.vectors.fusion import Ranking, fused
from mongomem.store.vectors.quantization import (
    Vector,
    are_finite,
    decode_vectors,
    is_vector,
    similarities,
)
from mongomem.store.words.stored_terms import are_damaged
from mongomem.store.words.term_index import TermIndex

SCORED_FIELDS = {"index": 1, "vectors.vector": 1}
TERM_FIELDS = {"codes": 1, "terms": 1, "index_fields": 1}
"""Projections of what a score is made from; the second of its words and of phrases."""


@dataclass(slots=True)
class ScoredDocuments:
    """The scores of some documents, by their ids.

    Attributes:
        damaged: The ids of those whose vectors cannot be read.
        without_words: The ids of those whose terms cannot be read.
    """

    scores: dict[str, Score] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    without_words: list[str] = field(default_factory=list)


def scored_documents(
    indexing: IndexSettings, ranking: Ranking, documents: Sequence[Document]
) -> ScoredDocuments:
    """Score documents by their words and the best of their vectors; leave out those without a
    comparable vector. Takes vectors and terms out of the documents, which are large with them.
    """
    scored = ScoredDocuments()
    scored.without_words += [one["_id"] for one in documents if are_damaged(one.get("terms"))]
    words = _word_scores(indexing, ranking, documents)
    vectors = {one["_id"]: _take_vectors(indexing, one, scored) for one in documents}
    comparable = {item: own for item, own in vectors.items() if own}
    for item, meaning in _best_scores(indexing, ranking, comparable).items():
        if meaning is None:
            scored.damaged.append(item)
        elif (score := _score(indexing, ranking, meaning, words.get(item, 0.0))) is not None:
            scored.scores[item] = score
    return scored


def _score(indexing: IndexSettings, ranking: Ranking, meaning: float, words: float) -> Score | None:
    """Score an item by both parts, or by the one that there is; None where it has no word of the
    query and needs one.
    """
    if indexing.analyser is None:
        return Score(meaning, meaning=meaning)
    if indexing.has_vectors:
        return Score(float(fused(meaning, words)), meaning=meaning, words=words)
    is_answer = words or ranking.words is None or not ranking.words.is_needed
    return Score(words, words=words) if is_answer else None


def _word_scores(
    indexing: IndexSettings, ranking: Ranking, documents: Sequence[Document]
) -> dict[str, float]:
    """Score items by their words; none where no words count."""
    if ranking.words is None:
        return {}
    page = TermIndex(indexing.mark)
    ids = [document["_id"] for document in documents]
    terms, codes = ([one.pop(name, None) for one in documents] for name in ("terms", "codes"))
    page.add(ids, terms, codes)
    scores: list[float] = page.scores(ranking.words)[page.slots(ids)].tolist()
    return dict(zip(ids, scores, strict=True))


def _best_scores(
    indexing: IndexSettings, ranking: Ranking, vectors: Mapping[str, Sequence[bytes]]
) -> dict[str, float | None]:
    """Score items by the vectors of each; None where a number of these is not finite.

    All vectors are compared together, by a few calls of numpy.
    """
    if not vectors:
        return {}
    rows, are_sound = _decoded([vector for own in vectors.values() for vector in own], indexing)
    scores = similarities(rows, ranking.vector, indexing.metric)
    first_rows = np.cumsum([0, *map(len, vectors.values())])[:-1]
    best: list[float] = np.maximum.reduceat(scores, first_rows).tolist()
    is_sound: list[bool] = np.logical_and.reduceat(are_sound, first_rows).tolist()
    return {item: best[n] if is_sound[n] else None for n, item in enumerate(vectors)}


def _decoded(
    vectors: Sequence[bytes], indexing: IndexSettings
) -> tuple[Vector, npt.NDArray[np.bool_]]:
    """Decode vectors, and say which of them are finite. Of the others all numbers are zero: they
    must not make numpy warn.
    """
    rows = decode_vectors(vectors, indexing.dims)
    finite = are_finite(rows)
    if finite.all():
        return rows, finite
    return np.where(finite[:, None], rows, np.float32(0)), finite


def _take_vectors(
    indexing: IndexSettings, document: Document, scored: ScoredDocuments
) -> list[bytes]:
    """Take the vectors out of a document; none where they cannot be compared or read."""
    vectors: list[Any] = [entry.get("vector") for entry in entries_in(document)]
    document.pop("vectors", None)
    if document.get("index") != indexing.fingerprint:
        return []
    if not all(is_vector(vector, indexing.dims) for vector in vectors):
        scored.damaged.append(document["_id"])
        return []
    return vectors
