"""Exports and imports while graphs run, threads are pruned, deleted and begun anew: between any two
commands, and in earnest at the same time. What comes out is readable and whole.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pymongo import MongoClient

from mongomem import MongoMemory, MongoSaver, Retention
from mongomem.backup.exports import Export
from mongomem.backup.imports import Import
from mongomem.engine.runners import Runners
from support.backups import exported, imported
from support.migrations import GRAPHS, chat, config_of
from support.stepping import Beside

MOST_COMMANDS = 200
THREAD = "t"
CONFIG = config_of(THREAD)
LONG_AGO = "2020-01-01T00:00:00+00:00"


def counting(saver: Any) -> Any:
    """Compile a graph whose list is rebuilt from the writes of ancestors."""
    return GRAPHS["counting"](saver)


def talk(saver: MongoSaver) -> None:
    chat(saver).invoke({"messages": "x" * 5000}, CONFIG)


def count(saver: MongoSaver) -> None:
    counting(saver).invoke({"items": ["x" * 5000]}, CONFIG)


TURNS: dict[str, tuple[Callable[[Any], Any], Callable[[MongoSaver], None]]] = {
    "chat": (chat, talk),
    "rebuilt": (counting, count),
}


def nothing_else(saver: MongoSaver, turn: Callable[[MongoSaver], None]) -> None:
    turn(saver)


def pruned(saver: MongoSaver, turn: Callable[[MongoSaver], None]) -> None:
    turn(saver)
    saver.prune([THREAD])


def deleted(saver: MongoSaver, turn: Callable[[MongoSaver], None]) -> None:
    saver.delete_thread(THREAD)


def begun_anew(saver: MongoSaver, turn: Callable[[MongoSaver], None]) -> None:
    saver.delete_thread(THREAD)
    turn(saver)


MEANWHILE = [nothing_else, pruned, deleted, begun_anew]


def seen(saver: MongoSaver, make: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the states of the thread by their checkpoints, newest first."""
    states = make(saver).get_state_history(CONFIG)
    return {one.config["configurable"]["checkpoint_id"]: one.values for one in states}


def assert_whole(saver: MongoSaver, make: Callable[[Any], Any], known: dict[str, Any]) -> None:
    """Fail where a checkpoint of the thread is not as it was, or has a parent that is not there."""
    for checkpoint_id, values in seen(saver, make).items():
        assert values == known[checkpoint_id]
    stored = {one.config["configurable"]["checkpoint_id"]: one for one in saver.list(CONFIG)}
    for one in stored.values():
        parent = one.parent_config
        assert parent is None or saver.get_tuple(parent) is not None


def empty(memory: MongoMemory) -> None:
    memory.saver.delete_thread(THREAD)


@pytest.mark.parametrize("kind", TURNS)
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_an_export_between_any_two_commands(
    meanwhile: Callable[..., None],
    kind: str,
    mongo_client: MongoClient,
    database_name: str,
    target: str,
) -> None:
    make, turn = TURNS[kind]
    other, new = MongoSaver(mongo_client, database_name), MongoMemory(mongo_client, target)
    new.setup()
    for at in range(MOST_COMMANDS):
        other.delete_thread(THREAD)
        for _ in range(3):
            turn(other)
        before = seen(other, make)
        memory = MongoMemory(mongo_client, database_name)
        runner = Beside(mongo_client[database_name], at, lambda: meanwhile(other, turn))
        memory.saver._runners = memory.store._runners = Runners(runner, None)  # type: ignore[arg-type]
        file = io.BytesIO()
        Export(memory, file).make()
        after = seen(other, make)

        empty(new)
        report = imported(new, file.getvalue())
        assert report.left_out.count == 0
        assert_whole(new.saver, make, before | after)
        newest = next(iter(seen(new.saver, make)), None)
        assert newest in {next(iter(before), None), next(iter(after), None)}
        if runner.count <= at:
            break
    else:
        raise AssertionError("the export never got through")
    assert at > 4


def long_ago(data: bytes) -> bytes:
    """Let the thread of an export have been created and updated long ago."""
    lines = [json.loads(line) for line in data.splitlines()]
    for line in lines:
        if "thread" in line:
            line["thread"] |= {"created_at": LONG_AGO, "updated_at": LONG_AGO}
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.mark.parametrize(("kind", "has_part"), [("chat", True), ("rebuilt", False)])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_an_import_between_any_two_commands(
    meanwhile: Callable[..., None],
    kind: str,
    has_part: bool,
    mongo_client: MongoClient,
    database_name: str,
    target: str,
) -> None:
    """Into a database where somebody uses the thread."""
    make, turn = TURNS[kind]
    source, other = MongoMemory(mongo_client, database_name), MongoSaver(mongo_client, target)
    turn(source.saver)
    part = long_ago(exported(source)[0])
    for _ in range(2):
        turn(source.saver)
    data, known = long_ago(exported(source)[0]), seen(source.saver, make)
    other.setup()
    used = meanwhile is not deleted
    for at in range(MOST_COMMANDS):
        other.delete_thread(THREAD)
        memory = MongoMemory(mongo_client, target)
        if has_part:
            imported(memory, part)
        turned: dict[str, Any] = {}

        def act(turned: dict[str, Any] = turned) -> None:
            meanwhile(other, turn)
            turned |= seen(other, make)

        runner = Beside(mongo_client[target], at, act)
        memory.saver._runners = memory.store._runners = Runners(runner, None)  # type: ignore[arg-type]
        Import(memory, io.BytesIO(data)).make()
        fresh = MongoSaver(mongo_client, target)
        assert_whole(fresh, make, {**known, **turned})
        found = seen(fresh, make)
        acted = runner.count > at
        if acted and used:
            assert next(iter(found)) == next(iter(turned))
            (thread,) = fresh.list_threads()
            assert thread.updated_at.year > 2020
        elif acted:
            assert found.keys() in (set(), known.keys())
        else:
            assert found == known
            break
    else:
        raise AssertionError("the import never got through")
    assert at > 10


def test_both_while_a_graph_runs_and_a_retention_prunes(
    mongo_client: MongoClient, database_name: str, target: str
) -> None:
    """Every export is of a state that was there, whole, and so is what was imported of it into a
    database where the same thread runs.
    """
    options: dict[str, Any] = {"grace": timedelta(0), "retention": Retention(keep_last=2)}
    running = MongoMemory(mongo_client, database_name, saver_options=options)
    counts: list[int] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(25):
                talk(running.saver)
                running.saver.apply_retention()
                counts.append(len(chat(running.saver).get_state(CONFIG).values["messages"]))
        except BaseException as error:
            failed.append(error)

    talk(running.saver)
    worker = threading.Thread(target=run)
    worker.start()
    new = MongoMemory(mongo_client, target)
    while worker.is_alive():
        before = len(counts)
        data, told = exported(MongoMemory(mongo_client, database_name))
        assert (told.threads, told.left_out.count) == (1, 0)
        after = len(counts) + 1
        empty(new)
        imported(new, data)
        messages = chat(new.saver).get_state(CONFIG).values["messages"]
        assert before * 2 <= len(messages) <= 2 * after + 2
        for one in new.saver.list(CONFIG):
            assert one.parent_config is None or new.saver.get_tuple(one.parent_config)
    worker.join()
    running.saver.close()
    assert failed == []
    assert counts == [*range(4, 54, 2)]
