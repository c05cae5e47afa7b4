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
    run.answer = ThreadsAnswer(found, limit, None if user is None else (memory._user_key, user))


@dataclass(frozen=True, slots=True)
class ThreadsAnswer:
    """A page of the list of threads.

    Attributes:
        threads: They.
        limit: How many at most.
        user: The metadata key that names users, and the user whose threads were asked for.
    """

    threads: Sequence[SizedThread]
    limit: int
    user: tuple[str, str] | None

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
        if self.user is None:
            yield "no threads"
            return
        key, user = self.user
        yield f"no threads that have {key} {shown(user)} in their metadata"
        yield "--filter KEY=VALUE looks for another metadata key"


def _row(one: SizedThread) -> list[str]:
    thread, size = one.thread, one.size
    return [
        thread.thread_id,
        time_text(thread.updated_at),
        count_text(None if size is None else size.checkpoints),
        bytes_text(None if size is None else size.stored),
        cell(thread.preview or "", LONGEST_PREVIEW),
    ]
