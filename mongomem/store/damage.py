"""Which damaged items a store has met. They are left out of results and logged once."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field

LOGGER = logging.getLogger("mongomem")

MOST_KEPT = 100_000
"""How many damaged items are counted. Further ones are neither logged nor counted."""


@dataclass(slots=True)
class Damage:
    """The damaged items that a store has met, and the paths that name no namespace."""

    _met: dict[bytes, object] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many different ones were met so far."""
        return len(self._met)

    def note(self, name: str, consequence: str) -> None:
        """Log the consequence of something damaged, once for each name."""
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
