"""Runners and databases for tests: ours, and those of applications built on mongomem.

    RecordingRunner    runs a plan and keeps the commands it performed
    FailingRunner      runs a plan and raises at its n-th command, before or after performing it
    MongomockDatabase  makes a mongomock database answer the commands

`MongoSaver(mongomock.MongoClient())` and `MongoStore(mongomock.MongoClient())` use the last by
themselves; mongomock is never imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pymongo.errors import AutoReconnect

from mongomem.engine.commands import BulkWrite, Command, Plan
from mongomem.engine.mongomock import MongomockDatabase
from mongomem.engine.runners import BlockingRunner, begin, run_steps
from mongomem.engine.writes import UpdateCommand

__all__ = ["FailingRunner", "MongomockDatabase", "RecordingRunner"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Intercepting(Command[T]):
    """A command that another function performs."""

    command: Command[T]
    performer: Callable[[Command[T], Any], T]

    def perform(self, database: Any) -> T:
        return self.performer(self.command, database)


def _intercepted(plan: Plan[T], performer: Callable[[Command[Any], Any], Any]) -> Plan[T]:
    """Return `plan` with each of its commands handed to `performer`: itself a plan, so any runner
    runs it.
    """
    return run_steps(
        begin(plan, lambda _: False), lambda command: _Intercepting(command, performer)
    )


@dataclass(slots=True)
class RecordingRunner:
    """Run plans blocking on `database` and keep what they performed in `commands`."""

    database: Any
    commands: list[Command[Any]] = field(default_factory=list)

    def __call__(self, plan: Plan[T]) -> T:
        return BlockingRunner(self.database)(_intercepted(plan, self._record))

    def _record(self, command: Command[Any], database: Any) -> Any:
        self.commands.append(command)
        return command.perform(database)


@dataclass(slots=True)
class FailingRunner:
    """Run plans blocking on `database` and fail at the `at`-th command (from 0).

    `performed` says how much of that command reaches the database: nothing (False), all of it
    (True: the reply is lost), or, for an `UpdateCommand` or an ordered `BulkWrite`, its first n
    writes.
    """

    database: Any
    at: int
    performed: bool | int = False
    error: BaseException = field(default_factory=lambda: AutoReconnect("injected failure"))
    count: int = 0

    def __call__(self, plan: Plan[T]) -> T:
        return BlockingRunner(self.database)(_intercepted(plan, self._fail))

    def _fail(self, command: Command[Any], database: Any) -> Any:
        self.count += 1
        if self.count - 1 != self.at:
            return command.perform(database)
        if self.performed is True:
            command.perform(database)
        elif self.performed and isinstance(command, BulkWrite | UpdateCommand):
            some: Any = command.writes[: self.performed]
            replace(command, writes=some).perform(database)
        raise self.error
