"""The command that stores what an export has written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join
from typing import IO, Annotated, Any

import typer

from mongomem.arguments import shown
from mongomem.backup.imports import Import, ImportReport
from mongomem.backup.lines import index_in, read_head
from mongomem.command_line.changes.export import PIPE
from mongomem.command_line.changes.questions import left_out_lines
from mongomem.command_line.command import Run, command
from mongomem.command_line.database import WHOLE_VALUE, IndexOptions
from mongomem.command_line.printout import progress
from mongomem.command_line.queries.texts import counted
from mongomem.command_line.refusals import DONE, FAILED, GOES_ON, Failure, Refusal
from mongomem.errors import InvalidInputError
from mongomem.inspection.inspector import Inspector
from mongomem.inspection.memories import index_config, is_by_default
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

    With --embed they are embedded; what is not said of the index is as the store has it, or else as
    it was where the export was made.

    What is there already is skipped, and nothing is removed. The application may go on meanwhile: a
    thread that it uses stays readable, and goes on from its own checkpoints.
    """
    opened = _opened(file, run.stack)
    memory = run.open(may_be_new=True, **index.options)
    answer = ImportAnswer()
    try:
        head = read_head(opened)
        memory = run.reopen_indexed(memory, index, index_in(head), may_be_new=True)
        _store(run, Import(memory, opened, answer.report, head=head), answer)
    except InvalidInputError as error:
        raise Failure(f"{shown(file)}: {error}") from error
    run.answer = answer
    answer.lacks_vectors = bool(answer.report.items.copied) and _lacks_vectors(memory)


def _store(run: Run, work: Import, answer: ImportAnswer) -> None:
    """Store what a file has. The answer is that of the command once something was read."""
    with progress(lambda: _progress_line(answer.report)) as tell:

        def told() -> None:
            run.answer = answer
            tell()

        work.tell = told
        work.make()


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
        yield from self._vectors()
        yield from left_out_lines(report.left_out)

    def _vectors(self) -> Iterator[str]:
        """Say what searches will not find by meaning, and what to do about it."""
        lost, index = self.report.without_vectors, self.report.index
        if self.lacks_vectors:
            yield "what was stored has no vectors yet: mongomem reindex makes them"
        elif lost:
            by = "" if index is None else f", by {index['model']}"
            yield (
                f"without vectors: {counted(lost, 'item')} that had vectors where the export was "
                f"made{by}. This store has no index, and no search finds them by meaning"
            )
            yield f"{_reindex(index)} makes the vectors"


def _reindex(index: dict[str, Any] | None) -> str:
    """Return the command that embeds items as they were, as far as that can be said."""
    told = index_config(index) or {}
    if not is_by_default(index):  # which no option says
        return "mongomem reindex with --memory"
    if "embed" not in told:
        return "mongomem reindex with --memory, or with --embed, --dims and --field,"
    paths = [] if told["fields"] == [WHOLE_VALUE] else told["fields"]
    fields = [word for path in paths for word in ("--field", path)]
    words = ["--embed", told["embed"], "--dims", str(told["dims"]), *fields]
    return f"mongomem reindex {join(words)}"


def _count(count: Count) -> str:
    return f"{count.found}: {count.copied} stored, {count.present} there before"
