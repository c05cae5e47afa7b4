"""The embedder ``"local"``: a small model that needs no key and no network (extra ``local``)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from mongomem.arguments import shown
from mongomem.embeddings.batches import BatchSize
from mongomem.embeddings.embedder import NamedEmbedder, Vectors
from mongomem.embeddings.identity import Identity
from mongomem.embeddings.token_weights import weights_of_tokens
from mongomem.errors import ConfigurationError

LOCAL_DIMS = (256, 128, 64)
"""Sizes of the local model's vectors, the default first. The smaller ones are leading parts of the
largest."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalEmbedder(NamedEmbedder):
    """The small static model of wordllama: numpy only, weights inside its wheel, about 30 µs a
    sentence.

    Vectors are the normalised mean of the texts' token vectors, in any length of text.
    """

    def _documents(self, texts: list[str]) -> Any:
        model = _wordllama()
        return [self._mean_of_tokens(model, text or " ") for text in texts]

    def embed_weighted(
        self, text: str, words: Sequence[tuple[int, int]], weights: Sequence[float]
    ) -> Vectors | None:
        model = _wordllama()
        found = model.tokenize([text])[0]
        if not words or not found.ids:
            return None
        return self._direction(model, found.ids, weights_of_tokens(found.offsets, words, weights))

    def _mean_of_tokens(self, model: Any, text: str) -> Vectors | None:
        tokens = model.tokenize([text])[0].ids
        return self._direction(model, tokens, np.ones(len(tokens)))

    def _direction(self, model: Any, tokens: Sequence[int], weights: Any) -> Vectors | None:
        """Return the direction of the weighted sum of token vectors, where it has one.

        By distinct token, so that memory is bounded by the vocabulary: wordllama's own `embed` pads
        every text of a batch to the longest one.
        """
        distinct, places = np.unique(tokens, return_inverse=True)
        totals = np.bincount(places, weights).astype(np.float32)
        total: Vectors = totals @ model.embedding[distinct, : self.dims]
        length = np.linalg.norm(total)
        return total / length if length else None


@cache
def _wordllama() -> Any:
    """Load the bundled weights and tokenizer, about 0.5 s once per process. Reads no other file, no
    network.
    """
    root_logger, placeholder = logging.getLogger(), logging.NullHandler()
    # wordllama calls logging.basicConfig(INFO), which does nothing where there is a handler.
    root_logger.addHandler(placeholder)
    try:
        import wordllama
    finally:
        root_logger.removeHandler(placeholder)
    # wordllama 0.4.0 looks for its tokenizer in the folder "tokenizer", but ships it in
    # "tokenizers", where it looks below `cache_dir`.
    bundled = Path(str(wordllama.__file__)).parent
    return wordllama.WordLlama.load(cache_dir=bundled, dim=LOCAL_DIMS[0], disable_download=True)


def local_embedder(
    name: str, dims: int | None, batch_size: BatchSize, model: str | None
) -> LocalEmbedder:
    """Make the local embedder of ``"local"`` or ``"local:wordllama"``.

    Raises:
        ConfigurationError: There is no such model, not of this size, or the extra is not installed.
    """
    dims = LOCAL_DIMS[0] if dims is None else dims
    if name not in ("local", "local:wordllama"):
        raise ConfigurationError(
            f'The local embedder is "local", "local:wordllama" or "local:minilm", not {shown(name)}'
        )
    if dims not in LOCAL_DIMS:
        raise ConfigurationError(f"The local embedder has {LOCAL_DIMS} dims, not {shown(dims)}")
    if find_spec("wordllama") is None:
        raise ConfigurationError(
            f"embed={shown(name)} needs the extra `local` (in a clone of mongomem: pip install "
            '".[local]")'
        )
    read = f"local:wordllama-{dims}"
    return LocalEmbedder(names=Identity(model, read, (read,)), dims=dims, batch_size=batch_size)
