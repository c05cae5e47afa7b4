"""What all commands have in common: help, what is missing, and how errors end."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version
from itertools import product
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from pymongo import MongoClient

from mongomem import LocalServer, MongoMemory, MongoSaver
from mongomem.command_line.application import COMMANDS
from support.command_line import command, lines_of, mongomem, printed_json
from support.migrations import chat, config_of
from support.waits import HANG_SECONDS


def test_the_extra_that_is_missing(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['typer'] = None; import mongomem.command_line.entry as e; e.main()"
    )
    words, options = command(["migrate"], tmp_path)
    ran = subprocess.run(
        [words[0], "-c", code], capture_output=True, text=True, timeout=HANG_SECONDS, **options
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == (
        "",
        'mongomem: the command line needs the extra "cli": in a clone, pip install ".[cli]"\n',
        2,
    )


def test_importing_the_package_imports_no_command_line(tmp_path: Path) -> None:
    words, options = command([], tmp_path)
    code = "import mongomem, sys; print({'typer', 'mongomem.migration'} & set(sys.modules))"
    ran = subprocess.run(
        [words[0], "-c", code], capture_output=True, text=True, timeout=HANG_SECONDS, **options
    )
    assert ran.stdout == "set()\n"


def test_help_and_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, whole, _ = lines_of(capsys, tmp_path)
    assert code == 2
    assert {*COMMANDS} <= {*whole.split()}
    assert not [line for line in whole.splitlines()[1:] if line.endswith("...")]
    assert lines_of(capsys, tmp_path, "--version") == (0, f"{version('mongomem')}\n", "")
    assert lines_of(capsys, tmp_path, "no-such")[::2] == (
        2,
        "mongomem: No such command 'no-such': mongomem --help tells more\n",
    )
    code, out, _ = lines_of(capsys, tmp_path, "delete", "--help")
    assert out.startswith("Usage: mongomem delete [OPTIONS] [THREAD]...\n")
    code, out, _ = lines_of(capsys, tmp_path, "migrate", "--help")
    assert code == 0
    assert "Exit codes: 0 all is there" in out


READING = ("doctor", "threads", "history t", "show t", "diff t a b", "memories", "namespaces")

NO_SERVER = (
    "mongomem: MongoMemory: no MongoDB server answers within 0.5 s. 127.0.0.1:1: [Errno 111] "
    "Connection refused. Is it started, and is the connection string right?\n"
)


@pytest.mark.parametrize("asked", [*READING, "stats"])
def test_no_server_is_one_line(
    asked: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = ["--uri", "mongodb://ada:secret@127.0.0.1:1/?serverSelectionTimeoutMS=500"]
    assert lines_of(capsys, tmp_path, *asked.split(), *uri) == (1, "", NO_SERVER)
    code, out, error = lines_of(capsys, tmp_path, *asked.split(), *uri, "--json")
    told = json.loads(out)
    assert (code, error, f"mongomem: {told['error']}\n") == (1, NO_SERVER, NO_SERVER)
    assert told["exit_code"] == 1


def test_warnings_of_the_driver_are_one_line(mongo_uri: str, database_name: str) -> None:
    asked = ["setup", "--uri", f"{mongo_uri}&noSuchOption=1", "--db", database_name]
    ran = mongomem(*asked)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (0, 1)
    assert ran.stderr.startswith("mongomem: Unknown option")


NAME_IT = "name the server by --uri URI, by the environment variable MONGODB_URI, or by --local"
WRONG: list[tuple[str, int, str]] = [
    ("threads", 2, NAME_IT),
    (
        "threads --uri x --local",
        2,
        "--uri names a server, --local and --data-dir the local one: give one",
    ),
    (
        "threads --data-dir nowhere",
        2,
        "there are no data of a local server in 'nowhere': --data-dir names another folder",
    ),
    ("threads --uri http://a", 2, "MongoMemory: a connection string begins with mongodb://"),
    ("threads --uri mongodb://localhost --db a.b", 2, ""),
    ("threads --limit 0 --uri x", 2, "Invalid value for '--limit': "),
    ("threads --filter x --uri x", 2, "--filter takes KEY=VALUE, such as source=loop, not 'x'"),
    ("threads --filter x=1 --filter x=2 --uri x", 2, "--filter names the key 'x' twice"),
    (
        "threads --before 9999-12-31T23:59:59-23:00 --uri x",
        2,
        "--before takes a time from the year 1 to 9999, not '9999-12-31T23:59:59-23:00'",
    ),
    ("history", 2, "Missing argument 'THREAD': mongomem history --help tells more"),
    ("memories a..b", 2, "a namespace is labels joined by dots, such as ada.memories: 'a..b'"),
    (
        "memories --query x --embed local --uri x",
        2,
        "--embed and --dims name an index together, such as --embed local --dims 256",
    ),
    ("threads --memory app", 2, "--memory takes MODULE:FACTORY, such as"),
    ("threads --memory json:dumps --db x", 2, "--memory says all of the database: leave"),
    ("threads --memory app:number", 2, "--memory: app:number gives a int and no MongoMemory"),
    (
        "threads --encrypted --uri x",
        2,
        "--encrypted needs a key of 16, 24 or 32 bytes in the environment variable",
    ),
    ("show t --import nowhere --uri x", 2, "--import: the module nowhere cannot be imported"),
]


@pytest.mark.parametrize(("asked", "code", "line"), WRONG)
def test_wrong_usage_is_one_line(
    asked: str,
    code: int,
    line: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LANGGRAPH_AES_KEY", raising=False)
    (tmp_path / "app.py").write_text("number = 7\n", "utf-8")
    found, out, error = lines_of(capsys, tmp_path, *asked.split())
    assert (found, out, error.count("\n")) == (code, "", 1)
    assert error.startswith(f"mongomem: {line}")


@pytest.mark.parametrize("depth", [90, 200, 900, 100_000])
def test_a_filter_that_is_nested_deeply(
    depth: int,
    shared_database: str,
    mongo_uri: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with MongoMemory.connect(mongo_uri, db_name=shared_database) as memory:
        chat(memory.saver).invoke({"messages": [HumanMessage("Hello")]}, config_of("t"))
        memory.store.put(("ada",), "k", {"n": 1})
    nested = "[" * depth + "]" * depth
    for name in ("threads", "memories"):
        asked = [name, "--filter", f"key={nested}", "--uri", mongo_uri, "--db", shared_database]
        code, out, error = lines_of(capsys, tmp_path, *asked)
        assert code in (0, 2)
        assert (code == 0) == (error == "")
        assert (code == 0) == (out.startswith("no "))
        assert len(error.splitlines()) == (code == 2)
        assert len(error) < 200
    if depth == 100_000:
        assert error == "mongomem: --filter: the value of 'key' is nested too deeply\n"


@pytest.mark.parametrize(
    "asked",
    [
        "threads --limit",
        "memories --offset",
        "namespaces --max-depth",
        "stats --largest",
        "history t --limit",
    ],
)
def test_numbers_that_no_server_counts_to(
    asked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, error = lines_of(capsys, tmp_path, *asked.split(), "1" + "0" * 20, "--uri", "x")
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert error.startswith(f"mongomem: Invalid value for '{asked.split()[-1]}': ")
    assert "2147483647" in error


def test_a_database_without_our_collections(
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["threads", "--uri", mongo_uri, "--db", database_name]
    said = (
        f"mongomem: the database {database_name!r} has no collections of mongomem that begin with "
    )
    end = (
        "'mongomem_', or this user may see none: --db names another database, --prefix other "
        "collections\n"
    )
    assert lines_of(capsys, tmp_path, *asked) == (1, "", said + end)
    MongoSaver(mongo_client, database_name, collection_prefix="our_").setup()
    assert lines_of(capsys, tmp_path, *asked) == (
        1,
        "",
        f"{said}'mongomem_', but with 'our_': say --prefix\n",
    )
    assert lines_of(capsys, tmp_path, *asked, "--prefix", "our_") == (0, "no threads\n", "")


APPLICATION = """
import os
from mongomem import MongoMemory

