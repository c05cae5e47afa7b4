"""The watermark of an index in memory: from which timestamp on changes have to be read again, so
that no write is missed.

The server gives every write a BSON timestamp of its own (``$currentDate`` of type ``timestamp``
ticks the cluster's logical clock, MongoDB 4.4 to 8.2). Every search first reads what has a later
timestamp than the *floor*. A write gets its timestamp a little before it becomes visible, so a
write with a lower timestamp may become visible after one with a higher. Two rules hold for a write
that is not visible yet, if none takes longer than `ALLOWED_LATENESS_SECONDS` from its timestamp to
visibility:

* Its timestamp is at most that much below the highest timestamp seen, and below the server's time
  of day.
* That long after a timestamp was seen, everything below that timestamp is visible.

The first rule gives a floor at once. The time of day is asked for once, by the read that loads an
index. The second rule raises the floor further, to the highest timestamp where writing pauses, so a
search of a namespace at rest reads no document. For it the watermark keeps what was the highest
timestamp at several moments of the last seconds. Clocks of clients have one part only: a timestamp
far ahead of them was not given by a server, and does not raise the floor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bson.timestamp import Timestamp

ALLOWED_LATENESS_SECONDS = 5

SIGHTING_SECONDS = 0.1
"""Least time between two sightings that are kept, so that they are few: about 50."""

LOWEST_TIMESTAMP = Timestamp(0, 1)
"""Below every timestamp of a write. (0, 0) means "now" to mongomock, and to a server on insert."""

MAX_DRIFT_SECONDS = 366 * 24 * 3600
"""How far a server's logical clock may be ahead of its time of day
(``maxAcceptableLogicalClockDriftSecs``, MongoDB 4.4 to 8.2)."""

MAX_SECOND = 2**32 - 1
"""The last second of a BSON timestamp."""

HIGHEST_TIMESTAMP = Timestamp(MAX_SECOND, 0)


def latest_timestamp(unix_time: float) -> Timestamp:
    """Return the highest timestamp that a server may give until a time, in seconds since 1970."""
    return Timestamp(min(MAX_SECOND, int(unix_time) + MAX_DRIFT_SECONDS), 0)


def settled_at(second: int) -> Timestamp:
    """Return the timestamp up to which everything is visible once one of a second was given."""
    return Timestamp(max(0, second - ALLOWED_LATENESS_SECONDS), 0)


@dataclass(frozen=True, slots=True)
class ChangeRead:
    """A read of what has changed above the floor.

    Attributes:
        timestamps: All timestamps above the floor that it found. Those that an earlier read found
            may be left out.
        began: When it began, in seconds of the monotonic clock.
        ended: When it ended.
        server_time: The server's time of day before it, in seconds since 1970; 0 where it is not
            known.
        latest: See `latest_timestamp`. Higher timestamps do not count.
    """

    timestamps: Sequence[Timestamp]
    began: float
    ended: float
    server_time: int = 0
    latest: Timestamp = HIGHEST_TIMESTAMP


class Sighting(NamedTuple):
    """A timestamp that was the highest one seen at a moment.

    Attributes:
        settled_at: A time of the monotonic clock, in seconds. A read that begins then or later sees
            every write up to the timestamp.
    """

    timestamp: Timestamp
    settled_at: float


@dataclass(slots=True)
class Watermark:
    """What was seen until now.

    Attributes:
        loaded: Whether everything below the floor was read once.
        highest: The highest timestamp seen.
        floor: Every write up to this timestamp was seen.
        sightings: What becomes the floor, in the order of time.
    """

    loaded: bool = False
    highest: Timestamp = LOWEST_TIMESTAMP
    floor: Timestamp = LOWEST_TIMESTAMP
    sightings: deque[Sighting] = field(default_factory=deque)

    def advance(self, read: ChangeRead) -> None:
        """Raise the floor by what a read found."""
        given_by_server = [one for one in read.timestamps if one <= read.latest]
        self.highest = max([self.highest, *given_by_server])
        self._settle(read.began)
        self._note_sighting(read.ended + ALLOWED_LATENESS_SECONDS)
        self.floor = max(self.floor, settled_at(max(self.highest.time, read.server_time)))
        self.loaded = True

    def _settle(self, began: float) -> None:
        """Raise the floor to what is settled for a read that began at a moment."""
        while self.sightings and self.sightings[0].settled_at <= began:
            self.floor = max(self.floor, self.sightings.popleft().timestamp)

    def _note_sighting(self, settled_at: float) -> None:
        """Keep the highest timestamp, if it is news and the last sighting is not too recent."""
        timestamp, last = self.floor, settled_at - SIGHTING_SECONDS
        if self.sightings:
            timestamp, last = self.sightings[-1]
        if timestamp < self.highest and last <= settled_at - SIGHTING_SECONDS:
            self.sightings.append(Sighting(self.highest, settled_at))
