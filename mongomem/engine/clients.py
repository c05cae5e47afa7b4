"""Clients of PyMongo: the database that one names, what its servers are told, and what is
remembered of each.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Generic, TypeVar

from pymongo.driver_info import DriverInfo

from mongomem.arguments import checked_text, shown
from mongomem.engine.locks import Guarded
from mongomem.errors import ConfigurationError

T = TypeVar("T")

DEFAULT_DATABASE = "mongomem"

SYSTEM_DATABASES = frozenset({"admin", "config", "local"})

LONGEST_DATABASE_NAME = 63
"""In bytes (MongoDB 4.4 to 8.2)."""

REFUSED_IN_DATABASE_NAMES = frozenset(' .$/\\"\0')
"""Characters that no name of a database holds (MongoDB 4.4 to 8.2, on Unix)."""


class PerClient(Guarded, Generic[T]):
    """One T for each client, made when it is asked for first and forgotten with the client.

    By identity: clients compare equal, and have a hash, by the servers that they are connected to.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._found: dict[int, tuple[weakref.ref[Any], T]] = {}
        self._guard()

    def of(self, client: Any) -> T:
        """Return the one of a client."""
        key = id(client)
        with self._lock:
            if key not in self._found:
                self._found[key] = (
                    weakref.ref(client, lambda _: self._found.pop(key, None)),
                    self._make(client),
                )
            return self._found[key][1]


def database_name_of(client: Any, db_name: object) -> str:
    """Return the name of the database: the one given, else the one that the client's URI names,
    else `mongomem`.

    A URI that names ``admin``, ``local`` or ``config`` says where its user is kept, and not where
    data belong.

    Raises:
        ConfigurationError: It is given, and MongoDB allows no database of that name.
    """
    if db_name is None:
        named: str = client.get_default_database(DEFAULT_DATABASE).name
        return DEFAULT_DATABASE if named in SYSTEM_DATABASES else named
    name = checked_text("db_name", db_name, ConfigurationError)
    if not 0 < len(
        name.encode()
    ) <= LONGEST_DATABASE_NAME or REFUSED_IN_DATABASE_NAMES.intersection(name):
        raise ConfigurationError(f"db_name cannot be the name of a database: {shown(name)}")
    return name


def driver_info() -> DriverInfo:
    """Return who uses a client, as its servers log it."""
    try:
        own: str | None = version("mongomem")
    except PackageNotFoundError:  # used from its source, not installed
        own = None
    info: DriverInfo = DriverInfo("mongomem", own)
    return info


def takes_introduction(kind: type) -> bool:
    """Say whether a class of clients can be told who uses it after it was made (PyMongo 4.14)."""
    # The class is asked: a client takes any attribute for a database.
    return hasattr(kind, "append_metadata")


def _introduce(client: Any) -> None:
    if takes_introduction(type(client)):
        client.append_metadata(driver_info())


introductions: PerClient[None] = PerClient(_introduce)
"""To whose servers it was told who uses the client: PyMongo 4.14 would tell them as often as it is
asked to."""
