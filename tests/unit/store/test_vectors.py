"""Codes, indexes in memory and the watermark: the candidates always contain the best items."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from bson.binary import Binary, BinaryVectorDtype
from bson.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from langgraph.store.memory import _cosine_similarity

from mongomem.store.documents.namespace import paths_meet
from mongomem.store.vectors.index_cache import (
    COMPACTED_ITEMS,
    LOAD_SECONDS,
    MAX_DEFERRALS,
    MAX_DEFERRED,
    CachedIndex,
    IndexCache,
)
from mongomem.store.vectors.memory_index import Change, MemoryIndex
from mongomem.store.vectors.quantization import (
    METRICS,
    Metric,
    decode_codes,
    decode_vectors,
    encode_vector,
    normalized,
    quantize,
    similarities,
)
from mongomem.store.vectors.watermark import ALLOWED_LATENESS_SECONDS, Watermark

DIMS = 12
vectors = arrays(np.float32, (DIMS,), elements=st.floats(-100, 100, width=32))


def at(number: int) -> Timestamp:
    return Timestamp(number, 1)


def change(name: str, number: int, rows: Any, metric: Metric = "cosine") -> Change:
    return Change(name, at(number), None if rows is None else quantize(np.atleast_2d(rows), metric))


# --- vectors and codes
# -----------------------------------------------------------------------------


@given(st.lists(vectors, min_size=1, max_size=4))
def test_vectors_come_back_bit_for_bit(rows: list[Any]) -> None:
    assert np.array_equal(decode_vectors([encode_vector(row) for row in rows]), np.stack(rows))


def test_a_vector_is_what_pymongo_calls_one() -> None:
    row = np.array([1.5, -2.0, 3.25], dtype=np.float32)
    assert encode_vector(row) == Binary.from_vector(row.tolist(), BinaryVectorDtype.FLOAT32)
    assert encode_vector(row).as_vector().data == row.tolist()


@given(st.lists(vectors, min_size=1, max_size=4), st.sampled_from(METRICS))
def test_codes_are_within_their_residual(rows: list[Any], metric: Metric) -> None:
    coded = normalized(np.stack(rows)) if metric == "cosine" else np.stack(rows)
    codes = decode_codes([quantize(np.stack(rows), metric)], DIMS)
    rebuilt = codes["scale"][:, None] * codes["levels"]
    assert np.linalg.norm(rebuilt - coded, axis=1) == pytest.approx(
        codes["residual"], rel=1e-3, abs=1e-3
    )
    assert np.linalg.norm(coded, axis=1) ** 2 == pytest.approx(codes["square"], rel=1e-3, abs=1e-3)


# --- metrics
# ---------------------------------------------------------------------------------------


@given(st.lists(vectors, min_size=1, max_size=4), vectors)
def test_cosine_is_that_of_in_memory_store(rows: list[Any], query: Any) -> None:
    ours = similarities(np.stack(rows), query, "cosine")
    lengths = np.linalg.norm(np.stack(rows).astype(float), axis=1) * np.linalg.norm(
        query.astype(float)
    )
    if (lengths > 1e-3).all():  # below, the oracle divides denormal numbers of float32
        assert ours == pytest.approx(
            _cosine_similarity(query.tolist(), np.stack(rows).tolist()), abs=1e-5
        )


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("cosine", [1.0, 0.0, -1.0, 0.0]),
        ("dot", [4.0, 0.0, -2.0, 0.0]),
        ("euclidean", [1.0, 1 / (1 + 8**0.5), 0.25, 1 / 3]),
    ],
)
def test_scores_by_example(metric: Metric, expected: list[float]) -> None:
    rows = np.array([[2, 0], [0, 2], [-1, 0], [0, 0]], dtype=np.float32)
    assert similarities(rows, np.array([2, 0], dtype=np.float32), metric) == pytest.approx(expected)


# --- ranking
# ---------------------------------------------------------------------------------------


@given(
    st.lists(vectors, min_size=1, max_size=30), vectors, st.integers(1, 8), st.sampled_from(METRICS)
)
@settings(max_examples=200)
def test_the_best_are_among_the_candidates(
    rows: list[Any], query: Any, count: int, metric: Metric
) -> None:
    index = MemoryIndex(DIMS, metric)
    index.upsert(change(f"{n:02}", n + 1, row, metric) for n, row in enumerate(rows))
    ranking = {name for _, name in index.search(query, count)}
    scores = similarities(np.stack(rows), query, metric)
    outside = [score for n, score in enumerate(scores) if f"{n:02}" not in ranking]
    inside = sorted((score for n, score in enumerate(scores) if f"{n:02}" in ranking), reverse=True)
    assert len(inside) >= min(count, len(rows))
    if outside:
        assert inside[count - 1] >= max(outside) - 1e-4 * max(1.0, abs(max(outside)))


@pytest.mark.parametrize("rows", [300, 5_000])
def test_recall_is_complete_on_directions_without_structure(rows: int) -> None:
    random = np.random.default_rng(3)
    items = random.standard_normal((rows, 768), dtype=np.float32)
    index = MemoryIndex(768, "cosine")
    index.upsert(change(str(n), 1, row) for n, row in enumerate(items))
    for query in random.standard_normal((20, 768), dtype=np.float32):
        truth = {str(n) for n in np.argsort(-similarities(items, query, "cosine"))[:10]}
        candidates = [name for _, name in index.search(query, 10)]
        assert truth <= set(candidates)
        assert len(candidates) < 40


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dims", [8, 64, 384])
@pytest.mark.parametrize("offset", [0, 20, 300, 1_000, 10_000])
def test_recall_holds_where_vectors_share_a_large_component(
    metric: Metric, dims: int, offset: float
) -> None:
    random = np.random.default_rng(5)
    items, queries = (
        random.standard_normal((rows, dims), dtype=np.float32) for rows in (5_000, 10)
    )
    items[:, 0] += offset
    queries[:, 0] += offset
    index = MemoryIndex(dims, metric)
    index.upsert(change(str(n), 1, row, metric) for n, row in enumerate(items))
    for query in queries:
        truth = {str(n) for n in np.argsort(-similarities(items, query, metric))[:10]}
        assert truth <= {name for _, name in index.search(query, 10)}


def test_ordinary_vectors_leave_few_candidates() -> None:
    """Also where they gather around centers, and one component is 25 times the others, as OpenAI's
    ada-002 has it.
    """
    random = np.random.default_rng(5)
    items = random.standard_normal((5_000, 1536), dtype=np.float32)
    items += random.standard_normal((100, 1536), dtype=np.float32)[random.integers(100, size=5_000)]
    for peak in (0, 25):
        items[:, 7] += peak
        index = MemoryIndex(1536, "cosine")
        index.upsert(change(str(n), 1, row) for n, row in enumerate(items))
        for query in items[:10] + random.standard_normal((10, 1536), dtype=np.float32):
            assert len(index.search(query, 10)) < 100


def test_vectors_without_a_common_dimension_are_equal() -> None:
    random = np.random.default_rng(5)
    index = MemoryIndex(64, "cosine")
    rows = random.integers(0, 9, (3_000, 64)).astype(np.float32)
    rows[:, :32] = 0
    index.upsert(change(f"{n}", 1, row) for n, row in enumerate(rows))
    assert len(index.search(np.eye(64, dtype=np.float32)[0], 10)) < 500


def test_an_item_counts_once_with_its_best_vector() -> None:
    index = MemoryIndex(2, "cosine")
    index.upsert(
        [change("both", 1, [[0, 1], [1, 0]]), change("one", 2, [1, 1]), change("none", 3, None)]
    )
    assert [name for _, name in index.search(np.array([1, 0], dtype=np.float32), 5)] == [
        "both",
        "one",
    ]


def test_equal_ones_stand_in_the_order_of_their_ids_and_bounded_in_number() -> None:
    index = MemoryIndex(2, "cosine")
    index.upsert(change(f"{n:04}", n + 1, [1, 0]) for n in range(2_000))
    for count in (1, 10, 50):
        ranking = [name for _, name in index.search(np.array([1, 0], dtype=np.float32), count)]
        assert ranking == [f"{n:04}" for n in range(len(ranking))]
        assert count <= len(ranking) < 500


def test_ranking_among_some() -> None:
    index = MemoryIndex(2, "cosine")
    index.upsert(change(f"{n}", n + 1, [1, n]) for n in range(9))
    assert [
        name for _, name in index.search(np.array([1, 0], dtype=np.float32), 9, {"7", "3", "x"})
    ] == ["3", "7"]
    assert index.search(np.array([1, 0], dtype=np.float32), 9, set()) == []


# --- changes
# ---------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(1, 30), st.none() | st.integers(1, 3)),
        min_size=1,
        max_size=40,
    ),
    st.randoms(),
)
def test_the_newest_change_of_each_item_stays_whatever_the_order(
    drawn: list[Any], random: Any
) -> None:
    """Each (item, timestamp) says one thing, as on a server."""
    changes = {
        (name, number): Change(
            name,
            at(number),
            None if rows is None else quantize(np.full((rows, 2), number, np.float32), "dot"),
        )
        for name, number, rows in drawn
    }
    newest = {name: max(n for other, n in changes if other == name) for name, _ in changes}
    expected = {name for name, number in newest.items() if changes[name, number].codes}
    index = MemoryIndex(2, "dot")
    shuffled = [*changes.values(), *changes.values()]
    random.shuffle(shuffled)
    for start in range(0, len(shuffled), 3):
        index.upsert(shuffled[start : start + 3])
    ranking = index.search(np.array([1, 1], dtype=np.float32), 100)
    assert {name for _, name in ranking} == expected
    assert {name: round(score) for score, name in ranking} == {
        name: 2 * newest[name] for name in expected
    }
    assert index.outdated([(name, at(number)) for name, number in newest.items()]) == []
    assert index.outdated([("new", at(1))]) == ["new"]
    index.remove({name: at(newest[name]) for name in expected})
    assert len(index) == 0


# --- watermark
# -------------------------------------------------------------------------------------


@given(st.data())
def test_no_write_is_missed_that_was_visible_when_a_read_began(data: st.DataObject) -> None:
    """Writes get their timestamps in order, but become visible up to five seconds later, in any
    order.
    """
    gaps = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=25))
    delays = data.draw(
        st.lists(st.integers(0, ALLOWED_LATENESS_SECONDS), min_size=len(gaps), max_size=len(gaps))
    )
    seconds = np.cumsum(gaps).tolist()
    writes = [
        (Timestamp(100 + second, n + 1), second + delay)
        for n, (second, delay) in enumerate(zip(seconds, delays, strict=True))
    ]
    watermark = Watermark()
    seen: set[Timestamp] = set()
    for now in sorted(data.draw(st.lists(st.integers(0, 100), min_size=1, max_size=30))):
        visible = [written for written, shown_at in writes if shown_at <= now]
        met = [written for written in visible if written > watermark.floor]
        seen.update(met)
        server_time = data.draw(st.sampled_from([0, 100 + now]))
        watermark.advance(met, began=float(now), ended=float(now), server_time=server_time)
        assert seen >= set(visible)


def test_a_namespace_at_rest_is_not_read_again() -> None:
    watermark = Watermark()
    written = [Timestamp(1000, n + 1) for n in range(10)]
    watermark.advance(written, began=0.0, ended=0.0)
    assert watermark.floor < written[0]
    watermark.advance(
        written, began=ALLOWED_LATENESS_SECONDS + 1.0, ended=ALLOWED_LATENESS_SECONDS + 1.0
    )
    assert watermark.floor == written[-1]


# --- memory
# ----------------------------------------------------------------------------------------


def test_the_indexes_stay_within_their_limit() -> None:
    cache = IndexCache(limit=60_000)
    for name in ("a", "b", "c", "d"):
        index = cache.get(name, 16, "cosine")
        index.upsert(change(f"{name}{n}", n + 1, np.ones(16, np.float32)) for n in range(40))
        cache.get("a", 16, "cosine")
        cache.evict(name)
        assert cache.size <= 60_000
    assert len(cache.get("a", 16, "cosine").index) == 40
    assert len(cache.get("b", 16, "cosine").index) == 0


def test_forgetting_a_namespace_forgets_what_is_above_and_below() -> None:
    cache = IndexCache(limit=10**9)
    for path in ("", "u1", "u1\x00a", "u1\x00a\x00b", "u10"):
        cache.get(path, 2, "cosine").upsert([change("x", 1, [1, 0])])
    cache.invalidate(partial(paths_meet, "u1\x00a"))
    assert [
        path
        for path in ("", "u1", "u1\x00a", "u1\x00a\x00b", "u10")
        if len(cache.get(path, 2, "cosine").index)
    ] == ["u10"]


def test_indexes_without_items_count_too() -> None:
    cache = IndexCache(limit=1_000_000)
    for number in range(3_000):
        cache.get(f"u{number}", 1536, "cosine")
        cache.evict(f"u{number}")
    assert 900_000 < cache.size <= 1_000_000
    assert len(cache._indexes) < 1_000


def test_an_eviction_measures_one_index_however_many_are_held() -> None:
    asked: list[str] = []

    class Counted(MemoryIndex):
        @property
        def size(self) -> int:
            asked.append("size")
            return 1

    cache = IndexCache(limit=10_000)
    for number in range(500):
        cache._indexes[f"u{number}"] = CachedIndex(Counted(2, "cosine"))
        cache.get(f"u{number}", 2, "cosine")
        cache.evict(f"u{number}")
    assert len(asked) <= 2 * 500
    assert cache.size == 500


def test_what_was_written_again_is_not_removed() -> None:
    index = MemoryIndex(2, "cosine")
    index.upsert([change("a", 1, [1, 0]), change("b", 1, [1, 0])])
    known = index.timestamps(["a", "b", "c"])
    index.upsert([change("a", 2, [1, 0])])
    index.remove(known)
    assert set(index.timestamps()) == {"a"}
    assert len(index) == 1


def test_an_index_that_shrinks_gives_back_its_memory() -> None:
    index = MemoryIndex(64, "cosine")
    index.upsert(change(f"{n}", 1, np.ones(64, np.float32)) for n in range(1_000))
    full = index.size
    index.remove({f"{n}": at(1) for n in range(10, 1_000)})
    assert index.size < full / 20
    assert len(index.search(np.ones(64, np.float32), 100)) == 10


# --- synchronization
# ---------------------------------------------------------------------------------


def test_one_caller_at_a_time_loads_an_index() -> None:
    cached = IndexCache(limit=10**9).get("u1", 2, "cosine")
    assert cached.claim_load(100.0)
    assert not cached.claim_load(100.0 + LOAD_SECONDS / 2)
    assert cached.claim_load(100.0 + LOAD_SECONDS)
    cached.release_load()
    assert cached.claim_load(100.0 + LOAD_SECONDS)


def test_few_changes_are_deferred_a_few_times_in_a_row() -> None:
    cached = IndexCache(limit=10**9).get("u1", 2, "cosine")
    expected = [True] * MAX_DEFERRALS + [False]
    assert [cached.defers(MAX_DEFERRED) for _ in expected * 2] == expected * 2
    assert cached.defers(1)
    assert not cached.defers(MAX_DEFERRED + 1)
    assert [cached.defers(1) for _ in expected] == expected


def test_a_compaction_is_due_again_once_an_index_has_doubled() -> None:
    cached = IndexCache(limit=10**9).get("u1", 2, "cosine")
    for size, is_due in ((COMPACTED_ITEMS, False), (COMPACTED_ITEMS + 1, True)):
        cached.upsert(change(f"{n}", 1, None) for n in range(size))
        assert cached.needs_compaction is is_due
    cached.compact({f"{n}": at(1) for n in range(1, COMPACTED_ITEMS + 1)})
    assert not cached.needs_compaction
    assert not cached.has_grown
    assert set(cached.timestamps()) == {"0"}
