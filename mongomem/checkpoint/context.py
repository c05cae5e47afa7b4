"""What every plan of the saver is given: options, serializer, clock and the shared caches."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from langgraph.store.base import NotProvided

from mongomem.arguments import checked_flag, shown
from mongomem.checkpoint.caches import SaverCaches
from mongomem.checkpoint.documents.collections import Collections
from mongomem.checkpoint.documents.metadata import CLEAR_WHEN_SEALED
from mongomem.checkpoint.serde.serializer import (
    NAME_KEY_BYTES,
    PROVEN,
    ProofPolicy,
    ValueSerializer,
)
from mongomem.engine.clock import random_bytes
from mongomem.errors import ConfigurationError

STAMP_FRACTION = 10
"""A thread with a TTL is stamped anew after a tenth of it; documents go one tenth late."""

LONGEST_SPAN = timedelta(days=365 * 60)
"""Bound of TTL and grace. A TTL index takes up to 2**31 - 1 seconds, 68 years (MongoDB 4.4 to
8.2)."""

FIELD = re.compile(r"[^$.][^.]*")


def expiry_of(ttl: timedelta) -> int:
    """Return after how many seconds documents of an unused thread expire: one stamp later than the
    thread reads as absent, so that no living one loses a document.
    """
    return math.ceil((ttl + ttl / STAMP_FRACTION).total_seconds())


def ttl_of(expiry: float) -> timedelta:
    """Return the time to live that documents expire by."""
    return timedelta(seconds=expiry * STAMP_FRACTION / (STAMP_FRACTION + 1))


def lifetime(ttl: object) -> timedelta | NotProvided | None:
    """Return a TTL, given in minutes or as a ``timedelta``; None (for ever) and `NOT_PROVIDED` stay
    what they are.

    Raises:
        ConfigurationError: It is no positive span of time, or longer than `LONGEST_SPAN`.
    """
    if ttl is None or isinstance(ttl, NotProvided):
        return ttl
    if isinstance(ttl, bool) or not isinstance(ttl, int | float | timedelta):
        raise ConfigurationError(
            f"the ttl of threads must be minutes, a timedelta or None, not {shown(ttl)}"
        )
    try:
        span = ttl if isinstance(ttl, timedelta) else timedelta(minutes=ttl)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"the ttl of threads is no span of time: {shown(ttl)}") from error
    if not timedelta(0) < span <= LONGEST_SPAN:
        raise ConfigurationError(
            f"the ttl of threads must be positive and at most {LONGEST_SPAN.days} days, not "
            f"{shown(ttl)}"
        )
    return span


def checked_grace(grace: object) -> timedelta:
    """Return a grace.

    Raises:
        ConfigurationError: It is no span of time from zero on, or longer than `LONGEST_SPAN`.
    """
    if not isinstance(grace, timedelta) or not timedelta(0) <= grace <= LONGEST_SPAN:
        raise ConfigurationError(
            f"grace must be a timedelta from 0 to {LONGEST_SPAN.days} days, not {shown(grace)}"
        )
    return grace


def checked_proof_policy(
    allow_plaintext: object, allow_unbound: object, check_chunks: object
) -> ProofPolicy:
    """Return which content is accepted without proof of its place.

    Raises:
        ConfigurationError: An option is neither True nor False.
    """
    return ProofPolicy(
        checked_flag("allow_plaintext", allow_plaintext, ConfigurationError),
        checked_flag("allow_unbound", allow_unbound, ConfigurationError),
        checked_flag("check_chunks", check_chunks, ConfigurationError),
    )


def checked_keys(option: str, keys: object) -> tuple[str, ...]:
    """Return metadata keys that the query language can name: no empty one, none with a dot or a
    ``$`` before it.

    Args:
        option: Whose they are, for the message.
        keys: Several; a string would be one key a letter.

    Raises:
        ConfigurationError: For anything else.
    """
    given = _listed(option, keys)
    for key in given:
        if not isinstance(key, str) or not FIELD.fullmatch(key) or not key.isprintable():
            raise ConfigurationError(
                f"{option} names no field, which is a string without dots or $: {shown(key)}"
            )
    return tuple(dict.fromkeys(given))


def _listed(option: str, keys: object) -> list[Any]:
    """Read a collection of keys: strings as plain ones, anything else as it is."""
    if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Collection):
        raise ConfigurationError(
            f'{option} must be a list of metadata keys, e.g. ["user_id"], not {shown(keys)}'
        )
    try:
        return [str.__str__(key) if isinstance(key, str) else key for key in keys]
    except Exception as error:  # whatever a class of the caller does
        raise ConfigurationError(
            f"{option} must be a list that can be read, not {shown(keys)}"
        ) from error


@dataclass(frozen=True, slots=True)
class Options:
    """What a saver was made with.

    Attributes:
        collections: Where documents are.
        ttl: How long an unused thread lives; None for ever; `NOT_PROVIDED` as the collections have
            it.
        grace: How long a chunk that nothing refers to is kept.
        clear_metadata: The metadata keys that may stand readable in the database; None means all,
            or what `CLEAR_WHEN_SEALED` says where values are encrypted.
        metadata_keys: The metadata keys with an index of threads.
        auto_setup: Whether the first write creates the indexes.
        clock: Tells the time, aware and in UTC.
        entropy: Gives so many random bytes.
        policy: Which content is accepted without proof of its place.
    """

    collections: Collections
    ttl: timedelta | NotProvided | None
    grace: timedelta
    clear_metadata: Collection[str] | None
    metadata_keys: tuple[str, ...]
    auto_setup: bool
    clock: Callable[[], datetime]
    policy: ProofPolicy = PROVEN
    entropy: Callable[[int], bytes] = random_bytes


@dataclass(frozen=True, slots=True)
class Context:
    """The options of a saver, its serializer as of this call, and its caches."""

    options: Options
    serializer: ValueSerializer
    caches: SaverCaches

    @property
    def checkpoints(self) -> str:
        return self.options.collections.checkpoints

    @property
    def writes(self) -> str:
        return self.options.collections.writes

    @property
    def clear_metadata(self) -> Collection[str] | None:
        given = self.options.clear_metadata
        return CLEAR_WHEN_SEALED if given is None and self.serializer.seals else given

    def now(self) -> datetime:
        return self.options.clock()

    def new_generation(self) -> int:
        """Return a generation that no thread has had: 62 random bits."""
        return int.from_bytes(self.options.entropy(8), "big") >> 2

    def new_name_key(self) -> bytes:
        """Return a new key of chunk hashes; empty where values are not encrypted."""
        return self.options.entropy(NAME_KEY_BYTES) if self.serializer.seals else b""

    @property
    def ttl(self) -> timedelta | None:
        """Return how long an unused thread lives: as the saver was told, or else as the collections
        have it.

        A saver that was told "for ever" has taken the TTL from the collections in its setup; where
        it may not, their TTL still binds it.
        """
        given = self.options.ttl
        return given if isinstance(given, timedelta) else self.caches.setup_state.found_ttl

    def is_alive(self, touched_at: datetime) -> bool:
        """Say whether what was last used then still counts as there."""
        return self.ttl is None or self.now() - touched_at < self.ttl

    def needs_touch(self, stamped_at: datetime) -> bool:
        """Say whether a use now has to stamp the whole thread, last stamped then."""
        return self.ttl is not None and self.now() - stamped_at >= self.ttl / STAMP_FRACTION
