"""What InMemorySaver stores is stored: the same calls and serializer give the same, or the same
kind of error.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import os
import re
import threading
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pydantic
import pytest
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, _DeltaSnapshot
from langgraph.store.base import Item
from langgraph.types import Command, Interrupt, Send
from pydantic.v1 import BaseModel as OldModel

from mongomem.checkpoint.saver import MongoSaver
from mongomem.checkpoint.serde.default import default_serializer
from mongomem.errors import UnstorableValueError
from support.savers import KINDS, Calls, client_of


class Colour(Enum):
    RED = "red"


class Word(str, Enum):
    YES = "yes"


class Level(IntEnum):
    LOW = 1


class Rights(Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any


@dataclasses.dataclass(slots=True)
class Slotted:
    x: Any


class Person(pydantic.BaseModel):
    name: str
    born: date | None = None
    tags: set[str] = set()
    secret: pydantic.SecretStr | None = None


class OldPerson(OldModel):
    name: str
    age: int = 0


class Pair(NamedTuple):
    left: Any
    right: Any


Old = namedtuple("Old", "a b")  # noqa: PYI024 (what older code has)


class Text(str):
    """A text of the application's own class."""


class Plain:
    """An object that only pickle can store."""

    def __init__(self) -> None:
        self.x = 1

    def __eq__(self, other: object) -> bool:
        return type(other) is Plain and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return 1


def messages(count: int = 10) -> list[Any]:
    kinds: tuple[Any, ...] = (HumanMessage, AIMessage, SystemMessage)
    return [kinds[number % 3](f"message {number}", id=f"m{number}") for number in range(count)]


def odd_messages() -> list[Any]:
    """Return messages with whatever they may hold, among plain ones."""
    calls = [{"name": "look", "args": {"at": {"x": [1, None]}}, "id": "c1"}]
    return [
        *messages(),
        AIMessage("", tool_calls=calls, id="t"),
        ToolMessage(
            "found",
            tool_call_id="c1",
            artifact={"raw": bytearray(b"\x00"), "at": date(2026, 1, 1)},
            id="f",
        ),
        ToolMessage([{"type": "text", "text": "x"}], tool_call_id="c1", status="error", id="g"),
        HumanMessage(
            [{"type": "image_url", "image_url": {"url": "data:"}}],
            additional_kwargs={"a": (1, 2)},
            id="h",
        ),
        HumanMessage("named", name="ada", own="extra", id="n"),
        AIMessage(
            "used",
            usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
            id="u",
        ),
        RemoveMessage(id="m1"),
        Document("text", metadata={"set": {1}}),
        HumanMessage("without an id"),
    ]


def deep(levels: int) -> Any:
    value: Any = None
    for _ in range(levels):
        value = {"a": [value]}
    return value


