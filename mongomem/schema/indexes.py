"""Indexes as rows of a table, and the plan that makes the server have them.

The rows stand where the documents they serve are described
(`mongomem.checkpoint.documents.collections`, `mongomem.store.documents.item`); this file knows only
how to create and change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pymongo.errors import OperationFailure

from mongomem.arguments import shown
from mongomem.engine.commands import (
    BAD_HINT,
    UNAUTHORIZED,
    CreateIndexes,
    Document,
    Find,
    ListIndexes,
    RunCommand,
)
from mongomem.engine.effects import Sleep
from mongomem.errors import ConfigurationError

BUILD_REFUSED = frozenset({40333, 46, 117})
"""Server error codes that say "another operation is at it": 40333 while another index build runs
(seen on hosted servers that imitate MongoDB 4.0 to 6.0), 46 LockBusy, 117
ConflictingOperationInProgress."""

OPTIONS_CONFLICT = 85
"""Server error code IndexOptionsConflict: the index exists with another expiry or name (MongoDB 4.2
to 8.2)."""

CONFLICTS = frozenset({OPTIONS_CONFLICT, 86})
"""With 86, IndexKeySpecsConflict: the name is that of an index with other keys or options."""

NO_INDEX = "mongomem_no_such_index"
"""The name of no index."""

MAX_ATTEMPTS = 8
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

    def is_made(self, found: Document | None) -> bool:
        """Say whether an index as the server lists it is this one."""
        return (
            found is not None
            and [*found["key"].items()] == [*self.keys]
            and bool(found.get("unique")) == self.unique
            and found.get("expireAfterSeconds") == self.expire_after_seconds
        )


async def ensure_indexes(indexes: Sequence[Index]) -> None:
    """Create what is missing and set the expiry of what is there. Where all is as it should be it
    only reads.

    Idempotent, and safe when many processes call it at once: creating an index that exists is a
    no-op for the server, and a refused build is tried again. Where the user may not create indexes,
    or not even list them, it is enough that they are there.

    Raises:
        ConfigurationError: An index is missing or expires otherwise and the user may not change
            that, or another index is in its place.
    """
    for collection, rows in groupby(
        sorted(indexes, key=lambda row: row.collection), key=lambda row: row.collection
    ):
        await _ensure(collection, rows)


async def _ensure(collection: str, rows: Iterable[Index]) -> None:
    found = await read_indexes(collection)
    there = None if found is None else {document["name"]: document for document in found}
    missing = [row for row in rows if there is None or not row.is_made(there.get(row.name))]
    try:
        await _make(collection, missing, there or {})
    except OperationFailure as error:
        if error.code in CONFLICTS:
            raise _conflict(collection, error) from None
        if error.code not in UNAUTHORIZED:
            raise
        absent = missing if there is not None else await _absent(collection, missing)
        if absent:
            raise _lacking(collection, absent, error, may_list=there is not None) from None


async def read_indexes(collection: str) -> list[Document] | None:
    """Read the indexes of a collection; None where the user may not."""
    try:
        return await ListIndexes(collection)
    except OperationFailure as error:
        if error.code not in UNAUTHORIZED:
            raise
        return None


async def _make(collection: str, rows: Sequence[Index], there: Mapping[str, Document]) -> None:
    plain = [row for row in rows if row.expire_after_seconds is None]
    if plain:
        await _patiently(CreateIndexes(collection, [(row.keys, row.options()) for row in plain]))
    for row in rows:
        if row.expire_after_seconds is not None:
            await _make_expire(row, is_there=row.name in there)


async def _create_alone(index: Index) -> bool:
    """Create an index; return False where it is there with other options."""
    try:
        await _patiently(CreateIndexes(index.collection, [(index.keys, index.options())]))
    except OperationFailure as error:
        if error.code != OPTIONS_CONFLICT:
            raise
        return False
    return True


async def _make_expire(index: Index, *, is_there: bool) -> None:
    if not is_there and await _create_alone(index):
        return
    change = {"name": index.name, "expireAfterSeconds": index.expire_after_seconds}
    try:
        await RunCommand({"collMod": index.collection, "index": change})
    except OperationFailure as error:
        if error.code not in UNAUTHORIZED:
            raise
        what = (
            f"the index {index.name} of {index.collection} has another time to live than the "
            "one asked for"
        )
        raise _missing_right(what, "collMod", error) from None


async def _absent(collection: str, rows: Sequence[Index]) -> list[Index]:
    """Find out which indexes are not there by reading along each of them, for users who may only
    read and write.
    """
    if await _answers(Find(collection, {}, {"_id": 1}, limit=1, hint=NO_INDEX)):
        return [*rows]  # no server minds a hint where there is no collection
    looks = [
        Find(collection, dict(row.partial or {}), {"_id": 1}, limit=1, hint=row.name)
        for row in rows
    ]
    return [row for row, look in zip(rows, looks, strict=True) if not await _answers(look)]


async def _answers(find: Find) -> bool:
    try:
        await find
    except OperationFailure as error:
        if error.code != BAD_HINT:
            raise
        return False
    return True


def _missing_right(what: str, right: str, error: OperationFailure) -> ConfigurationError:
    return ConfigurationError(
        f"{what}, and this user has not the right {right} on that collection. Grant it (the role "
        "readWrite has createIndex, dbAdmin also collMod), or let an administrator call setup() "
        "with the same options, and pass auto_setup=False here. The server says: "
        f"{shown(_said(error))}"
    )


def _lacking(
    collection: str, absent: Iterable[Index], error: OperationFailure, *, may_list: bool
) -> ConfigurationError:
    what = f"{collection} lacks indexes: {', '.join(row.name for row in absent)}"
    return _missing_right(
        what, "createIndex" if may_list else "createIndex (or listIndexes)", error
    )


def _conflict(collection: str, error: OperationFailure) -> ConfigurationError:
    return ConfigurationError(
        f"{collection} has another index in the place of one that mongomem needs. Drop it, or "
        f"choose another collection_prefix. The server says: {shown(_said(error))}"
    )


def _said(error: OperationFailure) -> str:
    return str((error.details or {}).get("errmsg") or error)


async def _patiently(command: CreateIndexes) -> None:
    for attempt in range(MAX_ATTEMPTS):
        try:
            await command
        except OperationFailure as error:
            if error.code not in BUILD_REFUSED or attempt == MAX_ATTEMPTS - 1:
                raise
            await Sleep(FIRST_PAUSE_SECONDS * 2**attempt)
        else:
            return
