"""Listings, metadata and unusual values: what users of other savers ran into, and what is right
instead.
"""

from __future__ import annotations

import dataclasses
import enum
import random
from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pydantic
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pymongo import MongoClient

from mongomem.checkpoint.saver import MongoSaver
from mongomem.errors import InvalidInputError, SchemaVersionError
from support.graphs import Steps
from support.savers import KINDS, Calls, saver_of

THREAD: Any = {"configurable": {"thread_id": "t"}}


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: tuple[int, ...]


class Person(pydantic.BaseModel):
    name: str
    born: date


OWN = [(cls.__module__, cls.__name__) for cls in (Colour, Point, Person)]


pytestmark = pytest.mark.shares_database


@pytest.fixture
async def calls(mongo_uri: str, database_name: str, kind: str) -> AsyncIterator[Calls]:
    serde = JsonPlusSerializer(allowed_msgpack_modules=OWN)
    async with saver_of(kind, mongo_uri, database_name, serde=serde) as saver:
        yield Calls(saver, kind)


def includes(metadata: Any, wanted: Any) -> bool:
    """Say by brute force whether metadata includes what a filter wants."""
    if isinstance(wanted, dict):
        return isinstance(metadata, dict) and all(
            k in metadata and includes(metadata[k], v) for k, v in wanted.items()
        )
    return isinstance(metadata, bool) == isinstance(wanted, bool) and metadata == wanted


CHOICES: dict[str, list[Any]] = {
    "source": ["input", "loop", "update"],
    "run_id": ["run 1", "run 2"],
    "text": ["", "a", "x" * 3000, "none", "$where", "é\u2028"],
    "number": [0, 1, -1, 2**40, 1.5, 2**63 - 1],
    "flag": [True, False],
    "nothing": [None, 0],
    "nested": [
        {"a": {"b": 1}, "c": [1]},
        {"a": {"b": 2}},
        {"c": None, "a": 1},
        {},
        {"a.b": 1, "$a": 2},
    ],
}
FILTERS: list[dict[str, Any]] = [
    *({key: value} for key, values in CHOICES.items() for value in values),
    {"source": "loop", "flag": True, "nested": {"a": {"b": 1}}},
    {"number": True},
    {"number": 2**70},
    {"flag": 1},
    {"step": 3},
    {"nested": {"a": {}}},
    {"nested": {"$a": 2}},
    {"unknown": None},
    {"unknown": "x"},
    {"source": "loop", "unknown": 0},
    {},
]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_filter_with_limit_and_before_gives_what_brute_force_says(calls: Calls) -> None:
    dice = random.Random(3)
    for steps in (Steps(calls), Steps(calls, "t", "child:1"), Steps(calls, "u")):
        for _ in range(14):
            keys = dice.sample(sorted(CHOICES), 6)
            await steps.put({key: dice.choice(CHOICES[key]) for key in keys}, a=1)
    everything = await calls.list(None)
    identifiers = [one.config["configurable"]["checkpoint_id"] for one in everything]
    assert len(everything) == 42
    assert identifiers == sorted(identifiers, reverse=True)
    bounds = [None, everything[20].config]
    places: list[Any] = [
        None,
        THREAD,
        {"configurable": {"thread_id": "t", "checkpoint_ns": "child:1"}},
    ]
    for wanted, (limit, before, place) in product(
        FILTERS, [(None, None, places[1]), *product([2], bounds, places)]
    ):
        expected = [
            one
            for one in everything
            if all(
                one.config["configurable"][key] == part
                for key, part in (place or THREAD)["configurable"].items()
            )
            or place is None
            if before is None or one.config["configurable"]["checkpoint_id"] < identifiers[20]
            if includes(one.metadata, wanted)
        ]
        found = await calls.list(place, filter=wanted, before=before, limit=limit)
        assert found == expected[:limit], (wanted, limit, before, place)


