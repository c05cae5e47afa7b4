"""The commands that read, as processes on a real server: what they print, as text and as JSON."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pymongo import MongoClient

from mongomem import LocalServer, MongoMemory, MongoSaver, MongoStore
from mongomem.engine.clock import utc_now
from support.command_line import (
    assert_quiet_without_reader,
    command,
    lines_of,
    mongomem,
    printed_json,
    ran_here,
)
from support.databases import drop
from support.graphs import chain_of
from support.migrations import chat, config_of, fill
from support.waits import HANG_SECONDS, await_that

CONTROL = "\x1b[31mred\x07 \x9b1m\u202e"

Asked = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def filled(mongo_client: MongoClient, mongo_uri: str) -> Iterator[str]:
    """A database with threads of many kinds, and items of two users."""
    name = f"test_{uuid4().hex}"
    with MongoMemory.connect(
        mongo_uri, db_name=name, index={"embed": "local", "dims": 256}
    ) as memory:
        fill(memory.saver)
        talk = chat(memory.saver)
        talk.invoke({"messages": [HumanMessage(f"Hello {CONTROL}")]}, config_of("odd \x1b[2J"))
        ada = memory.user("ada")
        ada.remember("My dog is called Brunel.", key="pet", topic="animals")
        ada.remember(f"I live in Lisbon. {CONTROL}", key="home", topic="places")
        memory.user("bob").remember("I live in Porto.", key="home", topic="places")
    yield name
    drop(mongo_client, name)


@pytest.fixture
def ask(filled: str, mongo_uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Asked:
    """Run a command on that database."""

    def asked(*arguments: str) -> subprocess.CompletedProcess[str]:
        given = [*arguments, "--uri", mongo_uri, "--db", filled]
        return ran_here(capsys, tmp_path, *given)

    return asked


def told(ran: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    """Return what was printed as JSON, without what every command prints."""
    found = printed_json(ran)
    assert (ran.stderr, ran.returncode) == ("", code)
    assert (found.pop("exit_code"), found.pop("error")) == (code, None)
    return found


def printed(ran: subprocess.CompletedProcess[str]) -> str:
    """Return what was printed as text. No character of it is one that a terminal obeys."""
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert all(line.isprintable() for line in ran.stdout.split("\n"))
    return ran.stdout


THREADS = ["odd \x1b[2J", "odd", "chat", "forked", "counting", "mapping", "keeping", "nested"]


def test_threads(ask: Asked) -> None:
    first = told(ask("threads", "--limit", "8", "--json"))
    assert [one["thread_id"] for one in first["threads"]] == THREADS
    by_name = {one["thread_id"]: one for one in first["threads"]}
    assert set(by_name["chat"]) == {
        *("thread_id", "created_at", "updated_at", "metadata", "preview"),
        *("checkpoints", "pending_writes", "stored_bytes", "logical_bytes"),
    }
    assert (by_name["chat"]["checkpoints"], by_name["chat"]["preview"]) == (6, "3")
    assert by_name["forked"]["stored_bytes"] > by_name["odd"]["stored_bytes"] > 0
    assert first["next"] == "nested"
    rest = told(ask("threads", "--before", "nested", "--json"))
    assert ([one["thread_id"] for one in rest["threads"]], rest["next"]) == (["asking"], None)
    of_ada = told(ask("threads", "--user", "ada", "--filter", "step=1", "--json"))
    assert of_ada["threads"] == []
    of_ada = told(ask("threads", "--user", "ada", "--json"))
    assert [one["thread_id"] for one in of_ada["threads"]] == ["odd", "chat"]
    text = printed(ask("threads", "--limit", "3"))
    assert "odd \\u{1b}[2J" in text
    assert text.endswith("there may be more: --before chat\n")
    assert printed(ask("threads", "--before", "2020-01-01")) == "no threads behind 2020-01-01\n"
    ran = ask("threads", "--before", "nowhere")
    assert (ran.stdout, ran.returncode, ran.stderr.count("\n")) == ("", 1, 1)
    assert ran.stderr.startswith("mongomem: there is no thread 'nowhere' in this database: ")


def test_history_shows_forks(ask: Asked) -> None:
    text = printed(ask("history", "forked"))
    assert "\n●─╮     1  loop                    → two " in text
    assert "\n  ●     2  update, fork of step 1  → two " in text
    found = told(ask("history", "forked", "--json"))
    assert (found["thread_id"], found["is_cut"], found["damaged"]) == ("forked", False, [])
    by_id = {one["checkpoint_id"]: one for one in found["checkpoints"]}
    assert len(by_id) == 8
    parents = [one["parent_checkpoint_id"] for one in by_id.values()]
    assert len(parents) - len(set(parents)) == 1
    newest, *_, oldest = found["checkpoints"]
    assert (newest["step"], newest["changed"], newest["next"]) == (4, ["log", "count"], [])
    assert (oldest["parent_checkpoint_id"], oldest["source"]) == (None, "input")
    cut = told(ask("history", "forked", "--limit", "3", "--json"))
    assert (len(cut["checkpoints"]), cut["is_cut"]) == (3, True)


def test_history_shows_subgraphs_and_questions(ask: Asked) -> None:
    text = printed(ask("history", "nested"))
    assert text.count("asks: well?") == 3
    assert "\nsubgraph child:" in text
    found = told(ask("history", "nested", "--json"))["checkpoints"]
    namespaces = {one["checkpoint_ns"] for one in found}
    assert sorted(one.count("|") for one in namespaces) == [0, 0, 1]
    (root,) = [one for one in found if not one["checkpoint_ns"] and one["step"] == 1]
    (inner,) = [one for one in namespaces if one.count("|") == 0 and one]
    called = {one["called_at"][""] for one in found if one["checkpoint_ns"] == inner}
    assert called == {root["checkpoint_id"]}
    only = told(ask("history", "nested", "--checkpoint-ns", inner, "--json"))["checkpoints"]
    assert {one["checkpoint_ns"] for one in only} == {inner}


def test_show(ask: Asked) -> None:
    found = told(ask("show", "chat", "--json"))
    assert [one["content"] for one in found["values"]["messages"]] == [
        *("Hello", "1", "How are you?", "3"),
    ]
    assert (found["metadata"]["user_id"], found["next"], found["pending_writes"]) == ("ada", [], [])
    assert found["bytes"]["messages"] > 100
    text = printed(ask("show", "chat"))
    assert "\n  human: Hello\n  ai: 1\n  human: How are you?\n  ai: 3\n" in text
    before = told(ask("show", "chat", found["parent_checkpoint_id"][-12:], "--json"))
    assert before["checkpoint_id"] == found["parent_checkpoint_id"]
    assert before["next"] == ["answer"]
    waiting = told(ask("show", "asking", "--json"))
    assert waiting["interrupts"] == [{"of": one, "number": 0} for one in ("ask0", "ask1")]
    assert waiting["next"] == ["ask0", "ask1"]
    assert "\nasks        {" in printed(ask("show", "asking"))
    assert "Hello \\u{1b}[31mred\\u{7} \\u{9b}1m\\u{202e}" in printed(ask("show", "odd \x1b[2J"))
    assert "\x9b" not in ask("show", "odd \x1b[2J", "--json").stdout


def test_show_of_subgraphs(ask: Asked) -> None:
    found = told(ask("history", "nested", "--json"))["checkpoints"]
    namespace = max((one["checkpoint_ns"] for one in found), key=len)
    inner = told(ask("show", "nested", "--checkpoint-ns", namespace, "--json"))
    assert (inner["checkpoint_ns"], inner["interrupts"]) == (namespace, ["well?"])
    assert inner["values"] == {"log": ["open", "look"], "topic": "child", "count": 1}


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("show nowhere", "there is no thread 'nowhere' in this database: mongomem threads and"),
        ("history nowhere", "there is no thread 'nowhere' in this database: mongomem threads"),
        ("stats nowhere", "there is no thread 'nowhere' in this database: mongomem threads"),
        (
            "show chat --checkpoint-ns child",
            "thread 'chat' has no checkpoint in the namespace 'child': mongomem threads",
        ),
        ("show chat zzz", "thread 'chat' has no checkpoint whose id ends with 'zzz': its history"),
        ("diff chat zzz zzz", "thread 'chat' has no checkpoint whose id ends with 'zzz'"),
    ],
)
def test_what_is_not_there_is_one_line(
    asked: str,
    line: str,
    filled: str,
    mongo_uri: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [*asked.split(), "--uri", mongo_uri, "--db", filled]
    code, out, error = lines_of(capsys, tmp_path, *given)
    assert (code, out, error.count("\n")) == (2 if "zzz" in asked else 1, "", 1)
    assert error.startswith(f"mongomem: {line}")


def test_ends_of_ids_that_several_have(ask: Asked) -> None:
    found = told(ask("history", "counting", "--json"))["checkpoints"]
    last = [one["checkpoint_id"][-1] for one in found]
    several = max(last, key=last.count)
    ran = ask("show", "counting", several)
    assert (ran.stdout, ran.returncode, ran.stderr.count("\n")) == ("", 2, 1)
    assert f"{last.count(several)} checkpoints whose ids end with" in ran.stderr


def test_diff(ask: Asked) -> None:
    steps = told(ask("history", "chat", "--json"))["checkpoints"]
    newest, older = steps[0]["checkpoint_id"], steps[3]["checkpoint_id"]
    found = told(ask("diff", "chat", older, newest, "--json"))
    assert (found["before"], found["after"]) == (older, newest)
    (channel,) = found["channels"]
    assert (channel["name"], channel["kind"]) == ("messages", "changed")
    assert [(one["kind"], one["after"]["content"]) for one in channel["parts"]] == [
        ("added", "How are you?"),
        ("added", "3"),
    ]
    back = told(ask("diff", "chat", newest, older, "--json"))["channels"]
    assert [one["kind"] for one in back[0]["parts"]] == ["removed", "removed"]
    text = printed(ask("diff", "chat", older[-12:], newest[-12:]))
    assert text.startswith(f"--- {older}  step 1  ")
    assert "    + human: How are you?\n" in text
    assert printed(ask("diff", "chat", newest, newest)).endswith("no channel differs\n")


def test_memories_and_namespaces(ask: Asked) -> None:
    found = told(ask("memories", "--json"))
    assert [(one["namespace"], one["key"]) for one in found["items"]] == [
        (["bob", "memories"], "home"),
        (["ada", "memories"], "home"),
        (["ada", "memories"], "pet"),
    ]
    assert {one["score"] for one in found["items"]} == {None}
    scored = told(ask("memories", "ada.memories", "--query", "which animal", "--json"))["items"]
    assert [one["key"] for one in scored] == ["pet", "home"]
    assert scored[0]["score"] > scored[1]["score"]
    assert scored[0]["meaning"] > scored[1]["meaning"]
    places = told(ask("memories", "--filter", "topic=places", "--limit", "1", "--json"))
    assert ([one["key"] for one in places["items"]], places["next"]) == (["home"], 1)
    assert "\\u{" not in printed(ask("memories", "ada", "--query", "dog", "--limit", "1"))
    text = printed(ask("memories", "ada"))
    assert "Lisbon. \\u001b[31mred\\u0007" in text
    held = told(ask("namespaces", "--json"))["namespaces"]
    assert [(one["namespace"], one["items"]) for one in held] == [
        (["ada", "memories"], 2),
        (["bob", "memories"], 1),
    ]
    cut = told(ask("namespaces", "--max-depth", "1", "--json"))["namespaces"]
    assert [(one["namespace"], one["items"]) for one in cut] == [(["ada"], 2), (["bob"], 1)]
    assert cut[0]["stored_bytes"] == held[0]["stored_bytes"] > 0
    assert printed(ask("namespaces", "bob")).count("\n") == 2


def test_memories_of_a_user_whose_id_holds_dots(
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    memory = MongoMemory(mongo_client, database_name)
    memory.user("ben@example.com").remember("I live in Porto.", key="home")
    memory.store.put(("docs",), "k", {"n": 1})
    end = ["--uri", mongo_uri, "--db", database_name]

    def said(*asked: str) -> str:
        return printed(ran_here(capsys, tmp_path, *asked, *end))

    found = told(
        ran_here(capsys, tmp_path, "memories", "--user", "ben@example.com", "--json", *end)
    )
    assert [(one["namespace"], one["key"]) for one in found["items"]] == [
        (["ben@example%2Ecom", "memories"], "home")
    ]
    assert "ben@example%2Ecom.memories" in said("memories", "ben@example%2Ecom")
    assert said("namespaces", "--user", "ben@example.com").count("\n") == 2
    hint = "mongomem namespaces lists the namespaces that hold items"
    by_user = f"{hint}; --user ID names that of a user, whose id may hold dots\n"
    for name, what in (("memories", "items"), ("namespaces", "namespaces")):
        assert said(name, "ben@example.com") == (
            f"no {what} below the namespace ben@example.com\n{by_user}"
        )
        nobody = f"no {what} of user 'a.b', below the namespace a%2Eb\n{hint}\n"
        assert said(name, "--user", "a.b") == nobody
        both = ran_here(capsys, tmp_path, name, "docs", "--user", "ada", *end)
        assert (both.returncode, both.stdout) == (2, "")
        assert both.stderr == "mongomem: name a namespace, or --user ID: one of them\n"
    assert said("memories", "docs", "--filter", "n=2") == (
        "no items that contain what --filter says below the namespace docs\n"
    )
    assert said("memories", "--offset", "20") == "no items behind the first 20\n"
    assert said("namespaces", "--suffix", "x") == "no namespaces that end with x\n"
    assert said("threads", "--user", "a.b") == (
        "no threads that have user_id 'a.b' in their metadata\n"
        "--filter KEY=VALUE looks for any key; mongomem show tells those of a thread\n"
    )
    asked = ("threads", "--user", "a.b", "--filter", "n=2", "--before", "2020-01-01")
    assert said(*asked).splitlines()[0] == (
        "no threads that have user_id 'a.b' in their metadata and contain what --filter says "
        "behind 2020-01-01"
    )


@pytest.mark.parametrize("depth", [[], ["--max-depth", "1"]])
def test_what_has_expired_is_in_no_namespace(
    depth: list[str],
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A local server that stopped before its TTL monitor came round has them yet."""
    store = MongoStore(mongo_client, database_name, clock=lambda: utc_now() - timedelta(hours=2))
    store.setup()
    mongo_client[database_name]["mongomem_store_items"].drop_index("by_expiry")
    store.put(("ada", "notes"), "over", {"n": 1}, ttl=1)
    store.put(("ada", "notes"), "there", {"n": 2})
    store.put(("ben", "notes"), "over", {"n": 3}, ttl=1)
    end = ["--uri", mongo_uri, "--db", database_name, "--json"]
    (held,) = told(ran_here(capsys, tmp_path, "namespaces", *depth, *end))["namespaces"]
    (item,) = told(ran_here(capsys, tmp_path, "memories", *end))["items"]
    assert (item["key"], held["namespace"][0], held["items"]) == ("there", "ada", 1)


