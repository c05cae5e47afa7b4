"""The plans that remove checkpoints from a thread, and then the chunks and writes that no
checkpoint leads to.

A put refers to chunks of its parent without writing them, so a chunk that nothing refers to now may
be referred to in a moment. It is marked first; only a later sweep deletes it, once the mark is as
old as the grace, and only if the mark still stands: a put that needs the chunk writes it, which
takes the mark away, and a sweep that finds it referred to does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig

from mongomem.arguments import checked_flag, checked_list, checked_number, shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.ancestry import (
    CheckpointNode,
    RemovalPlan,
    all_but_newest,
    caller_of,
    plan_removal,
)
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint, StoredWrite
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    CHUNK,
    all_chunks_of,
    checkpoint_doc_id,
    chunk_doc_id,
    read_field,
    utc,
)
from mongomem.checkpoint.documents.config import CheckpointRef, identifier
from mongomem.checkpoint.plans.delete import delete_thread, time_before
from mongomem.checkpoint.plans.load import (
    Body,
    Placed,
    load,
    read_records,
    read_writes,
    resolve_hash_lists,
    retry_if_chunk_missing,
    revive_body,
)
from mongomem.checkpoint.plans.thread_state import (
    MAX_ATTEMPTS,
    backoff,
    contention_error,
    known_thread,
    new_generation,
    thread_query,
)
from mongomem.engine.commands import BulkWrite, DeleteMany, Document, Find, Update, UpdateMany
from mongomem.errors import ConfigurationError, InvalidInputError


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What went from a thread, or would have gone where nothing was to be changed.

    Attributes:
        thread_id: The thread.
        removed: Configs of the checkpoints that are gone.
        hidden: Configs of those that only a kept checkpoint's replay still reads.
    """

    thread_id: str
    removed: list[RunnableConfig]
    hidden: list[RunnableConfig]


@dataclass(frozen=True, slots=True)
class PruneRule:
    """Which checkpoints of a thread go: all, or those beyond the newest `keep_last` that were made
    before a time.
    """

    strategy: str
    keep_last: int
    before: datetime | None

    def to_remove(self, nodes: Sequence[CheckpointNode]) -> set[CheckpointRef]:
        if self.strategy == "delete":
            return {node.address for node in nodes}
        return all_but_newest(nodes, self.keep_last, self.before)


def checked_rule(
    now: datetime, strategy: object, keep_last: object, older_than: object
) -> PruneRule:
    """Check the arguments of ``prune``.

    Raises:
        InvalidInputError: For an unknown strategy, fewer than one to keep, or no span of time.
    """
    if type(strategy) is not str or strategy not in ("keep_latest", "delete"):
        raise InvalidInputError(
            f'strategy must be "keep_latest" or "delete", not {shown(strategy)}'
        )
    keep = checked_number("keep_last", keep_last, least=1)
    if older_than is None:
        return PruneRule(strategy, keep, None)
    if not isinstance(older_than, timedelta) or older_than < timedelta(0):
        raise InvalidInputError(
            f"older_than must be a timedelta that is not negative, not {shown(older_than)}"
        )
    return PruneRule(strategy, keep, time_before(now, older_than))


async def prune(
    context: Context,
    thread_ids: object,
    strategy: object,
    keep_last: object,
    older_than: object,
    dry_run: object,
) -> list[PruneReport]:
    """Remove checkpoints of threads by a rule; say what went, or would go."""
    rule, is_dry = (
        checked_rule(context.now(), strategy, keep_last, older_than),
        checked_flag("dry_run", dry_run),
    )
    return [
        await _prune_thread(context, one, rule.to_remove, is_dry)
        for one in _unique_ids("thread_id", thread_ids)
    ]


