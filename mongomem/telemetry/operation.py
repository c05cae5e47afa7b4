"""An operation that is observed: what is counted of it, and its commands, observed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from mongomem.engine.clock import monotonic
from mongomem.engine.commands import Command, DatabaseCommand, ListIndexes, Plan
from mongomem.engine.effects import CacheUse
from mongomem.engine.runners import Begun, run_steps
from mongomem.telemetry.sizes import size_of
from mongomem.telemetry.subjects import Subject

T = TypeVar("T")


class Span(Protocol):
    """The part of a span that an operation needs; `mongomem.telemetry.spans` has it."""

    @property
    def is_recorded(self) -> bool: ...
    def current(self) -> AbstractContextManager[object]: ...
    def end(self, operation: Operation) -> None: ...


@dataclass(slots=True)
class Operation:
    """A call of a public method, from its begin to its end.

    Attributes:
        memory: Whose method: ``"saver"``, ``"store"`` or ``"cache"``.
        name: The method, by its sync name.
        subject: What it is about.
        span: The span that tells of it, if any.
        began_at: When it began, on the clock of `monotonic`.
        seconds: How long it took.
        round_trips: How many commands went to the database.
        sent_bytes, received_bytes: Sizes of the documents in these and in their replies. Counted
            only where a span records them.
        hits, misses: How much of what was looked for was remembered.
        slowest: The command that took longest, a round trip or not.
        slowest_seconds: How long that took.
        error: What it raised.
    """

    memory: str
    name: str
    subject: Subject
    span: Span | None = None
    began_at: float = field(default_factory=lambda: monotonic())
    seconds: float = 0.0
    round_trips: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    hits: int = 0
    misses: int = 0
    slowest: Command[Any] | None = None
    slowest_seconds: float = 0.0
    error: BaseException | None = None

    async def observe(self, plan: Plan[T]) -> T:
        """Run a plan and count what it does: itself a plan."""
        try:
            first = plan.send(None)
        except StopIteration as finished:
            result: T = finished.value
            return result
        return await run_steps(Begun(plan, first), self._perform)

    def end(self, error: BaseException | None) -> None:
        """Take note of how it ended."""
        self.seconds = monotonic() - self.began_at
        self.error = error

    async def _perform(self, command: Command[Any]) -> Any:
        if isinstance(command, CacheUse):
            self.hits += command.hits
            self.misses += command.misses
            return None
        return await (command if command.computes else ObservedCommand(command, self))

    @contextmanager
    def measured(self, command: Command[Any]) -> Iterator[None]:
        """Measure a command while it is performed, as a child of the operation's span."""
        began_at = monotonic()
        try:
            with nullcontext() if self.span is None else self.span.current():
                yield
        finally:
            self._note(command, monotonic() - began_at)

    def _note(self, command: Command[Any], seconds: float) -> None:
        if isinstance(command, DatabaseCommand | ListIndexes):
            self.round_trips += 1
            if self.span is not None and self.span.is_recorded:
                self.sent_bytes += size_of(command)
        if self.slowest is None or seconds > self.slowest_seconds:
            self.slowest, self.slowest_seconds = command, seconds

    def note_reply(self, reply: object) -> None:
        """Count the documents of a reply."""
        if self.span is not None and self.span.is_recorded and isinstance(reply, list | dict):
            self.received_bytes += size_of(reply)


@dataclass(frozen=True, slots=True)
class ObservedCommand(Command[T]):
    """A command that is measured while it is performed, wherever that is."""

    command: Command[T]
    operation: Operation

    def blocks(self) -> bool:
        return self.command.blocks()

    def title(self) -> str:
        return self.command.title()

    def perform(self, database: Any) -> T:
        with self.operation.measured(self.command):
            reply = self.command.perform(database)
        self.operation.note_reply(reply)
        return reply

    async def aperform(self, database: Any) -> T:
        with self.operation.measured(self.command):
            reply = await self.command.aperform(database)
        self.operation.note_reply(reply)
        return reply
