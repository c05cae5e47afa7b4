"""What a retention policy says. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta

from mongomem.arguments import checked_number, looking_at, shown, shown_parts
from mongomem.checkpoint.documents.ancestry import PruneRule, checked_rule
from mongomem.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What is kept of threads. What is not goes, with the safety of ``prune`` and
    ``delete_thread``.

    Attributes:
        keep_last: How many checkpoints stay in each namespace of a thread, the newest. None: all,
            or with `older_than` the newest one.
        older_than: Only checkpoints that are older go. None: of whatever age.
        idle_threads: Threads that no namespace updated for so long are deleted, unless they wait
            for an answer (``interrupt``) or are in use. None: none is.
        waiting_threads: Threads that wait for an answer, and that no namespace updated for so long,
            are deleted too. None: none is. At least `idle_threads`.

    Raises:
        ConfigurationError: A value is none of this, or nothing would ever go.
    """

    keep_last: int | None = None
    older_than: timedelta | None = None
    idle_threads: timedelta | None = None
    waiting_threads: timedelta | None = None

    def __post_init__(self) -> None:
        if self.keep_last is not None:
            checked_number("keep_last", self.keep_last, least=1, error=ConfigurationError)
        for name in ("older_than", "idle_threads", "waiting_threads"):
            with looking_at(name, ConfigurationError):
                _check_span(name, getattr(self, name))
        if not self.prunes and self.idle_threads is None:
            raise ConfigurationError(
                "retention must say what goes: keep_last, older_than or idle_threads"
            )
        if self.waiting_threads is not None and (
            self.idle_threads is None or self.waiting_threads < self.idle_threads
        ):
            raise ConfigurationError(
                "waiting_threads must be at least as long as idle_threads, which is to be given "
                f"with it: {shown(self.waiting_threads)} and {shown(self.idle_threads)}"
            )

    def __repr__(self) -> str:
        return shown_parts(self, **{one.name: getattr(self, one.name) for one in fields(self)})

    @property
    def prunes(self) -> bool:
        """Whether checkpoints go from threads that stay."""
        return self.keep_last is not None or self.older_than is not None

    def rule(self, now: datetime) -> PruneRule:
        """Return which checkpoints of a thread go now."""
        return checked_rule(now, "keep_latest", self.keep_last or 1, self.older_than)


def _check_span(name: str, span: object) -> None:
    if span is not None and (not isinstance(span, timedelta) or span <= timedelta(0)):
        raise ConfigurationError(f"{name} must be a positive timedelta or None, not {shown(span)}")


def checked_retention(retention: object) -> Retention | None:
    """Return a policy, or None.

    Raises:
        ConfigurationError: It is something else.
    """
    if retention is not None and not isinstance(retention, Retention):
        raise ConfigurationError(
            f"retention must be a mongomem.Retention or None, not {shown(retention)}"
        )
    return retention
