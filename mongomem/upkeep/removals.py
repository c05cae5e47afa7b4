"""What a removal is about: told before it is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from mongomem.arguments import shown
from mongomem.checkpoint.documents.ancestry import checked_rule
from mongomem.checkpoint.documents.config import identifier
from mongomem.checkpoint.documents.thread import thread_query
from mongomem.checkpoint.plans.delete import delete_thread, then_clean
from mongomem.checkpoint.plans.prune import PruneReport
from mongomem.checkpoint.retention.sweep import RetentionReport
from mongomem.engine.commands import Aggregate, Document, Find, as_utc, slices
from mongomem.errors import MongomemError, ThreadNotFoundError
from mongomem.inspection.context import Context as InspectionContext
from mongomem.inspection.inspector import Inspector
from mongomem.inspection.sizes import ThreadSize, sizes_of
from mongomem.memory import MongoMemory
from mongomem.migration.parts import LeftOut
from mongomem.migration.report import Named
from mongomem.store.context import Context as StoreContext
from mongomem.store.documents.item import BY_ID
from mongomem.store.documents.namespace import Namespace, id_range
from mongomem.user_data import threads_of

SIZES_MILLISECONDS = 5_000
"""How long the server may add up what the threads of a page hold."""

PAGE_SIZE = 100
"""Of how many threads that is added up at a time."""


@dataclass(frozen=True, slots=True)
class ThreadToGo:
    """A thread that is to be deleted.

    Attributes:
        thread_id: The thread.
        updated_at: When its newest checkpoint was stored; None where a deletion broke off.
        size: What it holds; None where that takes too long to add up.
        was_deleted: Whether it was deleted before.
    """

    thread_id: str
    updated_at: datetime | None
    size: ThreadSize | None
    was_deleted: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known to be there of it."""
        return self.size is None or not (self.size.checkpoints or self.size.writes)

    @property
    def is_gone(self) -> bool:
        """Whether it was deleted before, to the end."""
        return self.was_deleted and self.updated_at is None and self.is_empty

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        size = self.size
        return {
            "thread_id": self.thread_id,
            "updated_at": self.updated_at and self.updated_at.isoformat(),
            "checkpoints": size and size.checkpoints,
            "pending_writes": size and size.writes,
            "stored_bytes": size and size.stored,
        }


def threads_to_go(memory: MongoMemory, thread_ids: Sequence[str]) -> list[ThreadToGo]:
    """Say what threads hold, also those whose deletion broke off.

    Raises:
        ThreadNotFoundError: One is not there.
    """
    context, run = Inspector(memory)._context(), memory.saver._runners.run
    found: list[ThreadToGo] = []
    for some in slices([*dict.fromkeys(thread_ids)], PAGE_SIZE):
        found += run(_to_go(context, some))
    return found


def delete_unused(memory: MongoMemory, one: ThreadToGo) -> bool:
    """Delete a thread, unless it was updated since it was told of; say whether it was deleted."""
    still: Document | None = None if one.updated_at is None else {"updated_at": one.updated_at}
    context = memory.saver._context()
    plan = then_clean(context, partial(delete_thread, context, one.thread_id, still))
    deleted: bool = memory.saver._runners.run(plan)
    return deleted


async def _to_go(context: InspectionContext, thread_ids: Sequence[str]) -> list[ThreadToGo]:
    documents = await _documents(context, thread_ids)
    sizes = await sizes_of(context, thread_ids, SIZES_MILLISECONDS) or {}
    found = [_described(one, documents.get(one, {}), sizes.get(one)) for one in thread_ids]
    _check_there(one for one in found if documents.get(one.thread_id, {}).get("updated_at") is None)
    return found


def _check_there(doubtful: Iterable[ThreadToGo]) -> None:
    """Refuse threads that hold nothing, and were not deleted before.

    Raises:
        ThreadNotFoundError: One is of that kind.
    """
    if absent := [one.thread_id for one in doubtful if one.is_empty and not one.was_deleted]:
        raise ThreadNotFoundError(
            f"there is no thread {', '.join(map(shown, absent))} in this database"
        )


def _described(thread_id: str, document: Document, size: ThreadSize | None) -> ThreadToGo:
    was_deleted = document.get("deleted_at") is not None
    return ThreadToGo(thread_id, _time(document.get("updated_at")), size, was_deleted)


async def _documents(context: InspectionContext, thread_ids: Sequence[str]) -> dict[str, Document]:
    """Read the documents of threads, by their ids, as far as they have one."""
    query = {"$or": [thread_query(identifier("thread_id", one)) for one in thread_ids]}
    fields = {"thread_id": 1, "updated_at": 1, "deleted_at": 1}
    documents = await Find(context.saver.checkpoints, query, fields)
    return {one["thread_id"]: one for one in documents}


