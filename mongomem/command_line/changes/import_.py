"""The command that stores what an export has written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from mongomem.arguments import shown
from mongomem.backup.imports import Import, ImportReport
from mongomem.command_line.changes.export import PIPE
from mongomem.command_line.changes.questions import left_out_lines
from mongomem.command_line.command import Run, command
from mongomem.command_line.database import IndexOptions
from mongomem.command_line.printout import progress
from mongomem.command_line.refusals import DONE, FAILED, GOES_ON, Failure, Refusal
from mongomem.errors import InvalidInputError
from mongomem.inspection.inspector import Inspector
from mongomem.memory import MongoMemory
from mongomem.migration.report import Count


@command(GOES_ON)
def import_(
    run: Run,
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file; - is the input.")],
    index: IndexOptions,
) -> None:
    """Store the threads and items that an export has written.

    What is there already is skipped, and nothing is removed. Nothing may run on the threads
    meanwhile.
    """
    opened = _opened(file, run.stack)
    memory = run.open(may_be_new=True, **index.options)
    answer = run.answer = ImportAnswer()
    report = answer.report
    with progress(lambda: _progress_line(report)) as tell:
        try:
            Import(memory, opened, report, tell).make()
        except InvalidInputError as error:
            raise Failure(f"{shown(file)}: {error}") from error
    answer.lacks_vectors = bool(report.items.copied) and _lacks_vectors(memory)


def _lacks_vectors(memory: MongoMemory) -> bool:
    """Say whether the store has vectors, and what was imported has none."""
    return memory.store.index_config is None and Inspector(memory).index() is not None


def _opened(file: str, stack: ExitStack) -> IO[bytes]:
    """Open the file.

    Raises:
        Refusal: It is not there, or cannot be read.
    """
    if file == PIPE:
        return sys.stdin.buffer
    try:
        return stack.enter_context(Path(file).open("rb"))
    except OSError as error:
        raise Refusal(f"{shown(file)} cannot be read: {error.strerror}") from error


def _progress_line(report: ImportReport) -> str:
    found = (report.threads, report.checkpoints.found, report.items.found)
    return "{} threads, {} checkpoints, {} items".format(*found)


@dataclass(slots=True)
class ImportAnswer:
    """What was read and stored so far."""

    report: ImportReport = field(default_factory=ImportReport)
    lacks_vectors: bool = False

    @property
    def exit_code(self) -> int:
        return FAILED if self.report.left_out.count else DONE

    def json(self) -> dict[str, Any]:
        return {**self.report.json(), "lacks_vectors": self.lacks_vectors}

    def text(self) -> Iterator[str]:
        report = self.report
        yield f"threads      {report.threads}"
        yield f"checkpoints  {_count(report.checkpoints)}"
        yield f"items        {_count(report.items)}"
        if self.lacks_vectors:
            yield "what was stored has no vectors yet: mongomem reindex makes them"
        yield from left_out_lines(report.left_out)


def _count(count: Count) -> str:
    return f"{count.found}: {count.copied} stored, {count.present} there before"
