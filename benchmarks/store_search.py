"""Measure semantic search of MongoStore against InMemoryStore and PostgresStore (pgvector, flat and
HNSW).

    pip install -r benchmarks/requirements.txt
    python benchmarks/store_search.py [--large] [--only NAME ...]

1,536 dimensions, embeddings ready, distinct queries, and one foreign write into the searched
namespace before each search, so that no cache of results gains anything. Figures are of this
machine at this hour; the ratios to the peers of the same run are what counts. recall@10 is against
exact cosine over all vectors, so every store ranks by meaning alone. What words cost beside it is
measured in turn, on the same items.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore
from pymongo import MongoClient

from mongomem.store.store import MongoStore
from servers import mongodb, postgres

DIMS = 1536
SEARCHES = 25
COLD_STARTS = 7
BATCH = 500
SPINNING = 0.2
"""Seconds that the threads of OpenBLAS may wait in a loop, on a core each, behind a product."""
CLUSTERS = 100
SPREAD = 0.9

SMALL, THOUSAND, FIVE_THOUSAND, OTHERS = (
    ("bench", "small"),
    ("bench", "1000"),
    ("bench", "5000"),
    ("bench", "others"),
)
WORDS, WORDS_PER_TEXT, WORDS_PER_QUERY, ROUNDS = 4_000, 20, 6, 4

DIVISORS = {"half": 2, "hundredth": 100}
"""Fields of an item, and what the remainder of its row is taken by."""

SIZES = {SMALL: 100, THOUSAND: 1_000, FIVE_THOUSAND: 5_000, OTHERS: 3_900}
LARGE_SIZES = {("large", "20000"): 20_000, ("large", "100000"): 100_000}


class Corpus:
    """Vectors of texts: item texts name a row, query texts name a place near one.

    Directions gather around centers, as those of sentences do.
    """

    def __init__(self, rows: int, seed: int = 7) -> None:
        random = np.random.default_rng(seed)
        centers = random.standard_normal((CLUSTERS, DIMS), dtype=np.float32)
        self.vectors = np.empty((rows, DIMS), dtype=np.float32)
        for start in range(0, rows, 10_000):
            part = self.vectors[start : start + 10_000]
            part[:] = centers[random.integers(CLUSTERS, size=len(part))]
            part += SPREAD * random.standard_normal(part.shape, dtype=np.float32)
            part /= np.linalg.norm(part, axis=1, keepdims=True)

    def vector(self, text: str) -> np.ndarray[Any, Any]:
        """Return the vector of "item N" or of "query N near M"."""
        words = text.split()
        if words[0] == "item":
            row: np.ndarray[Any, Any] = self.vectors[int(words[1])]
            return row
        noise = np.random.default_rng(int(words[1])).standard_normal(DIMS, dtype=np.float32)
        near = self.vectors[int(words[3])] + noise * (1.0 / np.sqrt(DIMS))
        return near / np.linalg.norm(near)

    def arrays(self, texts: Sequence[str]) -> list[Any]:
        """Embed, for stores that take arrays."""
        return [self.vector(text) for text in texts]

    def lists(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed, for stores that take lists."""
        return [self.vector(text).tolist() for text in texts]


@dataclass
class Namespace:
    """A namespace that is searched, and which rows of the corpus are in it."""

    labels: tuple[str, ...]
    first: int
    size: int


def spaces(sizes: dict[tuple[str, ...], int]) -> dict[tuple[str, ...], Namespace]:
    first, result = 0, {}
    for labels, size in sizes.items():
        result[labels] = Namespace(labels, first, size)
        first += size
    return result


def some_words(seed: int, count: int) -> str:
    """Draw words, rare ones less often."""
    drawn = np.random.default_rng(seed).exponential(WORDS / 8, size=count)
    return " ".join(f"word{int(one) % WORDS}" for one in drawn)


def text_of(row: int) -> str:
    return f"item {row} {some_words(row, WORDS_PER_TEXT)}"


def load(store: BaseStore, space: Namespace) -> float:
    """Put everything, in batches; return seconds."""
    began = time.perf_counter()
    rows = range(space.first, space.first + space.size)
    for start in range(0, space.size, BATCH):
        store.batch(
            [
                PutOp(
                    space.labels,
                    f"k{row}",
                    {"text": text_of(row), "half": row % 2, "hundredth": row % 100},
                )
                for row in rows[start : start + BATCH]
            ]
        )
    return time.perf_counter() - began


