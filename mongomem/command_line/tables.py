"""Tables as lines: as wide as what they hold, or as a terminal is. Pure.

What a cell names is what the next command takes, so a name, a time or a number is never broken. In
a narrow terminal texts give way first. Where that is not enough, the columns that have no room left
stand below the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

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

Rows = Sequence[Sequence[str]]


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
        mark: One of `NUMBER`, `TEXT` and `CUT`, or empty.
        width: How many places a cell has.
    """

    mark: str
    width: int

    @property
    def least(self) -> int:
        """How many places it needs beside others."""
        return min(self.width, LEAST.get(self.mark, self.width))

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


def lines_of(table: Table, width: int | None) -> TableLines:
    """Return the lines of a table.

    Args:
        table: The table.
        width: How many places a line has; None: as many as it needs.
    """
    marks = [one[0] if one[:1] in (NUMBER, TEXT, CUT) else "" for one in table.columns]
    names = [one.removeprefix(mark) for one, mark in zip(table.columns, marks, strict=True)]
    rows = [[visible(cell) for cell in row] for row in table.rows]
    whole = [
        _Column(mark, max(map(cell_len, cells)))
        for mark, cells in zip(marks, zip(names, *rows, strict=True), strict=True)
    ]
    columns, groups = _laid_out(whole, width)
    header = [*_row_lines(names, columns, groups)]
    return TableLines(header, [line for row in rows for line in _row_lines(row, columns, groups)])


def _laid_out(
    columns: Sequence[_Column], width: int | None
) -> tuple[Sequence[_Column], Sequence[Sequence[int]]]:
    """Return the columns as wide as they may be, and which of them stand beside each other."""
    beside = range(len(columns))
    if width is None:
        return columns, [beside]
    room = width - len(GAP) * (len(columns) - 1)
    needed = sum(one.least for one in columns)
    marks = {one.mark for one in columns}
    if needed <= room or (CUT in marks and TEXT not in marks):
        return _narrowed(columns, max(room, needed)), [beside]
    return _packed(columns, width)


def _narrowed(columns: Sequence[_Column], room: int) -> list[_Column]:
    """Share out the room that is left by the columns that stay whole: who needs less than an equal
    share leaves the rest to the others.
    """
    found = [*columns]
    giving = sorted((one.width, at) for at, one in enumerate(columns) if one.mark in LEAST)
    left = room - sum(one.width for one in columns if one.mark not in LEAST)
    for rank, (needed, at) in enumerate(giving):
        width = min(needed, left // (len(giving) - rank))
        found[at], left = _Column(columns[at].mark, width), left - width
    return found


def _packed(
    columns: Sequence[_Column], width: int
) -> tuple[Sequence[_Column], Sequence[Sequence[int]]]:
    """Put as many columns beside each other as a line has room for, and the next ones below. A text
    takes the rest of its line.
    """
    placed: list[_Column] = []
    groups: list[list[int]] = [[]]
    left = width
    for at, one in enumerate(columns):
        if groups[-1] and one.least > left:
            groups.append([])
            left = width - len(INDENT)
        own = _Column(TEXT, min(one.width, max(left, 1))) if one.mark == TEXT else one
        placed.append(own)
        groups[-1].append(at)
        left -= own.width + len(GAP)
    return placed, groups


def _row_lines(
    row: Sequence[str], columns: Sequence[_Column], groups: Sequence[Sequence[int]]
) -> Iterator[str]:
    """Give the lines of a row; none for columns that stand below and have nothing in it."""
    for number, group in enumerate(groups):
        if number and not any(row[at] for at in group):
            continue
        own = [columns[at] for at in group]
        cells = [columns[at].lines(row[at]) for at in group]
        for parts in zip_longest(*cells, fillvalue=""):
            padded = (one.padded(part) for one, part in zip(own, parts, strict=True))
            yield f"{INDENT if number else ''}{GAP.join(padded)}".rstrip()


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
