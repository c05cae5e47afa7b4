"""Damaged documents: every field of every kind of document in every wrong state, over every
operation.

What is asked for by name is the truth or a typed error. What is listed is the truth without the
damaged. Nothing else is ever raised, and a thread can be deleted whatever is damaged of it."""

from __future__ import annotations

import copy
import math
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import bson
import pytest
from bson.datetime_ms import DatetimeMS
from Crypto.Cipher import AES
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from pymongo import MongoClient

from mongomem import MongoMemory
from mongomem.checkpoint.documents.collections import all_but_the_thread
from mongomem.checkpoint.saver import MongoSaver
from mongomem.engine.commands import DECODING
from mongomem.errors import MongomemError
from support.graphs import Steps
from support.savers import KINDS, Calls, client_of

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

UNSORTABLE = ("decimal", "year 10000", "no year")
"""Those that mongomock cannot sort by."""

FEW = (
    "missing",
    "none",
    "text",
    "negative",
    "largest",
    "no number",
    "year 10000",
    "operator",
    "deep",
)
"""Those that also the slower operations meet."""

FEWEST = ("missing", "none", "text", "largest", "year 10000")
"""Those that operations which write meet."""

THREAD: Any = {"configurable": {"thread_id": "t"}}

Path = tuple[Any, ...]


def paths(document: Any, above: Path = ()) -> Iterator[Path]:
    """Yield the way to every field of a document but its `_id`; of lists to the first two
    elements.
    """
    for key, value in document.items() if isinstance(document, dict) else enumerate(document[:2]):
        if key != "_id":
            yield (*above, key)
            if isinstance(value, dict | list):
                yield from paths(value, (*above, key))


