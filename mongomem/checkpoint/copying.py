"""The plan that copies a thread: what refers is read before what it refers to, and written after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo.errors import BulkWriteError

from mongomem.checkpoint.addresses import Address, identifier
from mongomem.checkpoint.caches import ThreadState
from mongomem.checkpoint.codec import CONTENT_FIELDS
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import CHECKPOINT, CHUNK, checkpoint_key, chunk_key, chunk_name, write_key
from mongomem.checkpoint.identity import Member, identity, member
from mongomem.checkpoint.loading import MissingChunkError, Placed, load, look_twice, revive_body
from mongomem.checkpoint.records import read_record, read_write
from mongomem.checkpoint.setup import ready
from mongomem.checkpoint.sweeping import chunks_of
from mongomem.checkpoint.threads import (
    ATTEMPTS,
    ThreadUse,
    contention,
    ensure_thread,
    known_thread,
    pause,
    thread_query,
    thread_write,
)
from mongomem.commands import BulkWrite, Document, Find, Replace, Update, Write
from mongomem.errors import InvalidInputError
from mongomem.upserts import only_duplicates

PAGE = 1000
"""How many documents are read and written at a time."""


@dataclass(frozen=True, slots=True)
class Original:
    """A thread as it was when it was read: its document, and those of its checkpoints and writes that live."""

    thread: Document
    checkpoints: list[Document]
    writes: list[Document]


async def copy_thread(context: Context, source: object, target: object) -> None:
    """Copy every checkpoint of a thread, with its writes and chunks, into another.

    The copy is of one moment: what is put on the source meanwhile is not in it, or is whole. The target is complete
    only when this returns; repeating it finishes an interrupted one.

    Raises:
        ContentionError: Others changed the threads at the same time, again and again.
    """
    source_id, target_id = identifier("source_thread_id", source), identifier("target_thread_id", target)
    if source_id == target_id:
        raise InvalidInputError("source and target are the same thread")
    await ready(context)
    for attempt in range(ATTEMPTS):
        original = await _read(context, source_id)
        if original is None:
            return
        thread = await ensure_thread(context, target_id)
        if await _copy(context, original, source_id, target_id, thread):
            context.state.forget_thread(target_id)
            return
        context.state.forget_thread(target_id)
        await pause(attempt)
    raise contention(target_id)


async def _read(context: Context, thread_id: str) -> Original | None:
    """Read what refers to chunks, before any chunk is: so none that it refers to can come later."""
    threads = await Find(context.checkpoints, thread_query(thread_id), limit=1)
    thread = known_thread(context, threads[0]) if threads else None
    if thread is None or thread.begins:
        return None
    of_life = {"type": CHECKPOINT, "thread_id": thread_id, "epoch": thread.epoch}
    checkpoints = await Find(context.checkpoints, of_life)
    living = [one for one in checkpoints if context.lives(read_record(one, context.codec).touched_at)]
    writes = await Find(context.writes, {"thread_id": thread_id})
    return Original(threads[0], living, [one for one in writes if one.get("epoch") in (None, thread.epoch)])


async def _copy(context: Context, original: Original, source_id: str, target_id: str, thread: ThreadState) -> bool:
    """Write a copy: chunks, writes, then the thread and its checkpoints; say whether nothing got in the way."""
    now = context.now()
    fresh: Document = {"thread_id": target_id, "touched_at": now}
    stamped = fresh | {"epoch": thread.epoch}
    try:
        await look_twice(lambda: _copy_chunks(context, original, source_id, stamped))
        epochs = [{"epoch": thread.epoch} if "epoch" in one else {} for one in original.writes]
        writes = [one | fresh | epoch for one, epoch in zip(original.writes, epochs, strict=True)]
        await _write(context.writes, writes)
        use = await _thread_use(context, original, thread, now)
        reply = await BulkWrite(context.checkpoints, [thread_write(context, target_id, thread, use)])
        if reply.upserted_ids:  # the target has gone meanwhile
            return False
        await _write(context.checkpoints, [one | stamped for one in original.checkpoints])
    except MissingChunkError:
        return False
    except BulkWriteError as error:
        if not only_duplicates(error):
            raise
        return False
    return True


async def _thread_use(context: Context, original: Original, thread: ThreadState, now: datetime) -> ThreadUse:
    """Return what a copy says of its thread: what the source shows, and everybody that it is of."""
    source = original.thread
    # Labels that the target was given stay; one that begins takes those of the source.
    fields = ("last_metadata", "preview", *(["labels"] if thread.begins else []))
    last: Document = {"updated_at": now} | {name: source[name] for name in fields if name in source}
    keys = context.options.metadata_keys if thread.begins else tuple(thread.members)
    lasting = source.get("metadata", {}) | source.get("identity", {})
    return ThreadUse(last, lasting, await _members(context, original, thread, keys))


async def _members(
    context: Context, original: Original, thread: ThreadState, keys: Sequence[str]
) -> dict[str, list[Member]]:
    """Return whom a source is of, as the target names them.

    Digests are keyed with the secret of the source: where it has some, or does not say everybody, its checkpoints do.
    """
    known: Document = original.thread.get("members", {})
    listed: dict[str, list[Member]] = {key: known.get(key, []) for key in keys}
    unsaid = [key for key in keys if key not in known or any(isinstance(one, bytes) for one in known[key])]
    if not unsaid:
        return listed
    records = [read_record(document, context.codec) for document in original.checkpoints]
    bodies = await load(context, [Placed(record.address.thread_id, record.body) for record in records])
    clear = context.clear_metadata
    for key in unsaid:
        texts = [one for one in listed[key] if isinstance(one, str)]
        for record, body in zip(records, bodies, strict=True):
            text = identity(revive_body(context, record.address, record.body, body.data).metadata.get(key))
            texts += [] if text is None else [text]
        is_clear = clear is None or key in clear
        listed[key] = [member(text, thread.name_key, is_clear=is_clear) for text in dict.fromkeys(texts)]
    return listed


async def _copy_chunks(context: Context, original: Original, source_id: str, stamped: Document) -> None:
    """Copy the chunks that checkpoints and writes lead to.

    Raises:
        MissingChunkError: One is gone: the source was removed meanwhile.
    """
    records = [read_record(document, context.codec) for document in original.checkpoints]
    writes = [read_write(document, context.codec) for document in original.writes]
    keys = sorted(await chunks_of(context, source_id, records, writes))
    for start in range(0, len(keys), PAGE):
        page = keys[start : start + PAGE]
        found = await Find(context.checkpoints, {"_id": {"$in": page}, "thread_id": source_id})
        if len(found) < len(page):
            raise MissingChunkError(f"{len(page) - len(found)} chunks of thread {source_id!r} are missing")
        await _write(context.checkpoints, [document | stamped for document in found])


async def _write(collection: str, documents: Sequence[Document]) -> None:
    for start in range(0, len(documents), PAGE):
        await BulkWrite(collection, [_copied(one) for one in documents[start : start + PAGE]], ordered=False)


def _copied(document: Document) -> Write:
    """Return the write of a copy whose thread has been changed: under a new `_id`, a chunk without its idle mark."""
    condition: Document = {"_id": _key(document), "thread_id": document["thread_id"]}
    if document.get("type") != CHUNK:
        return Replace(condition, document | condition)
    content = {field: document[field] for field in CONTENT_FIELDS if field in document}
    kept: dict[str, Any] = {field: document[field] for field in ("type", "epoch", "touched_at")}
    return Update(condition, {"$setOnInsert": content, "$set": kept, "$unset": {"idle_since": ""}}, upsert=True)


def _key(document: Document) -> bytes:
    thread_id = document["thread_id"]
    if document.get("type") == CHUNK:
        return chunk_key(thread_id, chunk_name(document["_id"]))
    address = Address(thread_id, document["checkpoint_ns"], document["checkpoint_id"])
    if document.get("type") == CHECKPOINT:
        return checkpoint_key(address)
    return write_key(address, document["task_id"], document["idx"])
