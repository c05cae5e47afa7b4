"""In which column, or lane, each step of a history stands, and where branches leave.

Steps stand one a row, oldest first. The first child of a step goes on in its lane; every further
child is a fork, and begins a branch in a lane of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
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

    @property
    def line(self) -> range:
        """The rows that its line is in, below where it leaves."""
        return self.span if self.origin is None else self.span[1:]


@dataclass(frozen=True, slots=True)
class Layout:
    """The branches of a history, all in their lanes.

    Attributes:
        branches: The branches, in the order in which they begin.
        of_row: The branch of every step, by its row.
        leaving: The branches that leave a step, by its row.
        passing: The lanes with a line, by row.
        lanes: How many lanes there are.
    """

    branches: Sequence[Branch]
    of_row: Sequence[Branch]
    leaving: Mapping[int, Sequence[Branch]]
    passing: Sequence[AbstractSet[int]]
    lanes: int

    @classmethod
    def of(cls, branches: Sequence[Branch], of_row: Sequence[Branch]) -> Layout:
        leaving: dict[int, list[Branch]] = {}
        passing: list[set[int]] = [set() for _ in of_row]
        for branch in branches:
            if branch.origin is not None:
                leaving.setdefault(branch.origin, []).append(branch)
            for row in branch.line:
                passing[row].add(branch.lane)
        lanes = 1 + max((branch.lane for branch in branches), default=-1)
        return cls(branches, of_row, leaving, passing, lanes)

    def origin(self, row: int) -> int | None:
        """Return the row that a step is a fork of; None for one that goes on in its lane."""
        branch = self.of_row[row]
        return branch.origin if branch.rows[0] == row else None

    def forks(self, row: int) -> list[Branch]:
        """List the branches that leave a step."""
        return [*self.leaving.get(row, ())]


def layout_of(steps: Sequence[Step]) -> Layout:
    """Lay the steps of a history out: every step is in one branch, and no two branches share a lane
    in any row.
    """
    branches, of_row = _chains(steps)
    ends: list[int] = []
    for branch in branches:
        branch.lane = _free_lane(ends, branch.span.start)
        ends[branch.lane : branch.lane + 1] = [branch.rows[-1]]
    return Layout.of(branches, of_row)


def _free_lane(ends: Sequence[int], start: int) -> int:
    """Return the first lane that has ended before a row, else a new one. A branch that begins later
    than all others of a lane meets none of them if it starts behind their last row.
    """
    for lane, end in enumerate(ends):
        if end < start:
            return lane
    return len(ends)


def _chains(steps: Sequence[Step]) -> tuple[list[Branch], list[Branch]]:
    """Split steps into chains of first children, in the order in which these begin; return also
    that of every step. A parent that does not stand above its child is not shown as one: where
    clocks differ it may have the higher id.
    """
    row_of: dict[str, int] = {}
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
        row_of[step.id] = row
    return chains, of_row
