"""The list of threads, with what each holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mongomem.arguments import shown
from mongomem.checkpoint.documents.config import identifier
from mongomem.checkpoint.documents.thread import thread_query
from mongomem.checkpoint.documents.thread_list import Thread, read_listed
from mongomem.checkpoint.plans.threads import list_threads
from mongomem.engine.commands import Find
from mongomem.errors import ThreadNotFoundError
from mongomem.inspection.context import Context
from mongomem.inspection.plain_values import plain
from mongomem.inspection.sizes import ThreadSize, sizes_of

SIZES_MILLISECONDS = 5_000
"""How long the server may add up what the threads of a page hold."""


@dataclass(frozen=True, slots=True)
class SizedThread:
    """A thread, and what it holds; None where that takes too long to add up."""

    thread: Thread
    size: ThreadSize | None

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        thread, size = self.thread, self.size
        return {
            "thread_id": thread.thread_id,
            "created_at": thread.created_at.isoformat(),
            "updated_at": thread.updated_at.isoformat(),
            "metadata": plain(thread.metadata),
            "preview": thread.preview,
            "checkpoints": size and size.checkpoints,
            "pending_writes": size and size.writes,
            "stored_bytes": size and size.stored,
            "logical_bytes": size and size.logical,
        }


async def sized_threads(
    context: Context, filter: Mapping[str, Any] | None, limit: int, before: datetime | str | None
) -> list[SizedThread]:
    """Return threads, the one updated last first, with what each holds.

    Args:
        context: Of the query.
        filter: What the metadata must contain.
        limit: How many at most.
        before: Only threads updated before that time, or behind that thread.

    Raises:
        ThreadNotFoundError: There is no such thread to begin behind.
    """
    start = await _thread(context, before) if isinstance(before, str) else before
    found = await list_threads(context.saver, filter, limit, start)
    sizes = await sizes_of(context, [one.thread_id for one in found], SIZES_MILLISECONDS)
    return [SizedThread(one, None if sizes is None else sizes[one.thread_id]) for one in found]


async def _thread(context: Context, thread_id: str) -> Thread:
    name = identifier("thread_id", thread_id)
    documents = await Find(context.saver.checkpoints, thread_query(name), limit=1)
    if not documents or documents[0].get("updated_at") is None:
        raise ThreadNotFoundError(f"there is no thread {shown(name)} in this database")
    return read_listed(documents[0])


def user_filter(context: Context, user: object, others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filter for the threads of a user that contain something."""
    return {**({} if user is None else {context.user_key: user}), **others}
