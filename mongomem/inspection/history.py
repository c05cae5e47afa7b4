"""The history of a thread: its checkpoints and how they hang together, without their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from mongomem.arguments import checked_number, shown
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint
from mongomem.checkpoint.documents.collections import CHECKPOINT, VISIBLE
from mongomem.checkpoint.documents.config import CheckpointRef, identifier
from mongomem.checkpoint.documents.fields import living_epoch
from mongomem.checkpoint.documents.thread import thread_query
from mongomem.checkpoint.plans.load import (
    deserialize,
    load_bodies,
    load_values,
    read_checkpoints,
    read_writes,
    retry_if_chunk_missing,
)
from mongomem.damage import UNREADABLE
from mongomem.display.descriptions import described
from mongomem.display.thread_history import (
    ERROR,
    INTERRUPT,
    TRIGGER,
    Change,
    Step,
    next_nodes,
)
from mongomem.engine.commands import Document, Find, slices
from mongomem.errors import InvalidInputError, ThreadNotFoundError
from mongomem.inspection.context import Context
from mongomem.inspection.plain_values import plain, text_of_bytes

PAGE = 100

FIELDS_OF_WRITE = (INTERRUPT, ERROR)
"""The channels of the pending writes that a history tells of."""


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A checkpoint of a history.

    Attributes:
        ref: Where it is.
        step: It, as a timeline shows it. What changed are the channels whose versions are not those
            of the parent, each with the bytes of its value.
        number: The super-step, as the metadata has it.
        parents: By namespace, the checkpoints under which a subgraph made it.
        bytes: Those of all of its values.
        created_at: When it was stored.
    """

    ref: CheckpointRef
    step: Step
    number: Any
    parents: Mapping[str, str]
    bytes: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class History:
    """Checkpoints of a thread, newest first.

    Attributes:
        thread_id: The thread.
        steps: The checkpoints.
        is_cut: There are older ones.
        damaged: What cannot be read, and why.
    """

    thread_id: str
    steps: Sequence[HistoryStep]
    is_cut: bool
    damaged: Sequence[str]


async def history(
    context: Context, thread_id: object, namespace: str | None, limit: object
) -> History:
    """Read the newest checkpoints of a thread, of one namespace or of all.

    Raises:
        ThreadNotFoundError: It has none.
    """
    name = identifier("thread_id", thread_id)
    most = checked_number("limit", limit, least=1)
    documents = await checkpoint_documents(context, name, namespace, most + 1)
    if not documents:
        raise await absent(context, name, namespace)
    damaged: list[str] = []
    read: list[_Read] = []
    for page in slices(documents[:most], PAGE):
        read += await _read(context, page, damaged)
    said = await _written(context, name, [one.stored.ref for one in read], damaged)
    return History(name, _steps(read, said), len(documents) > most, damaged)


async def checkpoint_documents(
    context: Context,
    thread_id: str,
    namespace: str | None,
    limit: int,
    projection: Document | None = None,
) -> list[Document]:
    """Read the documents of the newest checkpoints of a thread, as far as they are to be seen."""
    threads = await Find(
        context.saver.checkpoints, thread_query(thread_id), {"thread_id": 1, "epoch": 1}, limit=1
    )
    epoch = living_epoch(thread_id, threads)
    if epoch is None:
        return []
    query: Document = {"type": CHECKPOINT, "hidden": VISIBLE, "thread_id": thread_id}
    query |= {"epoch": epoch} | ({} if namespace is None else {"checkpoint_ns": namespace})
    return await Find(
        context.saver.checkpoints, query, projection, sort=[("checkpoint_id", -1)], limit=limit
    )


async def absent(context: Context, thread_id: str, namespace: str | None) -> ThreadNotFoundError:
    """Return the error for a thread that has no checkpoint to be seen, or none in a namespace."""
    there = namespace and await checkpoint_documents(context, thread_id, None, 1, {"_id": 1})
    if there:
        return ThreadNotFoundError(
            f"thread {shown(thread_id)} has no checkpoint in the namespace {shown(namespace)}"
        )
    return ThreadNotFoundError(f"there is no thread {shown(thread_id)} in this database")


async def resolve(
    context: Context, thread_id: object, namespace: str, checkpoint: str | None
) -> CheckpointRef:
    """Return the checkpoint of a namespace that an id or the end of one names; without, the newest.

    Raises:
        ThreadNotFoundError: The thread has none in that namespace.
        InvalidInputError: None ends so, or several do.
    """
    name = identifier("thread_id", thread_id)
    most = 1 if checkpoint is None else 0
    fields = {"checkpoint_id": 1}
    documents = await checkpoint_documents(context, name, namespace, most, fields)
    ids = [one["checkpoint_id"] for one in documents if isinstance(one["checkpoint_id"], str)]
    if not ids:
        raise await absent(context, name, namespace)
    found = ids[0] if checkpoint is None else _ending(ids, checkpoint, f"thread {shown(name)}")
    return CheckpointRef(name, namespace, found)


