"""What a removal is about: told before it is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from mongomem.arguments import shown
from mongomem.checkpoint.documents.config import identifier
from mongomem.checkpoint.documents.fields import utc
from mongomem.checkpoint.documents.thread import thread_query
from mongomem.checkpoint.plans.delete import delete_thread, then_clean
from mongomem.engine.commands import Aggregate, Document, Find, slices
from mongomem.errors import ThreadNotFoundError
from mongomem.inspection.context import Context as InspectionContext
from mongomem.inspection.inspector import Inspector
from mongomem.inspection.sizes import ThreadSize, sizes_of
from mongomem.memory import MongoMemory
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
    """

    thread_id: str
    updated_at: datetime | None
    size: ThreadSize | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known to be there of it."""
        return self.size is None or not (self.size.checkpoints or self.size.writes)

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
    times = await _times(context, thread_ids)
    sizes = await sizes_of(context, thread_ids, SIZES_MILLISECONDS) or {}
    found = [ThreadToGo(one, _time(times.get(one)), sizes.get(one)) for one in thread_ids]
    if absent := [
        one.thread_id for one in found if times.get(one.thread_id) is None and one.is_empty
    ]:
        raise ThreadNotFoundError(
            f"there is no thread {', '.join(map(shown, absent))} in this database"
        )
    return found


async def _times(context: InspectionContext, thread_ids: Sequence[str]) -> dict[str, Any]:
    """Return when threads were updated, as far as they have documents that say it."""
    query = {"$or": [thread_query(identifier("thread_id", one)) for one in thread_ids]}
    documents = await Find(context.saver.checkpoints, query, {"thread_id": 1, "updated_at": 1})
    return {one["thread_id"]: one.get("updated_at") for one in documents}


def _time(value: object) -> datetime | None:
    return utc(value) if isinstance(value, datetime) else None


@dataclass(frozen=True, slots=True)
class UserSize:
    """How much there is of a user.

    Attributes:
        user_id: The user.
        threads: The ids of the threads.
        memories: How many memories.
        undecided: The ids of threads that do not say whose they are.
    """

    user_id: str
    threads: list[str]
    memories: int
    undecided: list[str]


def size_of_user(memory: MongoMemory, user_id: str) -> UserSize:
    """Say how much there is of a user."""
    whose = memory.user(user_id)._whose()
    run = memory.saver._runners.run
    threads = run(threads_of(whose.saver, whose.user_key, whose.user_id, ended=True))
    memories = run(items_below(whose.store, whose.namespace))
    return UserSize(whose.user_id, [*threads.found], memories, [*threads.undecided])


async def items_below(context: StoreContext, namespace: Namespace) -> int:
    """Count the items below a namespace."""
    stages: list[Document] = [{"$match": {"_id": id_range(namespace)}}, {"$count": "items"}]
    return sum(one["items"] for one in await Aggregate(context.items, stages, hint=BY_ID))


@dataclass(slots=True)
class Pruned:
    """What went from threads, or would go.

    Attributes:
        threads: How many threads were looked at.
        changed: How many of them something went from.
        removed: How many checkpoints went.
        hidden: How many stay, for the replay of others or for the grace.
        first: What went from the first of them: thread, removed, hidden.
    """

    threads: int = 0
    changed: int = 0
    removed: int = 0
    hidden: int = 0
    first: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, thread_id: str, removed: int, hidden: int) -> None:
        """Count what went from a thread."""
        self.threads += 1
        self.removed += removed
        self.hidden += hidden
        if removed or hidden:
            self.changed += 1
            if len(self.first) < MOST_NAMED:
                self.first.append((thread_id, removed, hidden))

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        names = ("thread_id", "removed", "hidden")
        first = [dict(zip(names, one, strict=True)) for one in self.first]
        return asdict(self) | {"first": first}


MOST_NAMED = 1000
"""Of how many threads is told what went."""


@dataclass(frozen=True, slots=True)
class Pruning:
    """The removal of old checkpoints, thread by thread.

    Attributes:
        memory: What is pruned.
        rule: The arguments of ``MongoSaver.prune`` beside the threads and `dry_run`.
    """

    memory: MongoMemory
    rule: dict[str, Any]

    def steps(self, thread_ids: Iterator[str], report: Pruned, *, dry_run: bool) -> Iterator[None]:
        """Prune threads, a step each; `report` grows."""
        for thread_id in thread_ids:
            (one,) = self.memory.saver.prune([thread_id], dry_run=dry_run, **self.rule)
            report.add(thread_id, len(one.removed), len(one.hidden))
            yield
