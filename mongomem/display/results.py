"""What functions of this folder return: an object that a notebook shows and that prints as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, repr=False)
class Rendered:
    """A text, and the HTML that Jupyter shows in its place.

    Attributes:
        text: Lines without a newline at the end.
        html: One element, self-contained.
    """

    text: str
    html: str = field(repr=False)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Put cells under one another: a line for each row, none with spaces at its end."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    ]
