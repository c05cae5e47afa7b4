"""What every plan of the store is given: names, options, clock and what is shared between calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from bson.timestamp import Timestamp
from langgraph.store.base import TTLConfig

from mongomem.arguments import checked_flag, checked_number, shown
from mongomem.damage import Damage
from mongomem.engine.clock import checked_clock, in_milliseconds, monotonic, unix_time
from mongomem.errors import ConfigurationError
from mongomem.store.documents.coverage import Coverage
from mongomem.store.documents.index_config import IndexSettings, resolve_index
from mongomem.store.documents.item import Collections
from mongomem.store.documents.ttl import Expiry
from mongomem.store.vectors.index_cache import IndexCache
from mongomem.store.vectors.watermark import latest_timestamp

Backend: TypeAlias = Literal["auto", "exact", "atlas"]

CHECK_VALID_SECONDS = 10.0
"""How long a comparison with the stored index configuration counts, that an index is missing, and
what the time of day was."""


@dataclass(slots=True)
class SetupState:
    """What this process has set up or checked already.

    Attributes:
        config: The index configuration by the names that the store has for it; None: not compared.
        has_current_name: The stored configuration has the current name of the model.
        model_checked: The embedder was compared with the stored vectors, or there were none.
        set_up: The indexes were created, and none was missing since.
        config_checked_at: When the stored configuration was last compared, in seconds of the
            monotonic clock. Another process may have begun a reindex since.
        index_missing_at: When an index that a read named did not exist, likewise. The user sets up
            and has not done so, or somebody dropped it.
        told_of_index: Whether a store without an index has looked for one that others use.
        atlas: Whether Atlas Vector Search answers; None: not asked yet.
        server_time: The server's time of day when it was last asked for, in seconds since 1970.
        server_time_at: When that was.
    """

    config: IndexSettings | None = None
    has_current_name: bool = False
    model_checked: bool = False
    set_up: bool = False
    config_checked_at: float | None = None
    index_missing_at: float | None = None
    told_of_index: bool = False
    atlas: bool | None = None
    server_time: int = 0
    server_time_at: float | None = None

    def config_checked_recently(self, now: float) -> bool:
        """Say whether the last comparison of the configuration still counts."""
        return _is_recent(self.config_checked_at, now)

    def accept_config(self, config: IndexSettings, now: float) -> None:
        """Note that the configuration is that of the store. After a reindex of all vectors the
        model is to be checked again.
        """
        if self.config is not None and self.config.generation != config.generation:
            self.model_checked = False
        self.config = config
        self.config_checked_at = now

    def may_name_indexes(self, now: float) -> bool:
        """Say whether reads may name an index as a hint: none was missing lately."""
        return not _is_recent(self.index_missing_at, now)

    def note_missing_index(self, now: float) -> None:
        """Note that an index does not exist. The next write creates it, unless the user does."""
        self.index_missing_at = now
        self.set_up = False

    def recent_server_time(self, now: float) -> int:
        """Return what the server's time of day was lately; 0 where that is not known."""
        return self.server_time if _is_recent(self.server_time_at, now) else 0

    def note_server_time(self, server_time: int, now: float) -> None:
        """Note the server's time of day, which was asked for now or later."""
        self.server_time, self.server_time_at = server_time, now

    def note_setup(self) -> None:
        """Note that the indexes exist."""
        self.index_missing_at = None
        self.set_up = True


def _is_recent(moment: float | None, now: float) -> bool:
    return moment is not None and now - moment < CHECK_VALID_SECONDS


@dataclass(frozen=True, slots=True)
class Context:
    """The options of a store and its shared state.

    Attributes:
        configured: The index configuration of the caller; None where the store has no index.
        index_cache: The indexes in memory.
        clock: Returns the time, aware and in UTC.
        setup_state: What was set up or checked already.
        damage: The damaged items that were met.
        coverage: The paths that gave no text so far.
        monotonic: Returns seconds since some moment, which no change of a clock alters.
        unix_time: Returns seconds since 1970.
    """

    names: Collections
    configured: IndexSettings | None
    index_cache: IndexCache
    expiry: Expiry
    clock: Callable[[], datetime]
    auto_setup: bool
    backend: Backend
    setup_state: SetupState = field(default_factory=SetupState)
    damage: Damage = field(default_factory=Damage)
    coverage: Coverage = field(default_factory=Coverage)
    monotonic: Callable[[], float] = monotonic
    unix_time: Callable[[], float] = unix_time

    @property
    def indexing(self) -> IndexSettings | None:
        """The index configuration, by the names that the store had for it when they were last
        compared.
        """
        return self.setup_state.config or self.configured

    @property
    def items(self) -> str:
        return self.names.items

    def latest_timestamp(self) -> Timestamp:
        """Return the highest timestamp that a server may have given until now."""
        return latest_timestamp(self.unix_time())

    def now(self) -> datetime:
        """Return the time in UTC, in milliseconds."""
        return in_milliseconds(self.clock())


def context_for(
    collection_prefix: str,
    index: Mapping[str, Any] | None,
    ttl: TTLConfig | None,
    *,
    backend: Any,
    index_cache_bytes: Any,
    auto_setup: Any,
    clock: Any,
) -> Context:
    """Check the options of a store and put them together.

    Raises:
        ConfigurationError: An option is unknown, of the wrong kind, or contradicts another.
    """
    chosen, told = _checked_backend(backend), checked_clock(clock)
    indexing = resolve_index(index)
    return Context(
        names=Collections(collection_prefix),
        configured=indexing,
        index_cache=IndexCache(
            checked_number("index_cache_bytes", index_cache_bytes, error=ConfigurationError)
        ),
        expiry=Expiry() if ttl is None else Expiry(omit_expired=ttl.get("omit_expired", True)),
        clock=told,
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
