"""Which collections of mongomem a database has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mongomem.engine.commands import LARGEST_BATCH, RunCommand

DATA = ("checkpoints", "checkpoint_writes", "store_items", "cache_entries")
"""How the names of the collections that hold something end."""

PAIRS = (("checkpoints", "checkpoint_writes"), ("store_items", "store_items"))
"""How the names of those end that stand together. Without a prefix the first ones are also those of
langgraph-checkpoint-mongodb."""


@dataclass(frozen=True, slots=True)
class Presence:
    """What a database has of mongomem.

    Attributes:
        database: Its name.
        own: The collections of the memory that are there.
        other_prefixes: Under which other prefixes there are some.
    """

    database: str
    own: tuple[str, ...]
    other_prefixes: tuple[str, ...]


async def presence(prefix: str) -> Presence:
    """Look which collections there are under a prefix."""
    database, names = await collection_names()
    own = tuple(name for name in names if name in {prefix + one for one in DATA})
    return Presence(database, own, tuple(one for one in _prefixes(names) if one != prefix))


async def collection_names() -> tuple[str, list[str]]:
    """Return the name of the database, and those of its collections that the user may see (MongoDB
    4.0).
    """
    reply = await RunCommand(
        {
            "listCollections": 1,
            "nameOnly": True,
            "authorizedCollections": True,
            "cursor": {"batchSize": LARGEST_BATCH},
        }
    )
    cursor = reply["cursor"]
    return cursor["ns"].partition(".")[0], sorted(one["name"] for one in cursor["firstBatch"])


def _prefixes(names: Iterable[str]) -> list[str]:
    """List the prefixes under which there are collections of ours, as far as names tell."""
    there = {*names}
    return sorted(
        {
            prefix
            for one, other in PAIRS
            for name in there
            if name.endswith(one) and (prefix := name.removesuffix(one)) + other in there
        }
        - {""}
    )
