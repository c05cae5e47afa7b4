"""BM25: how well the words of an item answer those of a query.

    weight of a term        log(1 + (N - n + 0.5) / (n + 0.5)): N items, n of them with the term
    share of an occurrence  count * (K1 + 1) / (count + K1 * (1 - B + B * length / average length))
    score                   sum of weight * share over the terms of the query, over the sum of
                            weights; 1 at most

An item of average length with every word of the query once has the score 1. Source of the formula:
Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, sections 3.4
and 3.5, with the weight that Lucene uses, which is never negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

K1, B = 0.6, 0.2
"""Lower than what is usual for documents (1.2 and 0.75): a memory is a sentence or two. See
docs/decisions/hybrid-ranking.md."""

Hashes: TypeAlias = npt.NDArray[np.uint32]
Weights: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class TermStatistics:
    """What is known of the items that are ranked.

    Attributes:
        items: How many items have terms.
        total_length: How many words they have together.
        frequencies: How many of them have each term that was asked for.
    """

    items: int
    total_length: float
    frequencies: npt.NDArray[np.int64]

    def plus(self, other: TermStatistics) -> TermStatistics:
        """Add what is known of other items, for the same terms."""
        return TermStatistics(
            self.items + other.items,
            self.total_length + other.total_length,
            self.frequencies + other.frequencies,
        )

    def weights(self) -> Weights:
        """Weight each term by how rare it is."""
        rare = (self.items - self.frequencies + 0.5) / (self.frequencies + 0.5)
        weights: Weights = np.log1p(rare)
        return weights

    def rarity(self) -> Weights:
        """Return the weights as shares of that of a term which no item has, in (0, 1]."""
        rarest = np.log1p((self.items + 0.5) / 0.5)
        shares: Weights = self.weights() / rarest
        return shares


@dataclass(frozen=True, slots=True, eq=False)
class WordQuery:
    """The terms of a query and what each of them is worth.

    Attributes:
        hashes: Distinct terms.
        weights: Theirs; the sum is one.
        average_length: How many words an item has.
        is_needed: An item without any of them is no answer.
    """

    hashes: Hashes
    weights: Weights
    average_length: float
    is_needed: bool = False

    @classmethod
    def of(
        cls, hashes: Hashes, statistics: TermStatistics, *, is_needed: bool = False
    ) -> WordQuery:
        """Weight the terms of a query, one or more, by what is known of the items."""
        weights = statistics.weights()
        average = statistics.total_length / statistics.items if statistics.items else 1.0
        return cls(hashes, weights / weights.sum(), max(average, 1.0), is_needed)

    def parts(self, terms: Any, counts: Any, lengths: Any) -> Weights:
        """Score occurrences: by the place of their term in `hashes`, how often the item has it, and
        how many words the item has.
        """
        normal = K1 * (1 - B + B * lengths / self.average_length)
        parts: Weights = self.weights[terms] * counts * (K1 + 1) / (counts + normal)
        return parts
