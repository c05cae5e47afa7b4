"""Commands that are ended in the midst of their work: the same command goes on."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pymongo import MongoClient

from mongomem import MongoMemory
from mongomem.upkeep.preparation import prepare
from support.backups import exported, filled, imported, items_of, threads_of
from support.command_line import lines_of, mongomem_ended
from support.databases import drop
from support.migrations import assert_same_threads

APPLICATION = """
import os, time
from pathlib import Path
from pymongo import MongoClient
from mongomem import MongoMemory
from mongomem.engine.runners import Runners
from mongomem.testing import FailingRunner

kind, number = os.environ["STOP_AT"].split(":")
left = [int(number)]

class Stopping(FailingRunner):
    def _fail(self, command, database):
        if type(command).__name__ == kind:
            left[0] -= 1
            if not left[0]:
                Path("reached").touch()
                time.sleep(3600)
        return command.perform(database)

def make():
    with MongoClient(os.environ["AT"]) as client:
        name = os.environ["NAME"]
        index = {"embed": lambda texts: [[1.0, 2.0] for _ in texts], "dims": 2, "model": "m"}
        memory = MongoMemory(client, name, index=index)
        runners = Runners(Stopping(client[name], 0), None)
        for one in (memory, memory.saver, memory.store, memory.cache):
            one._runners = runners
        yield memory
"""


@dataclass(frozen=True)
class Case:
    """A command, and the command of the server before which it stops."""

    arguments: str
    stop_at: str


CASES = {
    "setup": Case("setup", "CreateIndexes:2"),
    "delete": Case("delete chat odd --yes", "DeleteMany:3"),
    "delete between two threads": Case("delete chat odd --yes", "DeleteMany:7"),
    "prune": Case("prune --all --yes", "DeleteMany:2"),
    "erase": Case("erase ada --yes", "DeleteMany:3"),
    "reindex": Case("reindex", "BulkWrite:2"),
    "export": Case("export out.jsonl", "Find:9"),
    "import": Case("import all.jsonl", "UpdateCommand:4"),
}

ADVICE = {"export": "repeat the command"}


@pytest.fixture(scope="module")
def source(mongo_client: MongoClient, shared_database: str) -> MongoMemory:
    return filled(MongoMemory(mongo_client, shared_database))


@pytest.fixture(scope="module")
def data(source: MongoMemory) -> bytes:
    return exported(source)[0]


@pytest.fixture
def target(mongo_client: MongoClient, shared_database: str) -> Iterator[str]:
    """A second database."""
    name = f"{shared_database}_to"
    yield name
    drop(mongo_client, name)


ENDS = [
    *((name, signal.SIGINT) for name in CASES),
    *((name, signal.SIGKILL) for name in ("delete", "export", "import")),
]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("name", "ended"), ENDS)
def test_what_was_ended_goes_on(
    name: str,
    ended: signal.Signals,
    source: MongoMemory,
    data: bytes,
    target: str,
    mongo_client: MongoClient,
    mongo_uri: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = CASES[name]
    (tmp_path / "app.py").write_text(APPLICATION, "utf-8")
    (tmp_path / "all.jsonl").write_bytes(data)
    if name not in ("setup", "import"):
        imported(MongoMemory(mongo_client, target), data)
    asked = [*case.arguments.split(), "--memory", "app:make"]
    at = {"STOP_AT": case.stop_at, "AT": mongo_uri, "NAME": target}
    ran = mongomem_ended(ended, *asked, cwd=tmp_path, **at)
    if ended == signal.SIGINT:
        advice = ADVICE.get(name, "the same command goes on")
        assert (ran.stderr, ran.returncode) == (f"mongomem: interrupted; {advice}\n", 130)
    else:
        assert ran.returncode == -signal.SIGKILL
    _check_between(name, tmp_path, ended, source, MongoMemory(mongo_client, target))
    with pytest.MonkeyPatch.context() as changed:
        for key, value in {"STOP_AT": "Nothing:1", "AT": mongo_uri, "NAME": target}.items():
            changed.setenv(key, value)
        assert lines_of(capsys, tmp_path, *asked)[0] == 0
    _check_end(name, tmp_path, source, MongoMemory(mongo_client, target))


def _check_between(
    name: str, folder: Path, ended: signal.Signals, source: MongoMemory, memory: MongoMemory
) -> None:
    """Check that nothing half done looks whole."""
    if name == "export":
        assert not (folder / "out.jsonl").exists()
        parts = [*folder.glob(".out.jsonl.*.part")]
        assert len(parts) == (ended == signal.SIGKILL)
    for one in memory.saver.list(None):
        there = source.saver.get_tuple(one.config)
        assert there is not None
        if name != "prune":
            assert one == there


def _check_end(name: str, folder: Path, source: MongoMemory, memory: MongoMemory) -> None:
    """Compare what is there with what the command does where nothing ends it."""
    gone = {"chat", "odd"} if name.startswith(("delete", "erase")) else set[str]()
    if name == "setup":
        assert prepare(memory).changes == []
        return
    if name == "export":
        assert (folder / "out.jsonl").read_bytes().count(b"\n") == (
            (folder / "all.jsonl").read_bytes().count(b"\n")
        )
    kept = {one.thread_id for one in threads_of(source)} - gone
    assert {one.thread_id for one in threads_of(memory)} == kept
    wanted = items_of(source)
    if name == "erase":
        wanted = {place: one for place, one in wanted.items() if place[0][0] != "ada"}
    assert items_of(memory) == wanted
    if name == "prune":
        assert all(one.removed == [] for one in memory.saver.prune([*kept], dry_run=True))
    elif not gone:
        assert_same_threads(source.saver, memory.saver)
