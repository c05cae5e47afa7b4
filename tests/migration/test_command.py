"""The command ``mongomem migrate`` as a process: what it prints, its exit codes, Ctrl-C, pipes."""

from __future__ import annotations

import importlib
import json
import signal
import sys
from pathlib import Path

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore
from pymongo import MongoClient

from mongomem import LocalServer, MongoSaver, MongoStore
from mongomem.migration.mongodb_items import ITEMS
from mongomem.migration.mongodb_threads import CHECKPOINTS, WRITES
from support.command_line import (
    assert_quiet_without_reader,
    lines_of,
    mongomem,
    mongomem_ended,
    printed_json,
)
from support.migrations import (
    assert_same_threads,
    documents_of,
    fill,
    stopping_saver,
    store_former,
)

APPLICATION = """
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

def make_saver():
    return SqliteSaver.from_conn_string("threads.sqlite")

def make_store():
    with SqliteStore.from_conn_string("items.sqlite") as store:
        yield store

async def make_async():
    pass

def fail():
    raise ValueError("no such\\ndatabase")

number = 7
""" + stopping_saver('SqliteSaver.from_conn_string("threads.sqlite")', reads=5)


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """A directory with the module of an application, and what it has stored in SQLite."""
    (tmp_path / "app.py").write_text(APPLICATION, "utf-8")
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        fill(saver)
    with SqliteStore.from_conn_string(str(tmp_path / "items.sqlite")) as store:
        store.setup()
        store.put(("a", "b"), "k", {"n": 1})
    return tmp_path


def sources(mongo_uri: str, database_name: str) -> list[str]:
    return ["migrate", "--from-mongo", mongo_uri, "--from-db", database_name, "--uri", mongo_uri]


def counts(copied: int) -> str:
    """Return what is printed of the former documents."""
    return (
        "threads      2\n"
        f"checkpoints  8: {8 * copied} copied, 0 there before\n"
        "writes       9\n"
        f"items        2: {2 * copied} copied, 0 there before\n"
    )


