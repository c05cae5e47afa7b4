"""``mongomem doctor`` on an empty, a full and a damaged database, and with few rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from pymongo import MongoClient
from pymongo.write_concern import WriteConcern

from mongomem import Concerns, LocalServer, MongoMemory, MongoSaver
from mongomem.checkpoint.documents.collections import thread_doc_id
from mongomem.engine.clock import utc_now
from mongomem.inspection.examination import samples, weights
from mongomem.inspection.examination.findings import Findings
from mongomem.inspection.examination.server import _see_clock, _see_topology, _see_version
from mongomem.inspection.inspector import Inspector
from support.command_line import lines_of, mongomem, printed_json
from support.databases import drop, with_database
from support.migrations import chat, config_of, fill

INDEX: Any = {"embed": "local", "dims": 256}

CHECKPOINTS, WRITES = "mongomem_checkpoints", "mongomem_checkpoint_writes"
ITEMS, SETTINGS = "mongomem_store_items", "mongomem_store_settings"


@pytest.fixture
def memory(mongo_client: MongoClient, database_name: str) -> MongoMemory:
    """A memory with threads of many kinds, and items."""
    memory = MongoMemory(mongo_client, database_name, index=INDEX)
    fill_all(memory)
    return memory


def fill_all(memory: MongoMemory) -> None:
    fill(memory.saver)
    talk = chat(memory.saver)
    for number in range(3):
        text = " ".join(f"{number}-{place}" for place in range(3_000))
        talk.invoke({"messages": [HumanMessage(text)]}, config_of("long"))
    for key in ("home", "pet", "work"):
        memory.user("ada").remember(f"My {key} is here.", key=key)


def codes(found: dict[str, Any]) -> dict[str, str]:
    """Return the severity of each finding that is not of the server itself, by its code."""
    of_server = ("server_version", "one_member", "standalone", "feature_compatibility")
    return {
        one["code"]: one["severity"] for one in found["findings"] if one["code"] not in of_server
    }


def examined(memory: MongoMemory) -> dict[str, Any]:
    """Examine in this process."""
    *_, (_, findings) = Inspector(memory).examination()
    found: dict[str, Any] = json.loads(json.dumps(findings.json()))
    return found


APPLICATION = """
from mongomem import MongoMemory

def memory():
    with MongoMemory.connect({uri!r}, db_name={name!r}) as memory:
        yield memory
"""


def test_a_new_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody named it, or the application did: nothing is stored yet."""
    with LocalServer(throw_away=True) as server:
        (tmp_path / "app.py").write_text(APPLICATION.format(uri=server.uri, name="new"), "utf-8")
        seen = [
            lines_of(capsys, tmp_path, "doctor", *named)
            for named in (["--uri", server.uri], ["--memory", "app:memory"])
        ]
    for name, (code, out, error) in zip(("mongomem", "new"), seen, strict=True):
        assert (code, error) == (0, "")
        assert f"note: the database {name!r} has no collections that begin with" in out
        assert out.endswith("\nnothing needs to be done\n")


@pytest.mark.parametrize("of_uri", [False, True])
def test_a_name_under_which_nothing_is_stored(
    of_uri: bool, mongo_uri: str, database_name: str
) -> None:
    uri = with_database(mongo_uri, database_name) if of_uri else mongo_uri
    named = [] if of_uri else ["--db", database_name]
    ran = mongomem("doctor", *named, MONGODB_URI=uri)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert f"warning: the database {database_name!r} has no collections that beg" in ran.stdout
    assert "nothing needs to be done" not in ran.stdout


