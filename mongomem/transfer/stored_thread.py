"""Plans: what a database has of a thread, by ids and numbers alone, and the times of a thread that
was copied.

A copy that was cut short goes on behind that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.collections import CHECKPOINT, checkpoint_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.thread import thread_query
from mongomem.engine.commands import Aggregate, BulkWrite, Document, Find, Update
from mongomem.transfer.thread_export import living_document

COUNTED: Document = {
    "$group": {
        "_id": {"ns": "$checkpoint_ns", "id": "$checkpoint_id"},
        "writes": {"$sum": 1},
    }
}


@dataclass(frozen=True, slots=True)
class Stored:
    """What a database has of a thread.

    Attributes:
        checkpoints: The `_id` of each checkpoint.
        writes: How many pending writes there are, by namespace and checkpoint.
        updated_at: What its document says, before its checkpoints were looked at.
    """

    checkpoints: frozenset[str | bytes] = frozenset()
    writes: Mapping[tuple[str, str | None], int] = field(default_factory=dict)
    updated_at: Any = None

    def has(self, ref: CheckpointRef) -> bool:
        return checkpoint_doc_id(ref) in self.checkpoints

    def has_all_of(self, ref: CheckpointRef, writes: int) -> bool:
        """Say whether a checkpoint is there with so many writes."""
        key = (ref.checkpoint_ns, ref.checkpoint_id)
        return self.has(ref) and self.writes.get(key, 0) >= writes

    def others(self, refs: Iterable[CheckpointRef]) -> frozenset[str | bytes]:
        """Return the `_id` of each checkpoint of the thread beside these."""
        return self.checkpoints - {checkpoint_doc_id(one) for one in refs}


async def stored_checkpoints(context: Context, thread_id: str) -> Stored:
    """Return what the database has of a thread, without pending writes."""
    document = await living_document(context, thread_id)
    if document is None:
        return Stored()
    own = {"type": CHECKPOINT, "thread_id": thread_id, "epoch": document["epoch"]}
    checkpoints = await Find(context.checkpoints, own, {"_id": 1})
    ids = frozenset(one["_id"] for one in checkpoints)
    return Stored(ids, updated_at=document.get("updated_at"))


async def stored_parts(context: Context, thread_id: str) -> Stored:
    """Return what the database has of a thread."""
    stored = await stored_checkpoints(context, thread_id)
    if not stored.checkpoints:
        return stored
    counted = await Aggregate(context.writes, [{"$match": {"thread_id": thread_id}}, COUNTED])
    writes = {(one["_id"].get("ns"), one["_id"].get("id")): one["writes"] for one in counted}
    return replace(stored, writes=writes)


async def date_thread(
    context: Context,
    thread_id: str,
    times: tuple[datetime, datetime],
    stored: Stored,
    known: Collection[str | bytes],
) -> None:
    """Set when a thread was created and updated.

    One that somebody puts to during the copy keeps the time of that: with the one of the copy it
    could count as idle.

    Args:
        context: What every plan of the saver is given.
        thread_id: The thread.
        times: When it was created, and when updated.
        stored: What was there of it behind the copy.
        known: The `_id` of each checkpoint that was copied, or was there before the copy.
    """
    (created_at, updated_at), query = times, thread_query(thread_id)
    changes = [Update(query, {"$set": {"created_at": created_at}})]
    if not stored.checkpoints - {*known}:
        as_looked_at = {**query, "updated_at": {"$eq": stored.updated_at}}
        changes.append(Update(as_looked_at, {"$set": {"updated_at": updated_at}}))
    await BulkWrite(context.checkpoints, changes)
    context.caches.invalidate_thread(thread_id)
