"""Errors by which a source is gone: they end a copy. Any other one is about what was read, which is
left out.
"""

from __future__ import annotations

from pymongo.errors import PyMongoError

OWN = (PyMongoError, OSError)

NAMES = frozenset({"OperationalError", "InterfaceError", "ConnectionError", "TimeoutError"})
"""What drivers of SQL databases call them (PEP 249), and that of Redis (redis.exceptions)."""


def raise_if_lost(error: Exception) -> None:
    """Raise an error again by which the source is gone.

    Raises:
        PyMongoError: It is one of MongoDB.
        OSError: It is another.
    """
    if isinstance(error, OWN):
        raise error
    # sqlite3 calls also a text that is no UTF-8 an OperationalError.
    names = {one.__name__ for one in type(error).__mro__ if one.__module__ != "sqlite3"}
    if names & NAMES:
        raise ConnectionError(f"the source fails: {type(error).__name__}: {error}") from error
