"""What a LangGraph server enters, once in each of its event loops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from mongomem.checkpoint.saver import MongoSaver
from mongomem.engine.client_context import ClientContext
from mongomem.errors import ConfigurationError
from mongomem.langgraph.settings import URI, Environment
from mongomem.local_server.server import local_uri
from mongomem.memory import MongoMemory
from mongomem.store.store import MongoStore

logger = logging.getLogger("mongomem")


@asynccontextmanager
async def checkpointer(**options: Any) -> AsyncIterator[MongoSaver]:
    """Open the saver that a LangGraph server is to use: ``mongomem.langgraph.checkpointer``.

    See `memory`.
    """
    async with memory(**options) as entered:
        yield entered.saver


@asynccontextmanager
async def store(**options: Any) -> AsyncIterator[MongoStore]:
    """Open the store that a LangGraph server is to use: ``mongomem.langgraph.store``.

    See `memory`.
    """
    async with memory(**options) as entered:
        yield entered.store


@asynccontextmanager
async def memory(**options: Any) -> AsyncIterator[MongoMemory]:
    """Open both memories as the environment of a LangGraph server says.

    The server is that of ``MONGODB_URI``, and the database the one that it names, else
    ``mongomem``. Under ``langgraph dev`` without that variable it is the local server
    (`mongomem.local_uri`). ``store.index`` and ``store.ttl`` of ``langgraph.json`` reach the store,
    ``checkpointer.ttl`` and ``checkpointer.serde`` the saver.

    Whoever enters without options in one event loop shares one client.

    Args:
        **options: Those of `MongoMemory.from_conn_string`; they win over the environment.

    Raises:
        ConfigurationError: ``MONGODB_URI`` is missing, or an option cannot be used; names it.
        ServerUnavailableError: No server answers there.
        LocalServerError: The local server cannot start.
    """
    # In a thread: files are read, and the local server may have to start.
    opening = await asyncio.to_thread(_opening, options)
    async with opening as entered:
        yield entered


def _opening(options: dict[str, Any]) -> ClientContext[MongoMemory]:
    environment = Environment.read()
    return _opened_by(environment, options) if options else _shared_opening(environment)


@lru_cache(maxsize=1)
def _shared_opening(environment: Environment) -> ClientContext[MongoMemory]:
    return _opened_by(environment, {})


def _opened_by(environment: Environment, options: dict[str, Any]) -> ClientContext[MongoMemory]:
    return MongoMemory.from_conn_string(_uri(environment), **environment.options() | options)


def _uri(environment: Environment) -> str:
    if environment.uri:
        return environment.uri
    if environment.is_dev:
        logger.info("%s is not set: threads and items are in the local server", URI)
        return local_uri()
    raise ConfigurationError(
        f"{URI} is not set: it says which MongoDB holds the threads and the items, for example "
        "mongodb://localhost:27017/app"
    )
