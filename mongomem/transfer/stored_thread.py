"""Plan: what a database has of a thread, by ids and numbers alone.

A copy that was cut short goes on behind that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.collections import CHECKPOINT, checkpoint_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.engine.commands import Aggregate, Document, Find
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
    """

    checkpoints: frozenset[str | bytes] = frozenset()
    writes: Mapping[tuple[str, str | None], int] = field(default_factory=dict)

    def has(self, ref: CheckpointRef) -> bool:
        return checkpoint_doc_id(ref) in self.checkpoints

    def has_all_of(self, ref: CheckpointRef, writes: int) -> bool:
        """Say whether a checkpoint is there with so many writes."""
        key = (ref.checkpoint_ns, ref.checkpoint_id)
        return self.has(ref) and self.writes.get(key, 0) >= writes

    def goes_on(self, refs: Iterable[CheckpointRef]) -> bool:
        """Say whether the thread has checkpoints beside these."""
        return not self.checkpoints <= {checkpoint_doc_id(one) for one in refs}


async def stored_parts(context: Context, thread_id: str) -> Stored:
    """Return what the database has of a thread."""
    document = await living_document(context, thread_id)
    if document is None:
        return Stored()
    own = {"type": CHECKPOINT, "thread_id": thread_id, "epoch": document["epoch"]}
    checkpoints = await Find(context.checkpoints, own, {"_id": 1})
    counted = await Aggregate(context.writes, [{"$match": {"thread_id": thread_id}}, COUNTED])
    writes = {(one["_id"].get("ns"), one["_id"].get("id")): one["writes"] for one in counted}
    return Stored(frozenset(one["_id"] for one in checkpoints), writes)
