"""Indexes in memory: the candidates always contain the best items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bson.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mongomem.store.vectors.memory_index import Change, Columns, MemoryIndex
from mongomem.store.vectors.quantization import (
    METRICS,
    Metric,
    quantize,
    similarities,
)
from mongomem.store.vectors.watermark import LOWEST_TIMESTAMP
from mongomem.store.words.stored_terms import encode_terms, mark_of

DIMS = 12
vectors = arrays(np.float32, (DIMS,), elements=st.floats(-100, 100, width=32))


def at(number: int) -> Timestamp:
    return Timestamp(number, 1)


def change(name: str, number: int, rows: Any, metric: Metric = "cosine") -> Change:
    return Change(name, at(number), None if rows is None else quantize(np.atleast_2d(rows), metric))


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


def test_a_page_that_is_loaded_again_and_an_id_that_comes_twice_count_once() -> None:
    axes = np.eye(3, dtype=np.float32)
    first, second, third = (quantize(axis[None], "cosine") for axis in axes)
    index = MemoryIndex(3, "cosine")
    assert index.load(Columns(["a", "b", "a"], [first, None, second], [None] * 3)) == []
    index.upsert([change("b", 5, [0, 1, 0])])
    assert index.load(Columns(["b", "c", "d"], [third, third, b"damaged"], [None] * 3)) == ["d"]
    assert (index.item_count, len(index)) == (4, 3)
    for n, name in enumerate("abc"):
        assert [item for _, item in index.search(axes[n], 1)] == [name]
    assert index.timestamps(["b", "c"]) == {"b": at(5), "c": LOWEST_TIMESTAMP}


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
    assert len(index.search(np.eye(64, dtype=np.float32)[0], 10)) < 600


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


def test_terms_of_an_item_that_changes_often_do_not_pile_up() -> None:
    mark, codes = mark_of("english-1"), quantize(np.ones((1, DIMS), np.float32), "cosine")
    index = MemoryIndex(DIMS, "cosine", mark)
    sizes = []
    for number in range(1, 5_001):
        terms = encode_terms(["red", f"bird{number}"], mark, codes)
        index.upsert([Change("a", at(number), codes, terms)])
        sizes.append(index.size)
    assert max(sizes[2_500:]) <= max(sizes[:2_500])
