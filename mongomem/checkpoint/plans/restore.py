"""From records to what a caller gets: values loaded together, then checkpoints put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.types import TASKS

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint, StoredWrite
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.plans.load import Loaded, Placed, load, revive, revive_body
from mongomem.checkpoint.serde.channels import BODY, ParentState
from mongomem.checkpoint.serde.chunks import ParentChunks
from mongomem.checkpoint.serde.versions import next_version
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


async def restore(context: Context, records: Sequence[StoredCheckpoint], writes: Writes) -> list[RestoredCheckpoint]:
    """Load and decode checkpoints with their pending writes, which may be of several threads.

    Raises:
        MissingChunkError: A chunk is gone.
    """
    placed: list[Placed] = []
    for record in records:
        placed += [Placed(record.address, value) for value in (record.body, *record.channels.values())]
        placed += [Placed(write.address, write.value) for write in _writes_for(record, writes)]
    loaded = await load(context, placed)
    work = partial(_decode_all, context, records, writes, loaded)
    restored: list[RestoredCheckpoint] = await Compute(work, sum(len(one.data) for one in loaded))
    return restored


def _writes_for(record: StoredCheckpoint, writes: Writes) -> list[StoredWrite]:
    """Return the writes of a checkpoint and, behind them, the sends that an old one left with its parent."""
    own = list(writes.get(record.address, ()))
    if not record.sends_in_parent or record.parent_id is None:
        return own
    return own + [one for one in writes.get(record.address.at(record.parent_id), ()) if one.channel == TASKS]


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
    context: Context, record: StoredCheckpoint, loaded: dict[str, Loaded], writes: list[tuple[StoredWrite, Loaded]]
) -> RestoredCheckpoint:
    body = revive_body(context, record.address, record.body, loaded[BODY].data)
    checkpoint: Any = body.checkpoint
    checkpoint["channel_values"] = {
        channel: revive(context, record.address, value, loaded[channel].data)
        for channel, value in record.channels.items()
    }
    revived = [
        (write, revive(context, record.address, write.value, found.data))
        for write, found in sorted(writes, key=lambda pair: pair[0].sort_key())
    ]
    _adopt_sends(checkpoint, [value for write, value in revived if write.address != record.address])
    found = CheckpointTuple(
        config=record.address.config(),
        checkpoint=checkpoint,
        metadata=body.metadata,
        parent_config=_parent_config(record),
        pending_writes=[
            (write.task_id, write.channel, value) for write, value in revived if write.address == record.address
        ],
    )
    return RestoredCheckpoint(
        found, record, {channel: ParentChunks(one.names) for channel, one in loaded.items() if one.names}
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
