"""The lanes of a timeline as lines of text, and as one SVG drawing as high as all rows."""

from __future__ import annotations

from collections.abc import Sequence

from mongomem.display.lanes import Branch, Layout
from mongomem.display.markup import Html, element
from mongomem.display.thread_history import Step

ROW, LANE, RADIUS = 31, 20, 5.5
"""Height of a row, width of a lane, radius of a step, in pixels."""

COLOURS = ("#3b82f6", "#16a34a", "#a855f7", "#db2777", "#0891b2", "#84a30f")
"""Of the branches, in turn: of a mid tone, which shows on white and on black."""

ASKED = "#fbbf24"
"""The middle of a step at which a node asked something."""


def colour_of(branch: Branch) -> str:
    """Choose the colour of a branch."""
    return COLOURS[branch.number % len(COLOURS)]


def text_rail(row: int, layout: Layout) -> str:
    """Draw the lanes of one row: a dot for the step, lines for those that pass, an arc for each
    fork that leaves.
    """
    passing = layout.passing[row]
    forks = {branch.lane for branch in layout.forks(row)}
    own, last = layout.of_row[row].lane, max(forks, default=-1)
    signs = []
    for lane in range(layout.lanes):
        crosses = own < lane < last
        sign = _sign(lane == own, lane in forks, lane in passing, crosses)
        signs.append(sign + ("─" if own <= lane < last else " "))
    return "".join(signs).rstrip()


def _sign(is_own: bool, is_fork: bool, passes: bool, crosses: bool) -> str:
    if is_own:
        return "●"
    if is_fork:
        return "┬" if crosses else "╮"
    if passes:
        return "┼" if crosses else "│"
    return "─" if crosses else " "


def width_of(layout: Layout) -> int:
    """Return how wide the drawing is, in pixels."""
    return LANE * layout.lanes


def drawing(steps: Sequence[Step], layout: Layout) -> Html:
    """Draw the lanes of all rows: lines and arcs first, the steps over them.

    It is as wide as it is drawn, also where a notebook narrows drawings: JupyterLab 4 gives every
    ``svg`` a ``max-width`` of 100%, of which nothing is left in a cell that holds nothing else.
    """
    width, height = width_of(layout), ROW * len(steps)
    lines = [_line(branch, layout) for branch in layout.branches]
    dots = [_dot(step, row, layout.of_row[row]) for row, step in enumerate(steps)]
    return element(
        "svg",
        *lines,
        *dots,
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        style="display:block;max-width:none",
    )


def _line(branch: Branch, layout: Layout) -> Html:
    """Draw the line of a branch: an arc from where it leaves, then straight down."""
    course = f"{_beginning(branch, layout)}V{_y(branch.rows[-1])}"
    return element("path", d=course, fill="none", stroke=colour_of(branch), stroke_width=2.5)


def _beginning(branch: Branch, layout: Layout) -> str:
    """Begin the course of a line: at its first step, above it where the history is cut, or at the
    step of another branch.
    """
    x = _x(branch.lane)
    if branch.origin is None:
        above = ROW / 2 if branch.is_cut else 0
        return f"M{x} {_y(branch.rows[0]) - above}"
    left, top = _x(layout.of_row[branch.origin].lane), _y(branch.origin)
    return f"M{left} {top}C{x} {top} {x} {top + ROW / 3} {x} {top + ROW}"


def _dot(step: Step, row: int, branch: Branch) -> Html:
    """Draw a step: in the colour of its branch, or as a ring where a node asked something."""
    colour = colour_of(branch)
    return element(
        "circle",
        cx=_x(branch.lane),
        cy=_y(row),
        r=RADIUS,
        fill=ASKED if step.interrupts else colour,
        stroke=colour,
        stroke_width=2.5,
    )


def _x(lane: int) -> float:
    return LANE * (lane + 0.5)


def _y(row: int) -> float:
    return ROW * (row + 0.5)
