"""MongoStore: LangGraph's store on MongoDB. Every method is one expression; the logic is in the plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from langgraph.store.base import (
    NOT_PROVIDED,
    BaseStore,
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

from mongomem.clock import utc_now
from mongomem.drivers import Concerns, drivers_for
from mongomem.opening import Opening
from mongomem.schema.names import DEFAULT_PREFIX, checked_prefix
from mongomem.store import plans
from mongomem.store.batches import list_op, put_op
from mongomem.store.coalescing import Coalescing
from mongomem.store.context import Backend, context_for
from mongomem.store.reindexing import reindex
from mongomem.store.setup import setup
from mongomem.store.writing import delete_namespace

MATRIX_BYTES = 512 * 2**20


class MongoStore(BaseStore):
    """Keeps items in MongoDB by namespace and key: filters, expiry, and search by meaning on any server.

    Safe to share between threads and tasks.

    Args:
        client: A ``MongoClient`` (sync and async methods), an ``AsyncMongoClient`` (async methods only)
            or a ``mongomock.MongoClient``. The caller owns and closes it.
        db_name: The database.
        index: LangGraph's ``IndexConfig``: ``embed``, ``dims``, ``fields``, and beside them ``metric``:
            "cosine" (the default), "dot" or "euclidean"; ``model``: what the model is called, where that cannot be
            read from what embeds, or should not be; ``batch_size``: how many texts it is sent at once at most.
            None: no search by meaning.
        ttl: LangGraph's ``TTLConfig``, in minutes. ``omit_expired`` is on unless it says otherwise.
        auto_setup: Create the indexes before the first write. Off for users who may not create indexes.
        collection_prefix: Put before the names of the collections.
        backend: How meaning is searched: "exact" on any server, "atlas" by Atlas Vector Search, "auto".
        matrix_bytes: How much the exact search may hold in memory, over all namespaces.
        concerns: Read preference, read concern and write concern; primary and majority by default.
        clock: Tells the time, aware and in UTC.

    Does no I/O. Errors: `mongomem.errors`; those of the driver pass through.
    """

    supports_ttl = True

    def __init__(
        self,
        client: Any,
        db_name: str = "mongomem",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        *,
        auto_setup: bool = True,
        collection_prefix: str = DEFAULT_PREFIX,
        backend: Backend = "auto",
        matrix_bytes: int = MATRIX_BYTES,
        concerns: Concerns | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__()
        self.ttl_config = ttl
        self.index_config = index
        self._drivers = drivers_for(client, db_name, concerns or Concerns())
        self._context = context_for(
            checked_prefix(collection_prefix),
            index,
            ttl,
            backend=backend,
            matrix_bytes=matrix_bytes,
            auto_setup=auto_setup,
            clock=clock,
        )
        self._gets: Coalescing[GetOp, Item | None] = Coalescing(
            lambda ops: self._drivers.arun(plans.get(self._context, ops))
        )
        self._puts: Coalescing[PutOp, Result] = Coalescing(self.abatch)

    @classmethod
    def from_conn_string(cls, uri: str, *, db_name: str = "mongomem", **options: Any) -> Opening[MongoStore]:
        """Return something to enter, with ``with`` or ``async with``, that yields a store and owns its client.

        Args:
            uri: The connection string.
            db_name: The database.
            **options: Those of `MongoStore`; any other reaches the client.
        """
        return Opening.of(cls, uri, {"db_name": db_name, **options})

    def setup(self) -> None:
        """Create the indexes, and agree on how vectors are made. Idempotent, and safe when many do it at once."""
        self._drivers.run(setup(self._context))

    async def asetup(self) -> None:
        """Do what `setup` does."""
        await self._drivers.arun(setup(self._context))

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Perform operations; the answers stand in their places, None for a put or a deletion.

        Reads see the state before the batch; of several puts of one item the last counts. Everything is
        checked before the first command, and embedded before the first write. Each item changes at once;
        a batch that is cut short may have changed some, and does the rest when it is repeated.
        """
        return self._drivers.run(plans.batch(self._context, ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do what `batch` does."""
        return await self._drivers.arun(plans.batch(self._context, ops))

    def get(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """Return an item, or None. Writes only where the item expires and is refreshed."""
        return self._drivers.run(plans.get(self._context, [GetOp(namespace, key, self._refreshes(refresh_ttl))]))[0]

    async def aget(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """Do what `get` does. Those of one tick of the event loop share a round trip."""
        return await self._gets(GetOp(namespace, key, self._refreshes(refresh_ttl)))

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
    ) -> list[SearchItem]:
        """Find items below a prefix: by meaning where there is a query and an index, else newest update first.

        Args:
            namespace_prefix: The labels that a namespace begins with; no label is a wildcard.
            query: What to search for. Items without a vector follow the scored ones, with a score of None.
            filter: What the value must be: fields, ``$eq $ne $gt $gte $lt $lte``, ``$and``, ``$or``.
            limit: How many; 0 gives none.
            offset: How many to leave out before. The order is total, so pages neither repeat nor lose items.
            refresh_ttl: Whether the items returned live on from now; None means as the store is configured.
        """
        op = SearchOp(namespace_prefix, filter, limit, offset, query, self._refreshes(refresh_ttl))
        return self._drivers.run(plans.search(self._context, op))

    async def asearch(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Do what `search` does."""
        op = SearchOp(namespace_prefix, filter, limit, offset, query, self._refreshes(refresh_ttl))
        return await self._drivers.arun(plans.search(self._context, op))

    def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Store an item; one that is there keeps its `created_at`.

        Args:
            namespace: Where; a tuple of labels.
            key: Its name there.
            value: JSON; bytes, tuples, datetimes and integers of any size come back exactly too.
            index: Which paths are embedded: None for those of the store, False for none, or a list.
            ttl: Minutes it lives after its last use; None for ever; not given: as the store is configured.

        Raises:
            UnstorableValueError: The value cannot be stored; says where in it and why.
        """
        self._drivers.run(plans.batch(self._context, [put_op(namespace, key, value, index, self._ttl(ttl))]))

    async def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Do what `put` does. Those of one tick of the event loop are one batch."""
        await self._puts(put_op(namespace, key, value, index, self._ttl(ttl)))

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        """Delete an item, if it is there."""
        self._drivers.run(plans.batch(self._context, [PutOp(namespace, key, None)]))

    async def adelete(self, namespace: tuple[str, ...], key: str) -> None:
        """Do what `delete` does."""
        await self._puts(PutOp(namespace, key, None))

    def delete_namespace(self, prefix: tuple[str, ...]) -> int:
        """Delete every item below a prefix of one label or more; return how many. Can be repeated."""
        return self._drivers.run(delete_namespace(self._context, prefix))

    async def adelete_namespace(self, prefix: tuple[str, ...]) -> int:
        """Do what `delete_namespace` does."""
        return await self._drivers.arun(delete_namespace(self._context, prefix))

    def reindex(self, force: bool = False) -> int:
        """Make all vectors as the store is configured now; return how many items were changed.

        For after a change of `index`, which counts from the first items on that were embedded: an embedder that fails
        at once leaves the store as it was. Searches go on meanwhile, items not done yet follow unscored. What
        was cut short goes on when it is called again.

        Args:
            force: Make every vector anew, also where the configuration is the same: for a model that has become another
                one under its name. What was cut short goes on by the next call, with `force` or without.

        Raises:
            IndexMismatchError: Another reindex to another configuration has begun; or, without `force`, another model
                than that of the stored vectors answers by its name.
            ReindexError: Some items cannot be converted; it names them, and all others are.
        """
        return self._drivers.run(reindex(self._context, force))

    async def areindex(self, force: bool = False) -> int:
        """Do what `reindex` does."""
        return await self._drivers.arun(reindex(self._context, force))

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
            max_depth: Cut them to so many labels; each then stands once.
            limit: How many; 0 gives none.
            offset: How many to leave out before.
        """
        op = list_op(prefix, suffix, max_depth, limit, offset)
        return self._drivers.run(plans.list_namespaces(self._context, op))

    async def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """Do what `list_namespaces` does."""
        op = list_op(prefix, suffix, max_depth, limit, offset)
        return await self._drivers.arun(plans.list_namespaces(self._context, op))

    def _refreshes(self, refresh_ttl: bool | None) -> bool:
        return (self.ttl_config or {}).get("refresh_on_read", True) if refresh_ttl is None else refresh_ttl

    def _ttl(self, ttl: float | NotProvided | None) -> float | None:
        return (self.ttl_config or {}).get("default_ttl") if isinstance(ttl, NotProvided) else ttl
