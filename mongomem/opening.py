"""`from_conn_string`: something to enter that owns the client it opens.

One object for both worlds: ``with`` opens a ``MongoClient``, ``async with`` an ``AsyncMongoClient``.
Making it does no I/O, so it can be made at import time, and entered by many at once: sync callers share
one client, and so do the tasks of one event loop, because an ``AsyncMongoClient`` belongs to one loop.
The last that leaves closes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from pymongo import AsyncMongoClient, MongoClient

from mongomem.connection import Connection
from mongomem.errors import UsageError
from mongomem.locks import Guarded
from mongomem.options import names_of

T = TypeVar("T")


@dataclass(slots=True)
class _Opened(Generic[T]):
    """A client, how many are inside of it, and what the first of them built on it."""

    client: Any
    inside: int = 0
    built: T | None = None
    has_answered: bool = False


class Opening(Guarded, Generic[T]):
    """Opens a client and builds a T on it when first entered; closes the client when the last has left.

    Whoever enters meanwhile gets the same T. Whoever is first asks the servers whether they are there.

    Args:
        connection: How to open a client.
        build: Makes the T from a client. Does no I/O.
    """

    def __new__(cls, connection: Connection, *_args: object) -> Opening[T]:
        name = connection.name
        # `compile(checkpointer=...)` answers a wrong object with the name of its type (langgraph.types,
        # ensure_valid_checkpointer), so the type of an Opening is named by the advice that belongs there.
        advice = f"{name}.from_conn_string(...), not entered: write `with {name}.from_conn_string(uri) as memory:`"
        return object.__new__(type(advice, (cls,), {}))

    def __init__(self, connection: Connection, build: Callable[[Any], T]) -> None:
        self._connection = connection
        self._name = connection.name
        self._build = build
        self._opened: dict[asyncio.AbstractEventLoop | None, _Opened[T]] = {}
        self._guard()

    @classmethod
    def of(
        cls,
        made: Callable[..., T],
        uri: str,
        open_timeout: float | None,
        options: Mapping[str, Any],
        beneath: Mapping[str, Callable[..., Any]] | None = None,
    ) -> Opening[T]:
        """Return the opening of a class made from a client; options that are not its own reach the client.

        Args:
            made: The class.
            uri: The connection string.
            open_timeout: How long entering waits for an answer of the servers, in seconds; None: does not ask.
            options: Those of the class and of the client.
            beneath: By the options of the class that hold options of another one, that.
        """
        names = names_of(made)
        own = {name: value for name, value in options.items() if name in names}
        others = {name: value for name, value in options.items() if name not in names}
        inner = {name: names_of(one) for name, one in (beneath or {}).items()}
        connection = Connection(made.__name__, uri, others, open_timeout, [*names, "open_timeout"], inner)
        return cls(connection, lambda client: made(client, **own))

    def __enter__(self) -> T:
        opened = self._count_in(None, MongoClient)
        try:
            built = self._built_on(opened)
            if not opened.has_answered:
                self._connection.ask(opened.client)
                opened.has_answered = True
            return built
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
            built = self._built_on(opened)
            if not opened.has_answered:
                await self._connection.aask(opened.client)
                opened.has_answered = True
            return built
        except BaseException:
            await self.__aexit__()
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        client = self._count_out(asyncio.get_running_loop())
        if client is not None:
            await client.close()

    def _count_in(self, loop: asyncio.AbstractEventLoop | None, kind: type) -> _Opened[T]:
        """Count one more inside; the first makes the client."""
        with self._lock:
            if loop not in self._opened:
                self._opened[loop] = _Opened(self._connection.make(kind))
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
