"""No embedder, for stores that rank by words alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mongomem.embeddings.embedder import NamedEmbedder, Vectors
from mongomem.embeddings.identity import Identity

NAME = "none"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoEmbedder(NamedEmbedder):
    """Gives every text the vector without dimensions, so that a store needs no second way."""

    names: Identity = field(default_factory=lambda: Identity(None, NAME, (NAME,)))
    dims: int | None = 0

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.empty((len(texts), 0), dtype=np.float32)

    async def aembed_documents(self, texts: Sequence[str]) -> Vectors:
        return self.embed_documents(texts)

    def _documents(self, texts: list[str]) -> Any:
        return self.embed_documents(texts)