async def delete_for_runs(context: Context, run_ids: object) -> None:
    """Remove the checkpoints that runs made, with their writes."""
    wanted = frozenset(_unique_ids("run_id", run_ids))
    clear = context.clear_metadata
    if clear is not None and "run_id" not in clear:
        raise ConfigurationError(
            "runs cannot be found: name run_id in clear_metadata, where it stands readable"
        )
    if not wanted:
        return
    query = {"type": CHECKPOINT, "metadata.run_id": {"$in": sorted(wanted)}}
    found = await Find(context.checkpoints, query, {"thread_id": 1})

    def to_remove(nodes: Sequence[CheckpointNode]) -> set[CheckpointRef]:
        return {node.address for node in nodes if node.run_id in wanted}

    for thread_id in sorted({read_field(document, "thread_id", str) for document in found}):
        await _prune_thread(context, thread_id, to_remove, dry_run=False)


def _unique_ids(name: str, values: object) -> list[str]:
    return list(
        dict.fromkeys(identifier(name, value) for value in checked_list(f"{name}s", values))
    )


async def _prune_thread(
    context: Context,
    thread_id: str,
    to_remove: Callable[[Sequence[CheckpointNode]], set[CheckpointRef]],
    dry_run: bool,
) -> PruneReport:
    """Remove checkpoints from a thread; then collect its garbage. A thread left without checkpoints
    goes whole.
    """
    for attempt in range(MAX_ATTEMPTS):
        threads = await _readable_thread(context, thread_id)
        nodes = await retry_if_chunk_missing(partial(_nodes, context, thread_id, threads))
        what = plan_removal(nodes, to_remove(nodes))
        if dry_run:
            return _report(thread_id, what.removed, what.hidden)
        if not nodes or len(what.removed) < len(nodes):
            await _check_roots(context, thread_id)
            return await _remove_checkpoints(context, thread_id, threads, what)
        # Everything goes, unless a put has come since: then look again.
        if await delete_thread(context, thread_id, _as_last_put(threads)):
            return _report(thread_id, what.removed, what.hidden)
        await backoff(attempt)
    raise await contention_error(context, thread_id)


async def _readable_thread(context: Context, thread_id: str) -> list[Document]:
    """Read the document of a thread: a list of one, or empty. Damage ends the removal before
    anything is changed.
    """
    threads = await Find(context.checkpoints, thread_query(thread_id), limit=1)
    known_thread(context, threads[0] if threads else None)
    return threads


async def _check_roots(context: Context, thread_id: str) -> None:
    """Read what leads to chunks. Damage ends the removal before anything is changed."""
    await retry_if_chunk_missing(partial(read_roots, context, thread_id))


def _as_last_put(threads: Sequence[Document]) -> Document | None:
    """Return the condition that no put has come since the thread document was read."""
    return {"updated_at": {"$eq": threads[0].get("updated_at")}} if threads else None


def _report(
    thread_id: str, removed: Sequence[CheckpointRef], hidden: Sequence[CheckpointRef]
) -> PruneReport:
    return PruneReport(
        thread_id, [one.config() for one in removed], [one.config() for one in hidden]
    )


async def _remove_checkpoints(
    context: Context, thread_id: str, threads: Sequence[Document], what: RemovalPlan
) -> PruneReport:
    """Take from a thread what goes, what an ended life left, and the garbage, also that of a
    removal that broke off.

    Garbage is collected last, and also where the plan is empty: a repetition so finishes a removal
    that broke off behind its deletions. Checkpoints of ended epochs go before it, because what they
    lead to would count as living.
    """
    going = what.removed + what.hidden
    removed = await _hide_then_delete(context, thread_id, threads, going) if what else []
    if threads:
        ended = {
            "type": CHECKPOINT,
            "thread_id": thread_id,
            "epoch": {"$lt": threads[0].get("epoch")},
        }
        await DeleteMany(context.checkpoints, ended)
    await retry_if_chunk_missing(partial(collect_garbage, context, thread_id))
    return _report(thread_id, removed, [address for address in going if address not in removed])


