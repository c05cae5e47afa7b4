"""One store a kind of client, called in its way: the same test body for sync and async, mongod and
mongomock.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

from mongomem.store.store import MongoStore
from support.bag_of_words import bag_of_words
from support.savers import Calls, client_of

DIMS = 512


class Clock:
    """A clock in hand."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=timezone.utc)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, *, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


class CountingEmbedder:
    """A bag of words that remembers what it was asked for, and fails or errs on demand."""

    def __init__(self, dims: int = DIMS) -> None:
        self.calls: list[list[str]] = []
        self.error: Exception | None = None
        self._embed = bag_of_words(dims)

    @property
    def texts(self) -> list[str]:
        return [text for call in self.calls for text in call]

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls.append(list(texts))
        if self.error is not None:
            raise self.error
        return self._embed(texts)


def words(dims: int = DIMS, **index: Any) -> dict[str, Any]:
    """Make an index configuration over the bag of words, whose scores are cosines."""
    return {"embed": bag_of_words(dims), "dims": dims, "rank": "vector", **index}


@asynccontextmanager
async def store_of(kind: str, uri: str, db_name: str, **options: Any) -> AsyncIterator[Calls]:
    """Make a store on a client of a kind, to be called by the names of its sync methods."""
    async with client_of(kind, uri) as client:
        yield Calls(MongoStore(client, db_name, **options), kind)


def store_on(client: Any, kind: str, db_name: str, **options: Any) -> Calls:
    """Make another store on a client of a kind."""
    return Calls(MongoStore(client, db_name, **options), kind)


def keys(items: Iterable[Any]) -> list[str]:
    return [item.key for item in items]


def named(value: object) -> str:
    """Name a parameter by its repr without addresses, which differ between the processes of one
    run.
    """
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
