"""Measure semantic search of MongoStore while another process writes, and right after a load.

    pip install -r benchmarks/requirements.txt
    python benchmarks/store_stream.py [--rounds N]

5,000 items of 1,536 dimensions, embeddings ready, distinct queries. Each round searches for some
seconds at rest, then beside a process that writes 500 items a second somewhere else, then beside
one that writes as many into the searched namespace: the items that are there, again and again, so
that their number stays. What counts are the ratios to rest within a round. The last section
searches a namespace from the moment that its 5,000 items are loaded.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from uuid import uuid4

from langgraph.store.base import PutOp
from pymongo import MongoClient

from mongomem.store.store import MongoStore
from servers import mongodb
from store_search import DIMS, FIVE_THOUSAND, Corpus, Namespace, Searches, load

ITEMS = 5_000
RATE = 500
BATCH = 10
SECONDS = 8.0
PAUSE = 0.005
"""Between two searches, so that they leave the processor to others."""

SPACE = Namespace(FIVE_THOUSAND, 0, ITEMS)
ELSEWHERE = Namespace(("elsewhere",), 0, ITEMS)
LOADED = Namespace(("loaded",), 0, ITEMS)
AFTER_LOAD = (1, 2, 3, 4, 5, 6, 8, 10, 12)
"""Seconds after a load that end a row."""


def store(client: MongoClient, database: str, corpus: Corpus) -> MongoStore:
    index = {"embed": corpus.arrays, "model": "corpus", "dims": DIMS, "fields": ["text"]}
    return MongoStore(client, database, index=index, index_cache_bytes=2**30)


def write(uri: str, database: str, space: Namespace) -> None:
    """Write at a steady rate until this process is ended."""
    with MongoClient(uri) as client:
        corpus = Corpus(ITEMS)
        writing = store(client, database, corpus)
        began = time.monotonic()
        for batch in count():
            rows = [(batch * BATCH + n) % ITEMS for n in range(BATCH)]
            writing.batch([PutOp(space.labels, f"k{row}", fields(row)) for row in rows])
            if not batch:
                print("writing", flush=True)
                began = time.monotonic()
            due = began + (batch + 1) * BATCH / RATE
            time.sleep(max(0.0, due - time.monotonic()))


def fields(row: int) -> dict[str, object]:
    return {"text": f"item {row}", "half": row % 2, "hundredth": row % 100}


@contextmanager
def writer(uri: str, database: str, space: Namespace) -> Iterator[None]:
    """Have another process write into a namespace."""
    command = [sys.executable, __file__, "--write", uri, database, *space.labels]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            time.sleep(6)  # as many seconds of changes as a search reads
            yield
        finally:
            process.terminate()


def searches(
    searching: MongoStore, space: Namespace, corpus: Corpus, seconds: float
) -> list[float]:
    """Search for some seconds; return milliseconds of each search."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    salt = int(time.time() * 1e3) % 10**6
    for query, _ in Searches(space, corpus).queries(10**6, salt):
        began = time.perf_counter()
        if began > until:
            break
        searching.search(space.labels, query=query, limit=10)
        times.append((time.perf_counter() - began) * 1e3)
        time.sleep(PAUSE)
    return times


def beside_writers(
    uri: str, database: str, searching: MongoStore, corpus: Corpus, rounds: int
) -> None:
    """Print medians at rest, and how many times as long a search takes beside writers."""
    for _ in range(rounds):
        time.sleep(11)  # writing has come to rest
        searches(searching, SPACE, corpus, 0.5)
        rest = statistics.median(searches(searching, SPACE, corpus, SECONDS))
        line = f"at rest {rest:.1f} ms"
        for name, space in (("elsewhere", ELSEWHERE), ("in the namespace", SPACE)):
            with writer(uri, database, space):
                searches(searching, SPACE, corpus, 0.5)
                found = searches(searching, SPACE, corpus, SECONDS)
            median, late = statistics.median(found), statistics.quantiles(found, n=10)[-1]
            line += (
                f"; {RATE} a second {name} {median:.1f} ms ({median / rest:.2f} x, "
                f"p90 {late / rest:.2f} x)"
            )
        print(line, flush=True)


def after_load(searching: MongoStore, writing: MongoStore, corpus: Corpus) -> None:
    """Print medians of the seconds after a load, and of the first search."""
    took = load(writing, LOADED)
    began = time.perf_counter()
    searching.search(LOADED.labels, query="query 1 near 1", limit=10)
    first = (time.perf_counter() - began) * 1e3
    medians = {
        end: statistics.median(
            searches(searching, LOADED, corpus, began + end - time.perf_counter())
        )
        for end in AFTER_LOAD
    }
    rest = medians[AFTER_LOAD[-1]]
    print(f"loaded {ITEMS:,} items in {took:.1f} s; the first search {first:.1f} ms; later:")
    for end, median in medians.items():
        print(f"  to {end:>2} s {median:6.1f} ms ({median / rest:.2f} x)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        uri, database, *labels = options.write
        write(uri, database, Namespace(tuple(labels), 0, ITEMS))
        return
    corpus = Corpus(ITEMS)
    with mongodb() as uri, MongoClient(uri) as client, MongoClient(uri) as other:
        database = f"stream_bench_{uuid4().hex[:8]}"
        searching, writing = store(client, database, corpus), store(other, database, corpus)
        try:
            after_load(searching, writing, corpus)
            load(writing, SPACE)
            load(writing, ELSEWHERE)
            beside_writers(uri, database, searching, corpus, options.rounds)
        finally:
            client.drop_database(database)


if __name__ == "__main__":
    main()
