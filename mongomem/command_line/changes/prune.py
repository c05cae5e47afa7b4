"""The command that removes old checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from mongomem.backup.selection import every_thread_id
from mongomem.command_line.changes.durations import DURATION_METAVAR, duration_of
from mongomem.command_line.changes.policies import POLICY_METAVAR, policy_of, retain
from mongomem.command_line.changes.questions import ask, counted, first_rows
from mongomem.command_line.command import Run, Yes, command
from mongomem.command_line.printout import Block, Table, progress
from mongomem.command_line.queries.texts import cell
from mongomem.command_line.refusals import DONE, GOES_ON, Refusal
from mongomem.upkeep.removals import Pruned, Pruning, threads_to_go

KEEP_LATEST, DELETE = "keep_latest", "delete"


@command(GOES_ON)
def prune(
    run: Run,
    *,
    threads: Annotated[
        list[str] | None, typer.Argument(metavar="[THREAD]...", help="Ids of threads.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every thread.")] = False,
    keep_last: Annotated[
        int,
        typer.Option(metavar="NUMBER", min=1, help="How many to keep in each namespace."),
    ] = 1,
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
    """Remove old checkpoints of threads. What stays reads as before."""
    age = duration_of("--older-than", older_than)
    if (retention := policy_of(policy)) is not None:
        if threads or age or (keep_last, strategy) != (1, KEEP_LATEST):
            raise Refusal("--policy says what goes from every thread: leave the other options out")
        retain(run, retention, dry_run=dry_run, yes=yes)
        return
    if bool(threads) == all_:
        raise Refusal("name threads, or --all: one of them")
    rule: dict[str, Any] = {"strategy": strategy, "keep_last": keep_last, "older_than": age}
    memory = run.open()
    named = [one.thread_id for one in threads_to_go(memory, threads or [])]
    pruning = Pruning(memory, rule)
    if dry_run or not yes:
        _count_and_ask(run, pruning, named, dry_run=dry_run)
    if not dry_run:
        run.answer = answer = PruneAnswer(dry_run=False)
        _carry_out(pruning, named, answer)


def _count_and_ask(run: Run, pruning: Pruning, named: Sequence[str], *, dry_run: bool) -> None:
    """Count what would go, and ask whether it shall, unless that was all that was wanted."""
    if not dry_run and not sys.stdin.isatty():
        what = counted(len(named), "thread") if named else "all threads"
        run.confirm(f"Remove old checkpoints of {what}?", yes=False)
    run.answer = answer = PruneAnswer(dry_run=True)
    _carry_out(pruning, named, answer)
    if not dry_run:
        ask(run, answer, f"Remove {answer.what}?", yes=False)


def _carry_out(pruning: Pruning, named: Sequence[str], answer: PruneAnswer) -> None:
    ids = iter(named) if named else every_thread_id(pruning.memory)
    report = answer.report
    with progress(lambda: f"{report.threads} threads, {answer.what}") as tell:
        for _ in pruning.steps(ids, report, dry_run=answer.dry_run):
            tell()


@dataclass(frozen=True, slots=True)
class PruneAnswer:
    """What went, or would go."""

    dry_run: bool
    report: Pruned = field(default_factory=Pruned)

    exit_code = DONE

    @property
    def what(self) -> str:
        """What it is about."""
        removed = counted(self.report.removed, "checkpoint")
        return f"{removed} of {counted(self.report.changed, 'thread')}"

    def json(self) -> dict[str, Any]:
        return {"dry_run": self.dry_run, **self.report.json()}

    def text(self) -> Iterator[Block]:
        report = self.report
        rows = [(cell(one), str(removed), str(hid)) for one, removed, hid in report.first]
        yield from first_rows(Table(["thread", ">removed", ">hidden"], rows))
        yield f"{self.what} would go" if self.dry_run else f"removed {self.what}"
