"""The plan that copies a thread: what refers is read before what it refers to, and written after
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from pymongo.errors import BulkWriteError

from mongomem.checkpoint.caches import ThreadState
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint, StoredWrite
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    checkpoint_doc_id,
    chunk_name,
    write_doc_id,
)
from mongomem.checkpoint.documents.config import identifier
from mongomem.checkpoint.documents.identity import Member, identity, member
from mongomem.checkpoint.plans.load import (
    MissingChunkError,
    Placed,
    fetch,
    load,
    read_records,
    read_writes,
    retry_if_chunk_missing,
    revive_body,
)
from mongomem.checkpoint.plans.prune import referenced_chunk_ids
from mongomem.checkpoint.plans.setup import ensure_setup
from mongomem.checkpoint.plans.thread_state import (
    MAX_ATTEMPTS,
    ThreadUse,
    backoff,
    chunk_writes,
    contention_error,
    ensure_thread,
    known_thread,
    read_members,
    thread_document,
    thread_write,
)
from mongomem.checkpoint.serde.serializer import CONTENT_FIELDS, ValueSerializer
from mongomem.engine.commands import BulkWrite, Document, Find, Replace, Update, Write
from mongomem.engine.effects import Compute
from mongomem.engine.upserts import is_duplicate_key_only
from mongomem.errors import InvalidInputError

PAGE = 1000
"""How many documents are read and written at a time."""


@dataclass(frozen=True, slots=True)
class Original:
    """A thread as it was when it was read: its document, and what of its checkpoints and writes
    lives.
    """

    thread: Document
    checkpoints: list[tuple[Document, StoredCheckpoint]]
    writes: list[tuple[Document, StoredWrite]]

    def size(self) -> int:
        """Return how many bytes stand in its documents."""
        values = [
            value for _, one in self.checkpoints for value in (one.body, *one.channels.values())
        ]
        return sum(len(value.ends) for value in [*values, *(one.value for _, one in self.writes)])


Copies: TypeAlias = tuple[list[Document], list[Document]]
"""The documents of checkpoints and of pending writes, as the target has them."""


async def copy_thread(context: Context, source: object, target: object) -> None:
    """Copy every checkpoint of a thread, with its writes and chunks, into another.

    The copy is of one moment: what is put on the source meanwhile is not in it, or is whole. The
    target is complete only when this returns; repeating it finishes an interrupted one.

    Raises:
        ContentionError: Others changed the threads at the same time, again and again.
    """
    source_id, target_id = (
        identifier("source_thread_id", source),
        identifier("target_thread_id", target),
    )
    if source_id == target_id:
        raise InvalidInputError("source and target are the same thread")
    await ensure_setup(context)
    for attempt in range(MAX_ATTEMPTS):
        original = await _read(context, source_id)
        if original is None:
            return
        thread = await ensure_thread(context, target_id)
        if await _copy(context, original, source_id, target_id, thread):
            context.state.invalidate_thread(target_id)
            return
        context.state.invalidate_thread(target_id)
        await backoff(attempt)
    raise await contention_error(context, target_id)


async def _read(context: Context, thread_id: str) -> Original | None:
    """Read what refers to chunks, before any chunk is: so none that it refers to can come later."""
    document = await thread_document(context, thread_id)
    thread = known_thread(context, document)
    if document is None or thread is None or thread.begins:
        return None
    living = await _living_checkpoints(context, thread_id, thread.epoch)
    there = {
        record.address for _, record in living
    }  # a late write of an ended life would never be cleaned in a copy
    written = await _written(context, thread_id)
    own = [
        pair
        for pair in written
        if pair[1].address in there and pair[1].epoch in (None, thread.epoch)
    ]
    return Original(document, living, own)


async def _living_checkpoints(
    context: Context, thread_id: str, epoch: int
) -> list[tuple[Document, StoredCheckpoint]]:
    """Read the documents of all checkpoints of a life of a thread that have not expired."""
    documents = await Find(
        context.checkpoints, {"type": CHECKPOINT, "thread_id": thread_id, "epoch": epoch}
    )
    records = await read_records(context, documents)
    return [
        pair
        for pair in zip(documents, records, strict=True)
        if context.is_alive(pair[1].touched_at)
    ]


async def _written(context: Context, thread_id: str) -> list[tuple[Document, StoredWrite]]:
    """Read the documents of all pending writes of a thread."""
    documents = await Find(context.writes, {"thread_id": thread_id})
    return list(zip(documents, await read_writes(context, documents), strict=True))


async def _copy(
    context: Context, original: Original, source_id: str, target_id: str, thread: ThreadState
) -> bool:
    """Write a copy; say whether nothing got in the way: no removal of the source, no change of the
    target.
    """
    now = context.now()
    fresh: Document = {"thread_id": target_id, "touched_at": now}
    work = partial(_sealed_anew, context.codec, original, fresh, thread.epoch)
    copies: Copies = await Compute(work, original.size())
    try:
        await retry_if_chunk_missing(
            lambda: _copy_chunks(context, original, source_id, target_id, thread.epoch)
        )
        return await _write_copies(context, original, thread, copies, fresh)
    except MissingChunkError:
        return False
    except BulkWriteError as error:
        if not is_duplicate_key_only(error):
            raise
        return False


async def _write_copies(
    context: Context, original: Original, thread: ThreadState, copies: Copies, fresh: Document
) -> bool:
    """Write pending writes, then the thread, last its checkpoints; say whether the target was still
    there.
    """
    checkpoints, writes = copies
    await _write(context.writes, [_write_in_place(one, thread) for one in writes])
    use = await _thread_use(context, original, thread, fresh["touched_at"])
    reply = await BulkWrite(
        context.checkpoints, [thread_write(context, fresh["thread_id"], thread, use)]
    )
    if reply.upserted_ids:  # the target has gone meanwhile
        return False
    await _write(
        context.checkpoints, [_checkpoint_in_place(one, thread.epoch) for one in checkpoints]
    )
    return True


async def _thread_use(
    context: Context, original: Original, thread: ThreadState, now: datetime
) -> ThreadUse:
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

    Digests are keyed with the secret of the source: where it has some, or does not say everybody,
    its checkpoints do.
    """
    known, clear = read_members(original.thread), context.clear_metadata
    unsaid = [key for key in keys if any(isinstance(one, bytes) for one in known.get(key, [b""]))]
    listed = {key: [one for one in known.get(key, ()) if isinstance(one, str)] for key in keys}
    for metadata in await _metadata_of(context, original) if unsaid else []:
        for key in unsaid:
            listed[key] += [text for text in [identity(metadata.get(key))] if text is not None]
    return {
        key: [
            member(text, thread.name_key, is_clear=clear is None or key in clear)
            for text in dict.fromkeys(texts)
        ]
        for key, texts in listed.items()
    }


