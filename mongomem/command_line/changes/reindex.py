"""The command that makes vectors again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from mongomem.command_line.changes.questions import MOST_LINES
from mongomem.command_line.command import Run, command
from mongomem.command_line.database import IndexOptions
from mongomem.command_line.printout import progress
from mongomem.command_line.queries.texts import counted
from mongomem.command_line.refusals import DONE, FAILED, GOES_ON, Refusal
from mongomem.errors import ReindexError
from mongomem.inspection.inspector import Inspector
from mongomem.inspection.memories import index_config
from mongomem.memory import MongoMemory
from mongomem.store.plans.reindex import reindex as reindex_plan
from mongomem.upkeep.removals import items_below


@command(GOES_ON)
def reindex(
    run: Run,
    *,
    index: IndexOptions,
    force: Annotated[
        bool,
        typer.Option("--force", help="Make every vector again, also of the same configuration."),
    ] = False,
) -> None:
    """Make the vectors of every item by an index configuration.

    Without --embed it is the one that the store has; with it, what is not said stays as it is.
    """
    memory = _opened(run, index)
    answer = ReindexAnswer()
    try:
        _reindex(run, memory, answer, force=force)
    except ReindexError as error:
        answer.rejected = {f"{key!r} in {path!r}": why for (path, key), why in error.items.items()}
    answer.is_done, run.answer = True, answer


def _opened(run: Run, index: IndexOptions) -> MongoMemory:
    """Open the store with the index that is named, or else the one that its settings tell.

    Raises:
        Refusal: Nothing says what embeds.
    """
    memory = run.open_indexed(index)
    if memory.store.index_config is not None:
        return memory
    told = index_config(Inspector(memory).index())
    if told is None or run.database.memory:
        raise Refusal(
            "say what embeds by --embed and --dims, such as --embed openai:text-embedding-3-small "
            "--dims 1536, with a --field for each of the application's fields, or by --memory the "
            "application's own MongoMemory with its index"
        )
    return run.open(index=told)


def _reindex(run: Run, memory: MongoMemory, answer: ReindexAnswer, *, force: bool) -> None:
    runner, context = memory.store._runners.run, memory.store._context()
    items = runner(items_below(context, ()))
    with progress(lambda: f"{answer.changed} of up to {items} items embedded") as tell:

        def told(changed: int) -> None:
            answer.changed, run.answer = changed, answer
            tell()

        runner(reindex_plan(context, force, told))


@dataclass(slots=True)
class ReindexAnswer:
    """How many items were changed, and which cannot be."""

    changed: int = 0
    rejected: dict[str, str] = field(default_factory=dict)
    is_done: bool = False

    @property
    def exit_code(self) -> int:
        return FAILED if self.rejected else DONE

    def json(self) -> dict[str, Any]:
        return {"changed": self.changed, "rejected": self.rejected, "finished": self.is_done}

    def text(self) -> Iterator[str]:
        if self.is_done and not self.changed and not self.rejected:
            yield "all vectors are of this configuration"
        else:
            yield f"made the vectors of {counted(self.changed, 'item')}"
        for item, why in [*self.rejected.items()][:MOST_LINES]:
            yield f"left as it was: {item}: {why}"
        if (more := len(self.rejected) - MOST_LINES) > 0:
            yield f"left as they were: {more} more (--json names all)"