@pytest.mark.parametrize("kind", KINDS)
async def test_limits(calls: Calls) -> None:
    steps = Steps(calls)
    for number in range(30):
        await steps.put(number=number)
    assert await calls.list(THREAD, limit=0) == []
    assert len(await calls.list(THREAD, limit=29)) == 29
    assert len(await calls.list(THREAD, limit=100)) == 30
    assert len(await calls.list(THREAD, before=THREAD)) == 30
    assert [one.config for one in await calls.list(steps.config)] == [steps.config]
    for wrong in (-1, True, 1.0, "1"):
        with pytest.raises(InvalidInputError):
            await calls.list(THREAD, limit=wrong)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_user_of_a_config_is_found_and_private_keys_are_not_stored(calls: Calls) -> None:
    for user, thread in (("ada", "t"), ("ada", "u"), ("bob", "v")):
        await Steps(calls, thread, "", user_id=user, __secret="s", __pregel_task_id="p").put(
            {"own": 1}, a=1
        )
    found = await calls.list(None, filter={"user_id": "ada"})
    assert sorted(one.config["configurable"]["thread_id"] for one in found) == ["t", "u"]
    assert all(
        one.metadata == {"source": "loop", "step": 0, "parents": {}, "own": 1, "user_id": "ada"}
        for one in found
    )
    assert {one.thread_id for one in await calls("list_threads", filter={"user_id": "ada"})} == {
        "u",
        "t",
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "given", [7, UUID("00000000-0000-4000-8000-000000000007"), "ünï/code\n$.x", "\x00"]
)
async def test_a_thread_id_works_as_its_string(given: Any, calls: Calls) -> None:
    await Steps(calls, given).put(a=1)
    as_text: Any = {"configurable": {"thread_id": str(given)}}
    assert (await calls("get_tuple", as_text)).checkpoint["channel_values"] == {"a": 1}
    assert len(await calls.list({"configurable": {"thread_id": given}})) == 1
    await calls("put_writes", (await calls("get_tuple", as_text)).config, [("a", 1)], "task")
    await calls("delete_thread", given)
    assert await calls("get_tuple", as_text) is None


@pytest.mark.parametrize("kind", KINDS)
async def test_an_empty_thread_id_is_nobodys_thread(calls: Calls) -> None:
    config: Any = {"configurable": {"thread_id": "", "checkpoint_ns": ""}}
    for work in (
        calls("get_tuple", config),
        calls("put_writes", config, [("a", 1)], "task"),
        calls.list(config),
        Steps(calls, "").put(a=1),
    ):
        with pytest.raises(InvalidInputError, match="thread_id of config is empty"):
            await work


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", ["\ud800", object(), 1.5, True, b"t", ["t"]])
async def test_a_thread_id_that_is_none_is_refused_clearly(wrong: Any, calls: Calls) -> None:
    config: Any = {"configurable": {"thread_id": wrong, "checkpoint_ns": "", "checkpoint_id": "c"}}
    for name, arguments in [
        ("get_tuple", (config,)),
        ("put_writes", (config, [("a", 1)], "task")),
        ("delete_thread", (wrong,)),
        ("prune", ([wrong],)),
    ]:
        with pytest.raises(InvalidInputError, match="thread_id"):
            await calls(name, *arguments)
    with pytest.raises(InvalidInputError, match="thread_id"):
        await Steps(calls, wrong).put(a=1)
    with pytest.raises(InvalidInputError, match="thread_id"):
        await calls.list(config)


VALUES: dict[str, Any] = {
    "large integer": 2**63 - 1,
    "sets": {1, 2},
    "frozen set": frozenset({"a"}),
    "enum": Colour.RED,
    "dataclass": Point(1, (2, 3)),
    "pydantic": Person(name="Ada", born=date(1815, 12, 10)),
    "tuple": (1, (2,)),
    "bytes": b"\x00\xff",
    "time": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=5))),
    "delta": timedelta(microseconds=1),
    "decimal": Decimal("1.10"),
    "uuid": UUID(int=7),
    "path": Path("/a/b"),
    "keys": {1: "int", (1, 2): "tuple", "a.b": 1, "$where": 2, "": 3},
    "looks like a reference": {"$ref": "c", "$id": 1},
    "floats": [float("inf"), -0.0, 1e300],
    "deep": {"a": [{"b": [{"c": None}]}]},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VALUES)
async def test_what_the_serializer_can_do_round_trips_everywhere(name: str, calls: Calls) -> None:
    value = VALUES[name]
    config = await Steps(calls).put({"own": value}, channel=value, long=[value, "x" * 10_000])
    await calls(
        "put_writes", config, [("channel", value), ("long", [value, "x" * 100_000])], "task"
    )
    found = await calls("get_tuple", config)
    truth = calls.target.serde.loads_typed(calls.target.serde.dumps_typed(value))
    kept = [
        found.checkpoint["channel_values"]["channel"],
        found.pending_writes[0][2],
        found.metadata["own"],
    ]
    kept += [found.checkpoint["channel_values"]["long"][0], found.pending_writes[1][2][0]]
    for one in kept:
        assert (one, type(one)) == (truth, type(truth))
    assert await calls.list(None) == [found]


