"""Plans that are performed by and by, so that others can act between two commands, or two
statements of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from mongomem.engine.commands import BulkWrite, Command, DatabaseCommand, Plan
from mongomem.engine.writes import UpdateCommand


class Stepped:
    """A plan that is performed command by command, so that others can act in between.

    Attributes:
        command: What it stands before; None at its end.
        result: What it returned.
        commands: How many were performed.
    """

    def __init__(self, plan: Plan[Any], database: Any) -> None:
        self.plan, self.database = plan, database
        self.command: Command[Any] | None = None
        self.result: Any = None
        self.commands = 0
        self._advance(plan.send, None)

    @property
    def ended(self) -> bool:
        return self.command is None

    def to(self, kind: type[Command[Any]], collection: str = "", nth: int = 1) -> Stepped:
        """Go on to the n-th command of a kind on a collection, and stop before it."""
        while self.command is not None:
            hit = isinstance(self.command, kind)
            nth -= hit and getattr(self.command, "collection", "").endswith(collection)
            if hit and nth == 0:
                return self
            self._perform_one()
        return self

    def perform(self, commands: int = 10_000) -> None:
        """Perform some more commands, or all that there are; the plan gets what they raise."""
        for _ in range(commands):
            if self.command is None:
                return
            self._perform_one()

    def step(self) -> None:
        """Perform the next database command, and whatever stands before the one after it."""
        self.to(DatabaseCommand)
        self.perform(1)
        self.to(DatabaseCommand)

    def finish(self) -> Any:
        """Perform all that there is; return what the plan returns."""
        self.perform()
        return self.result

    def _perform_one(self) -> None:
        assert self.command is not None
        self.commands += 1
        try:
            reply = self.command.perform(self.database)
        except Exception as error:
            self._advance(self.plan.throw, error)
        else:
            self._advance(self.plan.send, reply)

    def _advance(self, resume: Callable[[Any], Command[Any]], answer: Any) -> None:
        try:
            self.command = resume(answer)
        except StopIteration as finished:
            self.command, self.result = None, finished.value


@dataclass
class Reply:
    """What the two halves of a command answered together."""

    upserted_ids: dict[int, Any]
    matched_count: int = 0
    deleted_count: int = 0


@dataclass
class Split:
    """Runs plans, and something else between two statements of the first ordered write: before the
    last.
    """

    database: Any
    meanwhile: Callable[[], Any]
    has_split: bool = field(default=False)

    def __call__(self, plan: Plan[Any]) -> Any:
        resume: Any = plan.send
        answer: Any = None
        while True:
            try:
                command = resume(answer)
            except StopIteration as finished:
                return finished.value
            try:
                resume, answer = plan.send, self._perform(command)
            except Exception as error:
                resume, answer = plan.throw, error

    def _perform(self, command: Command[Any]) -> Any:
        is_ordered = isinstance(command, UpdateCommand) or (
            isinstance(command, BulkWrite) and command.ordered
        )
        if self.has_split or not is_ordered or len(command.writes) == 1:
            return command.perform(self.database)
        self.has_split = True
        place = len(command.writes) - 1
        first = replace(command, writes=command.writes[:place]).perform(self.database)
        self.meanwhile()
        second = replace(command, writes=command.writes[place:]).perform(self.database)
        later = {place + index: key for index, key in (second.upserted_ids or {}).items()}
        return Reply({**(first.upserted_ids or {}), **later})


@dataclass
class Beside:
    """Runs plans, and something else once, before the database command with a number (from 0) of
    all of them.
    """

    database: Any
    at: int
    meanwhile: Callable[[], Any]
    count: int = 0

    def __call__(self, plan: Plan[Any]) -> Any:
        stepped = Stepped(plan, self.database)
        while not stepped.ended:
            if isinstance(stepped.command, DatabaseCommand):
                if self.count == self.at:
                    self.meanwhile()
                self.count += 1
            stepped.perform(1)
        return stepped.result
