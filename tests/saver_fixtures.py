"""One saver a kind of client, and one way to call it: the same test body for sync and async, mongod and mongomock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mongomock
from pymongo import AsyncMongoClient, MongoClient

from mongomem.checkpoint.saver import MongoSaver

KINDS = ("blocking", "threaded", "awaiting", "mongomock")
"""MongoClient called sync, MongoClient called async, AsyncMongoClient, mongomock called sync."""


class Calls:
    """Calls a saver's or a store's methods by their sync names, in the way that its kind has."""

    def __init__(self, target: Any, kind: str) -> None:
        self.target = target
        self.is_async = kind in ("threaded", "awaiting")

    async def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self.is_async:
            return await getattr(self.target, f"a{name}")(*args, **kwargs)
        return getattr(self.target, name)(*args, **kwargs)

    async def list(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Collect what `list` or `alist` streams."""
        if self.is_async:
            return [one async for one in self.target.alist(*args, **kwargs)]
        return list(self.target.list(*args, **kwargs))


@asynccontextmanager
async def client_of(kind: str, uri: str) -> AsyncIterator[Any]:
    """Open a client of a kind."""
    if kind == "mongomock":
        yield mongomock.MongoClient()
    elif kind == "awaiting":
        async with AsyncMongoClient(uri) as client:
            yield client
    else:
        with MongoClient(uri) as client:
            yield client


@asynccontextmanager
async def saver_of(kind: str, uri: str, db_name: str, **options: Any) -> AsyncIterator[MongoSaver]:
    """Make a saver on a client of a kind."""
    async with client_of(kind, uri) as client:
        yield MongoSaver(client, db_name, **options)
