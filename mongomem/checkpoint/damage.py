"""What a saver has met of damage: told once, and counted. Listings leave it out and go on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mongomem.errors import CorruptDataError, SchemaVersionError

logger = logging.getLogger("mongomem")

UNREADABLE = (CorruptDataError, SchemaVersionError)
"""What listings leave out: what is damaged, and what a newer mongomem wrote."""

MOST = 100_000
"""How many documents are remembered, and so counted, at most."""


class Damage:
    """The documents that listings left out, by their `_id`."""

    def __init__(self) -> None:
        self._met: set[object] = set()

    @property
    def count(self) -> int:
        """How many different ones there were."""
        return len(self._met)

    @contextmanager
    def left_out(self, key: object) -> Iterator[None]:
        """Go on where the document with this `_id` is damaged, or is of a newer mongomem."""
        try:
            yield
        except UNREADABLE as error:
            # The `_id` of a document of another package may be of any type.
            known = key if isinstance(key, bytes) else repr(key)
            if known not in self._met and len(self._met) < MOST:
                self._met.add(known)
                logger.warning("left out of a listing: %s", error)
