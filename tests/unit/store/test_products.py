"""Products of levels with a query: the same in one thread and in several."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from mongomem.store.vectors import products as module
from mongomem.store.vectors.products import products


@pytest.fixture(params=[1, 2, 4])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """How many threads multiply, however few the levels are."""
    asked: list[int] = []

    def count(numbers: int) -> int:
        asked.append(numbers)
        return request.param

    monkeypatch.setattr(module, "_threads", count)
    yield request.param
    assert asked


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 5, 171, 172, 1_001])
def test_every_row_is_multiplied(threads: int, rows: int) -> None:
    drawn = np.random.default_rng(rows)
    codes = np.zeros(rows, dtype=[("scale", "<f4"), ("levels", "i1", (1_536,))])
    codes["levels"] = drawn.integers(-127, 128, size=(rows, 1_536))
    query = drawn.standard_normal(1_536, dtype=np.float32)
    expected = codes["levels"].astype(np.float64) @ query.astype(np.float64)
    found = products(codes["levels"], query)
    assert (found.shape, found.dtype) == ((rows,), np.float32)
    assert np.allclose(found, expected, rtol=0, atol=0.05)


@pytest.mark.parametrize(
    ("vectors", "cores", "expected"),
    [
        (1_000, 2, 1),
        (5_000, 2, 1),
        (11_000, 2, 2),
        (100_000, 2, 2),
        (100_000, 1, 1),
        (10**6, 64, 4),
    ],
)
def test_very_many_levels_are_worth_more_threads(
    vectors: int, cores: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_cores", lambda: cores)
    assert module._threads(vectors * 1_536) == expected
