"""Plans: a thread as JSON.

Values pass as the bytes that the serializer made, so that nothing is lost where the classes of an
application are not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.ancestry import CheckpointNode
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint, StoredWrite
from mongomem.checkpoint.documents.collections import CHECKPOINT, checkpoint_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.preview import CHANNEL
from mongomem.checkpoint.documents.thread import read_members
from mongomem.checkpoint.documents.thread_list import read_listed
from mongomem.checkpoint.plans.load import (
    MissingChunkError,
    deserialize,
    deserialize_body,
    load_bodies,
    load_values,
    read_undamaged,
    read_writes,
)
from mongomem.checkpoint.plans.thread_state import (
    MAX_ATTEMPTS,
    backoff,
    contention_error,
    read_state,
    thread_document,
)
from mongomem.checkpoint.serde.chunks import StoredValue
from mongomem.engine.commands import Document, Find, slices
from mongomem.engine.effects import Compute
from mongomem.errors import CorruptDataError
from mongomem.transfer.pieces import Pieces
from mongomem.transfer.transcript import Transcript

PAGE_SIZE = 50
"""How many checkpoints are read at a time."""


async def export_thread(context: Context, thread_id: str) -> dict[str, Any] | None:
    """Return a thread as JSON; None where there is none. Damaged checkpoints are left out.

    Raises:
        ContentionError: It lost checkpoints each time that it was read.
    """
    for attempt in range(MAX_ATTEMPTS):
        outline = await thread_outline(context, thread_id)
        if outline is None:
            return None
        gathered = await _gathered(context, outline)
        if not await has_lost_any(context, outline):
            return {**outline.described, **gathered.parts()}
        await backoff(attempt)
    raise await contention_error(context, thread_id)


async def _gathered(context: Context, outline: Outline) -> ThreadJson:
    gathered = ThreadJson(context, outline, transcript=Transcript())
    for ids in slices(outline.ids, PAGE_SIZE):
        for stored, writes in await checkpoint_page(context, outline, ids):
            await gathered.add(stored, writes)
    return gathered


async def living_document(context: Context, thread_id: str) -> Document | None:
    """Return the document of a thread that has checkpoints, else None."""
    document = await thread_document(context, thread_id)
    thread = read_state(context, document)
    return None if thread is None or thread.begins else document


@dataclass(frozen=True, slots=True)
class Outline:
    """A thread before its checkpoints are read.

    Attributes:
        described: What is said of it as a whole, as JSON.
        thread_id: Its id.
        life: Its epoch and its generation.
        ids: The `_id` of each checkpoint, in the order of their ids.
    """

    described: dict[str, Any]
    thread_id: str
    life: tuple[int, object]
    ids: Sequence[bytes]

    @property
    def epoch(self) -> int:
        return self.life[0]


def _life_of(document: Document) -> tuple[int, object]:
    """Return what changes when something of a thread is removed."""
    return document["epoch"], document.get("generation")


async def thread_outline(context: Context, thread_id: str) -> Outline | None:
    """Return the outline of a thread that has checkpoints, else None."""
    document = await living_document(context, thread_id)
    if document is None:
        return None
    own = {"type": CHECKPOINT, "thread_id": thread_id, "epoch": document["epoch"]}
    found = await Find(context.checkpoints, own, {"checkpoint_id": 1})
    found.sort(key=lambda one: str(one.get("checkpoint_id")))
    ids = [one["_id"] for one in found]
    return Outline(_described(document), thread_id, _life_of(document), ids)


async def checkpoint_page(
    context: Context, outline: Outline, ids: Sequence[bytes]
) -> list[tuple[StoredCheckpoint, list[StoredWrite]]]:
    """Read checkpoints of a thread, with their writes. Damaged ones are left out."""
    own = {"_id": {"$in": [*ids]}, "thread_id": outline.thread_id, "epoch": outline.epoch}
    records = await read_undamaged(context, await Find(context.checkpoints, own))
    living = [stored for stored in records if context.is_alive(stored.touched_at)]
    living.sort(key=lambda stored: stored.ref.checkpoint_id or "")
    writes = await _writes_by_checkpoint(context, outline, [stored.ref for stored in living])
    return [(stored, writes.get(stored.ref, [])) for stored in living]


async def _writes_by_checkpoint(
    context: Context, outline: Outline, refs: Sequence[CheckpointRef]
) -> dict[CheckpointRef, list[StoredWrite]]:
    """Read the pending writes of checkpoints, in their order."""
    found: dict[CheckpointRef, list[StoredWrite]] = {}
    places = [
        {"checkpoint_ns": one.checkpoint_ns, "checkpoint_id": one.checkpoint_id} for one in refs
    ]
    own = {"thread_id": outline.thread_id, "$or": places}
    for document in await Find(context.writes, own) if places else []:
        with context.caches.damage.left_out(document["_id"]):
            (write,) = await read_writes(context, [document])
            if write.epoch in (None, outline.epoch):
                found.setdefault(write.ref, []).append(write)
    return {place: sorted(own, key=StoredWrite.sort_key) for place, own in found.items()}


def _described(document: Document) -> dict[str, Any]:
    """Return what a thread document says of its thread."""
    thread = read_listed(document)
    members = {
        key: sorted(one for one in found if isinstance(one, str))
        for key, found in read_members(document).items()
    }
    return {
        "thread_id": thread.thread_id,
        "created_at": thread.created_at.isoformat(),
        "updated_at": thread.updated_at.isoformat(),
        "labels": document.get("labels") or {},
        "users": members,
    }


async def has_lost_any(context: Context, outline: Outline) -> bool:
    """Say whether something was removed from a thread since its outline was read: what was read
    of it may be without its writes, and what is newest may have come since. What is removed without
    that was hidden before, and nothing needs it.
    """
    document = await living_document(context, outline.thread_id)
    return document is None or _life_of(document) != outline.life


async def count_living(context: Context, outline: Outline, ids: Sequence[bytes]) -> int:
    """Count the checkpoints that are still there."""
    own = {"_id": {"$in": [*ids]}, "thread_id": outline.thread_id, "epoch": outline.epoch}
    found = await Find(context.checkpoints, own, {"touched_at": 1}) if ids else []
    times = [one.get("touched_at") for one in found]
    return sum(not isinstance(time, datetime) or context.is_alive(time) for time in times)


@dataclass(slots=True)
class ThreadJson:
    """The checkpoints of a thread that were gathered so far, in the order of their ids.

    Attributes:
        context: What every plan of the saver is given.
        outline: The thread.
        pieces: What their values are made of.
        transcript: The messages, where they are wanted.
        checkpoints: The checkpoints, as JSON.
        gathered: The `_id` of each of them, also of those that were taken from here since.
    """

    context: Context
    outline: Outline
    pieces: Pieces = field(default_factory=Pieces)
    transcript: Transcript | None = None
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    gathered: set[str | bytes] = field(default_factory=set)

    def parts(self) -> dict[str, Any]:
        """Return the members of the JSON of a thread that they make."""
        return {
            "transcript": [] if self.transcript is None else self.transcript.lines,
            "checkpoints": self.checkpoints,
            "pieces": self.pieces.encoded,
        }

    async def add(self, stored: StoredCheckpoint, writes: Sequence[StoredWrite]) -> None:
        """Gather a checkpoint and its writes, unless it is damaged or was removed meanwhile."""
        key = checkpoint_doc_id(stored.ref)
        with self.context.caches.damage.left_out(key):
            try:
                await self._gather(await self._on_its_parent(stored), writes)
            except MissingChunkError:
                if not await has_lost_any(self.context, self.outline):
                    raise
            else:
                self.gathered.add(key)

    async def _on_its_parent(self, stored: StoredCheckpoint) -> StoredCheckpoint:
        """Return a checkpoint without its parent where that was not gathered.

        Raises:
            CorruptDataError: It cannot be rebuilt without.
        """
        ref, parent_id = stored.ref, stored.parent_id
        parent = None if parent_id is None else checkpoint_doc_id(ref.at(parent_id))
        if parent is None or parent in self.gathered:
            return stored
        if str(parent_id) > str(ref.checkpoint_id) and parent in self.outline.ids:
            return stored  # clocks differ: it follows
        ((checkpoint, metadata),) = await load_bodies(self.context, [stored])
        if CheckpointNode.of(stored, checkpoint["channel_versions"], metadata).needs_parent:
            raise CorruptDataError(f"{ref}: its parent, by which it is rebuilt, cannot be read")
        return replace(stored, parent_id=None)

    async def _gather(self, stored: StoredCheckpoint, writes: Sequence[StoredWrite]) -> None:
        values = [stored.body, *stored.channels.values(), *(write.value for write in writes)]
        loaded = await load_values(self.context, [(stored.ref, value) for value in values])
        work = partial(self._encode, stored, writes, values, loaded)
        await Compute(work, sum(map(len, loaded)))

    def _encode(
        self,
        stored: StoredCheckpoint,
        writes: Sequence[StoredWrite],
        values: Sequence[StoredValue],
        loaded: Sequence[bytes],
    ) -> None:
        if self.transcript is not None:
            self._tell(self.transcript, stored, writes, loaded)
        pairs = zip(values, loaded, strict=True)
        encoded = [self.pieces.encode((value.type, data)) for value, data in pairs]
        body, *others = encoded
        kept = others[len(stored.channels) :]
        shown: dict[str, Any] = {
            **_described_checkpoint(stored),
            "checkpoint": body,
            "channels": dict(zip(stored.channels, others, strict=False)),
            "writes": [_write_json(*pair) for pair in zip(writes, kept, strict=True)],
        }
        self.checkpoints.append(shown)

    def _tell(
        self,
        transcript: Transcript,
        stored: StoredCheckpoint,
        writes: Sequence[StoredWrite],
        loaded: Sequence[bytes],
    ) -> None:
        """Add the messages of a checkpoint of the root graph to the transcript."""
        ref = stored.ref
        checkpoint, _ = deserialize_body(self.context, ref, stored.body, loaded[0])
        if ref.checkpoint_ns:
            return
        values = [*stored.channels.items(), *((write.channel, write.value) for write in writes)]
        said = [
            deserialize(self.context, ref, value, data)
            for (channel, value), data in zip(values, loaded[1:], strict=True)
            if channel == CHANNEL
        ]
        count = int(CHANNEL in stored.channels)
        transcript.add(checkpoint, said[:count], said[count:])


def _described_checkpoint(stored: StoredCheckpoint) -> dict[str, Any]:
    """Return the members that say which checkpoint it is; `hidden` only where it is."""
    described: dict[str, Any] = {
        "namespace": stored.ref.checkpoint_ns,
        "id": stored.ref.checkpoint_id,
        "parent_id": stored.parent_id,
    }
    return described | ({"hidden": True} if stored.hidden else {})


def _write_json(write: StoredWrite, value: dict[str, Any]) -> dict[str, Any]:
    return {
        "task_id": write.task_id,
        "task_path": write.task_path,
        "idx": write.idx,
        "channel": write.channel,
        "value": value,
    }
