"""What the methods of the TTL sweeper return, in the form of LangGraph's other stores.

These stores delete expired items by a thread or a task. Here the server does, by a TTL index. So
what is returned is done already, and nothing has to be stopped.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeAlias

from mongomem.arguments import shown
from mongomem.errors import InvalidInputError
from mongomem.store.documents.ttl import checked_minutes
from mongomem.store.documents.value import plain

Started: TypeAlias = Future[None]


def start(sweep_interval_minutes: object) -> Started:
    """Return what ``PostgresStore.start_ttl_sweeper`` does, done.

    Raises:
        InvalidInputError: The interval is none. It has no effect.
    """
    checked_minutes(sweep_interval_minutes, "sweep_interval_minutes")
    done: Started = Future()
    done.set_result(None)
    return done


def awaitable(started: Started) -> asyncio.Future[None]:
    """Make what ``AsyncPostgresStore.start_ttl_sweeper`` returns: something to await or cancel on
    the running loop.
    """
    return asyncio.wrap_future(started)


def stop(timeout: object) -> bool:
    """Return True: nothing in this process deletes expired items.

    Raises:
        InvalidInputError: The timeout is neither None nor a number of seconds from 0 on.
    """
    seconds = plain(timeout)
    if seconds is not None and (
        isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0
    ):
        raise InvalidInputError(
            f"timeout counts seconds: it must be 0 or more, or None, not {shown(timeout)}"
        )
    return True
