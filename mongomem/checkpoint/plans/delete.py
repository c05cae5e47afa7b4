"""The plans that delete threads, and after the grace what is left of them.

What makes data visible goes first, and a deletion can be repeated to finish its job. It leaves the thread document,
without a name in it, as a tombstone: that fences off what was under way, which comes to lie behind the deletion and is
of an epoch that has ended. After the grace that goes too, and the tombstone with it. A thread that has begun a new life
meanwhile says by `ended_at` that there may be something of the former one.

Each look for tombstones is bounded, and what it does can be repeated, by many processes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from pymongo.errors import PyMongoError

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    NAMING_FIELDS,
    THREAD,
    all_but_the_thread,
    is_epoch,
    misfiled,
    next_epoch,
    other_than_after,
    other_than_from,
    utc,
    whole_milliseconds,
)
from mongomem.checkpoint.documents.config import identifier
from mongomem.checkpoint.plans.thread_state import (
    MAX_ATTEMPTS,
    backoff,
    contention_error,
    thread_query,
)
from mongomem.engine.commands import (
    Aggregate,
    BulkWrite,
    Delete,
    DeleteMany,
    Document,
    Find,
    Plan,
    Update,
    UpdateMany,
    Write,
)


async def delete_thread(context: Context, thread_id: str, only_if: Document | None = None) -> bool:
    """Remove every checkpoint, write and chunk of a thread, and leave a tombstone; say whether it was done.

    From its first write on no put can rely on what is there: the thread has a new epoch. A put that
    is under way finds another generation and begins a new life of the thread, whose documents carry
    the new epoch and stay. `only_if` is a condition on the thread document, tested by that write.

    Raises:
        ContentionError: Others changed the thread at the same time, again and again.
    """
    thread_id = identifier("thread_id", thread_id)
    for attempt in range(MAX_ATTEMPTS):
        context.state.invalidate_thread(thread_id)
        query = thread_query(thread_id) | (only_if or {})
        threads = await Find(context.checkpoints, query, {"epoch": 1}, limit=1)
        if only_if is not None and not threads:
            return False
        now = whole_milliseconds(context.now())
        last = threads[0].get("epoch") if threads else None
        epoch = next_epoch(now, last if is_epoch(last) else None)
        stamps = {"deleted_at": now, "touched_at": now}
        tombstone = {"type": THREAD, "epoch": epoch, "generation": context.new_generation(), **stamps}
        reply = await UpdateMany(context.checkpoints, query | {"epoch": {"$eq": last}}, {"$set": tombstone})
        if reply.matched_count or not threads:
            await _delete_earlier_epochs(context, thread_id, epoch, now)
            return True
        await backoff(attempt)
    raise await contention_error(context, thread_id)


async def _delete_earlier_epochs(context: Context, thread_id: str, epoch: int, deleted_at: datetime) -> None:
    """Delete what belongs to lives before `epoch`; last of all what a repetition finds the thread by."""
    ended = {"thread_id": thread_id, "epoch": other_than_from(epoch)}
    await DeleteMany(context.checkpoints, {"type": CHECKPOINT, **ended})
    await DeleteMany(context.writes, {"thread_id": thread_id, "touched_at": other_than_after(deleted_at)})
    await DeleteMany(context.checkpoints, all_but_the_thread(thread_id) | ended)
    for collection in (context.checkpoints, context.writes):
        await DeleteMany(collection, misfiled(thread_id))
    buried = thread_query(thread_id) | {"epoch": epoch, "deleted_at": deleted_at}
    await UpdateMany(context.checkpoints, buried, {"$unset": dict.fromkeys(NAMING_FIELDS, "")})
    context.state.invalidate_thread(thread_id)


def time_before(now: datetime, span: timedelta) -> datetime:
    """Return the time that lies so far back, or the earliest there is."""
    try:
        return now - span
    except OverflowError:
        return datetime.min.replace(tzinfo=timezone.utc)


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