@dataclass
class Searches:
    """What one row of the table asks for.

    Attributes:
        filter: The filter of all searches; None in it: each asks for what its place has.
    """

    space: Namespace
    corpus: Corpus
    filter: dict[str, Any] | None = None

    def queries(self, count: int, salt: int) -> Iterator[tuple[str, int]]:
        random = np.random.default_rng(salt)
        for number in range(count):
            near = int(random.integers(self.space.first, self.space.first + self.space.size))
            seed = salt * 1_000 + number
            yield f"query {seed} near {near} {some_words(seed, WORDS_PER_QUERY)}", near

    def filter_near(self, row: int) -> dict[str, Any] | None:
        """Return the filter of a search near a row."""
        return self.filter and {
            name: row % DIVISORS[name] if wanted is None else wanted
            for name, wanted in self.filter.items()
        }

    def truth(self, query: str, chosen: dict[str, Any] | None) -> set[str]:
        rows = np.arange(self.space.first, self.space.first + self.space.size)
        for name, wanted in (chosen or {}).items():
            rows = rows[rows % DIVISORS[name] == wanted]
        scores = self.corpus.vectors[rows] @ self.corpus.vector(query)
        return {f"k{row}" for row in rows[np.argsort(-scores)[:10]]}

    def run(
        self, store: BaseStore, foreign: BaseStore, salt: int, count: int = SEARCHES
    ) -> tuple[float, float]:
        """Search; return the median in milliseconds, and the recall."""
        times, answers = [], []
        for query, near in self.queries(count, salt):
            written = {"text": text_of(near), "half": near % 2, "hundredth": near % 100}
            foreign.put(self.space.labels, f"k{near}", written)
            chosen = self.filter_near(near)
            began = time.perf_counter()
            found = store.search(self.space.labels, query=query, filter=chosen, limit=10)
            times.append(time.perf_counter() - began)
            answers.append((query, chosen, {item.key for item in found}))
        return statistics.median(times) * 1e3, self.recall(answers)

    def recall(self, answers: list[tuple[str, dict[str, Any] | None, set[str]]]) -> float:
        """Return the share of the true answers that were found; leave no thread at work behind."""
        recalls = []
        for query, chosen, found in answers:
            truth = self.truth(query, chosen)
            recalls.append(len(truth & found) / len(truth))
        time.sleep(SPINNING)
        return statistics.mean(recalls)


@dataclass
class Peer:
    """A store that is measured: one handle that searches, another that writes, and a way to begin
    anew.
    """

    name: str
    store: BaseStore
    foreign: BaseStore
    fresh: Callable[..., BaseStore] | None = None


@contextmanager
def mongomem_peer(corpus: Corpus, rank: str = "vector") -> Iterator[Peer]:
    with mongodb() as uri, MongoClient(uri) as client, MongoClient(uri) as other:
        name = f"store_bench_{uuid4().hex[:8]}"
        index: Any = {"embed": corpus.arrays, "model": "corpus", "dims": DIMS, "fields": ["text"]}

        def fresh(rank: str = rank) -> MongoStore:
            ranked: Any = index | {"rank": rank}
            return MongoStore(client, name, index=ranked, index_cache_bytes=2**30)

        try:
            foreign = MongoStore(other, name, index=index | {"rank": rank})
            yield Peer("mongomem", fresh(), foreign, fresh)
        finally:
            client.drop_database(name)


@contextmanager
def memory_peer(corpus: Corpus) -> Iterator[Peer]:
    store = InMemoryStore(index={"embed": corpus.lists, "dims": DIMS, "fields": ["text"]})
    yield Peer("InMemory", store, store)


@contextmanager
def postgres_peer(corpus: Corpus, kind: str) -> Iterator[Peer]:
    from langgraph.store.postgres import PostgresStore

    index: Any = {
        "embed": corpus.lists,
        "dims": DIMS,
        "fields": ["text"],
        "ann_index_config": {"kind": kind, "vector_type": "vector"},
        "distance_type": "cosine",
    }
    with (
        postgres() as uri,
        PostgresStore.from_conn_string(uri, index=index) as store,
        PostgresStore.from_conn_string(uri, index=index) as foreign,
    ):
        store.setup()
        yield Peer(f"pg {kind}", store, foreign)


PEERS: dict[str, Callable[[Corpus], Any]] = {
    "mongomem": mongomem_peer,
    "InMemory": memory_peer,
    "pg flat": lambda corpus: postgres_peer(corpus, "flat"),
    "pg hnsw": lambda corpus: postgres_peer(corpus, "hnsw"),
}

GOALS = {
    "search 1,000 warm": 5.0,
    "search 1,000 cold": 15.0,
    "search 5,000 warm": 7.0,
    "search 5,000 cold": 30.0,
    "search 5,000, filter half": 10.0,
    "search 5,000, filter 1 %": 10.0,
    "the same, other filters": 10.0,
    "search 100 beside 9,900": 2.0,
    "put 10,000 (s)": 5.0,
    "get": 0.5,
}


