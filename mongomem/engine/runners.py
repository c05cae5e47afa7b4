"""The runners: what runs plans.

A plan yields commands and gets replies. A runner is the loop between the two, and the one place for
error notes. There is one for each way of waiting:

    BlockingRunner  sync methods on a ``MongoClient`` (or the mongomock adapter)
    ThreadedRunner  async methods on a ``MongoClient``: each command waits in a worker thread
    AwaitingRunner  async methods on an ``AsyncMongoClient``: no thread at all
    BridgingRunner  sync methods on an ``AsyncMongoClient``: its loop awaits, the calling thread
                    waits

`Runners` pairs what a client can do: ``run`` for sync callers, ``arun`` for async ones. The logic
of every operation exists once, in its plan; so a runner that fails at the n-th command proves crash
safety for all of them (`mongomem.testing`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from pymongo import AsyncMongoClient, MongoClient, ReadPreference, WriteConcern
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from mongomem.arguments import shown
from mongomem.engine import loops
from mongomem.engine.clients import database_name_of, introductions
from mongomem.engine.commands import DECODING, Command, Plan
from mongomem.engine.loops import ClientLoop
from mongomem.engine.workers import in_worker
from mongomem.errors import ConfigurationError, UsageError

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Coroutine[Any, Any, Any]])


class Runner(Protocol):
    """Runs a plan for a sync caller."""

    def __call__(self, plan: Plan[T]) -> T: ...


class AsyncRunner(Protocol):
    """Runs a plan for an async caller.

    It begins at the call, and not where the coroutine is awaited: all that comes before the first
    command that leaves the process has been done when the coroutine is returned. So what is stored
    is what was passed, whatever the caller does to it before the next tick of the loop. An error
    met meanwhile is raised where the coroutine is awaited.
    """

    def __call__(self, plan: Plan[T]) -> Coroutine[Any, Any, T]: ...


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
        own = {
            name: getattr(self, name)
            for name in ("read_preference", "read_concern", "write_concern")
        }
        return {"codec_options": DECODING, **own}


@dataclass(frozen=True, slots=True)
class Runners:
    """The two ways into one database: `run` blocks, `arun` awaits."""

    run: Runner
    arun: AsyncRunner


@dataclass(frozen=True, slots=True)
class BlockingRunner:
    """Perform each command in the calling thread."""

    database: Any

    def __call__(self, plan: Plan[T]) -> T:
        return begin(plan, is_any, self.database).end()


@dataclass(slots=True)
class Begun(Generic[T]):
    """A plan that has come to a command, or to its end.

    Attributes:
        plan: The plan.
        command: The command that it waits for; None at its end.
        result: What it returned.
        error: What it raised.
    """

    plan: Plan[T]
    command: Command[Any] | None = None
    result: T | None = None
    error: Exception | None = None

    def end(self) -> T:
        """Return what the plan returned, or raise what it raised."""
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # or it would hold this frame, which holds it
        return cast("T", self.result)


def is_immediate(command: Command[Any]) -> bool:
    """Say whether a command may be performed at the call, on an event loop: a computation that
    takes no time.
    """
    return command.computes and not command.blocks()


def is_computation(command: Command[Any]) -> bool:
    """Say whether a command may be performed at the call by a caller who waits anyway."""
    return command.computes


def is_any(_command: Command[Any]) -> bool:
    """Say that a command may be performed by a caller who waits for all of them."""
    return True


def begin(
    plan: Plan[T], performs: Callable[[Command[Any]], bool] = is_immediate, database: Any = None
) -> Begun[T]:
    """Run a plan, performing what `performs` allows, up to the first command that it does not."""
    resume: Callable[[Any], Command[Any]] = plan.send
    answer: Any = None
    while True:
        try:
            command = resume(answer)
        except StopIteration as finished:
            return Begun(plan, result=finished.value)
        except Exception as error:
            return Begun(plan, error=error)
        if not performs(command):
            return Begun(plan, command.put_off())
        try:
            resume, answer = plan.send, command.perform(database)
        # The plan decides what an error means, cancellation included.
        except BaseException as error:
            resume, answer = plan.throw, _noted(error, command)


async def run_steps(begun: Begun[T], perform: Callable[[Command[Any]], Any]) -> T:
    """Run a plan on with what `perform` returns for each command awaited. Where that is a command,
    this is a plan.
    """
    plan, command = begun.plan, begun.command
    if command is None:
        return begun.end()
    while True:
        resume: Callable[[Any], Command[Any]]
        try:
            resume, answer = plan.send, await perform(command)
        except BaseException as error:
            resume, answer = plan.throw, _noted(error, command)
        try:
            command = resume(answer)
        except StopIteration as finished:
            result: T = finished.value
            return result


@dataclass(frozen=True, slots=True)
class AwaitingRunner:
    """Perform each command on the running event loop. Belongs to the first loop that uses its
    client.
    """

    database: Any
    loop: ClientLoop

    def __call__(self, plan: Plan[T]) -> Coroutine[Any, Any, T]:
        return named(self.go_on(begin(plan)), plan)

    async def go_on(self, begun: Begun[T]) -> T:
        """Run the rest of a plan."""
        try:
            self.loop.enter()
        except UsageError:
            begun.plan.close()
            raise
        return await run_steps(begun, self._perform)

    async def _perform(self, command: Command[Any]) -> Any:
        return await command.aperform(self.database)


@dataclass(frozen=True, slots=True)
class BridgingRunner:
    """Run each plan on the event loop of an ``AsyncMongoClient`` and wait for it, from any thread
    but the loop's own.

    What it computes before its first other command is computed here, which the loop need not wait
    for.
    """

    awaiting: AwaitingRunner

    def __call__(self, plan: Plan[T]) -> T:
        try:
            loop = self.awaiting.loop.beside()
        except UsageError:
            plan.close()
            raise
        begun = begin(plan, is_computation)
        if begun.command is None:
            return begun.end()
        return loops.run_on(loop, self.awaiting.go_on(begun), loops.PATIENCE_SECONDS)


@dataclass(frozen=True, slots=True)
class ThreadedRunner:
    """Perform each command that blocks in a worker thread, the others on the running event loop."""

    database: Any

    def __call__(self, plan: Plan[T]) -> Coroutine[Any, Any, T]:
        return named(run_steps(begin(plan), self._perform), plan)

    async def _perform(self, command: Command[Any]) -> Any:
        if not command.blocks():
            return await command.aperform(self.database)
        return await in_worker("command", command.perform, self.database)


def begins_at_call(method: Method) -> Method:
    """Mark a method that returns the coroutine of an `AsyncRunner` as one to be awaited, as ``async
    def`` does.

    ``inspect.iscoroutinefunction`` is asked for that, by mocks that are made from a class for one.
    """
    if hasattr(inspect, "markcoroutinefunction"):  # Python 3.12
        marked: Method = inspect.markcoroutinefunction(method)
        return marked
    named: Any = method
    named._is_coroutine = getattr(asyncio.coroutines, "_is_coroutine", None)
    return method


def named(coroutine: Coroutine[Any, Any, T], plan: Any) -> Coroutine[Any, Any, T]:
    """Give a coroutine the name of its plan, which Python's warning tells if it is not awaited."""
    own: Any = coroutine
    own.__name__, own.__qualname__ = plan.__name__, plan.__qualname__
    return coroutine


