"""What a notebook or a log shows of a memory: where it is and how it finds, and no secret. No
server answers here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import mongomock
import pytest
from pymongo import AsyncMongoClient, MongoClient

from mongomem import MongoCache, MongoMemory, MongoSaver, MongoStore, Retention

URI = "mongodb://ada:hunter2@127.0.0.1:9/?authSource=admin"
KEY = "sk-abcdefghijklmnopqrstuvwxyz"
PLACE = "db_name='app', collection_prefix='p_'"
INDEX = {"embed": "local", "dims": 256}


def embed(texts: list[str]) -> list[list[float]]:
    raise AssertionError("a repr embeds nothing")


@pytest.fixture(params=["sync", "async", "mongomock"])
async def client(request: pytest.FixtureRequest) -> Any:
    if request.param == "mongomock":
        yield mongomock.MongoClient(URI, connect=False)
    elif request.param == "sync":
        with MongoClient(URI, connect=False) as blocking:
            yield blocking
    else:
        async with AsyncMongoClient(URI, connect=False) as awaited:
            yield awaited


@pytest.fixture
def made(client: Any) -> Callable[..., Any]:
    return lambda kind, **options: kind(client, "app", collection_prefix="p_", **options)


async def test_database_and_prefix_are_told(made: Callable[..., Any]) -> None:
    for kind in (MongoMemory, MongoSaver, MongoStore, MongoCache):
        assert repr(made(kind)) == f"{kind.__name__}({PLACE})"


@pytest.mark.parametrize(
    ("index", "told"),
    [
        (INDEX, "model='local:wordllama-256', dims=256, rank='hybrid'"),
        ({**INDEX, "rank": "vector"}, "model='local:wordllama-256', dims=256, rank='vector'"),
        ({"rank": "words"}, "rank='words'"),
        ({"embed": embed, "dims": 3, "model": "own-v1"}, "model='own-v1', dims=3, rank='hybrid'"),
    ],
    ids=["hybrid", "vector", "words", "named"],
)
async def test_an_index_is_told(index: Any, told: str, made: Callable[..., Any]) -> None:
    assert repr(made(MongoStore, index=index)) == f"MongoStore({PLACE}, {told})"
    assert repr(made(MongoMemory, index=index)) == f"MongoMemory({PLACE}, {told})"


async def test_a_retention_is_told(made: Callable[..., Any]) -> None:
    policy = Retention(keep_last=2, older_than=timedelta(days=7))
    told = "Retention(keep_last=2, older_than=datetime.timedelta(days=7))"
    assert repr(policy) == told
    for kind in (MongoMemory, MongoSaver):
        assert repr(made(kind, retention=policy)) == f"{kind.__name__}({PLACE}, retention={told})"


async def test_no_secret_is_told(made: Callable[..., Any]) -> None:
    shown = repr(made(MongoMemory, index={"embed": embed, "dims": 3, "model": f"m {KEY}"}))
    assert shown.startswith(f"MongoMemory({PLACE}, model=")
    for secret in (KEY, "hunter2", "127.0.0.1", "mongodb:"):
        assert secret not in shown
    assert repr(MongoMemory.from_conn_string(URI)) == "MongoMemory.from_conn_string(...)"


async def test_looking_at_a_store_does_not_settle_the_address_of_its_model(
    made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is read at the first use: a notebook shows a store before that."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    store = made(MongoStore, index={"embed": "openai:text-embedding-3-small", "dims": 1536})
    assert "model='openai:text-embedding-3-small', dims=1536" in repr(store)
    monkeypatch.setitem(os.environ, "OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert store._context().configured.embedder.fingerprint.endswith(" at http://127.0.0.1:9/v1")
