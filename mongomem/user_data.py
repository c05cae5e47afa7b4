"""Plans about everything that both memories know of one user."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context as SaverContext
from mongomem.checkpoint.documents.collections import THREAD
from mongomem.checkpoint.documents.config import identifier
from mongomem.checkpoint.documents.identity import TOO_MANY, identity, member
from mongomem.checkpoint.documents.thread import opened_name_key, read_members
from mongomem.checkpoint.documents.thread_list import (
    behind_document,
    is_named,
    named_conditions,
    read_listed,
)
from mongomem.checkpoint.plans.delete import delete_thread, remove_tombstones
from mongomem.checkpoint.plans.read import names_in_metadata
from mongomem.checkpoint.plans.threads import thread_page
from mongomem.checkpoint.serde.place_digest import BEGAN
from mongomem.engine.commands import Document, Find
from mongomem.errors import CorruptDataError, InvalidInputError, MongomemError
from mongomem.store.context import Context as StoreContext
from mongomem.store.plans.put import delete_namespace

PAGE_SIZE = 200
"""How many threads are read at a time."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What is gone of a user.

    Attributes:
        threads: The ids of the threads.
        memories: How many memories.
        undecided: The ids of threads that do not say whose they are, because they had too many
            users to name all, or cannot be read: they are damaged, or encrypted under another key.
            They are still there.
    """

    threads: list[str]
    memories: int
    undecided: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class UserThreads:
    """The ids of the threads of a user, and of those that do not say whose they are; in order and
    each once.
    """

    found: dict[str, None] = field(default_factory=dict)
    undecided: dict[str, None] = field(default_factory=dict)


def checked_user(user_id: object) -> str:
    """Return the string that a user is known by.

    Raises:
        InvalidInputError: It identifies nobody.
    """
    text = identity(identifier("user_id", user_id))
    if text is None:
        raise InvalidInputError(f"user_id identifies nobody: {shown(user_id)}")
    return text


async def threads_of(
    context: SaverContext, user_key: str, user_id: object, *, ended: bool = False
) -> UserThreads:
    """Return every thread that a user has had a part in; with `ended` also expired ones.

    Most thread documents say it by an index. Digests are compared thread by thread; and of threads
    that were not always put with `user_key` as an identity key, every checkpoint is asked, which
    takes long and misses nobody.
    """
    text = checked_user(user_id)
    threads = UserThreads()
    members = f"members.{user_key}"
    for conditions in (
        named_conditions(user_key, text),
        [{members: {"$gte": b""}}],
        [{members: {"$exists": False}}],
    ):
        behind: Document = {"updated_at": {"$gt": BEGAN}}
        while page := await thread_page(context, conditions, behind, PAGE_SIZE, ended=ended):
            for document in page:
                await _decide(context, document, user_key, text, threads)
            behind = behind_document(page[-1])
    return threads


def check_decided(undecided: Collection[str]) -> None:
    """Say that an answer may lack something.

    Raises:
        CorruptDataError: Some threads do not say whose they are.
    """
    if undecided:
        raise CorruptDataError(
            "these threads cannot be read, or had too many users to name all, and so may be of "
            f"that user too: {list(undecided)}"
        )


async def _decide(
    context: SaverContext, document: Document, key: str, text: str, threads: UserThreads
) -> None:
    """Sort a thread in: it is of the user, or of others, or does not say."""
    thread_id = str(document.get("thread_id"))
    if thread_id in threads.found:
        return
    try:
        if await _is_of(context, document, key, text):
            threads.found[thread_id] = None
    except MongomemError:
        threads.undecided[thread_id] = None


async def _is_of(context: SaverContext, document: Document, key: str, text: str) -> bool:
    """Decide whether a thread was ever put for a user.

    Raises:
        MongomemError: It cannot be read.
    """
    thread_id = read_listed(document).thread_id
    if is_named(document, key, text):
        return True
    members = read_members(document).get(key)
    if members is not None:
        secret = opened_name_key(document, context.serializer, thread_id)
        if any(member(text, one, is_clear=False) in members for one in (b"", secret)):
            return True
        if TOO_MANY not in members:
            return False
    if await names_in_metadata(context, thread_id, document.get("epoch"), {key: text}):
        return True
    if members is None:
        return False
    raise CorruptDataError(f"thread {shown(thread_id)} names too many for all to be remembered")


async def _finish_deletions(context: SaverContext) -> None:
    """Finish deletions that broke off: of a thread without checkpoints nothing says any more whose
    it was.
    """
    unfinished = {"type": THREAD, "deleted_at": {"$gt": BEGAN}, "updated_at": {"$ne": None}}
    for document in await Find(context.checkpoints, unfinished, {"thread_id": 1}):
        if isinstance(document.get("thread_id"), str):  # else it is damaged, and no thread's
            await delete_thread(context, document["thread_id"])


async def erase_user(
    saver: SaverContext,
    store: StoreContext,
    user_key: str,
    user_id: object,
    namespace: tuple[str, ...],
) -> Erased:
    """Delete every thread and every memory of a user at once, and finish deletions that broke off;
    forget all caches.

    What was under way is not shown, and goes with the tombstones of the threads once their grace is
    over.
    """
    threads = await threads_of(saver, user_key, user_id, ended=True)
    for thread_id in threads.found:
        await delete_thread(saver, thread_id)
    await _finish_deletions(saver)
    await remove_tombstones(saver)
    memories: Any = await delete_namespace(store, namespace)
    saver.caches.forget_all()
    return Erased(list(threads.found), int(memories), list(threads.undecided))
