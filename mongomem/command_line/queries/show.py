"""``mongomem show``: the state of a thread at a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
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
from mongomem.command_line.queries.texts import bytes_text, cell, indented, json_line, value_lines
from mongomem.command_line.refusals import DONE
from mongomem.inspection.inspector import Inspector
from mongomem.inspection.plain_values import Bounds, plain
from mongomem.inspection.state import RESUME, State, is_inner

Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Import a module whose classes stand in the state. Can be repeated.",
    ),
]


@command()
def show(
    run: Run,
    thread: ThreadId,
    checkpoint: Annotated[
        str | None,
        typer.Argument(
            metavar="CHECKPOINT",
            help="The id of a checkpoint, or its end. [default: the newest]",
            show_default=False,
        ),
    ] = None,
    *,
    namespace: CheckpointNamespace = "",
    full: Full = False,
    imports: Imports = None,
) -> None:
    """Show the state of a thread, and what it waits for.

    Its values, its pending writes, what its nodes ask. Long values are cut unless --full is said.
    Objects whose classes are not imported are shown as the data they hold.
    """
    look_here()
    import_modules(imports or [])
    found = Inspector(run.open()).state(thread, checkpoint, namespace=namespace)
    run.answer = StateAnswer(found, bounds_of(full))


@dataclass(frozen=True, slots=True)
class StateAnswer:
    """A state."""

    state: State
    bounds: Bounds

    @property
    def exit_code(self) -> int:
        return DONE

    def json(self) -> dict[str, Any]:
        return self.state.json(self.bounds)

    def text(self) -> Iterator[Block]:
        yield from self._head()
        yield from self._said()
        yield from self._values()
        yield from self._writes()
        if self.state.unrevived:
            names = ", ".join(self.state.unrevived)
            yield f"shown as plain data, since they are not imported: {names}; --import does it"

    def _head(self) -> Iterator[str]:
        state, ref = self.state, self.state.ref
        yield f"thread      {ref.thread_id}"
        if ref.checkpoint_ns:
            yield f"namespace   {ref.checkpoint_ns}"
        yield f"checkpoint  {ref.checkpoint_id}"
        yield f"parent      {state.parent_id or 'none'}"
        yield f"created     {state.created_at}"
        for name, value in plain(state.metadata, self.bounds).items():
            yield f"{name:<11} {cell(json_line(value), 200)}"
        yield f"next        {', '.join(state.next) or 'end'}"

    def _said(self) -> Iterator[str]:
        """Give what nodes ask, and how they failed."""
        for value in self.state.asked():
            yield from _marked("asks", plain(value, self.bounds))
        for value in self.state.failed():
            yield from _marked("failed", plain(value, self.bounds))

    def _values(self) -> Iterator[str]:
        for name, value in self.state.values.items():
            size = self.state.sizes.get(name)
            yield f"\n{name}{'' if size is None else f'  ({bytes_text(size)})'}"
            yield from indented(value_lines(plain(value, self.bounds)))

    def _writes(self) -> Iterator[str]:
        shown = [
            one for one in self.state.writes if one.channel == RESUME or not is_inner(one.channel)
        ]
        for number, write in enumerate(shown):
            if not number:
                yield "\npending writes"
            yield f"  {write.channel}  of task {write.task_id}"
            yield from indented(value_lines(plain(write.value, self.bounds)), "    ")


def _marked(what: str, value: Any) -> Iterator[str]:
    first, *others = value_lines(value)
    yield f"{what:<11} {first}"
    yield from indented(others, " " * 12)
