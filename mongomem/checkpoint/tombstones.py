"""Plans that remove what is left of deleted threads, once their grace is over.

A deletion leaves the thread document, without a name in it, as a tombstone: it fences off what was under way, which
comes to lie behind the deletion and is of an epoch that has ended. After the grace that goes too, and the tombstone
with it. A thread that has begun a new life meanwhile says by `ended_at` that there may be something of the former one.

Each look is bounded, and what it does can be repeated, by many processes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pymongo.errors import PyMongoError

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import CHECKPOINT, THREAD, all_but_the_thread, is_epoch, utc
from mongomem.commands import Aggregate, BulkWrite, Delete, DeleteMany, Document, Find, Plan, Update, Write

T = TypeVar("T")

MOST_AT_ONCE = 100
"""How many threads one look is about."""

SHORTEST_PAUSE = timedelta(minutes=1)
"""Between two looks behind the puts of a process, however short the grace is."""

SLICE = 1000
"""How many places of writes one command names."""

SEEN = ("thread_id", "epoch", "generation", "deleted_at", "ended_at")


async def then_clean(context: Context, remove: Callable[[], Plan[T]], *, unless: object = False) -> T:
    """Run a plan that removes; then, `unless` it was to change nothing, what is left of threads deleted long ago."""
    result = await remove()
    if not unless:
        await remove_tombstones(context)
    return result


async def clean_now_and_then(context: Context) -> None:
    """Look for old tombstones, at most once a grace in a process: one read where there are none.

    What fails is left to the next look: it must not fail the put that was done.
    """
    last, now = context.state.tombstones_looked_for_at, context.now()
    if last is None or now - last >= max(context.options.grace, SHORTEST_PAUSE):
        with suppress(PyMongoError):
            await remove_tombstones(context)


async def remove_tombstones(context: Context) -> None:
    """Remove what is left of threads whose deletion is older than the grace, and the tombstones with them."""
    now = context.now()
    context.state.tombstones_looked_for_at = now
    cutoff = now - context.options.grace
    due = {"$lte": cutoff}
    query = [{"type": THREAD, "deleted_at": due}, {"type": THREAD, "ended_at": due, "deleted_at": None}]
    found = await Find(context.checkpoints, {"$or": query}, dict.fromkeys(SEEN, 1), limit=MOST_AT_ONCE)
    threads = [one for one in found if is_epoch(one.get("epoch")) and isinstance(one.get("thread_id"), str)]
    dead = [one for one in threads if one.get("deleted_at") is not None]
    if dead:
        await _remove_dead(context, dead, cutoff)
    for thread in threads:
        if thread.get("deleted_at") is None:
            await _clean_living(context, thread, cutoff)
    if len(found) == MOST_AT_ONCE:
        context.state.tombstones_looked_for_at = None


async def _remove_dead(context: Context, dead: Sequence[Document], cutoff: datetime) -> None:
    """Remove tombstones, and before them what came to lie behind them; one with younger documents waits for these."""
    ids = [one["thread_id"] for one in dead]
    await DeleteMany(context.writes, {"thread_id": {"$in": ids}, "touched_at": {"$lte": cutoff}})
    old = [[{"epoch": {"$lt": one["epoch"]}}, {"touched_at": {"$lte": cutoff}}] for one in dead]
    late = [{**all_but_the_thread(one), "$or": which} for one, which in zip(ids, old, strict=True)]
    await DeleteMany(context.checkpoints, {"$or": late})
    by_thread: Document = {"$group": {"_id": "$thread_id"}}
    writes = {"coll": context.writes, "pipeline": [{"$match": {"thread_id": {"$in": ids}}}, by_thread]}
    stages = [{"$match": {"$or": [all_but_the_thread(one) for one in ids]}}, by_thread, {"$unionWith": writes}]
    left = {one["_id"] for one in await Aggregate(context.checkpoints, stages)}
    ends: list[Write] = []
    for one in dead:
        # A put may have begun a new life meanwhile, or another deletion ended one: then it is not this tombstone.
        same = {field: one.get(field) for field in ("_id", "thread_id", "epoch", "generation", "deleted_at")}
        waits = Update(same, {"$set": {"deleted_at": context.now()}})
        ends.append(waits if one["thread_id"] in left else Delete(same))
    await BulkWrite(context.checkpoints, ends, ordered=False)


async def _clean_living(context: Context, thread: Document, cutoff: datetime) -> None:
    """Remove from a thread what its former life left; where some of its writes are younger, look again later."""
    thread_id, epoch = thread["thread_id"], thread["epoch"]
    await DeleteMany(context.checkpoints, all_but_the_thread(thread_id) | {"epoch": {"$lt": epoch}})
    place = {"checkpoint_ns": "$checkpoint_ns", "checkpoint_id": "$checkpoint_id"}
    grouped = {"$group": {"_id": place, "touched_at": {"$max": "$touched_at"}}}
    groups = await Aggregate(context.writes, [{"$match": {"thread_id": thread_id}}, grouped])
    living = {"type": CHECKPOINT, "thread_id": thread_id, "epoch": epoch}
    found = await Find(context.checkpoints, living, {"checkpoint_ns": 1, "checkpoint_id": 1})
    there = {_place(one) for one in found} | {None}
    orphans = [one for one in groups if _place(one["_id"]) not in there]
    for start in range(0, len(orphans), SLICE):
        places = [dict(one["_id"]) for one in orphans[start : start + SLICE]]
        late = {"thread_id": thread_id, "touched_at": {"$lte": cutoff}, "$or": places}
        await DeleteMany(context.writes, late)
    waits = any(isinstance(one["touched_at"], datetime) and utc(one["touched_at"]) > cutoff for one in orphans)
    change = {"$set": {"ended_at": context.now()}} if waits else {"$unset": {"ended_at": ""}}
    same = {field: thread[field] for field in ("_id", "thread_id", "epoch", "ended_at")}
    await BulkWrite(context.checkpoints, [Update(same, change)])


def _place(fields: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return where in its thread a document says to be; None where that is damaged."""
    namespace, checkpoint_id = fields.get("checkpoint_ns"), fields.get("checkpoint_id")
    return (namespace, checkpoint_id) if isinstance(namespace, str) and isinstance(checkpoint_id, str) else None
