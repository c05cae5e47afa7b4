"""Plans that remove. What makes data visible goes first, and every removal can be repeated to finish its job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial

from langchain_core.runnables import RunnableConfig

from mongomem.arguments import checked_flag, checked_list, checked_number, shown
from mongomem.checkpoint.addresses import Address, identifier
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import (
    CHECKPOINT,
    NAMING_FIELDS,
    THREAD,
    all_but_the_thread,
    checkpoint_key,
    is_epoch,
    misfiled,
    new_generation_number,
    next_epoch,
    other_than_after,
    other_than_from,
    read_field,
    whole_milliseconds,
)
from mongomem.checkpoint.lineage import Node, Removal, beyond_the_last, caller_of, removal
from mongomem.checkpoint.loading import Body, Placed, load, look_twice, read_records, revive_body
from mongomem.checkpoint.records import Record
from mongomem.checkpoint.sweeping import read_roots, sweep
from mongomem.checkpoint.thread_list import Thread, list_threads
from mongomem.checkpoint.threads import ATTEMPTS, contention, known_thread, new_generation, pause, thread_query
from mongomem.commands import BulkWrite, DeleteMany, Document, Find, Update, UpdateMany
from mongomem.errors import ConfigurationError, InvalidInputError

IDLE_PAGE = 200


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went from a thread, or would have gone where nothing was to be changed.

    Attributes:
        thread_id: The thread.
        removed: Configs of the checkpoints that are gone.
        hidden: Configs of those that only a kept checkpoint's replay still reads.
    """

    thread_id: str
    removed: list[RunnableConfig]
    hidden: list[RunnableConfig]


async def delete_thread(context: Context, thread_id: str, only_if: Document | None = None) -> bool:
    """Remove every checkpoint, write and chunk of a thread, and leave a tombstone; say whether it was done.

    From its first write on no put can rely on what is there: the thread has a new epoch. A put that
    is under way finds another generation and begins a new life of the thread, whose documents carry
    the new epoch and stay. `only_if` is a condition on the thread document, tested by that write.

    Raises:
        ContentionError: Others changed the thread at the same time, again and again.
    """
    thread_id = identifier("thread_id", thread_id)
    for attempt in range(ATTEMPTS):
        context.state.forget_thread(thread_id)
        query = thread_query(thread_id) | (only_if or {})
        threads = await Find(context.checkpoints, query, {"epoch": 1}, limit=1)
        if only_if is not None and not threads:
            return False
        now = whole_milliseconds(context.now())
        last = threads[0].get("epoch") if threads else None
        epoch = next_epoch(now, last if is_epoch(last) else None)
        stamps = {"deleted_at": now, "touched_at": now}
        tombstone = {"type": THREAD, "epoch": epoch, "generation": new_generation_number(), **stamps}
        reply = await UpdateMany(context.checkpoints, query | {"epoch": {"$eq": last}}, {"$set": tombstone})
        if reply.matched_count or not threads:
            await _bury(context, thread_id, epoch, now)
            return True
        await pause(attempt)
    raise await contention(context, thread_id)


async def _bury(context: Context, thread_id: str, epoch: int, deleted_at: datetime) -> None:
    """Delete what belongs to lives before `epoch`; last of all what a repetition finds the thread by."""
    ended = {"thread_id": thread_id, "epoch": other_than_from(epoch)}
    await DeleteMany(context.checkpoints, {"type": CHECKPOINT, **ended})
    await DeleteMany(context.writes, {"thread_id": thread_id, "touched_at": other_than_after(deleted_at)})
    await DeleteMany(context.checkpoints, all_but_the_thread(thread_id) | ended)
    for collection in (context.checkpoints, context.writes):
        await DeleteMany(collection, misfiled(thread_id))
    buried = thread_query(thread_id) | {"epoch": epoch, "deleted_at": deleted_at}
    await UpdateMany(context.checkpoints, buried, {"$unset": dict.fromkeys(NAMING_FIELDS, "")})
    context.state.forget_thread(thread_id)


