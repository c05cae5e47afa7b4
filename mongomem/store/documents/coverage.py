"""Which paths have given a text so far, so that one that never does is noticed: it embeds nothing
without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

MANY = 20
"""After so many items without a text at a path it may be a mistake. One of fewer may only be
optional."""

MOST_PATHS = 1_000
"""So many paths are counted, for items may name paths of their own."""


@dataclass(slots=True)
class Coverage:
    """Counts the items without a text at a path, until there is one with it. Shared by the callers
    of a store.

    Callers may count at the same time and lose one: it is noticed an item later then.
    """

    _blank: dict[str, int] = field(default_factory=dict)
    _settled: set[str] = field(default_factory=set)

    def note(self, paths: Iterable[str], found: Collection[str]) -> None:
        """Take in an item: what was to be embedded of it, and where there was a text."""
        for path in paths:
            if path in self._settled:
                continue
            if path in found:
                self.settle(path)
            elif path in self._blank or len(self._blank) < MOST_PATHS:
                self._blank[path] = self._blank.get(path, 0) + 1

    def suspects(self, least: int = MANY) -> dict[str, int]:
        """Return the paths that have given nothing to so many items and never a text, and how many
        they were.
        """
        return {path: count for path, count in list(self._blank.items()) if count >= least}

    def settle(self, path: str) -> None:
        """Count no longer: there is a text, or it was told."""
        self._blank.pop(path, None)
        if len(self._settled) < MOST_PATHS:
            self._settled.add(path)