VALUES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "flags": lambda: [True, False, 1, 0, 1.0],
    "integers": lambda: [0, -1, 2**63 - 1, -(2**63), 2**64 - 1],
    "an integer beyond 64 bits": lambda: 2**64,
    "a long integer": lambda: 2**70,
    "a negative long integer": lambda: -(2**70),
    "floats": lambda: [math.nan, math.inf, -math.inf, -0.0, 1e300],
    "complex": lambda: 1 + 2j,
    "texts": lambda: ["", "a\x00b", "ünï", "😀", "x" * 100_000],
    "a surrogate": lambda: "\ud800",
    "bytes": lambda: b"\x00\xff",
    "no bytes": lambda: b"",
    "a bytearray": lambda: bytearray(b"\x00\xff"),
    "an empty bytearray": lambda: bytearray(),
    "a long bytearray": lambda: bytearray(os.urandom(1) * 100_000),
    "a memoryview": lambda: memoryview(b"view"),
    "a strided memoryview": lambda: memoryview(b"viewview")[::2],
    "buffers in containers": lambda: {"a": [bytearray(b"x"), b"y", (bytearray(b"z"),)]},
    "empty containers": lambda: [[], {}, (), set(), frozenset(), deque(), "", b"", None],
    "sets": lambda: {1, "a", (2,)},
    "a frozen set": lambda: frozenset({1}),
    "deques": lambda: [deque([1, 2]), deque([1], maxlen=3)],
    "dicts of other classes": lambda: [OrderedDict(a=1), Counter("aab"), defaultdict(list, a=[1])],
    "a range": lambda: range(3),
    "tuples": lambda: (1, (2, [3])),
    "named tuples": lambda: [Pair(1, {2}), Old(1, 2)],
    "uuids": lambda: [UUID(int=7), {"a": UUID(int=8)}],
    "decimals": lambda: [Decimal("1.10"), Decimal("NaN"), Decimal("-Infinity"), Decimal("1E+5")],
    "a fraction": lambda: Fraction(1, 3),
    "times": lambda: [
        datetime(2026, 1, 2, 3, 4, 5, 678901),  # noqa: DTZ001 (naive on purpose)
        datetime(2026, 1, 2, tzinfo=timezone.utc),
        datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime.max.replace(tzinfo=timezone.utc),
        date(1, 1, 1),
        time(3, 4, 5, 6),
        time(3, tzinfo=timezone.utc),
        timedelta(days=-1, microseconds=1),
        timezone.utc,
        ZoneInfo("Asia/Tokyo"),
    ],
    "enums": lambda: [Colour.RED, Word.YES, Level.LOW, Rights.READ, Rights.READ | Rights.WRITE],
    "dataclasses": lambda: [Point(1, Point({2}, Frozen(3))), Slotted(b"x")],
    "models": lambda: [
        Person(name="Ada", born=date(1815, 12, 10), tags={"a"}),
        Person.model_construct(name=5),
    ],
    "a model with a secret": lambda: Person(name="Ada", secret=pydantic.SecretStr("s")),
    "a secret": lambda: pydantic.SecretStr("s"),
    "models of pydantic 1": lambda: OldPerson(name="Ada", age=36),
    "paths": lambda: [Path("/a/b"), PurePosixPath("c")],
    "patterns": lambda: [re.compile("a+", re.IGNORECASE), re.compile("b")],
    "addresses": lambda: [
        *map(ipaddress.ip_address, ("1.2.3.4", "::1")),
        *map(ipaddress.ip_network, ("1.2.3.0/24", "fe80::/64")),
        *map(ipaddress.ip_interface, ("1.2.3.4/24", "fe80::1/64")),
    ],
    "arrays": lambda: [
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(10)[::2],
        np.array([], dtype=np.int8),
        np.array(5.5),
        np.array([True, False]),
        np.array(["a", "bc"]),
        np.array(["2026-01-01"], dtype="datetime64[D]"),
    ],
    "a large array": lambda: np.arange(100_000, dtype=np.int64),
    "an array of objects": lambda: np.array([{"a": 1}, None], dtype=object),
    "a structured array": lambda: np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "numbers of numpy": lambda: [np.float64(1.5), np.float32(1.5), np.int32(3), np.bool_(True)],
    "sends": lambda: [Send("node", {"a": {1}}), Send("node", None)],
    "interrupts": lambda: [Interrupt(value={"q": {1}}, id="i"), Interrupt(value=None, id="j")],
    "commands": lambda: [
        Command(update={"a": 1}, goto="b"),
        Command(goto=[Send("n", 1)]),
        Command(resume={"x": 1}),
    ],
    "items": lambda: Item(
        value={"a": 1},
        key="k",
        namespace=("a", "b"),
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        updated_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
    ),
    "a snapshot": lambda: _DeltaSnapshot([1, {2}]),
    "exceptions": lambda: [ValueError("x"), KeyError("y")],
    "messages": messages,
    "odd messages": odd_messages,
    "many messages": lambda: messages(600),
    "messages among others": lambda: [*messages(), {1}, b"x", None, (1,), Colour.RED],
    "messages beside what cannot be stored": lambda: [*messages(), 2**70],
    "messages with a surrogate": lambda: [*messages(), HumanMessage("\ud800", id="s")],
    "keys of other kinds": lambda: {1: "int", (1, 2): "tuple", None: 0, 1.5: 1, False: 2, b"b": 3},
    "keys that mean something": lambda: {
        "a.b": 1,
        "$where": 2,
        "": 3,
        "\x00": 4,
        "$ref": "c",
        "$id": 1,
        "_id": 5,
    },
    "texts of other classes": lambda: [Text("x"), {Text("k"): 1}],
    "deep": lambda: deep(30),
    "deeper": lambda: deep(100),
    "too deep": lambda: deep(3000),
    "a loop": lambda: (lambda loop: loop.append(loop) or loop)([]),
    "a function": lambda: len,
    "a lambda": lambda: lambda: 1,
    "a generator": lambda: (one for one in ()),
    "a class": lambda: Person,
    "a lock": threading.Lock,
    "an object": Plain,
    "dots": lambda: ...,
}

