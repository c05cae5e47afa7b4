"""What a put stands on: its thread and its parent, from the caches or by one look at the server."""

from __future__ import annotations

from dataclasses import dataclass

from mongomem.checkpoint.addresses import Address
from mongomem.checkpoint.caches import Parent, ThreadState
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import checkpoint_key, thread_key
from mongomem.checkpoint.encoding import NO_PARENT
from mongomem.checkpoint.loading import MissingChunkError, read_records
from mongomem.checkpoint.parents import read_parent
from mongomem.checkpoint.records import Record
from mongomem.checkpoint.threads import known_thread, new_thread, suffices
from mongomem.commands import Find


@dataclass(frozen=True, slots=True)
class Ground:
    """What a put stands on.

    Attributes:
        thread: Its thread.
        exists: Whether the thread document is known to be there.
        parent: What the parent document holds, or nothing where there is none to rely on.
        parent_is_hidden: Whether the parent was removed and is kept for replay only.
    """

    thread: ThreadState
    exists: bool
    parent: Parent
    parent_is_hidden: bool = False


def remembered(context: Context, address: Address) -> Ground | None:
    """Return the ground of a put on `address` from the caches alone, or None where they do not suffice."""
    thread = context.state.threads.get(address.thread_id)
    if thread is None or not suffices(context, thread):
        return None
    if address.checkpoint_id is None:
        return Ground(thread, True, NO_PARENT)
    parent = context.state.parents.get(address)
    if parent is None or parent.generation != thread.generation:
        return None
    return Ground(thread, True, parent)


async def survey(context: Context, address: Address) -> Ground:
    """Read the ground of a put on `address`, in one round trip and one for each level of names above the first."""
    keys = [thread_key(address.thread_id)]
    if address.checkpoint_id is not None:
        keys.append(checkpoint_key(address))
    query = {"_id": {"$in": keys}, "thread_id": address.thread_id}
    found = {document["_id"]: document for document in await Find(context.checkpoints, query)}
    thread_document, parent_document = found.get(keys[0]), found.get(keys[-1]) if keys[1:] else None
    thread = known_thread(context, thread_document) or new_thread(context)
    records = await read_records(context, [parent_document] if parent_document else [])
    if not records or records[0].epoch != thread.epoch:
        return Ground(thread, thread_document is not None, NO_PARENT)
    parent = await _usable_parent(context, records[0], thread)
    return Ground(thread, True, parent, records[0].hidden)


async def _usable_parent(context: Context, record: Record, thread: ThreadState) -> Parent:
    if not context.lives(record.touched_at):
        return NO_PARENT
    try:
        return await read_parent(context, record, thread.generation)
    except MissingChunkError:
        return NO_PARENT
