"""User: one user of both memories. It knows where things of the user are, and does nothing that
saver and store do not do.

What is stored where, below the user's `namespace`:

    (*namespace, "memories")   what `remember` stores and `recall` searches
    (*namespace, "profile")    one item with the key ``profile``, which is not embedded
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.store.base import NOT_PROVIDED, Item, SearchItem

from mongomem.arguments import checked_mapping, checked_text, shown
from mongomem.checkpoint.documents.config import given_thread
from mongomem.checkpoint.documents.identity import identity
from mongomem.checkpoint.documents.thread_list import Thread
from mongomem.checkpoint.saver import MongoSaver
from mongomem.engine.commands import Plan
from mongomem.engine.runners import begins_at_call
from mongomem.errors import ConfigurationError, InvalidInputError
from mongomem.store.documents.ops import checked_key
from mongomem.store.plans.merge import merge_item
from mongomem.store.plans.read import items_after
from mongomem.store.store import MongoStore
from mongomem.transfer.users import Whose, export_json
from mongomem.user_data import Erased, check_decided, erase_user, threads_of
from mongomem.user_export import AsyncUserExport, UserExport

T = TypeVar("T")

MEMORIES, PROFILE = "memories", "profile"
"""The last labels of the namespaces of a user, and the key of the profile."""

PAGE_SIZE = 100
"""How many items are read at a time while everything of a user is gathered."""


class User:
    """One user: their threads, their memories, their profile. Made by ``MongoMemory.user(id)``.

    Args:
        saver: Where the threads are.
        store: Where the memories are.
        user_key: The metadata key of a thread that names its user.
        user_id: The string that the user is known by.
        namespace: What holds the memories of this user, and of nobody else.

    Attributes:
        id: The user's id, as the string that it is stored as.
        namespace: The namespace of everything that the store has of the user.

    Does no I/O.
    """

    def __init__(
        self,
        saver: MongoSaver,
        store: MongoStore,
        *,
        user_key: str,
        user_id: str,
        namespace: tuple[str, ...],
    ) -> None:
        self.id = user_id
        self.namespace = namespace
        self._saver, self._store, self._user_key = saver, store, user_key
        self._memories = (*namespace, MEMORIES)
        self._profile = (*namespace, PROFILE)

    def __repr__(self) -> str:
        return f"User({self.id!r})"

    def config(self, thread_id: Any = None, **configurable: Any) -> RunnableConfig:
        """Return the config to run a graph with, on a thread of this user.

        Args:
            thread_id: The thread. None: a new one, named by a UUID.
            **configurable: What else the config's ``configurable`` holds.

        Raises:
            InvalidInputError: `thread_id` is no id, or `configurable` names another user.
        """
        thread = str(uuid4()) if thread_id is None else given_thread(thread_id)
        self._check_named("config", configurable)
        return {"configurable": {"thread_id": thread, **configurable, self._user_key: self.id}}

    def threads(
        self,
        *,
        filter: dict[str, Any] | None = None,
        limit: int = 100,
        before: Thread | datetime | None = None,
        count_checkpoints: bool = False,
    ) -> list[Thread]:
        """Return the user's threads, the one updated last first: ``MongoSaver.list_threads``.

        Raises:
            InvalidInputError: `filter` names another user, or an argument is of the wrong kind.
        """
        return self._saver.list_threads(
            filter=self._own(filter),
            limit=limit,
            before=before,
            count_checkpoints=count_checkpoints,
        )

    @begins_at_call
    def athreads(
        self,
        *,
        filter: dict[str, Any] | None = None,
        limit: int = 100,
        before: Thread | datetime | None = None,
        count_checkpoints: bool = False,
    ) -> Coroutine[Any, Any, list[Thread]]:
        """Do what `threads` does."""
        return self._saver.alist_threads(
            filter=self._own(filter),
            limit=limit,
            before=before,
            count_checkpoints=count_checkpoints,
        )

    def _own(self, filter: object) -> dict[str, Any]:
        given = {} if filter is None else checked_mapping("filter", filter)
        self._check_named("filter", given)
        return {**given, self._user_key: self.id}

    def _check_named(self, what: str, given: Mapping[str, Any]) -> None:
        """Refuse what names another user.

        Raises:
            InvalidInputError: It does.
        """
        named = given.get(self._user_key, self.id)
        if identity(named) != identity(self.id):
            raise InvalidInputError(
                f"{self._user_key} of this {what} is {shown(self.id)}, not {shown(named)}: leave "
                f"it out, or take the {what} of that user"
            )

    def remember(self, text: str, *, key: str | None = None, **fields: Any) -> str:
        """Store ``{"text": text, **fields}``; return its key.

        Args:
            text: What to remember.
            key: The name of the memory: one of that name is replaced. None: a new UUID.
            **fields: What else the item holds.
        """
        name = _key(key)
        self._store.put(self._memories, name, _memory(text, fields))
        return name

    @begins_at_call
    def aremember(
        self, text: str, *, key: str | None = None, **fields: Any
    ) -> Coroutine[Any, Any, str]:
        """Do what `remember` does."""
        name = _key(key)
        return _then(self._store.aput(self._memories, name, _memory(text, fields)), name)

    def recall(
        self, query: str | None = None, *, limit: int = 10, filter: dict[str, Any] | None = None
    ) -> list[SearchItem]:
        """Return memories: with a query the closest first, else the newest first.

        Args:
            query: What to search for by meaning. Needs a store with an index.
            limit: How many at most.
            filter: What the item must hold, as ``MongoStore.search`` takes it.

        Raises:
            ConfigurationError: There is a query, and the store has no index.
        """
        self._check_query(query)
        return self._store.search(self._memories, query=query, limit=limit, filter=filter)

    @begins_at_call
    def arecall(
        self, query: str | None = None, *, limit: int = 10, filter: dict[str, Any] | None = None
    ) -> Coroutine[Any, Any, list[SearchItem]]:
        """Do what `recall` does."""
        self._check_query(query)
        return self._store.asearch(self._memories, query=query, limit=limit, filter=filter)

    def _check_query(self, query: object) -> None:
        if query is not None and self._store.index_config is None:
            raise ConfigurationError(
                'a query needs an embedder: MongoMemory(index={"embed": "local", "dims": 256}), '
                "for one; without a query the newest memories are recalled"
            )

    def forget(self, key: str) -> None:
        """Delete a memory, if it is there."""
        self._store.delete(self._memories, checked_key(key))

    @begins_at_call
    def aforget(self, key: str) -> Coroutine[Any, Any, None]:
        """Do what `forget` does."""
        return self._store.adelete(self._memories, checked_key(key))

    def profile(self) -> dict[str, Any]:
        """Return what is known of the user in general; empty before the first `update_profile`."""
        return _value(self._store.get(self._profile, PROFILE))

    async def aprofile(self) -> dict[str, Any]:
        """Do what `profile` does."""
        return _value(await self._store.aget(self._profile, PROFILE))

    def update_profile(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Merge changes into the profile; return it as it was stored.

        A JSON Merge Patch (RFC 7386): objects are merged, None removes a key, anything else
        replaces what was there, lists too. Of changes that are made at the same time none is lost.

        Raises:
            UnstorableValueError: A change cannot be stored; says where in it and why.
            ContentionError: Others changed the profile at the same time, again and again.
        """
        return self._store._runners.run(self._merge(changes))

    @begins_at_call
    def aupdate_profile(self, changes: Mapping[str, Any]) -> Coroutine[Any, Any, dict[str, Any]]:
        """Do what `update_profile` does."""
        return self._store._runners.arun(self._merge(changes))

    def _merge(self, changes: Mapping[str, Any]) -> Plan[dict[str, Any]]:
        ttl = self._store._ttl(NOT_PROVIDED)
        plan = merge_item(self._store._context(), self._profile, PROFILE, changes, ttl)
        return self._store._observed("update_profile", plan, namespace=self._profile)

    def erase(self) -> Erased:
        """Delete every thread and every memory of the user: ``MongoMemory.erase_user``."""
        return self._saver._runners.run(self._erasing())

    @begins_at_call
    def aerase(self) -> Coroutine[Any, Any, Erased]:
        """Do what `erase` does."""
        return self._saver._runners.arun(self._erasing())

    def _erasing(self) -> Plan[Erased]:
        one = self._whose()
        plan = erase_user(one.saver, one.store, one.user_key, one.user_id, one.namespace)
        return self._saver._observed("erase_user", plan, namespace=one.namespace)

    def export(self) -> UserExport:
        """Return everything of the user, to be streamed or as JSON: ``MongoMemory.export_user``."""
        run = self._saver._runners.run
        return UserExport(self._stream(), lambda: run(self._exporting()))

    def aexport(self) -> AsyncUserExport:
        """Do what `export` does."""
        run = self._saver._runners.arun
        return AsyncUserExport(self._astream(), lambda: run(self._exporting()))

    def _exporting(self) -> Plan[str]:
        plan = export_json(self._whose())
        return self._saver._observed("export_user", plan, namespace=self.namespace)

    def _whose(self) -> Whose:
        saver, store = self._saver._context(), self._store._context()
        return Whose(saver, store, self._user_key, self.id, self.namespace)

    def _stream(self) -> Iterator[CheckpointTuple | Item]:
        run, saver = self._saver._runners.run, self._saver
        threads = run(threads_of(saver._context(), self._user_key, self.id))
        for thread_id in threads.found:
            yield from saver.list({"configurable": {"thread_id": thread_id}})
        after: str | None = None
        while page := run(items_after(self._store._context(), self.namespace, after, PAGE_SIZE)):
            yield from (placed.item for placed in page if placed.item is not None)
            after = page[-1].id
        check_decided(threads.undecided)

    async def _astream(self) -> AsyncIterator[CheckpointTuple | Item]:
        run, saver = self._saver._runners.arun, self._saver
        threads = await run(threads_of(saver._context(), self._user_key, self.id))
        for thread_id in threads.found:
            async for one in saver.alist({"configurable": {"thread_id": thread_id}}):
                yield one
        after: str | None = None
        while page := await run(
            items_after(self._store._context(), self.namespace, after, PAGE_SIZE)
        ):
            for placed in page:
                if placed.item is not None:
                    yield placed.item
            after = page[-1].id
        check_decided(threads.undecided)


def _key(key: object) -> str:
    """Return the key of a memory, a new one for None.

    Raises:
        InvalidInputError: It is none (`checked_key`), or empty.
    """
    name = str(uuid4()) if key is None else checked_key(key)
    if not name:
        raise InvalidInputError("key is empty: leave it out for a new one")
    return name


def _memory(text: object, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": checked_text("text", text), **fields}


async def _then(done: Coroutine[Any, Any, None], result: T) -> T:
    """Wait until something is done; return a result that was known before."""
    await done
    return result


def _value(item: Item | None) -> dict[str, Any]:
    return {} if item is None else item.value
