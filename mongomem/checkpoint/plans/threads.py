"""The list of threads: what the sidebar of a chat application shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mongomem.arguments import checked_flag, checked_number, shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.ancestry import time_before
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    THREAD,
    THREAD_KEY_BYTES,
    VISIBLE,
)
from mongomem.checkpoint.documents.config import identifier
from mongomem.checkpoint.documents.metadata import (
    checked_filter,
)
from mongomem.checkpoint.documents.thread import (
    ThreadState,
    read_members,
    thread_query,
)
from mongomem.checkpoint.documents.thread_list import (
    NUMBER_IN_A_PAGE,
    ORDER,
    Thread,
    behind,
    behind_document,
    check_clear,
    checked_labels,
    epoch_of,
    label_change,
    matches_filter,
    read_listed,
    thread_conditions,
)
from mongomem.checkpoint.plans.delete import delete_thread
from mongomem.checkpoint.plans.setup import ensure_ours, ensure_setup
from mongomem.checkpoint.plans.thread_state import (
    MAX_ATTEMPTS,
    backoff,
    contention_error,
    read_state,
)
from mongomem.engine.commands import Aggregate, BulkWrite, Document, Find, Update
from mongomem.engine.writes import BY_ID
from mongomem.errors import InvalidInputError, ThreadNotFoundError


async def list_threads(
    context: Context,
    filter: object,
    limit: object,
    before: object,
    *,
    ended: bool = False,
    count_checkpoints: object = False,
) -> list[Thread]:
    """Return threads, last updated first; `before` continues behind a thread or starts at a time.

    With `ended` also those that expired, or that a deletion took from the list and has not finished
    with.
    """
    most = checked_number("limit", limit)
    counts = checked_flag("count_checkpoints", count_checkpoints)
    wanted = checked_filter(filter)
    check_clear(wanted, context.clear_metadata)
    found = await _first_matching(context, wanted, most, behind(before), ended=ended)
    if not found:
        await ensure_ours(context)
    return await _counted(context, found) if counts else [thread for thread, _ in found]


async def _first_matching(
    context: Context, wanted: Mapping[str, Any], most: int, behind: Document, *, ended: bool
) -> list[tuple[Thread, Document]]:
    """Read pages of the list until so many threads match a filter, or there are no more."""
    keys = context.options.metadata_keys
    conditions = thread_conditions(wanted, keys)
    found: list[tuple[Thread, Document]] = []
    while len(found) < most:
        size = most - len(found) if not wanted else NUMBER_IN_A_PAGE
        documents = await thread_page(context, conditions, behind, size, ended=ended)
        found += [
            pair
            for pair in sound_threads(context, documents)
            if matches_filter(*pair, wanted, keys)
        ]
        if len(documents) < size:
            break
        behind = behind_document(documents[-1])
    return found[:most]


async def thread_page(
    context: Context,
    conditions: Sequence[Document],
    behind: Document,
    size: int,
    *,
    ended: bool = False,
) -> list[Document]:
    """Read the next thread documents that meet one of the conditions, in the order of the list.

    Each condition has an index of its own that gives that order, so each is told in full.
    """
    common = {"type": THREAD, **({} if ended else _living(context)), **behind}
    queries = [common | condition for condition in conditions]
    query = queries[0] if len(queries) == 1 else {"$or": queries}
    return await Find(context.checkpoints, query, sort=ORDER, limit=size)


def _living(context: Context) -> Document:
    """Return the condition for threads that were neither deleted nor unused for too long."""
    ttl = context.ttl
    return {
        "deleted_at": None,
        **({"touched_at": {"$gt": context.now() - ttl}} if ttl is not None else {}),
    }


def sound_threads(context: Context, documents: Sequence[Document]) -> list[tuple[Thread, Document]]:
    """Read thread documents, and leave out those that are damaged."""
    found: list[tuple[Thread, Document]] = []
    for document in documents:
        with context.caches.damage.left_out(document["_id"]):
            read_members(document)
            found.append((read_listed(document), document))
    return found


async def _counts_by_life(
    context: Context, thread_ids: Sequence[str]
) -> dict[tuple[str, int | None], int]:
    """Count the visible checkpoints of threads, by thread and epoch."""
    visible = {"$match": {"type": CHECKPOINT, "hidden": VISIBLE, "thread_id": {"$in": thread_ids}}}
    groups = await Aggregate(context.checkpoints, [visible, BY_LIFE])
    return {(one["_id"]["thread"], epoch_of(one["_id"])): one["count"] for one in groups}


async def _counted(context: Context, found: Sequence[tuple[Thread, Document]]) -> list[Thread]:
    """Count the checkpoints of threads: those to be seen, of the epoch of each thread."""
    if not found:
        return []
    counts = await _counts_by_life(context, [thread.thread_id for thread, _ in found])
    lives = [(thread.thread_id, epoch_of(document)) for thread, document in found]
    return [
        replace(thread, checkpoint_count=counts.get(life, 0))
        for (thread, _), life in zip(found, lives, strict=True)
    ]


BY_LIFE: Document = {
    "$group": {"_id": {"thread": "$thread_id", "epoch": "$epoch"}, "count": {"$sum": 1}}
}
"""The stage that counts the checkpoints of each life of a thread."""


async def update_thread(context: Context, thread_id: object, metadata: object) -> Thread:
    """Merge labels into the metadata of a thread, in one atomic update; None removes a label.

    Only the labels change: no checkpoint is made, the thread keeps its place in the list, and its
    runs do not overwrite them. Under an identity key it is one more user whom the thread is of.

    Raises:
        ThreadNotFoundError: There is no such thread: it was deleted, has expired, or has no
            checkpoint yet.
        ContentionError: Others labelled the thread at the same time, again and again.
    """
    name = identifier("thread_id", thread_id)
    users, labels = checked_labels(metadata, context.options.metadata_keys, context.clear_metadata)
    await ensure_setup(context)
    for attempt in range(MAX_ATTEMPTS):
        document, thread = await _living_thread(context, name)
        change = label_change(document, thread, users, labels)
        if await _change_unchanged(context, document, change):
            return _changed(document, change, users)
        await backoff(attempt)
    raise await contention_error(context, name)


def _changed(document: Document, change: Document, users: Mapping[str, str]) -> Thread:
    """Return a thread as a change of its labels left it."""
    labels, identity = change["$set"]["labels"], document.get("identity", {}) | users
    return read_listed(document | {"labels": labels, "identity": identity})


async def _change_unchanged(context: Context, document: Document, change: Document) -> bool:
    """Change a thread document, unless something was removed from the thread or others labelled it
    since the document was read; say whether it was done.
    """
    same = {field: document.get(field) for field in ("generation", "labels")}
    update = Update(thread_query(document["thread_id"]) | same, change)
    reply = await BulkWrite(context.checkpoints, [update])
    return bool(reply.matched_count)


async def _living_thread(context: Context, thread_id: str) -> tuple[Document, ThreadState]:
    """Read a thread that has checkpoints, and its state.

    Raises:
        ThreadNotFoundError: There is none.
    """
    documents = await Find(context.checkpoints, thread_query(thread_id), limit=1)
    thread = read_state(context, documents[0]) if documents else None
    if thread is None or thread.begins:
        raise ThreadNotFoundError(f"there is no thread {shown(thread_id)}")
    return documents[0], thread


ID_PAGE_SIZE = 1000


async def thread_ids(context: Context, behind: bytes) -> tuple[list[str], bytes | None]:
    """Return the ids of the next living threads, in the order of their `_id`, which nothing
    changes; and the last `_id`, None where there are no more.

    Thread documents come before all others of their collection: shorter bytes are lower
    (https://www.mongodb.com/docs/manual/reference/bson-type-comparison-order/#binary-data).
    """
    longer = bytes(THREAD_KEY_BYTES + 1)
    query = {"_id": {"$gt": behind, "$lt": longer}, "type": THREAD, "deleted_at": None}
    shown = {"thread_id": 1}
    page = await Find(
        context.checkpoints, query, shown, sort=[("_id", 1)], limit=ID_PAGE_SIZE, hint=BY_ID
    )
    found = [one["thread_id"] for one in page if isinstance(one.get("thread_id"), str)]
    return found, page[-1]["_id"] if len(page) == ID_PAGE_SIZE else None


IDLE_PAGE_SIZE = 200


async def delete_idle_threads(context: Context, idle_for: object, dry_run: object) -> list[Thread]:
    """Delete the threads that were not updated for so long, in any namespace; say which, or which
    would go.
    """
    if not isinstance(idle_for, timedelta) or idle_for <= timedelta(0):
        raise InvalidInputError(f"idle_for must be a positive timedelta, not {shown(idle_for)}")
    is_dry = checked_flag("dry_run", dry_run)
    before: Thread | datetime = time_before(context.now(), idle_for)
    still = {"updated_at": {"$lt": before}}
    idle: list[Thread] = []
    page: list[Thread] | None = None
    while page is None or len(page) == IDLE_PAGE_SIZE:
        page = await list_threads(context, None, IDLE_PAGE_SIZE, before, ended=True)
        idle += [
            one for one in page if is_dry or await delete_thread(context, one.thread_id, still)
        ]
        before = page[-1] if page else before
    return idle