def test_stats(ask: Asked, mongo_client: MongoClient, filled: str) -> None:
    found = told(ask("stats", "--largest", "2", "--json"))
    assert found["is_whole"]
    names = {one["collection"]: one["documents"] for one in found["collections"]}
    assert names["mongomem_store_items"] == found["items"] == 3
    threads = told(ask("threads", "--json"))["threads"]
    assert found["threads"] == len(threads) == 9
    for total, own in (
        ("stored_bytes", "stored_bytes"),
        ("logical_bytes", "logical_bytes"),
        ("checkpoints", "checkpoints"),
        ("pending_writes", "pending_writes"),
    ):
        assert found[total] == sum(one[own] for one in threads)
    largest = sorted(threads, key=lambda one: -one["stored_bytes"])[:2]
    assert [one["thread_id"] for one in found["largest_threads"]] == [
        one["thread_id"] for one in largest
    ]
    assert found["largest_channels"][0]["channel"] == "messages"
    assert [one["namespace"][0] for one in found["largest_namespaces"]] == ["ada", "bob"]
    documents = mongo_client[filled]["mongomem_checkpoints"].count_documents({"type": "chunk"})
    assert found["chunks"] == documents
    text = printed(ask("stats"))
    assert "\n9 threads: " in text
    assert text.count("\nsharing: state divided by stored.") == 1
    own = told(ask("stats", "chat", "--json"))
    assert own["thread_id"] == "chat"
    assert {"(checkpoint)", "messages"} <= {one["channel"] for one in own["channels"]}
    assert "\nmessages " in printed(ask("stats", "chat"))
    assert "\nsharing: state divided by stored." in printed(ask("stats", "chat"))


