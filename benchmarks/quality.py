"""Benchmark of how well search finds: public conversations with labelled evidence.

    python benchmarks/quality.py --locomo locomo10.json --madial MADial-Bench/data/en

Every store has the same embedder, the local model of 256 dimensions, or that of ``--embed``. Recall
at k is the share of a question's evidence among the first k hits, the mean of all questions. nDCG
counts a hit of evidence once. Sessions are the share of questions with a hit of a right session
among the first ten.
Questions of whose evidence no memory tells are left out. Intervals are of 1,000 bootstrap samples
of questions, 95 %.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import bm25s
import numpy as np
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from pymongo import MongoClient

from mongomem import MongoStore
from mongomem.embeddings import resolve_embedder
from quality_data import DataSet, Memory, Question, read_locomo, read_madial, read_realtalk
from servers import mongodb, postgres

DEEPEST = 20
SAMPLES = 1000
BATCH = 200

Ranker = Callable[[str, str], list[str]]
"""From a namespace and a query to the keys of the first hits, best first."""


@dataclass(frozen=True, slots=True)
class Studied:
    """What is ranked: a data set, and the name of what embeds it."""

    data: DataSet
    embed: str

    def index(self) -> dict[str, Any]:
        """Make the index of a store that takes a function, to embed as mongomem does."""
        embedder = resolve_embedder(self.embed, dims=None)
        vectors = cache(lambda text: embedder.embed_documents([text])[0].tolist())
        return {
            "embed": lambda texts: [vectors(text) for text in texts],
            "dims": embedder.dims,
            "fields": ["text"],
        }


def filled(store: BaseStore, data: DataSet, batch: int = BATCH) -> Ranker:
    """Put all memories into a store; return how it ranks."""
    for namespace, memories in data.memories.items():
        for start in range(0, len(memories), batch):
            store.batch(
                [
                    PutOp((namespace,), one.key, {"text": one.text})
                    for one in memories[start : start + batch]
                ]
            )

    def rank(namespace: str, query: str) -> list[str]:
        return [hit.key for hit in store.search((namespace,), query=query, limit=DEEPEST)]

    return rank


@contextmanager
def mongomem_ranker(studied: Studied) -> Iterator[Ranker]:
    client: MongoClient[Any]
    with mongodb() as uri, MongoClient(uri) as client:
        name = f"bench_{uuid4().hex}"
        index: Any = {"embed": studied.embed, "fields": ["text"]}
        yield filled(MongoStore(client, name, index=index), studied.data)
        client.drop_database(name)


@contextmanager
def in_memory_ranker(studied: Studied) -> Iterator[Ranker]:
    index: Any = studied.index()
    store = InMemoryStore(index=index)
    yield filled(store, studied.data, batch=1)  # it refuses a batch in which a text comes twice


@contextmanager
def postgres_ranker(studied: Studied) -> Iterator[Ranker]:
    index: Any = {**studied.index(), "distance_type": "cosine"}
    with postgres() as uri, PostgresStore.from_conn_string(uri, index=index) as store:
        store.setup()
        yield filled(store, studied.data)


@contextmanager
def bm25_ranker(studied: Studied) -> Iterator[Ranker]:
    """Rank by words alone, with the stop words of bm25s and no stems."""
    data = studied.data
    indexes = {namespace: _bm25_of(memories) for namespace, memories in data.memories.items()}

    def rank(namespace: str, query: str) -> list[str]:
        memories = data.memories[namespace]
        tokens = bm25s.tokenize(query, stopwords="en", show_progress=False)
        count = min(DEEPEST, len(memories))
        found, _ = indexes[namespace].retrieve(tokens, k=count, show_progress=False)
        return [memories[index].key for index in found[0]]

    yield rank


def _bm25_of(memories: Sequence[Memory]) -> Any:
    index = bm25s.BM25(k1=0.9, b=0.4)
    texts = [one.text for one in memories]
    index.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
    return index


RANKERS: Mapping[str, Callable[[Studied], Any]] = {
    "mongomem": mongomem_ranker,
    "InMemoryStore": in_memory_ranker,
    "PostgresStore": postgres_ranker,
    "BM25 (bm25s)": bm25_ranker,
}


@dataclass(frozen=True, slots=True)
class Judged:
    """What the hits of a question are worth."""

    category: int
    recall: Mapping[int, float]
    ndcg: float
    sessions: float


def judged(question: Question, hits: Sequence[Memory]) -> Judged:
    """Compare hits with the evidence of a question."""
    recall = {
        depth: _share(question.evidence, [one.sources for one in hits[:depth]])
        for depth in (5, 10, DEEPEST)
    }
    sessions = float(any(one.session in question.sessions() for one in hits[:10]))
    return Judged(question.category, recall, _ndcg(question.evidence, hits[:10]), sessions)


def _share(wanted: frozenset[str], found: Sequence[frozenset[str]]) -> float:
    return len(wanted & frozenset().union(*found)) / len(wanted)


def _ndcg(evidence: frozenset[str], hits: Sequence[Memory]) -> float:
    missing, gained = set(evidence), 0.0
    for place, one in enumerate(hits):
        if missing & one.sources:
            missing -= one.sources
            gained += 1 / math.log2(place + 2)
    best = sum(1 / math.log2(place + 2) for place in range(min(len(evidence), len(hits))))
    return gained / best if best else 0.0


def judge(data: DataSet, rank: Ranker) -> list[Judged]:
    """Ask all questions."""
    by_key = {
        (namespace, one.key): one
        for namespace, memories in data.memories.items()
        for one in memories
    }
    return [
        judged(
            question,
            [by_key[question.namespace, key] for key in rank(question.namespace, question.text)],
        )
        for question in data.questions
    ]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the bounds of a mean, by bootstrap samples."""
    source = np.random.default_rng(1)
    drawn = source.choice(np.asarray(values), (SAMPLES, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def row(label: str, found: Sequence[Judged]) -> str:
    """Draw the means of some questions."""
    recalls = [np.mean([one.recall[depth] for one in found]) for depth in (5, 10, DEEPEST)]
    low, high = interval([one.recall[10] for one in found])
    others = [np.mean([one.ndcg for one in found]), np.mean([one.sessions for one in found])]
    cells = "".join(f"{value:9.3f}" for value in [*recalls, *others])
    return f"{label:32}{len(found):6}{cells}   R@10 {low:.3f} to {high:.3f}"


def report(name: str, found: Sequence[Judged]) -> Iterator[str]:
    """Draw what a ranker found, all together and by category."""
    answerable = [one for one in found if one.category < 5]
    yield row(name, answerable)
    if len(answerable) < len(found):
        yield row("  all five categories", found)
        for category in sorted({one.category for one in found}):
            yield row(f"  category {category}", [one for one in found if one.category == category])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--locomo", type=Path, help="data/locomo10.json of snap-research/LoCoMo")
    parser.add_argument("--madial", type=Path, help="data/en of hejunqing/MADial-Bench")
    parser.add_argument("--realtalk", type=Path, help="data of danny911kr/REALTALK")
    parser.add_argument("--embed", default="local", help='what embeds: "local", "local:minilm"')
    parser.add_argument("--only", nargs="+", choices=RANKERS, default=[*RANKERS])
    options = parser.parse_args(arguments)
    sets = read_locomo(options.locomo) if options.locomo else []
    sets += [read_madial(options.madial)] if options.madial else []
    sets += read_realtalk(options.realtalk) if options.realtalk else []
    if not sets:
        parser.error("name a data set: --locomo, --madial, --realtalk")
    for data in sets:
        count = sum(map(len, data.memories.values()))
        print(f"\n{data.name}: {count} memories, {len(data.questions)} questions")
        print(f"{'':32}{'n':>6}{'R@5':>9}{'R@10':>9}{'R@20':>9}{'nDCG@10':>9}{'sessions':>9}")
        for name in options.only:
            with RANKERS[name](Studied(data, options.embed)) as rank:
                print("\n".join(report(name, judge(data, rank))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
