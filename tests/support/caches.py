"""One cache a kind of client, called in its way: the same test body for sync and async, mongod and
mongomock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pymongo import MongoClient

from mongomem.cache.cache import MongoCache
from support.savers import Calls, client_of
from support.stores import Clock

NS = ("__pregel_ns_writes", "module.node", "node")


@dataclass
class World:
    """A client of one kind, the collection of the entries, a clock in hand, and caches that have
    met nothing yet.
    """

    kind: str
    client: Any
    name: str
    entries: Any
    clock: Clock

    def cache(self, **options: Any) -> Calls:
        return Calls(MongoCache(self.client, self.name, clock=self.clock, **options), self.kind)

    def wait(self, seconds: float) -> None:
        self.clock.now += timedelta(seconds=seconds)


@asynccontextmanager
async def world_of(
    kind: str, uri: str, looking: MongoClient[Any], name: str
) -> AsyncIterator[World]:
    """Open a client of a kind; the entries are seen by another one."""
    async with client_of(kind, uri) as client:
        database = (client if kind == "mongomock" else looking)[name]
        yield World(kind, client, name, database["mongomem_cache_entries"], Clock())
