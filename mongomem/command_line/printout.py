"""What is printed. A reader that went away ends nothing: the exit code tells what was done."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console

from mongomem.migration.report import Count, Named, Report

MOST_LINES = 20
"""How many things are named; ``--json`` names up to 1,000."""


def print_result(text: str) -> None:
    """Print a result."""
    _write(sys.stdout, text)


def print_error(line: str) -> None:
    """Print one line that tells what to do."""
    _write(sys.stderr, f"mongomem: {line}")


def _write(stream: TextIO, text: str) -> None:
    """Write to a pipe that may be closed: what is written later then goes nowhere."""
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def progress(report: Report) -> Iterator[Callable[[], None]]:
    """Show a report while it grows, where somebody looks on; give what shows it anew."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda: None
        return
    with console.status("") as status:
        yield lambda: status.update(_progress_line(report))


def _progress_line(report: Report) -> str:
    checkpoints, items = report.checkpoints, report.items
    return (
        f"{report.threads} threads, {checkpoints.copied + checkpoints.present} of "
        f"{checkpoints.found} checkpoints, {items.copied + items.present} items, "
        f"{report.compared} compared"
    )


def report_json(report: Report, **more: Any) -> str:
    """Return a report as one JSON object."""
    return json.dumps({**report.json(), **more}, indent=2, ensure_ascii=False)


def report_text(report: Report, *, verified: bool) -> str:
    """Return a report as lines."""
    lines = [
        f"threads      {report.threads}",
        f"checkpoints  {_count(report.checkpoints)}",
        f"writes       {report.writes}",
        f"items        {_count(report.items)}",
    ]
    if verified:
        lines.append(f"compared     {report.compared}, {report.differences.count} differ")
    lines += [*_named("left out", report.left_out), *_named("differs", report.differences)]
    return "\n".join(lines)


def _count(count: Count) -> str:
    return f"{count.found}: {count.copied} copied, {count.present} there before"


def _named(what: str, named: Named) -> Iterator[str]:
    for one in named.first[:MOST_LINES]:
        yield f"{what}: {one.what}: {one.reason}"
    if named.count > MOST_LINES:
        yield f"{what}: {named.count - MOST_LINES} more (--json names up to 1,000)"
