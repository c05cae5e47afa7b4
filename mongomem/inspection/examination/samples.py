"""Documents that are damaged, or belong to nothing: a bounded sample of each kind, and the newest
threads as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    CHUNK,
    THREAD,
    chunk_hash,
    thread_doc_id,
)
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.thread_list import ORDER, epoch_of, read_listed
from mongomem.checkpoint.plans.load import read_checkpoints, read_writes
from mongomem.checkpoint.plans.read import get_tuple
from mongomem.checkpoint.serde.serializer import UnopenedError
from mongomem.damage import UNREADABLE
from mongomem.engine.commands import Aggregate, Document, Find, Plan
from mongomem.errors import ConfigurationError
from mongomem.inspection.context import Context
from mongomem.inspection.examination.findings import MOST_MILLISECONDS, Findings, look
from mongomem.store.documents.stored_item import read_item

SAMPLED, NEWEST = 300, 20
"""Documents that are drawn from each collection, and threads whose newest state is restored."""

MOST_NAMED = 5

LEFT = timedelta(days=1)
"""How long what a removal left may stay: the grace is an hour unless configured."""


@dataclass(slots=True)
class _Seen:
    """What the samples show.

    Attributes:
        count: How many documents were read.
        damaged: What cannot be read, and why.
        locked: What this memory has not the means to read, and why.
        orphans: Of which threads that are gone something is left.
        idle: How many chunks nothing refers to any more.
    """

    count: int = 0
    damaged: list[str] = field(default_factory=list)
    locked: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    idle: int = 0


async def examine_samples(context: Context, findings: Findings) -> None:
    """Read samples, and say what of them is damaged or left over."""
    seen = _Seen()
    await look(findings, "checkpoints and chunks", _see_checkpoints(context, seen))
    await look(findings, "pending writes", _see_writes(context, seen))
    await look(findings, "items", _see_items(context, seen))
    await look(findings, "the newest states", _see_newest(context, seen))
    await look(findings, "what is left of threads", _see_tombstones(context, findings))
    findings.facts["documents_read"] = seen.count
    _say(findings, seen)


def _say(findings: Findings, seen: _Seen) -> None:
    if seen.damaged:
        findings.error(
            "damaged",
            f"{len(seen.damaged)} of {seen.count} documents looked at are damaged",
            "restore them from a backup, or delete the thread or the item; lists leave them out",
            seen.damaged[:MOST_NAMED],
        )
    if seen.locked:
        findings.unseen(
            f"the content of {len(seen.locked)} documents",
            seen.locked[0],
            "say --encrypted or leave it out, as the data were written; --memory gives the "
            "application's own serializer",
        )
    _say_left_over(findings, seen)


def _say_left_over(findings: Findings, seen: _Seen) -> None:
    if seen.orphans:
        findings.warning(
            "orphans",
            f"{len(seen.orphans)} of {seen.count} documents looked at are of threads that are gone",
            "delete these threads once more, which removes what is left of them",
            sorted({*seen.orphans})[:MOST_NAMED],
        )
    if seen.idle:
        findings.note(
            "idle_chunks",
            f"{seen.idle} of {seen.count} documents looked at are chunks that nothing refers to",
            "the next prune of their threads deletes them",
        )


async def _sample(collection: str) -> list[Document]:
    """Draw documents at random; where there are many, without reading the others (MongoDB 4.4)."""
    return await Aggregate(
        collection, [{"$sample": {"size": SAMPLED}}], most_milliseconds=MOST_MILLISECONDS
    )


async def _see_checkpoints(context: Context, seen: _Seen) -> None:
    documents = await _sample(context.saver.checkpoints)
    for document in documents:
        await _see(seen, document, _readers(context))
    threads = await _threads_of(context, documents)
    for document in documents:
        _see_owner(context, seen, document, threads)


Reader = Callable[[Document], Plan[Any]]


def _readers(context: Context) -> dict[str, Reader]:
    """Return how a document is read, by its type."""

    async def read_chunk(document: Document) -> None:
        name = chunk_hash(document["_id"])
        context.saver.serializer.open_chunk(document["thread_id"], name, document)

    async def read_thread(document: Document) -> None:
        if document.get("deleted_at") is None and document.get("updated_at") is not None:
            read_listed(document)

    async def read_checkpoint(document: Document) -> None:
        await read_checkpoints(context.saver, [document])

    return {CHUNK: read_chunk, THREAD: read_thread, CHECKPOINT: read_checkpoint}


async def _see(seen: _Seen, document: Document, readers: Mapping[str, Reader]) -> None:
    """Read a document; note what is wrong about it."""
    seen.count += 1
    kind = document.get("type")
    read = readers.get(kind) if isinstance(kind, str) else None
    if read is None:
        seen.damaged.append(f"a document of type {kind!r}: _id {document['_id']!r}")
        return
    await _noted(seen, f"{kind} of thread {document.get('thread_id')!r}", read(document))


async def _noted(seen: _Seen, name: str, plan: Plan[Any]) -> None:
    try:
        await plan
    except (UnopenedError, ConfigurationError) as error:
        seen.locked.append(str(error))
    except UNREADABLE as error:
        seen.damaged.append(str(error) if "thread" in str(error) else f"{name}: {error}")
    except (KeyError, TypeError, ValueError) as error:
        seen.damaged.append(f"{name}: {type(error).__name__} {error}")


async def _threads_of(
    context: Context, documents: Iterable[Mapping[str, Any]]
) -> dict[str, Document]:
    """Read the thread documents that others belong to, by thread id."""
    names = {one["thread_id"] for one in documents if isinstance(one.get("thread_id"), str)}
    keys = [thread_doc_id(name) for name in names]
    fields = {"thread_id": 1, "epoch": 1, "deleted_at": 1, "updated_at": 1}
    found = await Find(context.saver.checkpoints, {"_id": {"$in": keys}}, fields)
    return {one["thread_id"]: one for one in found if isinstance(one.get("thread_id"), str)}


def _see_owner(
    context: Context, seen: _Seen, document: Document, threads: Mapping[str, Document]
) -> None:
    """Note what belongs to a thread that is gone, or to a life of it that has ended."""
    name, kind = document.get("thread_id"), document.get("type")
    if not isinstance(name, str) or kind not in (CHECKPOINT, CHUNK):
        return
    thread = threads.get(name)
    epoch, living = epoch_of(document), epoch_of(thread or {})
    has_ended = epoch is not None and living is not None and epoch < living
    if thread is None or has_ended:
        if _is_old(context, document):
            seen.orphans.append(name)
    elif document.get("idle_since") is not None:
        seen.idle += 1


def _is_old(context: Context, document: Mapping[str, Any]) -> bool:
    """Say whether a document was last used so long ago that no put is under way with it."""
    touched = document.get("touched_at")
    try:
        return bool(context.saver.now() - touched > LEFT)  # type: ignore[operator]
    except TypeError:  # no time, or one that is not aware
        return True


async def _see_writes(context: Context, seen: _Seen) -> None:
    for document in await _sample(context.saver.writes):
        seen.count += 1
        name = f"pending write of thread {document.get('thread_id')!r}"
        await _noted(seen, name, read_writes(context.saver, [document]))


async def _see_items(context: Context, seen: _Seen) -> None:
    for document in await _sample(context.store.items):
        seen.count += 1
        try:
            read_item(document)
        except UNREADABLE as error:
            seen.damaged.append(str(error))


async def _see_newest(context: Context, seen: _Seen) -> None:
    """Restore the newest state of the newest threads: what a resume would read."""
    query: Document = {"type": THREAD, "deleted_at": None}
    found = await Find(context.saver.checkpoints, query, {"thread_id": 1}, sort=ORDER, limit=NEWEST)
    for name in [one["thread_id"] for one in found if isinstance(one.get("thread_id"), str)]:
        seen.count += 1
        config = CheckpointRef(name).config()
        await _noted(seen, f"thread {name!r}", get_tuple(context.saver, config))


async def _see_tombstones(context: Context, findings: Findings) -> None:
    """Count what is left of threads that were deleted long ago."""
    before = context.saver.now() - LEFT
    query = {"type": THREAD, "deleted_at": {"$lt": before}}
    found = await Find(context.saver.checkpoints, query, {"thread_id": 1}, limit=SAMPLED)
    if found:
        findings.note(
            "tombstones",
            f"{len(found)}{' or more' if len(found) == SAMPLED else ''} threads were deleted more "
            "than a day ago, and a document of each is left",
            "the next write of a saver removes them, a hundred at a time",
        )