def _ending(ids: Sequence[str], end: str, thread: str) -> str:
    """Return the id that is, or ends, so.

    Raises:
        InvalidInputError: There is none, or there are several.
    """
    found = [end] if end in ids else [one for one in ids if end and one.endswith(end)]
    if len(found) != 1:
        many = f"{len(found)} checkpoints whose ids end" if found else "no checkpoint whose id ends"
        raise InvalidInputError(f"{thread} has {many} with {shown(end)}: its history has the ids")
    return found[0]


@dataclass(frozen=True, slots=True)
class _Read:
    """A checkpoint whose body was loaded."""

    stored: StoredCheckpoint
    checkpoint: Mapping[str, Any]
    metadata: Mapping[str, Any]

    @property
    def versions(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.checkpoint["channel_versions"]
        return found


async def _read(context: Context, documents: Sequence[Document], damaged: list[str]) -> list[_Read]:
    """Read checkpoints with their bodies; where that meets damage, of one after the other."""
    try:
        return await _bodies(context, documents)
    except UNREADABLE as error:
        if len(documents) == 1:
            damaged.append(str(error))
            return []
        return [found for one in documents for found in await _read(context, [one], damaged)]


async def _bodies(context: Context, documents: Sequence[Document]) -> list[_Read]:
    stored = await read_checkpoints(context.saver, documents)
    bodies = await retry_if_chunk_missing(partial(load_bodies, context.saver, stored))
    return [
        _Read(one, checkpoint, metadata)
        for one, (checkpoint, metadata) in zip(stored, bodies, strict=True)
    ]


Said = tuple[str, str]
"""The channel of a pending write, and what it says, described."""


async def _written(
    context: Context, thread_id: str, refs: Sequence[CheckpointRef], damaged: list[str]
) -> dict[CheckpointRef, list[Said]]:
    """Read what nodes asked, and how they failed."""
    query = {
        "thread_id": thread_id,
        "checkpoint_ns": {"$in": sorted({one.checkpoint_ns for one in refs})},
        "checkpoint_id": {"$in": sorted({one.checkpoint_id or "" for one in refs})},
        "channel": {"$in": [*FIELDS_OF_WRITE]},
    }
    found: dict[CheckpointRef, list[Said]] = {}
    for document in await Find(context.saver.writes, query):
        try:
            ref, said = await _said(context, document)
        except UNREADABLE as error:
            damaged.append(str(error))
        else:
            found.setdefault(ref, []).extend(said)
    return found


async def _said(context: Context, document: Document) -> tuple[CheckpointRef, list[Said]]:
    """Read a pending write; return its checkpoint, and what it says."""
    (write,) = await read_writes(context.saver, [document])
    (data,) = await load_values(context.saver, [(write.ref, write.value)])
    value = deserialize(context.saver, write.ref, write.value, data)
    return write.ref, [(write.channel, described(one)) for one in _each(write.channel, value)]


def _each(channel: str, value: Any) -> Iterable[Any]:
    """Give what nodes asked: a write holds a list of ``Interrupt``."""
    if channel != INTERRUPT:
        return [value]
    held = value if isinstance(value, list | tuple) else [value]
    return [getattr(one, "value", one) for one in held]


def _steps(
    read: Sequence[_Read], said: Mapping[CheckpointRef, Sequence[Said]]
) -> list[HistoryStep]:
    versions = {one.stored.ref: one.versions for one in read}
    return [_step(one, versions, said.get(one.stored.ref, ())) for one in read]


def _step(
    read: _Read,
    versions: Mapping[CheckpointRef, Mapping[str, Any]],
    said: Sequence[Said],
) -> HistoryStep:
    stored, metadata = read.stored, read.metadata
    parent = versions.get(stored.ref.at(stored.parent_id), {})
    number, source = (described(metadata.get(one, "?"), 12) for one in ("step", "source"))
    step = Step(
        id=stored.ref.checkpoint_id or "",
        parent_id=None if stored.parent_is_hidden else stored.parent_id,
        number=number,
        source=source,
        changes=tuple(_changes(read, parent)),
        next=_next(read),
        interrupts=_of(INTERRUPT, said),
        errors=_of(ERROR, said),
        created_at=str(read.checkpoint.get("ts") or ""),
        namespace=stored.ref.checkpoint_ns,
    )
    as_stored = plain(metadata.get("step"))
    parents = _parents(metadata)
    return HistoryStep(stored.ref, step, as_stored, parents, stored.size, stored.created_at)


def _next(read: _Read) -> tuple[str, ...]:
    held = {"versions_seen": {}, **read.checkpoint, "channel_values": read.stored.channels}
    return next_nodes(held)


def _of(channel: str, said: Sequence[Said]) -> tuple[str, ...]:
    return tuple(text for name, text in said if name == channel)


def _parents(metadata: Mapping[str, Any]) -> dict[str, str]:
    held = metadata.get("parents")
    parents = held if isinstance(held, Mapping) else {}
    return {str(name): str(one) for name, one in parents.items()}


def _changes(read: _Read, parent: Mapping[str, Any]) -> Iterable[Change]:
    """Give the channels of a state whose versions are others than those of the parent."""
    for name, value in read.stored.channels.items():
        is_inner = name.startswith((TRIGGER, "__"))
        if not is_inner and read.versions.get(name) != parent.get(name):
            yield Change(name, text_of_bytes(value.size))
