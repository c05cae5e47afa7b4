"""Plans about everything that both memories know of one user."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mongomem.checkpoint.addresses import identifier
from mongomem.checkpoint.context import Context as SaverContext
from mongomem.checkpoint.documents import THREAD
from mongomem.checkpoint.metadata import LARGEST_INTEGER, contains
from mongomem.checkpoint.reading import newest_metadata
from mongomem.checkpoint.removing import delete_thread
from mongomem.checkpoint.thread_list import Listing, Thread, listing
from mongomem.commands import Find
from mongomem.errors import CorruptDataError, MongomemError
from mongomem.store.context import Context as StoreContext
from mongomem.store.writing import delete_namespace

PAGE = 200
"""How many threads are named at a time."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What is gone of a user.

    Attributes:
        threads: The ids of the threads.
        memories: How many memories.
        undecided: The ids of threads that do not say whose they are, because their metadata cannot be read: they are
            damaged, or encrypted under another key. They are still there.
    """

    threads: list[str]
    memories: int
    undecided: list[str] = field(default_factory=list)


_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
"""Integers as ``str`` writes them, up to a few more than BSON holds."""


def forms_of(user_id: object) -> list[str | int]:
    """Return every form in which metadata may hold a user id: the string, and the integer that it is the string of.

    Metadata keeps the type that the config had, so that one user may stand there as 7 and as "7".
    """
    text = identifier("user_id", user_id)
    number = int(text) if _INTEGER.fullmatch(text) else LARGEST_INTEGER + 1
    return [text, number] if abs(number) <= LARGEST_INTEGER else [text]


async def threads_of(
    context: SaverContext, user_key: str, user_id: object, *, ended: bool = False
) -> tuple[list[Thread], list[str]]:
    """Return every thread of a user, and the ids of those that do not say whose; with `ended` also expired ones.

    Where not all metadata stands readable, every thread is looked at, and those that name no user are asked for the
    truth, one after the other: that takes long, and misses nobody, however their metadata stood once.
    """
    wanted: list[dict[str, Any]] = [{user_key: form} for form in forms_of(user_id)]
    found: dict[str, Thread] = {}
    undecided: list[str] = []
    if context.clear_metadata is None:
        for one in wanted:
            listed = await _all_threads(context, one, ended=ended)
            found |= {thread.thread_id: thread for thread in listed.threads}
            undecided += listed.damaged
        return list(found.values()), undecided
    listed = await _all_threads(context, {}, ended=ended)
    undecided += listed.damaged
    for thread in listed.threads:
        try:
            if await _is_of(context, thread, user_key, wanted):
                found[thread.thread_id] = thread
        except MongomemError:
            undecided.append(thread.thread_id)
    return list(found.values()), undecided


def check_decided(undecided: Sequence[str]) -> None:
    """Say that an answer may lack something.

    Raises:
        CorruptDataError: Some threads do not say whose they are.
    """
    if undecided:
        raise CorruptDataError(f"these threads cannot be read, and so may be of that user too: {list(undecided)}")


async def _all_threads(context: SaverContext, filter: dict[str, Any], *, ended: bool) -> Listing:
    page = await listing(context, filter, PAGE, None, ended=ended)
    found, damaged = list(page.threads), list(page.damaged)
    while len(page.threads) == PAGE:
        page = await listing(context, filter, PAGE, page.threads[-1], ended=ended)
        found, damaged = found + page.threads, damaged + page.damaged
    return Listing(found, damaged)


async def _is_of(context: SaverContext, thread: Thread, user_key: str, wanted: Sequence[dict[str, Any]]) -> bool:
    """Say whether a thread is one of those wanted: by its readable metadata, or by the truth where that has no user."""
    metadata: Mapping[str, Any] | None = thread.metadata
    if user_key not in thread.metadata:
        metadata = await newest_metadata(context, thread.thread_id, user_key)
    return any(contains(metadata, one) for one in wanted)


async def _finish_deletions(context: SaverContext) -> None:
    """Finish what deletions have left: of a thread without checkpoints nothing says any more whose it was."""
    unfinished = {"type": THREAD, "deleted_at": {"$ne": None}, "updated_at": {"$ne": None}}
    for document in await Find(context.checkpoints, unfinished, {"thread_id": 1}):
        await delete_thread(context, document["thread_id"])


async def erase_user(
    saver: SaverContext, store: StoreContext, user_key: str, user_id: object, namespace: tuple[str, ...]
) -> Erased:
    """Delete every thread and every memory of a user, at once and without any grace; then forget all caches."""
    found, undecided = await threads_of(saver, user_key, user_id, ended=True)
    for thread in found:
        await delete_thread(saver, thread.thread_id)
    if saver.clear_metadata is not None:
        await _finish_deletions(saver)
    memories: Any = await delete_namespace(store, namespace)
    saver.state.forget_all()
    return Erased([thread.thread_id for thread in found], int(memories), undecided)
