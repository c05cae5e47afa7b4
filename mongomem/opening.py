"""`from_conn_string`: something to enter that owns the client it opens.

One object for both worlds: ``with`` opens a ``MongoClient``, ``async with`` an ``AsyncMongoClient``.
Making it does no I/O, so it can be made at import time, and entered by many at once: sync callers share
one client, and so do the tasks of one event loop, because an ``AsyncMongoClient`` belongs to one loop.
The last that leaves closes it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from pymongo import AsyncMongoClient, MongoClient

from mongomem.errors import ConfigurationError, UsageError

T = TypeVar("T")


@dataclass(slots=True)
class _Opened(Generic[T]):
    """A client, how many are inside of it, and what the first of them built on it."""

    client: Any
    inside: int = 0
    built: T | None = None


class Opening(Generic[T]):
    """Opens a client and builds a T on it when first entered; closes the client when the last has left.

    Whoever enters meanwhile gets the same T.

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

    def __init__(self, name: str, uri: Any, build: Callable[[Any], T], client_options: Mapping[str, Any]) -> None:
        if not uri or not isinstance(uri, str):
            raise ConfigurationError(f"{name} needs a connection string such as mongodb://localhost:27017, not {uri!r}")
        self._name = name
        self._uri = uri
        self._build = build
        self._client_options = dict(client_options)
        self._opened: dict[asyncio.AbstractEventLoop | None, _Opened[T]] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, made: Callable[..., T], uri: str, options: Mapping[str, Any]) -> Opening[T]:
        """Return the opening of a class made from a client; options that are not its own reach the client."""
        names = inspect.signature(made).parameters.keys()
        own = {name: value for name, value in options.items() if name in names}
        others = {name: value for name, value in options.items() if name not in names}
        return cls(made.__name__, uri, lambda client: made(client, **own), others)

    def __enter__(self) -> T:
        opened = self._count_in(None, MongoClient)
        try:
            return self._built_on(opened)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc_info: object) -> None:
        client = self._count_out(None)
        if client is not None:
            client.close()

    async def __aenter__(self) -> T:
        opened = self._count_in(asyncio.get_running_loop(), AsyncMongoClient)
        try:
            return self._built_on(opened)
        except BaseException:
            await self.__aexit__()
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        client = self._count_out(asyncio.get_running_loop())
        if client is not None:
            await client.close()

    def _count_in(self, loop: asyncio.AbstractEventLoop | None, make: Callable[..., Any]) -> _Opened[T]:
        """Count one more inside; the first makes the client."""
        with self._lock:
            if loop not in self._opened:
                self._opened[loop] = _Opened(make(self._uri, **self._client_options))
            opened = self._opened[loop]
            opened.inside += 1
            return opened

    def _built_on(self, opened: _Opened[T]) -> T:
        with self._lock:
            if opened.built is None:
                opened.built = self._build(opened.client)
            return opened.built

    def _count_out(self, loop: asyncio.AbstractEventLoop | None) -> Any:
        """Count one less inside; return the client to the last, who closes it.

        Raises:
            UsageError: Nobody is inside.
        """
        with self._lock:
            opened = self._opened.get(loop)
            if opened is None:
                where = "" if loop is None else "in this event loop "
                raise UsageError(
                    f"{self._name}.from_conn_string(...) was left {where}more often than entered: leave it to "
                    f"`{'with' if loop is None else 'async with'}`, which does both once."
                )
            opened.inside -= 1
            if opened.inside:
                return None
            del self._opened[loop]
            return opened.client

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