def damaged(document: dict[str, Any], path: Path, state: Any) -> dict[str, Any]:
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
    """A filled database with a look behind the saver; what went wrong is kept in `wrong`."""

    newest: Any
    other: Any
    truth: Any
    listed: list[Any]
    documents: dict[str, list[dict[str, Any]]]

    def __init__(self, client: Any, kind: str, database: Any, **options: Any) -> None:
        self.client, self.kind, self.database, self.options = client, kind, database, options
        self.wrong: list[str] = []

    def calls(self) -> Calls:
        """Return a saver that remembers nothing."""
        return Calls(
            MongoSaver(self.client, self.database.name, auto_setup=False, **self.options), self.kind
        )

    async def fill(self) -> World:
        """Store every kind of document there is: long values with names of names, pending writes, a
        subgraph.
        """
        source, calls = random.Random(7), self.calls()
        self.other = await Steps(calls, "other", user_id="ada").put({"run_id": "r0"}, a=1)
        steps = Steps(calls, "t", user_id="ada")
        await steps.put({"run_id": "r1"}, long=source.randbytes(20_000), small=1)
        await steps.put({"run_id": "r2"}, long=source.randbytes(90_000))
        self.newest = await steps.put({"run_id": "r3"}, small=2)
        await calls(
            "put_writes", self.newest, [("small", 3), ("long", source.randbytes(80_000))], "task"
        )
        await Steps(calls, "t", "child", user_id="ada").put({"run_id": "r3"}, a=1)
        self.documents = {name: list(self.database[name].find()) for name in (CHECKPOINTS, WRITES)}
        self.truth = await self.calls()("get_tuple", self.newest)
        self.listed = await self.calls().list(None)
        return self

    def restore(self, documents: dict[str, list[dict[str, Any]]]) -> None:
        """Put back what is no more as it was: a few of many documents, after most operations."""
        for name, former in documents.items():
            collection = self.database[name]
            found = {one["_id"]: bson.encode(one) for one in collection.find()}
            lacking = [one for one in former if found.pop(one["_id"], None) != bson.encode(one)]
            if outdated := [*found, *(one["_id"] for one in lacking)]:
                collection.delete_many({"_id": {"$in": outdated}})
            if lacking:
                collection.insert_many(lacking)

    def save(self, collection: str, document: dict[str, Any]) -> None:
        self.database[collection].replace_one({"_id": document["_id"]}, document)

    def kinds(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield one document of each kind, and where it is."""
        stored = self.documents[CHECKPOINTS]
        newest = self.newest["configurable"]["checkpoint_id"]
        thread = next(
            one for one in stored if one.get("type") == "thread" and one["thread_id"] == "t"
        )
        record = next(one for one in stored if one.get("checkpoint_id") == newest)
        yield "thread", CHECKPOINTS, thread
        yield "checkpoint", CHECKPOINTS, record
        chunks = {one["_id"][12:]: one for one in stored if one.get("type") == "chunk"}
        long = next(one for one in record["channels"] if one["channel"] == "long")
        assert len(long["chunks"]) > 1
        yield "names", CHECKPOINTS, chunks[bytes(long["chunks"][0][:16])]
        for write in self.documents[WRITES]:
            yield "write", WRITES, write
            if "chunks" in write:
                yield "chunk", CHECKPOINTS, chunks[bytes(write["chunks"][0][:16])]

    def memory(self) -> MongoMemory:
        return MongoMemory(
            self.client, self.database.name, auto_setup=False, saver_options=self.options
        )

    async def exported(self) -> list[Any]:
        """Return all of the user."""
        if self.kind in ("threaded", "awaiting"):
            return [one async for one in self.memory().aexport_user("ada")]
        return list(self.memory().export_user("ada"))

    async def attempt(self, what: str, work: Awaitable[Any], right: Callable[[Any], bool]) -> None:
        """Await what may be right, or end in a typed error; keep what else it does."""
        try:
            found = await work
        except MongomemError:
            return
        except Exception as error:
            self.wrong.append(f"{what}: {type(error).__name__}: {error!s:.200}")
        else:
            if not right(found):
                self.wrong.append(f"{what}: a wrong answer: {found!r:.200}")

    async def change(self, what: str, work: Awaitable[Any], *, may_raise: bool = True) -> bool:
        """Await what may end in a typed error, if it may; say whether it did, and keep what else it
        does.
        """
        try:
            await work
        except MongomemError as error:
            if not may_raise:
                self.wrong.append(f"{what}: {error!s:.200}")
            return True
        except Exception as error:
            self.wrong.append(f"{what}: {type(error).__name__}: {error!s:.200}")
        return False

    def stored(self) -> str:
        """Return a text of all that is stored."""
        found = (self.database[name].find() for name in self.documents)
        return repr([sorted(map(repr, documents)) for documents in found])


def answers(world: World, kind: str, path: Path, state: str) -> Callable[[Any], bool]:
    """Return what says whether an answer to a read by name is right.

    A parent that was taken away is no damage, but what a removal does, and a thread of a later
    epoch what a deletion does. A write that says to be of another checkpoint is not found."""
    cut_off = path[-1] in ("parent_is_hidden", "parent_checkpoint_id")
    overtaken = (kind, path[0], state) == ("thread", "epoch", "large")
    loses_a_write = kind == "write" and path[0] in ("thread_id", "checkpoint_ns", "checkpoint_id")

    def right(found: Any) -> bool:
        if found is None:
            return overtaken
        if loses_a_write:
            fewer = [one for one in world.truth.pending_writes if one in found.pending_writes]
            return bool(found == world.truth._replace(pending_writes=fewer))
        return found == world.truth or (
            cut_off and found == world.truth._replace(parent_config=None)
        )

    return right


async def read_all(world: World, kind: str, path: Path, state: str) -> None:
    """Do everything that only reads."""
    what = f"{kind} {'.'.join(map(str, path))} {state}"
    right = answers(world, kind, path, state)
    known = [one for one in world.listed if one != world.truth]

    def is_known(one: Any) -> bool:
        return one in known or right(one)

    await world.attempt(f"{what}: get_tuple", world.calls()("get_tuple", world.newest), right)
    await world.attempt(f"{what}: newest", world.calls()("get_tuple", THREAD), is_known)
    calls = world.calls()
    await world.attempt(
        f"{what}: list",
        calls.list(None),
        lambda found: world.other in [one.config for one in found],
    )
    assert calls.target.damaged_documents <= len(world.listed)
    if state not in FEW:
        return
    for query, options in (
        (THREAD, {"filter": {"run_id": "r3"}}),
        (THREAD, {"limit": 2}),
        (world.newest, {}),
    ):
        await world.attempt(
            f"{what}: list {options}",
            calls.list(query, **options),
            lambda found: all(map(is_known, found)),
        )
    for name, arguments, named in READS:
        named = named | ({"config": world.newest} if "channels" in named else {})
        await world.attempt(
            f"{what}: {name}",
            world.calls()(name, *arguments, **named),
            lambda found: len(found) >= 1,
        )


READS: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    ("get_delta_channel_history", (), {"channels": ["long", "none"]}),
    ("list_threads", (), {"count_checkpoints": True}),
    ("list_threads", (), {"filter": {"user_id": "ada"}}),
    ("delete_idle_threads", (timedelta(microseconds=1),), {"dry_run": True}),
    ("prune", (["t"],), {"dry_run": True}),
)


async def change_all(world: World, kind: str, path: Path, state: str) -> None:
    """Do everything that writes, each on the damaged database."""
    what = f"{kind} {'.'.join(map(str, path))} {state}"
    steps = Steps(world.calls(), "t", user_id="ada")
    steps.config = world.newest
    before = world.stored()
    documents = {name: list(world.database[name].find()) for name in world.documents}

    await world.change(f"{what}: put", steps.put(a=2))
    world.restore(documents)
    writes = [("small", 3), ("long", b"l" * 80_000)]
    await world.change(
        f"{what}: put_writes", world.calls()("put_writes", world.newest, writes, "task")
    )
    world.restore(documents)
    of_two_threads = (
        path[0] == "thread_id"
    )  # by what is stored, and a run is removed from one after the other
    for name, argument in (("prune", ["t"]), ("delete_for_runs", ["r3"])):
        raised = await world.change(f"{what}: {name}", world.calls()(name, argument))
        if raised and world.stored() != before and not of_two_threads:
            world.wrong.append(f"{what}: {name} is half done")
        world.restore(documents)
    raised = await world.change(f"{what}: copy_thread", world.calls()("copy_thread", "t", "copy"))
    if raised and await world.calls().list({"configurable": {"thread_id": "copy"}}):
        world.wrong.append(f"{what}: copy_thread is half done")
    world.restore(documents)
    await world.change(
        f"{what}: update_thread", world.calls()("update_thread", "t", {"title": "x"})
    )
    world.restore(documents)
    await world.change(f"{what}: export_user", world.exported())
    await world.change(
        f"{what}: erase_user",
        Calls(world.memory(), world.kind)("erase_user", "ada"),
        may_raise=False,
    )
    if world.database[CHECKPOINTS].count_documents({"type": "checkpoint", "thread_id": "other"}):
        world.wrong.append(f"{what}: erase_user leaves another thread")
    world.restore(documents)
    await world.change(
        f"{what}: delete_thread", world.calls()("delete_thread", "t"), may_raise=False
    )
    left = {"_id": all_but_the_thread("t")["_id"]}
    if any(world.database[name].count_documents(left) for name in world.documents):
        world.wrong.append(f"{what}: delete_thread leaves something")


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "encrypted": {
        # half of the time of LangGraph's default mode, EAX, with which the other tests encrypt
        "serde": EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32, mode=AES.MODE_GCM),
        "clear_metadata": ["run_id", "user_id", "source"],
    },
}


@pytest.fixture
async def world(
    mongo_uri: str, mongo_client: MongoClient, database_name: str, kind: str, sealing: str
) -> AsyncIterator[World]:
    async with client_of(kind, mongo_uri) as client:
        behind = mongo_client.get_database(database_name, codec_options=DECODING)
        database = client[database_name] if kind == "mongomock" else behind
        yield await World(client, kind, database, **OPTIONS[sealing]).fill()


SHARES = [(kind, sealing) for kind in KINDS for sealing in OPTIONS]
"""Every combination takes its share of the damages: together they meet each one once."""


async def meet(
    world: World,
    share: int,
    states: Iterable[str],
    work: Callable[[World, str, Path, str], Awaitable[None]],
) -> None:
    """Damage documents, one field of one document at a time, and see what comes of it."""
    number = share
    for kind, collection, document in world.kinds():
        for path in paths(document):
            for state in states:
                number += 1
                if number % len(SHARES) == 0 and not (
                    world.kind == "mongomock" and state in UNSORTABLE
                ):
                    world.save(collection, damaged(document, path, STATES[state]))
                    await work(world, kind, path, state)
                    if work is change_all:
                        world.restore(world.documents)
                    else:
                        world.save(collection, document)


@pytest.mark.parametrize(("kind", "sealing"), SHARES)
async def test_damaged_documents_are_never_read_as_something_else(
    world: World, kind: str, sealing: str
) -> None:
    await meet(world, SHARES.index((kind, sealing)), STATES, read_all)
    assert world.wrong == []


@pytest.mark.parametrize(("kind", "sealing"), SHARES)
async def test_damaged_threads_are_changed_as_a_whole_or_not_and_can_be_deleted(
    world: World, kind: str, sealing: str
) -> None:
    await meet(world, SHARES.index((kind, sealing)), FEWEST, change_all)
    assert world.wrong == []
