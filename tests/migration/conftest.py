"""A real Postgres, from which threads and items come."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.store.postgres import PostgresStore
from psycopg.conninfo import make_conninfo

from benchmarks.servers import postgres

SET_UP = "set_up"
"""The database that the others are copies of: to make the tables takes longer."""


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[str]:
    """A server with one database, which has the empty tables of a saver and a store."""
    with postgres() as uri:
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {SET_UP}")
        own = make_conninfo(uri, dbname=SET_UP)
        with PostgresSaver.from_conn_string(own) as saver:
            saver.setup()
        with PostgresStore.from_conn_string(own) as store:
            store.setup()
        yield uri


@pytest.fixture
def postgres_uri(postgres_server: str) -> str:
    """A database with empty tables that nobody else uses. It ends with the server."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {SET_UP}")
    return make_conninfo(postgres_server, dbname=name)
