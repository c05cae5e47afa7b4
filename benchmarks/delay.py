"""A database that is some milliseconds away: a proxy on loopback that holds back what passes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote_plus

from pymongo.uri_parser import parse_uri

CHUNK_BYTES = 65_536


@contextmanager
def delayed(uri: str, round_trip_seconds: float) -> Iterator[str]:
    """Yield the connection string of the same server behind a proxy that holds back every chunk, in
    each direction for half of the round trip.
    """
    parsed = parse_uri(uri)
    host, port = parsed["nodelist"][0]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    proxy = _Proxy(host, port, round_trip_seconds / 2)
    try:
        own_port = asyncio.run_coroutine_threadsafe(proxy.start(), loop).result()
        user = parsed["username"]
        login = f"{quote_plus(user)}:{quote_plus(parsed['password'])}@" if user else ""
        source = "&authSource=admin" if user else ""
        yield f"mongodb://{login}127.0.0.1:{own_port}/?directConnection=true{source}"
    finally:
        asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Proxy:
    def __init__(self, host: str, port: int, delay_seconds: float) -> None:
        self._target = host, port
        self._delay = delay_seconds
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Listen on a free port of loopback; return it."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Listen no more, and drop the connections."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        for source, target in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.create_task(self._pass_on(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Write each chunk when it is due, in order; close the target behind the last."""
        loop = asyncio.get_running_loop()
        while data := await source.read(CHUNK_BYTES):
            loop.call_later(self._delay, target.write, data)
        loop.call_later(self._delay, target.close)
