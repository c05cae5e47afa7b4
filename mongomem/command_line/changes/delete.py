"""The command that deletes threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from mongomem.command_line.changes.durations import DURATION_METAVAR, duration_of
from mongomem.command_line.changes.questions import ask, first_rows, names
from mongomem.command_line.command import Run, Yes, command
from mongomem.command_line.printout import Block, progress
from mongomem.command_line.queries.texts import bytes_text, count_text, counted, time_text
from mongomem.command_line.refusals import DONE, GOES_ON, Refusal
from mongomem.command_line.tables import Table
from mongomem.memory import MongoMemory
from mongomem.upkeep.removals import ThreadToGo, delete_unused, threads_to_go


@command(GOES_ON)
def delete(
    run: Run,
    *,
    threads: Annotated[
        list[str] | None, typer.Argument(metavar="THREAD", help="Ids of threads.")
    ] = None,
    idle_for: Annotated[
        str | None,
        typer.Option(
            metavar=DURATION_METAVAR, help="The threads not updated for so long, such as 90d."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go; delete nothing.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete threads, with every checkpoint and pending write."""
    idle = duration_of("--idle-for", idle_for)
    if (not threads) == (idle is None):
        raise Refusal("name threads, or --idle-for TIME: one of them")
    memory = run.open()
    if idle is not None:
        found = memory.saver.delete_idle_threads(idle, dry_run=True)
        threads = [one.thread_id for one in found]
    run.answer = answer = DeleteAnswer.of(threads_to_go(memory, threads or []), dry_run=dry_run)
    if answer.threads and not dry_run:
        ask(run, answer, f"Delete {answer.what}?", yes=yes)
        _delete(memory, answer, unused=idle is not None)


def _delete(memory: MongoMemory, answer: DeleteAnswer, *, unused: bool) -> None:
    """Delete threads; those that go because they are `unused`, unless they were used since."""
    with progress(lambda: f"{len(answer.deleted)} of {len(answer.threads)} threads") as tell:
        for one in answer.threads:
            if not unused:
                memory.saver.delete_thread(one.thread_id)
            if not unused or delete_unused(memory, one):
                answer.deleted.append(one.thread_id)
            tell()
    answer.done = True


COLUMNS = ("thread", "updated (UTC)", ">checkpoints", ">writes", ">stored")


@dataclass(slots=True)
class DeleteAnswer:
    """What is deleted, and how far that is done.

    Attributes:
        threads: What is to be deleted.
        gone: The ids of the threads that were deleted before.
        dry_run: Whether nothing is deleted.
        deleted: The ids of those that are deleted by now.
        done: Whether all are.
    """

    threads: Sequence[ThreadToGo]
    gone: Sequence[str]
    dry_run: bool
    deleted: list[str] = field(default_factory=list)
    done: bool = False

    exit_code = DONE

    @classmethod
    def of(cls, found: Sequence[ThreadToGo], *, dry_run: bool) -> DeleteAnswer:
        """Part what is there from what was deleted before: the command may have been cut short."""
        gone = [one.thread_id for one in found if one.is_gone]
        return cls([one for one in found if not one.is_gone], gone, dry_run)

    @property
    def what(self) -> str:
        """What goes."""
        checkpoints = sum(one.size.checkpoints for one in self.threads if one.size is not None)
        thread = counted(len(self.threads), "thread")
        return f"{thread} with {counted(checkpoints, 'checkpoint')}"

    def json(self) -> dict[str, Any]:
        threads = [one.json() for one in self.threads]
        return {
            "dry_run": self.dry_run,
            "threads": threads,
            "deleted": self.deleted,
            "deleted_before": [*self.gone],
        }

    def text(self) -> Iterator[Block]:
        if not (self.deleted or self.done):
            yield from first_rows(Table(COLUMNS, [_row(one) for one in self.threads]))
        if self.gone:
            yield f"deleted before: {names(self.gone)}"
        if self.dry_run:
            yield f"{self.what} would go"
        elif self.deleted or self.done or not self.threads:
            yield f"deleted {counted(len(self.deleted), 'thread')}"


def _row(one: ThreadToGo) -> list[str]:
    size = one.size
    return [
        one.thread_id,
        "" if one.updated_at is None else time_text(one.updated_at),
        count_text(None if size is None else size.checkpoints),
        count_text(None if size is None else size.writes),
        bytes_text(None if size is None else size.stored),
    ]
