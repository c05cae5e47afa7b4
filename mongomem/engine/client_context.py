"""`from_conn_string`: something to enter that owns the client it opens.

One object for both worlds: ``with`` opens a ``MongoClient``, ``async with`` an
``AsyncMongoClient``. Making it does no I/O, so it can be made at import time, and entered by many
at once: sync callers share one client, and so do the tasks of one event loop, because an
``AsyncMongoClient`` belongs to one loop. The last that leaves closes it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, TypeVar, cast

import pymongo
from langgraph.store.base import NOT_PROVIDED, NotProvided
from pymongo import AsyncMongoClient, MongoClient, ReadPreference
from pymongo.errors import InvalidURI, OperationFailure, PyMongoError

from mongomem.arguments import shown
from mongomem.engine.clients import driver_info, introductions, takes_introduction
from mongomem.engine.locks import Guarded
from mongomem.engine.loops import loops_of_clients
from mongomem.errors import ConfigurationError, ServerUnavailableError, UsageError
from mongomem.options import names_of, unknown_option

T = TypeVar("T")

BEGINS = "mongodb:// or mongodb+srv://"


@dataclass(slots=True)
class _OpenClient(Generic[T]):
    """A client, how many are inside of it, and what the first of them built on it."""

    client: Any
    inside: int = 0
    built: T | None = None
    has_answered: bool = False

    def close(self) -> None:
        """Stop what was built, where it does anything by itself; then close the client."""
        stop = getattr(self.built, "close", None)
        if stop is not None:
            stop()
        self.client.close()

    async def aclose(self) -> None:
        """Do what `close` does."""
        stop = getattr(self.built, "aclose", None)
        if stop is not None:
            await stop()
        await self.client.close()


class ClientContext(Guarded, Generic[T]):
    """Opens a client and builds a T on it when first entered; closes it when the last has left.

    Whoever enters meanwhile gets the same T. Whoever is first asks the servers whether they are
    there.

    Args:
        connection: How to open a client.
        build: Makes the T from a client. Does no I/O.
    """

    def __new__(cls, connection: Connection, *_args: object) -> ClientContext[T]:
        name = connection.name
        # `compile(checkpointer=...)` answers a wrong object with the name of its type
        # (langgraph.types, ensure_valid_checkpointer), so the type of this object is named by the
        # advice that belongs there.
        advice = (
            f"{name}.from_conn_string(...), not entered: write `with "
            f"{name}.from_conn_string(uri) as memory:`"
        )
        return object.__new__(type(advice, (cls,), {}))

    def __init__(self, connection: Connection, build: Callable[[Any], T]) -> None:
        self._connection = connection
        self._name = connection.name
        self._build = build
        self._opened: dict[asyncio.AbstractEventLoop | None, _OpenClient[T]] = {}
        self._guard()

    @classmethod
    def of(
        cls,
        made: Callable[..., T],
        uri: str,
        open_timeout: float | NotProvided | None,
        options: Mapping[str, Any],
        held: Mapping[str, Callable[..., Any]] | None = None,
    ) -> ClientContext[T]:
        """Return the context of a class made from a client; options that are not its own reach the
        client.

        Args:
            made: The class.
            uri: The connection string.
            open_timeout: How long entering waits for an answer of the servers, in seconds; None:
                does not ask; `NOT_PROVIDED`: as long as the client, see `Connection.wait`.
            options: Those of the class and of the client.
            held: By the options of the class that hold options of another one, that.
        """
        names = names_of(made)
        own = {name: value for name, value in options.items() if name in names}
        others = {name: value for name, value in options.items() if name not in names}
        inner = {name: names_of(one) for name, one in (held or {}).items()}
        connection = Connection(
            made.__name__, uri, others, open_timeout, [*names, "open_timeout"], inner
        )
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
        opened = self._count_out(None)
        if opened is not None:
            opened.close()

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
        opened = self._count_out(asyncio.get_running_loop())
        if opened is not None:
            await opened.aclose()

    def _count_in(self, loop: asyncio.AbstractEventLoop | None, kind: type) -> _OpenClient[T]:
        """Count one more inside; the first makes the client."""
        with self._lock:
            if loop not in self._opened:
                self._opened[loop] = _OpenClient(self._connection.make(kind))
            opened = self._opened[loop]
            opened.inside += 1
            return opened

    def _built_on(self, opened: _OpenClient[T]) -> T:
        with self._lock:
            if opened.built is None:
                opened.built = self._build(opened.client)
            return opened.built

    def _count_out(self, loop: asyncio.AbstractEventLoop | None) -> _OpenClient[T] | None:
        """Count one less inside; return the client to the last, who closes it, and before it what
        was built on it.

        Raises:
            UsageError: Nobody is inside.
        """
        with self._lock:
            opened = self._opened.get(loop)
            if opened is None:
                where = "" if loop is None else "in this event loop "
                raise UsageError(
                    f"{self._name}.from_conn_string(...) was left {where}more often than entered: "
                    f"leave it to `{'with' if loop is None else 'async with'}`, which does both "
                    "once."
                )
            opened.inside -= 1
            if opened.inside:
                return None
            del self._opened[loop]
            return opened

    def __repr__(self) -> str:
        return f"{self._name}.from_conn_string(...)"

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse use in place of what it opens. Names with an underscore are probes, not uses."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise UsageError(
            f"{self._name}.from_conn_string(...) opens nothing until it is entered. Write\n\n"
            f"    with {self._name}.from_conn_string(uri) as memory:        # or: async with\n"
            f"        ...\n\n"
            f"and use `memory` there, or build {self._name} on a client of your own."
        )


OPEN_TIMEOUT = 5.0
"""How long entering waits for an answer of the servers where nobody says it, in seconds."""

SHORTEST_TIMEOUT = 0.001
"""In seconds: to PyMongo, 0 is no bound."""

LONGEST_TIMEOUT = 86_400.0

QUESTION = {"listDatabases": 1, "nameOnly": True, "authorizedDatabases": True}
"""What is asked on entering: any user may, whatever their rights, and nobody else (MongoDB 4.4 to
8.2)."""

UNAUTHORIZED_CODE = 13
"""Server error code: a server that asks for credentials was given none (MongoDB 4.4 to 8.2)."""

UNAUTHENTICATED = frozenset({18, 8000})
"""Server error codes of refused credentials: AuthenticationFailed (MongoDB 4.4 to 8.2), and Atlas's
own."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How to open a client.

    Attributes:
        name: What is opened, as the user wrote it, for messages: ``"MongoSaver"``.
        uri: The connection string.
        client_options: Keyword arguments for the client.
        open_timeout: How long to wait for an answer, in seconds. None: do not ask. `NOT_PROVIDED`:
            see `wait`.
        own: The options of what is opened, and of what those hold options of.
        held: By the names of options that hold options, those.
    """

    name: str
    uri: Any = field(repr=False)
    client_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    open_timeout: float | NotProvided | None = NOT_PROVIDED
    own: Iterable[str] = ()
    held: Mapping[str, Iterable[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.uri, str) or not str.__len__(self.uri):
            # Not shown, whatever it is: what is wrong about it may be its place, and then it may
            # hold a password.
            given = (
                "an empty string" if isinstance(self.uri, str) else f"a {type(self.uri).__name__}"
            )
            raise ConfigurationError(
                f"{self.name} needs a connection string such as mongodb://localhost:27017, not "
                f"{given}"
            )
        # The characters themselves, and not what a subclass of str says of itself.
        object.__setattr__(self, "uri", str.__str__(self.uri))
        _check_timeout(self.open_timeout)

    def make(self, kind: Any) -> Any:
        """Make a client of a class. Does no I/O.

        Raises:
            ConfigurationError: The connection string or an option is not valid.
        """
        introduction = {} if takes_introduction(kind) else {"driver": driver_info()}
        try:
            client = kind(self.uri, **introduction | {**self.client_options})
        except (PyMongoError, TypeError, ValueError) as error:
            raise ConfigurationError(self._refusal(error)) from None
        introductions.of(client)
        return client

    def wait(self, client: Any) -> float | None:
        """Return how long to wait for an answer, in seconds; None: do not ask.

        Where `open_timeout` does not say it, the client does: by ``timeoutMS``, else by
        ``serverSelectionTimeoutMS``, if the connection string or an option of the client has it.
        """
        if not isinstance(self.open_timeout, NotProvided):
            return self.open_timeout
        given = {name.lower() for name in (*_numbers_in(self.uri), *self.client_options)}
        if "timeoutms" in given and client.options.timeout:
            return float(client.options.timeout)
        if "serverselectiontimeoutms" in given:
            return max(float(client.options.server_selection_timeout), SHORTEST_TIMEOUT)
        return OPEN_TIMEOUT

    def ask(self, client: Any) -> None:
        """Ask a ``MongoClient`` whether its servers are there.

        Raises:
            ServerUnavailableError: None of them answers in time.
            ConfigurationError: They refuse the user or the password.
        """
        if (wait := self.wait(client)) is not None:
            with self._explained(client, wait), pymongo.timeout(wait):
                client.admin.command(QUESTION, read_preference=ReadPreference.NEAREST)

    async def aask(self, client: Any) -> None:
        """Ask an ``AsyncMongoClient``, which from then on belongs to this loop. See `ask`."""
        if (wait := self.wait(client)) is not None:
            with self._explained(client, wait), pymongo.timeout(wait):
                await client.admin.command(QUESTION, read_preference=ReadPreference.NEAREST)
        loops_of_clients.of(client).enter()

    @contextmanager
    def _explained(self, client: Any, wait: float) -> Iterator[None]:
        try:
            yield
        except OperationFailure as error:
            hosts, reason = ", ".join(_hosts(client)), _refusal(error)
            raise ConfigurationError(
                f"{hosts} refuses the connection string of {self.name}: {reason}"
            ) from None
        except PyMongoError as error:
            raise ServerUnavailableError(
                f"{self.name}: no MongoDB server answers within {wait:g} s. "
                f"{_reasons(client, error)} Is it started, and is the connection string right? "
                "open_timeout= says how long to wait (None: do not ask)."
            ) from None

    def _refusal(self, error: Exception) -> str:
        unknown = [option for option in self.client_options if option in str(error)]
        if unknown and str(error).startswith("Unknown option"):
            return (
                f"{unknown_option(self.name, unknown[0], self.own, self.held)} Nor has the "
                "MongoDB client."
            )
        if isinstance(error, InvalidURI):
            hint = "Characters such as / : @ % in a user or a password are written %2F %3A %40 %25."
            if "URI must begin with" in str(error):  # and then quotes what it must begin with
                return f"{self.name}: a connection string begins with {BEGINS}"
            return (
                f"{self.name} cannot make a client of its connection string: "
                f"{_without_quotations(error)}. {hint}"
            )
        return f"{self.name} cannot make a client of its options: {_without_quotations(error)}"


def _check_timeout(timeout: object) -> None:
    if timeout is None or isinstance(timeout, NotProvided):
        return
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 0 < cast("float", timeout) <= LONGEST_TIMEOUT:  # which NaN is not
        raise ConfigurationError(
            f"open_timeout must be seconds above 0, at most {LONGEST_TIMEOUT:.0f}, or None, not "
            f"{shown(timeout)}"
        )


def _without_quotations(error: Exception) -> str:
    """Leave out what an error quotes: PyMongo 4.13 takes the rest of a password with a slash for a
    database.
    """
    return re.sub(r"""(?<!\w)(["']).*\1""", "...", str(error)).rstrip(".")


def _numbers_in(uri: str) -> list[str]:
    """Return the names of the options that a connection string gives a number. Of what is none
    PyMongo warns, and takes its default.
    """
    return re.findall(r"[?&;](\w+)=\d", uri)


def _hosts(client: Any) -> list[str]:
    known = sorted(client.topology_description.server_descriptions())
    return [f"{host}:{port}" if port else host for host, port in known]


def _refusal(error: OperationFailure) -> str:
    """Say why a server refused to answer."""
    if error.code == UNAUTHORIZED_CODE:
        return "it asks for a user and a password"
    if error.code in UNAUTHENTICATED:
        return "its user or its password (and authSource says in which database the user is kept)"
    return shown((error.details or {}).get("errmsg") or str(error))


def _reasons(client: Any, error: PyMongoError) -> str:
    """Say what each host met, or else what the driver says as a whole, without the topology and the
    timeouts.
    """
    met = sorted(client.topology_description.server_descriptions().items())
    reasons = [_first_part(one.error) for _, one in met if one.error is not None]
    if not reasons:
        return f"{', '.join(_hosts(client))}: {_first_part(error)}."
    return f"{'; '.join(reasons)}."


def _first_part(error: BaseException) -> str:
    return re.split(r" \(configured timeouts|, Timeout: |, Topology Description", str(error))[0]
