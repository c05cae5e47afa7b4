"""``mongomem history``: the checkpoints of a thread as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mongomem.command_line.command import Run, command, count_option
from mongomem.command_line.printout import Block
from mongomem.command_line.queries.arguments import ThreadId
from mongomem.command_line.queries.texts import cell
from mongomem.command_line.refusals import DONE, FAILED
from mongomem.command_line.tables import Table
from mongomem.display.lane_drawings import text_rail
from mongomem.display.lanes import Layout, layout_of
from mongomem.display.timelines import leads_to, made_by, said
from mongomem.inspection.history import History, HistoryStep
from mongomem.inspection.inspector import Inspector

COLUMNS = ("", ">step", "…source", "…next", "…what changed", "checkpoint")

SHORT_ID = 12
"""How many characters of an id are shown: its last, which are random. `show` and `diff` take
them."""

LONGEST_CHANGES = 70


@command()
def history(
    run: Run,
    thread: ThreadId,
    *,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-ns",
            metavar="NAMESPACE",
            help='Only this checkpoint namespace; "" is the graph itself. [default: all]',
        ),
    ] = None,
    limit: Annotated[int, count_option("How many checkpoints: the newest.")] = 200,
) -> None:
    """Show the checkpoints of a thread as a tree.

    Oldest first, forks as branches, each subgraph call by itself. What changed are the channels
    with a new value, and how long it is. Exit code 1 where a checkpoint cannot be read.
    """
    run.answer = HistoryAnswer(
        Inspector(run.open()).history(thread, namespace=namespace, limit=limit)
    )


@dataclass(frozen=True, slots=True)
class HistoryAnswer:
    """The history of a thread."""

    history: History

    @property
    def exit_code(self) -> int:
        return FAILED if self.history.damaged else DONE

    def json(self) -> dict[str, Any]:
        history = self.history
        return {
            "thread_id": history.thread_id,
            "checkpoints": [_json(one) for one in history.steps],
            "is_cut": history.is_cut,
            "damaged": list(history.damaged),
        }

    def text(self) -> Iterator[Block]:
        if self.history.is_cut:
            yield "older checkpoints are not shown: --limit shows more"
        for namespace, steps in self._by_namespace().items():
            if namespace:
                yield f"\n{_title(namespace, steps)}"
            yield _tree(steps)
        for line in self.history.damaged:
            yield f"damaged: {line}"

    def _by_namespace(self) -> dict[str, list[HistoryStep]]:
        """Return the steps, oldest first, by namespace, that of the graph itself first."""
        found: dict[str, list[HistoryStep]] = {}
        for one in reversed(self.history.steps):
            found.setdefault(one.ref.checkpoint_ns, []).append(one)
        return dict(sorted(found.items(), key=lambda one: one[0] != ""))


def _title(namespace: str, steps: Sequence[HistoryStep]) -> str:
    """Name a subgraph, and the checkpoint that called it."""
    parents = steps[0].parents
    above = namespace.rpartition("|")[0]
    caller = parents.get(above) or parents.get("")
    return f"subgraph {namespace}{f', called at {_short(caller)}' if caller else ''}"


def _tree(steps: Sequence[HistoryStep]) -> Table:
    layout = layout_of([one.step for one in steps])
    return Table(COLUMNS, [_row(row, steps, layout) for row in range(len(steps))])


def _row(row: int, steps: Sequence[HistoryStep], layout: Layout) -> list[str]:
    step = steps[row].step
    return [
        text_rail(row, layout),
        step.number,
        made_by(row, [one.step for one in steps], layout),
        leads_to(step),
        cell("; ".join(said(step)), LONGEST_CHANGES),
        _short(step.id),
    ]


def _short(checkpoint_id: str) -> str:
    return cell(f"…{checkpoint_id[-SHORT_ID:]}" if len(checkpoint_id) > SHORT_ID else checkpoint_id)


def _json(one: HistoryStep) -> dict[str, Any]:
    step = one.step
    return {
        "checkpoint_ns": one.ref.checkpoint_ns,
        "checkpoint_id": step.id,
        "parent_checkpoint_id": step.parent_id,
        "called_at": dict(one.parents),
        "created_at": one.created_at.isoformat(),
        "step": one.number,
        "source": step.source,
        "changed": [change.channel for change in step.changes],
        "next": list(step.next),
        "interrupts": list(step.interrupts),
        "errors": list(step.errors),
        "bytes": one.bytes,
    }
