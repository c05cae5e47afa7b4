"""Which item has which term how often, for all items of an index: three arrays side by side.

The terms of what was appended first are held in order too, so a term is found by bisection. What
was appended since is compared with the terms of a query. Where it is much it is put in order, but
not before it was searched for some terms: the first search of an index does not wait for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mongomem.store.words.bm25 import Hashes, Places

FEW_APPENDED, SHARE_APPENDED = 2_000, 8
"""So many occurrences behind the ordered ones, or one for so many ordered ones, are not put in
order."""

FEW_COMPARED = 50
"""Nor is what fewer terms were compared with: comparing so many takes as long as the ordering."""

MOST_COMPARED = 32
"""Up to so many terms of a query are compared with all that is not in order."""

SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")

Slots = npt.NDArray[np.int32]
Array = npt.NDArray[Any]


@dataclass(slots=True)
class Growing:
    """An array that is appended to; its room grows by half."""

    room: Array
    used: int = 0

    @classmethod
    def of(cls, first: Sequence[float], dtype: Any) -> Growing:
        return cls(np.array(first, dtype=dtype), len(first))

    @property
    def values(self) -> Array:
        return self.room[: self.used]

    def append(self, values: Array) -> None:
        wanted = self.used + len(values)
        if wanted > len(self.room):
            grown = np.empty(max(wanted, self.used * 3 // 2), dtype=self.room.dtype)
            grown[: self.used] = self.values
            self.room = grown
        self.room[self.used : wanted] = values
        self.used = wanted


@dataclass(slots=True)
class Occurrences:
    """Terms of items. Not safe for concurrent use."""

    hashes: Growing = field(default_factory=lambda: Growing.of((), np.uint32))
    counts: Growing = field(default_factory=lambda: Growing.of((), np.uint8))
    owners: Growing = field(default_factory=lambda: Growing.of((), np.int32))
    _order: Places = field(default_factory=lambda: np.empty(0, np.intp))
    _ordered: Hashes = field(default_factory=lambda: np.empty(0, np.uint32))
    _compared: int = 0

    @property
    def size(self) -> int:
        """Bytes held."""
        arrays = (self.hashes.room, self.counts.room, self.owners.room, self._order, self._ordered)
        return sum(array.nbytes for array in arrays)

    def append(self, hashes: Hashes, counts: Array, owners: Slots) -> None:
        """Append occurrences, given by term, by number, and by the slot of the item."""
        self.hashes.append(hashes)
        self.counts.append(counts)
        self.owners.append(owners)

    def keep(self, places: Places, moved: Slots) -> None:
        """Keep the occurrences at some places, whose slots have moved."""
        for array in (self.hashes, self.counts, self.owners):
            array.room, array.used = array.values[places], len(places)
        self.owners.room = moved[self.owners.room]
        self._order, self._ordered = np.empty(0, np.intp), np.empty(0, np.uint32)

    def find(self, wanted: Hashes) -> tuple[Places, Places]:
        """Find the occurrences of terms: their places, and which of the terms each is."""
        self._put_in_order(len(wanted))
        starts, ends = (np.searchsorted(self._ordered, wanted, side) for side in SIDES)
        ranges = zip(starts.tolist(), ends.tolist(), strict=True)
        ordered = [self._order[start:end] for start, end in ranges]
        places, terms = find_among(wanted, self.hashes.values[len(self._ordered) :])
        ordered_terms = np.repeat(np.arange(len(wanted)), ends - starts)
        return (
            np.concatenate([*ordered, places + len(self._ordered)]),
            np.concatenate([ordered_terms, terms]),
        )

    def _put_in_order(self, wanted: int) -> None:
        """Put all terms in order where those that are not are many, and were compared with many
        before so many more are wanted.
        """
        count = len(self._ordered)
        if self.hashes.used - count <= FEW_APPENDED + count // SHARE_APPENDED:
            return
        self._compared += wanted
        if self._compared > FEW_COMPARED:
            self._compared = 0
            self._order = np.argsort(self.hashes.values)
            self._ordered = self.hashes.values[self._order]


def find_among(wanted: Hashes, hashes: Hashes) -> tuple[Places, Places]:
    """Find the occurrences of terms in any order: their places, and which of the terms each is.

    A few terms are compared one after the other, which is the fastest; many are looked up.
    """
    if len(wanted) <= MOST_COMPARED:
        found = [np.flatnonzero(hashes == one) for one in wanted]
        terms = np.repeat(np.arange(len(wanted)), [len(places) for places in found])
        return np.concatenate([np.empty(0, np.intp), *found]), terms
    order = np.argsort(wanted)
    nearest = np.searchsorted(wanted, hashes, sorter=order).clip(max=len(wanted) - 1)
    candidates = order[nearest]
    places = np.flatnonzero(wanted[candidates] == hashes)
    return places, candidates[places]
