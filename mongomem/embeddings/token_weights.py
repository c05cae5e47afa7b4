"""Weights of the tokens of a query from those of its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def weights_of_tokens(
    tokens: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]], weights: Sequence[float]
) -> Any:
    """Give each token the weight of the word that it is in, 0 between words: shape (tokens,).

    Args:
        tokens: Where they start and end in the text.
        words: Where they start and end, in their order; one at least.
        weights: Of each word.
    """
    token, word = np.array(tokens), np.array(words)
    place = np.searchsorted(word[:, 0], token[:, 1], side="left") - 1
    is_in_word = (place >= 0) & (token[:, 0] < word[place, 1])
    return np.where(is_in_word, np.asarray(weights)[place], 0)
