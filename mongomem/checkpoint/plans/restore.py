"""From stored checkpoints to what a caller gets: pending writes read, values loaded together,
checkpoints put together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, PendingWrite
from langgraph.checkpoint.serde.types import TASKS

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint, StoredWrite
from mongomem.checkpoint.documents.collections import epochs_stage, thread_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.fields import living_epoch
from mongomem.checkpoint.plans.load import (
    HashList,
    ValueOf,
    deserialize,
    deserialize_body,
    load_content,
    read_writes,
    resolve_hash_lists,
)
from mongomem.checkpoint.serde.channels import BODY, ParentState
from mongomem.checkpoint.serde.chunks import ParentChunks
from mongomem.checkpoint.serde.versions import next_version
from mongomem.engine.commands import Aggregate, Document
from mongomem.engine.effects import Compute

Writes: TypeAlias = Mapping[CheckpointRef, Sequence[StoredWrite]]
"""Pending writes by the checkpoints that they belong to."""


@dataclass(frozen=True, slots=True)
class RestoredCheckpoint:
    """A checkpoint as the caller gets it, and what a put on it would need to know.

    Attributes:
        tuple: What the caller gets.
        stored: What its document holds.
        hash_lists: Those of its body and of its channels, in their order.
    """

    tuple: CheckpointTuple
    stored: StoredCheckpoint
    hash_lists: Sequence[HashList]

    def as_parent(self, generation: int | None) -> ParentState:
        """Return what a put must know of this checkpoint, seen under `generation`."""
        versions = dict(self.tuple.checkpoint["channel_versions"])
        reached = chunks_by_channel(self.stored, self.hash_lists)
        return ParentState(versions, self.stored.channels, reached, generation)


def chunks_by_channel(
    stored: StoredCheckpoint, lists: Sequence[HashList]
) -> dict[str, ParentChunks]:
    """Return the chunks that the body and each channel of a checkpoint reach, where they are in
    chunks.
    """
    return {
        channel: ParentChunks(own.reached)
        for channel, own in zip((BODY, *stored.channels), lists, strict=True)
        if own.reached
    }


async def read_pending(
    context: Context, records: Sequence[StoredCheckpoint]
) -> tuple[Writes, Mapping[str, int | None]]:
    """Read the pending writes of checkpoints, the sends that old ones left with their parents, and
    the threads' epochs.

    The epochs are read behind the checkpoints: what was deleted since is of another.
    """
    if not records:
        return {}, {}
    threads = {
        thread_doc_id(one): one for one in sorted({record.address.thread_id for record in records})
    }
    stages = [{"$match": _pending_query(records)}]
    stages.append(epochs_stage(context.options.collections, list(threads.values())))
    found = await Aggregate(context.writes, stages)
    epochs = _living_epochs(found, threads)
    writes = await read_writes(context, found[: len(found) - len(epochs)])
    return grouped(writes), epochs


def _living_epochs(
    found: Sequence[Document], threads: Mapping[bytes, str]
) -> dict[str, int | None]:
    """Return the epochs of threads from what `epochs_stage` added behind the writes."""
    documents = {
        one["_id"]: one for one in found if isinstance(one["_id"], bytes) and one["_id"] in threads
    }
    return {
        threads[key]: living_epoch(threads[key], [one], "living_epoch")
        for key, one in documents.items()
    }


def _pending_query(records: Sequence[StoredCheckpoint]) -> Document:
    """Return the query for the writes of checkpoints, and for the sends that old ones left with
    their parents.
    """
    own = _among([record.address for record in records])
    parents = [
        record.address.at(record.parent_id)
        for record in records
        if record.sends_in_parent and record.parent_id
    ]
    return {"$or": [own, _among(parents) | {"channel": TASKS}]} if parents else own


def _among(addresses: Sequence[CheckpointRef]) -> Document:
    """Return an index range that holds the writes of these checkpoints, and perhaps of
    neighbours.
    """
    return {
        "thread_id": {"$in": sorted({address.thread_id for address in addresses})},
        "checkpoint_ns": {"$in": sorted({address.checkpoint_ns for address in addresses})},
        "checkpoint_id": {"$in": sorted({address.checkpoint_id or "" for address in addresses})},
    }


def grouped(writes: Sequence[StoredWrite]) -> Writes:
    """Return writes by the checkpoints that they belong to."""
    by_checkpoint: dict[CheckpointRef, list[StoredWrite]] = {}
    for write in writes:
        by_checkpoint.setdefault(write.address, []).append(write)
    return by_checkpoint


async def restore(
    context: Context, stored: Sequence[StoredCheckpoint], writes: Writes
) -> list[RestoredCheckpoint]:
    """Load and deserialize checkpoints with their pending writes, which may be of several threads.

    Raises:
        MissingChunkError: A chunk is gone.
    """
    values = [pair for one in stored for pair in _values_of(one, writes)]
    lists = await resolve_hash_lists(context, values)
    loaded = await load_content(context, values, lists)
    work = partial(_build_all, context, stored, writes, lists, loaded)
    restored: list[RestoredCheckpoint] = await Compute(work, sum(map(len, loaded)))
    return restored


def _values_of(stored: StoredCheckpoint, writes: Writes) -> list[ValueOf]:
    """Return the values of a checkpoint in the order in which `_build` takes their bytes: its body,
    its channels, its pending writes.
    """
    ref = stored.address
    own: list[ValueOf] = [(ref, stored.body)]
    own += [(ref, value) for value in stored.channels.values()]
    return own + [(write.address, write.value) for write in _writes_for(stored, writes)]


def _writes_for(stored: StoredCheckpoint, writes: Writes) -> list[StoredWrite]:
    """Return the writes of a checkpoint and, behind them, the sends that an old one left with its
    parent.
    """
    own = list(writes.get(stored.address, ()))
    if not stored.sends_in_parent or stored.parent_id is None:
        return own
    of_parent = writes.get(stored.address.at(stored.parent_id), ())
    return own + [write for write in of_parent if write.channel == TASKS]


def _build_all(
    context: Context,
    stored: Sequence[StoredCheckpoint],
    writes: Writes,
    lists: Sequence[HashList],
    loaded: Sequence[bytes],
) -> list[RestoredCheckpoint]:
    restored: list[RestoredCheckpoint] = []
    start = 0
    for one in stored:
        own = _writes_for(one, writes)
        first_write = start + 1 + len(one.channels)
        found = _build(context, one, own, loaded[start : first_write + len(own)])
        restored.append(RestoredCheckpoint(found, one, lists[start:first_write]))
        start = first_write + len(own)
    return restored


def _build(
    context: Context,
    stored: StoredCheckpoint,
    writes: Sequence[StoredWrite],
    loaded: Sequence[bytes],
) -> CheckpointTuple:
    """Build what a caller gets of a checkpoint, from the bytes of its values as `_values_of` orders
    them.
    """
    ref, count = stored.address, len(stored.channels)
    checkpoint, metadata = deserialize_body(context, ref, stored.body, loaded[0])
    checkpoint["channel_values"] = {
        channel: deserialize(context, ref, value, data)
        for (channel, value), data in zip(
            stored.channels.items(), loaded[1 : count + 1], strict=True
        )
    }
    pending, sends = _deserialize_writes(context, ref, writes, loaded[count + 1 :])
    _migrate_pending_sends(checkpoint, sends)
    return CheckpointTuple(
        config=ref.config(),
        checkpoint=checkpoint,
        metadata=metadata,
        parent_config=_parent_config(stored),
        pending_writes=pending,
    )


def _deserialize_writes(
    context: Context, ref: CheckpointRef, writes: Sequence[StoredWrite], loaded: Sequence[bytes]
) -> tuple[list[PendingWrite], list[Any]]:
    """Return, in the order of their super-step, the pending writes of a checkpoint, and the sends
    of its parent's.
    """
    ordered = sorted(zip(writes, loaded, strict=True), key=lambda pair: pair[0].sort_key())
    pending: list[PendingWrite] = []
    sends: list[Any] = []
    for write, data in ordered:
        value = deserialize(context, ref, write.value, data)
        if write.address == ref:
            pending.append((write.task_id, write.channel, value))
        else:
            sends.append(value)
    return pending, sends


def _parent_config(record: StoredCheckpoint) -> RunnableConfig | None:
    """Return the config of the parent, as far as there is one that can be read."""
    if record.parent_id is None or record.parent_is_hidden:
        return None
    return record.address.at(record.parent_id).config()


def _migrate_pending_sends(checkpoint: Checkpoint, sends: list[Any]) -> None:
    """Give an old checkpoint its pending sends as the channel that newer ones have them in."""
    if sends:
        versions = checkpoint["channel_versions"]
        checkpoint["channel_values"][TASKS] = sends
        versions[TASKS] = max(versions.values()) if versions else next_version(None, 0.0)
