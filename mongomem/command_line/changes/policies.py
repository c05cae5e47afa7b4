"""A retention policy as an option says it, carried out at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mongomem.arguments import shown
from mongomem.checkpoint.retention.policy import Retention
from mongomem.checkpoint.retention.sweep import RetentionReport
from mongomem.command_line.changes.durations import duration_of
from mongomem.command_line.changes.questions import ask, counted, first_rows
from mongomem.command_line.command import Run
from mongomem.command_line.printout import Block, Table
from mongomem.command_line.queries.texts import cell
from mongomem.command_line.refusals import DONE, Refusal
from mongomem.errors import ConfigurationError

POLICY_METAVAR = "POLICY"

SPANS = ("older_than", "idle_threads", "waiting_threads")

KEPT = re.compile(r"[0-9]{1,18}")

MOST_IDS = 1_000
"""How many threads ``--json`` names of each kind."""


def policy_of(text: str | None) -> Retention | None:
    """Return the policy that ``--policy`` says, such as ``keep_last=10,older_than=7d``; None where
    it says nothing.

    Raises:
        Refusal: It says none.
    """
    if text is None:
        return None
    given = dict(_field(part) for part in text.split(","))
    try:
        return Retention(**given)
    except ConfigurationError as error:
        raise Refusal(f"--policy: {error}") from None


def _field(part: str) -> tuple[str, Any]:
    name, _, value = (one.strip() for one in part.partition("="))
    if name in SPANS:
        return name, duration_of(f"{name} of --policy", value)
    if name == "keep_last" and KEPT.fullmatch(value):
        return name, int(value)
    raise Refusal(
        "--policy takes fields such as keep_last=10,older_than=7d,idle_threads=90d,"
        f"waiting_threads=365d, not {shown(part)}"
    )


def retain(run: Run, policy: Retention, *, dry_run: bool, yes: bool) -> None:
    """Carry out a policy on all threads; ask before, unless nothing is to be changed."""
    saver = run.open().saver
    if dry_run or not yes:
        run.answer = answer = PolicyAnswer(True, saver.apply_retention(policy, dry_run=True))
        if not dry_run:
            ask(run, answer, f"Remove {answer.what}?", yes=False)
    if not dry_run:
        run.answer = PolicyAnswer(False, saver.apply_retention(policy))


@dataclass(frozen=True, slots=True)
class PolicyAnswer:
    """What went by a policy, or would go."""

    dry_run: bool
    report: RetentionReport = field(default_factory=RetentionReport)

    exit_code = DONE

    @property
    def what(self) -> str:
        """What it is about."""
        removed = counted(sum(len(one.removed) for one in self.report.pruned), "checkpoint")
        pruned = counted(len(self.report.pruned), "thread")
        return f"{counted(len(self.report.deleted), 'thread')}, and {removed} of {pruned}"

    def json(self) -> dict[str, Any]:
        report = self.report
        return {
            "dry_run": self.dry_run,
            "deleted": len(report.deleted),
            "pruned": len(report.pruned),
            "removed": sum(len(one.removed) for one in report.pruned),
            "hidden": sum(len(one.hidden) for one in report.pruned),
            "deleted_threads": [one.thread_id for one in report.deleted[:MOST_IDS]],
            "pruned_threads": {one.thread_id: len(one.removed) for one in report.pruned[:MOST_IDS]},
            "left_out": report.left_out,
        }

    def text(self) -> Iterator[Block]:
        rows = [(cell(one.thread_id), "deleted") for one in self.report.deleted]
        rows += [(cell(one.thread_id), str(len(one.removed))) for one in self.report.pruned]
        yield from first_rows(Table(["thread", ">removed"], rows))
        for thread_id, why in self.report.left_out.items():
            yield f"left out: {cell(thread_id)}: {cell(why)}"
        yield f"{self.what} would go" if self.dry_run else f"removed {self.what}"
