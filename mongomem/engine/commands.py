"""The commands: every effect that mongomem has on the world, as a frozen value.

A **command** is one round trip to MongoDB (`Find`, `BulkWrite`, ...) or another effect (`Compute`,
`EmbedDocuments`, `Sleep`: in `mongomem.engine.effects`). It knows how to perform itself, blocking
and awaited. Awaiting a command hands it to whoever runs the plan; the typed reply comes back:

    documents = await Find("checkpoints", {"thread_id": "1"}, limit=1)

A **plan** is an ``async def`` that awaits only commands and other plans: control flow without a
client, a thread or an event loop. `mongomem.engine.runners` runs plans.

This module and `mongomem.engine.runners` are the first two to read. No rule of a checkpoint or of
an item belongs here; no other module of the package may call a method of a collection.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import bson
import pymongo
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument
from pymongo.errors import OperationFailure

T = TypeVar("T")

Document: TypeAlias = dict[str, Any]
"""A BSON document as the driver gives and takes it."""

Plan: TypeAlias = Coroutine["Command[Any]", Any, T]
"""A computation that awaits commands and returns a T."""

LARGEST_BATCH = 2**31 - 1
"""More documents than a message of 16 MB holds: the server ends a batch there."""

IDS_PER_COMMAND = 50_000
"""How many `_id` values of 28 bytes one command names: far below a message."""

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""What one document may hold (``maxBsonObjectSize``, MongoDB 4.4 to 8.2)."""

NAMESPACE_NOT_FOUND = 26
"""Server error code: the collection does not exist (MongoDB 4.4 to 8.2)."""

INDEX_NOT_FOUND = 27
"""Server error code: there is no index of that name (MongoDB 4.4 to 8.2)."""

MAX_TIME_EXPIRED = 50
"""Server error code: a command took longer than it may (MongoDB 4.4 to 8.2)."""

BAD_HINT = 2
"""Server error code BadValue: a hint names an index that does not exist (MongoDB 4.4 to 8.2)."""

UNAUTHORIZED = frozenset({13, 8000})
"""Server error codes of a missing right: Unauthorized (MongoDB 4.4 to 8.2), and Atlas's own."""

DECODING: CodecOptions[dict[str, Any]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    unicode_decode_error_handler="surrogateescape",
)
"""How documents are decoded, whatever classes the client decodes to. A date that Python cannot hold
comes as a ``DatetimeMS``, bytes that are no text as surrogates: PyMongo would else refuse the whole
batch for one such field."""

UNDECODED = CodecOptions(document_class=RawBSONDocument)
"""Documents as they came, by their ``raw``."""


def decoded(document: bytes) -> Document:
    """Decode the BSON of a document as other commands do."""
    found: Document = bson.decode(document, DECODING)
    return found


def as_utc(moment: datetime) -> datetime:
    """Return a time that the driver read as an aware one in UTC: it gives a naive one unless the
    client is ``tz_aware``.
    """
    if moment.tzinfo is None:
        return moment.replace(tzinfo=timezone.utc)
    return moment.astimezone(timezone.utc)


