"""Tables of what was measured, with the goals beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Goal:
    """A number that must not be above its limit.

    Attributes:
        of: What the number is, e.g. "/ official".
    """

    of: str
    measured: float
    limit: float

    @property
    def is_met(self) -> bool:
        return self.measured <= self.limit

    def text(self) -> str:
        """Return the number, its limit and the verdict."""
        verdict = "PASS" if self.is_met else "FAIL"
        return f"{self.of:<14} {self.measured:6.2f}  goal {self.limit:5.2f}  {verdict}"


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: the number of every saver that has one, and what is asked of it."""

    label: str
    values: Mapping[str, float]
    goals: Sequence[Goal] = ()
    digits: int = 1


@dataclass(slots=True)
class Section:
    """Rows under one heading, with a remark on how they were measured."""

    heading: str
    remark: str = ""
    rows: list[Row] = field(default_factory=list)

    @property
    def goals(self) -> list[Goal]:
        return [goal for row in self.rows for goal in row.goals]

    def lines(self, columns: Sequence[str]) -> Iterator[str]:
        """Draw the section as a table."""
        width = max([26, *(len(row.label) for row in self.rows)])
        yield ""
        yield f"{self.heading:<{width}}" + "".join(f"{column:>13}" for column in columns)
        for row in self.rows:
            cells = "".join(f"{_number(row.values.get(column), row.digits):>13}" for column in columns)
            first, *others = [goal.text() for goal in row.goals] or [""]
            yield f"{row.label:<{width}}{cells}   {first}".rstrip()
            yield from (" " * (width + 13 * len(columns) + 3) + goal for goal in others)
        if self.remark:
            yield f"  ({self.remark})"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def verdict(sections: Sequence[Section]) -> str:
    """Return the line that sums up."""
    goals = [goal for section in sections for goal in section.goals]
    met = sum(goal.is_met for goal in goals)
    return f"{met} of {len(goals)} goals reached"
