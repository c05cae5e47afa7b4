"""What was found, copied and left out, and what differs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from mongomem.migration.parts import LeftOut

MOST_NAMED = 1000
"""How many are named; the others are counted."""


@dataclass(slots=True)
class Count:
    """How many the source has, how many of them were copied, and how many were there before."""

    found: int = 0
    copied: int = 0
    present: int = 0


@dataclass(slots=True)
class Named:
    """Things that are named, and how many there are."""

    count: int = 0
    first: list[LeftOut] = field(default_factory=list)

    def add(self, some: Iterable[LeftOut]) -> None:
        for one in some:
            self.count += 1
            if len(self.first) < MOST_NAMED:
                self.first.append(one)


@dataclass(slots=True)
class Report:
    """What a migration did.

    Attributes:
        threads: How many the source has.
        checkpoints: Those of all threads.
        writes: How many pending writes the source has.
        items: The items.
        left_out: What could not be read or stored.
        compared: How many checkpoints and items were compared.
        differences: What is not the same in the target.
    """

    threads: int = 0
    checkpoints: Count = field(default_factory=Count)
    writes: int = 0
    items: Count = field(default_factory=Count)
    left_out: Named = field(default_factory=Named)
    compared: int = 0
    differences: Named = field(default_factory=Named)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was left out, and nothing differs."""
        return not self.left_out.count and not self.differences.count

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)
