"""Plans about everything that both memories know of one user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mongomem.checkpoint.addresses import identifier
from mongomem.checkpoint.context import Context as SaverContext
from mongomem.checkpoint.removing import delete_thread
from mongomem.checkpoint.thread_list import Thread, list_threads
from mongomem.store.context import Context as StoreContext
from mongomem.store.writing import delete_namespace

PAGE = 200
"""How many threads are named at a time."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What is gone of a user: the ids of the threads, and the number of memories."""

    threads: list[str]
    memories: int


async def threads_of(context: SaverContext, user_key: str, user_id: str, *, ended: bool = False) -> list[Thread]:
    """Return every thread of a user; with `ended` also those that a deletion has not finished with."""
    wanted = {user_key: identifier("user_id", user_id)}
    found = page = await list_threads(context, wanted, PAGE, None, ended=ended)
    while len(page) == PAGE:
        page = await list_threads(context, wanted, PAGE, page[-1], ended=ended)
        found = found + page
    return found


async def erase_user(
    saver: SaverContext, store: StoreContext, user_key: str, user_id: str, namespace: tuple[str, ...]
) -> Erased:
    """Delete every thread and every memory of a user, at once and without any grace; then forget all caches."""
    threads = [thread.thread_id for thread in await threads_of(saver, user_key, user_id, ended=True)]
    for thread_id in threads:
        await delete_thread(saver, thread_id)
    memories: Any = await delete_namespace(store, namespace)
    saver.state.forget_all()
    return Erased(threads, int(memories))
