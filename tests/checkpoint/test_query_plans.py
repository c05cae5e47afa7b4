"""Every query that the saver issues is served by an index, in a collection of 50,000 documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from pymongo import AsyncMongoClient, MongoClient, WriteConcern
from pymongo.monitoring import CommandListener

from mongomem import MongoMemory
from mongomem.checkpoint.plans.delete import remove_tombstones
from mongomem.checkpoint.saver import MongoSaver
from support.graphs import Steps, passing_database
from support.savers import Calls

COLLECTIONS = ("mongomem_checkpoints", "mongomem_checkpoint_writes")
THREAD: Any = {"configurable": {"thread_id": "t"}}
EXPLAINED = {
    "find",
    "filter",
    "sort",
    "limit",
    "projection",
    "skip",
    "hint",
    "aggregate",
    "pipeline",
    "cursor",
}
EXPLAINED |= {"update", "delete"}


class Heard(CommandListener):
    """The commands that reached the server."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []

    def started(self, event: Any) -> None:
        self.commands.append(dict(event.command))

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass

    def shapes(self) -> list[dict[str, Any]]:
        """Return the statements that read or change documents, each as the server explains it."""
        found: list[dict[str, Any]] = []
        for command in self.commands:
            kept = {key: value for key, value in command.items() if key in EXPLAINED}
            for part in ("updates", "deletes"):
                found += [{**kept, part: [one]} for one in command.get(part, ())]
            if "find" in command or "aggregate" in command:
                found.append(kept)
        return found


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def saver(mongo_uri: str, heard: Heard, database_name: str) -> AsyncIterator[MongoSaver]:
    async with AsyncMongoClient(mongo_uri, event_listeners=[heard]) as client:
        yield MongoSaver(client, database_name, ttl=60)


async def use_everything(saver: MongoSaver) -> None:
    """Call every method that reads or changes documents, with every kind of argument."""
    calls = Calls(saver, "awaiting")
    steps = Steps(calls)
    for number in range(4):
        await steps.put(
            {"run_id": f"run {number}", "user_id": "ada"}, long=[str(number)] * 9000, n=number
        )
        await calls("put_writes", steps.config, [("a", 1), ("__error__", "x" * 70_000)], "task")
    saver._caches.forget_all()
    await steps.put(n=5)
    child: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for place in (None, THREAD, child, steps.config):
        for wanted in (
            None,
            {"source": "loop"},
            {"run_id": "run 1"},
            {"user_id": "ada", "n": {"a": 1}},
        ):
            most = 3 if place is None else None  # else it is a matter of reading everything
            await calls.list(place, filter=wanted, limit=most)
            await calls.list(place, filter=wanted, before=steps.config, limit=3)
    saver._caches.forget_all()
    for place in (THREAD, steps.config):
        await calls("get_tuple", place)
        await calls("get_delta_channel_history", config=place, channels=["a", "b"])
    for named in ({}, {"filter": {"user_id": "ada"}}, {"limit": 2}):
        threads = await calls("list_threads", **named)
        await calls("list_threads", before=threads[-1], **named)
    await calls("list_threads", count_checkpoints=True)
    await calls("update_thread", "t", {"title": "about"})
    await calls("copy_thread", "t", "other")
    await calls("delete_for_runs", ["run 1"])
    await calls("prune", ["t"], keep_last=2)
    await calls("prune", ["t"])
    await calls("delete_idle_threads", timedelta(days=1))
    await calls("delete_thread", "other")
    await saver._runners.arun(remove_tombstones(saver._context()))
    database: Any = saver._runners.arun.database  # type: ignore[attr-defined]
    await MongoMemory(database.client, database.name).aerase_user("ada")


def stages(plan: Any) -> set[str]:
    """Return the names of the stages of a query plan."""
    if isinstance(plan, list):
        return set().union(*map(stages, plan))
    if not isinstance(plan, dict):
        return set()
    own = {plan["stage"]} if isinstance(plan.get("stage"), str) else set()
    return own.union(*(stages(one) for key, one in plan.items() if key != "rejectedPlans"))


async def test_every_query_is_served_by_an_index(
    saver: MongoSaver, heard: Heard, mongo_client: MongoClient, database_name: str
) -> None:
    fill(mongo_client[database_name], await pattern_of(mongo_client))
    await use_everything(saver)
    shapes = {repr(_shape(one)): one for one in heard.shapes()}
    assert len(shapes) > 25
    slow = []
    for shape in shapes.values():
        explained = mongo_client[database_name].command(
            {"explain": shape, "verbosity": "queryPlanner"}
        )
        # Digests of members are compared one by one, so the threads that have some are all read, a
        # page at a time.
        sorts = {"SORT"} if "'$gte': b''" in repr(shape) else set()
        if used := stages(explained.get("queryPlanner", explained)) & {"COLLSCAN", "SORT"} - sorts:
            slow.append((shape, used))
    assert not slow


async def pattern_of(client: MongoClient) -> dict[str, list[dict[str, Any]]]:
    """Return the documents of one thread: about fifty, in both collections."""
    with passing_database(client) as name:
        steps = Steps(Calls(MongoSaver(client, name, auto_setup=False), "blocking"), "pattern")
        for number in range(16):
            large = {"long": [str(uuid4())] * 100} if number % 8 == 0 else {}
            await steps.put({"run_id": str(number), "user_id": "bob"}, n=number, **large)
            steps.calls.target.put_writes(steps.config, [("a", 1)], "task")
        return {collection: list(client[name][collection].find()) for collection in COLLECTIONS}


def fill(database: Any, pattern: dict[str, list[dict[str, Any]]]) -> None:
    """Store 50,000 documents in 1,000 threads: before there are indexes, which is faster."""
    threads = range(50_000 // sum(map(len, pattern.values())))
    assert len(threads) >= 900
    for name, documents in pattern.items():
        copies = [
            one | {"thread_id": f"copy {number}", "_id": b"%06d" % number + one["_id"][6:]}
            for number in threads
            for one in documents
        ]
        database.get_collection(name, write_concern=WriteConcern(1, j=False)).insert_many(
            copies, ordered=False
        )


def _shape(value: Any) -> Any:
    """Return a query with its values left out."""
    if isinstance(value, dict):
        return {key: _shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_shape(one) for one in value[:3]]
    return value if isinstance(value, str) and value.isidentifier() else type(value).__name__
