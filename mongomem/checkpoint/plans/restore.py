"""From records to what a caller gets: pending writes read, values loaded together, checkpoints put
together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, PendingWrite
from langgraph.checkpoint.serde.types import TASKS

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint, StoredWrite
from mongomem.checkpoint.documents.collections import epochs_stage, living_epoch, thread_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.plans.load import Loaded, Placed, load, read_writes, revive, revive_body
from mongomem.checkpoint.serde.channels import BODY, ParentState
from mongomem.checkpoint.serde.chunks import ParentChunks
from mongomem.checkpoint.serde.versions import next_version
from mongomem.engine.commands import Aggregate, Document
from mongomem.engine.effects import Compute

Writes = Mapping[CheckpointRef, Sequence[StoredWrite]]


@dataclass(frozen=True, slots=True)
class RestoredCheckpoint:
    """A checkpoint as the caller gets it, and what a put on it would need to know."""

    tuple: CheckpointTuple
    record: StoredCheckpoint
    known: dict[str, ParentChunks]

    def as_parent(self, generation: int | None) -> ParentState:
        """Return what a put must know of this checkpoint, seen under `generation`."""
        versions = dict(self.tuple.checkpoint["channel_versions"])
        return ParentState(versions, self.record.channels, self.known, generation)


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
    context: Context, records: Sequence[StoredCheckpoint], writes: Writes
) -> list[RestoredCheckpoint]:
    """Load and decode checkpoints with their pending writes, which may be of several threads.

    Raises:
        MissingChunkError: A chunk is gone.
    """
    placed: list[Placed] = []
    for record in records:
        placed += [
            Placed(record.address, value) for value in (record.body, *record.channels.values())
        ]
        placed += [Placed(write.address, write.value) for write in _writes_for(record, writes)]
    loaded = await load(context, placed)
    work = partial(_decode_all, context, records, writes, loaded)
    restored: list[RestoredCheckpoint] = await Compute(work, sum(len(one.data) for one in loaded))
    return restored


def _writes_for(record: StoredCheckpoint, writes: Writes) -> list[StoredWrite]:
    """Return the writes of a checkpoint and, behind them, the sends that an old one left with its
    parent.
    """
    own = list(writes.get(record.address, ()))
    if not record.sends_in_parent or record.parent_id is None:
        return own
    return own + [
        one for one in writes.get(record.address.at(record.parent_id), ()) if one.channel == TASKS
    ]


def _decode_all(
    context: Context, records: Sequence[StoredCheckpoint], writes: Writes, loaded: Sequence[Loaded]
) -> list[RestoredCheckpoint]:
    remaining = iter(loaded)
    return [
        _decode(
            context,
            record,
            {channel: next(remaining) for channel in (BODY, *record.channels)},
            [(write, next(remaining)) for write in _writes_for(record, writes)],
        )
        for record in records
    ]


def _decode(
    context: Context,
    record: StoredCheckpoint,
    loaded: dict[str, Loaded],
    writes: list[tuple[StoredWrite, Loaded]],
) -> RestoredCheckpoint:
    body = revive_body(context, record.address, record.body, loaded[BODY].data)
    checkpoint: Any = body.checkpoint
    checkpoint["channel_values"] = {
        channel: revive(context, record.address, value, loaded[channel].data)
        for channel, value in record.channels.items()
    }
    pending, sends = _revived_writes(context, record.address, writes)
    _adopt_sends(checkpoint, sends)
    found = CheckpointTuple(
        config=record.address.config(),
        checkpoint=checkpoint,
        metadata=body.metadata,
        parent_config=_parent_config(record),
        pending_writes=pending,
    )
    known = {channel: ParentChunks(one.names) for channel, one in loaded.items() if one.names}
    return RestoredCheckpoint(found, record, known)


def _revived_writes(
    context: Context, address: CheckpointRef, writes: list[tuple[StoredWrite, Loaded]]
) -> tuple[list[PendingWrite], list[Any]]:
    """Return, in the order of their super-step, the pending writes of a checkpoint, and the sends
    of its parent's.
    """
    ordered = sorted(writes, key=lambda pair: pair[0].sort_key())
    revived = [
        (write, revive(context, address, write.value, found.data)) for write, found in ordered
    ]
    return (
        [
            (write.task_id, write.channel, value)
            for write, value in revived
            if write.address == address
        ],
        [value for write, value in revived if write.address != address],
    )


def _parent_config(record: StoredCheckpoint) -> RunnableConfig | None:
    """Return the config of the parent, as far as there is one that can be read."""
    if record.parent_id is None or record.parent_is_hidden:
        return None
    return record.address.at(record.parent_id).config()


def _adopt_sends(checkpoint: dict[str, Any], sends: list[Any]) -> None:
    """Give an old checkpoint its pending sends as the channel that newer ones have them in."""
    if sends:
        versions = checkpoint["channel_versions"]
        checkpoint["channel_values"][TASKS] = sends
        versions[TASKS] = max(versions.values()) if versions else next_version(None, 0.0)
