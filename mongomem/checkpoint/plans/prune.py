"""The plans that remove checkpoints from a thread, and then the chunks and writes that no
checkpoint leads to.

A put refers to chunks of its parent without writing them, so a chunk that nothing refers to now may
be referred to in a moment. It is marked first; only a later collection deletes it, once the mark is
as old as the grace, and only if the mark still stands: a put that needs the chunk writes it, which
takes the mark away, and a collection that finds it referred to does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial

from langchain_core.runnables import RunnableConfig

from mongomem.arguments import checked_flag, checked_list
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.ancestry import (
    CheckpointNode,
    RemovalPlan,
    Wait,
    checked_rule,
    plan_removal,
)
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint, StoredWrite
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    CHUNK,
    VISIBLE,
    all_chunks_of,
    checkpoint_doc_id,
    chunk_doc_id,
)
from mongomem.checkpoint.documents.config import CheckpointRef, identifier
from mongomem.checkpoint.documents.fields import read_field
from mongomem.checkpoint.documents.garbage import plan_garbage
from mongomem.checkpoint.documents.identity import RUN, forms_of
from mongomem.checkpoint.documents.thread import thread_query
from mongomem.checkpoint.plans.delete import delete_thread
from mongomem.checkpoint.plans.load import (
    load_bodies,
    read_checkpoints,
    read_writes,
    resolve_hash_lists,
    retry_if_chunk_missing,
)
from mongomem.checkpoint.plans.thread_state import (
    MAX_ATTEMPTS,
    backoff,
    contention_error,
    new_generation,
    read_state,
)
from mongomem.engine.commands import (
    IDS_PER_COMMAND,
    BulkWrite,
    DeleteMany,
    Document,
    Find,
    Update,
    UpdateMany,
    slices,
)
from mongomem.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What went from a thread, or would have gone where nothing was to be changed.

    Attributes:
        thread_id: The thread.
        removed: Configs of the checkpoints that are gone.
        hidden: Configs of those that only a kept checkpoint's replay still reads, and of those that
            wait for the grace, because a run may still put on them what is rebuilt from them.
    """

    thread_id: str
    removed: list[RunnableConfig]
    hidden: list[RunnableConfig]


async def prune(
    context: Context,
    thread_ids: object,
    strategy: object,
    keep_last: object,
    older_than: object,
    dry_run: object,
) -> list[PruneReport]:
    """Remove checkpoints of threads by a rule; say what went, or would go."""
    rule = checked_rule(context.now(), strategy, keep_last, older_than)
    is_dry = checked_flag("dry_run", dry_run)
    return [
        await prune_thread(context, one, rule.to_remove, is_dry, context.options.grace)
        for one in _unique_ids("thread_id", thread_ids)
    ]


async def delete_for_runs(context: Context, run_ids: object) -> None:
    """Remove the checkpoints that runs made, with their writes."""
    wanted = frozenset(_unique_ids("run_id", run_ids))
    clear = context.clear_metadata
    if clear is not None and RUN not in clear:
        raise ConfigurationError(
            "runs cannot be found: name run_id in clear_metadata, where it stands readable"
        )
    if not wanted:
        return

    def to_remove(nodes: Sequence[CheckpointNode]) -> set[CheckpointRef]:
        return {node.ref for node in nodes if node.run_id in wanted}

    for thread_id in await _threads_of_runs(context, wanted):
        await prune_thread(context, thread_id, to_remove, dry_run=False, grace=timedelta(0))


async def _threads_of_runs(context: Context, run_ids: Collection[str]) -> list[str]:
    forms = [form for run_id in sorted(run_ids) for form in forms_of(run_id)]
    query = {"type": CHECKPOINT, f"metadata.{RUN}": {"$in": forms}}
    found = await Find(context.checkpoints, query, {"thread_id": 1})
    return sorted({read_field(document, "thread_id", str) for document in found})


def _unique_ids(name: str, values: object) -> list[str]:
    return list(
        dict.fromkeys(identifier(name, value) for value in checked_list(f"{name}s", values))
    )


async def prune_thread(
    context: Context,
    thread_id: str,
    to_remove: Callable[[Sequence[CheckpointNode]], set[CheckpointRef]],
    dry_run: bool,
    grace: timedelta,
) -> PruneReport:
    """Remove checkpoints from a thread; then collect its garbage. A thread left without checkpoints
    goes whole. Where channels are rebuilt from ancestors, what goes is hidden for the grace first.
    """
    wait = Wait(context.now(), grace)
    for attempt in range(MAX_ATTEMPTS):
        thread = await _readable_thread(context, thread_id)
        nodes = await retry_if_chunk_missing(partial(_nodes, context, thread_id, thread))
        going = to_remove(nodes)
        what = plan_removal(nodes, going, wait if len(going) < len(nodes) else None)
        if dry_run:
            return _report(thread_id, what.removed, what.hidden)
        if not nodes or len(what.removed) < len(nodes):
            await _check_roots(context, thread_id)
            return await _remove_checkpoints(context, thread_id, thread, what, wait)
        # Everything goes, unless a put has come since: then look again.
        if await delete_thread(context, thread_id, _no_put_since(thread)):
            return _report(thread_id, what.removed, what.hidden)
        await backoff(attempt)
    raise await contention_error(context, thread_id)


