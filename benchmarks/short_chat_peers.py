"""The savers of short chats, opened for sync callers and for an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.mongodb import MongoDBSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from pymongo import AsyncMongoClient, MongoClient

from mongomem import MongoSaver
from saver_chat import Saver
from saver_peers import IN_MEMORY, OFFICIAL, OURS, POSTGRES, Uris

WORKERS = 16
"""Threads of the sync conversations, and connections of each pool of Postgres."""

THREADED = "mongomem, threads"
"""Async methods on a ``MongoClient``, as the official saver has them."""

CONNECTION: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


@contextmanager
def sync_savers(uris: Uris) -> Iterator[dict[str, Saver]]:
    """Yield the savers for sync callers, each on an empty database."""
    with ExitStack() as stack:
        pool = stack.enter_context(
            ConnectionPool(uris.postgres, max_size=WORKERS, kwargs=CONNECTION)
        )
        in_postgres = PostgresSaver(pool)
        in_postgres.setup()
        yield {
            OURS: mongodb_saver(stack, uris.mongodb, MongoSaver),
            OFFICIAL: mongodb_saver(stack, uris.mongodb, MongoDBSaver),
            POSTGRES: in_postgres,
            IN_MEMORY: InMemorySaver(),
        }


def mongodb_saver(stack: ExitStack | AsyncExitStack, uri: str, made: Any) -> Saver:
    """Make a saver on a client and a database of its own, which end with the stack."""
    database = f"bench_{uuid4().hex}"
    client = stack.enter_context(MongoClient(uri))
    stack.callback(client.drop_database, database)
    saver: Saver = made(client, database)
    return saver


@asynccontextmanager
async def async_savers(uris: Uris) -> AsyncIterator[dict[str, Saver]]:
    """Yield the savers for the running event loop, each on an empty database."""
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(
            AsyncConnectionPool(uris.postgres, max_size=WORKERS, open=False, kwargs=CONNECTION)
        )
        in_postgres = AsyncPostgresSaver(pool)
        await in_postgres.setup()
        client = await stack.enter_async_context(AsyncMongoClient(uris.mongodb))
        database = f"bench_{uuid4().hex}"
        stack.push_async_callback(client.drop_database, database)
        yield {
            OURS: MongoSaver(client, database),
            OFFICIAL: mongodb_saver(stack, uris.mongodb, MongoDBSaver),
            POSTGRES: in_postgres,
            IN_MEMORY: InMemorySaver(),
            THREADED: mongodb_saver(stack, uris.mongodb, MongoSaver),
        }