def slices(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut what is too much for one command, in order."""
    return (values[start : start + size] for start in range(0, len(values), size))


class Command(Generic[T]):
    """One effect, described by a frozen dataclass and answered with a T."""

    __slots__ = ()

    computes: ClassVar[bool] = False
    """Whether it only computes: it waits for nobody, and needs no database."""

    def blocks(self) -> bool:
        """Say whether `perform` waits for a server or computes for long, and so has to leave the
        event loop.
        """
        return True

    def put_off(self) -> Command[T]:
        """Return the command to be performed in its place at a later time than that of the caller's
        call.
        """
        return self

    def title(self) -> str:
        """Return what notes on errors, and lines of slow operations, call the command: its kind,
        and what it works on or by, where it needs any.
        """
        return type(self).__name__

    def __await__(self) -> Generator[Command[T], T, T]:
        reply = yield self
        return reply

    def perform(self, database: Any) -> T:
        """Do it, blocking, on a ``pymongo`` database; return the reply."""
        raise NotImplementedError

    async def aperform(self, database: Any) -> T:
        """Do it, awaiting, on an ``AsyncMongoClient``'s database; return the reply."""
        raise NotImplementedError


class DatabaseCommand(Command[T]):
    """A command that is one call of the driver."""

    __slots__ = ()

    def title(self) -> str:
        return f"{type(self).__name__} on {getattr(self, 'collection', 'the database')}"

    def issue(self, database: Any) -> Any:
        """Call the driver: the reply itself from a ``Database``, an awaitable of it from an
        ``AsyncDatabase``.
        """
        raise NotImplementedError

    def perform(self, database: Any) -> T:
        reply: T = self.issue(database)
        return reply

    async def aperform(self, database: Any) -> T:
        reply: T = await self.issue(database)
        return reply


@dataclass(frozen=True, slots=True)
class Query(DatabaseCommand[T]):
    """A read that may name the index to be used."""

    hint: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Find(Query[list[Document]]):
    """Read the documents that match, behind the first `skip`, at most `limit` (0: all of them)."""

    collection: str
    filter: Document
    projection: Document | None = None
    sort: Sequence[tuple[str, int]] | None = None
    limit: int = 0
    skip: int = 0

    def issue(self, database: Any) -> Any:
        # A batch as large as the limit comes closed: no cursor stays open behind a page. Without a
        # limit the first batch is as large as a message may be, not the default of 101 documents.
        return (
            database[self.collection]
            .find(
                self.filter,
                self.projection,
                sort=list(self.sort) if self.sort else None,
                limit=self.limit,
                skip=self.skip,
                batch_size=self.limit + 1 if self.limit else LARGEST_BATCH,
                hint=self.hint,
            )
            .to_list()
        )


@dataclass(frozen=True, slots=True)
class Aggregate(Query[list[Document]]):
    """Run an aggregation pipeline to its end.

    Attributes:
        most_milliseconds: How long the server may take; None: as long as it takes. More is the
            error `MAX_TIME_EXPIRED`.
    """

    collection: str
    pipeline: Sequence[Document]
    most_milliseconds: int | None = field(default=None, kw_only=True)

    def perform(self, database: Any) -> list[Document]:
        found: list[Document] = self._start(database[self.collection]).to_list()
        return found

    async def aperform(self, database: Any) -> list[Document]:
        found: list[Document] = await (await self._start(database[self.collection])).to_list()
        return found

    def _start(self, collection: Any) -> Any:
        options: dict[str, Any] = {"hint": self.hint} if self.hint else {}
        if self.most_milliseconds is not None:
            options["maxTimeMS"] = self.most_milliseconds
        return collection.aggregate(list(self.pipeline), batchSize=LARGEST_BATCH, **options)


@dataclass(frozen=True, slots=True)
class AggregateRaw(Query[list[bytes]]):
    """Run an aggregation pipeline to its end and decode nothing: the BSON of each document. For few
    documents that hold much; not on mongomock, which has no BSON.
    """

    collection: str
    pipeline: Sequence[Document]

    def perform(self, database: Any) -> list[bytes]:
        return [document.raw for document in self._start(database).to_list()]

    async def aperform(self, database: Any) -> list[bytes]:
        return [document.raw for document in await (await self._start(database)).to_list()]

    def _start(self, database: Any) -> Any:
        raw = database[self.collection].with_options(codec_options=UNDECODED)
        return Aggregate(self.collection, self.pipeline, hint=self.hint)._start(raw)


@dataclass(frozen=True, slots=True)
class Update:
    """Change one document, or make it where `upsert` is set."""

    filter: Document
    update: Document | list[Document]
    upsert: bool = False

    def request(self) -> pymongo.UpdateOne:
        return pymongo.UpdateOne(self.filter, self.update, upsert=self.upsert)

    def statement(self) -> Document:
        """Return the statement of an ``update`` command."""
        return {"q": self.filter, "u": self.update, "upsert": self.upsert}


@dataclass(frozen=True, slots=True)
class Replace:
    """Put one whole document in the place of the one that matches, or make it."""

    filter: Document
    document: Document

    def request(self) -> pymongo.ReplaceOne[Document]:
        return pymongo.ReplaceOne(self.filter, self.document, upsert=True)

    def statement(self) -> Document:
        """Return the statement of an ``update`` command."""
        return {"q": self.filter, "u": self.document, "upsert": True}


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete one document."""

    filter: Document

    def request(self) -> pymongo.DeleteOne:
        return pymongo.DeleteOne(self.filter)


Write: TypeAlias = Update | Replace | Delete


class BulkReply(Protocol):
    """What `BulkWrite` answers: the part of ``pymongo.results.BulkWriteResult`` that plans read."""

    @property
    def upserted_ids(self) -> dict[int, Any] | None: ...
    @property
    def matched_count(self) -> int: ...
    @property
    def deleted_count(self) -> int: ...


@dataclass(frozen=True, slots=True)
class BulkWrite(DatabaseCommand[BulkReply]):
    """Perform writes in one message per 48 MB, in order; the first that fails ends an ordered one.

    Updates and replacements share one server command, deletions another, so an ordered list of one
    kind is one round trip and one wait for the journal.
    """

    collection: str
    writes: Sequence[Write]
    ordered: bool = True

    def issue(self, database: Any) -> Any:
        requests = [write.request() for write in self.writes]
        return database[self.collection].bulk_write(requests, ordered=self.ordered)


@dataclass(frozen=True, slots=True)
class UpdateMany(DatabaseCommand[Any]):
    """Apply one update to every document that matches."""

    collection: str
    filter: Document
    update: Document | list[Document]

    def issue(self, database: Any) -> Any:
        return database[self.collection].update_many(self.filter, self.update)


@dataclass(frozen=True, slots=True)
class DeleteMany(DatabaseCommand[Any]):
    """Delete every document that matches. Repeating it finishes an interrupted one."""

    collection: str
    filter: Document

    def issue(self, database: Any) -> Any:
        return database[self.collection].delete_many(self.filter)


@dataclass(frozen=True, slots=True)
class CreateIndexes(DatabaseCommand[list[str]]):
    """Create indexes that may exist already; each is (keys, options)."""

    collection: str
    indexes: Sequence[tuple[Sequence[tuple[str, Any]], Mapping[str, Any]]]

    def issue(self, database: Any) -> Any:
        models = [pymongo.IndexModel(list(keys), **options) for keys, options in self.indexes]
        return database[self.collection].create_indexes(models)


@dataclass(frozen=True, slots=True)
class DropIndex(DatabaseCommand[None]):
    """Drop an index by its name. One that is not there is an error, `INDEX_NOT_FOUND`."""

    collection: str
    name: str

    def issue(self, database: Any) -> Any:
        return database[self.collection].drop_index(self.name)


@dataclass(frozen=True, slots=True)
class RunCommand(DatabaseCommand[Document]):
    """Run a database command that has no verb of its own, e.g. ``collMod``.

    Attributes:
        on_admin: Whether the command is one of the database ``admin``.
    """

    command: Document
    on_admin: bool = False

    def issue(self, database: Any) -> Any:
        return (database.client.admin if self.on_admin else database).command(self.command)


@dataclass(frozen=True, slots=True)
class ListIndexes(Command[list[Document]]):
    """Read the indexes of a collection; none where the collection does not exist."""

    collection: str

    def title(self) -> str:
        return f"ListIndexes on {self.collection}"

    def perform(self, database: Any) -> list[Document]:
        try:
            return list(database[self.collection].list_indexes())
        except OperationFailure as error:
            return _none_if_absent(error)

    async def aperform(self, database: Any) -> list[Document]:
        try:
            found: list[Document] = await (await database[self.collection].list_indexes()).to_list()
        except OperationFailure as error:
            return _none_if_absent(error)
        return found


def _none_if_absent(error: OperationFailure) -> list[Document]:
    if error.code != NAMESPACE_NOT_FOUND:
        raise error
    return []
