"""What every plan of the store is given: names, options, clock and what is shared between calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias, get_args

from langgraph.store.base import TTLConfig

from mongomem.arguments import checked_flag, checked_number, shown
from mongomem.engine.clock import monotonic, unix_time
from mongomem.errors import ConfigurationError
from mongomem.store.damage import Damage
from mongomem.store.documents.coverage import Coverage
from mongomem.store.documents.index_config import IndexSettings, resolve_index
from mongomem.store.documents.item import Collections, collections_for
from mongomem.store.documents.ttl import Expiry
from mongomem.store.vectors.index_cache import IndexCache
from mongomem.store.vectors.watermark import Stamp, latest_stamp

Backend: TypeAlias = Literal["auto", "exact", "atlas"]


CHECKED_SECONDS = 10.0
"""How long a look at the stored configuration counts, or at an index that is missing: one read more
in that time."""


@dataclass(slots=True)
class SetupState:
    """What this process knows to be done already, so that it is not asked for again.

    Attributes:
        agreed: The index configuration by the names that the store knows it by.
        is_named: The settings of the store call the model what it is called now.
        compared: Vectors of this process were found to be like those that were there, or there were
            none.
        set_up: The indexes were made, and not missed since.
        checked_at: When the stored vectors were last seen to be made as the index configuration
            says, on the monotonic clock; another process may have begun a reindex since.
        missed_at: When an index that a read named was not there: set up is the user's affair and
            was not done, or somebody dropped it.
        atlas: Whether Atlas Vector Search answers; None: not asked yet.
    """

    agreed: IndexSettings | None = None
    is_named: bool = False
    compared: bool = False
    set_up: bool = False
    checked_at: float | None = None
    missed_at: float | None = None
    atlas: bool | None = None

    def is_checked(self, now: float) -> bool:
        """Say whether the configuration was looked at lately."""
        return _is_recent(self.checked_at, now)

    def agree(self, indexing: IndexSettings, now: float) -> None:
        """Keep that it was looked at now, and what it is called. Where all was made anew since, it
        is compared anew.
        """
        if self.agreed is not None and self.agreed.generation != indexing.generation:
            self.compared = False
        self.agreed = indexing
        self.checked_at = now

    def has_indexes(self, now: float) -> bool:
        """Say whether reads may name indexes: none was missed lately."""
        return not _is_recent(self.missed_at, now)

    def miss_index(self, now: float) -> None:
        """Keep that an index is not there; the next write makes it, unless that is the user's
        affair.
        """
        self.missed_at = now
        self.set_up = False

    def finish_set_up(self) -> None:
        """Keep that the indexes are there."""
        self.missed_at = None
        self.set_up = True


def _is_recent(moment: float | None, now: float) -> bool:
    return moment is not None and now - moment < CHECKED_SECONDS


@dataclass(frozen=True, slots=True)
class Context:
    """The options of a store and its shared state.

    Attributes:
        configured: Makes items findable by meaning; None where the store has no index.
        matrices: The codes in memory.
        clock: Tells the time, aware and in UTC.
        damage: What was met of damaged items.
        monotonic: Tells seconds since some moment, which no change of a clock alters.
        unix_time: Tells seconds since 1970.
    """

    names: Collections
    configured: IndexSettings | None
    matrices: IndexCache
    expiry: Expiry
    clock: Callable[[], datetime]
    auto_setup: bool
    backend: Backend
    readiness: SetupState = field(default_factory=SetupState)
    damage: Damage = field(default_factory=Damage)
    coverage: Coverage = field(default_factory=Coverage)
    monotonic: Callable[[], float] = monotonic
    unix_time: Callable[[], float] = unix_time

    @property
    def indexing(self) -> IndexSettings | None:
        """The index configuration, by the names that the store knew it by when it was last looked
        at.
        """
        return self.readiness.agreed or self.configured

    @property
    def items(self) -> str:
        return self.names.items

    def latest_stamp(self) -> Stamp:
        """Return the latest stamp that a server may have given until now."""
        return latest_stamp(self.unix_time())

    def now(self) -> datetime:
        """Tell the time as MongoDB keeps it: in whole milliseconds.

        Raises:
            ConfigurationError: The clock tells something else than an aware time.
        """
        told: Any = self.clock()
        if not isinstance(told, datetime) or told.tzinfo is None:
            raise ConfigurationError(
                f"clock must tell the time as an aware datetime, not {shown(told)}"
            )
        try:
            now = told.astimezone(timezone.utc)
        except Exception as error:  # out of the range of dates, or whatever a time zone does
            raise ConfigurationError(
                f"clock tells a time that has no equal in UTC: {shown(told)}"
            ) from error
        return now.replace(microsecond=now.microsecond // 1000 * 1000)


def context_for(
    collection_prefix: str,
    index: Mapping[str, Any] | None,
    ttl: TTLConfig | None,
    *,
    backend: Any,
    matrix_bytes: Any,
    auto_setup: Any,
    clock: Any,
) -> Context:
    """Check the options of a store and put them together.

    Raises:
        ConfigurationError: An option is unknown, of the wrong kind, or contradicts another.
    """
    chosen = _checked_backend(backend)
    if not callable(clock):
        raise ConfigurationError(
            f"clock must be a function that tells the time, not {shown(clock)}"
        )
    indexing = resolve_index(index)
    return Context(
        names=collections_for(collection_prefix),
        configured=indexing,
        matrices=IndexCache(checked_number("matrix_bytes", matrix_bytes, error=ConfigurationError)),
        expiry=Expiry() if ttl is None else Expiry(omit_expired=ttl.get("omit_expired", True)),
        clock=clock,
        auto_setup=checked_flag("auto_setup", auto_setup, ConfigurationError),
        backend=chosen,
    )


def _checked_backend(backend: object) -> Backend:
    known: dict[str, Backend] = {name: name for name in get_args(Backend)}
    chosen = known.get(str.__str__(backend)) if isinstance(backend, str) else None
    if chosen is None:
        raise ConfigurationError(
            f"backend must be one of {get_args(Backend)}, not {shown(backend)}"
        )
    return chosen