@dataclass(frozen=True, slots=True)
class PruneRule:
    """Which checkpoints of a thread go: all, or those beyond the newest `keep_last` that were made before a time."""

    strategy: str
    keep_last: int
    before: datetime | None

    def doomed(self, nodes: Sequence[Node]) -> set[Address]:
        if self.strategy == "delete":
            return {node.address for node in nodes}
        return beyond_the_last(nodes, self.keep_last, self.before)


def checked_rule(now: datetime, strategy: object, keep_last: object, older_than: object) -> PruneRule:
    """Check the arguments of ``prune``.

    Raises:
        InvalidInputError: For an unknown strategy, fewer than one to keep, or no span of time.
    """
    if type(strategy) is not str or strategy not in ("keep_latest", "delete"):
        raise InvalidInputError(f'strategy must be "keep_latest" or "delete", not {shown(strategy)}')
    keep = checked_number("keep_last", keep_last, least=1)
    if older_than is None:
        return PruneRule(strategy, keep, None)
    if not isinstance(older_than, timedelta) or older_than < timedelta(0):
        raise InvalidInputError(f"older_than must be a timedelta that is not negative, not {shown(older_than)}")
    return PruneRule(strategy, keep, _ago(now, older_than))


def _ago(now: datetime, span: timedelta) -> datetime:
    """Return the time that lies so far back, or the earliest there is."""
    try:
        return now - span
    except OverflowError:
        return datetime.min.replace(tzinfo=timezone.utc)


async def prune(
    context: Context, thread_ids: object, strategy: object, keep_last: object, older_than: object, dry_run: object
) -> list[Pruned]:
    """Remove checkpoints of threads by a rule; say what went, or would go."""
    rule, is_dry = checked_rule(context.now(), strategy, keep_last, older_than), checked_flag("dry_run", dry_run)
    return [await _remove(context, one, rule.doomed, is_dry) for one in _distinct("thread_id", thread_ids)]


async def delete_for_runs(context: Context, run_ids: object) -> None:
    """Remove the checkpoints that runs made, with their writes."""
    wanted = frozenset(_distinct("run_id", run_ids))
    clear = context.clear_metadata
    if clear is not None and "run_id" not in clear:
        raise ConfigurationError("runs cannot be found: name run_id in clear_metadata, where it stands readable")
    if not wanted:
        return
    query = {"type": CHECKPOINT, "metadata.run_id": {"$in": sorted(wanted)}}
    found = await Find(context.checkpoints, query, {"thread_id": 1})

    def doomed(nodes: Sequence[Node]) -> set[Address]:
        return {node.address for node in nodes if node.run_id in wanted}

    for thread_id in sorted({read_field(document, "thread_id", str) for document in found}):
        await _remove(context, thread_id, doomed, dry_run=False)


async def delete_idle_threads(context: Context, idle_for: object, dry_run: object) -> list[Thread]:
    """Delete the threads that were not updated for so long, in any namespace; say which, or which would go."""
    if not isinstance(idle_for, timedelta) or idle_for <= timedelta(0):
        raise InvalidInputError(f"idle_for must be a positive timedelta, not {shown(idle_for)}")
    is_dry = checked_flag("dry_run", dry_run)
    cutoff = _ago(context.now(), idle_for)
    idle: list[Thread] = []
    before: Thread | datetime = cutoff
    while True:
        page = await list_threads(context, None, IDLE_PAGE, before, ended=True)
        still = {"updated_at": {"$lt": cutoff}}
        idle += [thread for thread in page if is_dry or await delete_thread(context, thread.thread_id, still)]
        if len(page) < IDLE_PAGE:
            return idle
        before = page[-1]


def _distinct(name: str, values: object) -> list[str]:
    return list(dict.fromkeys(identifier(name, value) for value in checked_list(f"{name}s", values)))


