"""Damaged documents: every field of every kind of document in every wrong state, over every operation.

What is asked for by name is the truth or a typed error. What is listed is the truth without the damaged. Nothing else
is ever raised, and a thread can be deleted whatever is damaged of it.
"""

from __future__ import annotations

import copy
import math
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import bson
import pytest
from bson.datetime_ms import DatetimeMS
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from pymongo import MongoClient

from graphs import Steps
from mongomem.checkpoint.documents import all_but_the_thread
from mongomem.checkpoint.saver import MongoSaver
from mongomem.errors import MongomemError
from saver_fixtures import Calls, client_of

CHECKPOINTS, WRITES = "mongomem_checkpoints", "mongomem_checkpoint_writes"

MISSING = object()

DEEP: Any = [0]
for _ in range(90):
    DEEP = [DEEP]

STATES: dict[str, Any] = {
    "missing": MISSING,
    "none": None,
    "true": True,
    "text": "x",
    "bytes": b"x" * 17,
    "no bytes": b"",
    "empty list": [],
    "list": [b"\x01" * 16, 5],
    "no fields": {},
    "operator": {"$gt": 1},
    "negative": -1,
    "large": 2**62 + 2**61,
    "largest": 2**63 - 1,
    "fraction": 1.5,
    "no number": math.nan,
    "infinite": math.inf,
    "decimal": bson.Decimal128("7"),
    "object id": bson.ObjectId("0" * 24),
    "year 10000": DatetimeMS(253402300800000),
    "no year": DatetimeMS(2**63 - 1),
    "year 1": datetime(1, 1, 1, tzinfo=timezone.utc),
    "pattern": re.compile("x"),
    "deep": DEEP,
    "long": "x" * 100_000,
}

FEW = ("missing", "none", "text", "negative", "largest", "no number", "year 10000", "operator", "deep")


