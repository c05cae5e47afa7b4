"""Indexes and migrations: what `setup` did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.ancestry import time_before
from mongomem.checkpoint.documents.collections import EXPIRY, THREAD
from mongomem.engine.commands import Aggregate, Document, Find
from mongomem.memory import MongoMemory
from mongomem.schema.indexes import read_indexes
from mongomem.schema.migrations import RECORD

Indexes: TypeAlias = Mapping[tuple[str, str], Document]
"""Indexes as the server lists them, by collection and name."""


@dataclass(frozen=True, slots=True)
class IndexChange:
    """What was done with an index.

    Attributes:
        change: ``"created"``, ``"changed"`` or ``"dropped"``.
        collection: Its collection.
        index: Its name.
        expire_after_seconds: When documents expire by it; None where they do not.
    """

    change: str
    collection: str
    index: str
    expire_after_seconds: int | None


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a setup did.

    Attributes:
        changes: What was done with indexes.
        indexes: How many there are now.
        migrated: The schema version that documents were brought to, by the collection of settings.
        thread_ttl_seconds: How long threads live that nobody uses; None for ever.
        threads_expire_after_seconds: When the server deletes them.
    """

    changes: list[IndexChange]
    indexes: int
    migrated: dict[str, int]
    thread_ttl_seconds: float | None
    threads_expire_after_seconds: int | None

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def prepare(memory: MongoMemory) -> Preparation:
    """Create the indexes that are not there, and bring data of older schema versions up to date;
    say what was done. Idempotent.
    """
    before, versions = _state(memory)
    memory.setup()
    after, now = _state(memory)
    migrated = {name: one for name, one in now.items() if versions.get(name) != one}
    context = memory.saver._context()
    expiry = after.get((context.checkpoints, EXPIRY), {}).get("expireAfterSeconds")
    ttl = None if context.ttl is None else context.ttl.total_seconds()
    return Preparation([*_changes(before, after)], len(after), migrated, ttl, expiry)


def _state(memory: MongoMemory) -> tuple[Indexes, dict[str, int]]:
    own, names = memory.saver._options.collections, memory.store._context().names
    settings = (own.settings, names.settings)
    entries = memory.cache._context().entries
    found: dict[tuple[str, str], Document] = {}
    for collection in (own.checkpoints, own.writes, names.items, entries):
        for index in memory._runners.run(read_indexes(collection)) or ():
            found[collection, index["name"]] = index
    return found, memory._runners.run(_versions(settings))


async def _versions(settings: tuple[str, ...]) -> dict[str, int]:
    """Read how far the schema has come, by collection; nothing where no migration was done."""
    found: dict[str, int] = {}
    for collection in settings:
        for document in await Find(collection, {"_id": RECORD}, limit=1):
            found[collection] = document["version"]
    return found


def _changes(before: Indexes, after: Indexes) -> Iterator[IndexChange]:
    for place in sorted(before.keys() | after.keys()):
        old, new = before.get(place), after.get(place)
        if old != new:
            change = "created" if old is None else "dropped" if new is None else "changed"
            yield IndexChange(change, *place, (new or {}).get("expireAfterSeconds"))


def threads_unused_for(memory: MongoMemory, ttl: timedelta) -> int:
    """Count the threads that a time to live would end at once."""
    return memory.saver._runners.run(_unused(memory.saver._context(), ttl))


async def _unused(context: Context, ttl: timedelta) -> int:
    cutoff = {"$lte": time_before(context.now(), ttl)}
    ended = {"type": THREAD, "deleted_at": None, "touched_at": cutoff}
    counted = await Aggregate(context.checkpoints, [{"$match": ended}, {"$count": "threads"}])
    return sum(one["threads"] for one in counted)