async def _hide_then_delete(
    context: Context, thread_id: str, threads: Sequence[Document], going: Sequence[CheckpointRef]
) -> list[CheckpointRef]:
    """Hide what goes, plan again, and delete; return what was deleted.

    The first plan cannot be deleted by: a checkpoint may be put on one that goes after the plan was
    made. The first new generation ends the puts that rely on what was read, the second those that
    began before everything was hidden. So the second plan is made under a generation that no put
    relies on yet, and it knows every late child: what such a child is rebuilt from stays. What goes
    is by now what is hidden, hence the empty set.
    """
    await new_generation(context, thread_id)
    await _update(context, [(going, {"$set": {"hidden": True}})])
    await new_generation(context, thread_id)
    family = await retry_if_chunk_missing(partial(_nodes, context, thread_id, threads))
    final = plan_removal(family, set())
    await _unlink_and_delete(context, thread_id, final)
    context.state.invalidate_thread(thread_id)
    return final.removed


async def _update(
    context: Context, changes: Sequence[tuple[Sequence[CheckpointRef], Document]]
) -> None:
    writes = [
        Update(_key(address), change) for addresses, change in changes for address in addresses
    ]
    if writes:
        await BulkWrite(context.checkpoints, writes)


async def _unlink_and_delete(context: Context, thread_id: str, what: RemovalPlan) -> None:
    """Cut what stays loose from what goes; then delete the writes, and last what a repetition would
    look for.
    """
    loose: Document = {"$set": {"parent_checkpoint_id": None}, "$unset": {"parent_is_hidden": ""}}
    await _update(
        context,
        [(what.with_hidden_parent, {"$set": {"parent_is_hidden": True}}), (what.orphaned, loose)],
    )
    await _delete_writes_of(context, thread_id, what.removed)
    if what.removed:
        keys = [checkpoint_doc_id(address) for address in what.removed]
        await DeleteMany(context.checkpoints, {"_id": {"$in": keys}, "thread_id": thread_id})


async def _delete_writes_of(
    context: Context, thread_id: str, removed: Sequence[CheckpointRef]
) -> None:
    for namespace in sorted({address.checkpoint_ns for address in removed}):
        ids = [address.checkpoint_id for address in removed if address.checkpoint_ns == namespace]
        of_removed = {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": {"$in": ids},
        }
        await DeleteMany(context.writes, of_removed)


def _key(address: CheckpointRef) -> Document:
    return {"_id": checkpoint_doc_id(address), "thread_id": address.thread_id}


async def _nodes(
    context: Context, thread_id: str, threads: Sequence[Document]
) -> list[CheckpointNode]:
    """Read the family of a thread, as far as it belongs to its present life."""
    query: Document = {"type": CHECKPOINT, "thread_id": thread_id}
    if threads:
        query["epoch"] = threads[0].get("epoch")
    records = await read_records(context, await Find(context.checkpoints, query))
    bodies = await load(context, [Placed(record.address, record.body) for record in records])
    return [
        _node(record, revive_body(context, record.address, record.body, body.data))
        for record, body in zip(records, bodies, strict=True)
    ]


def _node(record: StoredCheckpoint, body: Body) -> CheckpointNode:
    counters, run_id = (
        body.metadata.get("counters_since_delta_snapshot"),
        body.metadata.get("run_id"),
    )
    return CheckpointNode(
        record.address,
        record.parent_id,
        record.created_at,
        record.hidden,
        run_id if isinstance(run_id, str) else None,
        caller_of(
            record.address.thread_id, record.address.checkpoint_ns, body.metadata.get("parents")
        ),
        record.sends_in_parent,
        frozenset(record.channels),
        frozenset(body.checkpoint["channel_versions"]),
        frozenset(counters if isinstance(counters, Mapping) else ()),
    )


