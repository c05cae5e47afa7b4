"""The savers that are compared: how each is opened, measured in bytes, and made anew on the same
data.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.mongodb import MongoDBSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from psycopg.rows import dict_row
from pymongo import MongoClient
from pymongo.monitoring import CommandListener, CommandStartedEvent

from mongomem import MongoSaver
from saver_chat import Saver

DURABLE = frozenset({"insert", "update", "delete", "findAndModify", "bulkWrite"})
"""Commands that wait for the journal of a majority."""

OURS, SEALED, OFFICIAL, POSTGRES, IN_MEMORY = (
    "mongomem",
    "mongomem AES",
    "official",
    "Postgres",
    "InMemory",
)


@dataclass(frozen=True, slots=True)
class Size:
    """What a saver occupies, in bytes."""

    data: int
    index: int


class CommandCounter(CommandListener):
    """Counts the commands that a client sends."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()

    def started(self, event: CommandStartedEvent) -> None:
        self.sent[event.command_name] += 1

    def succeeded(self, event: Any) -> None:
        """Nothing to count: the start did."""

    def failed(self, event: Any) -> None:
        """Nothing to count: the start did."""

    @property
    def durable(self) -> int:
        return sum(count for name, count in self.sent.items() if name in DURABLE)


@dataclass(frozen=True, slots=True)
class Opened:
    """A saver on its own empty database.

    Attributes:
        saver: What runs the chat.
        size: Tells what it occupies.
        settle: Makes the server write to its files what it has put off, so that nobody else pays
            for it.
        fresh: Makes a saver that has read nothing yet, on the same data and connection, where it is
            a database.
        counted: Makes one whose commands are counted, where it is MongoDB.
        database: That database of MongoDB.
    """

    name: str
    saver: Saver
    size: Callable[[], Size]
    settle: Callable[[], Any]
    fresh: Callable[[], Saver] | None = None
    counted: Callable[[CommandCounter], Saver] | None = None
    database: Any = None


@dataclass(frozen=True, slots=True)
class Uris:
    """Where the servers are."""

    mongodb: str
    postgres: str


@dataclass(frozen=True, slots=True)
class Peer:
    """A row of the table of savers."""

    name: str
    open: Callable[[Uris], AbstractContextManager[Opened]] = field(repr=False)


def _on_mongodb(name: str, make: Callable[[Any, str], Saver]) -> Peer:
    @contextmanager
    def opened(uris: Uris) -> Iterator[Opened]:
        database = f"bench_{uuid4().hex}"
        counting: list[Any] = []

        def counted(counter: CommandCounter) -> Saver:
            counting.append(MongoClient(uris.mongodb, event_listeners=[counter]))
            return make(counting[-1], database)

        client: MongoClient[Any]
        with MongoClient(uris.mongodb) as client:
            try:
                yield Opened(
                    name,
                    make(client, database),
                    lambda: _mongodb_size(client, database),
                    lambda: client.admin.command("fsync"),
                    lambda: make(client, database),
                    counted,
                    client[database],
                )
            finally:
                for one in counting:
                    one.close()
                client.drop_database(database)

    return Peer(name, opened)


def _mongodb_size(client: Any, database: str) -> Size:
    client.admin.command("fsync")  # the size of an index is that of the last checkpoint on disk
    stats = client[database].command("dbStats")
    return Size(int(stats["dataSize"]), int(stats["indexSize"]))


@contextmanager
def _in_memory(_: Uris) -> Iterator[Opened]:
    saver = InMemorySaver()
    yield Opened(
        IN_MEMORY,
        saver,
        lambda: Size(_held([saver.storage, saver.blobs, saver.writes]), 0),
        gc.collect,
    )


def _held(value: Any) -> int:
    """Return how many bytes of serialized values containers hold."""
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return 0
    return sum(map(_held, value))


@contextmanager
def _postgres(uris: Uris) -> Iterator[Opened]:
    with psycopg.connect(
        uris.postgres, autocommit=True, prepare_threshold=0, row_factory=dict_row
    ) as connection:
        saver = PostgresSaver(connection)
        saver.setup()
        yield Opened(
            POSTGRES,
            saver,
            lambda: _postgres_size(connection),
            lambda: connection.execute("CHECKPOINT"),
            lambda: PostgresSaver(connection),
        )


def _postgres_size(connection: Any) -> Size:
    (found,) = connection.execute(
        "SELECT sum(pg_table_size(relid)) AS data, sum(pg_indexes_size(relid)) AS index FROM "
        "pg_stat_user_tables"
    ).fetchall()
    return Size(int(found["data"]), int(found["index"]))


def _sealed(client: Any, database: str) -> Saver:
    return MongoSaver(
        client,
        database,
        serde=EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef" * 2),
    )


PEERS = (
    _on_mongodb(OURS, MongoSaver),
    _on_mongodb(OFFICIAL, MongoDBSaver),
    Peer(POSTGRES, _postgres),
    Peer(IN_MEMORY, _in_memory),
    _on_mongodb(SEALED, _sealed),
)
