"""Plans that carry out the policy of a saver beside its puts, and what the saver remembers of that.

After a put, where something may be due, one step begins beside it: by a thread, or by a task of the
event loop of the client. The put does not wait for it, and does not learn of its errors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from pymongo.errors import InvalidOperation

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.fields import whole_milliseconds
from mongomem.checkpoint.retention.lease import LEASE, Lease
from mongomem.checkpoint.retention.policy import Retention
from mongomem.checkpoint.retention.rounds import Round, decode_round, encode_round
from mongomem.checkpoint.retention.sweep import PAGE_SIZE, RetentionReport, Sweep
from mongomem.checkpoint.serde.place_digest import BEGAN
from mongomem.engine.commands import Document, Plan
from mongomem.engine.effects import Beside
from mongomem.engine.workers import Background

logger = logging.getLogger("mongomem")

T = TypeVar("T")

PAUSE = timedelta(seconds=1)
"""Between two steps of a process, where there is more to do."""

MARGIN = timedelta(minutes=1)
"""How much longer than the grace two rounds are apart: clocks of two machines differ."""

FURTHEST_AHEAD = timedelta(hours=1)
"""By how much a round may be ahead of the clock here. One that is further ahead was written by a
clock that was wrong: nobody would go on before that time."""

MOST_TOLD = 1000
"""How many threads are told of that could not be pruned or deleted."""


def _unobserved(_name: str, plan: Plan[None]) -> Plan[None]:
    return plan


@dataclass(slots=True)
class RetentionWork:
    """The policy of a saver and its clones, and what they remember between two steps.

    Attributes:
        policy: What is kept; None where nothing goes by itself.
        observed: Makes a plan one that is observed.
        background: Where steps run.
        due_at: Before when no step is begun.
        has_failed: Whether the last step failed: the first failure is told, and the first one after
            a success.
        told: The threads that were told of.
    """

    policy: Retention | None = None
    observed: Callable[[str, Plan[None]], Plan[None]] = _unobserved
    background: Background = field(default_factory=Background)
    due_at: datetime | None = None
    has_failed: bool = False
    told: set[str] = field(default_factory=set)

    def note_failure(self, error: Exception) -> None:
        """Tell of a step that failed, once. A client that was closed is the end, and no failure."""
        if not self.has_failed and not isinstance(error, InvalidOperation):
            logger.warning(
                "the retention could not be carried out, and is tried again later: %s: %s",
                type(error).__name__,
                shown(str(error)),
            )
        self.has_failed = True

    def note_step(self, report: RetentionReport) -> None:
        """Tell what a step did, and once of each thread that it left out."""
        self.has_failed = False
        for thread_id, why in report.left_out.items():
            if thread_id not in self.told and len(self.told) < MOST_TOLD:
                self.told.add(thread_id)
                logger.warning("left out of the retention: %s", why)
        if report.deleted or report.pruned:
            removed = sum(len(one.removed) for one in report.pruned)
            logger.info(
                "retention: deleted %d threads, and %d checkpoints of %d others",
                len(report.deleted),
                removed,
                len(report.pruned),
            )


async def then_retain(context: Context, work: RetentionWork, plan: Plan[T]) -> T:
    """Run a plan; then begin a step beside it, where one may be due."""
    result = await plan
    now = context.now()
    if work.policy is not None and (work.due_at is None or now >= work.due_at):
        work.due_at = now + PAUSE
        await Beside(work.background, partial(_begun, context, work, work.policy))
    return result


def _begun(context: Context, work: RetentionWork, policy: Retention) -> Plan[None]:
    return work.observed("retention", step(context, work, policy))


async def step(context: Context, work: RetentionWork, policy: Retention) -> None:
    """Carry out one step where one is due and nobody else is at it. Raises nothing."""
    try:
        work.due_at = await _step(context, work, policy)
    except Exception as error:  # whatever it is, no graph is to learn of it
        work.note_failure(error)
        work.due_at = work.due_at and work.due_at + LEASE


async def _step(context: Context, work: RetentionWork, policy: Retention) -> datetime:
    """Carry out one step under the lease; say when the next one may be due."""
    lease = Lease(context.options.collections.settings, context.options.entropy(12).hex())
    if not await lease.take():
        return context.now() + LEASE
    record = await lease.read()
    last = _last_round(context, record, policy)
    due_at = _due_at(context, last)
    if due_at is None or due_at <= context.now():
        return await _go_on(context, work, policy, lease, record)
    await lease.give_back({})
    return due_at


async def _go_on(
    context: Context, work: RetentionWork, policy: Retention, lease: Lease, record: Document
) -> datetime:
    """Go on with the round that is under way, or begin the next one, under the lease."""
    sweep = Sweep(context, policy, RetentionReport(), may_go_on=lease.renew)
    await _finish(sweep, record)
    reached = await _page(sweep, _under_way(context, _last_round(context, record, policy)))
    work.note_step(sweep.report)
    if reached is None or not await lease.give_back(encode_round(reached, policy)):
        return context.now() + LEASE
    return _due_at(context, reached) or context.now() + PAUSE


def _last_round(context: Context, record: Document, policy: Retention) -> Round | None:
    """Return the round that a record holds; None where it holds none of this policy, or one that
    is ahead of any time that can be.
    """
    last = decode_round(record, policy)
    if last is None or max((*last.began, last.ended_at or BEGAN)) <= context.now() + FURTHEST_AHEAD:
        return last
    return None


def _due_at(context: Context, last: Round | None) -> datetime | None:
    """Return when the round after an ended one begins: more than a grace later, so that what it
    looks at again has waited for that long.
    """
    if last is None or last.ended_at is None:
        return None
    return last.ended_at + context.options.grace + MARGIN


def _under_way(context: Context, last: Round | None) -> Round:
    """Return the round that is under way: the last one, or where that has ended, one that begins
    now.
    """
    now = whole_milliseconds(context.now())
    if last is None:
        return Round((now,))
    return last if last.ended_at is None else last.following(now)


async def _finish(sweep: Sweep, record: Document) -> None:
    """Prune the thread that a holder of the lease was at work on when its process ended."""
    unfinished = record.get("at_work_on")
    if sweep.policy.prunes and isinstance(unfinished, str):
        await sweep.finish(unfinished)


async def _page(sweep: Sweep, current: Round) -> Round | None:
    """Do the next page of a round that is not empty; say how far the round has come, or None where
    the lease was lost.
    """
    scans = current.scans(sweep.policy)
    while current.scan < len(scans):
        scan = scans[current.scan]
        documents = await sweep.read_page(scan, current.behind)
        if not await sweep.do_page(scan, documents):
            return None
        current = current.past(documents, is_last=len(documents) < PAGE_SIZE)
        if documents:
            break
    if current.scan < len(scans):
        return current
    return replace(current, ended_at=whole_milliseconds(sweep.context.now()))