@pytest.mark.parametrize("kind", KINDS)
async def test_arrays_round_trip_everywhere(calls: Calls) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    config = await Steps(calls).put({"own": array}, channel=array)
    await calls("put_writes", config, [("channel", array)], "task")
    found = await calls("get_tuple", config)
    for one in (
        found.checkpoint["channel_values"]["channel"],
        found.pending_writes[0][2],
        found.metadata["own"],
    ):
        np.testing.assert_array_equal(one, array, strict=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value", [2**70, open, (one for one in ())], ids=["2**70", "function", "generator"]
)
async def test_what_the_serializer_cannot_do_fails_the_same_way_everywhere(
    value: Any, calls: Calls
) -> None:
    steps = Steps(calls)
    before = await steps.put(a=1)
    serde = calls.target.serde
    try:
        serde.dumps_typed(value)
    except Exception as error:
        expected: Any = type(error)
    else:
        raise AssertionError("the serializer can")
    with pytest.raises(expected):
        await calls("put_writes", before, [("good", 1), ("bad", value)], "task")
    for metadata, channels in (({}, {"bad": value}), ({"bad": value}, {})):
        with pytest.raises(expected):
            await Steps(calls).put(metadata, good="x" * 10_000, **channels)
    assert await calls.list(None) == [await calls("get_tuple", before)]
    assert (await calls("get_tuple", before)).pending_writes == []


@pytest.mark.parametrize("kind", KINDS)
async def test_metadata_is_as_in_memory(calls: Calls) -> None:
    memory = Calls(InMemorySaver(), "blocking")
    told = []
    for target in (memory, calls):
        steps = Steps(
            target, "t", "", user_id="ada\x00", number=1.5, flag=True, odd=[1], langgraph_step=3
        )
        await steps.put({"nul": "a\x00b", "writes": {"node": {"x": 1}}}, a=1)
        told.append((await target("get_tuple", steps.config)).metadata)
    assert told[0] == told[1]


@pytest.mark.parametrize("kind_of", ["checkpoint", "thread", "write"])
def test_a_document_from_the_future_is_refused(
    kind_of: str, mongo_client: MongoClient, database_name: str
) -> None:
    async def fill() -> Any:
        steps = Steps(Calls(MongoSaver(mongo_client, database_name), "blocking"))
        await steps.put(a=1)
        await steps.calls("put_writes", steps.config, [("a", 1)], "task")
        return steps.config

    with pytest.raises(StopIteration) as finished:
        fill().send(None)
    config = finished.value.value
    database = mongo_client[database_name]
    writes = "mongomem_checkpoint_writes"
    place, query = (
        (writes, {}) if kind_of == "write" else ("mongomem_checkpoints", {"type": kind_of})
    )
    assert database[place].update_many(query, {"$set": {"schema_version": 99}}).modified_count == 1
    saver = MongoSaver(mongo_client, database_name)
    with pytest.raises(SchemaVersionError, match="99"):
        _ = (
            saver.get_tuple(config)
            if kind_of != "thread"
            else saver.put(config, empty_checkpoint(), {}, {})
        )
    assert list(saver.list(None)) == [] if kind_of != "thread" else saver.list_threads() == []
    assert saver.damaged_documents == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "config", [{"configurable": {}}, {"configurable": {"thread_id": None}}, {}, {"metadata": {}}]
)
async def test_a_config_without_a_thread_lists_nobodys(
    config: Any, kind: str, mongo_uri: str, database_name: str
) -> None:
    async with saver_of(kind, mongo_uri, database_name) as saver:
        calls = Calls(saver, kind)
        await Steps(calls, "a tenant's").put(a=1)
        with pytest.raises(InvalidInputError, match="thread_id"):
            await calls.list(config)
        assert len(await calls.list(None)) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [None, 0, 1, "", "no", [], {"$ne": None}])
async def test_what_is_no_dry_run_removes_nothing(
    wrong: Any, kind: str, mongo_uri: str, database_name: str
) -> None:
    async with saver_of(kind, mongo_uri, database_name) as saver:
        calls = Calls(saver, kind)
        steps = Steps(calls)
        for number in range(3):
            await steps.put(number=number)
        with pytest.raises(InvalidInputError, match="dry_run must be True or False"):
            await calls("prune", ["t"], dry_run=wrong)
        with pytest.raises(InvalidInputError, match="dry_run must be True or False"):
            await calls("delete_idle_threads", timedelta(microseconds=1), dry_run=wrong)
        assert len(await calls.list(None)) == 3
