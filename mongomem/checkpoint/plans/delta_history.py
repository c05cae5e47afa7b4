"""The plan behind DeltaChannel: what the ancestors of a checkpoint contributed to a channel.

Parents are followed in memory over pages of documents that come in descending order of id, since a
parent is nearly always among the next older ones; a parent that is not begins the next page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import DeltaChannelHistory
from langgraph.checkpoint.base import PendingWrite as LangGraphWrite

from mongomem.arguments import checked_list
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint, StoredWrite
from mongomem.checkpoint.documents.collections import CHECKPOINT, newest_stages, thread_stage
from mongomem.checkpoint.documents.config import CheckpointRef, channel_name, ref_of_config
from mongomem.checkpoint.documents.fields import living_epoch
from mongomem.checkpoint.plans.load import (
    deserialize,
    load_values,
    read_checkpoints,
    read_writes,
    retry_if_chunk_missing,
)
from mongomem.engine.commands import Aggregate, Document, Find
from mongomem.errors import CorruptDataError

FIRST_PAGE, LARGEST_PAGE = 64, 1024


@dataclass(slots=True)
class AncestorWalk:
    """The way from a checkpoint to its ancestors, as far as it has been gone.

    Attributes:
        unresolved: The channels without a stored value so far.
        chain: The ancestors passed, nearest first, each with the channels that were unresolved
            there.
        seeds: The nearest ancestor that stores a value, by channel.
    """

    unresolved: set[str]
    chain: list[tuple[StoredCheckpoint, frozenset[str]]] = field(default_factory=list)
    seeds: dict[str, StoredCheckpoint] = field(default_factory=dict)

    def visit(self, ancestor: StoredCheckpoint) -> None:
        """Pass an ancestor: its own writes count also where it stores the value, for they came
        after it.
        """
        self.chain.append((ancestor, frozenset(self.unresolved)))
        for channel in self.unresolved & ancestor.channels.keys():
            self.seeds[channel] = ancestor
        self.unresolved -= ancestor.channels.keys()


async def get_delta_channel_history(
    context: Context, config: RunnableConfig, channels: Sequence[str]
) -> Mapping[str, DeltaChannelHistory]:
    """Return, by channel, the writes of the ancestors, oldest first, and the nearest stored value
    before them.

    Raises:
        CorruptDataError: A checkpoint is its own ancestor.
    """
    wanted = [channel_name(channel) for channel in checked_list("channels", channels)]
    return await retry_if_chunk_missing(partial(_history, context, ref_of_config(config), wanted))


async def _history(
    context: Context, ref: CheckpointRef, wanted: list[str]
) -> dict[str, DeltaChannelHistory]:
    target = await _target(context, ref) if wanted else None
    walk = AncestorWalk(set(wanted))
    if target is not None:
        await _walk(context, target, walk)
    writes = await _writes(context, walk)
    seeds = await _seeds(context, walk)
    histories = {channel: DeltaChannelHistory(writes=writes.get(channel, [])) for channel in wanted}
    for channel, seed in seeds.items():
        histories[channel]["seed"] = seed
    return histories


async def _target(
    context: Context, ref: CheckpointRef, epoch: int | None = None
) -> StoredCheckpoint | None:
    """Read a checkpoint with its thread; where it is of a life that has ended, look for what lives
    by its epoch.
    """
    thread = thread_stage(context.options.collections, ref.thread_id)
    for document in await Aggregate(context.checkpoints, [*newest_stages(ref, epoch), thread]):
        (record,) = await read_checkpoints(context, [document])
        living = living_epoch(ref.thread_id, document["thread"])
        if record.epoch != living:
            return None if living in (None, epoch) else await _target(context, ref, living)
        return record if context.is_alive(record.touched_at) else None
    return None


async def _walk(context: Context, target: StoredCheckpoint, walk: AncestorWalk) -> None:
    """Follow parents until every channel has a stored value or the root is passed."""
    at, size = target, FIRST_PAGE
    seen = {target.ref}
    page: dict[str, StoredCheckpoint] = {}
    while walk.unresolved and at.parent_id is not None:
        if at.parent_id not in page:
            page = await _page(context, at.ref.at(at.parent_id), target.epoch, size)
            size = min(size * 4, LARGEST_PAGE)
        ancestor = page.get(at.parent_id)
        if ancestor is None:
            return
        if ancestor.ref in seen:
            raise CorruptDataError(f"{ancestor.ref} is its own ancestor")
        seen.add(ancestor.ref)
        walk.visit(ancestor)
        at = ancestor


async def _page(
    context: Context, start: CheckpointRef, epoch: int, size: int
) -> dict[str, StoredCheckpoint]:
    """Read a checkpoint and the next older ones of its namespace and epoch, by id."""
    query = {
        "type": CHECKPOINT,
        "thread_id": start.thread_id,
        "checkpoint_ns": start.checkpoint_ns,
        "checkpoint_id": {"$lte": start.checkpoint_id},
        "epoch": epoch,
    }
    documents = await Find(context.checkpoints, query, sort=(("checkpoint_id", -1),), limit=size)
    records = await read_checkpoints(context, documents)
    return {record.ref.checkpoint_id or "": record for record in records}


async def _writes(context: Context, walk: AncestorWalk) -> dict[str, list[LangGraphWrite]]:
    """Read the writes that the ancestors hold for the channels that were unresolved there, oldest
    first.
    """
    places = {stored.ref: unresolved for stored, unresolved in walk.chain if unresolved}
    if not places:
        return {}
    found = await read_writes(context, await Find(context.writes, _writes_query(places)))
    ordered = _oldest_first(found, places)
    values = [(write.ref, write.value) for write in ordered]
    by_channel: dict[str, list[LangGraphWrite]] = {}
    for write, data in zip(ordered, await load_values(context, values), strict=True):
        value = deserialize(context, write.ref, write.value, data)
        by_channel.setdefault(write.channel, []).append((write.task_id, write.channel, value))
    return by_channel


Places: TypeAlias = Mapping[CheckpointRef, frozenset[str]]
"""Ancestors, nearest first, each with the channels that were unresolved there: never more than at
the one before."""


def _writes_query(places: Places) -> Document:
    """Return the query for the writes of ancestors to the channels that were unresolved at the
    nearest.
    """
    first = next(iter(places))
    return {
        "thread_id": first.thread_id,
        "checkpoint_ns": first.checkpoint_ns,
        "checkpoint_id": {"$in": [ref.checkpoint_id for ref in places]},
        "channel": {"$in": sorted(places[first])},
    }


def _oldest_first(writes: Sequence[StoredWrite], places: Places) -> list[StoredWrite]:
    """Return the writes to channels that were unresolved at their ancestors: the furthest first,
    each in its order.
    """
    found: dict[CheckpointRef, list[StoredWrite]] = {ref: [] for ref in places}
    for write in writes:
        if write.channel in places[write.ref]:
            found[write.ref].append(write)
    return [
        write
        for place in reversed(found)
        for write in sorted(found[place], key=StoredWrite.sort_key)
    ]


async def _seeds(context: Context, walk: AncestorWalk) -> dict[str, Any]:
    """Load the stored values that the walk found."""
    values = {
        channel: (stored.ref, stored.channels[channel]) for channel, stored in walk.seeds.items()
    }
    loaded = await load_values(context, list(values.values()))
    return {
        channel: deserialize(context, *value, data)
        for (channel, value), data in zip(values.items(), loaded, strict=True)
    }
