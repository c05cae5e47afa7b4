"""The line of a slow operation: one for each, with what took long and without values."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from pymongo import MongoClient

from mongomem import ConfigurationError, MongoCache, MongoMemory, MongoSaver, MongoStore
from mongomem.engine.commands import ListIndexes, RunCommand
from mongomem.engine.effects import DescribeConcerns, Sleep
from mongomem.errors import UnstorableValueError
from mongomem.telemetry import operation
from support.savers import KINDS, Calls, client_of

pytestmark = pytest.mark.shares_database

THREAD: Any = {"configurable": {"thread_id": "t-1", "checkpoint_ns": ""}}
NEVER = 10**9


@pytest.fixture(autouse=True)
def seconds(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Let a second pass between any two looks at the clock, so that times are known."""
    clock = count()
    monkeypatch.setattr(operation, "monotonic", lambda: float(next(clock)))
    return clock


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [one for one in caplog.records if one.getMessage().startswith("slow: ")]
    assert {(one.name, one.levelno) for one in found} <= {("mongomem", logging.WARNING)}
    return [one.getMessage().removeprefix("slow: ") for one in found]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_slow_operation_is_one_line(
    kind: str, mongo_uri: str, database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(kind, mongo_uri) as client:
        saver = Calls(MongoSaver(client, database_name, slow_ms=1), kind)
        store = Calls(MongoStore(client, database_name, slow_ms=1), kind)
        cache = Calls(MongoCache(client, database_name, slow_ms=1), kind)
        await saver("get_tuple", THREAD)
        await store("get", ("ada", "memories"), "k")
        await cache("get", [(("ns",), "k")])
    # Of a thread that is not found the process looks once whose the collections are.
    first, second, third = lines(caplog)
    assert re.fullmatch(
        r"saver\.get_tuple of thread 't-1' took \d+\.0 ms, \d+ round trips, "
        r"the slowest command \w+ on mongomem_\w+ 1000\.0 ms",
        first,
    )
    assert second == (
        "store.get of namespace ('ada', 'memories') took 3000.0 ms, 1 round trip, "
        "the slowest command Find on mongomem_store_items 1000.0 ms"
    )
    assert third == (
        "cache.get of namespace ('ns',) took 3000.0 ms, 1 round trip, "
        "the slowest command Find on mongomem_cache_entries 1000.0 ms"
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_an_embedding_is_no_round_trip_and_names_its_model(
    kind: str,
    seconds: Iterator[int],
    mongo_uri: str,
    database_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def slow(texts: Sequence[str]) -> list[list[float]]:
        for _ in range(1000):
            next(seconds)
        return [[1.0, 0.0] for _ in texts]

    model = "ours at mongodb://user:secret@host"
    index: Any = {"embed": slow, "dims": 2, "model": model}
    async with client_of(kind, mongo_uri) as client:
        store = Calls(MongoStore(client, database_name, index=index, slow_ms=1), kind)
        await store("put", ("ada",), "k", {"text": "a dog"})
        await store("search", ("ada",), query="animal")
    named = "by 'ours at mongodb://***@host'"
    put, search = lines(caplog)
    assert f" the slowest command EmbedDocuments {named} 1001000.0 ms" in put
    assert f" the slowest command EmbedQueries {named} 1001000.0 ms" in search


def test_a_command_names_what_it_needs() -> None:
    assert [one.title() for one in (Sleep(1), DescribeConcerns(), RunCommand({"ping": 1}))] == [
        *("Sleep", "DescribeConcerns", "RunCommand on the database"),
    ]
    assert ListIndexes("t").title() == "ListIndexes on t"


def test_from_the_threshold_on(
    mongo_client: MongoClient, database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    for slow_ms in (None, 3000.001, NEVER, 3000, 0):
        MongoStore(mongo_client, database_name, slow_ms=slow_ms).get(("a",), "k")
    assert len(lines(caplog)) == 2


def test_a_line_is_one_line_whatever_a_thread_is_called(
    mongo_client: MongoClient, database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    saver = MongoSaver(mongo_client, database_name, slow_ms=0)
    for thread_id in ("a\nb", "x" * 60_000, "\u2028", "mongodb://user:secret@host"):
        saver.get_tuple({"configurable": {"thread_id": thread_id}})
    found = lines(caplog)
    assert len(found) == 4
    assert all(len(one.splitlines()) == 1 and len(one) < 400 for one in found)
    assert "secret" not in caplog.text


def test_an_operation_that_fails_names_its_error_and_not_what_that_says(
    mongo_client: MongoClient, database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = MongoStore(mongo_client, database_name, slow_ms=0)
    with pytest.raises(UnstorableValueError, match="canary"):
        store.put(("a",), "k", {"canary": object()})
    assert lines(caplog) == [
        "store.put of namespace ('a',) took 1000.0 ms, 0 round trips, raised UnstorableValueError"
    ]


def test_a_memory_hands_it_on(
    mongo_client: MongoClient, database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory = MongoMemory(mongo_client, database_name, slow_ms=0)
    memory.saver.get_tuple(THREAD)
    memory.store.get(("a",), "k")
    memory.cache.get([(("ns",), "k")])
    assert [one.split(" ")[0] for one in lines(caplog)] == [
        "saver.get_tuple",
        "store.get",
        "cache.get",
    ]


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), True, "100", b"1", [1]])
@pytest.mark.parametrize("cls", [MongoSaver, MongoStore, MongoCache, MongoMemory])
def test_what_is_no_threshold_is_refused(cls: Any, wrong: Any, mongo_client: MongoClient) -> None:
    with pytest.raises(ConfigurationError, match="slow_ms must be milliseconds"):
        cls(mongo_client, slow_ms=wrong)
