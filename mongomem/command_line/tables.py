"""Tables as lines: as wide as what they hold, or as a terminal is. Pure.

What a cell names is what the next command takes, so a name, a time or a number is never broken. In
a narrow terminal texts give way first. Where that is not enough, the columns that have no room left
stand below the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from operator import attrgetter
from typing import TypeAlias

from rich.cells import cell_len, chop_cells, set_cell_size

from mongomem.display.markup import visible

NUMBER, TEXT, CUT = ">", "~", "…"
"""What the name of a column begins with, see `Table`."""

GAP = "  "
"""What stands between two columns."""

INDENT = "  "
"""What columns begin with that stand below the others."""

LEAST = {TEXT: 24, CUT: 8}
"""To how many places a column gives way beside others."""

Rows: TypeAlias = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below the names of their columns.

    Attributes:
        columns: The names. ``>`` before one: numbers, at the right. ``~``: texts, which may take
            several lines. ``…``: texts, which may be cut. The cells of all others stay whole.
        rows: As many cells each.
    """

    columns: Sequence[str]
    rows: Rows


@dataclass(frozen=True, slots=True)
class TableLines:
    """The lines of a table: those of the names, and those of the rows."""

    header: list[str]
    body: list[str]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column.

    Attributes:
        at: Which it is.
        mark: One of `NUMBER`, `TEXT` and `CUT`, or empty.
        width: How many places a cell has.
    """

    at: int
    mark: str
    width: int

    @property
    def least(self) -> int:
        """How many places it needs beside others."""
        return min(self.width, LEAST.get(self.mark, self.width))

    def within(self, room: int) -> _Column:
        """Return it as wide as there is room for, where it gives way."""
        return replace(self, width=min(self.width, max(room, 1))) if self.mark in LEAST else self

    def lines(self, cell: str) -> list[str]:
        """Return a cell as one line or more, none of them padded."""
        if self.mark == TEXT:
            return _wrapped(cell, self.width)
        if self.mark == CUT and cell_len(cell) > self.width:
            return [f"{set_cell_size(cell, self.width - 1).rstrip()}…"]
        return [cell]

    def padded(self, text: str) -> str:
        space = " " * (self.width - cell_len(text))
        return f"{space}{text}" if self.mark == NUMBER else f"{text}{space}"


Lines: TypeAlias = list[list[_Column]]
"""The columns that stand beside each other, and below them others."""


def lines_of(table: Table, width: int | None) -> TableLines:
    """Return the lines of a table.

    Args:
        table: The table.
        width: How many places a line has; None: as many as it needs.
    """
    marks = [one[0] if one[:1] in (NUMBER, TEXT, CUT) else "" for one in table.columns]
    names = [one.removeprefix(mark) for one, mark in zip(table.columns, marks, strict=True)]
    rows = [[visible(cell) for cell in row] for row in table.rows]
    lines = _laid_out(_columns(marks, [names, *rows]), width)
    header, *body = ([*_row_lines(row, lines)] for row in [names, *rows])
    return TableLines(header, [*chain(*body)])


def _columns(marks: Sequence[str], rows: Rows) -> list[_Column]:
    """Return the columns, as wide as the longest of their cells."""
    widths = (max(map(cell_len, cells)) for cells in zip(*rows, strict=True))
    return [_Column(at, *one) for at, one in enumerate(zip(marks, widths, strict=True))]


def _laid_out(columns: list[_Column], width: int | None) -> Lines:
    if width is None:
        return [columns]
    room = width - len(GAP) * (len(columns) - 1)
    needed = sum(one.least for one in columns)
    marks = {one.mark for one in columns}
    if needed <= room or (CUT in marks and TEXT not in marks):
        return [_narrowed(columns, max(room, needed))]
    return _packed(columns, width)


def _narrowed(columns: Sequence[_Column], room: int) -> list[_Column]:
    """Share out the room that is left by the columns that stay whole: who needs less than an equal
    share leaves the rest to the others.
    """
    found = {one.at: one for one in columns}
    giving = sorted((one for one in columns if one.mark in LEAST), key=attrgetter("width"))
    left = room - sum(one.width for one in columns if one not in giving)
    while giving:
        one = giving[0].within(left // len(giving))
        found[one.at], giving = one, giving[1:]
        left -= one.width
    return [*found.values()]


def _packed(columns: Sequence[_Column], width: int) -> Lines:
    """Put as many columns beside each other as a line has room for, and the next ones below. A text
    takes the rest of its line.
    """
    lines: Lines = [[]]
    left = width
    for one in columns:
        if lines[-1] and one.least > left:
            lines.append([])
            left = width - len(INDENT)
        placed = one.within(left)
        lines[-1].append(placed)
        left -= placed.width + len(GAP)
    return lines


def _row_lines(row: Sequence[str], lines: Lines) -> Iterator[str]:
    """Give the lines of a row; none for columns that stand below and have nothing in it."""
    for number, columns in enumerate(lines):
        if number and not any(row[one.at] for one in columns):
            continue
        indent = INDENT if number else ""
        for parts in zip_longest(*(one.lines(row[one.at]) for one in columns), fillvalue=""):
            yield f"{indent}{GAP.join(map(_Column.padded, columns, parts))}".rstrip()


def _wrapped(text: str, width: int) -> list[str]:
    """Break a text between its words, and words that are longer than a line."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines += chop_cells(word, width)
    return lines if lines[0] else lines[1:] or [""]
