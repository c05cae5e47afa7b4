"""The plan that copies a thread: what refers is read before what it refers to, written after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias

from pymongo.errors import BulkWriteError

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import (
    StoredCheckpoint,
    StoredWrite,
    encode_checkpoint,
    encode_write,
)
from mongomem.checkpoint.documents.collections import CHECKPOINT, chunk_hash
from mongomem.checkpoint.documents.config import CheckpointRef, identifier
from mongomem.checkpoint.documents.identity import Member, Members, identity, member
from mongomem.checkpoint.documents.thread import ThreadState, ThreadUse, encode_thread, read_members
from mongomem.checkpoint.plans.load import (
    MissingChunkError,
    fetch,
    load_bodies,
    read_checkpoints,
    read_writes,
    retry_if_chunk_missing,
)
from mongomem.checkpoint.plans.prune import referenced_chunk_ids
from mongomem.checkpoint.plans.setup import ensure_setup
from mongomem.checkpoint.plans.thread_state import (
    MAX_ATTEMPTS,
    backoff,
    chunk_writes,
    contention_error,
    ensure_thread,
    read_state,
    thread_document,
)
from mongomem.checkpoint.serde.serializer import ValueSerializer
from mongomem.engine.commands import (
    BulkWrite,
    Document,
    Find,
    Replace,
    Update,
    Write,
    slices,
)
from mongomem.engine.effects import Compute
from mongomem.engine.writes import is_duplicate_key_only
from mongomem.errors import InvalidInputError

PAGE_SIZE = 1000
"""How many documents are read and written at a time."""

READABLE = ("metadata", "metadata_omitted")
"""The fields of a checkpoint document that hold the readable copy of its metadata."""


@dataclass(frozen=True, slots=True)
class ThreadContent:
    """A thread as it was when it was read.

    Attributes:
        thread: Its document.
        checkpoints: Those of its life that have not expired.
        readable: The fields with the readable copy of the metadata of each, by its ref.
        writes: The pending writes of these checkpoints.
    """

    thread: Document
    checkpoints: list[StoredCheckpoint]
    readable: Mapping[CheckpointRef, Document]
    writes: list[StoredWrite]

    def size(self) -> int:
        """Return how many inline bytes its documents hold."""
        values = [value for one in self.checkpoints for value in (one.body, *one.channels.values())]
        return sum(len(value.inline) for value in [*values, *(one.value for one in self.writes)])

    def in_thread(self, thread_id: str, epoch: int, now: datetime) -> ThreadContent:
        """Return the same checkpoints and writes as they are in another thread."""
        return replace(
            self,
            checkpoints=[
                replace(one, ref=_moved(one.ref, thread_id), epoch=epoch, touched_at=now)
                for one in self.checkpoints
            ],
            readable={_moved(ref, thread_id): one for ref, one in self.readable.items()},
            writes=[
                replace(
                    one,
                    ref=_moved(one.ref, thread_id),
                    epoch=None if one.epoch is None else epoch,
                    touched_at=now,
                )
                for one in self.writes
            ],
        )


def _moved(ref: CheckpointRef, thread_id: str) -> CheckpointRef:
    return replace(ref, thread_id=thread_id)


Documents: TypeAlias = tuple[list[Document], list[Document]]
"""The documents of checkpoints and of pending writes, as the target has them."""


async def copy_thread(context: Context, source: object, target: object) -> None:
    """Copy every checkpoint of a thread, with its writes and chunks, into another.

    The copy is of one moment: what is put on the source meanwhile is not in it, or is whole. The
    target is complete only when this returns; repeating it finishes an interrupted one.

    Raises:
        ContentionError: Others changed the threads at the same time, again and again.
    """
    source_id, target_id = _two_threads(source, target)
    await ensure_setup(context)
    for attempt in range(MAX_ATTEMPTS):
        content = await _read(context, source_id)
        if content is None:
            return
        thread = await ensure_thread(context, target_id)
        is_whole = await _copy(context, content, source_id, target_id, thread)
        context.caches.invalidate_thread(target_id)
        if is_whole:
            return
        await backoff(attempt)
    raise await contention_error(context, target_id)


def _two_threads(source: object, target: object) -> tuple[str, str]:
    source_id = identifier("source_thread_id", source)
    target_id = identifier("target_thread_id", target)
    if source_id == target_id:
        raise InvalidInputError("source and target are the same thread")
    return source_id, target_id


async def _read(context: Context, thread_id: str) -> ThreadContent | None:
    """Read what refers to chunks, before any chunk is: so none that it refers to can come later."""
    document = await thread_document(context, thread_id)
    thread = read_state(context, document)
    if document is None or thread is None or thread.begins:
        return None
    own = {"type": CHECKPOINT, "thread_id": thread_id, "epoch": thread.epoch}
    documents = await Find(context.checkpoints, own)
    stored = await read_checkpoints(context, documents)
    copies = dict(zip([one.ref for one in stored], map(_readable, documents), strict=True))
    living = [one for one in stored if context.is_alive(one.touched_at)]
    writes = await _pending_writes(context, thread_id, thread.epoch, living)
    return ThreadContent(document, living, copies, writes)


async def _pending_writes(
    context: Context, thread_id: str, epoch: int, checkpoints: Sequence[StoredCheckpoint]
) -> list[StoredWrite]:
    """Read the pending writes that a copy of these checkpoints has.

    A late write of an ended life is not among them: in a copy it would never be cleaned.
    """
    refs = {one.ref for one in checkpoints}
    found = await read_writes(context, await Find(context.writes, {"thread_id": thread_id}))
    return [one for one in found if one.epoch in (None, epoch) and one.ref in refs]


def _readable(document: Document) -> Document:
    """Return the fields of a checkpoint document that hold the readable copy of its metadata."""
    return {field: document[field] for field in READABLE if field in document}


async def _copy(
    context: Context, source: ThreadContent, source_id: str, target_id: str, thread: ThreadState
) -> bool:
    """Write a copy; say whether nothing got in the way: no removal of the source, no change of the
    target.
    """
    now = context.now()
    copied = source.in_thread(target_id, thread.epoch, now)
    work = partial(_encode_all, copied, context.serializer)
    documents: Documents = await Compute(work, source.size())
    try:
        await retry_if_chunk_missing(
            lambda: _copy_chunks(context, source, source_id, target_id, thread.epoch)
        )
        use = await _thread_use(context, source, thread, now)
        upsert = encode_thread(target_id, thread, use, context.serializer, now)
        return await _write_copies(context, documents, thread, upsert)
    except MissingChunkError:
        return False
    except BulkWriteError as error:
        if not is_duplicate_key_only(error):
            raise
        return False


def _encode_all(copied: ThreadContent, serializer: ValueSerializer) -> Documents:
    """Return the documents of checkpoints and pending writes, each sealed for its place."""
    return (
        [
            encode_checkpoint(one, copied.readable[one.ref], serializer)
            for one in copied.checkpoints
        ],
        [encode_write(one, serializer) for one in copied.writes],
    )


async def _write_copies(
    context: Context, documents: Documents, thread: ThreadState, upsert: Update
) -> bool:
    """Write pending writes, then the thread, last its checkpoints; say whether the target was still
    there.
    """
    checkpoints, writes = documents
    await _write(context.writes, [_write_in_place(one, thread) for one in writes])
    reply = await BulkWrite(context.checkpoints, [upsert])
    if reply.upserted_ids:  # the target has gone meanwhile
        return False
    in_place = [_checkpoint_in_place(one, thread.epoch) for one in checkpoints]
    await _write(context.checkpoints, in_place)
    return True


async def _thread_use(
    context: Context, source: ThreadContent, thread: ThreadState, now: datetime
) -> ThreadUse:
    """Return what a copy says of its thread: what the source shows, and everybody that it is of."""
    shown = source.thread
    # Labels that the target was given stay; one that begins takes those of the source.
    fields = ("last_metadata", "preview", *(["labels"] if thread.begins else []))
    last: Document = {"updated_at": now} | {name: shown[name] for name in fields if name in shown}
    keys = context.options.metadata_keys if thread.begins else tuple(thread.members)
    lasting = shown.get("metadata", {}) | shown.get("identity", {})
    return ThreadUse(last, lasting, await _members(context, source, thread, keys))


async def _members(
    context: Context, source: ThreadContent, thread: ThreadState, keys: Sequence[str]
) -> dict[str, list[Member]]:
    """Return whom a source is of, as the target names them.

    Digests are keyed with the secret of the source: where it has some, or does not say everybody,
    its checkpoints do.
    """
    listed, unsaid = _named_in_clear(read_members(source.thread), keys)
    for _, metadata in await load_bodies(context, source.checkpoints) if unsaid else []:
        for key in unsaid:
            text = identity(metadata.get(key))
            listed[key] += [] if text is None else [text]
    clear = context.clear_metadata
    return {
        key: [
            member(text, thread.name_key, is_clear=clear is None or key in clear)
            for text in dict.fromkeys(texts)
        ]
        for key, texts in listed.items()
    }


def _named_in_clear(
    members: Members, keys: Sequence[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """Return whom members name readably, by key, and the keys under which they do not name all."""
    listed = {key: [one for one in members.get(key, ()) if isinstance(one, str)] for key in keys}
    unsaid = [key for key in keys if len(listed[key]) < len(members.get(key, [b""]))]
    return listed, unsaid


async def _copy_chunks(
    context: Context, source: ThreadContent, source_id: str, target_id: str, epoch: int
) -> None:
    """Copy the chunks that checkpoints and writes lead to: under the names that they have, sealed
    for the target.

    Raises:
        MissingChunkError: One is gone: the source was removed meanwhile.
        CorruptDataError: One is damaged.
    """
    owners = await referenced_chunk_ids(context, source_id, source.checkpoints, source.writes)
    keys = sorted(owners)
    for page in slices(keys, PAGE_SIZE):
        found = await fetch(context, {key: owners[key] for key in page})
        pieces = {chunk_hash(key): piece for key, piece in found.items()}
        writes_of_page = chunk_writes(context, target_id, pieces, epoch)
        await BulkWrite(context.checkpoints, writes_of_page, ordered=False)


async def _write(collection: str, writes: Sequence[Write]) -> None:
    """Write what the target has not: where a document is met that it has, that stays."""
    for page in slices(writes, PAGE_SIZE):
        try:
            await BulkWrite(collection, page, ordered=False)
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
