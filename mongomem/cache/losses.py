"""What a cache could not read, keep or reach. It forgets that, and says so once."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from mongomem.arguments import shown

LOGGER = logging.getLogger("mongomem")

MOST_KEPT = 100_000
"""How many entries are counted, and how many reasons are told, at most."""


@dataclass(slots=True)
class Losses:
    """What a cache has lost so far.

    A loss is told once for a namespace and a reason: a node whose results cannot be read has a new
    entry for every input.
    """

    _unreadable: set[bytes] = field(default_factory=set)
    _told: set[tuple[tuple[str, ...], str]] = field(default_factory=set)
    _is_unreachable: bool = False

    @property
    def unreadable_count(self) -> int:
        """How many different entries could not be read so far."""
        return len(self._unreadable)

    def note_unreadable(
        self, entry: bytes, namespace: tuple[str, ...], key: str, error: Exception
    ) -> None:
        """Note that the entry with this `_id` counts as absent."""
        if len(self._unreadable) < MOST_KEPT:
            self._unreadable.add(entry)
        self._tell(namespace, str(error), f"a miss in the cache: key {shown(key)}")

    def note_too_large(self, namespace: tuple[str, ...], key: str) -> None:
        """Note that an entry does not fit into a document."""
        reason = "it is larger than a document of MongoDB, 16 MB"
        self._tell(namespace, reason, f"not kept in the cache: key {shown(key)}")

    def note_refused(self, namespace: tuple[str, ...], key: str) -> None:
        """Note that a small server has no room in memory for a write of this size."""
        reason = "the server refused a write of this size (TransactionTooLargeForCache)"
        self._tell(namespace, reason, f"not kept in the cache: key {shown(key)}")

    def note_unreachable(self, error: Exception) -> None:
        """Note that no server answered; the next time is told after one has."""
        if not self._is_unreachable:
            self._is_unreachable = True
            LOGGER.warning(
                "the cache cannot be reached, and answers with misses: %s", shown(str(error))
            )

    def note_reached(self) -> None:
        """Note that a server answered."""
        self._is_unreachable = False

    def _tell(self, namespace: tuple[str, ...], reason: str, what: str) -> None:
        place = namespace, reason
        if place not in self._told and len(self._told) < MOST_KEPT:
            self._told.add(place)
            LOGGER.warning("%s of %s: %s", what, shown(namespace), reason)
