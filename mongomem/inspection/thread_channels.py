"""What the channels of one thread hold, and how much of it their checkpoints share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mongomem.checkpoint.documents.checkpoint import StoredCheckpoint
from mongomem.checkpoint.documents.collections import CHECKPOINT, all_chunks_of, chunk_doc_id
from mongomem.checkpoint.documents.config import identifier
from mongomem.checkpoint.plans.load import (
    HashList,
    ValueOf,
    read_checkpoints,
    resolve_hash_lists,
    retry_if_chunk_missing,
)
from mongomem.engine.commands import Aggregate, Document, Find
from mongomem.inspection.context import Context
from mongomem.inspection.history import absent

PAGE = 100

CHECKPOINT_ITSELF = "(checkpoint)"
"""What the body of a checkpoint is called, its versions and its metadata."""


@dataclass(slots=True)
class ChannelUse:
    """What a channel of a thread holds.

    Attributes:
        logical: Bytes of its values, each counted where it is.
        inline: How many of them stand in the checkpoints themselves.
        chunks: The ids of the chunks that its values lead to.
        stored: Bytes of these chunks' documents and the inline ones. A chunk that two channels
            share counts in both.
        values: How many values there are.
    """

    logical: int = 0
    inline: int = 0
    chunks: set[bytes] = field(default_factory=set)
    stored: int = 0
    values: int = 0

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "logical_bytes": self.logical,
            "stored_bytes": self.stored,
            "values": self.values,
            "chunks": len(self.chunks),
        }


async def channel_uses(context: Context, thread_id: object) -> dict[str, ChannelUse]:
    """Add up what the channels of a thread hold, the largest first. Reads all checkpoints of the
    thread, without the chunks of their content.

    Raises:
        ThreadNotFoundError: There is no such thread.
        CorruptDataError: A checkpoint is damaged.
    """
    name = identifier("thread_id", thread_id)
    uses: dict[str, ChannelUse] = {}
    after = ""
    while documents := await _page(context, name, after):
        await retry_if_chunk_missing(partial(_add, context, name, documents, uses))
        after = documents[-1]["checkpoint_id"]
    if not uses:
        raise await absent(context, name, None)
    await _add_stored(context, name, uses)
    return dict(sorted(uses.items(), key=lambda one: (-one[1].stored, one[0])))


async def _add_stored(context: Context, thread_id: str, uses: Mapping[str, ChannelUse]) -> None:
    sizes = await _chunk_sizes(context, thread_id)
    for use in uses.values():
        use.stored = use.inline + sum(sizes.get(one, 0) for one in use.chunks)


async def _page(context: Context, thread_id: str, after: str) -> list[Document]:
    """Read the next checkpoints of a thread, all of the last id whatever their namespaces."""
    query = {"type": CHECKPOINT, "thread_id": thread_id, "checkpoint_id": {"$gt": after}}
    order = [("checkpoint_id", 1)]
    found = await Find(context.saver.checkpoints, query, sort=order, limit=PAGE)
    if len(found) < PAGE:
        return found
    last = found[-1]["checkpoint_id"]
    before = [one for one in found if one["checkpoint_id"] != last]
    if before:
        return before
    return await Find(context.saver.checkpoints, query | {"checkpoint_id": last})


async def _add(
    context: Context, thread_id: str, documents: Iterable[Document], uses: dict[str, ChannelUse]
) -> None:
    """Add what checkpoints hold. What they lead to is read before anything is added."""
    stored = await read_checkpoints(context.saver, list(documents))
    named = [pair for one in stored for pair in _values_of(one)]
    lists = await resolve_hash_lists(context.saver, [value for _, value in named])
    for (name, (_, value)), own in zip(named, lists, strict=True):
        use = uses.setdefault(name, ChannelUse())
        use.values += 1
        use.logical += value.size
        use.inline += len(value.inline)
        use.chunks |= _ids(thread_id, own)


def _values_of(stored: StoredCheckpoint) -> list[tuple[str, ValueOf]]:
    own = {CHECKPOINT_ITSELF: stored.body, **stored.channels}
    return [(name, (stored.ref, value)) for name, value in own.items()]


def _ids(thread_id: str, hashes: HashList) -> set[bytes]:
    return {chunk_doc_id(thread_id, name) for name in hashes.reached}


async def _chunk_sizes(context: Context, thread_id: str) -> Mapping[bytes, int]:
    size: Document = {"$project": {"size": {"$bsonSize": "$$ROOT"}}}
    stages: list[Document] = [{"$match": all_chunks_of(thread_id)}, size]
    return {one["_id"]: one["size"] for one in await Aggregate(context.saver.checkpoints, stages)}
