"""MongoCache: LangGraph's cache of node results on MongoDB. Every method is one expression; the
plans decide.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any

from langgraph.cache.base import BaseCache, FullKey, Namespace, ValueT
from langgraph.checkpoint.serde.base import SerializerProtocol, maybe_add_typed_methods
from langgraph.store.base import NOT_PROVIDED, NotProvided

from mongomem.arguments import shown_parts
from mongomem.cache.context import POLICY, Context, options_for
from mongomem.cache.plans import entries
from mongomem.cache.plans.setup import setup
from mongomem.checkpoint.serde.default import checked_serde
from mongomem.checkpoint.serde.serializer import ValueSerializer
from mongomem.engine.client_context import ClientContext
from mongomem.engine.clock import utc_now
from mongomem.engine.runners import Concerns, begins_at_call, runners_for
from mongomem.schema.names import DEFAULT_PREFIX, checked_prefix
from mongomem.telemetry.observer import Observer


class MongoCache(BaseCache[ValueT]):
    """Keeps the results of nodes in MongoDB by namespace and key, for ``compile(cache=...)``.

    A node with a ``CachePolicy`` then runs once for an input, in whichever process. Safe to share
    between threads and tasks.

    A cache may forget, and does not answer wrongly:

    - An entry is absent from the moment on that its time is over; the server deletes it within
      about a minute.
    - An entry that cannot be read is a miss: damaged, encrypted otherwise, or with a type that the
      serializer does not revive. It is logged by the logger ``mongomem``.
    - An entry that is larger than a document (16 MB) is not kept, which is logged.
    - Where no server can be reached, `get` finds nothing and `set` keeps nothing, which is logged.
      `clear` raises the driver's error.

    Args:
        client: A ``MongoClient``, an ``AsyncMongoClient`` (async methods, and sync ones from other
            threads than that of its event loop) or a ``mongomock.MongoClient``. The caller owns and
            closes it.
        db_name: The database. None: the one that the client's connection string names, else
            ``mongomem``.
        serde: Serializer of values; LangGraph's ``EncryptedSerializer`` encrypts them. The default
            one revives data types and calls no function, see `mongomem.checkpoint.serde.default`.
            Namespaces and keys stay readable.
        auto_setup: Create the index before the first write. Off for users who may not create
            indexes.
        collection_prefix: Put before the name of the collection.
        concerns: Read preference, read concern and write concern; primary and majority by default.
        clock: Returns the time, aware and in UTC.
        slow_ms: From how many milliseconds on a call is told by the logger ``mongomem``, in one
            line; None for none. Spans of OpenTelemetry need no option
            (docs/how-to/observe.md).

    Does no I/O. Errors: `mongomem.errors`; those of the driver pass through, but for a lost
    connection as told above.
    """

    def __init__(
        self,
        client: Any,
        db_name: str | None = None,
        *,
        serde: SerializerProtocol | None = None,
        auto_setup: bool = True,
        collection_prefix: str = DEFAULT_PREFIX,
        concerns: Concerns | None = None,
        clock: Callable[[], datetime] = utc_now,
        slow_ms: float | None = None,
    ) -> None:
        super().__init__()
        self.serde = maybe_add_typed_methods(checked_serde(serde))
        self._runners = runners_for(client, db_name, concerns)
        self._options = options_for(
            checked_prefix(collection_prefix), auto_setup=auto_setup, clock=clock
        )
        self._observed = Observer.of("cache", client, db_name, self._options.names.entries, slow_ms)

    def __repr__(self) -> str:
        prefix = self._options.names.prefix
        return shown_parts(self, db_name=self._observed.database, collection_prefix=prefix)

    @property
    def unreadable_entries(self) -> int:
        """How many different entries could not be read so far. Each was a miss."""
        return self._options.losses.unreadable_count

    @classmethod
    def from_conn_string(
        cls,
        uri: str,
        *,
        db_name: str | None = None,
        open_timeout: float | NotProvided | None = NOT_PROVIDED,
        **options: Any,
    ) -> ClientContext[MongoCache[Any]]:
        """Return something to enter, with ``with`` or ``async with``, that yields a cache and owns
        its client.

        Args:
            uri: The connection string.
            db_name: The database. None: the one that the connection string names, else
                ``mongomem``.
            open_timeout: How long entering waits for an answer of the servers, in seconds. None:
                does not ask. Not given: as long as ``timeoutMS`` or ``serverSelectionTimeoutMS``
                says, in the connection string or as an option of the client, else 5 s.
            **options: Those of `MongoCache`; any other reaches the client.
        """
        return ClientContext.of(cls, uri, open_timeout, {"db_name": db_name, **options})

    def setup(self) -> None:
        """Create the index. Idempotent, and safe when many do it at once."""
        self._runners.run(self._observed("setup", setup(self._context())))

    @begins_at_call
    def asetup(self) -> Coroutine[Any, Any, None]:
        """Do what `setup` does."""
        return self._runners.arun(self._observed("setup", setup(self._context())))

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Return the values of the keys that have one. One round trip, however many they are.

        Args:
            keys: Pairs of a namespace and a key.
        """
        return self._runners.run(
            self._observed("get", entries.get(self._context(), keys), keys=keys)
        )

    @begins_at_call
    def aget(self, keys: Sequence[FullKey]) -> Coroutine[Any, Any, dict[FullKey, ValueT]]:
        """Do what `get` does."""
        return self._runners.arun(
            self._observed("get", entries.get(self._context(), keys), keys=keys)
        )

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """Store values, in one bulk write. Each entry changes at once.

        Args:
            pairs: By namespace and key a value, and the seconds that it lives; None for ever. With
                0 or less it is absent at once.

        Raises:
            UnstorableValueError: The serializer cannot store a value. Nothing was written.
        """
        self._runners.run(
            self._observed("set", entries.set_entries(self._context(), pairs), keys=pairs)
        )

    @begins_at_call
    def aset(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> Coroutine[Any, Any, None]:
        """Do what `set` does. What is stored is what was passed at the call."""
        return self._runners.arun(
            self._observed("set", entries.set_entries(self._context(), pairs), keys=pairs)
        )

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Delete the entries of namespaces.

        Args:
            namespaces: Each is meant exactly: those below it stay. None: all entries; an empty list
                none.
        """
        self._runners.run(
            self._observed(
                "clear", entries.clear(self._context(), namespaces), namespaces=namespaces
            )
        )

    @begins_at_call
    def aclear(self, namespaces: Sequence[Namespace] | None = None) -> Coroutine[Any, Any, None]:
        """Do what `clear` does."""
        return self._runners.arun(
            self._observed(
                "clear", entries.clear(self._context(), namespaces), namespaces=namespaces
            )
        )

    def _context(self) -> Context:
        # The serializer is looked at in every call, as LangGraph's caches do.
        return Context(self._options, ValueSerializer.of(self.serde, None, POLICY))