SLICE = 50_000
"""How many ids one command names: 28 bytes each, far below a message."""

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
    records = await read_records(context, documents)
    stored = await Find(context.writes, {"thread_id": thread_id})
    writes = await read_writes(context, stored)
    there = {record.address for record in records}
    cutoff = context.now() - context.options.grace
    late = [
        document["_id"]
        for document, write in zip(stored, writes, strict=True)
        if write.address not in there and write.touched_at <= cutoff
    ]
    return Roots(await referenced_chunk_ids(context, thread_id, records, writes), late)


async def collect_garbage(context: Context, thread_id: str) -> None:
    """Delete what has been unreferenced for the grace, and mark what is unreferenced now."""
    roots = await read_roots(context, thread_id)
    for ids in _slices(roots.late):
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
    placed = [
        Placed(one.address, value)
        for one in records
        for value in (one.body, *one.channels.values())
    ]
    placed += [Placed(write.address, write.value) for write in writes]
    descents = await resolve_hash_lists(context, [one for one in placed if one.value.names])
    return {
        chunk_doc_id(thread_id, name): descent.placed.address
        for descent in descents
        for name in descent.reached
    }


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep does with the chunks of a thread, by their ids.

    Attributes:
        to_unmark: Those with a mark that something refers to again.
        to_delete: Those that nothing refers to, and whose mark is as old as the grace.
        to_mark: Those that nothing refers to, without a mark. A mark that is no time counts as
            none.
    """

    to_unmark: list[bytes]
    to_delete: list[bytes]
    to_mark: list[bytes]


def _plan_sweep(chunks: Sequence[Document], living: Collection[bytes], cutoff: datetime) -> Sweep:
    """Decide what becomes of chunks; one whose mark is younger than `cutoff` is left as it is."""
    marked = {
        chunk["_id"]: utc(since)
        for chunk in chunks
        if isinstance(since := chunk.get("idle_since"), datetime)
    }
    return Sweep(
        to_unmark=[key for key in marked if key in living],
        to_delete=[key for key, since in marked.items() if key not in living and since <= cutoff],
        to_mark=[
            chunk["_id"]
            for chunk in chunks
            if chunk["_id"] not in marked and chunk["_id"] not in living
        ],
    )


async def _mark_and_delete_chunks(
    context: Context, thread_id: str, chunks: Sequence[Document], living: Collection[bytes]
) -> None:
    """Take marks from chunks that live, delete those that were idle for the grace, and mark those
    that are idle now.

    Two sweeps, a grace apart, delete a chunk. One sweep does not suffice: a put may rely on a chunk
    that no stored checkpoint leads to yet, for as long as one command takes. The filter of the
    deletion tests the mark once more, because a put takes it from a chunk that it writes. The new
    generation in front of the deletion is for a put that looked at the thread before and takes
    longer than the grace: it must look again.
    """
    now = context.now()
    cutoff = now - context.options.grace
    sweep = _plan_sweep(chunks, living, cutoff)
    own: Document = {"thread_id": thread_id, "type": CHUNK}
    for ids in _slices(sweep.to_unmark):
        await UpdateMany(
            context.checkpoints, {"_id": {"$in": ids}, **own}, {"$unset": {"idle_since": ""}}
        )
    if sweep.to_delete:
        await new_generation(context, thread_id)
        await _delete_idle(context, own | {"idle_since": {"$lte": cutoff}}, sweep.to_delete)
    for ids in _slices(sweep.to_mark):
        # What another process has just marked keeps that.
        fresh: dict[str, Any] = {
            "_id": {"$in": ids},
            **own,
            "idle_since": {"$not": {"$lte": LATEST}},
        }
        await UpdateMany(context.checkpoints, fresh, {"$set": {"idle_since": now}})


async def _delete_idle(context: Context, idle: Document, keys: list[bytes]) -> None:
    for ids in _slices(keys):
        await DeleteMany(context.checkpoints, {"_id": {"$in": ids}, **idle})


def _slices(ids: list[Any]) -> list[list[Any]]:
    return [ids[start : start + SLICE] for start in range(0, len(ids), SLICE)]
