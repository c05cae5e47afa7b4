"""The runners: one plan, the same outcome by every way of waiting; and what is particular to
each.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mongomock
import pytest
from pymongo import AsyncMongoClient, CursorType, MongoClient
from pymongo.errors import BulkWriteError, InvalidOperation, OperationFailure

import mongomem
from mongomem import ConfigurationError, UsageError
from mongomem.engine.commands import (
    Aggregate,
    BulkWrite,
    Command,
    Delete,
    Find,
    ListIndexes,
    Plan,
    Replace,
    RunCommand,
    Update,
)
from mongomem.engine.effects import HEAVY_BYTES, Compute, FindInParts, Sleep
from mongomem.engine.runners import Concerns, Runners, runners_for
from support.savers import KINDS, client_of
from support.waits import HANG_SECONDS


class Run:
    """Runs plans in the way that a kind has."""

    def __init__(self, kind: str, runners: Runners) -> None:
        self.kind = kind
        self.runners = runners

    async def __call__(self, plan: Plan[Any]) -> Any:
        if self.kind in ("threaded", "awaiting"):
            return await self.runners.arun(plan)
        return self.runners.run(plan)


@pytest.fixture(params=KINDS)
async def run(request: Any, mongo_uri: str, database_name: str) -> AsyncIterator[Run]:
    async with client_of(request.param, mongo_uri) as client:
        yield Run(request.param, runners_for(client, database_name, Concerns()))


@dataclass(frozen=True, slots=True)
class Call(Command[Any]):
    """Call a function, and say so: a command that needs no database."""

    function: Callable[[], Any]

    def perform(self, database: Any) -> Any:
        return self.function()

    async def aperform(self, database: Any) -> Any:
        return self.function()


async def scenario() -> list[Any]:
    """Write, read, count, fail and go on: every kind of command and every way an answer comes
    back.
    """
    seen: list[Any] = []
    reply = await BulkWrite("t", [Replace({"_id": n}, {"_id": n, "n": n}) for n in range(3)])
    seen.append(sorted((reply.upserted_ids or {}).values()))
    reply = await BulkWrite("t", [Update({"_id": 0}, {"$set": {"n": 10}}), Delete({"_id": 1})])
    seen += [reply.matched_count, reply.deleted_count]
    seen.append(await Find("t", {}, {"n": 1}, sort=[("n", -1)], limit=5))
    seen.append(await Find("t", {"n": {"$gt": 0}}, sort=[("_id", 1)], skip=1))
    seen.append(await Aggregate("t", [{"$group": {"_id": None, "sum": {"$sum": "$n"}}}]))
    try:
        await BulkWrite("t", [Update({"_id": 0}, {"$set": {"_id": 9}})])
    except BulkWriteError:
        seen.append("refused")
    seen.append(await ListIndexes("absent"))
    seen.append(await Compute(lambda: "light", 1))
    seen.append(await Compute(lambda: "heavy", HEAVY_BYTES))
    await Sleep(0.001)
    return seen


OUTCOME = [
    *([0, 1, 2], 1, 1),
    [{"_id": 0, "n": 10}, {"_id": 2, "n": 2}],
    [{"_id": 2, "n": 2}],
    [{"_id": None, "sum": 12}],
    *("refused", [], "light", "heavy"),
]


async def test_one_plan_has_one_outcome(run: Run) -> None:
    assert await run(scenario()) == OUTCOME


PARTS = ([*range(229, 129, -1)], [*range(129, 29, -1)], [*range(29, -1, -1)])


def in_parts(take: Callable[[list[Any]], bool], work: int = 1) -> FindInParts:
    """Read the documents of `PARTS`."""
    options: dict[str, Any] = {"sort": [("_id", -1)], "hint": "_id_", "part_size": 100}
    return FindInParts("t", {"_id": {"$lt": 230}}, {"n": 1}, **options, take=take, work=work)


@pytest.mark.parametrize("work", [1, HEAVY_BYTES // 50])
@pytest.mark.parametrize("wanted", [1, 2, 3, 9])
async def test_a_read_in_parts(run: Run, wanted: int, work: int) -> None:
    async def plan() -> list[list[int]]:
        taken: list[list[int]] = []

        def take(part: list[Any]) -> bool:
            taken.append([one["_id"] for one in part])
            return len(taken) < wanted

        await in_parts(take, work)
        assert not taken
        await BulkWrite("t", [Replace({"_id": n}, {"_id": n, "n": n}) for n in range(250)])
        await in_parts(take, work)
        return taken

    assert await run(plan()) == [*PARTS[:wanted]]


class _Refusing:
    """A database whose cursors refuse to be exhaust cursors, as behind an old mongos."""

    def __init__(self, database: Any) -> None:
        self.database = database
        self.asked: list[int] = []

    def __getitem__(self, name: str) -> _Refusing:
        return self

    def find(self, *arguments: Any, cursor_type: int, **options: Any) -> Any:
        self.asked.append(cursor_type)
        cursor = self.database["t"].find(*arguments, **options)
        if cursor_type == CursorType.EXHAUST:
            cursor.to_list = self.refuse
        return cursor

    def refuse(self, _length: int) -> Any:
        raise InvalidOperation("Exhaust cursors are not supported by mongos")


async def test_a_read_in_parts_where_the_server_has_to_be_asked_for_each(
    mongo_uri: str, database_name: str
) -> None:
    taken: list[Any] = []
    read = in_parts(lambda part: taken.append([one["_id"] for one in part]) or True)
    with MongoClient(mongo_uri) as client:
        refusing = _Refusing(client[database_name])
        client[database_name]["t"].insert_many([{"_id": n} for n in range(250)])
        read.perform(refusing)
    async with AsyncMongoClient(mongo_uri) as awaited:
        await read.aperform(_Refusing(awaited[database_name]))
    assert taken == [*PARTS, *PARTS]
    assert refusing.asked == [CursorType.EXHAUST, CursorType.NON_TAILABLE]


async def test_a_plan_without_commands_just_returns(run: Run) -> None:
    async def plan() -> str:
        return "done"

    assert await run(plan()) == "done"


async def test_a_plan_that_raises_raises(run: Run) -> None:
    async def plan() -> None:
        await Sleep(0)
        raise LookupError("by the plan")

    with pytest.raises(LookupError, match="by the plan"):
        await run(plan())


async def test_plans_await_plans_and_clean_up_behind_themselves(run: Run) -> None:
    told: list[str] = []

    async def inner() -> None:
        try:
            await Call(lambda: 1 / 0)
        finally:
            told.append(await Call(lambda: "cleaned up by a command"))

    async def outer() -> str:
        try:
            await inner()
        except ZeroDivisionError as error:
            return type(error).__name__
        return "not reached"

    assert await run(outer()) == "ZeroDivisionError"
    assert told == ["cleaned up by a command"]


@pytest.mark.parametrize(
    ("command", "note"),
    [
        (Aggregate("things", [{"$noSuchStage": 1}]), "mongomem: Aggregate on things"),
        (RunCommand({"noSuchCommand": 1}), "mongomem: RunCommand on the database"),
    ],
)
@pytest.mark.parametrize("kind", ["blocking", "threaded", "awaiting"])
async def test_an_error_of_the_server_is_told_the_command(
    kind: str, command: Any, note: str, mongo_uri: str, database_name: str
) -> None:
    async def plan() -> Any:
        return await command

    async with client_of(kind, mongo_uri) as client:
        run = Run(kind, runners_for(client, database_name, Concerns()))
        with pytest.raises(OperationFailure) as caught:
            await run(plan())
    told = "".join(traceback.format_exception_only(caught.value))
    assert note in told or not hasattr(caught.value, "add_note")  # notes came with Python 3.11


async def test_the_context_of_the_caller_reaches_the_command(run: Run) -> None:
    variable = contextvars.ContextVar("variable", default="default")
    variable.set("of the caller")

    async def plan() -> Any:
        return await Call(variable.get)

    assert await run(plan()) == "of the caller"


async def test_where_commands_are_performed(run: Run) -> None:
    async def plan() -> Any:
        return await Call(lambda: threading.current_thread().name)

    name = await run(plan())
    if run.kind == "threaded":
        assert name.startswith("mongomem")
    else:
        assert name == ("loop" if run.kind == "bridging" else threading.current_thread().name)


@pytest.mark.parametrize("kind", ["threaded", "awaiting"])
async def test_a_cancelled_plan_is_told_and_the_runner_still_serves(
    kind: str, mongo_uri: str, database_name: str
) -> None:
    told = []

    async def plan() -> None:
        try:
            await Sleep(60)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    async with client_of(kind, mongo_uri) as client:
        runners = runners_for(client, database_name, Concerns())
        task = asyncio.ensure_future(runners.arun(plan()))
        await asyncio.sleep(0)  # let it begin to wait
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert told == ["cancelled"]
        assert await runners.arun(scenario()) == OUTCOME


@pytest.mark.parametrize("kind", ["threaded", "awaiting"])
async def test_the_event_loop_goes_on_while_a_plan_waits(
    kind: str, mongo_uri: str, database_name: str
) -> None:
    async with client_of(kind, mongo_uri) as client:
        runners = runners_for(client, database_name, Concerns())
        outcomes = await asyncio.gather(*(runners.arun(_asleep()) for _ in range(50)))
    assert outcomes == ["awake"] * 50


async def _asleep() -> str:
    await Sleep(0.05)
    return "awake"


async def test_a_refused_plan_is_closed_without_a_warning(
    mongo_uri: str, database_name: str
) -> None:
    async with AsyncMongoClient(mongo_uri) as client:
        runners = runners_for(client, database_name, Concerns())
        plan = scenario()
        with pytest.raises(UsageError, match="await the async twin"):
            runners.run(plan)
        assert (
            plan.cr_frame is None
        )  # closed: Python would warn of a coroutine that was never awaited
        assert await runners.arun(scenario()) == OUTCOME
        used_elsewhere = threading.Thread(target=asyncio.run, args=(_refused_here(runners),))
        used_elsewhere.start()
        used_elsewhere.join(HANG_SECONDS)
    gc.collect()


async def _refused_here(runners: Runners) -> None:
    with pytest.raises(UsageError, match="belongs to another event loop"):
        await runners.arun(scenario())


@pytest.mark.parametrize("wrong", [None, "mongodb://127.0.0.1", object(), mongomock.MongoClient])
def test_what_is_no_client_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="client must be a pymongo"):
        runners_for(wrong, "d", Concerns())


def test_the_concerns_are_those_asked_for_and_not_those_of_the_client(mongo_uri: str) -> None:
    with MongoClient(mongo_uri, w=1, readPreference="secondaryPreferred") as client:
        database = runners_for(client, "d", Concerns()).run.database  # type: ignore[attr-defined]
        assert database.write_concern.document == {"w": "majority"}
        assert database.read_concern.level == "majority"
        assert database.read_preference == Concerns().read_preference


# The parent uses the worker threads, then forks; the child of a multiprocessing pool does nothing
# else. In a process of its own, since only one without other threads may fork safely (Python 3.12
# warns otherwise).
FORKED = """
import asyncio, os, sys, warnings
from pymongo import MongoClient
from mongomem.engine.effects import Compute
from mongomem.engine.runners import Concerns, runners_for

warnings.simplefilter("ignore")  # of PyMongo and Python: this is what is tested
runners = runners_for(MongoClient(sys.argv[1], connect=False), "d", Concerns())

async def plan(word):
    return await Compute(lambda: word)

assert asyncio.run(runners.arun(plan("parent"))) == "parent"
child = os.fork()
if child == 0:
    print(asyncio.run(runners.arun(plan("child"))), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(asyncio.run(runners.arun(plan("parent"))), flush=True)
"""


def test_a_forked_child_has_worker_threads_of_its_own(mongo_uri: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(mongomem.__file__).parents[1])}
    command = [sys.executable, "-c", FORKED, mongo_uri]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    with process:
        try:
            output, errors = process.communicate(timeout=HANG_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)  # the child that hangs, too
            raise
    assert (output.split(), errors) == (["child", "parent"], "")
