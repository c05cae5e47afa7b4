"""What every plan of the cache is given: options, serializer, clock and what calls share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mongomem.arguments import checked_flag
from mongomem.cache.documents.entry import Collections
from mongomem.cache.losses import Losses
from mongomem.checkpoint.serde.serializer import ProofPolicy, ValueSerializer
from mongomem.engine.clock import checked_clock, in_milliseconds
from mongomem.errors import ConfigurationError

POLICY = ProofPolicy(allow_unbound=False)
"""Entries were bound to their places from the first on."""


@dataclass(slots=True)
class SetupState:
    """What this process has seen or done already.

    Attributes:
        is_ours: Nobody else uses the collection.
        is_set_up: Its index exists.
    """

    is_ours: bool = False
    is_set_up: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """What a cache was made with, and what its calls share.

    Attributes:
        clock: Returns the time, aware and in UTC.
        auto_setup: Whether the first write creates the index.
        setup_state: What was seen or done already.
        losses: What could not be read, kept or reached.
    """

    names: Collections
    clock: Callable[[], datetime]
    auto_setup: bool
    setup_state: SetupState = field(default_factory=SetupState)
    losses: Losses = field(default_factory=Losses)


@dataclass(frozen=True, slots=True)
class Context:
    """The options of a cache, and its serializer as of this call."""

    options: Options
    serializer: ValueSerializer

    @property
    def entries(self) -> str:
        return self.options.names.entries

    def now(self) -> datetime:
        """Return the time in UTC, in milliseconds."""
        return in_milliseconds(self.options.clock())


def options_for(collection_prefix: str, *, auto_setup: Any, clock: Any) -> Options:
    """Check the options of a cache and put them together.

    Raises:
        ConfigurationError: An option is of the wrong kind.
    """
    told = checked_clock(clock)
    checked = checked_flag("auto_setup", auto_setup, ConfigurationError)
    return Options(Collections(collection_prefix), told, checked)
