"""The command that deletes threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from mongomem.arguments import shown
from mongomem.command_line.command import Run, Yes, command
from mongomem.command_line.printout import Block, Table, progress
from mongomem.command_line.refusals import DONE, GOES_ON, Refusal
from mongomem.command_line.upkeep.questions import ask, counted, first_rows
from mongomem.command_line.upkeep.values import DURATION_METAVAR, duration_of
from mongomem.memory import MongoMemory
from mongomem.upkeep.removals import ThreadSize, sizes_of


@command(GOES_ON)
def delete(
    run: Run,
    *,
    threads: Annotated[
        list[str] | None, typer.Argument(metavar="[THREAD]...", help="Ids of threads.")
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
    sizes = sizes_of(memory, threads or [])
    answer = run.answer = DeleteAnswer(sizes, dry_run=dry_run)
    if dry_run or not sizes:
        return
    thread = counted(len(sizes), "thread")
    ask(run, answer, f"Delete {thread} with {counted(answer.checkpoints, 'checkpoint')}?", yes=yes)
    _delete(memory, answer)


def _delete(memory: MongoMemory, answer: DeleteAnswer) -> None:
    with progress(lambda: f"{len(answer.deleted)} of {len(answer.sizes)} threads") as tell:
        for one in answer.sizes:
            memory.saver.delete_thread(one.thread_id)
            answer.deleted.append(one.thread_id)
            tell()


@dataclass(frozen=True, slots=True)
class DeleteAnswer:
    """What is deleted, and how far that is done."""

    sizes: Sequence[ThreadSize]
    dry_run: bool
    deleted: list[str] = field(default_factory=list)

    exit_code = DONE

    @property
    def checkpoints(self) -> int:
        return sum(one.checkpoints for one in self.sizes)

    def json(self) -> dict[str, Any]:
        threads = [one.json() for one in self.sizes]
        return {"dry_run": self.dry_run, "threads": threads, "deleted": self.deleted}

    def text(self) -> Iterator[Block]:
        rows = [
            (
                shown_id(one.thread_id),
                str(one.checkpoints),
                str(one.writes),
                "" if one.updated_at is None else f"{one.updated_at:%Y-%m-%d %H:%M}",
            )
            for one in self.sizes
        ]
        if not self.deleted:
            yield from first_rows(Table(["thread", ">checkpoints", ">writes", "updated"], rows))
        if not self.dry_run and (self.deleted or not self.sizes):
            yield f"deleted {counted(len(self.deleted), 'thread')}"
        elif self.dry_run:
            thread = counted(len(self.sizes), "thread")
            yield f"{thread} would go, with {counted(self.checkpoints, 'checkpoint')}"


def shown_id(thread_id: str) -> str:
    """Return an id as it is, where it can be seen as such."""
    return thread_id if thread_id.strip() == thread_id and thread_id else shown(thread_id)
