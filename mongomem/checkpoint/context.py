"""What every plan of the saver is given: names, codec, clock, options and the shared caches."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from mongomem.checkpoint.caches import SaverState
from mongomem.checkpoint.codec import Codec
from mongomem.checkpoint.documents import Collections
from mongomem.checkpoint.metadata import CLEAR_WHEN_SEALED
from mongomem.errors import ConfigurationError

STAMP_FRACTION = 10
"""A thread with a TTL is stamped anew once a tenth of it has gone by; documents go one tenth late."""


def lifetime(ttl: float | timedelta | None) -> timedelta | None:
    """Return a TTL, given in minutes or as a ``timedelta``.

    Raises:
        ConfigurationError: It is no positive span of time.
    """
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, int | float | timedelta):
        raise ConfigurationError(f"ttl must be minutes or a timedelta, not {ttl!r:.80}")
    try:
        span = ttl if isinstance(ttl, timedelta) else timedelta(minutes=ttl)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"ttl is no span of time: {ttl!r}") from error
    if span <= timedelta(0):
        raise ConfigurationError(f"ttl must be positive, not {ttl!r}")
    return span


@dataclass(frozen=True, slots=True)
class Options:
    """What a saver was made with.

    Attributes:
        collections: Where documents are.
        ttl: How long an unused thread lives, or None for ever.
        grace: How long a chunk that nothing refers to is kept.
        clear_metadata: The metadata keys that may stand readable in the database; None means all, or what
            `CLEAR_WHEN_SEALED` says where values are encrypted.
        metadata_keys: The metadata keys with an index of threads.
        auto_setup: Whether the first write creates the indexes.
        clock: Tells the time, aware and in UTC.
    """

    collections: Collections
    ttl: timedelta | None
    grace: timedelta
    clear_metadata: Collection[str] | None
    metadata_keys: tuple[str, ...]
    auto_setup: bool
    clock: Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Context:
    """The options of a saver, its codec as of this call, and its caches."""

    options: Options
    codec: Codec
    state: SaverState

    @property
    def checkpoints(self) -> str:
        return self.options.collections.checkpoints

    @property
    def writes(self) -> str:
        return self.options.collections.writes

    @property
    def clear_metadata(self) -> Collection[str] | None:
        given = self.options.clear_metadata
        return CLEAR_WHEN_SEALED if given is None and self.codec.seals else given

    def now(self) -> datetime:
        return self.options.clock()

    def lives(self, touched_at: datetime) -> bool:
        """Say whether what was last used then still counts as there."""
        return self.options.ttl is None or self.now() - touched_at < self.options.ttl

    def wants_stamp(self, stamped_at: datetime) -> bool:
        """Say whether a use now has to stamp the whole thread, last stamped then."""
        ttl = self.options.ttl
        return ttl is not None and self.now() - stamped_at >= ttl / STAMP_FRACTION