def test_official_documents(
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    target: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store_former(mongo_client, database_name)
    names = (CHECKPOINTS, WRITES, ITEMS)
    before = documents_of(mongo_client, database_name, *names)
    asked = [*sources(mongo_uri, database_name), "--db", target]

    assert lines_of(capsys, tmp_path, *asked, "--dry-run") == (0, counts(0), "")
    assert mongo_client[target].list_collection_names() == []

    copied = mongomem(*asked, "--verify")
    assert (copied.stdout, copied.stderr, copied.returncode) == (
        counts(1) + "compared     10, 0 differ\n",
        "",
        0,
    )
    assert documents_of(mongo_client, database_name, *names) == before

    MongoStore(mongo_client, target).put(("ada",), "name", {"text": "Ada Lovelace"})
    mongo_client[target]["mongomem_checkpoint_writes"].delete_many({"idx": -3})
    MongoSaver(mongo_client, target).delete_thread("chat")
    again = mongomem(*asked, "--verify", "--json")
    told = printed_json(again)
    assert (again.stderr, again.returncode) == ("", 1)
    assert told["exit_code"] == 1
    assert told["error"] is None
    assert told["checkpoints"] == {"found": 8, "copied": 6, "present": 2}
    assert told["items"] == {"found": 2, "copied": 0, "present": 2}
    (differs,) = told["differences"]["first"]
    assert differs == {"what": "item 'name' in ('ada',)", "reason": "value; updated_at"}
    assert documents_of(mongo_client, database_name, *names) == before


def test_collections_that_are_named(
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    target: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store_former(mongo_client, database_name)
    for name in (CHECKPOINTS, WRITES, ITEMS):
        mongo_client[database_name][name].rename(f"our_{name}")
    asked = [*sources(mongo_uri, database_name), "--db", target, "--json"]
    threads = ["--checkpoints", f"our_{CHECKPOINTS}", "--writes", f"our_{WRITES}"]
    _, out, _ = lines_of(capsys, tmp_path, *asked, *threads)
    told = json.loads(out)
    assert (told["checkpoints"]["copied"], told["items"]["found"]) == (8, 0)
    _, out, _ = lines_of(capsys, tmp_path, *asked, "--items", f"our_{ITEMS}")
    told = json.loads(out)
    assert (told["threads"], told["items"]["copied"]) == (0, 2)


def test_any_saver_and_store(
    application: Path, mongo_client: MongoClient, mongo_uri: str, target: str
) -> None:
    asked = ["migrate", "--from-saver", "app:make_saver", "--from-store", "app:make_store"]
    ran = mongomem(*asked, "--db", target, "--verify", cwd=application, MONGODB_URI=mongo_uri)
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert "threads      8\n" in ran.stdout
    assert "items        1: 1 copied" in ran.stdout
    with SqliteSaver.from_conn_string(str(application / "threads.sqlite")) as old:
        assert_same_threads(old, MongoSaver(mongo_client, target))


def stored(client: MongoClient, database_name: str) -> int:
    """Count the checkpoints of a target."""
    collection = client[database_name]["mongomem_checkpoints"]
    return collection.count_documents({"type": "checkpoint"})


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("ended", [signal.SIGINT, signal.SIGKILL])
def test_what_was_ended_goes_on(
    ended: signal.Signals,
    application: Path,
    mongo_client: MongoClient,
    mongo_uri: str,
    target: str,
) -> None:
    asked = ["migrate", "--uri", mongo_uri, "--db", target, "--json", "--from-saver"]
    ran = mongomem_ended(ended, *asked, "app:make_slow_saver", cwd=application)
    if ended == signal.SIGINT:
        assert (ran.stderr, ran.returncode) == (
            "mongomem: interrupted; the same command goes on\n",
            130,
        )
        copied = printed_json(ran)["checkpoints"]["copied"]
        assert copied > 0
        assert copied == stored(mongo_client, target)
    there = stored(mongo_client, target)
    ran = mongomem(*asked, "app:make_saver", "--verify", cwd=application)
    told = printed_json(ran)
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert told["checkpoints"]["present"] == there > 0
    with SqliteSaver.from_conn_string(str(application / "threads.sqlite")) as old:
        assert_same_threads(old, MongoSaver(mongo_client, target))


def test_a_reader_that_goes_away(
    mongo_client: MongoClient, mongo_uri: str, database_name: str, target: str
) -> None:
    store_former(mongo_client, database_name)
    assert_quiet_without_reader(*sources(mongo_uri, database_name), "--db", target)
    assert len(MongoSaver(mongo_client, target).list_threads()) == 2


NOWHERE = (
    "the module nowhere cannot be imported (ModuleNotFoundError: No module named 'nowhere'); it is "
    "looked for in this directory and where Python looks"
)
ASYNC = "; of a class that is async take the sync one of the same database"
NO_SERVER = (
    "no MongoDB server answers within 0.5 s. 127.0.0.1:1: [Errno 111] Connection refused. Is it "
    "started, and is the connection string right?"
)
NO_URI = "a connection string begins with mongodb:// or mongodb+srv://"
WRONG: list[tuple[str, int, str]] = [
    ("", 2, "name a source by --from-mongo, --from-saver or --from-store"),
    ("--no-such", 2, "No such option: --no-such: mongomem migrate --help tells more"),
    (
        "--from-saver app:make_saver --items x",
        2,
        "--checkpoints, --writes and --items need --from-mongo",
    ),
    (
        "--from-saver app",
        2,
        "--from-saver takes MODULE:FACTORY, such as app.memory:make, not 'app'",
    ),
    ("--from-saver nowhere:make", 2, f"--from-saver: {NOWHERE}"),
    ("--from-saver app:make --import nowhere", 2, f"--import: {NOWHERE}"),
    ("--from-store app:make", 2, "--from-store: the module app has no 'make'"),
    (
        "--from-store app:number",
        2,
        f"--from-store: app:number gives a int and no BaseStore{ASYNC}",
    ),
    (
        "--from-saver app:make_async",
        2,
        f"--from-saver: app:make_async gives a coroutine and no BaseCheckpointSaver{ASYNC}",
    ),
    ("--from-saver app:fail", 1, "--from-saver: app:fail fails: ValueError: no such database"),
    (
        "--from-mongo mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500",
        1,
        f"--from-mongo: MongoDBThreads: {NO_SERVER}",
    ),
    (
        "--from-mongo postgres://ada:secret@localhost",
        2,
        f"--from-mongo: MongoDBThreads: {NO_URI}",
    ),
]


@pytest.mark.parametrize(("arguments", "code", "line"), WRONG)
def test_wrong_usage_is_one_line(
    arguments: str,
    code: int,
    line: str,
    tmp_path: Path,
    mongo_uri: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "app.py").write_text(APPLICATION, "utf-8")
    told = lines_of(capsys, tmp_path, "migrate", "--uri", mongo_uri, *arguments.split())
    assert told == (code, "", f"mongomem: {line}\n")


def test_a_refusal_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = lines_of(capsys, tmp_path, "migrate", "--json")
    told = json.loads(out)
    assert (code, told["exit_code"]) == (2, 2)
    assert told["error"].startswith("name a source by --from-mongo")


def test_collections_that_are_not_there(
    mongo_uri: str, database_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = sources(mongo_uri, database_name)
    assert lines_of(capsys, tmp_path, *asked) == (
        2,
        "",
        (
            f"mongomem: --from-mongo: the database {database_name!r} has no collections "
            "'checkpoints' and 'checkpoint_writes', nor 'persistent-store': --from-db names "
            "another database, --checkpoints, --writes and --items other collections\n"
        ),
    )
    _, _, error = lines_of(capsys, tmp_path, *asked, "--items", "mine")
    assert error == (
        f"mongomem: --from-mongo: there is no collection 'mine' in the database {database_name!r}\n"
    )


STATE = """
from dataclasses import dataclass

@dataclass
class Note:
    text: str
"""


def test_classes_of_an_application_are_imported(
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    target: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "app.py").write_text(STATE, "utf-8")
    store_former(mongo_client, database_name)
    with monkeypatch.context() as changed:
        changed.syspath_prepend(tmp_path)
        note = importlib.import_module("app").Note("here")
        kind, data = JsonPlusSerializer().dumps_typed(note)
    (one,) = mongo_client[database_name][WRITES].find({"thread_id": "refund", "idx": -3})
    held = {"type": kind, "value": data, "channel": "note", "idx": 7, "_id": None}
    mongo_client[database_name][WRITES].insert_one({**one, **held})

    asked = [*sources(mongo_uri, database_name), "--db", target]
    code, out, error = lines_of(capsys, tmp_path, *asked)
    assert (code, error) == (1, "")
    named = [line for line in out.splitlines() if line.startswith("left out: ")]
    assert len(named) == 1
    assert "it holds objects of app.Note" in named[0]
    code, out, error = lines_of(capsys, tmp_path, *asked, "--verify", "--import", "app")
    assert (code, error) == (0, "")
    assert "1 copied, 7 there before" in out


def test_users_without_rights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LocalServer(throw_away=True) as server, MongoClient(server.uri) as client:
        store_former(client, "source")
        roles = [{"role": "read", "db": name} for name in ("source", "target")]
        client["admin"].command("createUser", "reader", pwd="x", roles=roles)
        client["admin"].command("createUser", "nobody", pwd="x", roles=[])
        hosts = server.uri.partition("@")[2]
        reader, nobody = (f"mongodb://{user}:x@{hosts}" for user in ("reader", "nobody"))

        code, _, error = lines_of(capsys, tmp_path, *sources(nobody, "source"))
        assert (code, error) == (
            1,
            (
                "mongomem: the user of the connection string may not run listIndexes in the "
                "database source: reading needs the role read there, writing readWrite\n"
            ),
        )
        code, _, error = lines_of(capsys, tmp_path, *sources(reader, "source"), "--db", "target")
        assert (code, len(error.splitlines())) == (1, 1)
        assert "this user has not the right createIndex" in error
        both = ["--from-db", "source", "--uri", server.uri, "--db", "target"]
        told = lines_of(capsys, tmp_path, "migrate", "--from-mongo", reader, *both)
        assert told == (0, counts(1), "")


def test_names_are_cut_short_in_text(
    mongo_uri: str, tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app.py").write_text(
        "from langgraph.store.memory import InMemoryStore\n"
        "store = InMemoryStore()\n"
        "for number in range(25):\n"
        "    store.put(('a',), f'k{number}', {'n': object()})\n",
        "utf-8",
    )
    asked = ["migrate", "--from-store", "app:store", "--uri", mongo_uri, "--db", target]
    code, out, _ = lines_of(capsys, tmp_path, *asked)
    assert code == 1
    named = [line for line in out.splitlines() if line.startswith("left out: ")]
    assert len(named) == 21
    assert named[0].startswith("left out: item 'k0' in ('a',): ")
    assert named[-1] == "left out: 5 more (--json names up to 1,000)"
    _, out, _ = lines_of(capsys, tmp_path, *asked, "--json")
    told = json.loads(out)["left_out"]
    assert told["count"] == len(told["first"]) == 25