def measure(peer: Peer, corpus: Corpus) -> dict[str, tuple[float, float]]:
    """Measure one store: row of the table to (milliseconds or seconds, recall)."""
    known = spaces(SIZES)
    results = {"put 10,000 (s)": (sum(load(peer.store, space) for space in known.values()), 1.0)}
    time.sleep(6 if peer.fresh else 0)  # writing has come to rest
    rows = {
        "search 1,000 warm": Searches(known[THOUSAND], corpus),
        "search 5,000 warm": Searches(known[FIVE_THOUSAND], corpus),
        "search 5,000, filter half": Searches(known[FIVE_THOUSAND], corpus, {"half": 1}),
        "search 5,000, filter 1 %": Searches(known[FIVE_THOUSAND], corpus, {"hundredth": 17}),
        "the same, other filters": Searches(known[FIVE_THOUSAND], corpus, {"hundredth": None}),
        "search 100 beside 9,900": Searches(known[SMALL], corpus),
    }
    if peer.fresh:
        for name in ("1,000", "5,000"):
            searches = rows[f"search {name} warm"]
            runs = [
                searches.run(peer.fresh(), peer.foreign, 90 + n, count=1)
                for n in range(COLD_STARTS)
            ]
            recall = statistics.mean(recall for _, recall in runs)
            results[f"search {name} cold"] = (statistics.median(took for took, _ in runs), recall)
    for salt, (name, searches) in enumerate(rows.items()):
        searches.run(peer.store, peer.foreign, 50 + salt, count=2)
        results[name] = searches.run(peer.store, peer.foreign, salt)
    results["get"] = (_gets(peer.store, known[FIVE_THOUSAND]), 1.0)
    return results


def measure_words(corpus: Corpus) -> None:
    """Print what ranking by words costs: hybrid and by meaning, in turn, on the same items."""
    space = spaces(SIZES)[FIVE_THOUSAND]
    took: dict[str, list[float]] = {}
    with mongomem_peer(corpus, "hybrid") as peer:
        assert peer.fresh
        load(peer.store, space)
        time.sleep(6)
        stores = {rank: peer.fresh(rank) for rank in ("vector", "hybrid")}
        for number in range(ROUNDS):
            for rank, store in stores.items():
                cold, _ = Searches(space, corpus).run(peer.fresh(rank), peer.foreign, 30, count=1)
                warm, _ = Searches(space, corpus).run(store, peer.foreign, 40 + number)
                took.setdefault(f"cold, {rank}", []).append(cold)
                took.setdefault(f"warm, {rank}", []).append(warm)
    for name, values in sorted(took.items()):
        print(f"search 5,000 {name:16}{statistics.median(values):>9.2f} ms")


def _gets(store: BaseStore, space: Namespace) -> float:
    times = []
    for row in range(space.first, space.first + 200):
        began = time.perf_counter()
        store.get(space.labels, f"k{row}")
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


def peak_memory(action: Callable[[], Any]) -> float:
    """Return how much the resident memory grew at most while something ran, in MB. Linux only."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak until now
    before = _status("VmRSS")
    action()
    return (_status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def measure_large() -> None:
    """Print search among 20,000 and 100,000 items, and the memory that it holds."""
    known = spaces(LARGE_SIZES)
    corpus = Corpus(sum(LARGE_SIZES.values()))
    with mongomem_peer(corpus) as peer:
        for space in known.values():
            took = load(peer.store, space)
            time.sleep(6)
            store = peer.fresh() if peer.fresh else peer.store
            began = time.perf_counter()
            peak = peak_memory(
                partial(store.search, space.labels, query=f"query 1 near {space.first}")
            )
            cold = (time.perf_counter() - began) * 1e3
            warm, recall = Searches(space, corpus).run(store, peer.foreign, 2)
            half, _ = Searches(space, corpus, {"half": 1}).run(store, peer.foreign, 3)
            held = store._context().index_cache.size / 2**20  # type: ignore[attr-defined]
            print(
                f"{space.size:>7,} items: put {took:.1f} s, cold {cold:.0f} ms, warm {warm:.1f} "
                f"ms, filter half {half:.1f} ms, recall {recall:.3f}; holds {held:.0f} MB, "
                f"{peak:.0f} MB while it loads",
                flush=True,
            )


def report(table: dict[str, dict[str, tuple[float, float]]]) -> None:
    """Print the table: what ours takes, how many times as long each peer takes, and with which
    recall.
    """
    peers = [name for name in table if name != "mongomem"]
    ours = table.get("mongomem", {})
    print(
        f"{'':28}{'goal':>8}{'mongomem':>10}{'recall':>8}"
        + "".join(f"{name:>20} rec." for name in peers)
    )
    for row, goal in GOALS.items():
        took, recall = ours.get(row, (float("nan"), float("nan")))
        line = f"{row:28}{goal:>8g}{took:>10.2f}{recall:>8.3f}"
        for name in peers:
            theirs = table[name].get(row)
            line += (
                f"{theirs[0]:>11.2f} ({theirs[0] / took:5.1f}x) {theirs[1]:.2f}"
                if theirs
                else f"{'':>25}"
            )
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--words", action="store_true", help="only what words cost")
    parser.add_argument("--large", action="store_true", help="also 20,000 and 100,000 items")
    options = parser.parse_args()
    corpus = Corpus(sum(SIZES.values()))
    measure_words(corpus)
    if options.words:
        return
    table = {}
    for name in options.only:
        with ExitStack() as stack:
            table[name] = measure(stack.enter_context(PEERS[name](corpus)), corpus)
            print(f"measured {name}", file=sys.stderr, flush=True)
    report(table)
    if options.large:
        measure_large()


if __name__ == "__main__":
    main()