async def _metadata_of(context: Context, original: Original) -> list[Any]:
    """Load the metadata of every checkpoint of a source."""
    records = [record for _, record in original.checkpoints]
    bodies = await load(context, [Placed(record.address, record.body) for record in records])
    return [
        revive_body(context, record.address, record.body, body.data).metadata
        for record, body in zip(records, bodies, strict=True)
    ]


async def _copy_chunks(
    context: Context, original: Original, source_id: str, target_id: str, epoch: int
) -> None:
    """Copy the chunks that checkpoints and writes lead to: under the names that they have, sealed
    for the target.

    Raises:
        MissingChunkError: One is gone: the source was removed meanwhile.
        CorruptDataError: One is damaged.
    """
    records, writes = [one for _, one in original.checkpoints], [one for _, one in original.writes]
    owners = await referenced_chunk_ids(context, source_id, records, writes)
    keys = sorted(owners)
    for start in range(0, len(keys), PAGE):
        page = keys[start : start + PAGE]
        found = await fetch(context, {key: owners[key] for key in page})
        pieces = {chunk_name(key): piece for key, piece in found.items()}
        writes_of_page = chunk_writes(context, target_id, pieces, epoch, context.now())
        await BulkWrite(context.checkpoints, writes_of_page, ordered=False)


async def _write(collection: str, writes: Sequence[Write]) -> None:
    """Write what the target has not: where a document is met that it has, that stays."""
    for start in range(0, len(writes), PAGE):
        try:
            await BulkWrite(collection, writes[start : start + PAGE], ordered=False)
        except BulkWriteError as error:
            if not is_duplicate_key_only(error):
                raise


def _checkpoint_in_place(document: Document, epoch: int) -> Write:
    """Return the write of a checkpoint, which takes the place of one of another life alone."""
    return Replace(
        {"_id": document["_id"], "thread_id": document["thread_id"], "epoch": {"$ne": epoch}},
        document,
    )


def _write_in_place(document: Document, thread: ThreadState) -> Write:
    """Return the write of a pending write. In a thread whose life begins what is there is left of
    an ended one.
    """
    place = {field: document[field] for field in ("_id", "thread_id")}
    if thread.begins:
        return Replace(place, document)
    return Update(
        place,
        {"$setOnInsert": {field: document[field] for field in document if field not in place}},
        True,
    )


def _sealed_anew(codec: ValueSerializer, original: Original, fresh: Document, epoch: int) -> Copies:
    """Return checkpoints and pending writes as the target has them: each sealed for its place
    there.
    """
    return (
        [_copied_checkpoint(codec, *pair, fresh, epoch) for pair in original.checkpoints],
        [_copied_write(codec, *pair, fresh, epoch) for pair in original.writes],
    )


def _copied_checkpoint(
    codec: ValueSerializer,
    document: Document,
    record: StoredCheckpoint,
    fresh: Document,
    epoch: int,
) -> Document:
    copied = replace(
        record, address=replace(record.address, thread_id=fresh["thread_id"]), epoch=epoch
    )
    content = b"".join([value.ends for value in (record.body, *record.channels.values())])
    own = {
        "_id": checkpoint_doc_id(copied.address),
        "epoch": epoch,
        "content": codec.seal(content, copied.binding),
    }
    return document | fresh | own


def _copied_write(
    codec: ValueSerializer, document: Document, write: StoredWrite, fresh: Document, epoch: int
) -> Document:
    address, own_epoch = (
        replace(write.address, thread_id=fresh["thread_id"]),
        None if write.epoch is None else epoch,
    )
    copied = replace(write, address=address, epoch=own_epoch)
    kept = {field: value for field, value in document.items() if field not in CONTENT_FIELDS}
    own: Document = {
        "_id": write_doc_id(address, write.task_id, write.idx),
        **codec.seal(write.value.ends, copied.binding),
    }
    return kept | fresh | own | ({} if own_epoch is None else {"epoch": own_epoch})
