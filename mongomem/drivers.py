"""The drivers: they run plans.

A plan yields commands and gets replies. A driver is the loop between the two, and the one place for
error notes. There are three loops, one for each way of waiting:

    Blocking   sync methods on a ``MongoClient`` (or the mongomock adapter)
    Threaded   async methods on a ``MongoClient``: each command waits in a worker thread
    Awaiting   async methods on an ``AsyncMongoClient``: no thread at all

`Drivers` pairs what a client can do: ``run`` for sync callers, ``arun`` for async ones. The logic of
every operation exists once, in its plan; so a driver that fails at the n-th command proves crash
safety for all of them (`mongomem.testing`).
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, TypeVar

from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import AsyncMongoClient, MongoClient, ReadPreference, WriteConcern
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from mongomem.commands import Command, Plan
from mongomem.errors import ConfigurationError, UsageError

T = TypeVar("T")

WORKER_THREADS = 64
"""Bound of the threads that wait for MongoDB on behalf of event loops; made on demand, kept idle."""


class Runner(Protocol):
    """Runs a plan for a sync caller."""

    def __call__(self, plan: Plan[T]) -> T: ...


class AsyncRunner(Protocol):
    """Runs a plan for an async caller."""

    async def __call__(self, plan: Plan[T]) -> T: ...


DECODING: CodecOptions[dict[str, Any]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="surrogateescape"
)
"""How documents are decoded, whatever classes the client decodes to. A date that Python cannot hold comes as a
``DatetimeMS``, bytes that are no text as surrogates: PyMongo would else refuse the whole batch for one such field."""


@dataclass(frozen=True, slots=True)
class Concerns:
    """How safe reads and writes are.

    By default what decides a resume is read from the primary with majority read concern and written
    with majority write concern, whatever the defaults of the client are: after a failover the next
    super-step sees what the last one was told is stored.
    """

    read_preference: Any = field(default_factory=lambda: ReadPreference.PRIMARY)
    read_concern: ReadConcern = field(default_factory=lambda: ReadConcern("majority"))
    write_concern: WriteConcern = field(default_factory=lambda: WriteConcern("majority"))

    def options(self) -> dict[str, Any]:
        """Return the options of the database: these, and `DECODING`."""
        own = {name: getattr(self, name) for name in ("read_preference", "read_concern", "write_concern")}
        return {"codec_options": DECODING, **own}


@dataclass(frozen=True, slots=True)
class Drivers:
    """The two ways into one database: `run` blocks, `arun` awaits."""

    run: Runner
    arun: AsyncRunner


@dataclass(frozen=True, slots=True)
class Blocking:
    """Perform each command in the calling thread."""

    database: Any

    def __call__(self, plan: Plan[T]) -> T:
        resume: Callable[[Any], Command[Any]] = plan.send
        answer: Any = None
        while True:
            try:
                command = resume(answer)
            except StopIteration as finished:
                result: T = finished.value
                return result
            try:
                resume, answer = plan.send, command.perform(self.database)
            except BaseException as error:  # the plan decides what an error means, cancellation included
                resume, answer = plan.throw, _noted(error, command)


@dataclass(frozen=True, slots=True)
class Awaiting:
    """Perform each command on the running event loop. Belongs to the first loop that uses it."""

    database: Any
    loop: list[weakref.ref[asyncio.AbstractEventLoop]] = field(default_factory=list)

    async def __call__(self, plan: Plan[T]) -> T:
        try:
            self._stay_on_one_loop()
        except UsageError:
            plan.close()
            raise
        return await drive(plan, self._perform)

    async def _perform(self, command: Command[Any]) -> Any:
        return await command.aperform(self.database)

    def _stay_on_one_loop(self) -> None:
        running = asyncio.get_running_loop()
        if not self.loop:
            self.loop.append(weakref.ref(running))
        if self.loop[0]() is not running:
            raise UsageError(
                "This AsyncMongoClient belongs to another event loop: PyMongo binds one to the loop that first uses "
                "it. Make a client in this loop, or enter `async with ...from_conn_string(uri)` here: each loop that "
                "enters it gets a client of its own."
            )


@dataclass(frozen=True, slots=True)
class Threaded:
    """Perform each command that blocks in a worker thread, the others on the running event loop."""

    database: Any

    async def __call__(self, plan: Plan[T]) -> T:
        return await drive(plan, self._perform)

    async def _perform(self, command: Command[Any]) -> Any:
        if not command.blocks():
            return await command.aperform(self.database)
        call = contextvars.copy_context().run
        return await asyncio.get_running_loop().run_in_executor(_workers(), call, command.perform, self.database)


async def drive(plan: Plan[T], perform: Callable[[Command[Any]], Any]) -> T:
    """Run a plan with what `perform` returns for each command awaited. Where that is a command, this is a plan."""
    resume: Callable[[Any], Command[Any]] = plan.send
    answer: Any = None
    while True:
        try:
            command = resume(answer)
        except StopIteration as finished:
            result: T = finished.value
            return result
        try:
            resume, answer = plan.send, await perform(command)
        except BaseException as error:
            resume, answer = plan.throw, _noted(error, command)


def _refuse(plan: Plan[T]) -> T:
    plan.close()
    raise UsageError(
        "A sync method was called, but the client is an AsyncMongoClient: await the async twin "
        "(aput, aget_tuple, asearch, graph.ainvoke, ...), or build on a pymongo.MongoClient, "
        "which serves sync and async callers alike."
    )


def drivers_for(client: Any, db_name: str, concerns: Concerns) -> Drivers:
    """Pair the drivers that fit `client`: a MongoClient, an AsyncMongoClient or a mongomock.MongoClient.

    Does no I/O.
    """
    if isinstance(client, MongoClient):
        database: Any = client.get_database(db_name, **concerns.options())
        return Drivers(Blocking(database), Threaded(database))
    if isinstance(client, AsyncMongoClient):
        return Drivers(_refuse, Awaiting(client.get_database(db_name, **concerns.options())))
    if type(client).__module__.startswith("mongomock"):
        from mongomem.testing import MongomockDatabase

        database = MongomockDatabase(client[db_name])
        return Drivers(Blocking(database), Threaded(database))
    raise ConfigurationError(
        f"client must be a pymongo.MongoClient, a pymongo.AsyncMongoClient or a mongomock.MongoClient, "
        f"not {type(client).__name__}"
    )


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix="mongomem")


if sys.platform != "win32":
    # A forked child inherits the pool without its threads: whatever is handed to it would wait for ever.
    os.register_at_fork(after_in_child=_workers.cache_clear)


def _noted(error: BaseException, command: Command[Any]) -> BaseException:
    """Say on a driver's error which command met it (Python 3.11 and newer show such notes)."""
    if isinstance(error, PyMongoError) and hasattr(error, "add_note"):
        error.add_note(f"mongomem: {type(command).__name__} on {getattr(command, 'collection', 'the database')}")
    return error