KEY = b"k" * 32

SERIALIZERS: dict[str, Callable[[], Any]] = {
    "default": default_serializer,
    "open": JsonPlusSerializer,
    "pickle": lambda: JsonPlusSerializer(pickle_fallback=True),
    "encrypted": lambda: EncryptedSerializer.from_pycryptodome_aes(key=KEY),
    "encrypted pickle": lambda: EncryptedSerializer.from_pycryptodome_aes(
        JsonPlusSerializer(pickle_fallback=True), key=KEY
    ),
}


def alike(one: Any, other: Any) -> bool:
    """Say whether two values are equal, of equal types, however deep, and also where they hold
    themselves.
    """
    pairs, met = [(one, other)], set()
    while pairs:
        pair = pairs.pop()
        inner = _inner(*pair)
        if inner is None:
            return False
        if inner and (ids := tuple(map(id, pair))) not in met:
            met.add(ids)
            pairs += inner
    return True


def _inner(one: Any, other: Any) -> list[tuple[Any, Any]] | None:
    """Return the pairs of what is in two values, on which it depends whether they are alike; None:
    they are not.
    """
    if type(one) is not type(other):
        return None
    if isinstance(one, Mapping | list | tuple | deque):
        parts = [
            [*each, *each.values()] if isinstance(each, Mapping) else [*each]
            for each in (one, other)
        ]
        return list(zip(*parts, strict=True)) if len(parts[0]) == len(parts[1]) else None
    if hasattr(one, "__dict__") and not isinstance(
        one, type | Enum | Path | re.Pattern | np.ndarray
    ):
        return [(vars(one), vars(other))]
    if isinstance(one, Interrupt | Send | Item | Slotted):
        return [(getattr(one, name), getattr(other, name)) for name in one.__slots__]
    return [] if _are_equal(one, other) else None


def _are_equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return bool(
            one.dtype == other.dtype and one.shape == other.shape and one.tolist() == other.tolist()
        )
    if isinstance(one, float | np.floating | Decimal) and one != one:
        return bool(other != other)
    return bool(one == other)


async def outcome(work: Any) -> Any:
    """Return what was given, or the class of the error."""
    try:
        return await work
    except Exception as error:
        return type(error)


def told(found: Any) -> Any:
    """Return what a checkpoint tells, whoever gave it."""
    if found is None or isinstance(found, type):
        return found
    return {
        "id": found.config["configurable"]["checkpoint_id"],
        "checkpoint": {field: value for field, value in found.checkpoint.items() if field != "ts"},
        "metadata": dict(found.metadata),
        "writes": list(found.pending_writes or ()),
        "parent": (found.parent_config or {}).get("configurable", {}).get("checkpoint_id"),
    }


class Both:
    """Makes the same calls on both savers, and compares what comes of them."""

    def __init__(self, ours: Calls, memory: Calls, name: str) -> None:
        self.ours, self.memory, self.name = ours, memory, name
        self.different: list[str] = []

    async def call(self, what: str, method: str, *arguments: Any) -> Any:
        """Call a method of both; return the answer of the one in memory."""
        theirs = await outcome(self.memory(method, *copied(arguments)))
        ours = await outcome(self.ours(method, *copied(arguments)))
        if method == "get_tuple":
            theirs, ours = told(theirs), told(ours)
        fails = isinstance(theirs, type) or isinstance(ours, type)
        if not (_fail_alike(theirs, ours) if fails else alike(theirs, ours)):
            self.different.append(f"{self.name}: {what}: {theirs!r:.300} != {ours!r:.300}")
        return theirs