def make():
    return MongoMemory.from_conn_string(
        os.environ["URI"], db_name=os.environ["DATABASE"], collection_prefix="our_"
    )
"""


def test_the_memory_of_an_application(
    mongo_client: MongoClient, mongo_uri: str, database_name: str, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APPLICATION, "utf-8")
    saver = MongoSaver(mongo_client, database_name, collection_prefix="our_")
    chat(saver).invoke({"messages": [HumanMessage("Hello")]}, config_of("t"))
    ran = mongomem(
        *("threads", "--memory", "app:make", "--json"),
        cwd=tmp_path,
        URI=mongo_uri,
        DATABASE=database_name,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [one["thread_id"] for one in printed_json(ran)["threads"]] == ["t"]


def test_encrypted_values(
    mongo_client: MongoClient, mongo_uri: str, database_name: str, tmp_path: Path
) -> None:
    key = "sixteen bytes..."
    serde = EncryptedSerializer.from_pycryptodome_aes(key=key.encode())
    saver = MongoSaver(mongo_client, database_name, serde=serde)
    chat(saver).invoke({"messages": [HumanMessage("Hello")]}, config_of("t"))
    asked = ["show", "t", "--db", database_name]
    shown = mongomem(*asked, "--encrypted", MONGODB_URI=mongo_uri, LANGGRAPH_AES_KEY=key)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "  human: Hello\n  ai: 1\n" in shown.stdout
    refused = mongomem(*asked, MONGODB_URI=mongo_uri)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    other = mongomem(*asked, "--encrypted", MONGODB_URI=mongo_uri, LANGGRAPH_AES_KEY="x" * 16)
    assert (other.returncode, other.stdout, other.stderr.count("\n")) == (1, "", 1)


def test_the_local_server(tmp_path: Path, no_uri: None) -> None:
    folder = tmp_path / "data"
    with LocalServer(folder) as server, MongoMemory.connect(server.uri) as memory:
        memory.user("ada").remember("I live in Lisbon.", key="home")
    ran = mongomem("memories", "--data-dir", str(folder), "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [one["key"] for one in printed_json(ran)["items"]] == ["home"]
    ran = mongomem("namespaces", "--local", MONGOMEM_DATA_DIR=str(folder))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "ada.memories" in ran.stdout


def test_users_without_rights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LocalServer(throw_away=True) as server, MongoClient(server.uri) as client:
        saver = MongoSaver(client, "threads")
        chat(saver).invoke({"messages": [HumanMessage("Hello")]}, config_of("t"))
        client["admin"].command("createUser", "nobody", pwd="x", roles=[])
        of_writes = {
            "role": "writes",
            "privileges": [
                {
                    "resource": {"db": "threads", "collection": "mongomem_checkpoint_writes"},
                    "actions": ["find"],
                }
            ],
            "roles": [],
        }
        client["admin"].command({"createRole": of_writes.pop("role"), **of_writes})
        client["admin"].command("createUser", "writer", pwd="x", roles=["writes"])
        hosts = server.uri.partition("@")[2]
        nobody, writer = (f"mongodb://{user}:x@{hosts}" for user in ("nobody", "writer"))
        commands = ("threads", "history t", "show t", "stats", "memories")
        for asked, uri in product(commands, (nobody, writer)):
            code, out, error = lines_of(
                capsys, tmp_path, *asked.split(), "--uri", uri, "--db", "threads"
            )
            assert (code, out, error.count("\n")) == (1, "", 1), asked
            assert error.startswith("mongomem: the user of the connection string may not run ")
        wrong = f"mongodb://nobody:secret@{hosts}"
        code, _, error = lines_of(capsys, tmp_path, "threads", "--uri", wrong)
        assert (code, error.count("\n")) == (2, 1)
        assert "secret" not in error


def test_every_command_has_the_options_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in COMMANDS:
        code, out, _ = lines_of(capsys, tmp_path, name, "--help")
        assert code == 0
        assert {"--uri", "--db", "--prefix", "--local", "--json"} <= set(out.split())
