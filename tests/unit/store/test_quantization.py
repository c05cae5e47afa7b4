"""Vectors and codes: what is stored comes back, and similarities are those of the metrics."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from bson.binary import Binary, BinaryVectorDtype
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from langgraph.store.memory import _cosine_similarity

from mongomem.store.vectors.quantization import (
    MAPPED_BYTES,
    METRICS,
    Metric,
    code_dtype,
    decode_codes,
    decode_vectors,
    encode_vector,
    normalized,
    quantize,
    room_for_codes,
    similarities,
)

DIMS = 12
vectors = arrays(np.float32, (DIMS,), elements=st.floats(-100, 100, width=32))


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


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dims", [3, 256, 512, 1536])
def test_equal_vectors_have_equal_scores_wherever_they_stand(metric: Metric, dims: int) -> None:
    source = np.random.default_rng(1)
    query, row = source.normal(size=(2, dims)).astype(np.float32)
    scores = {
        score
        for count in (1, 2, 3, 7, 33, 70)
        for score in similarities(np.tile(row, (count, 1)), query, metric).tolist()
    }
    assert len(scores) == 1


@pytest.mark.parametrize("rows", [1, 10, MAPPED_BYTES // 16])
def test_room_for_codes_is_written_to_and_private(rows: int) -> None:
    room = room_for_codes(rows, DIMS)
    assert (room.shape, room.dtype) == ((rows,), code_dtype(DIMS))
    room["scale"][-1], room["levels"][-1] = 0.5, 7
    assert (room["scale"][-1], room["levels"][-1].tolist()) == (0.5, [7] * DIMS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only POSIX forks")
@pytest.mark.parametrize("rows", [10, MAPPED_BYTES // 16])
def test_a_forked_child_does_not_write_to_the_codes_of_its_parent(rows: int) -> None:
    room = room_for_codes(rows, DIMS)
    room["levels"][0] = 1
    child = os.fork()
    if not child:
        room["levels"][0] = 2
        os._exit(0)
    os.waitpid(child, 0)
    assert room["levels"][0].tolist() == [1] * DIMS