def _fail_alike(theirs: Any, ours: Any) -> bool:
    """Say whether both failed; ours says of every value that no serializer takes that it is one."""
    return (
        isinstance(theirs, type)
        and isinstance(ours, type)
        and issubclass(ours, UnstorableValueError | theirs)
    )


def copied(arguments: Any) -> Any:
    """Copy the containers of arguments, and share what is in them."""
    if type(arguments) is dict:
        return {key: copied(value) for key, value in arguments.items()}
    if type(arguments) is tuple:
        return tuple(copied(value) for value in arguments)
    return arguments


def checkpoint(number: int, values: dict[str, Any]) -> dict[str, Any]:
    return {
        "v": 4,
        "id": f"1f000000-0000-6000-8000-{number:012}",
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, f"{number:032}.{number}"),
        "versions_seen": {},
        "updated_channels": sorted(values),
    }


async def store_everywhere(both: Both, value: Callable[[], Any]) -> None:
    """Store a value in every place there is, and read it back as often as caches begin to
    matter.
    """
    place: dict[str, Any] = {"thread_id": both.name, "checkpoint_ns": ""}
    root: Any = {"configurable": place}
    step = {"source": "loop", "step": 0, "parents": {}}
    before = checkpoint(1, {"a": 1})
    await both.call("before", "put", root, before, step, before["channel_versions"])
    at: Any = {"configurable": {**place, "checkpoint_id": before["id"]}}
    places: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"own": value()}, {"b": 1}),
        ({}, {"whole": value()}),
        (
            {},
            {
                "within": [value(), {"x": value()}],
                "long": "x" * 20_000,
                "list": [*messages(), value()],
            },
        ),
        ({"nested": {"a": [value()]}}, {"c": (value(),)}),
    ]
    for number, (metadata, values) in enumerate(places, 2):
        made = checkpoint(number, values)
        await both.call(f"put {number}", "put", at, made, step | metadata, made["channel_versions"])
        read: Any = {"configurable": {**place, "checkpoint_id": made["id"]}}
        for attempt in range(3):
            await both.call(f"read {number} {attempt}", "get_tuple", read)
    for task, writes in {
        "channel": [("channel", value())],
        "interrupt": [(INTERRUPT, (Interrupt(value=value(), id="i"),))],
        "resume": [(RESUME, [value()]), (ERROR, value())],
        "long": [("long", [value(), "x" * 100_000])],
    }.items():
        await both.call(f"write {task}", "put_writes", at, writes, task)
        await both.call(f"written {task}", "get_tuple", at)


async def put_back(both: Both) -> None:
    """Read the newest checkpoint and put what was read once more, as a graph does."""
    root: Any = {"configurable": {"thread_id": both.name, "checkpoint_ns": ""}}
    for number in (20, 21):
        for calls in (both.memory, both.ours):
            found = await calls("get_tuple", root)
            made = checkpoint(number, found.checkpoint["channel_values"])
            metadata = {key: one for key, one in found.metadata.items() if key != "step"} | {
                "step": number
            }
            await calls("put", found.config, made, metadata, made["channel_versions"])
        await both.call(f"put back {number}", "get_tuple", root)


@pytest.fixture
async def ours(
    mongo_uri: str, database_name: str, serializer: str, kind: str
) -> AsyncIterator[Calls]:
    async with client_of(kind, mongo_uri) as client:
        yield Calls(MongoSaver(client, database_name, serde=SERIALIZERS[serializer]()), kind)


COMBINATIONS = [("default", kind) for kind in KINDS] + [
    (name, "blocking") for name in SERIALIZERS if name != "default"
]


@pytest.mark.parametrize(("serializer", "kind"), COMBINATIONS)
async def test_the_same_calls_give_the_same_as_in_memory(ours: Calls, serializer: str) -> None:
    different: list[str] = []
    memory = Calls(InMemorySaver(serde=SERIALIZERS[serializer]()), "blocking")
    for name, value in VALUES.items():
        both = Both(ours, memory, name)
        await store_everywhere(both, value)
        await put_back(both)
        await both.call("delete", "delete_thread", name)  # mongomock copies all there is to read
        different += both.different
    assert different == []
