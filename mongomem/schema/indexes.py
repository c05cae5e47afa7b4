"""Indexes as rows of a table, and the plan that makes the server have them.

The rows stand where the documents they serve are described (`mongomem.checkpoint.documents`,
`mongomem.store.documents`); this file knows only how to create and change them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pymongo.errors import OperationFailure

from mongomem.commands import CreateIndexes, RunCommand
from mongomem.effects import Sleep

BUILD_REFUSED = frozenset({40333, 46, 117})
"""Server error codes that say "another operation is at it": 40333 while another index build runs (seen on
hosted servers that imitate MongoDB 4.0 to 6.0), 46 LockBusy, 117 ConflictingOperationInProgress."""

OPTIONS_CONFLICT = 85
"""Server error code IndexOptionsConflict: the index exists with another expiry (MongoDB 4.2 to 8.2)."""

ATTEMPTS = 8
FIRST_PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Index:
    """One index: its keys in order, and what is not the default."""

    collection: str
    name: str
    keys: tuple[tuple[str, Any], ...]
    unique: bool = False
    partial: Mapping[str, Any] | None = None
    expire_after_seconds: int | None = None

    def options(self) -> dict[str, Any]:
        """Return the options as ``pymongo.IndexModel`` takes them."""
        options: dict[str, Any] = {"name": self.name}
        if self.unique:
            options["unique"] = True
        if self.partial is not None:
            options["partialFilterExpression"] = dict(self.partial)
        if self.expire_after_seconds is not None:
            options["expireAfterSeconds"] = self.expire_after_seconds
        return options


async def ensure_indexes(indexes: Sequence[Index]) -> None:
    """Create what is missing and set the expiry of what is there.

    Idempotent, and safe when many processes call it at once: creating an index that exists is a
    no-op for the server, and a refused build is tried again.
    """
    for collection, rows in groupby(sorted(indexes, key=lambda row: row.collection), key=lambda row: row.collection):
        plain: list[Index] = []
        expiring: list[Index] = []
        for row in rows:
            (plain if row.expire_after_seconds is None else expiring).append(row)
        if plain:
            await _patiently(CreateIndexes(collection, [(row.keys, row.options()) for row in plain]))
        for row in expiring:
            await _ensure_expiry(row)


async def _ensure_expiry(index: Index) -> None:
    try:
        await _patiently(CreateIndexes(index.collection, [(index.keys, index.options())]))
    except OperationFailure as error:
        if error.code != OPTIONS_CONFLICT:
            raise
        change = {"name": index.name, "expireAfterSeconds": index.expire_after_seconds}
        await RunCommand({"collMod": index.collection, "index": change})


async def _patiently(command: CreateIndexes) -> None:
    for attempt in range(ATTEMPTS):
        try:
            await command
        except OperationFailure as error:
            if error.code not in BUILD_REFUSED or attempt == ATTEMPTS - 1:
                raise
            await Sleep(FIRST_PAUSE_SECONDS * 2**attempt)
        else:
            return
