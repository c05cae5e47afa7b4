"""The plan that collects garbage: chunks and writes that no checkpoint of a thread leads to.

A put refers to chunks of its parent without writing them, so a chunk that nothing refers to now may
be referred to in a moment. It is marked first; only a later sweep deletes it, once the mark is as old
as the grace, and only if the mark still stands: a put that needs the chunk writes it, which takes
the mark away, and a sweep that finds it referred to does the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import CHECKPOINT, CHUNK, all_chunks_of, chunk_key, utc
from mongomem.checkpoint.loading import Placed, descend
from mongomem.checkpoint.records import Record, WriteRecord, read_record, read_write
from mongomem.checkpoint.threads import new_generation
from mongomem.commands import DeleteMany, Document, Find, UpdateMany

SLICE = 50_000
"""How many ids one command names: 28 bytes each, far below a message."""


async def sweep(context: Context, thread_id: str) -> None:
    """Delete what has been unreferenced for the grace, and mark what is unreferenced now."""
    documents = await Find(context.checkpoints, {"type": CHECKPOINT, "thread_id": thread_id})
    records = [read_record(document, context.codec) for document in documents]
    stored = await Find(context.writes, {"thread_id": thread_id})
    writes = [read_write(document, context.codec) for document in stored]
    there = {record.address for record in records}
    pairs = zip(stored, writes, strict=True)
    await _delete_late(context, thread_id, [document for document, write in pairs if write.address not in there])
    living = await chunks_of(context, thread_id, records, writes)
    chunks = await Find(context.checkpoints, all_chunks_of(thread_id), {"idle_since": 1})
    await _mark(context, thread_id, chunks, living)


async def _delete_late(context: Context, thread_id: str, orphans: Sequence[Document]) -> None:
    """Delete writes whose checkpoint has not come within the grace: it was removed."""
    cutoff = context.now() - context.options.grace
    late = [document["_id"] for document in orphans if utc(document["touched_at"]) <= cutoff]
    for ids in _slices(late):
        await DeleteMany(context.writes, {"_id": {"$in": ids}, "thread_id": thread_id})


async def chunks_of(
    context: Context, thread_id: str, records: Iterable[Record], writes: Iterable[WriteRecord]
) -> set[bytes]:
    """Return the ids of all chunks that checkpoints and writes lead to, at every level.

    Raises:
        MissingChunkError: A chunk with names of others is gone.
    """
    values = [value for record in records for value in (record.body, *record.channels.values())]
    values += [write.value for write in writes]
    descents = await descend(context, [Placed(thread_id, value) for value in values if value.names])
    return {chunk_key(thread_id, name) for descent in descents for name in descent.reached}


async def _mark(context: Context, thread_id: str, chunks: Sequence[Document], living: Collection[bytes]) -> None:
    now = context.now()
    cutoff = now - context.options.grace
    own = {"thread_id": thread_id, "type": CHUNK}
    marked = {chunk["_id"]: utc(chunk["idle_since"]) for chunk in chunks if chunk.get("idle_since")}
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
        fresh: dict[str, Any] = {"_id": {"$in": ids}, **own, "idle_since": None}
        await UpdateMany(context.checkpoints, fresh, {"$set": {"idle_since": now}})


def _slices(ids: list[Any]) -> list[list[Any]]:
    return [ids[start : start + SLICE] for start in range(0, len(ids), SLICE)]
