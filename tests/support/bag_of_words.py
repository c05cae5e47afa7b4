"""A deterministic embedding without a model: texts are as close as the words they share."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Sequence


def bag_of_words(dims: int) -> Callable[[Sequence[str]], list[list[float]]]:
    """Make a sync embedding function: each word adds one at the place its hash names, then
    L2-normalised.

    The same in every process and on every machine. A text without a word counts as one empty word,
    so that no vector is zero."""

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [_vector(text, dims) for text in texts]

    return embed


def _vector(text: str, dims: int) -> list[float]:
    counts = [0.0] * dims
    for word in re.findall(r"\w+", text.lower()) or [""]:
        counts[
            int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big") % dims
        ] += 1.0
    length = math.sqrt(sum(count * count for count in counts))
    return [count / length for count in counts]
