"""The commands that are no round trip to MongoDB: computing, embedding, waiting, telling, and work
beside the calls; and the read that computes between its round trips.

What a command is stands in `mongomem.engine.commands`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from pymongo import CursorType
from pymongo.errors import InvalidOperation

from mongomem.arguments import shown
from mongomem.engine.commands import Command, DatabaseCommand, Document, Plan
from mongomem.engine.runners import begin, run_steps
from mongomem.engine.workers import Background, in_worker

T = TypeVar("T")

HEAVY_BYTES = 1_000_000
"""From this much work on, a `Compute` leaves the event loop for a worker thread."""

SENT_AT_ONCE = 1_024
"""Documents that a server sends at a time to a `FindInParts`: it reads the next ones while these
are decoded."""


@dataclass(frozen=True, slots=True)
class Compute(Command[T]):
    """Call a pure function; off the event loop where its size in bytes, or what tells that, says
    that it takes long.

    Attributes:
        function: The function.
        size: How many bytes of work it is, or what tells that.
        detached: Makes the function to be called later in its place: one that shares nothing with
            the caller of the operation. None: `function` shares nothing.
    """

    computes: ClassVar[bool] = True

    function: Callable[[], T]
    size: int | Callable[[], int] = HEAVY_BYTES
    detached: Callable[[], Callable[[], T]] | None = None

    def blocks(self) -> bool:
        return (self.size if isinstance(self.size, int) else self.size()) >= HEAVY_BYTES

    def perform(self, database: Any) -> T:
        return self.function()

    async def aperform(self, database: Any) -> T:
        return await in_worker("command", self.function) if self.blocks() else self.function()

    def put_off(self) -> Compute[T]:
        return self if self.detached is None else Compute(self.detached(), self.size)


@dataclass(frozen=True, slots=True)
class FindInParts(DatabaseCommand[None]):
    """Read the documents that match, in order, and hand them on in parts, while the server reads
    on: it sends what follows without being asked (an exhaust cursor). Unlike a `Find` it is not
    begun anew by the driver where the connection is lost behind the first part.

    Attributes:
        part_size: How many documents a part has, but for the last one.
        take: Is given each part; says whether more are wanted.
        work: How many bytes of work a document is.
    """

    collection: str
    filter: Document
    projection: Document
    sort: Sequence[tuple[str, int]]
    hint: str
    part_size: int
    take: Callable[[list[Document]], bool]
    work: int

    def perform(self, database: Any) -> None:
        try:
            self._read(database, CursorType.EXHAUST)
        except InvalidOperation:  # refused before it is sent, for an old mongos or an encrypter
            self._read(database, CursorType.NON_TAILABLE)

    async def aperform(self, database: Any) -> None:
        try:
            await self._aread(database, CursorType.EXHAUST)
        except InvalidOperation:
            await self._aread(database, CursorType.NON_TAILABLE)

    def _read(self, database: Any, cursor_type: int) -> None:
        with self._cursor(database, cursor_type) as cursor:
            while (part := cursor.to_list(self.part_size)) and self.take(part):
                continue

    async def _aread(self, database: Any, cursor_type: int) -> None:
        async with self._cursor(database, cursor_type) as cursor:
            while (part := await cursor.to_list(self.part_size)) and await self._atake(part):
                continue

    async def _atake(self, part: list[Document]) -> bool:
        is_heavy = self.work * len(part) >= HEAVY_BYTES
        return await in_worker("command", self.take, part) if is_heavy else self.take(part)

    def _cursor(self, database: Any, cursor_type: int) -> Any:
        return database[self.collection].find(
            self.filter,
            self.projection,
            sort=list(self.sort),
            hint=self.hint,
            batch_size=min(self.part_size, SENT_AT_ONCE),
            cursor_type=cursor_type,
        )


@dataclass(frozen=True, slots=True)
class DescribeConcerns(Command[Document]):
    """Tell how the database is read and written. No round trip."""

    def perform(self, database: Any) -> Document:
        return {
            "read_preference": database.read_preference.mongos_mode,
            "read_concern": database.read_concern.level,
            "write_concern": database.write_concern.document,
        }

    async def aperform(self, database: Any) -> Document:
        return self.perform(database)


@dataclass(frozen=True, slots=True)
class CacheUse(Command[None]):
    """Tell whoever observes the operation how much of what it looked for was remembered: nothing to
    be done where nobody does (`mongomem.telemetry`).
    """

    computes: ClassVar[bool] = True

    hits: int
    misses: int

    def blocks(self) -> bool:
        return False

    def perform(self, database: Any) -> None:
        """Do nothing."""

    async def aperform(self, database: Any) -> None:
        """Do nothing."""


class Embeds(Protocol):
    """The part of an embedder that a command needs; `mongomem.embeddings` has them."""

    @property
    def title(self) -> str: ...
    def embed_documents(self, texts: Sequence[str]) -> np.ndarray[Any, Any]: ...
    def embed_queries(self, texts: Sequence[str]) -> np.ndarray[Any, Any]: ...
    async def aembed_documents(self, texts: Sequence[str]) -> np.ndarray[Any, Any]: ...
    async def aembed_queries(self, texts: Sequence[str]) -> np.ndarray[Any, Any]: ...


@dataclass(frozen=True, slots=True)
class EmbedDocuments(Command[np.ndarray[Any, Any]]):
    """Embed texts that are stored: float32 of shape (texts, dims)."""

    embedder: Embeds
    texts: Sequence[str]

    def title(self) -> str:
        return f"EmbedDocuments by {shown(self.embedder.title)}"

    def blocks(self) -> bool:
        return False

    def perform(self, database: Any) -> np.ndarray[Any, Any]:
        return self.embedder.embed_documents(self.texts)

    async def aperform(self, database: Any) -> np.ndarray[Any, Any]:
        return await self.embedder.aembed_documents(self.texts)


@dataclass(frozen=True, slots=True)
class EmbedQueries(Command[list[np.ndarray[Any, Any]]]):
    """Embed texts to search for: float32 of shape (dims,) for each. One request where the model
    embeds a query as it does a text.
    """

    embedder: Embeds
    texts: Sequence[str]

    def title(self) -> str:
        return f"EmbedQueries by {shown(self.embedder.title)}"

    def blocks(self) -> bool:
        return False

    def perform(self, database: Any) -> list[np.ndarray[Any, Any]]:
        return [*self.embedder.embed_queries(self.texts)]

    async def aperform(self, database: Any) -> list[np.ndarray[Any, Any]]:
        return [*await self.embedder.aembed_queries(self.texts)]


@dataclass(frozen=True, slots=True)
class Sleep(Command[None]):
    """Wait, in seconds."""

    seconds: float

    def blocks(self) -> bool:
        return False

    def perform(self, database: Any) -> None:
        time.sleep(self.seconds)

    async def aperform(self, database: Any) -> None:
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class Beside(Command[None]):
    """Begin a plan beside the caller, who does not wait for it: in a thread, or in a task of the
    running loop. Nothing is begun while the plan before it is under way.

    Attributes:
        background: Where it runs.
        make: Makes the plan. It raises nothing, and may be broken off between any two commands.
    """

    background: Background
    make: Callable[[], Plan[None]]

    def perform(self, database: Any) -> None:
        self.background.in_thread(partial(self._run, database))

    async def aperform(self, database: Any) -> None:
        self.background.as_task(partial(self._arun, database))

    def _run(self, database: Any, may_go_on: Callable[[], bool]) -> None:
        begun = begin(self.make(), lambda _: may_go_on(), database)
        if begun.command is None:
            begun.end()
        begun.plan.close()

    async def _arun(self, database: Any) -> None:
        await run_steps(begin(self.make()), lambda command: command.aperform(database))
