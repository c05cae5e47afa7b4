"""Plans that do with a page of threads what a scan is for, and the report of what went."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.thread_list import Thread
from mongomem.checkpoint.plans.delete import delete_thread
from mongomem.checkpoint.plans.prune import PruneReport, prune_thread
from mongomem.checkpoint.plans.threads import sound_threads, thread_page
from mongomem.checkpoint.retention.due_threads import (
    prunable_threads,
    threads_in_use,
    waiting_threads,
)
from mongomem.checkpoint.retention.policy import Retention
from mongomem.checkpoint.retention.rounds import Action, Scan
from mongomem.engine.commands import Document, Plan
from mongomem.errors import ContentionError, MongomemError

PAGE_SIZE = 50
"""How many threads one page is about."""


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """What went from the threads by a retention, or would go where nothing was to be changed.

    Attributes:
        deleted: The threads that were deleted.
        pruned: Of each other thread that lost checkpoints, which.
        left_out: The threads that could not be pruned or deleted, by their ids, and why: they are
            damaged, or another saver encrypts them. Nothing of them went.
    """

    deleted: list[Thread] = field(default_factory=list)
    pruned: list[PruneReport] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


async def _always(_thread_id: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Sweep:
    """A policy that is carried out, page by page.

    Attributes:
        context: Of the saver.
        policy: What is kept.
        report: Takes what went.
        dry_run: Change nothing.
        prunes_all: Prune every thread, also where there seems to be nothing to prune: that finishes
            a removal which broke off.
        may_go_on: Asked before each thread whether it is to be worked on.
    """

    context: Context
    policy: Retention
    report: RetentionReport
    dry_run: bool = False
    prunes_all: bool = False
    may_go_on: Callable[[str], Plan[bool]] = _always

    async def read_page(self, scan: Scan, behind: Document | None) -> list[Document]:
        """Read the next thread documents of a scan: among those that are to be deleted also
        expired ones, and those of a deletion that broke off.
        """
        ended = scan.action is not Action.PRUNE
        return await thread_page(self.context, [{}], scan.query(behind), PAGE_SIZE, ended=ended)

    async def do_page(self, scan: Scan, documents: Sequence[Document]) -> bool:
        """Prune or delete the threads of a page; say whether it was done to its end."""
        threads = [thread for thread, _ in sound_threads(self.context, documents)]
        due = await self._due(scan, threads) if threads else ()
        for thread in threads:
            if thread.thread_id in due:
                if not await self.may_go_on(thread.thread_id):
                    return False
                await self._do(scan, thread)
        return True

    async def finish(self, thread_id: str) -> None:
        """Prune a thread that somebody was at work on who did not come to the end."""
        await self._left_out_where_unreadable(thread_id, self._prune(thread_id))

    async def _due(self, scan: Scan, threads: Sequence[Thread]) -> Collection[str]:
        """Return the ids of the threads with which something is to be done."""
        ids = [thread.thread_id for thread in threads]
        if scan.action is Action.PRUNE:
            gone = {thread.thread_id for thread in self.report.deleted}
            rest = [one for one in ids if one not in gone]
            if self.prunes_all:
                return rest
            return await prunable_threads(self.context, rest, self.policy.rule(self.context.now()))
        waiting = await waiting_threads(self.context, ids)
        if scan.action is Action.DELETE_WAITING:
            return waiting
        assert scan.before is not None  # noqa: S101 (scans of deletions have an age)
        return {*ids} - waiting - await threads_in_use(self.context, ids, scan.before)

    async def _do(self, scan: Scan, thread: Thread) -> None:
        """Prune or delete one thread."""
        name, prunes = thread.thread_id, scan.action is Action.PRUNE
        work = self._prune(name) if prunes else self._delete(scan, thread)
        await self._left_out_where_unreadable(name, work)

    async def _left_out_where_unreadable(self, thread_id: str, work: Plan[None]) -> None:
        """Do the work on a thread, and go on where it cannot be done. A thread that others use too
        much is left to the next round.
        """
        try:
            await work
        except ContentionError:
            return
        except MongomemError as error:
            self.report.left_out[thread_id] = str(error)

    async def _prune(self, thread_id: str) -> None:
        context = self.context
        to_remove, grace = self.policy.rule(context.now()).to_remove, context.options.grace
        went = await prune_thread(context, thread_id, to_remove, self.dry_run, grace)
        if went.removed or went.hidden:
            self.report.pruned.append(went)

    async def _delete(self, scan: Scan, thread: Thread) -> None:
        """Delete a thread, unless it was updated since it was looked at."""
        still: Document = {"updated_at": {"$lt": scan.before}}
        if self.dry_run or await delete_thread(self.context, thread.thread_id, still):
            self.report.deleted.append(thread)