async def _readable_thread(context: Context, thread_id: str) -> Document | None:
    """Read the document of a thread, None where there is none. Damage ends the removal before
    anything is changed.
    """
    found = await Find(context.checkpoints, thread_query(thread_id), limit=1)
    thread = found[0] if found else None
    read_state(context, thread)
    return thread


async def _check_roots(context: Context, thread_id: str) -> None:
    """Read what leads to chunks. Damage ends the removal before anything is changed."""
    await retry_if_chunk_missing(partial(read_roots, context, thread_id))


def _no_put_since(thread: Document | None) -> Document | None:
    """Return the condition that no put has come since the thread document was read."""
    return None if thread is None else {"updated_at": {"$eq": thread.get("updated_at")}}


def _report(
    thread_id: str, removed: Sequence[CheckpointRef], hidden: Sequence[CheckpointRef]
) -> PruneReport:
    return PruneReport(
        thread_id, [one.config() for one in removed], [one.config() for one in hidden]
    )


async def _remove_checkpoints(
    context: Context,
    thread_id: str,
    thread: Document | None,
    what: RemovalPlan,
    wait: Wait,
) -> PruneReport:
    """Take from a thread what goes, what an ended life left, and the garbage, also that of a
    removal that broke off.

    Garbage is collected last, and also where the plan is empty: a repetition so finishes a removal
    that broke off behind its deletions. Checkpoints of ended epochs go before it, because what they
    lead to would count as living.
    """
    going = what.removed + what.hidden
    removed = await _hide_then_delete(context, thread_id, thread, going, wait) if what else []
    if thread is not None:
        own: Document = {"type": CHECKPOINT, "thread_id": thread_id}
        await DeleteMany(context.checkpoints, own | {"epoch": {"$lt": thread.get("epoch")}})
    await retry_if_chunk_missing(partial(collect_garbage, context, thread_id))
    return _report(thread_id, removed, [ref for ref in going if ref not in removed])


async def _hide_then_delete(
    context: Context,
    thread_id: str,
    thread: Document | None,
    going: Sequence[CheckpointRef],
    wait: Wait,
) -> list[CheckpointRef]:
    """Hide what goes, plan again, and delete; return what was deleted.

    The first plan cannot be deleted by: a checkpoint may be put on one that goes after the plan was
    made. The first new generation ends the puts that rely on what was read, the second those that
    began before everything was hidden. So the second plan is made under a generation that no put
    relies on yet, and it knows every late child: what such a child is rebuilt from stays. What goes
    is by now what is hidden, hence the empty set.
    """
    await new_generation(context, thread_id)
    await _hide(context, thread_id, going, wait.now)
    await new_generation(context, thread_id)
    family = await retry_if_chunk_missing(partial(_nodes, context, thread_id, thread))
    final = plan_removal(family, set(), wait)
    await _unlink_and_delete(context, thread_id, final)
    context.caches.invalidate_thread(thread_id)
    return final.removed


async def _hide(
    context: Context, thread_id: str, going: Sequence[CheckpointRef], now: datetime
) -> None:
    """Hide checkpoints. Those that are hidden keep the time since when."""
    visible: Document = {"thread_id": thread_id, "hidden": VISIBLE}
    hidden: Document = {"$set": {"hidden": True, "hidden_at": now}}
    for refs in slices(going, IDS_PER_COMMAND):
        ids = [checkpoint_doc_id(ref) for ref in refs]
        await UpdateMany(context.checkpoints, {"_id": {"$in": ids}, **visible}, hidden)


async def _update(
    context: Context, changes: Sequence[tuple[Sequence[CheckpointRef], Document]]
) -> None:
    writes = [Update(_key(ref), change) for refs, change in changes for ref in refs]
    if writes:
        await BulkWrite(context.checkpoints, writes)


async def _unlink_and_delete(context: Context, thread_id: str, what: RemovalPlan) -> None:
    """Cut what stays loose from what goes; then delete the writes, and last what a repetition would
    look for.
    """
    loose: Document = {"$set": {"parent_checkpoint_id": None}, "$unset": {"parent_is_hidden": ""}}
    hidden: Document = {"$set": {"parent_is_hidden": True}}
    await _update(context, [(what.with_hidden_parent, hidden), (what.orphaned, loose)])
    await _delete_writes_of(context, thread_id, what.removed)
    for refs in slices(what.removed, IDS_PER_COMMAND):
        ids = [checkpoint_doc_id(ref) for ref in refs]
        await DeleteMany(context.checkpoints, {"_id": {"$in": ids}, "thread_id": thread_id})


async def _delete_writes_of(
    context: Context, thread_id: str, removed: Sequence[CheckpointRef]
) -> None:
    for namespace in sorted({ref.checkpoint_ns for ref in removed}):
        ids = [ref.checkpoint_id for ref in removed if ref.checkpoint_ns == namespace]
        place: Document = {"thread_id": thread_id, "checkpoint_ns": namespace}
        await DeleteMany(context.writes, place | {"checkpoint_id": {"$in": ids}})


