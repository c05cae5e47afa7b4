"""The damaged documents that a saver or a store has met: counted, and each logged once."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mongomem.errors import CorruptDataError, SchemaVersionError

LOGGER = logging.getLogger("mongomem")

UNREADABLE = (CorruptDataError, SchemaVersionError)
"""What listings leave out: what is damaged, and what a newer mongomem wrote."""

MOST_NOTED = 100_000
"""How many documents are noted. Further ones are neither logged nor counted."""


@dataclass(slots=True)
class Damage:
    """The damaged documents that were met, by digests of their names."""

    _met: dict[bytes, object] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many different ones were met so far."""
        return len(self._met)

    def note(self, name: str, consequence: str) -> None:
        """Log the consequence of something damaged, once for each name."""
        if len(self._met) >= MOST_NOTED:
            return
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        mine = object()
        if self._met.setdefault(digest, mine) is mine:
            LOGGER.warning("%s", consequence)

    @contextmanager
    def left_out(self, id: object) -> Iterator[None]:
        """Go on where the document with this `_id`, of any type, is `UNREADABLE`."""
        try:
            yield
        except UNREADABLE as error:
            self.note(repr(id), f"left out: {error}")
