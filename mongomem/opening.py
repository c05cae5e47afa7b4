"""`from_conn_string`: something to enter that owns the client it opens.

One object for both worlds: ``with`` opens a ``MongoClient``, ``async with`` an ``AsyncMongoClient``.
Making it does no I/O, so it can be made at import time; each event loop that enters it gets a client
of its own, because an ``AsyncMongoClient`` belongs to one loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, NoReturn, TypeVar

from pymongo import AsyncMongoClient, MongoClient

from mongomem.errors import UsageError

T = TypeVar("T")


class Opening(Generic[T]):
    """Opens a client and builds a T on it when entered; closes the client when left.

    Args:
        name: What it opens, as the user wrote it, for messages: ``"MongoSaver"``.
        uri: The connection string.
        build: Makes the T from a client. Does no I/O.
        client_options: Keyword arguments for the client.
    """

    def __new__(cls, name: str, *_args: object) -> Opening[T]:
        # `compile(checkpointer=...)` answers a wrong object with the name of its type (langgraph.types,
        # ensure_valid_checkpointer), so the type of an Opening is named by the advice that belongs there.
        advice = f"{name}.from_conn_string(...), not entered: write `with {name}.from_conn_string(uri) as memory:`"
        return object.__new__(type(advice, (cls,), {}))

    def __init__(self, name: str, uri: str, build: Callable[[Any], T], client_options: Mapping[str, Any]) -> None:
        self._name = name
        self._uri = uri
        self._build = build
        self._client_options = dict(client_options)
        self._clients: list[MongoClient[Any]] = []
        self._aclients: dict[asyncio.AbstractEventLoop, list[AsyncMongoClient[Any]]] = {}

    @classmethod
    def of(cls, made: Callable[..., T], uri: str, options: Mapping[str, Any]) -> Opening[T]:
        """Return the opening of a class made from a client; options that are not its own reach the client."""
        names = inspect.signature(made).parameters.keys()
        own = {name: value for name, value in options.items() if name in names}
        others = {name: value for name, value in options.items() if name not in names}
        return cls(made.__name__, uri, lambda client: made(client, **own), others)

    def __enter__(self) -> T:
        client: MongoClient[Any] = MongoClient(self._uri, **self._client_options)
        self._clients.append(client)
        return self._build(client)

    def __exit__(self, *exc_info: object) -> None:
        self._clients.pop().close()

    async def __aenter__(self) -> T:
        client: AsyncMongoClient[Any] = AsyncMongoClient(self._uri, **self._client_options)
        self._aclients.setdefault(asyncio.get_running_loop(), []).append(client)
        return self._build(client)

    async def __aexit__(self, *exc_info: object) -> None:
        loop = asyncio.get_running_loop()
        opened = self._aclients[loop]
        client = opened.pop()
        if not opened:
            del self._aclients[loop]
        await client.close()

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse to be used in place of what it opens. Names with an underscore are probes, not uses."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise UsageError(
            f"{self._name}.from_conn_string(...) opens nothing until it is entered. Write\n\n"
            f"    with {self._name}.from_conn_string(uri) as memory:        # or: async with\n"
            f"        ...\n\n"
            f"and use `memory` there, or build {self._name} on a client of your own."
        )
