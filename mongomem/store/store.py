"""MongoStore: LangGraph's store on MongoDB. Every method is one expression; the plans decide."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from langgraph.store.base import (
    NOT_PROVIDED,
    GetOp,
    IndexConfig,
    Item,
    NamespacePath,
    NotProvided,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)

from mongomem.arguments import shown_parts
from mongomem.engine.client_context import ClientContext
from mongomem.engine.clock import utc_now
from mongomem.engine.commands import Plan
from mongomem.engine.request_batcher import RequestBatcher
from mongomem.engine.runners import Concerns, begins_at_call, runners_for
from mongomem.schema.names import DEFAULT_PREFIX, checked_prefix
from mongomem.store.context import Backend, Context, context_for
from mongomem.store.documents.ops import GroupedOps, group_ops, list_op, put_op
from mongomem.store.documents.ttl import checked_config
from mongomem.store.namespace_methods import NamespaceMethods
from mongomem.store.plans import batch
from mongomem.store.plans.setup import setup
from mongomem.telemetry.observer import Observer

INDEX_CACHE_BYTES = 512 * 2**20


class MongoStore(NamespaceMethods):
    """Keeps items in MongoDB by namespace and key: filters, expiry, and search by meaning on any
    server.

    Safe to share between threads and tasks.

    Args:
        client: A ``MongoClient``, an ``AsyncMongoClient`` (async methods, and sync ones from other
            threads than that of its event loop) or a ``mongomock.MongoClient``. The caller owns and
            closes it.
        db_name: The database. None: the one that the client's connection string names, else
            ``mongomem``.
        index: LangGraph's ``IndexConfig``: ``embed``, ``dims``, ``fields``, and beside them
            ``metric``: "cosine" (the default), "dot" or "euclidean"; ``model``: what the model is
            called, where that cannot be read from what embeds, or should not be; ``batch_size``:
            how many texts it is sent at once at most; ``rank``: "hybrid", by meaning and words
            (the default with cosine; scores are in [0, 1]), "vector", by meaning alone, or
            "words", which needs no ``embed``; ``language`` of the words, "english" by default,
            which serves other languages too. None: no search by meaning or words.
        ttl: LangGraph's ``TTLConfig``, in minutes. ``omit_expired`` is on unless it says otherwise.
        auto_setup: Create the indexes before the first write. Off for users who may not create
            indexes.
        collection_prefix: Put before the names of the collections.
        backend: How meaning is searched: "exact" on any server, "atlas" by Atlas Vector Search,
            "auto".
        index_cache_bytes: How many bytes of vectors' codes are held in memory, over all namespaces.
        concerns: Read preference, read concern and write concern; primary and majority by default.
        clock: Returns the time, aware and in UTC.
        slow_ms: From how many milliseconds on a call is told by the logger ``mongomem``, in one
            line; None for none. Spans of OpenTelemetry need no option
            (docs/how-to/observe.md).

    Does no I/O. Errors: `mongomem.errors`; those of the driver pass through.
    """

    supports_ttl = True

    def __init__(
        self,
        client: Any,
        db_name: str | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        *,
        auto_setup: bool = True,
        collection_prefix: str = DEFAULT_PREFIX,
        backend: Backend = "auto",
        index_cache_bytes: int = INDEX_CACHE_BYTES,
        concerns: Concerns | None = None,
        clock: Callable[[], datetime] = utc_now,
        slow_ms: float | None = None,
    ) -> None:
        super().__init__()
        self.ttl_config = checked_config(ttl)
        self.index_config = index
        self._runners = runners_for(client, db_name, concerns)
        self._store_context = context_for(
            checked_prefix(collection_prefix),
            index,
            self.ttl_config,
            backend=backend,
            index_cache_bytes=index_cache_bytes,
            auto_setup=auto_setup,
            clock=clock,
        )
        self._observed = Observer.of("store", client, db_name, self._store_context.items, slow_ms)
        self._gets: RequestBatcher[GetOp, Item | None] = RequestBatcher(
            lambda ops: self._runners.arun(self._getting(ops))
        )
        self._puts: RequestBatcher[GroupedOps, None] = RequestBatcher(
            lambda batches: self._runners.arun(self._putting(batches))
        )

    def __repr__(self) -> str:
        return shown_parts(self, **self._told())

    def _told(self) -> dict[str, Any]:
        configured = self._store_context.configured
        return {
            "db_name": self._observed.database,
            "collection_prefix": self._store_context.names.prefix,
            **({} if configured is None else configured.told),
        }

    @property
    def damaged_items(self) -> int:
        """How many different damaged items this store has met.

        Each was logged once, by the logger "mongomem", and is left out of searches, lists and
        exports; one whose vectors alone are damaged follows unscored. `get` raises
        ``CorruptDataError``; a put or a deletion mends it.
        """
        return self._context().damage.count

    @classmethod
    def from_conn_string(
        cls,
        uri: str,
        *,
        db_name: str | None = None,
        open_timeout: float | NotProvided | None = NOT_PROVIDED,
        **options: Any,
    ) -> ClientContext[MongoStore]:
        """Return something to enter, with ``with`` or ``async with``, that yields a store and owns
        its client.

        Args:
            uri: The connection string.
            db_name: The database. None: the one that the connection string names, else
                ``mongomem``.
            open_timeout: How long entering waits for an answer of the servers, in seconds. None:
                does not ask. Not given: as long as ``timeoutMS`` or ``serverSelectionTimeoutMS``
                says, in the connection string or as an option of the client, else 5 s.
            **options: Those of `MongoStore`; any other reaches the client.
        """
        return ClientContext.of(cls, uri, open_timeout, {"db_name": db_name, **options})

    def setup(self) -> None:
        """Create the indexes, and agree on how vectors are made. Idempotent, and safe when many do
        it at once.
        """
        self._runners.run(self._observed("setup", setup(self._context())))

    @begins_at_call
    def asetup(self) -> Coroutine[Any, Any, None]:
        """Do what `setup` does."""
        return self._runners.arun(self._observed("setup", setup(self._context())))

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Perform operations; return the results in their order, None for a put or a deletion.

        Reads see the state before the batch; of several puts of one item the last counts.
        Everything is checked before the first command, and embedded before the first write. Each
        item changes at once; a batch that is cut short may have changed some, and does the rest
        when it is repeated.
        """
        return self._runners.run(self._batching("batch", ops))

    @begins_at_call
    def abatch(self, ops: Iterable[Op]) -> Coroutine[Any, Any, list[Result]]:
        """Do what `batch` does."""
        return self._runners.arun(self._batching("batch", ops))

    def get(
        self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """Return an item, or None. Writes only where the item expires and is refreshed.

        Raises:
            CorruptDataError: The item is damaged, or is stored under another name: it was moved,
                or edited by hand.
            SchemaVersionError: A newer mongomem wrote it.
        """
        return self._runners.run(
            self._getting([GetOp(namespace, key, self._refreshes(refresh_ttl))])
        )[0]

    @begins_at_call
    def aget(
        self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None
    ) -> Coroutine[Any, Any, Item | None]:
        """Do what `get` does. Those of one tick of the event loop share a round trip."""
        return self._gets(lambda: GetOp(namespace, key, self._refreshes(refresh_ttl)))

    def search(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
        min_score: float | None = None,
        explain: bool = False,
    ) -> list[SearchItem]:
        """Find items below a prefix: by meaning and words where there is a query and an index,
        else newest update first.

        Args:
            namespace_prefix: The labels that a namespace begins with; no label is a wildcard.
            query: What to search for. Items that cannot be scored follow, with a score of None.
                Where words count, what is in double quotes must stand in the item, unless the
                query is a sentence with its punctuation, or quotes one.
            filter: What the value must be: fields, ``"a.b"`` for those of objects, ``$eq $ne $gt
                $gte $lt $lte``, ``$in $nin`` (one of a list), ``$exists``, ``$contains`` (an
                element of a list), and ``$and``, ``$or``, ``$not``.
            limit: How many; 0 gives none.
            offset: How many to leave out before. The order is total, so pages neither repeat nor
                lose items.
            refresh_ttl: Whether the items returned live on from now; None means as the store is
                configured.
            min_score: What scores lower, or has no score, is left out. Needs a query.
            explain: The results are ``ExplainedItem``, which tell the two parts of their scores:
                ``meaning``, the cosine, and ``words``, the share of the query that the words of
                the item reach.
        """
        op = SearchOp(namespace_prefix, filter, limit, offset, query, self._refreshes(refresh_ttl))
        return self._runners.run(self._searching(op, min_score, explain))

    @begins_at_call
    def asearch(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
        min_score: float | None = None,
        explain: bool = False,
    ) -> Coroutine[Any, Any, list[SearchItem]]:
        """Do what `search` does."""
        op = SearchOp(namespace_prefix, filter, limit, offset, query, self._refreshes(refresh_ttl))
        return self._runners.arun(self._searching(op, min_score, explain))

    def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Store an item; an existing one keeps its `created_at`.

        Args:
            namespace: Where; a tuple of labels.
            key: Its name in the namespace; an int, a UUID or an ObjectId is its string.
            value: JSON; bytes, tuples, datetimes and integers of any size come back exactly too.
            index: Which paths are embedded: None for those of the store, False for none, or a list.
            ttl: Minutes it lives after its last use; None for ever; not given: as the store is
                configured.

        Raises:
            UnstorableValueError: The value cannot be stored; says where in it and why.
        """
        self._runners.run(
            self._batching("put", [put_op(namespace, key, value, index, self._ttl(ttl))])
        )

    @begins_at_call
    def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> Coroutine[Any, Any, None]:
        """Do what `put` does. Those of one tick of the event loop are one batch."""
        return self._puts(
            lambda: group_ops(
                [put_op(namespace, key, value, index, self._ttl(ttl))], self._context().indexing
            )
        )

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        """Delete an item, if it exists."""
        self._runners.run(self._batching("delete", [PutOp(namespace, key, None)]))

    @begins_at_call
    def adelete(self, namespace: tuple[str, ...], key: str) -> Coroutine[Any, Any, None]:
        """Do what `delete` does."""
        return self._puts(lambda: group_ops([PutOp(namespace, key, None)], None))

    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """List the namespaces that hold items, in order.

        Args:
            prefix: The labels they begin with; ``"*"`` stands for any one label.
            suffix: The labels they end with, likewise.
            max_depth: Cut them to so many labels; each is then listed once.
            limit: How many; 0 gives none.
            offset: How many to leave out before.
        """
        op = list_op(prefix, suffix, max_depth, limit, offset)
        return self._runners.run(
            self._observed("list_namespaces", batch.list_namespaces(self._context(), op))
        )

    @begins_at_call
    def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Coroutine[Any, Any, list[tuple[str, ...]]]:
        """Do what `list_namespaces` does."""
        op = list_op(prefix, suffix, max_depth, limit, offset)
        return self._runners.arun(
            self._observed("list_namespaces", batch.list_namespaces(self._context(), op))
        )

    # What both twins of a method run.

    def _batching(self, name: str, ops: Iterable[Op]) -> Plan[list[Result]]:
        return self._observed(name, batch.batch(self._context(), ops), ops=ops)

    def _getting(self, ops: Sequence[GetOp]) -> Plan[list[Item | None]]:
        return self._observed("get", batch.get(self._context(), ops), ops=ops)

    def _putting(self, batches: Sequence[GroupedOps]) -> Plan[list[None]]:
        return self._observed("put", batch.put(self._context(), batches), batches=batches)

    def _searching(self, op: SearchOp, min_score: Any, explain: Any) -> Plan[list[SearchItem]]:
        plan = batch.search(self._context(), op, min_score, explain)
        return self._observed("search", plan, ops=[op])

    def _context(self) -> Context:
        return self._store_context

    def _refreshes(self, refresh_ttl: bool | None) -> bool:
        return (
            (self.ttl_config or {}).get("refresh_on_read", True)
            if refresh_ttl is None
            else refresh_ttl
        )

    def _ttl(self, ttl: float | NotProvided | None) -> float | None:
        return (self.ttl_config or {}).get("default_ttl") if isinstance(ttl, NotProvided) else ttl
