"""Which rows of a ranking are candidates, given their approximate scores and a bound of the error.

The scores are computed from int8 codes. Two scores differ from the exact ones by at most the error
bound together, so every row within that bound of the `count`-th best may be one of the best
`count`. All of these are candidates, and nothing else is: the caller scores them by their float32
vectors. The steps, and why in this order:

1. `_rows_within` partitions the scores and keeps the rows above ``count-th score - error bound``.
   A partition is one call of numpy over all rows; sorting them is not needed.
2. `_best_row_of_each` gives every item its best row, since an item may have several vectors. Only
   the rows of step 1 are looked at by Python. Refused: grouping all rows by item first. That needs
   no second attempt, but a step of Python for each row of the index.
3. Where the rows of step 1 belong to fewer than `count` items, twice as many rows are selected and
   step 2 repeats.
4. `_limit_ties` drops most of very many items that cannot be told apart, such as one text that
   thousands of items share. Without it the caller would read all of them. Refused: cutting the list
   at a fixed length. That may drop an item that the error bound keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import TypeAlias

import numpy as np

from mongomem.store.vectors.quantization import Vector

Candidate: TypeAlias = tuple[float, str]
"""An approximate score, and the id of the item that has it."""

RankedRow: TypeAlias = tuple[float, int, str]
"""An approximate score, its row, and the id of the item that the row belongs to."""

TIES_PER_RESULT = 4
EXTRA_TIES = 256
"""Of tied candidates so many are kept for each result that is wanted, and so many more."""


def select_top(
    scores: Vector,
    residuals: Vector,
    item_ids: Sequence[str],
    count: int,
    error_bound: float,
) -> list[Candidate]:
    """List the candidates for the `count` best items, best first; ties in the order of their ids.

    Args:
        scores: Approximate scores, float32 of shape (rows,).
        residuals: The quantization errors of the rows, float32 of shape (rows,).
        item_ids: The item of each row.
        count: How many items are wanted, one or more.
        error_bound: How much the difference of two scores may be off.
    """
    rows = count
    while True:
        selected = _rows_within(scores, rows, error_bound)
        ranked = _best_row_of_each((float(scores[row]), row, item_ids[row]) for row in selected)
        if len(ranked) >= count or len(selected) == len(item_ids):
            return _limit_ties(ranked, residuals, TIES_PER_RESULT * count + EXTRA_TIES)
        rows = 2 * max(rows, len(selected))


def _rows_within(scores: Vector, rows: int, error_bound: float) -> list[int]:
    """List the rows with the highest scores, and all rows within the error bound below them."""
    if rows >= len(scores):
        return list(range(len(scores)))
    place = len(scores) - rows
    threshold = np.partition(scores, place)[place] - error_bound
    selected: list[int] = np.flatnonzero(scores >= threshold).tolist()
    return selected


def _best_row_of_each(rows: Iterable[RankedRow]) -> list[RankedRow]:
    """Keep the best row of each item, best first, and by id where scores are equal."""
    best: dict[str, RankedRow] = {}
    for score, row, item in rows:
        if item not in best or best[item][0] < score:
            best[item] = (score, row, item)
    return sorted(best.values(), key=lambda ranked: (-ranked[0], ranked[2]))


def _limit_ties(ranked: Sequence[RankedRow], residuals: Vector, limit: int) -> list[Candidate]:
    """Keep at most `limit` candidates that are tied.

    Candidates are tied where their scores and their residuals are equal: different vectors with
    equal codes have different residuals. A score of zero is an exception: items that share no
    dimension with the query are tied whatever their residuals are. Of these as many are kept
    besides whose residuals are largest: what they share may be too little for a code.
    """
    unscored = [row for score, row, _ in ranked if not score]
    uncertain = {*nlargest(limit, unscored, key=residuals.__getitem__)}
    seen: Counter[tuple[float, float]] = Counter()
    kept: list[Candidate] = []
    for score, row, item in ranked:
        tie = (score, float(residuals[row]) if score else 0.0)
        seen[tie] += 1
        if seen[tie] <= limit or row in uncertain:
            kept.append((score, item))
    return kept
