"""Writes that others may be making at the same moment, and writes that are sent once.

`bulk_upsert` is the plan for upserts that meet others. `UpdateCommand` and `InsertCommand` write a
few small documents with less work than a `BulkWrite`, and are not repeated by the driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)

from mongomem.arguments import shown
from mongomem.engine.commands import (
    BulkReply,
    BulkWrite,
    DatabaseCommand,
    Document,
    Replace,
    Update,
    Write,
)
from mongomem.engine.effects import Sleep
from mongomem.errors import ConfigurationError

DUPLICATE_KEY = 11000
"""Server error code: an upsert met a document with its `_id` that its filter did not match."""

RETRYABLE = frozenset({6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
"""Server error codes after which drivers repeat a write
(https://github.com/mongodb/specifications/blob/master/source/retryable-writes/retryable-writes.md).
"""

BY_ID = "_id_"
"""The name of the index that every collection has."""

_INDEX = re.compile(r"collection: (?P<collection>\S+) index: (?P<index>\S+) dup key")
"""How a server's message names the index (MongoDB 4.4 to 8.2)."""

MAX_ATTEMPTS = 8
FIRST_PAUSE_SECONDS = 0.005


async def bulk_upsert(collection: str, writes: Sequence[Write]) -> None:
    """Perform writes in any order, and those again that met the upsert of another writer.

    Two upserts of one new document may both find nothing and both insert; the server tries again by
    itself only where a filter has no more fields than the unique index, and these carry the shard
    key too. What has been done is not repeated: others may have changed it since.

    Raises:
        ConfigurationError: A unique index that is not mongomem's refused a write.
    """
    for attempt in range(MAX_ATTEMPTS):
        try:
            await BulkWrite(collection, writes, ordered=False)
        except BulkWriteError as error:
            if attempt == MAX_ATTEMPTS - 1 or not is_duplicate_key_only(error):
                raise
            writes = [writes[failure["index"]] for failure in error.details["writeErrors"]]
            await Sleep(FIRST_PAUSE_SECONDS * attempt)
        else:
            return


def is_duplicate_key_only(error: BulkWriteError) -> bool:
    """Say whether a bulk write failed only by upserts that met another document with their `_id`.

    Raises:
        ConfigurationError: A unique index that is not mongomem's refused a write. Repeating would
            not help.
    """
    failures = error.details.get("writeErrors") or []
    duplicates = [failure for failure in failures if failure.get("code") == DUPLICATE_KEY]
    for failure in duplicates:
        _check_index(failure)
    return bool(failures) and len(duplicates) == len(failures)


def _check_index(failure: Mapping[str, Any]) -> None:
    """Refuse a duplicate of any other index than that of `_id`, which one that tells of none is of:
    mongomock's.
    """
    keys, named = failure.get("keyPattern"), _INDEX.search(str(failure.get("errmsg")))
    if [*keys] == ["_id"] if keys else named is None or named["index"] == BY_ID:
        return
    collection, index = named.groups() if named else ("a collection", ", ".join(keys or ()))
    raise ConfigurationError(
        f"{collection} has a unique index {shown(index)} that is not mongomem's, and it refused a "
        "document. Drop it, or choose another collection_prefix."
    ) from None


# Commands that are sent once.


class OutcomeUnknownError(PyMongoError):
    """A command that is sent once may have been done or not.

    Attributes:
        met: The error that it met.
    """

    def __init__(self, met: PyMongoError) -> None:
        super().__init__(str(met))
        self.met = met


@dataclass(frozen=True, slots=True)
class WriteReply:
    """What a command of writes answered, as far as plans read it."""

    upserted_ids: dict[int, Any]
    matched_count: int
    deleted_count: int = 0

    @classmethod
    def of(cls, reply: Mapping[str, Any]) -> WriteReply:
        """Read the reply of the server.

        Raises:
            BulkWriteError: It tells of writes that failed.
            OutcomeUnknownError: Its writes may be undone by a failover.
        """
        concern_error, errors = reply.get("writeConcernError"), reply.get("writeErrors") or []
        if concern_error or errors:
            told = [concern_error] if concern_error else []
            error = BulkWriteError({**reply, "writeErrors": errors, "writeConcernErrors": told})
            is_unknown = concern_error and concern_error.get("code") in RETRYABLE
            raise OutcomeUnknownError(error) if is_unknown else error
        upserted = {one["index"]: one["_id"] for one in reply.get("upserted") or []}
        return cls(upserted, int(reply["n"]) - len(upserted))


@contextmanager
def _outcome_told_apart() -> Iterator[None]:
    """Tell the errors after which a command may have been done from all others."""
    try:
        yield
    except (ServerSelectionTimeoutError, WaitQueueTimeoutError):
        raise
    except (AutoReconnect, OperationFailure) as error:
        if isinstance(error, OperationFailure) and error.code not in RETRYABLE:
            raise
        raise OutcomeUnknownError(error) from error


class SentOnce(DatabaseCommand[BulkReply]):
    """A command of a few small writes that is sent once.

    It takes the driver three quarters of what a `BulkWrite` takes, and spares the server the record
    of a retryable write (docs/decisions/update-command.md has the figures). In turn the driver does
    not repeat it: after an `OutcomeUnknownError` the plan begins anew, with a read. So it is for
    writes that may be done twice, and that undo nothing where they are done late.
    """

    __slots__ = ()

    def fields(self) -> Document:
        """Return the command without its write concern."""
        raise NotImplementedError

    def issue(self, database: Any) -> Any:
        command = self.fields()
        if concern := database.write_concern.document:
            command["writeConcern"] = concern
        return database.command(command)

    def perform(self, database: Any) -> BulkReply:
        with _outcome_told_apart():
            return WriteReply.of(self.issue(database))

    async def aperform(self, database: Any) -> BulkReply:
        with _outcome_told_apart():
            return WriteReply.of(await self.issue(database))


@dataclass(frozen=True, slots=True)
class UpdateCommand(SentOnce):
    """Perform updates and replacements in order; the first that fails ends them."""

    collection: str
    writes: Sequence[Update | Replace]

    def fields(self) -> Document:
        return {
            "update": self.collection,
            "updates": [write.statement() for write in self.writes],
        }


@dataclass(frozen=True, slots=True)
class InsertCommand(SentOnce):
    """Insert documents in any order. One whose `_id` is there already stays as it is, and is told
    by a ``BulkWriteError`` when the others have been inserted.
    """

    collection: str
    documents: Sequence[Document]

    def fields(self) -> Document:
        return {"insert": self.collection, "ordered": False, "documents": self.documents}
