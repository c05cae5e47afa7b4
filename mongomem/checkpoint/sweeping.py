"""The plan that collects garbage: chunks and writes that no checkpoint of a thread leads to.

A put refers to chunks of its parent without writing them, so a chunk that nothing refers to now may
be referred to in a moment. It is marked first; only a later sweep deletes it, once the mark is as old
as the grace, and only if the mark still stands: a put that needs the chunk writes it, which takes
the mark away, and a sweep that finds it referred to does the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from mongomem.checkpoint.addresses import Address
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import CHECKPOINT, CHUNK, all_chunks_of, chunk_key, utc
from mongomem.checkpoint.loading import Placed, descend, read_records, read_writes
from mongomem.checkpoint.records import Record, WriteRecord
from mongomem.checkpoint.threads import new_generation
from mongomem.commands import DeleteMany, Document, Find, UpdateMany

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
    """Read what of a thread leads to chunks. Changes nothing: a removal begins with it, to end before it is half done.

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
    return Roots(await chunks_of(context, thread_id, records, writes), late)


async def sweep(context: Context, thread_id: str) -> None:
    """Delete what has been unreferenced for the grace, and mark what is unreferenced now."""
    roots = await read_roots(context, thread_id)
    for ids in _slices(roots.late):
        await DeleteMany(context.writes, {"_id": {"$in": ids}, "thread_id": thread_id})
    chunks = await Find(context.checkpoints, all_chunks_of(thread_id), {"idle_since": 1})
    await _mark(context, thread_id, chunks, roots.living)


async def chunks_of(
    context: Context, thread_id: str, records: Iterable[Record], writes: Iterable[WriteRecord]
) -> dict[bytes, Address]:
    """Return the ids of all chunks that checkpoints and writes lead to, at every level, each with one that does.

    Raises:
        MissingChunkError: A chunk with names of others is gone.
    """
    placed = [Placed(one.address, value) for one in records for value in (one.body, *one.channels.values())]
    placed += [Placed(write.address, write.value) for write in writes]
    descents = await descend(context, [one for one in placed if one.value.names])
    return {chunk_key(thread_id, name): descent.placed.address for descent in descents for name in descent.reached}


async def _mark(context: Context, thread_id: str, chunks: Sequence[Document], living: Collection[bytes]) -> None:
    now = context.now()
    cutoff = now - context.options.grace
    own = {"thread_id": thread_id, "type": CHUNK}
    marked = {chunk["_id"]: utc(since) for chunk in chunks if isinstance(since := chunk.get("idle_since"), datetime)}
    unmarked = [chunk["_id"] for chunk in chunks if chunk["_id"] not in marked and chunk["_id"] not in living]
    for ids in _slices([key for key in marked if key in living]):
        await UpdateMany(context.checkpoints, {"_id": {"$in": ids}, **own}, {"$unset": {"idle_since": ""}})
    due = [key for key, since in marked.items() if key not in living and since <= cutoff]
    if due:
        # A put that has looked at the thread before and takes longer than the grace must look again.
        await new_generation(context, thread_id)
    for ids in _slices(due):
        idle: dict[str, Any] = {"_id": {"$in": ids}, **own, "idle_since": {"$lte": cutoff}}
        await DeleteMany(context.checkpoints, idle)
    for ids in _slices(unmarked):
        # A mark that is no time counts as none; what another process has just marked keeps that.
        fresh: dict[str, Any] = {"_id": {"$in": ids}, **own, "idle_since": {"$not": {"$lte": LATEST}}}
        await UpdateMany(context.checkpoints, fresh, {"$set": {"idle_since": now}})


def _slices(ids: list[Any]) -> list[list[Any]]:
    return [ids[start : start + SLICE] for start in range(0, len(ids), SLICE)]
