"""Which threads a round of the retention looks at, and how far it has come. Pure.

A scan goes down the list of threads, newest first, between two times of their last update. Threads
that are updated meanwhile jump above it, and are left to the next round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from mongomem.checkpoint.documents.ancestry import time_before
from mongomem.checkpoint.documents.thread_list import behind_document
from mongomem.checkpoint.retention.policy import Retention
from mongomem.checkpoint.serde.place_digest import BEGAN
from mongomem.engine.commands import Document, as_utc

LONGEST_HISTORY = 4
"""How many begins of rounds are remembered. A scan goes back to the oldest of them, so a thread is
looked at three times: first its checkpoints go, or are hidden for the grace; then the hidden ones
go; at last the chunks that nothing refers to since."""


class Action(Enum):
    """What a scan does with the threads that it meets."""

    PRUNE = "prune"
    DELETE_IDLE = "delete idle"
    DELETE_WAITING = "delete waiting"


@dataclass(frozen=True, slots=True)
class Scan:
    """Threads whose last update lies between two times; None for no bound.

    Attributes:
        action: What becomes of them.
        after, before: The bounds; `after` belongs to the scan.
    """

    action: Action
    after: datetime | None
    before: datetime | None

    def query(self, behind: Document | None) -> Document:
        """Return the condition for the threads of the scan that come behind a thread document, or
        for all.
        """
        query = {"updated_at": {}} if behind is None else behind_document(behind)
        if behind is None and self.before is not None:
            query["updated_at"]["$lt"] = self.before
        query["updated_at"].pop("$gt", None)
        lowest: Document = {"$gt": BEGAN} if self.after is None else {"$gte": self.after}
        query["updated_at"].update(lowest)
        return query


def scans_of(policy: Retention, now: datetime, since: datetime | None) -> list[Scan]:
    """Return the scans of a round that began at a time: deletions first, since what is deleted need
    not be pruned.

    A policy about an age looks at the threads that came to that age between the two times. One
    about checkpoints looks also at those that were updated between them.

    Args:
        policy: What is kept.
        now: Up to when.
        since: From when on; None from the beginning.
    """
    ages: list[tuple[Action, timedelta | None]] = [
        (Action.DELETE_IDLE, policy.idle_threads),
        (Action.DELETE_WAITING, policy.waiting_threads),
        (Action.PRUNE, timedelta(0) if policy.prunes else None),
        (Action.PRUNE, policy.older_than),
    ]
    return [
        Scan(action, None if since is None else time_before(since, age), time_before(now, age))
        for action, age in ages
        if age is not None
    ]


@dataclass(frozen=True, slots=True)
class Round:
    """How far a round has come.

    Attributes:
        began: When it began, and before it the rounds before, newest first.
        scan: The number of its scan that is under way.
        behind: The thread that was looked at last in that scan.
        ended_at: When it ended.
    """

    began: tuple[datetime, ...]
    scan: int = 0
    behind: Document | None = None
    ended_at: datetime | None = None

    def scans(self, policy: Retention) -> list[Scan]:
        """Return all its scans."""
        history = self.began
        since = history[LONGEST_HISTORY - 1] if len(history) == LONGEST_HISTORY else None
        return scans_of(policy, history[0], since)

    def following(self, now: datetime) -> Round:
        """Return the next round, which begins now."""
        return Round((now, *self.began)[:LONGEST_HISTORY])

    def past(self, documents: Sequence[Document], is_last: bool) -> Round:
        """Return how far it has come behind a page of its scan; behind the last one, the next scan
        is under way.
        """
        if is_last:
            return replace(self, scan=self.scan + 1, behind=None)
        last = documents[-1]
        return replace(self, behind={name: last.get(name) for name in ("updated_at", "thread_id")})


def text_of_policy(policy: Retention) -> str:
    """Return what tells a policy from another one: under another one, rounds begin anew."""
    spans = (policy.older_than, policy.idle_threads, policy.waiting_threads)
    told = ["-" if span is None else f"{span.total_seconds():g}s" for span in spans]
    return " ".join([str(policy.keep_last or "-"), *told])


def encode_round(round_: Round, policy: Retention) -> Document:
    """Return the fields of the record that hold a round."""
    return {
        "policy": text_of_policy(policy),
        "began": list(round_.began),
        "scan": round_.scan,
        "behind": round_.behind,
        "ended_at": round_.ended_at,
    }


def decode_round(record: Document, policy: Retention) -> Round | None:
    """Return the round that a record holds; None where it holds none of this policy, or what is no
    round.
    """
    try:
        if record["policy"] != text_of_policy(policy) or not record["began"]:
            return None
        ended_at, scan = record["ended_at"], record["scan"]
        return Round(
            tuple(as_utc(one) for one in record["began"])[:LONGEST_HISTORY],
            scan if isinstance(scan, int) and scan >= 0 else 0,
            _position(record["behind"]),
            None if ended_at is None else as_utc(ended_at),
        )
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        return None


def _position(behind: Any) -> Document | None:
    if behind is None:
        return None
    return {"updated_at": behind["updated_at"], "thread_id": behind["thread_id"]}
