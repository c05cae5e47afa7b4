"""In which column, or lane, each step of a history stands, and where branches leave.

Steps stand one a row, oldest first. The first child of a step goes on in its lane; every further
child is a fork, and begins a branch in a lane of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mongomem.display.thread_history import Step


@dataclass(slots=True, eq=False)
class Branch:
    """Steps that follow one another.

    Attributes:
        number: Which branch it is, in the order in which they begin.
        origin: The row of the step that it leaves from; None where that is not shown.
        rows: The rows of its steps, in order.
        is_cut: Its first step has a parent that is not shown.
        lane: Its column, counted from 0.
    """

    number: int
    origin: int | None
    is_cut: bool
    rows: list[int] = field(default_factory=list)
    lane: int = 0

    @property
    def span(self) -> range:
        """The rows in which its lane is taken: from where it leaves to its last step."""
        first = self.rows[0] if self.origin is None else self.origin
        return range(first, self.rows[-1] + 1)

    def passes(self, row: int) -> bool:
        """Say whether its line is in a row, below where it leaves."""
        return row in self.span and row != self.origin

    def meets(self, other: Branch) -> bool:
        """Say whether two branches are in one row."""
        return bool(set(self.span) & set(other.span))


@dataclass(frozen=True, slots=True)
class Layout:
    """The branches of a history, and by its row the branch of every step."""

    branches: Sequence[Branch]
    of_row: Sequence[Branch]

    @property
    def lanes(self) -> int:
        """How many lanes there are."""
        return 1 + max((branch.lane for branch in self.branches), default=-1)

    def origin(self, row: int) -> int | None:
        """Return the row that a step is a fork of; None for one that goes on in its lane."""
        branch = self.of_row[row]
        return branch.origin if branch.rows[0] == row else None

    def forks(self, row: int) -> list[Branch]:
        """List the branches that leave a step."""
        return [branch for branch in self.branches if branch.origin == row]


def layout_of(steps: Sequence[Step]) -> Layout:
    """Lay the steps of a history out: every step is in one branch, and no two branches share a lane
    in any row.
    """
    layout = _chains(steps)
    for branch in layout.branches:
        others = [other for other in layout.branches[: branch.number] if other.meets(branch)]
        taken = {other.lane for other in others}
        branch.lane = next(lane for lane in range(len(steps)) if lane not in taken)
    return layout


def _chains(steps: Sequence[Step]) -> Layout:
    """Split steps into chains of first children, in the order in which these begin."""
    row_of = {step.id: row for row, step in enumerate(steps)}
    chains: list[Branch] = []
    of_row: list[Branch] = []
    for row, step in enumerate(steps):
        parent = row_of.get(step.parent_id or "")
        branch = None if parent is None else of_row[parent]
        if branch is None or branch.rows[-1] != parent:
            is_cut = parent is None and step.parent_id is not None
            branch = Branch(len(chains), parent, is_cut)
            chains.append(branch)
        branch.rows.append(row)
        of_row.append(branch)
    return Layout(chains, of_row)
