"""What is done with whole threads: list, label, copy, prune, delete."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.thread_list import Thread
from mongomem.checkpoint.plans import delete, prune
from mongomem.checkpoint.plans.copy_thread import copy_thread
from mongomem.checkpoint.plans.delete import then_clean
from mongomem.checkpoint.plans.prune import PruneReport
from mongomem.checkpoint.plans.threads import delete_idle_threads, list_threads, update_thread
from mongomem.checkpoint.retention.apply_retention import apply_retention
from mongomem.checkpoint.retention.background import RetentionWork, then_retain
from mongomem.checkpoint.retention.policy import Retention
from mongomem.checkpoint.retention.sweep import RetentionReport
from mongomem.engine.commands import Plan
from mongomem.engine.runners import Runners, begins_at_call, named
from mongomem.telemetry.observer import Observer

T = TypeVar("T")


class ThreadMethods(BaseCheckpointSaver[Any]):
    """The methods of a saver that are about whole threads and not about one checkpoint.

    Versions are ``Any``: they are of the kind that a thread has, see `Version`.
    """

    _runners: Runners
    _observed: Observer
    _retention: RetentionWork

    def _context(self) -> Context:
        raise NotImplementedError

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread with everything of it, at once. Repeating it finishes an interrupted one.

        A put that is under way either begins the thread anew, or is not shown and is removed, with
        the last document that names the thread, once the grace is over.
        """
        self._runners.run(self._deleting(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """Do what `delete_thread` does."""
        # No `begins_at_call`: the plan gives a bool, and the method of LangGraph None.
        await self._runners.arun(self._deleting(thread_id))

    def _deleting(self, thread_id: str) -> Plan[bool]:
        context = self._context()
        plan = then_clean(context, partial(delete.delete_thread, context, thread_id))
        return self._observed("delete_thread", plan, thread_id=thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that these runs made, with their writes.

        A checkpoint that stays reads as before: ancestors that its DeltaChannels are rebuilt from
        are kept for that, and hidden. One whose parent went has ``parent_config=None``.
        """
        self._runners.run(
            self._observed("delete_for_runs", prune.delete_for_runs(self._context(), run_ids))
        )

    @begins_at_call
    def adelete_for_runs(self, run_ids: Sequence[str]) -> Coroutine[Any, Any, None]:
        """Do what `delete_for_runs` does."""
        return self._runners.arun(
            self._observed("delete_for_runs", prune.delete_for_runs(self._context(), run_ids))
        )

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy every checkpoint of a thread, with its writes, into another; nothing of the copy
        hangs on the source.

        What the target has stays as it is: checkpoints, also those it has hidden, and the answers
        to its interrupts. Of a source that is not there nothing is copied.
        """
        self._runners.run(self._copying(source_thread_id, target_thread_id))

    @begins_at_call
    def acopy_thread(
        self, source_thread_id: str, target_thread_id: str
    ) -> Coroutine[Any, Any, None]:
        """Do what `copy_thread` does."""
        return self._runners.arun(self._copying(source_thread_id, target_thread_id))

    def _copying(self, source_thread_id: str, target_thread_id: str) -> Plan[None]:
        plan = copy_thread(self._context(), source_thread_id, target_thread_id)
        return self._observed("copy_thread", plan, thread_id=source_thread_id)

    def prune(  # type: ignore[override]  # LangGraph's gives None; what went is worth telling
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep_last: int = 1,
        older_than: timedelta | None = None,
        dry_run: bool = False,
    ) -> list[PruneReport]:
        """Remove old checkpoints of threads, and chunks that nothing referred to for the grace.

        What stays reads as before, as with `delete_for_runs`. Of each namespace the newest
        checkpoint stays. The namespaces of one call go with the checkpoint that called; the memory
        of a subgraph compiled with ``checkpointer=True`` belongs to no call, and is a namespace
        like the root's.

        Args:
            thread_ids: The threads.
            strategy: ``"keep_latest"``, or ``"delete"`` for everything.
            keep_last: With ``"keep_latest"``, how many to keep in each namespace.
            older_than: With ``"keep_latest"``, remove only what is older.
            dry_run: Change nothing; say what would go.

        Raises:
            InvalidInputError: For another strategy, a `keep_last` below 1, or a negative
                `older_than`.
        """
        return self._runners.run(
            self._pruning(thread_ids, strategy, keep_last, older_than, dry_run)
        )

    @begins_at_call
    def aprune(  # type: ignore[override]  # as `prune`
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep_last: int = 1,
        older_than: timedelta | None = None,
        dry_run: bool = False,
    ) -> Coroutine[Any, Any, list[PruneReport]]:
        """Do what `prune` does."""
        return self._runners.arun(
            self._pruning(thread_ids, strategy, keep_last, older_than, dry_run)
        )

    def _pruning(self, *arguments: object) -> Plan[list[PruneReport]]:
        context = self._context()
        plan = then_clean(context, partial(prune.prune, context, *arguments), unless=arguments[-1])
        return self._observed("prune", plan, thread_ids=arguments[0])

    def delete_idle_threads(self, idle_for: timedelta, *, dry_run: bool = False) -> list[Thread]:
        """Delete the threads that no namespace updated for so long; return those, or those that
        would go.
        """
        return self._runners.run(self._deleting_idle(idle_for, dry_run))

    @begins_at_call
    def adelete_idle_threads(
        self, idle_for: timedelta, *, dry_run: bool = False
    ) -> Coroutine[Any, Any, list[Thread]]:
        """Do what `delete_idle_threads` does."""
        return self._runners.arun(self._deleting_idle(idle_for, dry_run))

    def _deleting_idle(self, idle_for: timedelta, dry_run: bool) -> Plan[list[Thread]]:
        context = self._context()
        plan = then_clean(
            context, partial(delete_idle_threads, context, idle_for, dry_run), unless=dry_run
        )
        return self._observed("delete_idle_threads", plan)

    def apply_retention(
        self, policy: Retention | None = None, *, dry_run: bool = False
    ) -> RetentionReport:
        """Carry out a policy on all threads at once; return what went, or would go.

        Each thread goes as by `prune` and `delete_idle_threads`, and those that cannot be read stay
        and are named in the report. Repeating it finishes an interrupted one.

        Args:
            policy: What is kept. None: the `retention` of the saver.
            dry_run: Change nothing; say what would go.

        Raises:
            ConfigurationError: There is no policy.
        """
        return self._runners.run(self._applying_retention(policy, dry_run))

    @begins_at_call
    def aapply_retention(
        self, policy: Retention | None = None, *, dry_run: bool = False
    ) -> Coroutine[Any, Any, RetentionReport]:
        """Do what `apply_retention` does."""
        return self._runners.arun(self._applying_retention(policy, dry_run))

    def _applying_retention(self, *arguments: object) -> Plan[RetentionReport]:
        context, (policy, is_dry) = self._context(), arguments
        apply = partial(apply_retention, context, policy, self._retention.policy, is_dry)
        return self._observed("apply_retention", then_clean(context, apply, unless=is_dry))

    def _then_retain(self, context: Context, plan: Plan[T]) -> Plan[T]:
        """Return a plan behind which the retention goes on, where there is one."""
        if self._retention.policy is None:
            return plan
        return named(then_retain(context, self._retention, plan), plan)

    def close(self) -> None:
        """Stop the retention that goes on beside the puts, before its next command. All else works
        on, and the client stays open.
        """
        self._retention.background.close()

    async def aclose(self) -> None:
        """Do what `close` does."""
        await self._retention.background.aclose()

    def update_thread(self, thread_id: str, metadata: Mapping[str, Any]) -> Thread:
        """Merge titles, tags or flags into the metadata of a thread; return the thread as
        `list_threads` shows it.

        They stay while the thread lives, whatever its runs say, and `list_threads` filters by them.
        No checkpoint is made, a run that waits for an answer goes on waiting, and the thread keeps
        its place in the list.

        Args:
            thread_id: The thread.
            metadata: Values by key, as long as a line of text; None removes a key. Under a key of
                `metadata_indexes`, one more user whom the thread is of.

        Raises:
            ThreadNotFoundError: There is no such thread.
            InvalidInputError: A value is of a kind that lists cannot show, or all together are too
                long.
            ConfigurationError: A key may not stand readable (`clear_metadata`).
        """
        return self._runners.run(self._updating(thread_id, metadata))

    @begins_at_call
    def aupdate_thread(
        self, thread_id: str, metadata: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Thread]:
        """Do what `update_thread` does."""
        return self._runners.arun(self._updating(thread_id, metadata))

    def _updating(self, thread_id: str, metadata: Mapping[str, Any]) -> Plan[Thread]:
        plan = update_thread(self._context(), thread_id, metadata)
        return self._observed("update_thread", plan, thread_id=thread_id)

    def list_threads(
        self,
        *,
        filter: dict[str, Any] | None = None,
        limit: int = 100,
        before: Thread | datetime | None = None,
        count_checkpoints: bool = False,
    ) -> list[Thread]:
        """Return threads, the one updated last first.

        Args:
            filter: What the metadata must contain, e.g. ``{"user_id": "ada"}``: every thread that
                was ever put for that user, whatever form the id has.
            limit: How many at most.
            before: The last thread of the page before, or a time: only threads updated earlier.
            count_checkpoints: Count the checkpoints of each, which reads all of them on the server.
        """
        return self._runners.run(self._listing(filter, limit, before, count_checkpoints))

    @begins_at_call
    def alist_threads(
        self,
        *,
        filter: dict[str, Any] | None = None,
        limit: int = 100,
        before: Thread | datetime | None = None,
        count_checkpoints: bool = False,
    ) -> Coroutine[Any, Any, list[Thread]]:
        """Do what `list_threads` does."""
        return self._runners.arun(self._listing(filter, limit, before, count_checkpoints))

    def _listing(
        self, filter: object, limit: object, before: object, count_checkpoints: object
    ) -> Plan[list[Thread]]:
        context = self._context()
        plan = list_threads(context, filter, limit, before, count_checkpoints=count_checkpoints)
        return self._observed("list_threads", plan)
