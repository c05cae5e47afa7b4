"""MongoMemory: both memories and the cache on one client and one database, and what only both
memories together can do.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.store.base import NOT_PROVIDED, IndexConfig, NotProvided, TTLConfig
from pymongo import AsyncMongoClient

from mongomem.arguments import shown, shown_parts
from mongomem.cache.cache import MongoCache
from mongomem.checkpoint.context import checked_keys
from mongomem.checkpoint.documents.config import Identifier, identifier
from mongomem.checkpoint.retention.policy import Retention
from mongomem.checkpoint.saver import MongoSaver
from mongomem.engine.client_context import ClientContext
from mongomem.engine.commands import Plan
from mongomem.engine.runners import begins_at_call
from mongomem.errors import ConfigurationError, InvalidInputError, MongomemError, UsageError
from mongomem.options import checked_options
from mongomem.schema.names import DEFAULT_PREFIX
from mongomem.store.documents.ops import check_namespace
from mongomem.store.store import MongoStore
from mongomem.transfer.users import Imported, Whose, import_json
from mongomem.user import User
from mongomem.user_data import Erased, checked_user
from mongomem.user_export import AsyncUserExport, UserExport
from mongomem.user_labels import user_namespace

if TYPE_CHECKING:  # a name for annotations alone
    from typing_extensions import Self

HELD_OPTIONS: Mapping[str, Callable[..., Any]] = {
    "saver_options": MongoSaver,
    "store_options": MongoStore,
    "cache_options": MongoCache,
}
"""The options of a memory that hold options of what it is made of."""

SHARED_OPTIONS = frozenset({"db_name", "collection_prefix", "auto_setup", "slow_ms"})
"""What saver, store and cache have in common: an option of the memory, so that it is of all."""


def _held(name: str, given: object, **own: Any) -> dict[str, Any]:
    """Return the options of a saver, a store or a cache: those of the memory, and those that are
    given by themselves.
    """
    return {**own, **checked_options(name, given, HELD_OPTIONS[name], SHARED_OPTIONS)}


def _checked_namespace_function(
    given: Callable[[str], tuple[str, ...]],
) -> Callable[[str], tuple[str, ...]]:
    if not callable(given):
        raise ConfigurationError(
            f"user_namespace must be a function of a user id, not {shown(given)}"
        )
    return given


class MongoMemory:
    """A saver, a store and a cache on one client and one database.

    A graph takes them by ``compile(checkpointer=memory.saver, store=memory.store,
    cache=memory.cache)``.

    The cache holds results of nodes by their input, and not by user: erasing and exporting a user
    leave it as it is. ``memory.cache.clear()`` removes what it holds.

    Args:
        client: A ``MongoClient``, an ``AsyncMongoClient`` or a ``mongomock.MongoClient``. The
            caller owns it.
        db_name: The database. None: the one that the client's connection string names, else
            ``mongomem``.
        index: How the store embeds items for ``search(query=...)``: LangGraph's ``IndexConfig``.
        serde: Serializer of the threads' state and of the cache; an ``EncryptedSerializer``
            encrypts these and nothing of the store.
        ttl: Life of unused items, as LangGraph's ``TTLConfig``.
        thread_ttl: Life of unused threads, in minutes or as a ``timedelta``; None for ever, not
            given as the collections have it.
        collection_prefix: Put before the names of all collections.
        auto_setup: Create the indexes before the first write.
        user_key: The metadata key of a thread that names its user: run graphs with
            ``{"configurable": {"thread_id": ..., "user_id": ...}}``.
        user_namespace: The namespace that holds the memories of a user, and of nobody else:
            `mongomem.user_namespace` unless another function is given.
        saver_options: Further options of `MongoSaver`.
        store_options: Further options of `MongoStore`.
        cache_options: Further options of `MongoCache`.
        slow_ms: From how many milliseconds on a call is told by the logger ``mongomem``, in one
            line; None for none. Spans of OpenTelemetry need no option
            (docs/how-to/observe.md).
        retention: What is kept of threads, see `MongoSaver`; None: all.

    Does no I/O.
    """

    def __init__(
        self,
        client: Any,
        db_name: str | None = None,
        *,
        index: IndexConfig | None = None,
        serde: SerializerProtocol | None = None,
        ttl: TTLConfig | None = None,
        thread_ttl: float | timedelta | NotProvided | None = NOT_PROVIDED,
        collection_prefix: str = DEFAULT_PREFIX,
        auto_setup: bool = True,
        user_key: str = "user_id",
        user_namespace: Callable[[str], tuple[str, ...]] = user_namespace,
        saver_options: Mapping[str, Any] | None = None,
        store_options: Mapping[str, Any] | None = None,
        cache_options: Mapping[str, Any] | None = None,
        slow_ms: float | None = None,
        retention: Retention | None = None,
    ) -> None:
        self._client = client
        self._owns_client = False
        (self._user_key,) = checked_keys("user_key", (user_key,))
        self._user_namespace = _checked_namespace_function(user_namespace)
        shared: dict[str, Any] = {
            "collection_prefix": collection_prefix,
            "auto_setup": auto_setup,
            "slow_ms": slow_ms,
        }
        own_saver = _held(
            "saver_options", saver_options, serde=serde, ttl=thread_ttl, retention=retention
        )
        others = checked_keys("metadata_indexes", own_saver.get("metadata_indexes", ()))
        own_saver["metadata_indexes"] = (user_key, *others)
        own_store = _held("store_options", store_options, index=index, ttl=ttl)
        own_cache = _held("cache_options", cache_options, serde=own_saver["serde"])
        self.saver = MongoSaver(client, db_name, **shared, **own_saver)
        self.store = MongoStore(client, db_name, **shared, **own_store)
        self.cache: MongoCache[Any] = MongoCache(client, db_name, **shared, **own_cache)
        self._runners = self.saver._runners

    def __repr__(self) -> str:
        return shown_parts(self, **{**self.store._told(), **self.saver._told()})

    @classmethod
    def from_conn_string(
        cls,
        uri: str,
        *,
        db_name: str | None = None,
        open_timeout: float | NotProvided | None = NOT_PROVIDED,
        **options: Any,
    ) -> ClientContext[MongoMemory]:
        """Return something to enter, with ``with`` or ``async with``, that yields a memory and owns
        its client.

        Args:
            uri: The connection string.
            db_name: The database. None: the one that the connection string names, else
                ``mongomem``.
            open_timeout: How long entering waits for an answer of the servers, in seconds. None:
                does not ask. Not given: as long as ``timeoutMS`` or ``serverSelectionTimeoutMS``
                says, in the connection string or as an option of the client, else 5 s.
            **options: Those of `MongoMemory`; any other reaches the client.
        """
        return ClientContext.of(
            cls, uri, open_timeout, {"db_name": db_name, **options}, HELD_OPTIONS
        )

    @classmethod
    def connect(
        cls,
        uri: str,
        *,
        db_name: str | None = None,
        open_timeout: float | NotProvided | None = NOT_PROVIDED,
        **options: Any,
    ) -> MongoMemory:
        """Return a memory that owns a ``MongoClient``, where no ``with`` spans notebook cells. End
        with `close`.

        Options are those of `from_conn_string`.
        """
        memory = cls.from_conn_string(
            uri, db_name=db_name, open_timeout=open_timeout, **options
        ).__enter__()
        memory._owns_client = True
        return memory

    @classmethod
    async def aconnect(
        cls,
        uri: str,
        *,
        db_name: str | None = None,
        open_timeout: float | NotProvided | None = NOT_PROVIDED,
        **options: Any,
    ) -> MongoMemory:
        """Return a memory that owns an ``AsyncMongoClient``. End with `aclose`."""
        memory = await cls.from_conn_string(
            uri, db_name=db_name, open_timeout=open_timeout, **options
        ).__aenter__()
        memory._owns_client = True
        return memory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Stop the retention, and close the ``MongoClient`` that `connect` opened. A client that
        was passed in stays open, of whichever kind: its owner closes it.

        Raises:
            UsageError: `aconnect` opened the client.
        """
        if self._owns_client and isinstance(self._client, AsyncMongoClient):
            raise UsageError(
                "close() was called, but the client is an AsyncMongoClient: write `await "
                "memory.aclose()`."
            )
        self.saver.close()
        if self._owns_client:
            self._client.close()

    async def aclose(self) -> None:
        """Stop the retention, and close the ``AsyncMongoClient`` that `aconnect` opened. A client
        that was passed in stays open, of whichever kind.

        Raises:
            UsageError: `connect` opened the client.
        """
        if self._owns_client and not isinstance(self._client, AsyncMongoClient):
            raise UsageError(
                "aclose() was called, but the client is a MongoClient: write `memory.close()`."
            )
        await self.saver.aclose()
        if self._owns_client:
            await self._client.close()

    def setup(self) -> None:
        """Prepare the collections of saver, store and cache. Idempotent."""
        self.saver.setup()
        self.store.setup()
        self.cache.setup()

    async def asetup(self) -> None:
        """Do what `setup` does."""
        await self.saver.asetup()
        await self.store.asetup()
        await self.cache.asetup()

    def user(self, user_id: Identifier) -> User:
        """Return one user of both memories: config, threads, memories and profile.

        An id that is an int, a UUID, an ObjectId or an enum is one with its string. Does no I/O.

        Raises:
            InvalidInputError: It is no user id, or has no namespace.
        """
        user, namespace = self._namespace_of(user_id)
        return User(
            self.saver, self.store, user_key=self._user_key, user_id=user, namespace=namespace
        )

    def erase_user(self, user_id: Identifier) -> Erased:
        """Delete every thread and every memory of a user, at once. Can be repeated.

        Threads are those that were ever put for the user, also where others had a part in them: run
        graphs with ``{"configurable": {"user_id": ...}}``. An id that is an int, a UUID, an
        ObjectId or an enum is one with its string. What was being put meanwhile is not shown, and
        is removed once the `grace` of the saver is over. The cache is left as it is.
        """
        return self.user(user_id).erase()

    @begins_at_call
    def aerase_user(self, user_id: Identifier) -> Coroutine[Any, Any, Erased]:
        """Do what `erase_user` does."""
        return self.user(user_id).aerase()

    def export_user(self, user_id: Identifier) -> UserExport:
        """Return everything of a user: to be streamed, the checkpoints of every thread, newest
        first, then the memories; or as JSON by ``to_json()``.

        Whose they are is decided as by `erase_user`.

        Raises:
            CorruptDataError: At the end of the stream, where threads do not say whose they are.
        """
        return self.user(user_id).export()

    def aexport_user(self, user_id: Identifier) -> AsyncUserExport:
        """Do what `export_user` does."""
        return self.user(user_id).aexport()

    def import_user(self, data: str | bytes | Mapping[str, Any]) -> Imported:
        """Store what ``export_user(user_id).to_json()`` returned: threads and memories of a user.

        Everything is checked before the first write, and every value is read by the serializer of
        the saver: of types that it does not revive none is imported. A thread of this user that is
        there takes the checkpoints in. Memories and labels that are newer than the document stay,
        and threads without checkpoints are left out. Repeating the call finishes what was cut
        short.

        Raises:
            InvalidInputError: Something cannot be imported, or a thread of that id is another
                user's; names it. Nothing was written.
        """
        return self._runners.run(self._importing(data))

    @begins_at_call
    def aimport_user(self, data: str | bytes | Mapping[str, Any]) -> Coroutine[Any, Any, Imported]:
        """Do what `import_user` does."""
        return self._runners.arun(self._importing(data))

    def _importing(self, data: Any) -> Plan[Imported]:
        return self.saver._observed("import_user", import_json(data, self._whose))

    def _whose(self, user_id: Identifier) -> Whose:
        return self.user(user_id)._whose()

    def _namespace_of(self, user_id: Identifier) -> tuple[str, tuple[str, ...]]:
        """Return the string that a user is known by, and the namespace of their memories.

        Raises:
            InvalidInputError: None can be: LangGraph's labels are not empty and hold no period.
        """
        user = identifier("user_id", user_id)
        checked_user(user)
        namespace = self._called_with(user)
        _check_namespace_of(user, namespace)
        self._check_own(user, namespace)
        return user, tuple(namespace)

    def _called_with(self, user: str) -> Any:
        """Call the function of the application that tells the namespace of a user."""
        try:
            return self._user_namespace(user)
        except MongomemError:
            raise
        except Exception as error:
            raise InvalidInputError(
                f"user_namespace failed for user {shown(user)}: {shown(error)}"
            ) from error

    def _check_own(self, user: str, namespace: object) -> None:
        """Refuse a namespace that another user has too.

        Raises:
            ConfigurationError: It is the same for somebody whose id is longer by one character.
        """
        other: object = None
        with suppress(Exception):  # a function that looks users up knows nobody of that name
            other = self._user_namespace(f"{user}x")
        if other == namespace:
            raise ConfigurationError(
                f"user_namespace gives {shown(namespace)} for every user: the memories of all "
                "would be those of one"
            )


def _check_namespace_of(user: str, namespace: Any) -> None:
    """Refuse what LangGraph takes for no namespace.

    Raises:
        InvalidInputError: It is no tuple of labels.
    """
    try:
        if not isinstance(namespace, tuple | list) or not namespace:
            raise ValueError("a namespace is a tuple with one label at least")
        check_namespace(tuple(namespace), "user_namespace")
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"the memories of user {shown(user)} cannot stand in the namespace "
            f"{shown(namespace)} ({error}). Pass user_namespace= to say where they are, a name "
            "that no two users share and the nodes of the graph use, e.g. lambda user_id: "
            '("users", *mongomem.user_namespace(user_id))'
        ) from error
