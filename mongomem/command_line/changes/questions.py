"""What is told before something is destroyed, and what is named at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from mongomem.command_line.command import Run
from mongomem.command_line.printout import Answer, print_answer
from mongomem.command_line.tables import Table
from mongomem.migration.report import Named

MOST_LINES = 20
"""How many things are named; ``--json`` names up to 1,000."""


def ask(run: Run, answer: Answer, question: str, *, yes: bool) -> bool:
    """Show what will go to who is asked, and ask; return whether it was shown. Then it is not
    printed again.

    Raises:
        Refusal: The answer is no, or there is nobody to ask.
    """
    is_shown = not yes and sys.stdin.isatty() and not run.as_json
    if is_shown:
        print_answer(answer)
        run.answer = None
    run.confirm(question, yes=yes)
    run.answer = answer
    return is_shown


def first_rows(table: Table) -> list[str | Table]:
    """Return the first rows of a table, and how many there are besides."""
    more = len(table.rows) - MOST_LINES
    shown: list[str | Table] = [Table(table.columns, table.rows[:MOST_LINES])] if table.rows else []
    return [*shown, f"{more} more"] if more > 0 else shown


def left_out_lines(named: Named) -> Iterator[str]:
    """Name what was left out, so many at most."""
    for one in named.first[:MOST_LINES]:
        yield f"left out: {one.what}: {one.reason}"
    if (more := named.count - MOST_LINES) > 0:
        yield f"left out: {more} more (--json names up to 1,000)"


def names(some: Sequence[str]) -> str:
    """Return names in one line, so many at most."""
    more = len(some) - MOST_LINES
    return ", ".join(some[:MOST_LINES]) + (f" and {more} more" if more > 0 else "")