async def _remove(
    context: Context, thread_id: str, doomed: Callable[[Sequence[Node]], set[Address]], dry_run: bool
) -> Pruned:
    """Remove what is doomed from a thread; then collect its garbage. A thread left without checkpoints goes whole."""
    for attempt in range(ATTEMPTS):
        threads = await Find(context.checkpoints, thread_query(thread_id), limit=1)
        known_thread(context, threads[0] if threads else None)  # or raise, before anything is changed
        nodes = await look_twice(partial(_nodes, context, thread_id, threads))
        what = removal(nodes, doomed(nodes))
        if dry_run:
            return _report(thread_id, what.removed, what.hidden)
        if not nodes or len(what.removed) < len(nodes):
            await look_twice(partial(read_roots, context, thread_id))  # or raise, before anything is changed
            return await _take(context, thread_id, threads, what)
        # Everything goes, unless a put has come since: then look again.
        unchanged = {"updated_at": {"$eq": threads[0].get("updated_at")}} if threads else None
        if await delete_thread(context, thread_id, unchanged):
            return _report(thread_id, what.removed, what.hidden)
        await pause(attempt)
    raise await contention(context, thread_id)


def _report(thread_id: str, removed: Sequence[Address], hidden: Sequence[Address]) -> Pruned:
    return Pruned(thread_id, [one.config() for one in removed], [one.config() for one in hidden])


async def _take(context: Context, thread_id: str, threads: Sequence[Document], what: Removal) -> Pruned:
    """Take from a thread what goes, what an ended life left, and the garbage, also that of a removal that broke off.

    What goes is hidden first. Then the family is read again, under a generation that no put relies on yet: a checkpoint
    that was put on one that goes keeps what it is rebuilt from.
    """
    going = what.removed + what.hidden
    removed: list[Address] = []
    if what:
        await new_generation(context, thread_id)
        await _update(context, [(going, {"$set": {"hidden": True}})])
        await new_generation(context, thread_id)
        final = removal(await look_twice(partial(_nodes, context, thread_id, threads)), set())
        removed = final.removed
        await _detach(context, thread_id, final)
        context.state.forget_thread(thread_id)
    if threads:
        ended = {"type": CHECKPOINT, "thread_id": thread_id, "epoch": {"$lt": threads[0].get("epoch")}}
        await DeleteMany(context.checkpoints, ended)
    await look_twice(partial(sweep, context, thread_id))
    return _report(thread_id, removed, [address for address in going if address not in removed])


async def _update(context: Context, changes: Sequence[tuple[Sequence[Address], Document]]) -> None:
    writes = [Update(_key(address), change) for addresses, change in changes for address in addresses]
    if writes:
        await BulkWrite(context.checkpoints, writes)


async def _detach(context: Context, thread_id: str, what: Removal) -> None:
    """Cut what stays loose from what goes; then delete the writes, and last what a repetition would look for."""
    loose: Document = {"$set": {"parent_checkpoint_id": None}, "$unset": {"parent_is_hidden": ""}}
    await _update(context, [(what.with_hidden_parent, {"$set": {"parent_is_hidden": True}}), (what.orphaned, loose)])
    for namespace in sorted({address.checkpoint_ns for address in what.removed}):
        ids = [address.checkpoint_id for address in what.removed if address.checkpoint_ns == namespace]
        of_removed = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": {"$in": ids}}
        await DeleteMany(context.writes, of_removed)
    if what.removed:
        keys = [checkpoint_key(address) for address in what.removed]
        await DeleteMany(context.checkpoints, {"_id": {"$in": keys}, "thread_id": thread_id})


def _key(address: Address) -> Document:
    return {"_id": checkpoint_key(address), "thread_id": address.thread_id}


async def _nodes(context: Context, thread_id: str, threads: Sequence[Document]) -> list[Node]:
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


def _node(record: Record, body: Body) -> Node:
    counters, run_id = body.metadata.get("counters_since_delta_snapshot"), body.metadata.get("run_id")
    return Node(
        record.address,
        record.parent_id,
        record.created_at,
        record.hidden,
        run_id if isinstance(run_id, str) else None,
        caller_of(record.address.thread_id, record.address.checkpoint_ns, body.metadata.get("parents")),
        record.sends_in_parent,
        frozenset(record.channels),
        frozenset(body.checkpoint["channel_versions"]),
        frozenset(counters if isinstance(counters, Mapping) else ()),
    )
