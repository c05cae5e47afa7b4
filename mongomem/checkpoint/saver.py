"""MongoSaver: LangGraph's checkpointer on MongoDB. Every method is one expression; the logic is in
the plans.

Here is what a running graph calls; what is done with whole threads stands in
`mongomem.checkpoint.thread_methods`.
"""

from __future__ import annotations

import random
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime, timedelta
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.store.base import NOT_PROVIDED, NotProvided

from mongomem.arguments import checked_flag, checked_number, shown_parts
from mongomem.checkpoint.caches import SaverCaches
from mongomem.checkpoint.context import (
    Context,
    Options,
    checked_grace,
    checked_keys,
    checked_proof_policy,
    lifetime,
)
from mongomem.checkpoint.documents.collections import Collections
from mongomem.checkpoint.documents.list_query import ListQuery, checked_query
from mongomem.checkpoint.plans import put, put_writes, read
from mongomem.checkpoint.plans.delta_history import get_delta_channel_history
from mongomem.checkpoint.plans.setup import setup
from mongomem.checkpoint.retention.background import RetentionWork
from mongomem.checkpoint.retention.policy import Retention, checked_retention
from mongomem.checkpoint.serde.default import checked_allowlist, checked_serde
from mongomem.checkpoint.serde.serializer import ValueSerializer
from mongomem.checkpoint.serde.versions import Version, next_version
from mongomem.checkpoint.thread_methods import ThreadMethods
from mongomem.engine.client_context import ClientContext
from mongomem.engine.clock import checked_clock, utc_now
from mongomem.engine.commands import Plan
from mongomem.engine.runners import Concerns, begins_at_call, runners_for
from mongomem.errors import ConfigurationError
from mongomem.schema.names import DEFAULT_PREFIX, checked_prefix
from mongomem.telemetry.observer import Observer

CACHE_BYTES = 128 * 2**20


