"""What is done with whole namespaces: delete, expire, make vectors again, read vectors."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any

from langgraph.store.base import BaseStore

from mongomem.engine.commands import Plan
from mongomem.engine.runners import Runners, begins_at_call
from mongomem.store import sweeper
from mongomem.store.context import Context
from mongomem.store.plans.get_vectors import ItemVectors, get_vectors
from mongomem.store.plans.put import delete_expired, delete_namespace
from mongomem.store.plans.reindex import reindex
from mongomem.telemetry.observer import Observer


class NamespaceMethods(BaseStore):
    """The methods of a store that are about whole namespaces and not about one item."""

    _runners: Runners
    _observed: Observer

    def _context(self) -> Context:
        raise NotImplementedError

    def delete_namespace(self, prefix: tuple[str, ...]) -> int:
        """Delete every item below a prefix of one label at least; return how many. Repeatable."""
        return self._runners.run(self._deleting(prefix))

    @begins_at_call
    def adelete_namespace(self, prefix: tuple[str, ...]) -> Coroutine[Any, Any, int]:
        """Do what `delete_namespace` does."""
        return self._runners.arun(self._deleting(prefix))

    def _deleting(self, prefix: tuple[str, ...]) -> Plan[int]:
        plan = delete_namespace(self._context(), prefix)
        return self._observed("delete_namespace", plan, namespace=prefix)

    def sweep_ttl(self) -> int:
        """Delete every item that has expired; return how many. The server does the same within a
        minute.
        """
        return self._runners.run(self._observed("sweep_ttl", delete_expired(self._context())))

    @begins_at_call
    def asweep_ttl(self) -> Coroutine[Any, Any, int]:
        """Do what `sweep_ttl` does."""
        return self._runners.arun(self._observed("sweep_ttl", delete_expired(self._context())))

    def start_ttl_sweeper(self, sweep_interval_minutes: int | None = None) -> sweeper.Started:
        """Return a future that is done, as ``PostgresStore`` returns one: the server deletes
        expired items.
        """
        return sweeper.start(sweep_interval_minutes)

    async def astart_ttl_sweeper(
        self, sweep_interval_minutes: int | None = None
    ) -> Awaitable[None]:
        """Do what `start_ttl_sweeper` does, and return something to await or cancel."""
        return sweeper.awaitable(sweeper.start(sweep_interval_minutes))

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Return True, as ``PostgresStore`` does without a sweeper."""
        return sweeper.stop(timeout)

    async def astop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Do what `stop_ttl_sweeper` does."""
        return sweeper.stop(timeout)

    def reindex(self, force: bool = False) -> int:
        """Make all vectors by the current `index`; return how many items were changed.

        To be called after a change of `index`. The new configuration is stored with the first items
        that are embedded: an embedder that fails at once changes nothing. Searches work meanwhile;
        items that are not converted follow unscored. A reindex that was cut short continues when it
        is called again.

        Args:
            force: Make every vector again, also where the configuration is the same: for a model
                that changed under its name. What was cut short is continued by the next call, with
                `force` or without.

        Raises:
            IndexMismatchError: Another reindex to another configuration has begun; or, without
                `force`, another model than that of the stored vectors answers by its name.
            ReindexError: Some items cannot be converted; it names them, and all others are.
        """
        return self._runners.run(self._observed("reindex", reindex(self._context(), force)))

    @begins_at_call
    def areindex(self, force: bool = False) -> Coroutine[Any, Any, int]:
        """Do what `reindex` does."""
        return self._runners.arun(self._observed("reindex", reindex(self._context(), force)))

    def get_vectors(
        self, namespace_prefix: tuple[str, ...], *, limit: int = 1000
    ) -> list[ItemVectors]:
        """Read the items below a prefix that have vectors, with these, newest update first.

        Nothing is embedded, and no TTL is refreshed. At most `limit` items; those without vectors
        of the store's index configuration, and damaged ones, are left out.

        Raises:
            ConfigurationError: The store has no `index`.
        """
        return self._runners.run(self._reading_vectors(namespace_prefix, limit))

    @begins_at_call
    def aget_vectors(
        self, namespace_prefix: tuple[str, ...], *, limit: int = 1000
    ) -> Coroutine[Any, Any, list[ItemVectors]]:
        """Do what `get_vectors` does."""
        return self._runners.arun(self._reading_vectors(namespace_prefix, limit))

    def _reading_vectors(
        self, namespace_prefix: tuple[str, ...], limit: int
    ) -> Plan[list[ItemVectors]]:
        plan = get_vectors(self._context(), namespace_prefix, limit)
        return self._observed("get_vectors", plan, namespace=namespace_prefix)
