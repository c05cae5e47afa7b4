"""Shard keys, and the commands that set them.

A shard key is what the filter of every write names, so that a write goes to one shard:

    checkpoints, checkpoint_writes  ``thread_id``: a put is one command about one thread. Hashed,
                                    since threads are looked up one by one, and many ids grow with
                                    time, which would send all new threads to one shard.
    store_items                     ``path`` and ``_id``: a put names both. By ``path`` alone a
                                    namespace could not be split.
    cache_entries                   ``_id``: a digest, so evenly spread.

Settings are one document a collection, and not sharded. No unique index stands in the way: there is
that on ``_id`` alone, and of two documents with one ``_id`` the shard keys are the same.

A collection that is not empty needs an index that begins with the shard key. Those of checkpoints
are partial, which no shard key may use
(https://www.mongodb.com/docs/manual/core/sharding-shard-key/#shard-key-indexes).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mongomem.engine.commands import CreateIndexes, Document, RunCommand
from mongomem.errors import ConfigurationError
from mongomem.inspection.inspector import Inspector
from mongomem.memory import MongoMemory

ROUTER = "isdbgrid"
"""What ``hello`` answers as ``msg`` where the server is a mongos (MongoDB 4.4.2 to 8.2)."""

BY_ID: Document = {"_id": 1}


@dataclass(frozen=True, slots=True)
class ShardedCollection:
    """A collection and its shard key."""

    collection: str
    key: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sharding:
    """The shard keys of a memory.

    Attributes:
        database: The name of the database.
        collections: The collections.
    """

    database: str
    collections: tuple[ShardedCollection, ...]

    @classmethod
    def of(cls, memory: MongoMemory) -> Sharding:
        """Return the shard keys of a memory."""
        own = memory.saver._options.collections
        keys: dict[str, dict[str, Any]] = {
            own.checkpoints: {"thread_id": "hashed"},
            own.writes: {"thread_id": "hashed"},
            memory.store._context().items: {"path": 1, "_id": 1},
            memory.cache._context().entries: BY_ID,
        }
        rows = tuple(ShardedCollection(*row) for row in keys.items())
        return cls(Inspector(memory).presence().database, rows)

    def lines(self) -> Iterator[str]:
        """Give the commands as ``mongosh`` takes them."""
        yield f"sh.enableSharding({json.dumps(self.database)})"
        for one in self.collections:
            yield from self._lines_of(one)

    def _lines_of(self, one: ShardedCollection) -> Iterator[str]:
        name, key = json.dumps(self.database), json.dumps(one.key)
        if one.key != BY_ID:
            collection = f"db.getSiblingDB({name}).getCollection({json.dumps(one.collection)})"
            yield f"{collection}.createIndex({key})"
        yield f"sh.shardCollection({json.dumps(f'{self.database}.{one.collection}')}, {key})"

    async def check(self) -> None:
        """Refuse a server that cannot shard.

        Raises:
            ConfigurationError: It is no mongos.
        """
        if (await RunCommand({"hello": 1})).get("msg") != ROUTER:
            raise ConfigurationError(
                "the server is no mongos, and only that of a sharded cluster can shard: without "
                "--run the commands are printed and not issued"
            )

    async def issue(self) -> None:
        """Issue the commands. What is done already stays so: they can be repeated."""
        await RunCommand({"enableSharding": self.database}, on_admin=True)
        for one in self.collections:
            if one.key != BY_ID:
                await CreateIndexes(one.collection, [([*one.key.items()], {})])
            place = f"{self.database}.{one.collection}"
            await RunCommand({"shardCollection": place, "key": one.key}, on_admin=True)
