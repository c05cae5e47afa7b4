"""The state of a thread at one checkpoint: its values, its pending writes, what nodes ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple

from mongomem.checkpoint.documents.collections import checkpoint_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.plans.load import read_checkpoints
from mongomem.checkpoint.plans.read import get_tuple
from mongomem.checkpoint.serde.default import unrevived_classes
from mongomem.display.thread_history import ERROR, INTERRUPT, TRIGGER, next_nodes
from mongomem.engine.commands import Find
from mongomem.errors import ThreadNotFoundError
from mongomem.inspection.context import Context
from mongomem.inspection.history import resolve
from mongomem.inspection.plain_values import Bounds, plain

RESUME = "__resume__"
"""The channel of an answer to what a node asked (``langgraph._internal._constants``)."""


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """What a task wrote and the next super-step will take."""

    task_id: str
    channel: str
    value: Any

    def json(self, bounds: Bounds) -> dict[str, Any]:
        """Return it as JSON, its value bounded."""
        value = plain(self.value, bounds)
        return {"task_id": self.task_id, "channel": self.channel, "value": value}


@dataclass(frozen=True, slots=True)
class State:
    """A state, its values as they were stored.

    Attributes:
        ref: Where it is.
        parent_id: The checkpoint before it.
        created_at: When the graph made it, as it says.
        metadata: Its metadata.
        values: By channel.
        sizes: By channel the bytes of the serialized value.
        next: The nodes that run next.
        writes: The pending writes.
        unrevived: The classes whose objects came as plain data, since their modules are not
            imported or are not allowed.
    """

    ref: CheckpointRef
    parent_id: str | None
    created_at: str
    metadata: Mapping[str, Any]
    values: Mapping[str, Any]
    sizes: Mapping[str, int]
    next: tuple[str, ...]
    writes: Sequence[PendingWrite]
    unrevived: Sequence[str]

    def asked(self) -> Iterator[Any]:
        """Yield what nodes ask and nobody has answered."""
        answered = {one.task_id for one in self.writes if one.channel == RESUME}
        for write in self.writes:
            if write.channel == INTERRUPT and write.task_id not in answered:
                held = write.value if isinstance(write.value, list | tuple) else [write.value]
                yield from (getattr(one, "value", one) for one in held)

    def failed(self) -> Iterator[Any]:
        """Yield how nodes failed."""
        yield from (one.value for one in self.writes if one.channel == ERROR)

    def json(self, bounds: Bounds) -> dict[str, Any]:
        """Return it as JSON, its values bounded."""
        return {
            "thread_id": self.ref.thread_id,
            "checkpoint_ns": self.ref.checkpoint_ns,
            "checkpoint_id": self.ref.checkpoint_id,
            "parent_checkpoint_id": self.parent_id,
            "created_at": self.created_at,
            "metadata": plain(self.metadata, bounds),
            "next": list(self.next),
            "values": {name: plain(one, bounds) for name, one in self.values.items()},
            "bytes": dict(self.sizes),
            "pending_writes": [one.json(bounds) for one in self.writes],
            "interrupts": [plain(one, bounds) for one in self.asked()],
            "errors": [plain(one, bounds) for one in self.failed()],
            "unrevived": list(self.unrevived),
        }


def is_inner(channel: str) -> bool:
    """Say whether a channel is one that the graph steers itself by."""
    return channel.startswith((TRIGGER, "__"))


async def state(
    context: Context, thread_id: object, namespace: str, checkpoint: str | None
) -> State:
    """Read the state that an id, or the end of one, names; without, the newest of the namespace.

    Raises:
        ThreadNotFoundError: There is none.
        InvalidInputError: None ends so, or several do.
        CorruptDataError: It is damaged.
    """
    ref = await resolve(context, thread_id, namespace, checkpoint)
    documents = await Find(context.saver.checkpoints, {"_id": checkpoint_doc_id(ref)}, limit=1)
    stored = await read_checkpoints(context.saver, documents)
    with unrevived_classes() as unrevived:
        found = await get_tuple(context.saver, ref.config())
    if found is None or not stored:
        raise ThreadNotFoundError(f"{ref} was removed meanwhile")
    sizes = {name: value.size for name, value in stored[0].channels.items()}
    return _state(ref, found, sizes, unrevived)


def _state(
    ref: CheckpointRef, found: CheckpointTuple, sizes: Mapping[str, int], unrevived: Sequence[str]
) -> State:
    checkpoint, parent = found.checkpoint, found.parent_config
    values = {
        name: value for name, value in checkpoint["channel_values"].items() if not is_inner(name)
    }
    parent_id = None if parent is None else parent["configurable"]["checkpoint_id"]
    return State(
        ref=ref,
        parent_id=parent_id,
        created_at=str(checkpoint.get("ts") or ""),
        metadata=found.metadata,
        values=values,
        sizes={name: size for name, size in sizes.items() if not is_inner(name)},
        next=next_nodes(checkpoint),
        writes=[PendingWrite(*one) for one in found.pending_writes or ()],
        unrevived=unrevived,
    )
