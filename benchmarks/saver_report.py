"""Tables of what was measured, with the goals beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Compared:
    """A number that says how mongomem does; where it has a limit, it must not be above that.

    Attributes:
        to: What mongomem's number is divided by, e.g. "/ official".
    """

    to: str
    measured: float
    limit: float | None = None

    @property
    def is_met(self) -> bool:
        return self.limit is None or self.measured <= self.limit

    def text(self) -> str:
        """Return the number, and where there is a goal that and the verdict."""
        number = f"{self.to:<14} {self.measured:6.2f}"
        verdict = "PASS" if self.is_met else "FAIL"
        return number if self.limit is None else f"{number}  goal {self.limit:5.2f}  {verdict}"


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: the number of every saver that has one, and what is asked of it."""

    label: str
    values: Mapping[str, float]
    compared: Sequence[Compared] = ()
    digits: int = 1


@dataclass(slots=True)
class Section:
    """Rows under one heading, with a remark on how they were measured."""

    heading: str
    remark: str = ""
    rows: list[Row] = field(default_factory=list)

    @property
    def goals(self) -> list[Compared]:
        return [one for row in self.rows for one in row.compared if one.limit is not None]

    def lines(self, columns: Sequence[str]) -> Iterator[str]:
        """Draw the section as a table."""
        width = max([26, *(len(row.label) for row in self.rows)])
        yield ""
        yield f"{self.heading:<{width}}" + "".join(f"{column:>13}" for column in columns)
        for row in self.rows:
            cells = "".join(
                f"{_number(row.values.get(column), row.digits):>13}" for column in columns
            )
            first, *others = [one.text() for one in row.compared] or [""]
            yield f"{row.label:<{width}}{cells}   {first}".rstrip()
            yield from (" " * (width + 13 * len(columns) + 3) + other for other in others)
        if self.remark:
            yield f"  ({self.remark})"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def verdict(sections: Sequence[Section]) -> str:
    """Return the line that sums up."""
    goals = [goal for section in sections for goal in section.goals]
    met = sum(goal.is_met for goal in goals)
    return f"{met} of {len(goals)} goals reached"
