"""Inspector: the queries of this folder on one memory. Every method is one expression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from mongomem.checkpoint.documents.config import Identifier
from mongomem.engine.commands import Document, Plan
from mongomem.inspection.context import Context
from mongomem.inspection.difference import Difference, differences
from mongomem.inspection.examination.examination import looks
from mongomem.inspection.examination.findings import Findings
from mongomem.inspection.history import History, history
from mongomem.inspection.memories import (
    Memory,
    NamespaceSize,
    index_of,
    memories,
    namespace_page,
    namespaces,
)
from mongomem.inspection.presence import Presence, presence
from mongomem.inspection.sizes import FIRST, size_page
from mongomem.inspection.state import State, state
from mongomem.inspection.statistics import Statistics, collection_size
from mongomem.inspection.thread_channels import ChannelUse, channel_uses
from mongomem.inspection.threads import SizedThread, sized_threads, user_filter
from mongomem.memory import MongoMemory

T = TypeVar("T")


class Inspector:
    """Looks at what a memory has stored. Writes nothing.

    Its methods are sync alone: commands, notebooks and jobs wait for an answer, and nothing that
    serves users asks. In an event loop run them by ``asyncio.to_thread``, also on an
    ``AsyncMongoClient``.

    Args:
        memory: The memory, on a ``MongoClient``, or on an ``AsyncMongoClient`` from another thread
            than that of its event loop.

    Does no I/O. Errors: `mongomem.errors`; those of the driver pass through.
    """

    def __init__(self, memory: MongoMemory) -> None:
        self._memory = memory

    def presence(self) -> Presence:
        """Look which collections of mongomem the database has."""
        return self._run(presence(self._context().prefix))

    def threads(
        self,
        *,
        user: Identifier | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 20,
        before: datetime | str | None = None,
    ) -> list[SizedThread]:
        """Return threads, the one updated last first, with what each holds.

        Args:
            user: Only threads of that user.
            filter: What the metadata must contain.
            limit: How many at most.
            before: Only threads updated before that time, or behind the thread of that id.
        """
        context = self._context()
        wanted = user_filter(context, user, filter or {})
        return self._run(sized_threads(context, wanted, limit, before))

    def history(
        self, thread_id: Identifier, *, namespace: str | None = None, limit: int = 200
    ) -> History:
        """Return the newest checkpoints of a thread, of one checkpoint namespace or of all.

        Raises:
            ThreadNotFoundError: It has none.
        """
        return self._run(history(self._context(), thread_id, namespace, limit))

    def state(
        self, thread_id: Identifier, checkpoint: str | None = None, *, namespace: str = ""
    ) -> State:
        """Return the state at the checkpoint that an id, or the end of one, names; without, at the
        newest.

        Raises:
            ThreadNotFoundError: The thread has none in that namespace.
            InvalidInputError: None ends so, or several do.
            CorruptDataError: It is damaged.
        """
        return self._run(state(self._context(), thread_id, namespace, checkpoint))

    def difference(
        self, thread_id: Identifier, one: str, other: str, *, namespace: str = ""
    ) -> tuple[State, State, list[Difference]]:
        """Return two states of a thread, and what became of the channels of one in the other.

        Raises as `state`.
        """
        before = self.state(thread_id, one, namespace=namespace)
        after = self.state(thread_id, other, namespace=namespace)
        return before, after, differences(before, after)

    def memories(
        self,
        prefix: Sequence[str] = (),
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 20,
        offset: int = 0,
    ) -> list[Memory]:
        """Find items below a namespace as `MongoStore.search` does, with the parts of their scores.
        No item lives on for that it was found.
        """
        return self._run(memories(self._context(), prefix, query, filter, limit, offset))

    def index(self) -> Document | None:
        """Return how the items of the store are embedded: model, dims, fields, metric, analyser;
        None where none is.
        """
        return self._run(index_of(self._context()))

    def namespaces(
        self,
        prefix: Sequence[str] = (),
        *,
        suffix: Sequence[str] = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[NamespaceSize]:
        """List namespaces as `MongoStore.list_namespaces` does, with what they hold."""
        return self._run(namespaces(self._context(), prefix, suffix, max_depth, limit, offset))

    def channels(self, thread_id: Identifier) -> dict[str, ChannelUse]:
        """Return what each channel of a thread holds, the largest first.

        Raises:
            ThreadNotFoundError: There is no such thread.
            CorruptDataError: A checkpoint is damaged.
        """
        return self._run(channel_uses(self._context(), thread_id))

    def examination(self, *, may_be_new: bool = True) -> Iterator[tuple[str, Findings]]:
        """Look for what is wrong or slow; before each look yield what it is about, and the one
        object that the findings are added to.

        Args:
            may_be_new: Whether a database without collections of mongomem is as it should be: else
                that is a warning.
        """
        context, findings = self._context(), Findings()
        for what, look in looks(context, findings, may_be_new=may_be_new):
            yield what, findings
            self._run(look())

    def statistics(self, *, most: int = 10) -> Iterator[Statistics]:
        """Add up what the database holds, page by page; yield the one object that grows after each
        page. Reads every document once, on the server.

        Args:
            most: How many of the largest threads, channels and namespaces are kept.
        """
        context, found = self._context(), Statistics(most)
        for name in context.collections.values():
            if (size := self._run(collection_size(name))) is not None:
                found.collections.append(size)
        yield found
        yield from self._add_threads(context, found)
        yield from self._add_namespaces(context, found)
        found.is_whole = True
        yield found

    def _add_threads(self, context: Context, found: Statistics) -> Iterator[Statistics]:
        after: bytes | None = FIRST
        while after is not None:
            page = self._run(size_page(context, after))
            found.add_threads(page)
            after = page.last
            yield found
        found.end_thread()

    def _add_namespaces(self, context: Context, found: Statistics) -> Iterator[Statistics]:
        after: str | None = ""
        while after is not None:
            items = self._run(namespace_page(context, after))
            found.add_namespaces(items)
            after = items.last
            yield found
        found.end_namespace()

    def _context(self) -> Context:
        memory = self._memory
        return Context(
            memory.saver._context(),
            memory.store._context(),
            memory.cache._options.names.entries,
            memory._user_key,
        )

    def _run(self, plan: Plan[T]) -> T:
        return self._memory._runners.run(plan)
