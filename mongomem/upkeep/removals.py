"""What a removal is about: told before it is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context as SaverContext
from mongomem.checkpoint.documents.collections import CHECKPOINT
from mongomem.checkpoint.documents.thread import thread_query
from mongomem.engine.commands import Aggregate, Document, Find
from mongomem.errors import ThreadNotFoundError
from mongomem.memory import MongoMemory
from mongomem.store.context import Context as StoreContext
from mongomem.store.documents.item import BY_ID
from mongomem.store.documents.namespace import Namespace, id_range
from mongomem.user_data import threads_of


@dataclass(frozen=True, slots=True)
class ThreadSize:
    """How much there is of a thread.

    Attributes:
        thread_id: The thread.
        checkpoints: How many checkpoints, hidden ones included.
        writes: How many pending writes.
        updated_at: When its newest checkpoint was stored; None where a deletion has begun.
    """

    thread_id: str
    checkpoints: int
    writes: int
    updated_at: datetime | None

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        updated_at = None if self.updated_at is None else self.updated_at.isoformat()
        return asdict(self) | {"updated_at": updated_at}


def sizes_of(memory: MongoMemory, thread_ids: Sequence[str]) -> list[ThreadSize]:
    """Say how much there is of threads, also of those whose deletion broke off.

    Raises:
        ThreadNotFoundError: One is not there.
    """
    run, context = memory.saver._runners.run, memory.saver._context()
    found = [(one, run(_size(context, one))) for one in dict.fromkeys(thread_ids)]
    if absent := [name for name, size in found if size is None]:
        raise ThreadNotFoundError(f"there is no thread {', '.join(map(shown, absent))}")
    return [size for _, size in found if size is not None]


async def _size(context: SaverContext, thread_id: str) -> ThreadSize | None:
    own = {"thread_id": thread_id}
    checkpoints = await _count(context.checkpoints, {"type": CHECKPOINT, **own})
    writes = await _count(context.writes, own)
    documents = await Find(context.checkpoints, thread_query(thread_id), limit=1)
    updated_at = documents[0].get("updated_at") if documents else None
    if not checkpoints and not writes and updated_at is None:
        return None
    is_time = isinstance(updated_at, datetime)
    return ThreadSize(thread_id, checkpoints, writes, updated_at if is_time else None)


async def _count(collection: str, condition: Document, hint: str | None = None) -> int:
    stages: list[Document] = [{"$match": condition}, {"$count": "count"}]
    return sum(one["count"] for one in await Aggregate(collection, stages, hint=hint))


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
    return await _count(context.items, {"_id": id_range(namespace)}, BY_ID)


@dataclass(slots=True)
class Pruned:
    """What went from threads, or would go.

    Attributes:
        threads: How many threads were looked at.
        changed: How many of them something went from.
        removed: How many checkpoints went.
        hidden: How many stay only for the replay of others.
        first: What went from the first of them: thread, removed, hidden.
    """

    threads: int = 0
    changed: int = 0
    removed: int = 0
    hidden: int = 0
    first: list[tuple[str, int, int]] = field(default_factory=list)

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
            removed, hidden = len(one.removed), len(one.hidden)
            report.threads += 1
            report.changed += bool(removed or hidden)
            report.removed += removed
            report.hidden += hidden
            if (removed or hidden) and len(report.first) < MOST_NAMED:
                report.first.append((thread_id, removed, hidden))
            yield
