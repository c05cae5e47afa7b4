"""The embedder ``"openai:MODEL"``: OpenAI, and whatever speaks its embeddings protocol at
``OPENAI_BASE_URL``.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mongomem.embeddings.embedder import Embedder, Vectors
from mongomem.embeddings.identity import Identity
from mongomem.embeddings.settings import OPENAI, url_address
from mongomem.engine.locks import Guarded
from mongomem.engine.workers import in_worker
from mongomem.errors import ConfigurationError

if TYPE_CHECKING:  # importing openai takes half a second: only those who use it pay
    from openai import AsyncOpenAI, OpenAI
    from openai.types import CreateEmbeddingResponse

MAX_INPUTS = 2048
MAX_INPUT_TOKENS = 8192
MAX_REQUEST_TOKENS = 300_000
"""Limits of one request, from the API reference of ``POST /embeddings``."""

OWN_BASE_URL = "https://api.openai.com/v1"
"""Where the package asks when nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenAIEmbedder(Embedder):
    """A model behind the OpenAI embeddings protocol, by the `openai` package.

    Key, proxies, timeouts and retries are the package's own, from its environment variables; so is
    the base URL, which is read once, see `_OpenAIClients`. Texts go in as few requests as the API's
    limits allow, one after the other. The API refuses an empty text, so a space stands in for it; a
    text over the model's limit is refused by the API, whose error reaches the caller.

    Attributes:
        model: What the API calls the model.
        given: What the user calls it, where it is not the same.
    """

    model: str
    given: str | None = None
    clients: _OpenAIClients = field(default_factory=lambda: _OpenAIClients())

    def identity(self) -> Identity:
        first = f"openai:{self.model}"
        address = url_address(self.clients.base_url()) or "another address"
        read = first if address == OPENAI else f"{first} at {address}"
        return Identity(self.given, read, (first,))

    @property
    def title(self) -> str:
        """What the model is called, whatever its address: looking at that would settle it."""
        return self.given or f"openai:{self.model}"

    def _documents(self, texts: list[str]) -> Any:
        create = self.clients.blocking().embeddings.create
        return [
            vector
            for batch in _batches(texts)
            for vector in _in_order(create(**self._request(batch)))
        ]

    async def _adocuments(self, texts: list[str]) -> Any:
        create = (await self.clients.awaiting()).embeddings.create
        return [
            vector
            for batch in _batches(texts)
            for vector in _in_order(await create(**self._request(batch)))
        ]

    def _request(self, batch: list[str]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.model, "input": batch}
        # Other models answer `dimensions` with an error.
        if self.dims is not None and "text-embedding-3" in self.model:
            request["dimensions"] = self.dims
        return request


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Cut texts into requests. A token is at least one byte, and no valid text has more than 8192
    of them.
    """
    batch: list[str] = []
    tokens = 0
    for text in texts:
        size = min(len(text.encode()), MAX_INPUT_TOKENS)
        if len(batch) == MAX_INPUTS or tokens + size > MAX_REQUEST_TOKENS:
            yield batch
            batch, tokens = [], 0
        batch.append(text or " ")
        tokens += size
    if batch:
        yield batch


def _in_order(response: CreateEmbeddingResponse) -> list[Vectors]:
    """Read vectors by index; compatible servers that send none keep the order of the texts."""
    rows = sorted(response.data, key=lambda row: getattr(row, "index", None) or 0)
    return [np.asarray(row.embedding, dtype=np.float32) for row in rows]


class _OpenAIClients(Guarded):
    """One blocking client per process, and one awaiting client per event loop, as its connections
    belong to the loop.

    ``OPENAI_BASE_URL`` is read when the first client is made or the model is first named, whichever
    comes first, and counts from then on: the model would be called by one server and asked of
    another otherwise.

    A client is closed when its loop shuts its async generators down, as ``asyncio.run`` and all
    runners do at their end: an open connection would outlive the loop otherwise.
    """

    def __init__(self) -> None:
        self._guard()
        self._read: dict[str, str] = {}
        self._blocking: tuple[int, OpenAI] | None = None
        self._awaiting: dict[
            asyncio.AbstractEventLoop, tuple[AsyncOpenAI, AsyncGenerator[None, None]]
        ] = {}

    def base_url(self) -> str:
        """Return the address of the server."""
        return self._read.setdefault("base_url", os.environ.get("OPENAI_BASE_URL") or OWN_BASE_URL)

    def blocking(self) -> OpenAI:
        with self._lock:
            # A forked child shares no connection with its parent.
            if self._blocking is None or self._blocking[0] != os.getpid():
                client = _new_client(self.base_url())
                # The client's own finalizer may come after those of its sockets.
                weakref.finalize(self, client.close)
                self._blocking = os.getpid(), client
            return self._blocking[1]

    def _forget_closed_loops(self) -> None:
        for ended in [known for known in list(self._awaiting) if known.is_closed()]:
            self._awaiting.pop(ended, None)

    async def awaiting(self) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        if loop not in self._awaiting:
            base_url = self.base_url()
            # In a worker thread: it imports, and reads certificates.
            client = await in_worker("embedding", lambda: _new_async_client(base_url))
            if loop not in self._awaiting:  # else a task of the same loop was faster
                self._forget_closed_loops()
                self._awaiting[loop] = client, self._until_shutdown(loop, client)
                await anext(self._awaiting[loop][1])
        return self._awaiting[loop][0]

    async def _until_shutdown(
        self, loop: asyncio.AbstractEventLoop, client: AsyncOpenAI
    ) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._awaiting.pop(loop, None)
            await client.close()


def _new_client(base_url: str) -> OpenAI:
    with _client_errors_explained():
        from openai import OpenAI

        return OpenAI(base_url=base_url)


def _new_async_client(base_url: str) -> AsyncOpenAI:
    with _client_errors_explained():
        from openai import AsyncOpenAI

        return AsyncOpenAI(base_url=base_url)


@contextmanager
def _client_errors_explained() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            'embed="openai:..." needs the package openai: pip install openai'
        ) from error
    except Exception as error:
        if hasattr(error, "add_note"):  # Python 3.11
            error.add_note(
                "mongomem: set OPENAI_API_KEY, or use an embedder that needs no key, e.g. "
                'embed="local"'
            )
        raise