def _key(ref: CheckpointRef) -> Document:
    return {"_id": checkpoint_doc_id(ref), "thread_id": ref.thread_id}


async def _nodes(context: Context, thread_id: str, thread: Document | None) -> list[CheckpointNode]:
    """Read the family of a thread, as far as it belongs to its present life."""
    query: Document = {"type": CHECKPOINT, "thread_id": thread_id}
    if thread is not None:
        query["epoch"] = thread.get("epoch")
    records = await read_checkpoints(context, await Find(context.checkpoints, query))
    bodies = await load_bodies(context, records)
    return [
        CheckpointNode.of(record, checkpoint["channel_versions"], metadata)
        for record, (checkpoint, metadata) in zip(records, bodies, strict=True)
    ]


LATEST = datetime(9999, 12, 31, tzinfo=timezone.utc)
"""Above every time that means something."""


@dataclass(frozen=True, slots=True)
class Roots:
    """What of a thread leads to chunks: enough to know its garbage.

    Attributes:
        living: The ids of all chunks that checkpoints and writes lead to.
        late: The ids of writes whose checkpoint has not come within the grace: it was removed.
    """

    living: Collection[bytes]
    late: list[bytes]


async def read_roots(context: Context, thread_id: str) -> Roots:
    """Read what of a thread leads to chunks. Changes nothing: a removal begins with it, to end
    before it is half done.

    Raises:
        CorruptDataError: A document is damaged, or a chunk with names of others is gone.
    """
    documents = await Find(context.checkpoints, {"type": CHECKPOINT, "thread_id": thread_id})
    records = await read_checkpoints(context, documents)
    stored = await Find(context.writes, {"thread_id": thread_id})
    writes = await read_writes(context, stored)
    there = {record.ref for record in records}
    cutoff = context.now() - context.options.grace
    late = [
        document["_id"]
        for document, write in zip(stored, writes, strict=True)
        if write.ref not in there and write.touched_at <= cutoff
    ]
    return Roots(await referenced_chunk_ids(context, thread_id, records, writes), late)


async def collect_garbage(context: Context, thread_id: str) -> None:
    """Delete what has been unreferenced for the grace, and mark what is unreferenced now."""
    roots = await read_roots(context, thread_id)
    for ids in slices(roots.late, IDS_PER_COMMAND):
        await DeleteMany(context.writes, {"_id": {"$in": ids}, "thread_id": thread_id})
    chunks = await Find(context.checkpoints, all_chunks_of(thread_id), {"idle_since": 1})
    await _mark_and_delete_chunks(context, thread_id, chunks, roots.living)


async def referenced_chunk_ids(
    context: Context,
    thread_id: str,
    records: Iterable[StoredCheckpoint],
    writes: Iterable[StoredWrite],
) -> dict[bytes, CheckpointRef]:
    """Return the ids of all chunks that checkpoints and writes lead to, at every level, each with
    one that does.

    Raises:
        MissingChunkError: A chunk with names of others is gone.
    """
    values = [(one.ref, value) for one in records for value in (one.body, *one.channels.values())]
    values += [(write.ref, write.value) for write in writes]
    lists = await resolve_hash_lists(context, values)
    return {
        chunk_doc_id(thread_id, name): ref
        for (ref, _), own in zip(values, lists, strict=True)
        for name in own.reached
    }


async def _mark_and_delete_chunks(
    context: Context, thread_id: str, chunks: Sequence[Document], living: Collection[bytes]
) -> None:
    """Take marks from chunks that live, delete those that were idle for the grace, and mark those
    that are idle now.

    Two collections, a grace apart, delete a chunk. One does not suffice: a put may rely on a chunk
    that no stored checkpoint leads to yet, for as long as one command takes. The filter of the
    deletion tests the mark once more, because a put takes it from a chunk that it writes. The new
    generation in front of the deletion is for a put that looked at the thread before and takes
    longer than the grace: it must look again.
    """
    now = context.now()
    cutoff = now - context.options.grace
    garbage = plan_garbage(chunks, living, cutoff)
    own: Document = {"thread_id": thread_id, "type": CHUNK}
    await _update_chunks(context, own, garbage.to_unmark, {"$unset": {"idle_since": ""}})
    if garbage.to_delete:
        await new_generation(context, thread_id)
        await _delete_idle(context, own | {"idle_since": {"$lte": cutoff}}, garbage.to_delete)
    # What another process has just marked keeps that.
    unmarked = own | {"idle_since": {"$not": {"$lte": LATEST}}}
    await _update_chunks(context, unmarked, garbage.to_mark, {"$set": {"idle_since": now}})


async def _update_chunks(
    context: Context, condition: Document, keys: list[bytes], change: Document
) -> None:
    for ids in slices(keys, IDS_PER_COMMAND):
        await UpdateMany(context.checkpoints, {"_id": {"$in": ids}, **condition}, change)


async def _delete_idle(context: Context, idle: Document, keys: list[bytes]) -> None:
    for ids in slices(keys, IDS_PER_COMMAND):
        await DeleteMany(context.checkpoints, {"_id": {"$in": ids}, **idle})
