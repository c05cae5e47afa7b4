"""Event loops seen from other threads: which one a client belongs to, and how a thread has a
coroutine run there.

A sync method on an ``AsyncMongoClient`` is called from a thread beside the client's event loop: a
sync node or tool under ``ainvoke``, a worker of a web framework. It hands its work to the loop
(`run_on`) and waits. It never waits for a loop that cannot answer: its own, one that has ended, or
one that is blocked.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from mongomem.engine.clients import PerClient
from mongomem.engine.clock import monotonic
from mongomem.errors import UsageError

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
"""How long a loop may do nothing of what other threads ask before a thread that waits for it gives
up."""

SLICE_SECONDS = 0.25
"""How often a waiting thread looks whether the loop still runs."""

RELIEF_SECONDS = 0.5
"""How long nothing may move while work waits for a thread of a loop, before the loop is given more
threads."""

MOST_THREADS = 512
"""How many threads a loop is given at most."""

AWAIT_INSTEAD = (
    "A sync method was called on the event loop of its AsyncMongoClient, which would wait for "
    "itself: await the async twin, whose name has an a in front (aput, aget_tuple, arecall, "
    "amemory_map, graph.ainvoke, ...), call it from another thread (asyncio.to_thread), or build "
    "on a pymongo.MongoClient, which serves sync and async callers alike."
)
UNKNOWN = (
    "A sync method was called, but this AsyncMongoClient belongs to no event loop yet that could "
    "do the work: use it there first (await an async method, enter `async with "
    "...from_conn_string(uri)`, or make the saver or store inside the running loop), or build on a "
    "pymongo.MongoClient, which serves sync and async callers alike."
)
NOT_RUNNING = (
    "A sync method was called, but the event loop of its AsyncMongoClient {state}, so nobody can "
    "do the work: call it while the loop runs, or build on a pymongo.MongoClient, which serves "
    "sync and async callers alike."
)
STOPPED = (
    "The event loop of an AsyncMongoClient {state} while a sync method waited for it. The call was "
    "cancelled; if it writes, some of it may have been done, and it can be repeated. Let the loop "
    "run until its threads have ended."
)
BLOCKED = (
    "A sync method waited for the event loop of its AsyncMongoClient, which does nothing: "
    "something blocks it, perhaps by waiting for this very thread. The call {state}. Await in the "
    "loop instead of blocking it (asyncio.to_thread, asyncio.wrap_future), or build on a "
    "pymongo.MongoClient, which needs no loop."
)
ELSEWHERE = (
    "This AsyncMongoClient belongs to another event loop: PyMongo binds one to the loop that first "
    "uses it. Make a client in this loop, or enter `async with ...from_conn_string(uri)` here: "
    "each loop that enters it gets a client of its own."
)

Loop = asyncio.AbstractEventLoop


def running_loop() -> Loop | None:
    """Return the event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class ClientLoop:
    """The event loop that an ``AsyncMongoClient`` belongs to, as far as that is known.

    The loop in which a saver or store is made counts until the client is used; the one that uses it
    first is its own.
    """

    __slots__ = ("_is_bound", "_loop", "_thread")

    def __init__(self) -> None:
        self._loop: weakref.ref[Loop] | None = None
        self._thread = 0
        self._is_bound = False

    def meet(self) -> None:
        """Take the loop that runs here, if any, for the client's, unless that is known better."""
        running = running_loop()
        if running is not None and not self._is_bound:
            self._loop, self._thread = weakref.ref(running), threading.get_ident()

    def enter(self) -> None:
        """Use the client in the loop that runs here.

        Raises:
            UsageError: It belongs to another one.
        """
        running = asyncio.get_running_loop()
        if not self._is_bound:
            self._loop, self._is_bound = weakref.ref(running), True
        if self._loop is None or self._loop() is not running:
            raise UsageError(ELSEWHERE)
        self._thread = threading.get_ident()

    def beside(self) -> Loop:
        """Return the loop, for a caller who is to wait for it.

        Raises:
            UsageError: It does not run, is not known, or this thread runs it, perhaps below another
                loop.
        """
        here, loop = running_loop(), None if self._loop is None else self._loop()
        if self._loop is None:
            raise UsageError(UNKNOWN if here is None else AWAIT_INSTEAD)
        if loop is None or loop.is_closed():
            raise UsageError(NOT_RUNNING.format(state="has ended"))
        if not loop.is_running():
            raise UsageError(NOT_RUNNING.format(state="does not run"))
        if here is loop or threading.get_ident() == self._thread:
            raise UsageError(AWAIT_INSTEAD)
        return loop


loops_of_clients: PerClient[ClientLoop] = PerClient(lambda _client: ClientLoop())
"""What is known of each client's loop, by all that is built on the client."""


def run_on(loop: Loop, coroutine: Coroutine[Any, Any, T], patience: float | None) -> T:
    """Have a coroutine run on the loop of another thread, and wait for its result.

    It sees the context variables of the caller. Where the wait ends before it does, by Ctrl-C for
    one, it is cancelled.

    Args:
        loop: The loop, which runs in another thread.
        coroutine: Closed if it never runs.
        patience: How long the loop may do nothing, in seconds. None: as long as it likes.

    Raises:
        UsageError: The loop ended, stopped or did nothing for too long.
    """
    errand = _Errand(loop, coroutine)
    try:
        try:
            errand.wait(patience)
        except BaseException:
            errand.withdraw()
            raise
        return errand.result.result()
    finally:
        del errand  # or an error of the coroutine would hold this frame, which holds the error


