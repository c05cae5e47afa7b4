"""From where on a matrix has to read again, so that no write is ever missed.

Every write is stamped by the server with a BSON timestamp that is its own (``$currentDate`` of type
``timestamp`` ticks the cluster's logical clock, MongoDB 4.4 to 8.2), and each search begins by
reading what has a later stamp than the *floor*. A write gets its stamp a little before it becomes
visible, so one with a lower stamp may show up after one with a higher. Two things are certain of a
write that is not visible yet, if none takes longer than `IN_FLIGHT_SECONDS` from stamp to
visibility:

* its stamp is at most that much below the newest one seen, and below the server's time of day;
* that long after some stamp was seen, everything below it is visible.

The first gives a floor at once (the time of day is asked for once, by the read that loads a
matrix), the second brings it up to the newest stamp where writing pauses; so a search of a
namespace at rest reads no document again. Clocks of clients play no part, but for this: a stamp
that is far ahead of them was made by hand, and moves no floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from bson.timestamp import Timestamp

Stamp: TypeAlias = Timestamp

IN_FLIGHT_SECONDS = 5

LOWEST_STAMP = Timestamp(0, 1)
"""Below every stamp. The one before it, (0, 0), means "now" to mongomock, and to a server that
inserts it."""


AHEAD_SECONDS = 366 * 24 * 3600
"""A server's logical clock is never farther ahead of its time of day
(``maxAcceptableLogicalClockDriftSecs``, MongoDB 4.4 to 8.2)."""

LAST_SECOND = 2**32 - 1
"""What a BSON timestamp can say at most."""


LAST_STAMP = Timestamp(LAST_SECOND, 0)


def latest_stamp(now: float) -> Stamp:
    """Return the latest stamp that a server may have given until now, in seconds since 1970."""
    return Timestamp(min(LAST_SECOND, int(now) + AHEAD_SECONDS), 0)


@dataclass(slots=True)
class Watermark:
    """What was seen until now.

    Attributes:
        loaded: Whether everything below the floor was read once.
        newest: The highest stamp seen.
        floor: Everything up to here was seen for good.
        pending: The stamp that becomes the floor by a read that begins at `due` or later.
        due: A time of the monotonic clock, in seconds.
    """

    loaded: bool = False
    newest: Stamp = LOWEST_STAMP
    floor: Stamp = LOWEST_STAMP
    pending: Stamp = LOWEST_STAMP
    due: float = 0.0

    def note(
        self,
        stamps: list[Stamp],
        *,
        began: float,
        ended: float,
        server_time: int = 0,
        latest: Stamp = LAST_STAMP,
    ) -> None:
        """Take in the stamps that a read found from the floor on, between two times of the
        monotonic clock.

        Those above the `latest` that there may be come from a clock that was wrong, and do not
        count. Where it is known what time it was on the server before the read, in seconds since
        1970, the floor is at least as much below that.
        """
        stamps = [stamp for stamp in stamps if stamp <= latest]
        if began >= self.due:
            self.floor = max(self.floor, self.pending)
            self.pending = max([self.newest, *stamps])
            self.due = ended + IN_FLIGHT_SECONDS
        self.newest = max([self.newest, *stamps])
        settled = max(self.newest.time, server_time) - IN_FLIGHT_SECONDS
        self.floor = max(self.floor, Timestamp(max(0, settled), 0))
        self.loaded = True
