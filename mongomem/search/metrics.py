"""Similarity: three metrics on one scale, where higher is closer.

    cosine     the cosine of the angle, -1 to 1; 0 where a vector is zero
    dot        the dot product
    euclidean  the distance d as 1 / (1 + d), above 0 to 1

Every backend reports these, computed by `similarities` from the vectors as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

Metric: TypeAlias = Literal["cosine", "dot", "euclidean"]
Vector: TypeAlias = npt.NDArray[np.float32]
Floats: TypeAlias = npt.NDArray[np.floating[Any]]

METRICS: tuple[Metric, ...] = get_args(Metric)


def normalized(vectors: Vector) -> Vector:
    """Scale vectors (the last axis) to length one; a zero vector stays zero. float32."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    scaled: Vector = np.divide(vectors, lengths, out=np.zeros(vectors.shape), where=lengths > 0).astype(np.float32)
    return scaled


def similarities(vectors: Vector, query: Vector, metric: Metric) -> Floats:
    """Score vectors of shape (n, dims) against a query of shape (dims,): float64 of shape (n,)."""
    scores: Floats = _EXACT[metric](vectors.astype(np.float64), query.astype(np.float64))
    return scores


def _cosine(vectors: Floats, query: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    scores: Floats = np.divide(vectors @ query, lengths, out=np.zeros(len(vectors)), where=lengths > 0)
    return scores


def _euclidean(vectors: Floats, query: Floats) -> Floats:
    scores: Floats = 1.0 / (1.0 + np.linalg.norm(vectors - query, axis=1))
    return scores


_EXACT: dict[Metric, Callable[[Floats, Floats], Floats]] = {
    "cosine": _cosine,
    "dot": lambda vectors, query: vectors @ query,
    "euclidean": _euclidean,
}