def runners_for(client: Any, db_name: str | None, concerns: Concerns | None) -> Runners:
    """Pair the runners that fit `client`: a MongoClient, an AsyncMongoClient or a
    mongomock.MongoClient.

    Does no I/O.

    Raises:
        ConfigurationError: It is none of these, `db_name` is no name of a database, or `concerns`
            are none.
    """
    if concerns is not None and not isinstance(concerns, Concerns):
        raise ConfigurationError(f"concerns must be a mongomem.Concerns, not {shown(concerns)}")
    if type(client).__module__.startswith("mongomock") and not isinstance(client, type):
        from mongomem.engine.mongomock import MongomockDatabase

        return _blocking(MongomockDatabase(client[database_name_of(client, db_name)]))
    if not isinstance(client, MongoClient | AsyncMongoClient):
        raise ConfigurationError(
            "client must be a pymongo.MongoClient, a pymongo.AsyncMongoClient or a "
            f"mongomock.MongoClient, not {type(client).__name__}"
        )
    database = _database(client, database_name_of(client, db_name), concerns or Concerns())
    introductions.of(client)
    return _blocking(database) if isinstance(client, MongoClient) else _awaiting(client, database)


def _blocking(database: Any) -> Runners:
    """Pair the runners of a client whose calls block."""
    return Runners(BlockingRunner(database), ThreadedRunner(database))


def _awaiting(client: Any, database: Any) -> Runners:
    """Pair the runners of an ``AsyncMongoClient``, which share what is known of its event loop."""
    loop = loops.loops_of_clients.of(client)
    loop.meet()
    awaiting = AwaitingRunner(database, loop)
    return Runners(BridgingRunner(awaiting), awaiting)


def _database(client: Any, name: str, concerns: Concerns) -> Any:
    try:
        return client.get_database(name, **concerns.options())
    except TypeError as error:
        raise ConfigurationError(f"concerns cannot be used: {shown(error)}") from error


def _noted(error: BaseException, command: Command[Any]) -> BaseException:
    """Say on an error of PyMongo which command met it (Python 3.11 and newer show such notes). Of
    plans that run plans the innermost says it.
    """
    note = f"mongomem: {command.title()}"
    is_new = note not in getattr(error, "__notes__", ())
    if isinstance(error, PyMongoError) and hasattr(error, "add_note") and is_new:
        error.add_note(note)
    return error
