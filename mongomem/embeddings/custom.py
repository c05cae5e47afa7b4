"""Embedders that a user wrote: functions, sync or async, and LangChain ``Embeddings``."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from langchain_core.embeddings import Embeddings
from langgraph.store.base.embed import EmbeddingsLambda

from mongomem.embeddings.batches import BatchSize
from mongomem.embeddings.embedder import NamedEmbedder, Vectors
from mongomem.embeddings.identity import identity_of
from mongomem.engine.locks import Guarded
from mongomem.engine.loops import run_on
from mongomem.engine.workers import in_worker
from mongomem.errors import UsageError

T = TypeVar("T")
EmbeddingFunction: TypeAlias = Callable[[list[str]], Any]
"""Texts to one vector per text (lists or arrays), or to an awaitable of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionEmbedder(NamedEmbedder):
    """A function of the user, sync or async, in both worlds.

    A sync function serves async callers in a worker thread. An async one serves sync callers on a
    background thread with an event loop of its own, also where the caller's thread runs a loop
    (Jupyter); what it awaits must not be bound to the caller's loop, which waits meanwhile.
    """

    function: EmbeddingFunction

    def _documents(self, texts: list[str]) -> Any:
        vectors = self.function(texts)
        return _background.run(vectors) if inspect.isawaitable(vectors) else vectors

    async def _adocuments(self, texts: list[str]) -> Any:
        if inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            type(self.function).__call__
        ):
            return await self.function(texts)
        vectors = await in_worker("embedding", self.function, texts)
        return await vectors if inspect.isawaitable(vectors) else vectors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LangChainEmbedder(NamedEmbedder):
    """A LangChain ``Embeddings``, by its own four methods: it embeds one query a call."""

    embeddings: Embeddings

    def _documents(self, texts: list[str]) -> Any:
        return self.embeddings.embed_documents(texts)

    async def _adocuments(self, texts: list[str]) -> Any:
        return await self.embeddings.aembed_documents(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        answers = [self.embeddings.embed_query(text) for text in texts]
        return self._joined([self._checked([answer], 1) for answer in answers])

    async def aembed_queries(self, texts: Sequence[str]) -> Vectors:
        answers = await asyncio.gather(*(self.embeddings.aembed_query(text) for text in texts))
        return self._joined([self._checked([answer], 1) for answer in answers])


class _BackgroundLoop(Guarded):
    """An event loop on a daemon thread, started at first use, where sync callers have awaitables
    awaited.
    """

    def __init__(self) -> None:
        self._guard()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, awaitable: Awaitable[T]) -> T:
        """Wait for the result. Context variables of the caller are visible; Ctrl-C cancels.

        Raises:
            UsageError: The caller is itself on the background loop, which would wait for itself for
                ever.
        """
        if threading.current_thread() is self._thread:
            if inspect.iscoroutine(awaitable):
                awaitable.close()
            raise UsageError(
                "An async embedding function called a sync method that embeds: await the async "
                "twin instead"
            )
        return run_on(self._started(), _await(awaitable), patience=None)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # In the child of a fork there is the loop, but no thread that runs it.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="mongomem-embeddings", daemon=True
                )
                self._thread.start()
            return self._loop


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


_background = _BackgroundLoop()


def function_embedder(
    function: EmbeddingFunction, dims: int | None, batch_size: BatchSize, model: str | None
) -> FunctionEmbedder:
    """Make an embedder of a function or a callable object, sync or async."""
    names = identity_of(function, model)
    return FunctionEmbedder(names=names, dims=dims, batch_size=batch_size, function=function)


def langchain_embedder(
    embeddings: Embeddings,
    dims: int | None,
    batch_size: BatchSize,
    model: str | None,
    fallback: str | None = None,
) -> FunctionEmbedder | LangChainEmbedder:
    """Make an embedder of an instance of LangChain's class. Where nothing names its model,
    `fallback` does.
    """
    # It refuses sync calls of an async function; `FunctionEmbedder` does not.
    if type(embeddings) is EmbeddingsLambda:
        function = getattr(embeddings, "afunc", None) or embeddings.func
        return function_embedder(function, dims, batch_size, model)
    names = identity_of(embeddings, model, fallback)
    return LangChainEmbedder(names=names, dims=dims, batch_size=batch_size, embeddings=embeddings)
