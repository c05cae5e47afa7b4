"""What is printed, and how: results on the standard output, errors and progress on the standard
error.

A result is an `Answer`: members of one JSON object, or lines and tables
(`mongomem.command_line.tables`), as wide as the terminal is, and in a pipe as they need. A reader
that went away ends nothing: the exit code tells what was done. No control character of what is
stored reaches a terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TextIO, TypeAlias

from rich.console import Console
from rich.text import Text

from mongomem.command_line.tables import Table, lines_of
from mongomem.display.markup import visible

NOT_IN_JSON = re.compile(
    "[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What JSON allows in a string, and a terminal obeys or a stream cannot write."""

Block: TypeAlias = str | Table


class Answer(Protocol):
    """What a command found or did."""

    def json(self) -> Mapping[str, Any]:
        """Return the members of the JSON object."""
        ...

    def text(self) -> Iterable[Block]:
        """Return lines and tables."""
        ...

    @property
    def exit_code(self) -> int:
        """0, or 1 where something needs to be done."""
        ...


def print_answer(answer: Answer | None) -> None:
    """Print an answer for people."""
    for block in [] if answer is None else answer.text():
        if isinstance(block, str):
            print_result(block)
        else:
            _print_table(block)


def print_json(answer: Answer | None, *, exit_code: int, error: str | None) -> None:
    """Print an answer as one JSON object, with the exit code and the line of the error or null."""
    members = {} if answer is None else answer.json()
    said = json.dumps(
        {**members, "exit_code": exit_code, "error": error}, indent=2, ensure_ascii=False
    )
    _write(sys.stdout, NOT_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", said))


def print_result(text: str) -> None:
    """Print lines of a result."""
    _write(sys.stdout, "\n".join(visible(line) for line in text.split("\n")))


def print_error(line: str) -> None:
    """Print one line that tells what to do."""
    _write(sys.stderr, f"mongomem: {visible(line)}")


def _print_table(table: Table) -> None:
    """Print rows: as wide as the terminal is, and in full where there is none."""
    console = Console() if sys.stdout.isatty() else None
    lines = lines_of(table, None if console is None else console.width)
    for line in lines.header:
        if console is None:
            _write(sys.stdout, line)
        else:
            console.print(Text(line, "bold"), soft_wrap=True)
    for line in lines.body:
        _write(sys.stdout, line)


def _write(stream: TextIO, text: str) -> None:
    """Write to a pipe that may be closed: what is written later then goes nowhere. What its
    encoding has not is written as an escape.
    """
    encoding = stream.encoding or "utf-8"
    said = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        stream.write("\n".join(line.rstrip() for line in said.split("\n")) + "\n")
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def progress(line: Callable[[], str]) -> Iterator[Callable[[], None]]:
    """Show a line that changes, where somebody looks on; give what shows it anew."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda: None
        return
    with console.status("") as status:
        yield lambda: status.update(Text(visible(line())))
