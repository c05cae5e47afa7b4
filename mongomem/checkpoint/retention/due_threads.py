"""Plans that tell, of a page of threads, which have something to prune, wait for an answer, or are
in use. A few reads for all of them, so that threads with nothing to do cost little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from langgraph.checkpoint.serde.types import INTERRUPT

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.ancestry import PruneRule
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    VISIBLE,
    all_chunks_of,
    checkpoint_doc_id,
)
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.plans.load import load_bodies, read_checkpoints
from mongomem.engine.commands import Aggregate, Document, Find
from mongomem.errors import MongomemError


async def prunable_threads(
    context: Context, thread_ids: Sequence[str], rule: PruneRule
) -> set[str]:
    """Return the threads with more checkpoints than a rule keeps, or with chunks that an earlier
    removal has marked. May name others: the removal itself decides.
    """
    if not thread_ids:
        return set()
    beyond: Document = {"count": {"$gt": rule.keep_last}}
    if rule.before is not None:
        beyond["oldest"] = {"$not": {"$gte": rule.before}}
    place = {"thread_id": "$thread_id", "checkpoint_ns": "$checkpoint_ns"}
    counted = {"_id": place, "count": {"$sum": 1}, "oldest": {"$min": "$created_at"}}
    larger = await Aggregate(
        context.checkpoints,
        [_of_threads(thread_ids), {"$group": counted}, {"$match": beyond}],
    )
    marked: Document = {
        "$or": [all_chunks_of(one) for one in thread_ids],
        "idle_since": {"$exists": True},
    }
    idle = await Aggregate(
        context.checkpoints, [{"$match": marked}, {"$group": {"_id": "$thread_id"}}]
    )
    return {one["_id"]["thread_id"] for one in larger} | {one["_id"] for one in idle}


def _of_threads(thread_ids: Sequence[str], **more: object) -> Document:
    return {"$match": {"type": CHECKPOINT, "thread_id": {"$in": [*thread_ids]}, **more}}


async def waiting_threads(context: Context, thread_ids: Sequence[str]) -> set[str]:
    """Return the threads that wait for an answer: the newest checkpoint of a namespace has an
    interrupt among its pending writes, and for a subgraph each graph above it still stands where it
    called.

    A run that was answered stores a newer checkpoint. Until then the thread counts as waiting.
    """
    asked = await _interrupted(context, thread_ids)
    if not asked:
        return set()
    newest = await _newest(context, sorted({thread_id for thread_id, _, _ in asked}))
    unanswered = [place for place in asked if newest.get(place[:2]) == place[2]]
    waiting = {thread_id for thread_id, namespace, _ in unanswered if not namespace}
    others = [place for place in unanswered if place[0] not in waiting]
    return waiting | await _still_called(context, others, newest)


async def _newest(context: Context, thread_ids: Sequence[str]) -> dict[tuple[str, Any], Any]:
    """Return the id of the newest checkpoint, by thread and namespace."""
    place = {"thread_id": "$thread_id", "checkpoint_ns": "$checkpoint_ns"}
    found = await Aggregate(
        context.checkpoints,
        [
            _of_threads(thread_ids, hidden=VISIBLE),
            {"$group": {"_id": place, "newest": {"$max": "$checkpoint_id"}}},
        ],
    )
    return {_place(one["_id"], None)[:2]: one["newest"] for one in found}


async def _still_called(
    context: Context,
    places: Sequence[tuple[Any, Any, Any]],
    newest: Mapping[tuple[str, Any], Any],
) -> set[str]:
    """Return the threads of subgraphs whose callers have not gone on without them. What cannot be
    read counts as called.
    """
    threads: set[str] = set()
    if not places:
        return threads
    wanted = {
        "_id": {"$in": [checkpoint_doc_id(CheckpointRef(*place)) for place in places]},
        "thread_id": {"$in": sorted({thread_id for thread_id, _, _ in places})},
    }
    for document in await Find(context.checkpoints, wanted):
        thread_id, namespace = document["thread_id"], document.get("checkpoint_ns")
        callers = await _callers(context, document)
        if all(
            newest.get((thread_id, caller)) == checkpoint_id
            for caller, checkpoint_id in callers.items()
            if caller != namespace
        ):
            threads.add(thread_id)
    return threads


async def _callers(context: Context, document: Document) -> Mapping[str, Any]:
    """Return the checkpoint of each graph above a subgraph, by namespace; nothing where that cannot
    be read.
    """
    try:
        records = await read_checkpoints(context, [document])
        ((_, metadata),) = await load_bodies(context, records)
    except MongomemError:
        return {}
    parents = metadata.get("parents")
    return parents if isinstance(parents, Mapping) else {}


async def _interrupted(context: Context, thread_ids: Sequence[str]) -> set[tuple[Any, Any, Any]]:
    """Return the places of interrupts: thread, namespace and checkpoint. Read from an index."""
    fields = dict.fromkeys(("thread_id", "checkpoint_ns", "checkpoint_id"))
    found = await Aggregate(
        context.writes,
        [
            {"$match": {"thread_id": {"$in": [*thread_ids]}, "channel": INTERRUPT}},
            {"$group": {"_id": {field: f"${field}" for field in fields}}},
        ],
    )
    return {_place(one["_id"], one["_id"].get("checkpoint_id")) for one in found}


def _place(group: Document, checkpoint_id: Any) -> tuple[Any, Any, Any]:
    return group["thread_id"], group.get("checkpoint_ns"), checkpoint_id


async def threads_in_use(context: Context, thread_ids: Sequence[str], since: datetime) -> set[str]:
    """Return the threads with a pending write that was stored since then: a run is under way, and
    has not come to its next checkpoint.
    """
    recent = {"thread_id": {"$in": [*thread_ids]}, "touched_at": {"$gte": since}}
    found = await Aggregate(context.writes, [{"$match": recent}, {"$group": {"_id": "$thread_id"}}])
    return {one["_id"] for one in found}
