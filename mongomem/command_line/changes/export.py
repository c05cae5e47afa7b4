"""The command that writes threads and items into a file."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from mongomem.arguments import shown
from mongomem.backup.exports import Export, Exported
from mongomem.backup.selection import Selection
from mongomem.command_line.changes.questions import left_out_lines
from mongomem.command_line.command import Run, Yes, command
from mongomem.command_line.printout import progress
from mongomem.command_line.queries.arguments import labels_of
from mongomem.command_line.queries.texts import counted
from mongomem.command_line.refusals import DONE, FAILED, Failure, Refusal
from mongomem.memory import MongoMemory

PIPE = "-"


@command()
def export(
    run: Run,
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file; - is the output.")],
    thread: Annotated[
        list[str] | None, typer.Option(metavar="THREAD", help="This thread. Can be repeated.")
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option(metavar="USER", help="Everything of this user. Can be repeated."),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMESPACE", help="The items below this namespace. Can be repeated."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Write threads and items into a file, as lines of JSON.

    Everything, or what is named. State is in the file as it is, also where the database is
    encrypted.
    """
    if file == PIPE and run.as_json:
        raise Refusal("--json and the file - would share the standard output: name a file")
    spaces = [labels_of(one) for one in namespace or ()]
    selection = Selection(thread or [], user or [], spaces)
    memory = run.open()
    if file == PIPE:
        _into_pipe(memory, selection)
        return
    path = Path(file)
    _check(run, path, yes=yes)
    answer = ExportAnswer(Exported(), path, is_part=not selection.is_everything)
    with _replaced(path.resolve()) as opened:
        _write(memory, opened, selection, answer.report)
    run.answer = answer


def _write(memory: MongoMemory, file: IO[bytes], selection: Selection, report: Exported) -> None:
    with progress(lambda: _counts(report)) as tell:
        Export(memory, file, selection, report, tell).make()


def _into_pipe(memory: MongoMemory, selection: Selection) -> None:
    """Write to the standard output.

    Raises:
        Failure: Who reads it has gone away, or something was left out.
    """
    report = Exported()
    try:
        _write(memory, sys.stdout.buffer, selection, report)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Failure("what reads the export has ended before it: it is not whole") from None
    if report.left_out.count:
        first, *_ = left_out_lines(report.left_out)
        raise Failure(f"{counted(report.left_out.count, 'thing')} left out; {first}")


def _check(run: Run, path: Path, *, yes: bool) -> None:
    """Refuse a place where no file can be, and ask before a file is replaced.

    Raises:
        Refusal: There can be none.
    """
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else "is in no folder that is there"
        raise Refusal(f"{shown(str(path))} {what}: name a file")
    if path.exists() and not path.is_file():
        raise Refusal(
            f"{shown(str(path))} is a device or a pipe: name a file, or - for the standard output"
        )
    if path.exists():
        run.confirm(f"Replace the file {shown(str(path))}?", yes=yes)


@contextmanager
def _replaced(path: Path) -> Iterator[IO[bytes]]:
    """Give a new file, that only its owner may read, and that takes the name once it is whole."""
    with tempfile.NamedTemporaryFile(
        prefix=f".{path.name}.", suffix=".part", dir=path.parent, delete=False
    ) as file:
        part = Path(file.name)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise


def _counts(report: Exported) -> str:
    threads, items = counted(report.threads, "thread"), counted(report.items, "item")
    return f"{threads} with {counted(report.checkpoints, 'checkpoint')}, {items}"


@dataclass(frozen=True, slots=True)
class ExportAnswer:
    """What was written, and where.

    Attributes:
        report: What was written.
        path: Where.
        is_part: Whether only what is named was to be written.
    """

    report: Exported
    path: Path
    is_part: bool

    @property
    def exit_code(self) -> int:
        return FAILED if self.report.left_out.count else DONE

    def json(self) -> dict[str, Any]:
        return {"file": str(self.path), **self.report.json()}

    def text(self) -> Iterator[str]:
        yield f"exported {_counts(self.report)}"
        if self.is_part and not (self.report.threads or self.report.items):
            yield (
                "nothing is there of what is named: mongomem threads and mongomem namespaces list "
                "what is; --user takes the id of a user, with dots too"
            )
        yield from left_out_lines(self.report.left_out)
