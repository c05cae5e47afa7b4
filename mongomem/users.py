"""Plans about everything that both memories know of one user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mongomem.checkpoint.addresses import identifier
from mongomem.checkpoint.context import Context as SaverContext
from mongomem.checkpoint.metadata import LARGEST_INTEGER, contains
from mongomem.checkpoint.reading import has_metadata
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


_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
"""Integers as ``str`` writes them, up to a few more than BSON holds."""


def forms_of(user_id: object) -> list[str | int]:
    """Return every form in which metadata may hold a user id: the string, and the integer that it is the string of.

    Metadata keeps the type that the config had, so that one user may stand there as 7 and as "7".
    """
    text = identifier("user_id", user_id)
    number = int(text) if _INTEGER.fullmatch(text) else LARGEST_INTEGER + 1
    return [text, number] if abs(number) <= LARGEST_INTEGER else [text]


async def threads_of(context: SaverContext, user_key: str, user_id: object, *, ended: bool = False) -> list[Thread]:
    """Return every thread of a user; with `ended` also those that a deletion has not finished with.

    Where not all metadata stands readable, every thread is looked at, and those that name no user are asked for the
    truth, one after the other: that takes long, and misses nobody, however their metadata stood once.
    """
    wanted: list[dict[str, Any]] = [{user_key: form} for form in forms_of(user_id)]
    found: dict[str, Thread] = {}
    if context.clear_metadata is None:
        for one in wanted:
            found |= {thread.thread_id: thread for thread in await _all_threads(context, one, ended=ended)}
        return list(found.values())
    threads = await _all_threads(context, {}, ended=ended)
    return [thread for thread in threads if await _is_of(context, thread, user_key, wanted)]


async def _all_threads(context: SaverContext, filter: dict[str, Any], *, ended: bool) -> list[Thread]:
    found = page = await list_threads(context, filter, PAGE, None, ended=ended)
    while len(page) == PAGE:
        page = await list_threads(context, filter, PAGE, page[-1], ended=ended)
        found = found + page
    return found


async def _is_of(context: SaverContext, thread: Thread, user_key: str, wanted: Sequence[dict[str, Any]]) -> bool:
    """Say whether a thread is one of those wanted: by its readable metadata, or by the truth where that has no user."""
    if user_key in thread.metadata:
        return any(contains(thread.metadata, one) for one in wanted)
    for one in wanted:
        if await has_metadata(context, thread.thread_id, one):
            return True
    return False


async def erase_user(
    saver: SaverContext, store: StoreContext, user_key: str, user_id: object, namespace: tuple[str, ...]
) -> Erased:
    """Delete every thread and every memory of a user, at once and without any grace; then forget all caches."""
    threads = [thread.thread_id for thread in await threads_of(saver, user_key, user_id, ended=True)]
    for thread_id in threads:
        await delete_thread(saver, thread_id)
    memories: Any = await delete_namespace(store, namespace)
    saver.state.forget_all()
    return Erased(threads, int(memories))
