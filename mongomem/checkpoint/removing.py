"""Plans that remove. What makes data visible goes first, and every removal can be repeated to finish its job."""

from __future__ import annotations

from mongomem.checkpoint.addresses import identifier
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import CHECKPOINT, CHUNK, THREAD, new_stamp, thread_key
from mongomem.commands import DeleteMany, UpdateMany


async def delete_thread(context: Context, thread_id: str) -> None:
    """Remove every checkpoint, write and chunk of a thread, and leave a tombstone.

    From its first command on no put can rely on what is there: the thread has a new epoch. A put that
    is under way finds another generation and begins a new life of the thread, whose documents carry
    the new epoch and stay.
    """
    thread_id = identifier("thread_id", thread_id)
    epoch, now = new_stamp(), context.now()
    tombstone = {"deleted_at": now, "touched_at": now, "epoch": epoch, "generation": new_stamp()}
    thread = {"_id": thread_key(thread_id), "thread_id": thread_id, "type": THREAD}
    context.state.forget_thread(thread_id)
    await UpdateMany(context.checkpoints, thread, {"$set": tombstone, "$unset": {"metadata": "", "updated_at": ""}})
    ended = {"thread_id": thread_id, "epoch": {"$ne": epoch}}
    await DeleteMany(context.checkpoints, {"type": CHECKPOINT, **ended})
    await DeleteMany(context.writes, {"thread_id": thread_id})
    await DeleteMany(context.checkpoints, {"type": CHUNK, **ended})
    context.state.forget_thread(thread_id)
