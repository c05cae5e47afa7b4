"""The terms of the items below one namespace prefix, in memory: what BM25 is computed from.

An item has a *slot*. Slot 0 is that of all items without terms. A slot is not used again before the
index is packed, so terms of an item that was replaced or removed stay in the arrays until then and
count nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mongomem.store.words.bm25 import Hashes, TermStatistics, WordQuery, find_terms
from mongomem.store.words.stored_terms import are_terms, decode_terms

NO_SLOT = 0
SLOT_BYTES = 160
"""About what is kept for an item with terms, beside them."""

TERM_BYTES = 9

Slots = npt.NDArray[np.int32]


@dataclass(slots=True)
class TermIndex:
    """Terms of items. Not safe for concurrent use.

    Attributes:
        mark: That of the analyser; items whose terms another one found have none here.
    """

    mark: bytes | None
    _hashes: Hashes = field(init=False)
    _counts: npt.NDArray[np.uint8] = field(init=False)
    _owners: Slots = field(init=False)
    _lengths: npt.NDArray[np.float32] = field(init=False)
    _slots: dict[str, int] = field(default_factory=dict)
    _used: int = 0
    _next_slot: int = 1
    _dead: int = 0

    def __post_init__(self) -> None:
        self._hashes, self._counts = np.empty(0, np.uint32), np.empty(0, np.uint8)
        self._owners, self._lengths = np.empty(0, np.int32), np.zeros(1, np.float32)

    @property
    def size(self) -> int:
        """Bytes held, about."""
        return TERM_BYTES * len(self._hashes) + SLOT_BYTES * len(self._slots)

    def slots(self, ids: Sequence[str]) -> list[int]:
        """Return the slots of items."""
        find = self._slots.get
        return [find(item, NO_SLOT) for item in ids]

    def add(self, stored: Mapping[str, tuple[Any, Any]]) -> None:
        """Add items that are not here, given as their stored terms and codes."""
        if self.mark is None:
            return
        sound = {
            item: terms
            for item, (terms, codes) in stored.items()
            if terms is not None and are_terms(terms, self.mark, codes)
        }
        if not sound:
            return
        terms = decode_terms([*sound.values()])
        first = self._next_slot
        self._slots.update(zip(sound, range(first, first + len(sound)), strict=True))
        self._next_slot += len(sound)
        owners = np.repeat(np.arange(first, self._next_slot, dtype=np.int32), terms.sizes)
        self._reserve(len(owners), self._next_slot)
        place = slice(self._used, self._used + len(owners))
        self._hashes[place], self._counts[place] = terms.hashes, terms.counts
        self._owners[place] = owners
        self._lengths[first : self._next_slot] = terms.lengths()
        self._used += len(owners)

    def remove(self, id: str) -> None:
        """Remove an item, if it is here."""
        slot = self._slots.pop(id, NO_SLOT)
        if slot != NO_SLOT:
            self._lengths[slot] = -1
            self._dead += 1

    def pack(self) -> Slots | None:
        """Give up the room of removed items where they are more than the others; return the new
        slot of each old one, or None where nothing changed.
        """
        if self._dead <= len(self._slots) + 1000:
            return None
        old = np.fromiter(self._slots.values(), np.int64, len(self._slots))
        moved = np.zeros(self._next_slot, np.int32)
        moved[old] = np.arange(1, len(old) + 1)
        owners = moved[self._owners[: self._used]]
        kept = np.flatnonzero(owners)
        self._hashes, self._counts = (
            self._hashes[: self._used][kept],
            self._counts[: self._used][kept],
        )
        self._owners, self._used = owners[kept], len(kept)
        self._lengths = np.concatenate([self._lengths[:1], self._lengths[old]])
        self._slots = dict(zip(self._slots, range(1, len(old) + 1), strict=True))
        self._next_slot, self._dead = len(old) + 1, 0
        return moved

    def statistics(self, hashes: Hashes) -> TermStatistics:
        """Count the items that have each of some terms."""
        places, terms = find_terms(hashes, self._hashes[: self._used])
        alive = self._lengths[self._owners[places]] >= 0
        frequencies = np.bincount(terms[alive], minlength=len(hashes))
        lengths = self._lengths[1 : self._next_slot]
        return TermStatistics(len(self._slots), float(lengths[lengths > 0].sum()), frequencies)

    def scores(self, query: WordQuery) -> npt.NDArray[np.float32]:
        """Score all slots: float32 of shape (slots,)."""
        places, terms = find_terms(query.hashes, self._hashes[: self._used])
        owners = self._owners[places]
        parts = query.parts(terms, self._counts[places], self._lengths[owners])
        scores = np.bincount(owners, parts, minlength=self._next_slot)
        return np.minimum(scores, 1).astype(np.float32)

    def holding(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Say of each slot whether it has all of some terms, or is that of items without terms."""
        places, _ = find_terms(hashes, self._hashes[: self._used])
        counts = np.bincount(self._owners[places], minlength=self._next_slot)
        found: npt.NDArray[np.bool_] = counts == len(hashes)
        found[NO_SLOT] = True
        return found

    def _reserve(self, terms: int, slots: int) -> None:
        """Make room for more terms, and for slots up to a number."""
        wanted = self._used + terms
        if wanted > len(self._hashes):
            room = max(wanted, len(self._hashes) * 3 // 2) if self._used else wanted
            self._hashes = _grown(self._hashes, room)
            self._counts = _grown(self._counts, room)
            self._owners = _grown(self._owners, room)
        if slots > len(self._lengths):
            self._lengths = _grown(self._lengths, max(slots, len(self._lengths) * 3 // 2))


def _grown(array: Any, size: int) -> Any:
    grown = np.empty(size, dtype=array.dtype)
    grown[: len(array)] = array
    return grown