def _time(value: object) -> datetime | None:
    return as_utc(value) if isinstance(value, datetime) else None


@dataclass(frozen=True, slots=True)
class UserSize:
    """How much there is of a user.

    Attributes:
        user_id: The user.
        user_key: The metadata key of a thread that names its user.
        namespace: What holds the memories of the user.
        threads: The ids of the threads.
        memories: How many memories, with those that have expired and are not yet deleted.
        undecided: The ids of threads that do not say whose they are.
    """

    user_id: str
    user_key: str
    namespace: Namespace
    threads: list[str]
    memories: int
    undecided: list[str]

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is stored of the user."""
        return not (self.threads or self.memories or self.undecided)


def size_of_user(memory: MongoMemory, user_id: str) -> UserSize:
    """Say how much there is of a user."""
    whose = memory.user(user_id)._whose()
    run = memory.saver._runners.run
    threads = run(threads_of(whose.saver, whose.user_key, whose.user_id, ended=True))
    memories = run(items_below(whose.store, whose.namespace))
    return UserSize(
        whose.user_id,
        whose.user_key,
        whose.namespace,
        [*threads.found],
        memories,
        [*threads.undecided],
    )


async def items_below(context: StoreContext, namespace: Namespace) -> int:
    """Count the items below a namespace, with those that have expired and are not yet deleted."""
    stages: list[Document] = [{"$match": {"_id": id_range(namespace)}}, {"$count": "items"}]
    return sum(one["items"] for one in await Aggregate(context.items, stages, hint=BY_ID))


@dataclass(slots=True)
class Pruned:
    """What went from threads, or would go.

    Attributes:
        looked_at: How many threads were looked at, where that is known.
        deleted: The ids of the threads that were deleted as a whole.
        changed: How many other threads something went from.
        removed: How many checkpoints went from them.
        hidden: How many stay, for the replay of others or for the grace.
        first: What went from the first of them: thread, removed, hidden.
        left_out: The threads that could not be pruned or deleted, and why. Nothing of them went.
    """

    looked_at: int = 0
    deleted: list[str] = field(default_factory=list)
    changed: int = 0
    removed: int = 0
    hidden: int = 0
    first: list[tuple[str, int, int]] = field(default_factory=list)
    left_out: Named = field(default_factory=Named)

    def add(self, one: PruneReport) -> None:
        """Count what went from a thread."""
        self.looked_at += 1
        removed, hidden = len(one.removed), len(one.hidden)
        self.removed += removed
        self.hidden += hidden
        if removed or hidden:
            self.changed += 1
            if len(self.first) < MOST_NAMED:
                self.first.append((one.thread_id, removed, hidden))

    def leave_out(self, thread_id: str, why: object) -> None:
        """Name a thread that could not be pruned or deleted."""
        self.looked_at += 1
        self.left_out.add([LeftOut(f"thread {shown(thread_id)}", str(why))])

    def add_all(self, report: RetentionReport) -> None:
        """Count what went by a retention."""
        self.deleted += [one.thread_id for one in report.deleted]
        for one in report.pruned:
            self.add(one)
        for thread_id, why in report.left_out.items():
            self.leave_out(thread_id, why)

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        names = ("thread_id", "removed", "hidden")
        return {
            "deleted": len(self.deleted),
            "changed": self.changed,
            "removed": self.removed,
            "hidden": self.hidden,
            "deleted_threads": self.deleted[:MOST_NAMED],
            "first": [dict(zip(names, one, strict=True)) for one in self.first],
            "left_out": asdict(self.left_out),
        }


MOST_NAMED = 1000
"""Of how many threads is told what went."""


@dataclass(frozen=True, slots=True)
class Pruning:
    """The removal of old checkpoints, thread by thread.

    Attributes:
        memory: What is pruned.
        rule: The arguments of ``MongoSaver.prune`` beside the threads and `dry_run`.

    Raises:
        InvalidInputError: The rule is none.
    """

    memory: MongoMemory
    rule: dict[str, Any]

    def __post_init__(self) -> None:
        checked_rule(self.memory.saver._context().now(), **self.rule)

    def steps(self, thread_ids: Iterator[str], report: Pruned, *, dry_run: bool) -> Iterator[None]:
        """Prune threads, a step each; `report` grows. One that cannot be pruned is left out."""
        for thread_id in thread_ids:
            try:
                (one,) = self.memory.saver.prune([thread_id], dry_run=dry_run, **self.rule)
            except MongomemError as error:
                report.leave_out(thread_id, error)
            else:
                report.add(one)
            yield