def test_pages_of_stats_come_to_the_same(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = told(ask("stats", "--json"))
    monkeypatch.setattr("mongomem.inspection.sizes.PAGE_DOCUMENTS", 7)
    assert told(ask("stats", "--json")) == whole


def test_sharing_grows_with_a_thread(
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    talk = chat(MongoSaver(mongo_client, database_name))
    for number in range(12):
        text = f"{number} " * 2_000
        talk.invoke({"messages": [HumanMessage(text)]}, config_of("long"))
    end = ["--uri", mongo_uri, "--db", database_name, "--json"]
    found = told(ran_here(capsys, tmp_path, "stats", *end))
    assert found["sharing"] > 2
    assert found["chunks"] > 0
    own = told(ran_here(capsys, tmp_path, "stats", "long", *end))
    (messages,) = [one for one in own["channels"] if one["channel"] == "messages"]
    assert messages["logical_bytes"] > 2 * messages["stored_bytes"] > 0


NOTE = """
from dataclasses import dataclass

@dataclass
class Note:
    text: str
"""


def test_classes_of_an_application(
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "notes.py").write_text(NOTE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import notes  # type: ignore[import-not-found]

    saver = MongoSaver(mongo_client, database_name)
    chain_of(saver, "one").invoke({"topic": notes.Note("a\x1bb")}, config_of("t"))
    sys.modules.pop("notes")
    asked = ["show", "t", "--db", database_name, "--json"]
    plain = told(mongomem(*asked, MONGODB_URI=mongo_uri))
    assert (plain["values"]["topic"], plain["unrevived"]) == ({"text": "a\x1bb"}, ["notes.Note"])
    imported = told(mongomem(*asked, "--import", "notes", cwd=tmp_path, MONGODB_URI=mongo_uri))
    assert imported["values"]["topic"] == {"(class)": "notes.Note", "text": "a\x1bb"}
    assert imported["unrevived"] == []


def test_no_code_of_the_data_is_run(
    mongo_client: MongoClient, mongo_uri: str, database_name: str, tmp_path: Path
) -> None:
    """Somebody who may write to the database names a function that a serializer would call."""
    (tmp_path / "evil.py").write_text("from pathlib import Path\nPath('ran').touch()\n", "utf-8")
    import ormsgpack

    call = ormsgpack.packb(("evil", "run", ["x"]))
    serde = JsonPlusSerializer()
    saver = MongoSaver(mongo_client, database_name, serde=Forging(serde, call))
    chain_of(saver, "one").invoke({"topic": "forged"}, config_of("t"))
    ran = mongomem("show", "t", "--db", database_name, cwd=tmp_path, MONGODB_URI=mongo_uri)
    assert ran.returncode == 0
    assert not (tmp_path / "ran").exists()


class Forging:
    """A serializer that writes a call of a function in the place of one text."""

    def __init__(self, serde: JsonPlusSerializer, call: bytes) -> None:
        self._serde, self._call = serde, call

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        if value == "forged":
            import ormsgpack

            return "msgpack", ormsgpack.packb(ormsgpack.Ext(0, self._call))
        return self._serde.dumps_typed(value)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return self._serde.loads_typed(data)


AS_PROCESSES = {
    "threads": "threads",
    "history forked": "checkpoints",
    "show chat": "values",
    "memories ada --query dog": "items",
    "namespaces": "namespaces",
    "stats": "largest_threads",
    "doctor": "findings",
}


@pytest.mark.parametrize("asked", AS_PROCESSES)
def test_every_command_as_a_process(asked: str, filled: str, mongo_uri: str) -> None:
    ran = mongomem(*asked.split(), "--db", filled, "--json", MONGODB_URI=mongo_uri)
    assert told(ran)[AS_PROCESSES[asked]]


@pytest.mark.parametrize("asked", ["threads", "stats", "doctor"])
def test_a_reader_that_goes_away(asked: str, filled: str, mongo_uri: str) -> None:
    assert_quiet_without_reader(*asked.split(), "--uri", mongo_uri, "--db", filled)


BLOCK = {"failCommands": ["aggregate"], "blockConnection": True, "blockTimeMS": 600_000}


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_stats_that_is_interrupted_says_how_far_it_came() -> None:
    with (
        LocalServer(throw_away=True, parameters={"enableTestCommands": True}) as server,
        MongoMemory.connect(server.uri) as memory,
        MongoClient(server.uri) as client,
    ):
        fill(memory.saver)
        memory.user("ada").remember("I live in Lisbon.", key="home")
        uri = f"{server.uri}&appName=interrupted"
        # Before the items come the sizes of four collections, and a page of threads in three reads.
        client.admin.command(
            {
                "configureFailPoint": "failCommand",
                "mode": {"skip": 7},
                "data": {**BLOCK, "appName": "interrupted"},
            }
        )
        words, options = command(["stats", "--uri", uri, "--json"])
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        ) as process:
            await_that(lambda: is_blocked(client) or process.poll() is not None)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=HANG_SECONDS)
    assert (stderr, process.returncode) == ("mongomem: interrupted; repeat the command\n", 130)
    found = json.loads(stdout)
    assert (found["exit_code"], found["is_whole"]) == (130, False)
    assert found["threads"] > 0
    assert found["items"] == 0


def is_blocked(client: MongoClient) -> bool:
    """Say whether the command waits in the server."""
    running = client.admin.command({"currentOp": 1, "appName": "interrupted"})
    commands = [str(one.get("command")) for one in running["inprog"]]
    return any("mongomem_store_items" in one and "$limit" in one for one in commands)
