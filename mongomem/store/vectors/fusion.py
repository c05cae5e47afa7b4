"""Meaning and words as one score: the mean of both.

    score = (max(cosine, 0) + words) / 2

The parts are the cosine of two vectors, and the share of a query that an item's words reach
(`mongomem.store.words.bm25`). Neither is scaled to what else is found. Other items count only in
the weights of words and in the average length. Refused: fusing ranks, and scaling both parts to the
range that they have in a namespace, by which the best hit of every query is a good one
(docs/decisions/hybrid-ranking.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mongomem.store.vectors.quantization import Vector
from mongomem.store.words.bm25 import WordQuery

ROUNDING = 1e-6
"""How much scores of words differ that are computed in float32 and in float64, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """What items are ranked by.

    Attributes:
        vector: The query, embedded: float32 of shape (dims,).
        words: Its words; None: by meaning alone.
    """

    vector: Vector
    words: WordQuery | None = None


def fused(meaning: Any, words: Any) -> Any:
    """Fuse cosines with scores of words, numbers or arrays."""
    return (np.maximum(meaning, 0) + words) / 2


def fused_bound(bound: float) -> float:
    """Bound the error of the difference of two fused scores by that of their cosines."""
    return bound / 2 + ROUNDING