class _Errand(Generic[T]):
    """A coroutine that one thread wants run on the loop of another."""

    def __init__(self, loop: Loop, coroutine: Coroutine[Any, Any, T]) -> None:
        self.loop = loop
        self.coroutine = coroutine
        self.result: concurrent.futures.Future[T] = concurrent.futures.Future()
        self.task: asyncio.Task[T] | None = None
        self.heard_at = monotonic()
        self.has_answered = True
        self.was_running = True

    def wait(self, patience: float | None) -> None:
        """Wait for the end of the coroutine, whatever that is."""
        self._send(self._begin)
        while not self.result.done():
            # Only the slice times out here: `exception` raises none of the coroutine's errors.
            with suppress(concurrent.futures.TimeoutError):
                self.result.exception(SLICE_SECONDS)
                return
            self._check(patience)

    def withdraw(self) -> bool:
        """Take it back; say whether it had not begun, and so never will."""
        if self.result.cancel():
            self.coroutine.close()
            return True
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._cancel)
        return False

    def _check(self, patience: float | None) -> None:
        """Give up where the loop will not answer any more; else ask it for a sign of life."""
        self._check_running()
        if patience is not None and monotonic() - self.heard_at > patience:
            state = (
                "was withdrawn before it began"
                if self.withdraw()
                else "was cancelled, and may have been done"
            )
            raise UsageError(BLOCKED.format(state=state))
        if self.has_answered:
            self.has_answered = False
            self._send(self._answer)

    def _check_running(self) -> None:
        """Raise where the loop is closed or does not run. Between two runs it is not running for a
        moment, so it has to be found so twice in a row.
        """
        is_running = self.loop.is_running()
        if self.loop.is_closed() or not (is_running or self.was_running):
            raise UsageError(STOPPED.format(state="ended" if self.loop.is_closed() else "stopped"))
        self.was_running = is_running

    def _send(self, call: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(call)
        except RuntimeError:
            raise UsageError(STOPPED.format(state="ended")) from None

    # What follows runs on the loop.

    def _answer(self) -> None:
        self.heard_at, self.has_answered = monotonic(), True
        _relieve(self.loop)

    def _begin(self) -> None:
        # Before the workers are looked at: until now nothing was there to move.
        _workers_of(self.loop).move()
        self._answer()
        if self.result.set_running_or_notify_cancel():
            self.task = self.loop.create_task(self.coroutine)
            self.task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[T]) -> None:
        _workers_of(self.loop).move()
        if task.cancelled():
            self.result.set_exception(UsageError(STOPPED.format(state="was ending")))
        elif (error := task.exception()) is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


@dataclass(slots=True)
class _Workers:
    """The worker threads of a loop that is waited for. Used on that loop alone.

    Sync nodes and ``asyncio.to_thread`` run in the loop's default executor; so does what PyMongo
    needs for a new connection, the look-up of the address and the TLS handshake. Where all threads
    of it wait for coroutines that need one of them, none would ever come free: then they are given
    more, for as long as work waits. A queue that only is long moves, and is left alone.

    Attributes:
        moved_at: When an errand last began or ended there.
        own_limit: How many threads there may be by the executor's own limit, while it is lifted.
    """

    moved_at: float = field(default_factory=lambda: monotonic())
    own_limit: int | None = None

    def move(self) -> None:
        """Take note that an errand began or ended."""
        self.moved_at = monotonic()

    def relieve(self, executor: concurrent.futures.ThreadPoolExecutor) -> None:
        """Lift the limit where work waits and nothing moves; put it back where no work waits."""
        pool: Any = executor  # what is counted here has these names in CPython 3.10 to 3.14
        waits = pool._work_queue.qsize()
        if not waits and self.own_limit is not None:
            pool._max_workers, self.own_limit = self.own_limit, None
        if not waits or monotonic() - self.moved_at < RELIEF_SECONDS:
            return
        self.move()
        self.own_limit = self.own_limit or pool._max_workers
        more = max(0, min(waits, len(pool._threads), MOST_THREADS - pool._max_workers))
        pool._max_workers += more
        with suppress(RuntimeError):  # it is shut down
            for _ in range(more):  # each of which makes a thread
                executor.submit(int)


_workers: weakref.WeakKeyDictionary[Loop, _Workers] = weakref.WeakKeyDictionary()
"""By the loops that threads have waited for."""


def _workers_of(loop: Loop) -> _Workers:
    return _workers.setdefault(loop, _Workers())


def _relieve(loop: Loop) -> None:
    """Relieve the workers of a loop. asyncio shows nobody the executor that a loop has by default:
    without it, nothing.

    It has this name in CPython 3.10 to 3.14.
    """
    executor = getattr(loop, "_default_executor", None)
    if isinstance(executor, concurrent.futures.ThreadPoolExecutor):
        _workers_of(loop).relieve(executor)
