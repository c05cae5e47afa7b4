"""Benchmark of the parameters of hybrid ranking: chosen on one half of LoCoMo's conversations, told
for the other.

    python benchmarks/ranking_parameters.py --locomo locomo10.json --madial MADial-Bench/data/en
        --realtalk REALTALK/data

The parts of mongomem rank in this process, without a database. The best parameters are those with
the highest R@10 + nDCG@10 on the conversations with an even number, counted from 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mongomem.embeddings import resolve_embedder
from mongomem.store.plans.semantic_search import RARITY_POWER
from mongomem.store.vectors.fusion import fused
from mongomem.store.words import bm25
from mongomem.store.words.analysis import DEFAULT_LANGUAGE, analyser_for
from mongomem.store.words.bm25 import WordQuery
from mongomem.store.words.query import parse_query
from mongomem.store.words.stored_terms import encode_terms, mark_of
from mongomem.store.words.term_index import TermIndex
from quality import Judged, judged
from quality_data import DataSet, Memory, read_locomo, read_madial, read_realtalk

K1S, BS, POWERS = (0.4, 0.6, 0.9, 1.2), (0.2, 0.4, 0.6), (0.5, 0.75, 1.0)

SHIPPED = (bm25.K1, bm25.B, RARITY_POWER)

ANALYSER = analyser_for(DEFAULT_LANGUAGE)
EMBEDDER = resolve_embedder("local", dims=None)

parsed = cache(partial(parse_query, analyser=ANALYSER))
embedded = cache(EMBEDDER.embed_query)


@dataclass(frozen=True, slots=True)
class Scores:
    """Memories scored by the cosine, by the cosine with rare words, and by words."""

    plain: Any
    rare: Any
    words: Any


@dataclass(slots=True)
class Space:
    """The memories of one namespace, with their vectors and terms."""

    memories: Sequence[Memory]
    vectors: Any = field(init=False)
    terms: TermIndex = field(init=False)

    def __post_init__(self) -> None:
        texts = [one.text for one in self.memories]
        self.vectors = EMBEDDER.embed_documents(texts)
        mark = mark_of(ANALYSER.name)
        self.terms = TermIndex(mark)
        found = [[word.term for word in ANALYSER.words(text)] for text in texts]
        encoded = [encode_terms(own, mark, b"") for own in found]
        self.terms.add([str(n) for n in range(len(found))], encoded, [b""] * len(found))

    def scores(self, query: str, power: float) -> Scores:
        """Score all memories."""
        plain, terms = self.vectors @ embedded(query), parsed(query)
        if not terms.words:
            return Scores(plain, plain, np.zeros(len(plain)))
        statistics = self.terms.statistics(terms.hashes)
        weights = statistics.rarity()[terms.places()] ** power
        spans = [(word.start, word.end) for word in terms.words]
        vector = EMBEDDER.embed_weighted(query, spans, weights.tolist())
        words = self.terms.scores(WordQuery.of(terms.hashes, statistics))[1:]
        return Scores(plain, plain if vector is None else self.vectors @ vector, words)


RANKINGS: dict[str, Callable[[Scores], Any]] = {
    "cosine": lambda scores: scores.plain,
    "cosine, words by rarity": lambda scores: scores.rare,
    "words": lambda scores: scores.words,
    "mean of cosine and words": lambda scores: fused(scores.plain, scores.words),
    "hybrid": lambda scores: fused(scores.rare, scores.words),
}


@dataclass(slots=True)
class Study:
    """A data set, and what a ranking finds in some of its namespaces."""

    data: DataSet
    spaces: dict[str, Space] = field(init=False)

    def __post_init__(self) -> None:
        self.spaces = {name: Space(own) for name, own in self.data.memories.items()}

    def found(
        self, ranking: str, parameters: tuple[float, float, float], names: Iterable[str]
    ) -> list[Judged]:
        bm25.K1, bm25.B, power = parameters
        chosen = {*names}
        answers = []
        for one in self.data.questions:
            if one.namespace in chosen and one.category < 5:
                space = self.spaces[one.namespace]
                scores = RANKINGS[ranking](space.scores(one.text, power))
                best = np.argsort(-scores, kind="stable")[:20]
                answers.append(judged(one, [space.memories[place] for place in best]))
        return answers


def figures(found: Sequence[Judged]) -> tuple[float, float]:
    """Return R@10 and nDCG@10."""
    recall = np.mean([one.recall[10] for one in found])
    return float(recall), float(np.mean([one.ndcg for one in found]))


def told(study: Study, ranking: str, parameters: tuple[float, float, float]) -> str:
    """Draw the figures of the even, of the odd and of all conversations."""
    names = [*study.spaces]
    parts = (names[::2], names[1::2], names) if len(names) > 1 else (names,)
    cells = [figures(study.found(ranking, parameters, part)) for part in parts]
    return "   ".join(f"{recall:.3f} {ndcg:.3f}" for recall, ndcg in cells)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--locomo", type=Path, required=True)
    parser.add_argument("--madial", type=Path, required=True)
    parser.add_argument("--realtalk", type=Path, required=True)
    options = parser.parse_args()
    alone, _, observed = read_locomo(options.locomo)
    turns, facts = Study(alone), Study(observed)
    madial = Study(read_madial(options.madial))
    real, _ = read_realtalk(options.realtalk)
    for study in (turns, facts, madial, Study(real)):
        print(f"\n{study.data.name}: R@10 nDCG@10, of even, odd and all conversations")
        for ranking in RANKINGS:
            print(f"{ranking:28}{told(study, ranking, SHIPPED)}", flush=True)
    even = [*turns.spaces][::2]
    print("\nLoCoMo turns by k1, b and the power of rarity, the best on the even ones first")
    tried = [
        (sum(figures(turns.found("hybrid", one, even))), one) for one in product(K1S, BS, POWERS)
    ]
    best = [one for _, one in sorted(tried, reverse=True)]
    for parameters in (*best[:3], best[-1]):
        print(f"{parameters!s:28}{told(turns, 'hybrid', parameters)}", flush=True)
    print(f"shipped {SHIPPED!s:20}{told(turns, 'hybrid', SHIPPED)}")


if __name__ == "__main__":
    main()
