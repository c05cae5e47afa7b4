"""The plan that copies a thread: chunks first, then writes, the checkpoints last."""

from __future__ import annotations

from mongomem.checkpoint.addresses import Address, identifier
from mongomem.checkpoint.codec import CONTENT_FIELDS
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import (
    CHECKPOINT,
    CHUNK,
    checkpoint_key,
    chunk_key,
    chunk_name,
    member_keys,
    thread_key,
    write_key,
)
from mongomem.checkpoint.threads import ensure_thread, thread_write
from mongomem.commands import BulkWrite, Document, Find, Replace, Update, Write
from mongomem.errors import InvalidInputError

BY_ID = "_id_"
"""The index on `_id`, under the name that the server gives it."""

PAGE = 1000
"""How many documents are read and written at a time."""


async def copy_thread(context: Context, source: object, target: object) -> None:
    """Copy every checkpoint of a thread, with its writes and chunks, into another.

    The target is complete only when this returns; repeating it finishes an interrupted one.
    """
    source_id, target_id = identifier("source_thread_id", source), identifier("target_thread_id", target)
    if source_id == target_id:
        raise InvalidInputError("source and target are the same thread")
    threads = await Find(context.checkpoints, {"_id": thread_key(source_id), "thread_id": source_id}, limit=1)
    if not threads or "updated_at" not in threads[0]:
        return
    thread = await ensure_thread(context, target_id)
    fresh = {"thread_id": target_id, "touched_at": context.now()}
    stamped = fresh | {"epoch": thread.epoch}
    await _copy(context.checkpoints, {"type": CHUNK, "thread_id": source_id}, stamped)
    await _copy(context.writes, {"thread_id": source_id}, fresh)
    metadata = {f"metadata.{key}": value for key, value in threads[0].get("metadata", {}).items()}
    fields = {"updated_at": context.now(), "last_metadata": threads[0].get("last_metadata", {}), **metadata}
    await BulkWrite(context.checkpoints, [thread_write(context, target_id, thread, fields)])
    await _copy(context.checkpoints, {"type": CHECKPOINT, "thread_id": source_id}, stamped)


async def _copy(collection: str, query: Document, changes: Document) -> None:
    """Copy documents page by page, in the order of their ids, with some fields changed."""
    first, last = member_keys(query["thread_id"])
    place: Document = {"$gte": first, "$lte": last}
    while True:
        found = await Find(collection, query | {"_id": place}, sort=(("_id", 1),), limit=PAGE, hint=BY_ID)
        if found:
            await BulkWrite(collection, [_copied(document | changes) for document in found], ordered=False)
        if len(found) < PAGE:
            return
        place = {"$gt": found[-1]["_id"], "$lte": last}


def _copied(document: Document) -> Write:
    """Return the write of a copy whose thread has been changed: under a new `_id`, a chunk without its idle mark."""
    condition = {"_id": _key(document), "thread_id": document["thread_id"]}
    if document.get("type") != CHUNK:
        return Replace(condition, document | condition)
    content = {field: document[field] for field in CONTENT_FIELDS if field in document}
    kept = {field: document[field] for field in ("type", "epoch", "touched_at")}
    return Update(condition, {"$setOnInsert": content, "$set": kept, "$unset": {"idle_since": ""}}, upsert=True)


def _key(document: Document) -> bytes:
    thread_id = document["thread_id"]
    if document.get("type") == CHUNK:
        return chunk_key(thread_id, chunk_name(document["_id"]))
    address = Address(thread_id, document["checkpoint_ns"], document["checkpoint_id"])
    if document.get("type") == CHECKPOINT:
        return checkpoint_key(address)
    return write_key(address, document["task_id"], document["idx"])
