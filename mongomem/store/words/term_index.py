"""The terms of the items below one namespace prefix, in memory: what BM25 is computed from.

An item has a *slot*. Slot 0 is that of all items without terms. A slot is not used again before the
index is packed, so terms of an item that was replaced or removed stay in the arrays until then and
count nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mongomem.store.words.bm25 import Hashes, TermStatistics, WordQuery
from mongomem.store.words.occurrences import Growing, Occurrences, Slots
from mongomem.store.words.stored_terms import DecodedTerms, decode_terms

NO_SLOT = 0

REMOVED = -1.0
"""The length of an item that was removed."""

SLOT_BYTES = 160
"""About what is kept for an item with terms, beside them."""

FEW_REMOVED = 1_000
"""So many removed items are never packed."""


@dataclass(slots=True)
class TermIndex:
    """Terms of items. Not safe for concurrent use.

    Attributes:
        mark: That of the analyser; items whose terms another one found have none here.
    """

    mark: bytes | None
    _occurrences: Occurrences = field(default_factory=Occurrences)
    _lengths: Growing = field(default_factory=lambda: Growing.of((0,), np.float32))
    _slots: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes held, about."""
        return self._occurrences.size + SLOT_BYTES * len(self._slots)

    def slots(self, ids: Sequence[str]) -> list[int]:
        """Return the slots of items."""
        find = self._slots.get
        return [find(item, NO_SLOT) for item in ids]

    def add(self, ids: Sequence[str], terms: Sequence[Any], codes: Sequence[Any]) -> None:
        """Add items that are not here, given by what is stored as terms and codes of each. Terms
        that are damaged, or of another analyser or another text, are left out.
        """
        if self.mark is None:
            return
        decoded = decode_terms(terms, codes, self.mark)
        if len(decoded.places):
            self._append([ids[place] for place in decoded.places.tolist()], decoded)

    def remove(self, id: str) -> None:
        """Remove an item, if it is here."""
        slot = self._slots.pop(id, NO_SLOT)
        if slot != NO_SLOT:
            self._lengths.values[slot] = REMOVED

    def pack(self) -> Slots | None:
        """Give up the room of removed items where they are more than the others; return the new
        slot of each old one, or None where nothing changed.
        """
        if self._lengths.used - 1 <= 2 * len(self._slots) + FEW_REMOVED:
            return None
        old = [NO_SLOT, *self._slots.values()]
        moved = np.full(self._lengths.used, NO_SLOT, dtype=np.int32)
        moved[old] = np.arange(len(old))
        owners = self._occurrences.owners.values
        self._occurrences.keep(np.flatnonzero(moved[owners]), moved)
        self._lengths = Growing(self._lengths.values[old], len(old))
        self._slots = {item: int(moved[slot]) for item, slot in self._slots.items()}
        return moved

    def statistics(self, hashes: Hashes) -> TermStatistics:
        """Count the items that have each of some terms."""
        places, terms = self._occurrences.find(hashes)
        is_here = self._lengths.values[self._occurrences.owners.values[places]] != REMOVED
        frequencies = np.bincount(terms[is_here], minlength=len(hashes))
        total = float(self._lengths.values.clip(min=0).sum(dtype=np.float64))
        return TermStatistics(len(self._slots), total, frequencies)

    def scores(self, query: WordQuery) -> npt.NDArray[np.float32]:
        """Score all slots: float32 of shape (slots,)."""
        places, terms = self._occurrences.find(query.hashes)
        owners = self._occurrences.owners.values[places]
        counts = self._occurrences.counts.values[places]
        parts = query.parts(terms, counts, self._lengths.values[owners])
        scores = np.bincount(owners, parts, minlength=self._lengths.used)
        return np.minimum(scores, 1).astype(np.float32)

    def holding(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Say of each slot whether it has all of some terms, or is that of items without terms."""
        places, _ = self._occurrences.find(hashes)
        owners = self._occurrences.owners.values[places]
        counts = np.bincount(owners, minlength=self._lengths.used)
        found: npt.NDArray[np.bool_] = counts == len(hashes)
        found[NO_SLOT] = True
        return found

    def _append(self, ids: Sequence[str], terms: DecodedTerms) -> None:
        first = self._lengths.used
        slots = np.arange(first, first + len(ids), dtype=np.int32)
        self._slots.update(zip(ids, slots.tolist(), strict=True))
        self._occurrences.append(terms.hashes, terms.counts, np.repeat(slots, terms.sizes))
        self._lengths.append(terms.lengths())
