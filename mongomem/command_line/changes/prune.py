"""The command that removes old checkpoints, by a rule or by a retention policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import typer

from mongomem.backup.selection import every_thread_id
from mongomem.checkpoint.retention.policy import Retention
from mongomem.command_line.changes.durations import DURATION_METAVAR, duration_of
from mongomem.command_line.changes.policies import POLICY_METAVAR, policy_of
from mongomem.command_line.changes.questions import ask, first_rows, left_out_lines
from mongomem.command_line.command import Run, Yes, command, count_option
from mongomem.command_line.printout import Block, progress
from mongomem.command_line.queries.texts import counted
from mongomem.command_line.refusals import DONE, FAILED, GOES_ON, Refusal
from mongomem.command_line.tables import Table
from mongomem.memory import MongoMemory
from mongomem.upkeep.removals import Pruned, Pruning, threads_to_go

KEEP_LATEST, DELETE = "keep_latest", "delete"

NO_RULE: Mapping[str, Any] = {"strategy": KEEP_LATEST, "keep_last": 1, "older_than": None}
"""The rule where no option says one."""


@command(GOES_ON)
def prune(
    run: Run,
    *,
    threads: Annotated[
        list[str] | None, typer.Argument(metavar="THREAD", help="Ids of threads.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every thread.")] = False,
    keep_last: Annotated[int, count_option("How many to keep in each namespace.")] = 1,
    older_than: Annotated[
        str | None,
        typer.Option(metavar=DURATION_METAVAR, help="Remove only what is older, such as 30d."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar=POLICY_METAVAR,
            help="Carry out a retention on every thread, such as keep_last=10,older_than=7d,"
            "idle_threads=90d.",
        ),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            metavar="STRATEGY", help=f"{KEEP_LATEST}, or {DELETE} for everything of the threads."
        ),
    ] = KEEP_LATEST,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would go; remove nothing.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Remove old checkpoints of threads. What stays reads as before.

    Exit code 1 where a thread is damaged: it is left as it is, and the others are pruned.
    """
    age, retention = duration_of("--older-than", older_than), policy_of(policy)
    rule = {"strategy": strategy, "keep_last": keep_last, "older_than": age}
    if retention is not None:
        if threads or rule != NO_RULE:
            raise Refusal("--policy says what goes from every thread: leave the other options out")
        remove = partial(_retain, run.open(), retention)
    else:
        if bool(threads) == all_:
            raise Refusal("name threads, or --all: one of them")
        remove = partial(_prune, *_of_threads(run.open(), rule, threads or []))
    _remove(run, remove, dry_run=dry_run, yes=yes)


def _of_threads(
    memory: MongoMemory, rule: dict[str, Any], threads: Sequence[str]
) -> tuple[Pruning, list[str]]:
    """Return the removal, and the threads that are named; none for all of them.

    Raises:
        InvalidInputError: The rule is none.
        ThreadNotFoundError: A thread is not there.
    """
    pruning = Pruning(memory, rule)
    return pruning, [one.thread_id for one in threads_to_go(memory, threads)]


def _remove(run: Run, remove: Callable[[PruneAnswer], None], *, dry_run: bool, yes: bool) -> None:
    """Count what would go, and ask whether it shall, unless that is known; then remove it."""
    is_shown = False
    if dry_run or not yes:
        run.answer = before = PruneAnswer(dry_run=True)
        remove(before)
        if dry_run:
            return
        if not before.is_nothing:
            is_shown = ask(run, before, f"Remove {before.what}?", yes=False)
    run.answer = answer = PruneAnswer(dry_run=False, is_shown=is_shown)
    remove(answer)


def _prune(pruning: Pruning, named: Sequence[str], answer: PruneAnswer) -> None:
    ids = iter(named) if named else every_thread_id(pruning.memory)
    report = answer.report
    with progress(lambda: f"{report.looked_at} threads, {answer.what}") as tell:
        for _ in pruning.steps(ids, report, dry_run=answer.dry_run):
            tell()


def _retain(memory: MongoMemory, retention: Retention, answer: PruneAnswer) -> None:
    answer.report.add_all(memory.saver.apply_retention(retention, dry_run=answer.dry_run))


@dataclass(frozen=True, slots=True)
class PruneAnswer:
    """What went, or would go.

    Attributes:
        dry_run: Whether nothing was removed.
        is_shown: Whether what goes of which thread was shown before.
        report: What went, or would go.
    """

    dry_run: bool
    is_shown: bool = False
    report: Pruned = field(default_factory=Pruned)

    @property
    def exit_code(self) -> int:
        return FAILED if self.report.left_out.count else DONE

    @property
    def is_nothing(self) -> bool:
        return not (self.report.deleted or self.report.changed)

    @property
    def what(self) -> str:
        """What it is about."""
        report = self.report
        removed = counted(report.removed, "checkpoint")
        if not report.deleted:
            return f"{removed} of {counted(report.changed, 'thread')}"
        whole = f"{counted(len(report.deleted), 'whole thread')}"
        return f"{whole}, and {removed} of {counted(report.changed, 'other')}"

    def json(self) -> dict[str, Any]:
        return {"dry_run": self.dry_run, **self.report.json()}

    def text(self) -> Iterator[Block]:
        report = self.report
        rows = [(one, "all", "") for one in report.deleted]
        rows += [(one, str(removed), str(hidden)) for one, removed, hidden in report.first]
        if not self.is_shown:
            yield from first_rows(Table(["thread", ">removed", ">hidden"], rows))
        yield from left_out_lines(report.left_out)
        yield f"{self.what} would go" if self.dry_run else f"removed {self.what}"
