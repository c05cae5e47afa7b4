"""The plans that delete threads, and after the grace what is left of them.

What makes data visible goes first, and a deletion can be repeated to finish its job. It leaves the
thread document, without a name in it, as a tombstone: that fences off what was under way, which
comes to lie behind the deletion and is of an epoch that has ended. After the grace that goes too,
and the tombstone with it. A thread that has begun a new life meanwhile says by `ended_at` that
there may be something of the former one.

Each look for tombstones is bounded, and what it does can be repeated, by many processes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pymongo.errors import PyMongoError

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    NAMING_FIELDS,
    THREAD,
    all_but_the_thread,
    before_epoch,
    misfiled,
    until,
)
from mongomem.checkpoint.documents.config import identifier
from mongomem.checkpoint.documents.fields import is_epoch, next_epoch, whole_milliseconds
from mongomem.checkpoint.documents.thread import thread_query
from mongomem.checkpoint.plans.thread_state import MAX_ATTEMPTS, backoff, contention_error
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
    as_utc,
    slices,
)


async def delete_thread(context: Context, thread_id: str, only_if: Document | None = None) -> bool:
    """Remove every checkpoint, write and chunk of a thread, and leave a tombstone; say whether it
    was done.

    From its first write on no put can rely on what is there: the thread has a new epoch. A put that
    is under way finds another generation and begins a new life of the thread, whose documents carry
    the new epoch and stay. `only_if` is a condition on the thread document, tested by that write.

    Raises:
        ContentionError: Others changed the thread at the same time, again and again.
    """
    thread_id = identifier("thread_id", thread_id)
    query = thread_query(thread_id) | (only_if or {})
    for attempt in range(MAX_ATTEMPTS):
        context.caches.invalidate_thread(thread_id)
        threads = await Find(context.checkpoints, query, {"epoch": 1}, limit=1)
        if only_if is not None and not threads:
            return False
        tombstone = await _bury(context, query, threads)
        if tombstone is not None:
            await _delete_earlier_epochs(context, thread_id, tombstone)
            return True
        await backoff(attempt)
    raise await contention_error(context, thread_id)


async def _bury(context: Context, query: Document, threads: Sequence[Document]) -> Document | None:
    """Make a tombstone of the thread document that was read, if any; None where it has another
    epoch by now.
    """
    last = threads[0].get("epoch") if threads else None
    tombstone = _tombstone(context, last)
    unchanged = query | {"epoch": {"$eq": last}}
    reply = await UpdateMany(context.checkpoints, unchanged, {"$set": tombstone})
    return tombstone if reply.matched_count or not threads else None


def _tombstone(context: Context, last: Any) -> Document:
    """Return what makes a thread document a tombstone: an epoch above the `last` one, and a new
    generation.
    """
    now = whole_milliseconds(context.now())
    return {
        "type": THREAD,
        "epoch": next_epoch(now, last if is_epoch(last) else None),
        "generation": context.new_generation(),
        "deleted_at": now,
        "touched_at": now,
    }


async def _delete_earlier_epochs(context: Context, thread_id: str, tombstone: Document) -> None:
    """Delete what belongs to lives before that of a tombstone; last of all what a repetition finds
    the thread by.

    1. Checkpoints: nothing is shown any more.
    2. Pending writes: those of before the deletion, by their time, since not all carry an epoch.
    3. Chunks, and whatever else has an `_id` of the thread.
    4. Documents with an `_id` of the thread that say to be of another.
    5. What the tombstone still says of the thread. A repetition finds the thread by that.
    """
    epoch, deleted_at = tombstone["epoch"], tombstone["deleted_at"]
    ended = {"thread_id": thread_id, "epoch": before_epoch(epoch)}
    await DeleteMany(context.checkpoints, {"type": CHECKPOINT, **ended})
    before = {"thread_id": thread_id, "touched_at": until(deleted_at)}
    await DeleteMany(context.writes, before)
    await DeleteMany(context.checkpoints, all_but_the_thread(thread_id) | ended)
    for collection in (context.checkpoints, context.writes):
        await DeleteMany(collection, misfiled(thread_id))
    buried = thread_query(thread_id) | {"epoch": epoch, "deleted_at": deleted_at}
    await UpdateMany(context.checkpoints, buried, {"$unset": dict.fromkeys(NAMING_FIELDS, "")})
    context.caches.invalidate_thread(thread_id)


T = TypeVar("T")

MOST_AT_ONCE = 100
"""How many threads one look is about."""

SHORTEST_PAUSE = timedelta(minutes=1)
"""Between two looks behind the puts of a process, however short the grace is."""

PLACES_PER_COMMAND = 1000
"""How many places of writes one command names."""

SEEN = ("thread_id", "epoch", "generation", "deleted_at", "ended_at")


async def then_clean(
    context: Context, remove: Callable[[], Plan[T]], *, unless: object = False
) -> T:
    """Run a plan that removes; then, `unless` it was to change nothing, what is left of threads
    deleted long ago.
    """
    result = await remove()
    if not unless:
        await remove_tombstones(context)
    return result


async def clean_now_and_then(context: Context) -> None:
    """Look for old tombstones, at most once a grace in a process: one read where there are none.

    What fails is left to the next look: it must not fail the put that was done.
    """
    last, now = context.caches.setup_state.tombstones_looked_for_at, context.now()
    pause = max(context.options.grace, SHORTEST_PAUSE)
    # A clock that was set back must not end the looks until it comes to where it was.
    if last is None or not timedelta(0) <= now - last < pause:
        with suppress(PyMongoError):
            await remove_tombstones(context)


async def remove_tombstones(context: Context) -> None:
    """Remove what is left of threads whose deletion is older than the grace, and the tombstones
    with them.
    """
    now = context.now()
    context.caches.setup_state.tombstones_looked_for_at = now
    cutoff = now - context.options.grace
    found = await _ended_by(context, cutoff)
    threads = [
        one for one in found if is_epoch(one.get("epoch")) and isinstance(one.get("thread_id"), str)
    ]
    dead = [one for one in threads if one.get("deleted_at") is not None]
    if dead:
        await _remove_dead(context, dead, cutoff)
    for thread in threads:
        if thread.get("deleted_at") is None:
            await _clean_living(context, thread, cutoff)
    if len(found) == MOST_AT_ONCE:
        context.caches.setup_state.tombstones_looked_for_at = None


async def _ended_by(context: Context, cutoff: datetime) -> list[Document]:
    """Read tombstones, and threads that live again, whose deletion or last life ended by
    `cutoff`.
    """
    due = {"$lte": cutoff}
    query = [
        {"type": THREAD, "deleted_at": due},
        {"type": THREAD, "ended_at": due, "deleted_at": None},
    ]
    return await Find(
        context.checkpoints, {"$or": query}, dict.fromkeys(SEEN, 1), limit=MOST_AT_ONCE
    )


async def _remove_dead(context: Context, dead: Sequence[Document], cutoff: datetime) -> None:
    """Remove tombstones, and before them what came to lie behind them; one with younger documents
    waits for these.
    """
    ids = [one["thread_id"] for one in dead]
    await DeleteMany(context.writes, {"thread_id": {"$in": ids}, "touched_at": {"$lte": cutoff}})
    await DeleteMany(context.checkpoints, {"$or": [_late_behind(one, cutoff) for one in dead]})
    left = await _threads_with_documents(context, ids)
    ends = [_end_of_tombstone(context, one, waits=one["thread_id"] in left) for one in dead]
    await BulkWrite(context.checkpoints, ends, ordered=False)


def _late_behind(tombstone: Document, cutoff: datetime) -> Document:
    """Return the query for what came to lie behind a tombstone: of a life before it, or untouched
    since `cutoff`.
    """
    old = [{"epoch": {"$lt": tombstone["epoch"]}}, {"touched_at": {"$lte": cutoff}}]
    return {**all_but_the_thread(tombstone["thread_id"]), "$or": old}


async def _threads_with_documents(context: Context, ids: Sequence[str]) -> set[str]:
    """Return those of the threads that have any document but their own, pending writes included."""
    by_thread: Document = {"$group": {"_id": "$thread_id"}}
    writes = {
        "coll": context.writes,
        "pipeline": [{"$match": {"thread_id": {"$in": ids}}}, by_thread],
    }
    stages = [
        {"$match": {"$or": [all_but_the_thread(one) for one in ids]}},
        by_thread,
        {"$unionWith": writes},
    ]
    return {one["_id"] for one in await Aggregate(context.checkpoints, stages)}


def _end_of_tombstone(context: Context, tombstone: Document, *, waits: bool) -> Write:
    """Return the write that ends a tombstone, or that has it wait for one more grace.

    A put may have begun a new life meanwhile, or another deletion ended one: then it is not this
    tombstone.
    """
    same = {
        field: tombstone.get(field)
        for field in ("_id", "thread_id", "epoch", "generation", "deleted_at")
    }
    return Update(same, {"$set": {"deleted_at": context.now()}}) if waits else Delete(same)


async def _clean_living(context: Context, thread: Document, cutoff: datetime) -> None:
    """Remove from a thread what its former life left; where some of its writes are younger, look
    again later.
    """
    thread_id, epoch = thread["thread_id"], thread["epoch"]
    await DeleteMany(context.checkpoints, all_but_the_thread(thread_id) | {"epoch": {"$lt": epoch}})
    waits = await _clean_orphaned_writes(context, thread_id, epoch, cutoff)
    change = {"$set": {"ended_at": context.now()}} if waits else {"$unset": {"ended_at": ""}}
    same = {field: thread[field] for field in ("_id", "thread_id", "epoch", "ended_at")}
    await BulkWrite(context.checkpoints, [Update(same, change)])


async def _clean_orphaned_writes(
    context: Context, thread_id: str, epoch: int, cutoff: datetime
) -> bool:
    """Delete the writes without a checkpoint that are older than `cutoff`; say whether there are
    younger ones.
    """
    orphans = await _orphaned_writes(context, thread_id, epoch)
    await _delete_late_writes(context, thread_id, [dict(one["_id"]) for one in orphans], cutoff)
    return any(_is_after(one["touched_at"], cutoff) for one in orphans)


def _is_after(touched_at: object, cutoff: datetime) -> bool:
    return isinstance(touched_at, datetime) and as_utc(touched_at) > cutoff


async def _delete_late_writes(
    context: Context, thread_id: str, places: Sequence[Document], cutoff: datetime
) -> None:
    for some in slices(places, PLACES_PER_COMMAND):
        late = {"thread_id": thread_id, "touched_at": {"$lte": cutoff}, "$or": some}
        await DeleteMany(context.writes, late)


BY_PLACE: Document = {
    "$group": {
        "_id": {"checkpoint_ns": "$checkpoint_ns", "checkpoint_id": "$checkpoint_id"},
        "touched_at": {"$max": "$touched_at"},
    }
}
"""The stage that gives one document a place of writes, with the time of its youngest write."""


async def _orphaned_writes(context: Context, thread_id: str, epoch: int) -> list[Document]:
    """Return the places of writes, grouped `BY_PLACE`, that have no checkpoint in this life of the
    thread.

    Writes are read before checkpoints: a checkpoint that is put in between then counts as there.
    """
    groups = await Aggregate(context.writes, [{"$match": {"thread_id": thread_id}}, BY_PLACE])
    living = {"type": CHECKPOINT, "thread_id": thread_id, "epoch": epoch}
    found = await Find(context.checkpoints, living, {"checkpoint_ns": 1, "checkpoint_id": 1})
    there = {_place(one) for one in found} | {None}
    return [one for one in groups if _place(one["_id"]) not in there]


def _place(fields: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return where in its thread a document says to be; None where that is damaged."""
    namespace, checkpoint_id = fields.get("checkpoint_ns"), fields.get("checkpoint_id")
    return (
        (namespace, checkpoint_id)
        if isinstance(namespace, str) and isinstance(checkpoint_id, str)
        else None
    )
