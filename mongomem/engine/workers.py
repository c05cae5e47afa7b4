"""The threads that wait and compute on behalf of event loops.

They are mongomem's own and not those of ``asyncio.to_thread``: threads of that pool may all be
waiting for plans at the same time (sync nodes of a graph that call a saver), and no plan must need
one of them to go on.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Literal, TypeVar

T = TypeVar("T")

WORKER_THREADS = 64
"""Bound of the threads of each kind; made on demand, kept idle."""


async def in_worker(
    kind: Literal["command", "embedding"], function: Callable[..., T], *arguments: Any
) -> T:
    """Call a function in a worker thread, which sees the context variables of the caller.

    Kinds do not wait for each other: a slow embedder delays no command.
    """
    call = partial(contextvars.copy_context().run, function, *arguments)
    return await asyncio.get_running_loop().run_in_executor(_workers(kind), call)


@cache
def _workers(kind: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix=f"mongomem-{kind}")


if sys.platform != "win32":
    # A forked child inherits the pools without their threads: whatever is handed to them would wait
    # for ever.
    os.register_at_fork(after_in_child=_workers.cache_clear)
