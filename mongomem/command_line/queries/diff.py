"""``mongomem diff``: what differs between two states of a thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mongomem.command_line.command import Run, command
from mongomem.command_line.factories import import_modules, look_here
from mongomem.command_line.printout import Block
from mongomem.command_line.queries.arguments import (
    CheckpointNamespace,
    Full,
    ThreadId,
    bounds_of,
)
from mongomem.command_line.queries.show import Imports
from mongomem.command_line.queries.texts import indented, value_lines
from mongomem.command_line.refusals import DONE
from mongomem.inspection.difference import ABSENT, Difference
from mongomem.inspection.inspector import Inspector
from mongomem.inspection.plain_values import Bounds, plain
from mongomem.inspection.state import State

Checkpoint = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="The id of a checkpoint, or its end.")
]

SHORT = Bounds(text=500, elements=20, depth=6)


@command()
def diff(
    run: Run,
    thread: ThreadId,
    one: Checkpoint,
    other: Checkpoint,
    *,
    namespace: CheckpointNamespace = "",
    full: Full = False,
    imports: Imports = None,
) -> None:
    """Show what differs between two states of a thread.

    Messages are told apart by their ids, elements of other lists by their places, members of
    objects by their names.
    """
    look_here()
    import_modules(imports or [])
    found = Inspector(run.open()).difference(thread, one, other, namespace=namespace)
    run.answer = DifferenceAnswer(*found, bounds_of(full, SHORT))


@dataclass(frozen=True, slots=True)
class DifferenceAnswer:
    """What differs."""

    before: State
    after: State
    differences: Sequence[Difference]
    bounds: Bounds

    @property
    def exit_code(self) -> int:
        return DONE

    def json(self) -> dict[str, Any]:
        return {
            "thread_id": self.before.ref.thread_id,
            "checkpoint_ns": self.before.ref.checkpoint_ns,
            "before": self.before.ref.checkpoint_id,
            "after": self.after.ref.checkpoint_id,
            "channels": [one.json(self.bounds) for one in self.differences],
        }

    def text(self) -> Iterator[Block]:
        for mark, state in (("---", self.before), ("+++", self.after)):
            step = state.metadata.get("step", "?")
            yield f"{mark} {state.ref.checkpoint_id}  step {plain(step)}  {state.created_at}"
        if not self.differences:
            yield "no channel differs"
        for one in self.differences:
            yield f"\n{one.name}  {one.kind}"
            yield from self._lines(one, "  ")

    def _lines(self, one: Difference, indent: str) -> Iterator[str]:
        """Give the lines of a difference: those of its parts, or both sides."""
        if not one.parts:
            yield from self._side("-", one.before, indent)
            yield from self._side("+", one.after, indent)
        for part in one.parts:
            yield f"{indent}{part.name}  {part.kind}"
            yield from self._lines(part, f"{indent}  ")

    def _side(self, mark: str, value: Any, indent: str) -> Iterator[str]:
        if value is not ABSENT:
            yield from indented(value_lines(plain(value, self.bounds)), f"{indent}{mark} ")
