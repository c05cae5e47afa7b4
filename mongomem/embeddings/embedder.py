"""What the rest of the package knows of an embedder: `Embedder`, and the one place where vectors are checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mongomem.errors import DimensionMismatchError, InvalidInputError
from mongomem.workers import in_worker

LARGEST = 1e15
"""Numbers of a vector are smaller than this, so that no product of two vectors leaves what float32 can hold."""

Vectors: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embedder(ABC):
    """Texts to vectors, for sync and async callers.

    Attributes:
        fingerprint: Names the model, so that a store can tell that its vectors were made by another one.
        dims: Size of every vector; None accepts any, as long as all of one call agree.
    """

    fingerprint: str
    dims: int | None

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts that are stored: float32 of shape (texts, dims). No text, no call.

        Raises:
            DimensionMismatchError: A vector has not `dims` entries.
            InvalidInputError: Not one vector per text, or an entry is NaN or too large, see `LARGEST`.
        """
        return self._checked(self._documents(list(texts)), len(texts)) if texts else self._nothing()

    async def aembed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts without blocking the event loop. See `embed_documents`."""
        return self._checked(await self._adocuments(list(texts)), len(texts)) if texts else self._nothing()

    def embed_query(self, text: str) -> Vectors:
        """Embed a text that is searched for: float32 of shape (dims,). Errors as in `embed_documents`."""
        vector: Vectors = self._checked(self._query(text), 1)[0]
        return vector

    async def aembed_query(self, text: str) -> Vectors:
        """Embed a query without blocking the event loop. See `embed_query`."""
        vector: Vectors = self._checked(await self._aquery(text), 1)[0]
        return vector

    @abstractmethod
    def _documents(self, texts: list[str]) -> Any:
        """Give one vector per text, unchecked. `texts` is a copy and not empty."""

    async def _adocuments(self, texts: list[str]) -> Any:
        return await in_worker("embedding", self._documents, texts)

    def _query(self, text: str) -> Any:
        return self._documents([text])

    async def _aquery(self, text: str) -> Any:
        return await self._adocuments([text])

    def _nothing(self) -> Vectors:
        return np.empty((0, self.dims or 0), dtype=np.float32)

    def _checked(self, answer: Iterable[Any], count: int) -> Vectors:
        try:
            with np.errstate(over="ignore"):  # beyond float32 is infinite, which is refused below
                vectors = [np.asarray(vector, dtype=np.float32) for vector in answer]
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"{self.fingerprint} must answer with one vector of numbers per text") from error
        if len(vectors) != count:
            raise InvalidInputError(f"{self.fingerprint} answered {count} texts with {len(vectors)} vectors")
        expected = vectors[0].size if self.dims is None else self.dims
        for vector in vectors:
            if vector.shape != (expected,) or not expected:
                got = str(vector.size) if vector.ndim == 1 else f"an array of shape {vector.shape}"
                raise DimensionMismatchError(f"{self.fingerprint}: expected {expected} dimensions, got {got}")
        matrix = np.stack(vectors)  # a copy: what an embedder caches and hands out stays its own
        if not (np.abs(matrix) < LARGEST).all():  # which NaN is not
            raise InvalidInputError(f"{self.fingerprint} answered with NaN or infinity, or {LARGEST:.0e} and more")
        return matrix
