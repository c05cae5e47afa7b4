"""``mongomem threads``: the list of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Annotated, Any

import typer

from mongomem.arguments import shown
from mongomem.command_line.command import Run, command
from mongomem.command_line.printout import Block
from mongomem.command_line.queries.arguments import Filters, Limit, before_of, filter_of
from mongomem.command_line.queries.texts import bytes_text, cell, count_text, time_text
from mongomem.command_line.refusals import DONE
from mongomem.command_line.tables import Table
from mongomem.inspection.inspector import Inspector
from mongomem.inspection.threads import SizedThread

COLUMNS = ("thread", "updated (UTC)", ">checkpoints", ">stored", "~last message")

LONGEST_PREVIEW = 60


@command()
def threads(
    run: Run,
    *,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="Only the threads of this user.")
    ] = None,
    filters: Filters = None,
    limit: Limit = 20,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="THREAD|TIME",
            help="Only what comes behind this thread, or was updated before this time.",
        ),
    ] = None,
) -> None:
    """List threads, the one updated last first.

    Of each: its times, how many checkpoints it has, how many bytes they take, its last message.
    """
    wanted, start = filter_of(filters), before_of(before)
    memory = run.open()
    found = Inspector(memory).threads(user=user, filter=wanted, limit=limit, before=start)
    conditions = _conditions(memory._user_key, user, wanted)
    run.answer = ThreadsAnswer(found, limit, conditions, before)


def _conditions(user_key: str, user: str | None, filter: dict[str, Any]) -> list[str]:
    """Say in words what threads had to fulfil."""
    whose = [] if user is None else [f"have {user_key} {shown(user)} in their metadata"]
    return [*whose, "contain what --filter says"] if filter else whose


@dataclass(frozen=True, slots=True)
class ThreadsAnswer:
    """A page of the list of threads.

    Attributes:
        threads: They.
        limit: How many at most.
        conditions: What they had to fulfil.
        before: Behind what they had to be.
    """

    threads: Sequence[SizedThread]
    limit: int
    conditions: Sequence[str]
    before: str | None

    @property
    def exit_code(self) -> int:
        return DONE

    @property
    def last(self) -> str | None:
        """The thread behind which the next page begins; None where this is the last."""
        is_full = len(self.threads) == self.limit
        return self.threads[-1].thread.thread_id if is_full else None

    def json(self) -> dict[str, Any]:
        return {"threads": [one.json() for one in self.threads], "next": self.last}

    def text(self) -> Iterator[Block]:
        if not self.threads:
            yield from self._nothing()
            return
        yield Table(COLUMNS, [_row(one) for one in self.threads])
        if self.last is not None:
            yield f"there may be more: --before {quote(self.last)}"

    def _nothing(self) -> Iterator[str]:
        asked = f" that {' and '.join(self.conditions)}" if self.conditions else ""
        behind = f" behind {self.before}" if self.before else ""
        yield f"no threads{asked}{behind}"
        if self.conditions:
            yield "--filter KEY=VALUE looks for any key; mongomem show tells those of a thread"


def _row(one: SizedThread) -> list[str]:
    thread, size = one.thread, one.size
    return [
        thread.thread_id,
        time_text(thread.updated_at),
        count_text(None if size is None else size.checkpoints),
        bytes_text(None if size is None else size.stored),
        cell(thread.preview or "", LONGEST_PREVIEW),
    ]
