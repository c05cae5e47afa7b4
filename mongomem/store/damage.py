"""Which items of a store are damaged: left out where many are asked for, and told to whoever runs
the application.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field

LOGGER = logging.getLogger("mongomem")

MOST_KEPT = 100_000
"""Damaged items that are told apart. Beyond these none is logged or counted any more."""


@dataclass(slots=True)
class Damage:
    """What a store has met of damaged items, and of paths that name no namespace."""

    _met: dict[bytes, object] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many different ones were met."""
        return len(self._met)

    def note(self, name: str, consequence: str) -> None:
        """Log what is damaged, by a name of its own, and what follows from it: once for each
        name.
        """
        if len(self._met) >= MOST_KEPT:
            return
        mine = object()
        if (
            self._met.setdefault(
                hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest(),
                mine,
            )
            is mine
        ):
            LOGGER.warning("%s", consequence)