class MongoSaver(ThreadMethods):
    """Keeps the state of threads in MongoDB: save, resume, history, time travel, interrupts.

    Storage grows with what changed and not with what is, and no state is too large: values are cut
    into chunks that checkpoints share. Safe to share between threads and tasks.

    Args:
        client: A ``MongoClient``, an ``AsyncMongoClient`` (async methods, and sync ones from other
            threads than that of its event loop) or a ``mongomock.MongoClient``. The caller owns and
            closes it.
        db_name: The database. None: the one that the client's connection string names, else
            ``mongomem``.
        serde: Serializer of values; LangGraph's ``EncryptedSerializer`` encrypts every chunk. The
            default one revives data types and calls no function, see
            `mongomem.checkpoint.serde.default`.
        ttl: How long an unused thread lives, in minutes or as a ``timedelta``. Belongs to the
            collections: not given, it is as they have it, and a saver that is given another one
            changes it in its setup. None means for ever: the setup ends a TTL that they have. Not
            given, it is learned in the setup, which the first write calls: a process that only
            reads sees expired threads until the server deletes them, about a tenth of the TTL
            later.
        collection_prefix: Put before the names of the collections.
        auto_setup: Create the indexes before the first write. Off for users who may not create
            indexes.
        metadata_indexes: Metadata keys by which threads are listed, e.g. ``("user_id",)``.
        clear_metadata: Metadata keys that may stand readable in the database. None means all of
            them, or ``source``, ``step`` and ``run_id`` where the serializer encrypts.
        grace: How long a chunk that nothing refers to is kept, against puts that are under way.
        cache_bytes: How many bytes the saver may remember in this process: chunks, parents of puts,
            messages.
        cache_messages: Whether messages of LangChain are remembered with their bytes, so that of a
            long chat only new messages are serialized and deserialized. What is stored and read is
            the same without it.
        concerns: Read preference, read concern and write concern; primary and majority by default.
        clock: Tells the time, aware and in UTC.
        allow_plaintext: Where the serializer encrypts, also read what stands there in plain, and go
            on with threads that were begun so. For a migration: whoever may write to the database
            can then put plain content there.
        allow_unbound: Where the serializer encrypts, also read content of the first format, which
            was not bound to its thread and place. Off once none is left.
        check_chunks: Compare the content of plain chunks with their names when they are read. It
            takes about a millisecond for a megabyte.
        slow_ms: From how many milliseconds on a call is told by the logger ``mongomem``, in one
            line; None for none. Spans of OpenTelemetry need no option
            (docs/how-to/observe.md).
        retention: What is kept of threads: the rest goes beside the puts, a few threads at a time,
            by one process at a time. None: nothing goes by itself. End with `close` or `aclose`.

    Does no I/O. Errors: `mongomem.errors`; those of the driver pass through.
    """

    def __init__(
        self,
        client: Any,
        db_name: str | None = None,
        *,
        serde: SerializerProtocol | None = None,
        ttl: float | timedelta | NotProvided | None = NOT_PROVIDED,
        collection_prefix: str = DEFAULT_PREFIX,
        auto_setup: bool = True,
        metadata_indexes: Sequence[str] = ("user_id",),
        clear_metadata: Collection[str] | None = None,
        grace: timedelta = timedelta(hours=1),
        cache_bytes: int = CACHE_BYTES,
        cache_messages: bool = True,
        concerns: Concerns | None = None,
        clock: Callable[[], datetime] = utc_now,
        allow_plaintext: bool = False,
        allow_unbound: bool = True,
        check_chunks: bool = True,
        slow_ms: float | None = None,
        retention: Retention | None = None,
    ) -> None:
        super().__init__(serde=checked_serde(serde))
        self._made: tuple[object, Context | None] = None, None
        self._runners = runners_for(client, db_name, concerns)
        self._caches = SaverCaches(
            checked_number("cache_bytes", cache_bytes, error=ConfigurationError),
            checked_flag("cache_messages", cache_messages, ConfigurationError),
        )
        collections = Collections(checked_prefix(collection_prefix))
        self._observed = Observer.of("saver", client, db_name, collections.checkpoints, slow_ms)
        self._retention = RetentionWork(checked_retention(retention), self._observed)
        self._options = Options(
            collections,
            lifetime(ttl),
            checked_grace(grace),
            None if clear_metadata is None else checked_keys("clear_metadata", clear_metadata),
            checked_keys("metadata_indexes", metadata_indexes),
            checked_flag("auto_setup", auto_setup, ConfigurationError),
            checked_clock(clock),
            checked_proof_policy(allow_plaintext, allow_unbound, check_chunks),
        )

    @classmethod
    def from_conn_string(
        cls,
        uri: str,
        *,
        db_name: str | None = None,
        open_timeout: float | NotProvided | None = NOT_PROVIDED,
        **options: Any,
    ) -> ClientContext[MongoSaver]:
        """Return something to enter, with ``with`` or ``async with``, that yields a saver and owns
        its client.

        Args:
            uri: The connection string.
            db_name: The database. None: the one that the connection string names, else
                ``mongomem``.
            open_timeout: How long entering waits for an answer of the servers, in seconds. None:
                does not ask. Not given: as long as ``timeoutMS`` or ``serverSelectionTimeoutMS``
                says, in the connection string or as an option of the client, else 5 s.
            **options: Those of `MongoSaver`; any other reaches the client.
        """
        return ClientContext.of(cls, uri, open_timeout, {"db_name": db_name, **options})

    def __repr__(self) -> str:
        return shown_parts(self, **self._told())

    def _told(self) -> dict[str, Any]:
        return {
            "db_name": self._observed.database,
            "collection_prefix": self._options.collections.prefix,
            "retention": self._retention.policy,
        }

    @property
    def damaged_documents(self) -> int:
        """How many different documents listings have left out so far, because they or what they
        lead to is damaged.

        Each was told once by the logger ``mongomem``.
        """
        return self._caches.damage.count

    def setup(self) -> None:
        """Create the indexes and bring older documents up to date. Idempotent, and safe when many
        do it at once.
        """
        self._runners.run(self._observed("setup", setup(self._context())))

    @begins_at_call
    def asetup(self) -> Coroutine[Any, Any, None]:
        """Do what `setup` does."""
        return self._runners.arun(self._observed("setup", setup(self._context())))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the newest of its namespace, or None."""
        return self._runners.run(
            self._observed("get_tuple", read.get_tuple(self._context(), config), config=config)
        )

    @begins_at_call
    def aget_tuple(self, config: RunnableConfig) -> Coroutine[Any, Any, CheckpointTuple | None]:
        """Do what `get_tuple` does."""
        return self._runners.arun(
            self._observed("get_tuple", read.get_tuple(self._context(), config), config=config)
        )

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Stream checkpoints, newest first, by pages: breaking out leaves nothing open and has not
        read the rest.

        Args:
            config: Names the thread and, if given, the namespace and the checkpoint. None lists
                across threads.
            filter: What the metadata must contain, as PostgreSQL's ``jsonb @>`` means it.
            before: Only checkpoints older than the one it names; without a ``checkpoint_id`` it
                bounds nothing.
            limit: How many; 0 gives none.

        Raises:
            InvalidInputError: At the call, for an argument that is none of this.
        """
        return self._pages(checked_query(config, filter, before, limit))

    def _pages(self, query: ListQuery) -> Iterator[CheckpointTuple]:
        page = self._runners.run(self._paging(query, read.page(self._context(), query)))
        yield from page.tuples
        while page.rest is not None:
            page = self._runners.run(self._paging(query, page.rest()))
            yield from page.tuples

    def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do what `list` does."""
        return self._apages(checked_query(config, filter, before, limit))

    async def _apages(self, query: ListQuery) -> AsyncIterator[CheckpointTuple]:
        page = await self._runners.arun(self._paging(query, read.page(self._context(), query)))
        for one in page.tuples:
            yield one
        while page.rest is not None:
            page = await self._runners.arun(self._paging(query, page.rest()))
            for one in page.tuples:
                yield one

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; return the config that leads to it.

        A crash leaves the previous checkpoint loadable, and the call can be repeated. What changed
        is found by comparison with the parent document; `new_versions` is not needed.
        The checkpoint that the config names is the parent. Where it is the checkpoint itself, as in
        the configs that a saver returns, the parent stays the one that it has.
        """
        return self._runners.run(self._putting(config, checkpoint, metadata))

    @begins_at_call
    def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Coroutine[Any, Any, RunnableConfig]:
        """Do what `put` does. What is stored is what was passed at the call, whatever is done to it
        afterwards.

        Values of about 1 MB and more are serialized beside the event loop. Of these the lists,
        dicts, tuples and LangChain messages are copied at the call; other objects in them must not
        change before the call returns.
        """
        return self._runners.arun(self._putting(config, checkpoint, metadata))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task beside its checkpoint, which may be stored later or not yet.

        The first regular write of (task, index) wins; one to a special channel replaces the one
        before it.
        """
        self._runners.run(self._putting_writes(config, writes, task_id, task_path))

    @begins_at_call
    def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> Coroutine[Any, Any, None]:
        """Do what `put_writes` does."""
        return self._runners.arun(self._putting_writes(config, writes, task_id, task_path))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what the ancestors of a checkpoint contributed to channels: the writes, and a
        stored value before.
        """
        return self._runners.run(self._reading_history(config, channels))

    @begins_at_call
    def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Coroutine[Any, Any, Mapping[str, DeltaChannelHistory]]:
        """Do what `get_delta_channel_history` does."""
        return self._runners.arun(self._reading_history(config, channels))

    def get_next_version(self, current: Version | None, channel: None) -> Version:
        """Return a version above `current`, of its kind; without one an ordered string."""
        return next_version(current, random.random())  # noqa: S311 (tells branches apart, guards nothing)

    def with_allowlist(
        self, extra_allowlist: Collection[tuple[str, ...]]
    ) -> BaseCheckpointSaver[Any]:
        """Return a clone whose serializer also revives these types; it shares client and caches."""
        return super().with_allowlist(checked_allowlist(extra_allowlist))

    # What both twins of a method run.

    def _paging(self, query: ListQuery, page: Plan[read.Page]) -> Plan[read.Page]:
        return self._observed("list", page, thread_id=query.place.get("thread_id"))

    def _putting(self, config: Any, checkpoint: Any, metadata: Any) -> Plan[RunnableConfig]:
        context = self._context()
        plan = put.put(context, config, checkpoint, metadata)
        return self._then_retain(context, self._observed("put", plan, config=config))

    def _putting_writes(self, config: Any, *arguments: Any) -> Plan[None]:
        plan = put_writes.put_writes(self._context(), config, *arguments)
        return self._observed("put_writes", plan, config=config)

    def _reading_history(
        self, config: Any, channels: Any
    ) -> Plan[Mapping[str, DeltaChannelHistory]]:
        plan = get_delta_channel_history(self._context(), config, channels)
        return self._observed("get_delta_channel_history", plan, config=config)

    def _context(self) -> Context:
        # The serializer is looked at in every call: with_allowlist clones differ in it alone.
        serde, context = self._made
        if context is None or serde is not self.serde:
            serde = self.serde
            serializer = ValueSerializer.of(serde, self._caches.messages, self._options.policy)
            context = Context(self._options, serializer, self._caches)
            self._made = serde, context
        return context
