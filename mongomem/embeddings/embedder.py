"""What the rest of the package knows of an embedder: `Embedder`, and the one place where vectors
are checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mongomem.embeddings.batches import BatchSize, in_batches
from mongomem.embeddings.identity import Identity
from mongomem.engine.workers import in_worker
from mongomem.errors import DimensionMismatchError, InvalidInputError

LARGEST = 1e15
"""Numbers of a vector are smaller than this, so that no product of two vectors leaves what float32
can hold."""

NUMBERS = "fiubO"
"""Kinds of numpy arrays that may hold real numbers; texts of digits are none."""

Vectors: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embedder(ABC):
    """Texts to vectors, for sync and async callers.

    Attributes:
        dims: Size of every vector; None accepts any, as long as all of one call agree.
        batch_size: How many texts it is sent at once.
    """

    dims: int | None
    batch_size: BatchSize = field(default_factory=BatchSize)

    @abstractmethod
    def identity(self) -> Identity:
        """Name the model, so that a store can tell that its vectors were made by another one."""

    @property
    def fingerprint(self) -> str:
        """What the model is called now. See `identity`."""
        return self.identity().name

    @property
    def title(self) -> str:
        """What the model is called for whoever looks at a store. Settles nothing."""
        return self.fingerprint

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts that are stored: float32 of shape (texts, dims). No text, no call.

        In one request, or in several where it is known or turns out that one must not hold so many.

        Raises:
            DimensionMismatchError: A vector has not `dims` entries.
            InvalidInputError: Not one vector per text, or an entry is NaN or too large, see
                `LARGEST`.
        """
        batches = in_batches(list(texts), self.batch_size)
        resume: Callable[[Any], list[str]] = batches.send
        answer: Any = None
        while True:
            try:
                batch = resume(answer)
            except StopIteration as finished:
                return self._joined(finished.value)
            try:
                answer = self._checked(self._documents(batch), len(batch))
                resume = batches.send
            except Exception as error:
                resume, answer = batches.throw, error

    async def aembed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts without blocking the event loop. See `embed_documents`."""
        batches = in_batches(list(texts), self.batch_size)
        resume: Callable[[Any], list[str]] = batches.send
        answer: Any = None
        while True:
            try:
                batch = resume(answer)
            except StopIteration as finished:
                return self._joined(finished.value)
            try:
                answer = self._checked(await self._adocuments(batch), len(batch))
                resume = batches.send
            except Exception as error:
                resume, answer = batches.throw, error

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to search for, as `embed_documents` does, unless the model has another way
        for queries.
        """
        return self.embed_documents(texts)

    async def aembed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries without blocking the event loop. See `embed_queries`."""
        return await self.aembed_documents(texts)

    def embed_query(self, text: str) -> Vectors:
        """Embed a text to search for: float32 of shape (dims,). Errors as in `embed_documents`."""
        vector: Vectors = self.embed_queries([text])[0]
        return vector

    async def aembed_query(self, text: str) -> Vectors:
        """Embed a query without blocking the event loop. See `embed_query`."""
        vector: Vectors = (await self.aembed_queries([text]))[0]
        return vector

    def embed_weighted(
        self, text: str, words: Sequence[tuple[int, int]], weights: Sequence[float]
    ) -> Vectors | None:
        """Embed a query of whose words some count more than others: float32 of shape (dims,).

        None where nothing is left, and where the model cannot: most know texts only. No network.

        Args:
            text: The query.
            words: Where its words stand, in their order; what is between them does not count.
            weights: Of each word, 0 or more.
        """
        return None

    @abstractmethod
    def _documents(self, texts: list[str]) -> Any:
        """Give one vector per text, unchecked. `texts` is a copy and not empty."""

    async def _adocuments(self, texts: list[str]) -> Any:
        return await in_worker("embedding", self._documents, texts)

    def _joined(self, answers: Sequence[Vectors]) -> Vectors:
        """Put the vectors of all batches together, of which each is checked by itself."""
        if not answers:
            return np.empty((0, self.dims or 0), dtype=np.float32)
        for vectors in answers[1:]:
            self._check_size(vectors[0], answers[0].shape[1])
        return answers[0] if len(answers) == 1 else np.concatenate(answers)

    def _checked(self, answer: Iterable[Any], count: int) -> Vectors:
        vectors = self._one_each(answer, count)
        expected = vectors[0].size if self.dims is None else self.dims
        for vector in vectors:
            self._check_size(vector, expected)
        matrix = np.stack(vectors)  # a copy: what an embedder caches and hands out stays its own
        if not (np.abs(matrix) < LARGEST).all():  # which NaN is not
            raise InvalidInputError(
                f"{self.fingerprint} answered with NaN or infinity, or {LARGEST:.0e} and more"
            )
        return matrix

    def _one_each(self, answer: Iterable[Any], count: int) -> list[Vectors]:
        """Read as many vectors as there are texts, one more at most: an answer may have no end."""
        try:
            with np.errstate(over="ignore"):  # beyond float32 is infinite, which `_checked` refuses
                vectors = [_numbers(vector) for vector in islice(answer, count + 1)]
        except Exception as error:  # of numpy, or of whatever an embedder answers with
            raise InvalidInputError(
                f"{self.fingerprint} must answer with one vector of numbers per text"
            ) from error
        if len(vectors) != count:
            got = f"{len(vectors)} vectors" + (" or more" if len(vectors) > count else "")
            raise InvalidInputError(f"{self.fingerprint} answered {count} texts with {got}")
        return vectors

    def _check_size(self, vector: Vectors, expected: int) -> None:
        if vector.shape != (expected,) or not expected:
            got = str(vector.size) if vector.ndim == 1 else f"an array of shape {vector.shape}"
            raise DimensionMismatchError(
                f"{self.fingerprint}: expected {expected} dimensions, got {got}"
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamedEmbedder(Embedder):
    """An embedder whose model is known when it is made."""

    names: Identity

    def identity(self) -> Identity:
        return self.names


def _numbers(vector: Any) -> Vectors:
    numbers = np.asarray(vector)
    if numbers.dtype.kind not in NUMBERS:
        raise TypeError(f"an array of {numbers.dtype} holds no real numbers")
    return numbers.astype(np.float32, copy=False)
