"""One saver a kind of client, and one way to call it: the same test body for sync and async, mongod
and mongomock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import mongomock
from pymongo import AsyncMongoClient, MongoClient

from mongomem.checkpoint.saver import MongoSaver
from mongomem.engine.runners import Concerns, runners_for

KINDS = ("blocking", "threaded", "awaiting", "bridging", "mongomock")
"""MongoClient called sync and async; AsyncMongoClient called async, and sync from beside its loop;
mongomock sync."""


class Calls:
    """Calls a saver's or a store's methods by their sync names, in the way that its kind has."""

    def __init__(self, target: Any, kind: str) -> None:
        self.target = target
        self.is_async = kind in ("threaded", "awaiting")

    async def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self.is_async:
            return await getattr(self.target, f"a{name}")(*args, **kwargs)
        return getattr(self.target, name)(*args, **kwargs)

    async def list(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Collect what `list` or `alist` streams."""
        if self.is_async:
            return [one async for one in self.target.alist(*args, **kwargs)]
        return list(self.target.list(*args, **kwargs))


@contextmanager
def loop_in_thread() -> Iterator[Any]:
    """Run an event loop in a thread of its own; yield what has a coroutine run there and is awaited
    here.
    """
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def turn() -> None:
        ended = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), ended))
        await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(turn()), name="loop")
    thread.start()
    loop, ended = started.result()
    try:
        yield lambda coroutine: asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(coroutine, loop)
        )
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


def end(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop after what still runs on it, such as the monitors of a client that was
    closed.
    """

    async def cancel_all() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, asyncio.sleep(0), return_exceptions=True)

    loop.run_until_complete(cancel_all())
    loop.close()


async def client_used_here(uri: str) -> Any:
    """Make a client that belongs to the loop that runs here."""

    async def use() -> None:
        """Do nothing, as the first plan of the client."""

    client: Any = AsyncMongoClient(uri)
    await runners_for(client, "d", Concerns()).arun(use())
    return client


@asynccontextmanager
async def client_of(kind: str, uri: str) -> AsyncIterator[Any]:
    """Open a client of a kind."""
    if kind == "mongomock":
        yield mongomock.MongoClient()
    elif kind == "awaiting":
        async with AsyncMongoClient(uri) as client:
            yield client
    elif kind == "bridging":
        with loop_in_thread() as run:
            client = await run(client_used_here(uri))
            try:
                yield client
            finally:
                await run(client.close())
    else:
        with MongoClient(uri) as client:
            yield client


@asynccontextmanager
async def saver_of(kind: str, uri: str, db_name: str, **options: Any) -> AsyncIterator[MongoSaver]:
    """Make a saver on a client of a kind."""
    async with client_of(kind, uri) as client:
        yield MongoSaver(client, db_name, **options)
