"""Plans that are performed by and by, so that others can act between two commands, or two
statements of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from mongomem.engine.commands import BulkWrite, Command, Plan


@dataclass
class Stepped:
    """A plan that is performed by and by, so that others can act in between."""

    plan: Plan[Any]
    database: Any
    result: Any = None
    ended: bool = False
    commands: int = 0
    _reply: Any = None
    _error: Exception | None = None

    def perform(self, commands: int = 10_000) -> None:
        """Perform some more commands, or all that there are; the plan gets what they raise."""
        try:
            for _ in range(0 if self.ended else commands):
                self._perform_one()
                self.commands += 1
        except StopIteration as finished:
            self.result, self.ended = finished.value, True

    def _perform_one(self) -> None:
        error, self._error = self._error, None
        command = self.plan.send(self._reply) if error is None else self.plan.throw(error)
        try:
            self._reply = command.perform(self.database)
        except Exception as raised:
            self._reply, self._error = None, raised


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
        if self.has_split or not (
            isinstance(command, BulkWrite) and command.ordered and len(command.writes) > 1
        ):
            return command.perform(self.database)
        self.has_split = True
        place = len(command.writes) - 1
        first = replace(command, writes=command.writes[:place]).perform(self.database)
        self.meanwhile()
        second = replace(command, writes=command.writes[place:]).perform(self.database)
        later = {place + index: key for index, key in (second.upserted_ids or {}).items()}
        return Reply({**(first.upserted_ids or {}), **later})