@pytest.mark.parametrize("prefix", [None, "their_"])
def test_a_prefix_under_which_nothing_is_stored(
    prefix: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [] if prefix is None else ["--prefix", prefix]
    with LocalServer(throw_away=True) as server:
        if prefix is None:
            with MongoMemory.connect(server.uri, collection_prefix="our_") as memory:
                memory.setup()
        code, out, error = lines_of(capsys, tmp_path, "doctor", "--uri", server.uri, *named)
    assert (code, error) == (1, "")
    assert "\nwarning: the database 'mongomem' has no collections that begin with" in out


def test_a_full_database(memory: MongoMemory, mongo_uri: str, database_name: str) -> None:
    ran = mongomem("doctor", "--db", database_name, "--json", MONGODB_URI=mongo_uri)
    assert (ran.returncode, ran.stderr) == (0, "")
    found = printed_json(ran)
    assert set(found) == {"facts", "findings", "exit_code", "error"}
    assert codes(found) == {}
    facts = found["facts"]
    assert facts["index"]["model"] == "local:wordllama-256"
    assert facts["items"]["documents"] == 3
    assert facts["documents_read"] > 100
    assert (facts["write_concern"], facts["read_concern"]) == ("majority", "majority")
    for one in found["findings"]:
        assert set(one) == {"code", "severity", "what", "advice", "names"}


def test_a_damaged_database(
    memory: MongoMemory,
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collection = mongo_client[database_name][CHECKPOINTS]
    newest = {"type": "checkpoint", "thread_id": "chat"}
    collection.update_one(newest, {"$set": {"content": {"data": b"changed"}}})
    chunk = collection.find_one({"type": "chunk", "thread_id": "long"})
    assert chunk is not None
    collection.delete_many({"type": "chunk", "thread_id": "long"})
    collection.insert_one({"_id": b"x" * 28, "type": "letter", "thread_id": "long"})
    mongo_client[database_name][WRITES].update_one({}, {"$set": {"idx": "first"}})
    mongo_client[database_name][ITEMS].update_one(
        {"key": "pet"}, {"$set": {"namespace": ["bob", "memories"]}}
    )
    ran = mongomem("doctor", "--db", database_name, MONGODB_URI=mongo_uri)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "documents looked at are damaged\n  - " in ran.stdout
    assert "what to do: restore them from a backup" in ran.stdout
    assert all(line.isprintable() for line in ran.stdout.split("\n"))
    monkeypatch.setattr(samples, "MOST_NAMED", 20)
    # The memory that wrote the chunks has them in its cache.
    fresh = MongoMemory(mongo_client, database_name, index=INDEX)
    (found,) = [one for one in examined(fresh)["findings"] if one["severity"] == "error"]
    assert found["code"] == "damaged"
    said = "\n".join(found["names"])
    parts = ("'chat'", "'letter'", "is missing", "idx is 'first'", "'pet'")
    assert [one for one in parts if one not in said] == []


def test_indexes(memory: MongoMemory, mongo_client: MongoClient, database_name: str) -> None:
    database = mongo_client[database_name]
    database[CHECKPOINTS].drop_index("history")
    database[CHECKPOINTS].create_index("epoch", name="own")
    place = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx")
    database[WRITES].create_index([(one, 1) for one in place], name="once", unique=True)
    database[ITEMS].drop_index("by_path")
    database[ITEMS].create_index([("path", -1)], name="by_path")
    found = examined(memory)
    assert codes(found) == {
        "other_index": "error",
        "unique_index": "error",
        "missing_index": "warning",
        "foreign_index": "note",
    }
    names = {one["code"]: one["names"] for one in found["findings"]}
    assert (names["missing_index"], names["foreign_index"]) == (["history"], ["own"])
    assert (names["unique_index"], names["other_index"]) == (["once"], ["by_path"])


def test_what_expires(memory: MongoMemory, mongo_client: MongoClient, database_name: str) -> None:
    database = mongo_client[database_name]
    MongoSaver(mongo_client, database_name, ttl=timedelta(days=10)).setup()
    facts = examined(memory)["facts"]
    assert (facts["thread_ttl_seconds"], facts["threads_expire_after_seconds"]) == (
        864_000,
        950_400,
    )
    database[WRITES].drop_index("expiry")
    database[ITEMS].drop_index("by_expiry")
    old = utc_now() - timedelta(days=2)
    database[ITEMS].update_one({"key": "pet"}, {"$set": {"expires_at": old}})
    found = codes(examined(memory))
    assert found == {"ttl_differs": "warning", "missing_index": "warning", "expired": "warning"}


def test_searches(memory: MongoMemory, mongo_client: MongoClient, database_name: str) -> None:
    items = mongo_client[database_name][ITEMS]
    items.update_one({"key": "home"}, {"$set": {"index": "of another"}})
    items.update_one({"key": "pet"}, {"$unset": {"terms": ""}})
    memory_without = MongoMemory(mongo_client, database_name)
    memory_without.store.put(("ada", "memories"), "new", {"text": "No vector."})
    found = examined(memory)
    assert codes(found) == dict.fromkeys(("other_vectors", "no_terms", "no_vectors"), "warning")
    assert {one["advice"] for one in found["findings"] if one["severity"] == "warning"} == {
        "run mongomem reindex, or reindex() of the store"
    }
    memory.store.reindex()
    assert codes(examined(memory)) == {}


def test_what_is_left_of_threads(
    memory: MongoMemory, mongo_client: MongoClient, database_name: str
) -> None:
    collection = mongo_client[database_name][CHECKPOINTS]
    old = utc_now() - timedelta(days=3)
    collection.delete_one({"_id": thread_doc_id("chat")})
    collection.update_many({"thread_id": "chat"}, {"$set": {"touched_at": old}})
    collection.update_many({"type": "chunk"}, {"$set": {"idle_since": old}})
    memory.saver.delete_thread("odd")
    collection.update_one({"_id": thread_doc_id("odd")}, {"$set": {"deleted_at": old}})
    assert codes(examined(memory)) == {
        "orphans": "warning",
        "idle_chunks": "note",
        "tombstones": "note",
    }


def test_versions_and_owners(
    memory: MongoMemory, mongo_client: MongoClient, database_name: str
) -> None:
    database = mongo_client[database_name]
    database[SETTINGS].insert_one({"_id": "schema", "version": 9})
    database[ITEMS].update_one({"key": "pet"}, {"$set": {"schema_version": 2}})
    database[WRITES].insert_one({"thread_id": "of others"})
    found = examined(memory)
    assert codes(found) == dict.fromkeys(("newer_schema", "foreign_documents", "damaged"), "error")
    said = [name for one in found["findings"] for name in one["names"]]
    assert any("written by a newer mongomem" in one for one in said)


def test_slow_spots(memory: MongoMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "MANY_CHECKPOINTS", 10)
    monkeypatch.setattr(weights, "LARGE_THREAD", 20_000)
    monkeypatch.setattr(weights, "LARGE_CHANNEL", 10_000)
    monkeypatch.setattr(weights, "HUGE_CHANNEL", 20_000)
    monkeypatch.setattr(weights, "LARGE_ITEM", 100)
    found = examined(memory)
    assert codes(found) == {
        "large_thread": "warning",
        "large_channel": "warning",
        "long_history": "note",
        "large_item": "note",
    }
    names = {one["code"]: one["names"] for one in found["findings"]}
    assert names["large_channel"][0].startswith("messages of long (")
    assert names["long_history"] == ["counting (15)", "keeping (13)"]
    assert names["large_thread"][0].startswith("long (")


def test_collections_that_somebody_else_made(mongo_client: MongoClient, database_name: str) -> None:
    mongo_client[database_name].create_collection(CHECKPOINTS, collation={"locale": "en"})
    found = examined(MongoMemory(mongo_client, database_name))
    assert codes(found)["collection_options"] == "error"
    assert "collation" in next(
        one["what"] for one in found["findings"] if one["code"] == "collection_options"
    )


def test_weak_concerns(mongo_client: MongoClient, database_name: str) -> None:
    weak = Concerns(write_concern=WriteConcern(1), read_concern=None)  # type: ignore[arg-type]
    memory = MongoMemory(mongo_client, database_name, saver_options={"concerns": weak})
    assert {"write_concern", "read_concern"} <= set(codes(examined(memory)))


def test_encrypted_threads_are_not_damaged(
    mongo_client: MongoClient, mongo_uri: str, database_name: str
) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"sixteen bytes...")
    with_key = MongoMemory(mongo_client, database_name, serde=serde, index=INDEX)
    fill_all(with_key)
    assert codes(examined(with_key)) == {}
    found = examined(MongoMemory(mongo_client, database_name))
    assert codes(found) == {"unseen": "unseen"}
    ran = mongomem("doctor", "--db", database_name, MONGODB_URI=mongo_uri)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "what to do: say --encrypted" in ran.stdout


HELLO = {"setName": "rs", "hosts": ["a", "b"], "arbiters": ["c"]}


def test_servers_that_no_test_can_run() -> None:
    findings = Findings()
    _see_version(findings, {"version": "4.2.1"})
    _see_topology(findings, {})
    _see_topology(findings, HELLO)
    _see_topology(findings, {"msg": "isdbgrid"})
    now = utc_now()
    _see_clock(findings, now, now + timedelta(minutes=5))
    _see_clock(findings, now, now + timedelta(seconds=5))
    assert [one.code for one in findings.found] == [
        *("server_version", "standalone", "two_members", "clock"),
    ]
    assert findings.facts["topology"] == "sharded cluster"
    assert findings.needs_action


@pytest.fixture
def few_rights() -> Iterator[tuple[str, str]]:
    """A server with data, by the connection strings of a user who may read, and of one who may
    not even list indexes.
    """
    with LocalServer(throw_away=True) as server, MongoClient(server.uri) as client:
        fill_all(MongoMemory(client, "full", index=INDEX))
        actions = ["find", "listCollections"]
        privileges = [{"resource": {"db": "full", "collection": ""}, "actions": actions}]
        client["admin"].command("createRole", "finds", privileges=privileges, roles=[])
        reads = {"role": "read", "db": "full"}
        client["admin"].command("createUser", "reader", pwd="x", roles=[reads])
        client["admin"].command("createUser", "finder", pwd="x", roles=["finds"])
        hosts = server.uri.partition("@")[2]
        yield f"mongodb://reader:x@{hosts}", f"mongodb://finder:x@{hosts}"


def test_users_with_few_rights(
    few_rights: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []
    for uri in few_rights:
        asked = ["doctor", "--uri", uri, "--db", "full", "--json"]
        code, out, error = lines_of(capsys, tmp_path, *asked)
        found = json.loads(out)
        assert (code, error, set(codes(found).values())) == (0, "", {"unseen"})
        seen.append([one["what"] for one in found["findings"] if one["code"] == "unseen"])
        assert found["facts"]["documents_read"] > 100
    assert seen[0] == ["not seen: parameters of the server, since this user has not the right to"]
    assert any("the indexes of" in one for one in seen[1])
    assert any("the size of" in one for one in seen[1])


def test_other_prefixes_are_named(mongo_client: MongoClient, database_name: str) -> None:
    name = f"test_{uuid4().hex}"
    MongoSaver(mongo_client, name, collection_prefix="our_").setup()
    (found,) = [
        one
        for one in examined(MongoMemory(mongo_client, name))["findings"]
        if one["code"] == "empty"
    ]
    drop(mongo_client, name)
    assert found["names"] == ["our_"]
