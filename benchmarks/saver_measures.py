"""What is measured of the chats, and how: in one process, so that what disturbs one disturbs
all.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from saver_chat import Chat, Saver, Taken
from saver_notes import list_notes, write_notes
from saver_peers import Opened, Size

Values = dict[str, float]
"""A number of each saver, by its name."""

BLOCK = 25
"""Turns that one saver plays before the next one does, while the chats grow."""

HISTORY = 30
"""Checkpoints of a history."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a run is.

    Attributes:
        sizes: The turns after which sizes are taken; the last of them is how far the chats grow
            turn by turn.
        windows: The turns around which the time of a turn is measured, among those that grow.
        seeded: A turn that is reached by one large update of the state and not turn by turn.
        half: How many turns a window has on either side of its middle.
        repeats: How often each read is timed.
        listed: Checkpoints in the long listing.
        large: Megabytes of the large state.
    """

    sizes: tuple[int, ...]
    windows: tuple[int, ...]
    seeded: int
    half: int = 12
    repeats: int = 15
    listed: int = 1000
    large: int = 100

    @classmethod
    def of(cls, turns: int, quick: bool) -> Scale:
        """Return the scale of a run to so many turns."""
        sizes = tuple(dict.fromkeys(max(1, turns // share) for share in (8, 4, 2, 1)))
        windows = tuple(dict.fromkeys((min(20, turns), turns)))
        if quick:
            return cls(sizes, windows, turns * 5 // 2, half=3, repeats=3, listed=100, large=4)
        return cls(sizes, windows, turns * 5 // 2)

    @property
    def grown(self) -> int:
        return self.sizes[-1]

    @property
    def last(self) -> int:
        return self.seeded + self.half

    def window(self, middle: int) -> range:
        """Return the turns around `middle`, none before the second."""
        return range(max(2, middle - self.half), middle + self.half + 1)

    @property
    def interleaved(self) -> frozenset[int]:
        """Return the turns of all windows."""
        return frozenset(
            turn for middle in (*self.windows, self.seeded) for turn in self.window(middle)
        )


@dataclass(slots=True)
class Growth:
    """The chats, side by side, and what every turn took.

    Outside the windows a saver plays a block of turns before the next one does, and inside them
    they play turn by turn, so that what disturbs the machine disturbs all alike. Before a window
    the servers settle.
    """

    opened: Sequence[Opened]
    chats: Sequence[Chat]
    interleaved: frozenset[int]
    played: int = 0
    taken: dict[str, dict[int, Taken]] = field(default_factory=dict)

    def advance(self, turn: int) -> None:
        """Play up to a turn."""
        while self.played < turn:
            if self.played + 1 in self.interleaved:
                self._round()
            else:
                self._block(turn)

    def jump(self, turn: int) -> None:
        """Reach a turn by one update of each state."""
        for chat in self.chats:
            chat.jump(self.played, turn)
        self.played = turn

    def wall(self, turns: range) -> Values:
        """Return the median time of these turns, in seconds."""
        return {
            name: statistics.median(taken[turn].wall for turn in turns)
            for name, taken in self.taken.items()
        }

    def cpu(self, turns: range) -> Values:
        """Return the median computing time of these turns, in seconds."""
        return {
            name: statistics.median(taken[turn].cpu for turn in turns)
            for name, taken in self.taken.items()
        }

    def _round(self) -> None:
        turn = self.played + 1
        if self.played not in self.interleaved:
            settle(self.opened)
        for offset in range(len(self.chats)):
            self._play(self.chats[(turn + offset) % len(self.chats)], turn)
        self.played = turn

    def _block(self, until: int) -> None:
        ahead = range(self.played + 1, min(until, self.played + BLOCK) + 1)
        turns = list(itertools.takewhile(lambda turn: turn not in self.interleaved, ahead))
        for chat in self.chats:
            for turn in turns:
                self._play(chat, turn)
        self.played = turns[-1]

    def _play(self, chat: Chat, turn: int) -> None:
        self.taken.setdefault(chat.name, {})[turn] = chat.play(turn)


def settle(opened: Sequence[Opened]) -> None:
    """Have every server write what it has put off: the data of one saver must not burden the next
    one's turn.
    """
    for one in opened:
        one.settle()


def sizes(opened: Sequence[Opened]) -> dict[str, Size]:
    return {one.name: one.size() for one in opened}


def repeated(repeats: int, names: Sequence[str], measure: Callable[[str], float]) -> Values:
    """Return the median of a measure for each saver, taken in turns, the first time for nothing."""
    found: Mapping[str, list[float]] = {name: [] for name in names}
    for repeat in range(repeats + 1):
        for name in names:
            seconds = measure(name)
            if repeat:
                found[name].append(seconds)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


@dataclass(frozen=True, slots=True)
class Reads:
    """Times of the reads after a turn, in seconds: with the saver that played, and with one that
    has read nothing.
    """

    state_warm: Values
    history_warm: Values
    state_cold: Values
    history_cold: Values


def reads(growth: Growth, repeats: int) -> Reads:
    """Time reads of the state and of the history."""
    settle(growth.opened)
    chats = {chat.name: chat for chat in growth.chats}
    fresh = {one.name: one.fresh for one in growth.opened if one.fresh is not None}
    limit, turn = min(HISTORY, growth.played), growth.played

    def cold(name: str) -> Chat:
        saver: Saver = fresh[name]()
        return chats[name].with_saver(saver)

    return Reads(
        repeated(repeats, list(chats), lambda name: chats[name].state(turn)),
        repeated(max(3, repeats // 2), list(chats), lambda name: chats[name].history(turn, limit)),
        repeated(repeats, list(fresh), lambda name: cold(name).state(turn)),
        repeated(max(3, repeats // 2), list(fresh), lambda name: cold(name).history(turn, limit)),
    )


def listing_of_notes(opened: Sequence[Opened], checkpoints: int) -> Values:
    """Time the listing of many small checkpoints, with savers that have read nothing where there
    are such.
    """
    for one in opened:
        write_notes(one.saver, checkpoints)
    settle(opened)
    savers = {one.name: one.fresh or (lambda one=one: one.saver) for one in opened}
    return repeated(3, list(savers), lambda name: list_notes(name, savers[name](), checkpoints))


def listing_of_chats(growth: Growth, checkpoints: int) -> Values:
    """Time the listing of the newest checkpoints of the chats, once."""
    settle(growth.opened)
    return {chat.name: chat.listing(checkpoints) for chat in growth.chats}
