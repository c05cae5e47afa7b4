"""What every plan of the store is given: names, options, clock and what is shared between calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias, get_args

from mongomem.errors import ConfigurationError
from mongomem.search.matrices import Matrices
from mongomem.store.coverage import Coverage
from mongomem.store.documents import Collections, collections_for
from mongomem.store.expiry import Expiry, resolve_expiry
from mongomem.store.indexing import Indexing, resolve_index

Backend: TypeAlias = Literal["auto", "exact", "atlas"]


CHECKED_SECONDS = 10.0
"""How long a look at the stored configuration counts, or at an index that is missing: one read more in that time."""


@dataclass(slots=True)
class Readiness:
    """What this process knows to be done already, so that it is not asked for again.

    Attributes:
        agreed: The index configuration by the names that the store knows it by.
        is_named: The settings of the store call the model what it is called now.
        compared: Vectors of this process were found to be like those that were there, or there were none.
        set_up: The indexes were made, and not missed since.
        checked_at: When the stored vectors were last seen to be made as the index configuration says, on the
            monotonic clock; another process may have begun a reindex since.
        missed_at: When an index that a read named was not there: set up is the user's affair and was not done, or
            somebody dropped it.
        atlas: Whether Atlas Vector Search answers; None: not asked yet.
    """

    agreed: Indexing | None = None
    is_named: bool = False
    compared: bool = False
    set_up: bool = False
    checked_at: float | None = None
    missed_at: float | None = None
    atlas: bool | None = None

    def is_checked(self) -> bool:
        """Say whether the configuration was looked at lately."""
        return _is_recent(self.checked_at)

    def agree(self, indexing: Indexing) -> None:
        """Keep that it was looked at now, and what it is called."""
        self.agreed = indexing
        self.checked_at = time.monotonic()

    def has_indexes(self) -> bool:
        """Say whether reads may name indexes: none was missed lately."""
        return not _is_recent(self.missed_at)

    def miss_index(self) -> None:
        """Keep that an index is not there; the next write makes it, unless that is the user's affair."""
        self.missed_at = time.monotonic()
        self.set_up = False

    def finish_set_up(self) -> None:
        """Keep that the indexes are there."""
        self.missed_at = None
        self.set_up = True


def _is_recent(moment: float | None) -> bool:
    return moment is not None and time.monotonic() - moment < CHECKED_SECONDS


@dataclass(frozen=True, slots=True)
class Context:
    """The options of a store and its shared state.

    Attributes:
        configured: Makes items findable by meaning; None where the store has no index.
        matrices: The codes in memory.
        clock: Tells the time, aware and in UTC.
    """

    names: Collections
    configured: Indexing | None
    matrices: Matrices
    expiry: Expiry
    clock: Callable[[], datetime]
    auto_setup: bool
    backend: Backend
    readiness: Readiness = field(default_factory=Readiness)
    coverage: Coverage = field(default_factory=Coverage)

    @property
    def indexing(self) -> Indexing | None:
        """The index configuration, by the names that the store knew it by when it was last looked at."""
        return self.readiness.agreed or self.configured

    @property
    def items(self) -> str:
        return self.names.items

    def now(self) -> datetime:
        """Tell the time as MongoDB keeps it: in whole milliseconds."""
        now = self.clock().astimezone(timezone.utc)
        return now.replace(microsecond=now.microsecond // 1000 * 1000)


def context_for(
    collection_prefix: str,
    index: Mapping[str, Any] | None,
    ttl: Mapping[str, Any] | None,
    *,
    backend: Backend,
    matrix_bytes: int,
    auto_setup: bool,
    clock: Callable[[], datetime],
) -> Context:
    """Check the options of a store and put them together.

    Raises:
        ConfigurationError: An option is unknown, of the wrong kind, or contradicts another.
    """
    if backend not in get_args(Backend):
        raise ConfigurationError(f"backend must be one of {get_args(Backend)}, not {backend!r}")
    indexing = resolve_index(index)
    return Context(
        names=collections_for(collection_prefix),
        configured=indexing,
        matrices=Matrices(matrix_bytes),
        expiry=resolve_expiry(ttl),
        clock=clock,
        auto_setup=auto_setup,
        backend=backend,
    )
