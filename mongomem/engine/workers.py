"""The threads that wait and compute on behalf of event loops, and work beside the calls.

They are mongomem's own and not those of ``asyncio.to_thread``: threads of that pool may all be
waiting for plans at the same time (sync nodes of a graph that call a saver), and no plan must need
one of them to go on.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextvars
import os
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from typing import Any, Literal, TypeVar

from mongomem.engine.locks import Guarded

T = TypeVar("T")

WORKER_THREADS = 64
"""Bound of the threads of each kind; made on demand, kept idle."""

STOP_SECONDS = 5.0
"""How long an end waits for the command that is under way in the background."""


async def in_worker(
    kind: Literal["command", "embedding"], function: Callable[..., T], *arguments: Any
) -> T:
    """Call a function in a worker thread, which sees the context variables of the caller.

    Kinds do not wait for each other: a slow embedder delays no command.
    """
    call = partial(contextvars.copy_context().run, function, *arguments)
    return await asyncio.get_running_loop().run_in_executor(_workers(kind), call)


def in_threads(calls: Sequence[Callable[[], None]]) -> None:
    """Make calls at the same time, one of them in this thread. They wait for nobody."""
    *others, mine = calls
    begun: list[concurrent.futures.Future[None]] = []
    for call in others:
        try:
            begun.append(_workers("computation").submit(call))
        except RuntimeError:  # the interpreter ends, or the system gives no more threads
            call()
    try:
        mine()
    finally:
        concurrent.futures.wait(begun)
    for each in begun:
        each.result()


@cache
def _workers(kind: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix=f"mongomem-{kind}")


if sys.platform != "win32":
    # A forked child inherits the pools without their threads: whatever is handed to them would wait
    # for ever.
    os.register_at_fork(after_in_child=_workers.cache_clear)


class Background(Guarded):
    """Work beside the calls, a piece at a time: in a thread, or in a task of an event loop.

    It sees no context variables of whoever begins it, and ends with the process or its loop, or by
    `close` or `aclose`: a piece in a thread before its next command, one in a task at once.
    """

    __slots__ = ("_is_closed", "_piece", "_process")

    def __init__(self) -> None:
        self._is_closed = False
        self._piece: concurrent.futures.Future[None] | asyncio.Task[None] | None = None
        self._process = os.getpid()
        self._guard()
        _backgrounds.add(self)

    def in_thread(self, work: Callable[[Callable[[], bool]], None]) -> None:
        """Begin a piece in a thread, unless one is under way. It is given what says whether it may
        go on.
        """
        with self._lock, suppress(RuntimeError):  # the interpreter ends
            if not self._is_busy():
                piece: concurrent.futures.Future[None] = concurrent.futures.Future()
                # Not one of a pool, for whose threads the interpreter waits to the end.
                threading.Thread(
                    target=_fulfil,
                    args=(piece, work, self._may_go_on),
                    name="mongomem-background",
                    daemon=True,
                ).start()
                self._piece = piece

    def as_task(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin a piece as a task of the running loop, unless one is under way."""
        with self._lock:
            if not self._is_busy():
                make_task = asyncio.get_running_loop().create_task
                self._piece = contextvars.Context().run(make_task, work())

    def close(self) -> None:
        """Begin nothing more, and stop what is under way. Waits for it, unless that is a task."""
        piece = self._stop()
        if isinstance(piece, concurrent.futures.Future):
            concurrent.futures.wait([piece], STOP_SECONDS)

    async def aclose(self) -> None:
        """Do what `close` does, and wait for a task too."""
        piece = self._stop()
        if isinstance(piece, concurrent.futures.Future):
            await asyncio.wait([asyncio.wrap_future(piece)], timeout=STOP_SECONDS)
        elif piece is not None and piece.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([piece], timeout=STOP_SECONDS)

    def _stop(self) -> concurrent.futures.Future[None] | asyncio.Task[None] | None:
        """Begin nothing more; return what is under way and was told to stop."""
        with self._lock:
            self._is_closed, piece = True, self._piece
        if piece is None or piece.done() or self._process != os.getpid():
            return None
        if not isinstance(piece, concurrent.futures.Future):
            with suppress(RuntimeError):  # its loop is closed
                piece.get_loop().call_soon_threadsafe(piece.cancel)
        return piece

    def _is_busy(self) -> bool:
        """Say whether nothing may be begun. A piece of the process that this one was forked from
        is none of this one.
        """
        if self._process != os.getpid():
            self._process, self._piece = os.getpid(), None
        return self._is_closed or self._is_under_way()

    def _is_under_way(self) -> bool:
        return self._piece is not None and not self._piece.done()

    def _may_go_on(self) -> bool:
        return not self._is_closed


_backgrounds: weakref.WeakSet[Background] = weakref.WeakSet()
"""All there are, which end with the interpreter."""


def _fulfil(
    piece: concurrent.futures.Future[None],
    work: Callable[[Callable[[], bool]], None],
    may_go_on: Callable[[], bool],
) -> None:
    """Do a piece of work, in a thread of its own."""
    try:
        work(may_go_on)
    except BaseException as error:
        piece.set_exception(error)
        raise
    else:
        piece.set_result(None)


@atexit.register
def _close_all() -> None:
    for background in [*_backgrounds]:
        # One at rest has nothing to stop, and a daemon thread may hold its lock to the end.
        if background._is_under_way():
            background.close()
