"""Which paths have given a text so far. One that never does embeds nothing, and is noticed here."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

MANY = 20
"""After so many items without a text a path may be a mistake. Before, it may be optional."""

MOST_PATHS = 1_000
"""How many paths are counted: items may name paths of their own."""


@dataclass(slots=True)
class Coverage:
    """Counts the items without a text at a path, until one has it. Shared by callers of a store.

    Callers that count at the same time may lose one: then a path is noticed an item later.
    """

    _blank: dict[str, int] = field(default_factory=dict)
    _settled: set[str] = field(default_factory=set)

    def note(self, paths: Iterable[str], found: Collection[str]) -> None:
        """Count an item: the paths to be embedded, and those where a text was found."""
        for path in paths:
            if path in self._settled:
                continue
            if path in found:
                self.settle(path)
            elif path in self._blank or len(self._blank) < MOST_PATHS:
                self._blank[path] = self._blank.get(path, 0) + 1

    def suspects(self, least: int = MANY) -> dict[str, int]:
        """Return the paths without a text in so many items, and how many items they were."""
        return {path: count for path, count in list(self._blank.items()) if count >= least}

    def settle(self, path: str) -> None:
        """Stop counting a path: a text was found, or it was warned of."""
        self._blank.pop(path, None)
        if len(self._settled) < MOST_PATHS:
            self._settled.add(path)
