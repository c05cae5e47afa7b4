"""Which items may match a filter: the ids that the server listed for it, and what changed since.

A filter that few items match makes the server look into every item of a prefix. The list is good
for later searches by the same filter: an item that it leaves out matches no more than it did, as
long as it does not change, and the index meets every change. So the changed items are added, and
the list stays a superset of what matches. The caller reads and filters what it takes from it.

An item that was deleted or has expired stays in the lists: reading it finds that out, and how long
that can go on is bounded like the lists are.

Filters of one kind, which differ in what they compare with only, are taken to match about as many
items. So where one matched few, the next one's list is asked for at once.

A list is good for a minute only. Somebody who reads from secondaries may get the list from one that
is behind the one whose changes are in the index.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

MOST_FILTERS = 16
"""The least recently used list is dropped first."""

VALID_SECONDS = 60.0

LARGEST_SHARE = 4
"""Of a list with more than one of so many items nothing is gained: among the best items of all
there are as many that match."""

ID_BYTES = 200
"""About what Python keeps for an id in a list."""


@dataclass(frozen=True, slots=True)
class ListedIds:
    """The list of a filter, and until when of the monotonic clock it is good."""

    ids: set[str]
    valid_until: float


@dataclass(slots=True)
class MatchingIds:
    """Lists of ids by the name of a filter. Not safe for concurrent use."""

    _lists: OrderedDict[bytes, ListedIds] = field(default_factory=OrderedDict)
    _selective: OrderedDict[bytes, None] = field(default_factory=OrderedDict)

    @property
    def size(self) -> int:
        """Bytes held, about."""
        return ID_BYTES * sum(len(listed.ids) for listed in self._lists.values())

    def get(self, filter: bytes, now: float) -> set[str] | None:
        """Return a copy of the list of a filter; None where there is none that is good."""
        self._drop_old(now)
        listed = self._lists.get(filter)
        if listed is None:
            return None
        self._lists.move_to_end(filter)
        return {*listed.ids}

    def note(self, filter: bytes, ids: Iterable[str], now: float, item_count: int) -> None:
        """Keep the list of a filter, if it is short beside the number of all items."""
        self._drop_old(now)
        self._lists[filter] = ListedIds({*ids}, now + VALID_SECONDS)
        self._lists.move_to_end(filter)
        if len(self._lists) > MOST_FILTERS:
            self._lists.popitem(last=False)
        self._drop_long(item_count)

    def is_selective(self, kind: bytes) -> bool:
        """Say whether the last filter of a kind whose list was read matched few items."""
        return kind in self._selective

    def note_kind(self, kind: bytes, count: int, item_count: int) -> None:
        """Remember of the kind of a filter whether it matched few of all items."""
        self._selective.pop(kind, None)
        if LARGEST_SHARE * count <= item_count:
            self._selective[kind] = None
        if len(self._selective) > MOST_FILTERS:
            self._selective.popitem(last=False)

    def add_changed(self, ids: Iterable[str], item_count: int) -> None:
        """Add items that have changed to all lists, and drop those that are long then."""
        if not self._lists:
            return
        changed = {*ids}
        for listed in self._lists.values():
            listed.ids.update(changed)
        self._drop_long(item_count)

    def _drop_old(self, now: float) -> None:
        """Drop the lists that are no longer good: each would take up what changes, and memory."""
        for name, listed in [*self._lists.items()]:
            if listed.valid_until <= now:
                del self._lists[name]

    def _drop_long(self, item_count: int) -> None:
        for name, listed in [*self._lists.items()]:
            if LARGEST_SHARE * len(listed.ids) > item_count:
                del self._lists[name]