def paths(document: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every field of a document but its `_id`."""
    places = document.items() if isinstance(document, dict) else enumerate(document[:2])
    for key, value in places:
        if key != "_id":
            yield (*above, key)
            if isinstance(value, dict | list):
                yield from paths(value, (*above, key))


def damaged(document: dict[str, Any], path: tuple[Any, ...], state: Any) -> dict[str, Any]:
    """Return a document with one field in another state."""
    changed: Any = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    if state is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = state
    return dict(changed)


class World:
    """A filled database that is put back as it was after each damage."""

    def __init__(self, client: Any, kind: str, name: str, looker: Any, **options: Any) -> None:
        self.client, self.kind, self.name, self.options = client, kind, name, options
        self.database = looker[name]
        self.documents: dict[str, list[dict[str, Any]]] = {}
        self.raw: list[str] = []
        self.truth: Any = None
        self.older: Any = None
        self.listed: list[Any] = []

    def calls(self) -> Calls:
        """Return a saver that remembers nothing."""
        return Calls(MongoSaver(self.client, self.name, auto_setup=False, **self.options), self.kind)

    async def fill(self) -> None:
        """Store every kind of document there is: long values with names of names, pending writes, a subgraph."""
        source = random.Random(7)
        calls = self.calls()
        other = await Steps(calls, "other", user_id="ada").put({"run_id": "r0"}, a=1)
        steps = Steps(calls, "t", user_id="ada")
        await steps.put({"run_id": "r1"}, a="a" * 3000, long=source.randbytes(60_000), small=1)
        await steps.put({"run_id": "r2"}, long=source.randbytes(60_000))
        newest = await steps.put({"run_id": "r3"}, small=2)
        await calls("put_writes", newest, [("small", 3), ("long", source.randbytes(80_000))], "task")
        await Steps(calls, "t", "child", user_id="ada").put({"run_id": "r3"}, a=1)
        self.documents = {name: list(self.database[name].find()) for name in (CHECKPOINTS, WRITES)}
        self.newest, self.other = newest, other
        fresh = self.calls()
        self.truth = await fresh("get_tuple", newest)
        self.listed = await fresh.list(None)
        self.threads = await fresh("list_threads")

    def restore(self) -> None:
        for name, documents in self.documents.items():
            self.database[name].delete_many({})
            self.database[name].insert_many(documents)

    def kinds(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield one document of each kind: the collection and the document."""
        stored, names = self.documents[CHECKPOINTS], {"thread": None, "checkpoint": None}
        newest = self.newest["configurable"]["checkpoint_id"]
        for kind in names:
            yield next(
                (kind, CHECKPOINTS, one)
                for one in stored
                if one.get("type") == kind and one["thread_id"] == "t" and one.get("checkpoint_id", newest) == newest
            )
        record = next(one for one in stored if one.get("checkpoint_id") == newest)
        long = next(one for one in record["channels"] if one["channel"] == "long")
        assert len(long["chunks"]) > 1
        chunks = {one["_id"][12:]: one for one in stored if one.get("type") == "chunk"}
        yield "names", CHECKPOINTS, chunks[bytes(long["chunks"][0][:16])]
        for one in self.documents[WRITES]:
            yield ("long write" if "chunks" in one else "write"), WRITES, one
            if "chunks" in one:
                yield "chunk", CHECKPOINTS, chunks[bytes(one["chunks"][0][:16])]

    async def attempt(self, what: str, work: Any, right: Callable[[Any], bool]) -> None:
        """Await what may be right, or end in a typed error; keep what else it does."""
        try:
            found = await work
        except MongomemError:
            return
        except Exception as error:
            self.raw.append(f"{what}: {type(error).__name__}: {error!s:.200}")
        else:
            if not right(found):
                self.raw.append(f"{what}: a wrong answer: {found!r:.200}")


def answers(world: World, path: tuple[Any, ...], state: str) -> Callable[[Any], bool]:
    """Return what says whether an answer to a read by name is right."""
    cut_off = path[-1] in ("parent_is_hidden", "parent_checkpoint_id")

    def right(found: Any) -> bool:
        if found is None:
            return path == ("hidden",)
        return found == world.truth or (cut_off and found == world.truth._replace(parent_config=None))

    return right


@pytest.fixture(params=["plain", "encrypted"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "plain":
        return {}
    return {"serde": EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32), "clear_metadata": ["run_id", "user_id"]}


@pytest.fixture
async def world(
    mongo_uri: str, mongo_client: MongoClient, database_name: str, kind: str, options: dict[str, Any]
) -> AsyncIterator[World]:
    async with client_of(kind, mongo_uri) as client:
        looker = client if kind == "mongomock" else mongo_client
        made = World(client, kind, database_name, looker, **options)
        await made.fill()
        yield made


def states(kind: str, path: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the states to try."""
    for name, state in STATES.items():
        yield name, state


async def read_all(world: World, what: str, path: tuple[Any, ...], state: str) -> None:
    """Do everything that only reads."""
    right = answers(world, path, state)
    calls = world.calls()
    await world.attempt(f"{what}: get_tuple", calls("get_tuple", world.newest), right)
    thread = {"configurable": {"thread_id": "t"}}
    known = [one for one in world.listed if one.config["configurable"]["checkpoint_ns"] == ""]
    cut = [one._replace(parent_config=None) for one in known]
    await world.attempt(f"{what}: newest", world.calls()("get_tuple", thread), lambda one: one in known or one in cut)
    calls = world.calls()
    all_known = [*world.listed, *[one._replace(parent_config=None) for one in world.listed]]
    listings: list[tuple[Any, dict[str, Any]]] = [(None, {}), (thread, {"filter": {"run_id": "r3"}})]
    listings += [(thread, {"limit": 2}), (world.newest, {})] if state in FEW else []
    for query, options in listings:
        await world.attempt(
            f"{what}: list {query} {options}",
            calls.list(query, **options),
            lambda found: all(one in all_known for one in found),
        )
    found = await calls.list(None)
    if not any(one.config == world.other for one in found):
        world.raw.append(f"{what}: the other thread is not listed")
    if state not in FEW:
        return
    await world.attempt(
        f"{what}: history",
        world.calls()("get_delta_channel_history", config=world.newest, channels=["long", "none"]),
        lambda found: True,
    )
    await world.attempt(f"{what}: threads", world.calls()("list_threads"), lambda found: len(found) >= 1)
    await world.attempt(
        f"{what}: filtered", world.calls()("list_threads", filter={"user_id": "ada"}), lambda found: len(found) >= 1
    )
    await world.attempt(
        f"{what}: idle",
        world.calls()("delete_idle_threads", timedelta(microseconds=1), dry_run=True),
        lambda found: len(found) >= 1,
    )
    await world.attempt(f"{what}: dry run", world.calls()("prune", ["t"], dry_run=True), lambda found: True)


async def change_all(world: World, what: str) -> None:
    """Do everything that writes, each on the damaged database."""
    collection = world.database

    def put(calls: Calls) -> Any:
        steps = Steps(calls, "t", user_id="ada")
        steps.config = world.newest
        return steps.put(a=2)

    operations: dict[str, Callable[[Calls], Any]] = {
        "put": put,
        "writes": lambda calls: calls("put_writes", world.newest, [("small", 3), ("long", b"l" * 80_000)], "task"),
        "prune": lambda calls: calls("prune", ["t"]),
        "runs": lambda calls: calls("delete_for_runs", ["r2"]),
        "copy": lambda calls: calls("copy_thread", "t", "copy"),
        "delete": lambda calls: calls("delete_thread", "t"),
    }
    before = {name: list(collection[name].find()) for name in world.documents}
    for name, work in operations.items():
        try:
            await work(world.calls())
        except MongomemError:
            if name == "delete":
                world.raw.append(f"{what}: delete: typed, but raised")
            if name in ("prune", "runs"):
                after = {one: list(collection[one].find()) for one in world.documents}
                if repr(before) != repr(after):
                    world.raw.append(f"{what}: {name}: half done")
            if name == "copy" and await world.calls().list({"configurable": {"thread_id": "copy"}}):
                world.raw.append(f"{what}: {name}: half done")
        except Exception as error:
            world.raw.append(f"{what}: {name}: {type(error).__name__}: {error!s:.200}")
        if name == "delete":
            left = {"_id": all_but_the_thread("t")["_id"]}
            count = sum(collection[one].count_documents(left) for one in world.documents)
            if count:
                world.raw.append(f"{what}: delete left {count}")
        for one, documents in before.items():
            collection[one].delete_many({})
            collection[one].insert_many(documents)


async def tour(world: World, chosen: Callable[[str, tuple[Any, ...], str], bool], changes: bool) -> None:
    for kind, collection, document in world.kinds():
        for path in paths(document):
            for state, value in STATES.items():
                if not chosen(kind, path, state):
                    continue
                what = f"{kind} {'.'.join(map(str, path))} {state}"
                changed = damaged(document, path, value)
                world.database[collection].replace_one({"_id": document["_id"]}, changed)
                await (change_all(world, what) if changes else read_all(world, what, path, state))
                world.database[collection].replace_one({"_id": document["_id"]}, document)


@pytest.mark.parametrize("kind", ["blocking"])
async def test_reading(world: World) -> None:
    await tour(world, lambda *_: True, changes=False)
    print(len(world.raw))
    assert not world.raw, "\n".join(world.raw)


@pytest.mark.parametrize("kind", ["blocking"])
async def test_changing(world: World) -> None:
    await tour(world, lambda kind, path, state: state in FEW, changes=True)
    assert not world.raw, "\n".join(world.raw)
