"""The commands that change what is stored: what they print, their exit codes, pipes, terminals."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base.id import uuid6
from pymongo import MongoClient

from mongomem import LocalServer, MongoMemory, MongoSaver, MongoStore, Retention
from mongomem.schema.migrations import Migration
from support.backups import filled, items_of, threads_of
from support.command_line import (
    assert_quiet_without_reader,
    command,
    lines_of,
    mongomem,
    printed_json,
)
from support.migrations import GRAPHS, assert_same_threads, config_of
from support.terminals import read_to_the_end
from support.waits import HANG_SECONDS

NO_ONE = "Say --yes to do it; nothing was done\n"


@pytest.fixture
def memory(mongo_client: MongoClient, database_name: str) -> MongoMemory:
    return filled(MongoMemory(mongo_client, database_name))


@pytest.fixture
def here(mongo_uri: str, database_name: str) -> list[str]:
    """The options that name the database."""
    return ["--uri", mongo_uri, "--db", database_name]


def ids_of(memory: MongoMemory) -> set[str]:
    return {one.thread_id for one in threads_of(memory)}


def test_setup(
    mongo_client: MongoClient,
    database_name: str,
    here: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran = mongomem("setup", *here)
    assert (ran.stderr, ran.returncode) == ("", 0)
    done = [line.split() for line in ran.stdout.splitlines()]
    assert done[0] == ["done", "collection", "index", "expires"]
    assert ["created", "mongomem_checkpoints", "history"] in done
    assert ["created", "mongomem_store_items", "by_expiry", "at", "its", "time"] in done
    assert lines_of(capsys, tmp_path, "setup", *here) == (0, "all 19 indexes are there\n", "")

    memory = MongoMemory(mongo_client, database_name)
    GRAPHS["asking"](memory.saver).invoke({"topic": "x"}, config_of("asking"))
    code, out, _ = lines_of(capsys, tmp_path, "setup", *here, "--thread-ttl", "30d", "--json")
    told = json.loads(out)
    assert (code, told["indexes"], told["migrated"]) == (0, 21, {})
    assert [one["expire_after_seconds"] for one in told["changes"]] == [33 * 24 * 3600] * 2
    code, out, _ = lines_of(capsys, tmp_path, "setup", *here, "--thread-ttl", "60d")
    *table, life, latest = out.splitlines()
    assert [line.split()[0] for line in table] == ["done", "changed", "changed"]
    assert table[1].endswith("  after 66 days")
    assert life == "a thread that nobody uses for 60 days reads as gone"
    assert latest.startswith(
        "the server deletes it after 66 days: a tenth more, since uses are noted"
    )
    lived = f"{life}\n{latest}\n"
    assert lines_of(capsys, tmp_path, "setup", *here)[1] == f"all 21 indexes are there\n{lived}"
    code, out, _ = lines_of(capsys, tmp_path, "setup", *here, "--thread-ttl", "never")
    assert [line.split()[0] for line in out.splitlines()] == ["done", "dropped", "dropped"]


def test_setup_tells_of_migrations(
    here: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nothing(_context: object) -> None:
        pass

    lines_of(capsys, tmp_path, "setup", *here)
    monkeypatch.setattr("mongomem.checkpoint.plans.setup.MIGRATIONS", (Migration(2, nothing),))
    code, out, _ = lines_of(capsys, tmp_path, "setup", *here)
    first = "mongomem_checkpoint_settings: brought to schema version 2\n"
    assert (code, out) == (0, f"{first}all 19 indexes are there\n")
    assert lines_of(capsys, tmp_path, "setup", *here)[1] == "all 19 indexes are there\n"


def test_a_time_to_live_that_ends_threads_at_once(
    mongo_client: MongoClient,
    database_name: str,
    memory: MongoMemory,
    here: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["setup", *here, "--thread-ttl", "0.00001m"]
    code, _, error = lines_of(capsys, tmp_path, *asked)
    assert (code, error) == (
        2,
        "mongomem: 8 threads were not used for that long, and will be deleted. Go on? " + NO_ONE,
    )
    names = [
        one["name"] for one in mongo_client[database_name]["mongomem_checkpoints"].list_indexes()
    ]
    assert "expiry" not in names
    assert len(threads_of(memory)) == 8


def test_delete(
    memory: MongoMemory, here: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["delete", *here, "chat", "odd"]
    refused = mongomem(*asked)
    assert refused.returncode == 2
    assert refused.stderr == f"mongomem: Delete 2 threads with 7 checkpoints? {NO_ONE}"
    code, out, _ = lines_of(capsys, tmp_path, *asked, "--dry-run")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["thread", "updated", "(UTC)", "checkpoints", "writes", "stored"]
    assert [(row[0], *row[3:5]) for row in rows[1:3]] == [("chat", "6", "6"), ("odd", "1", "0")]
    assert out.endswith("2 threads with 7 checkpoints would go\n")
    assert len(threads_of(memory)) == 8

    ran = mongomem(*asked, "--yes", "--json")
    told = printed_json(ran)
    assert (ran.stderr, ran.returncode, told["exit_code"], told["error"]) == ("", 0, 0, None)
    assert told["deleted"] == ["chat", "odd"]
    assert told["threads"][0]["checkpoints"] == 6
    assert len(threads_of(memory)) == 6
    again = lines_of(capsys, tmp_path, *asked, "nested", "--yes")
    assert again == (0, "deleted before: chat, odd\ndeleted 1 thread\n", "")
    assert len(threads_of(memory)) == 5
    code, out, error = lines_of(capsys, tmp_path, *asked, "asking", "nobody", "--yes")
    assert (code, out, len(error.splitlines())) == (1, "", 1)
    assert error.startswith("mongomem: there is no thread 'nobody' in this database")
    assert len(threads_of(memory)) == 5


def test_delete_of_idle_threads(
    mongo_client: MongoClient,
    database_name: str,
    memory: MongoMemory,
    here: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["delete", *here, "--idle-for", "4w", "--yes"]
    assert lines_of(capsys, tmp_path, *asked) == (0, "deleted 0 threads\n", "")
    mongo_client[database_name]["mongomem_checkpoints"].update_many(
        {"type": "thread", "thread_id": {"$in": ["odd", "chat"]}},
        [{"$set": {"updated_at": {"$subtract": ["$updated_at", 30 * 24 * 3600 * 1000]}}}],
    )
    assert lines_of(capsys, tmp_path, *asked) == (0, "deleted 2 threads\n", "")
    assert not ids_of(memory) & {"odd", "chat"}


def test_a_thread_that_is_used_while_somebody_is_asked_stays(
    memory: MongoMemory,
    here: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    mongo_client: MongoClient,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mongo_client[database_name]["mongomem_checkpoints"].update_many(
        {"type": "thread", "thread_id": {"$in": ["odd", "chat"]}},
        [{"$set": {"updated_at": {"$subtract": ["$updated_at", 30 * 24 * 3600 * 1000]}}}],
    )

    def answered(*_arguments: Any, **_options: Any) -> None:
        last = memory.saver.get_tuple(config_of("odd"))
        assert last is not None
        checkpoint = {**last.checkpoint, "id": str(uuid6())}
        memory.saver.put(last.config, checkpoint, last.metadata, {})  # type: ignore[arg-type]

    monkeypatch.setattr("mongomem.command_line.command.Run.confirm", answered)
    asked = ["delete", *here, "--idle-for", "4w"]
    assert lines_of(capsys, tmp_path, *asked) == (0, "deleted 1 thread\n", "")
    assert "odd" in ids_of(memory)
    assert "chat" not in ids_of(memory)


def test_prune(
    memory: MongoMemory, here: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {one.thread_id: one.checkpoint_count for one in threads_of(memory)}
    ran = mongomem("prune", *here, "--all", "--dry-run", "--json")
    told = printed_json(ran)
    assert (ran.returncode, ran.stderr, told["dry_run"], told["deleted"]) == (0, "", True, 0)
    assert {one.thread_id: one.checkpoint_count for one in threads_of(memory)} == before
    dry = memory.saver.prune([*before], dry_run=True)
    assert told["removed"] == sum(len(one.removed) for one in dry)
    assert {one["thread_id"]: one["removed"] for one in told["first"]} == {
        one.thread_id: len(one.removed) for one in dry if one.removed or one.hidden
    }
    what = f"{told['removed']} checkpoints of {told['changed']} threads"
    code, out, error = lines_of(capsys, tmp_path, "prune", *here, "--all")
    assert (code, out.splitlines()[-1]) == (2, f"{what} would go")
    assert error == f"mongomem: Remove {what}? {NO_ONE}"
    assert {one.thread_id: one.checkpoint_count for one in threads_of(memory)} == before

    code, out, _ = lines_of(capsys, tmp_path, "prune", *here, "chat", "--keep-last", "2", "--yes")
    assert (code, out.splitlines()[-1]) == (0, "removed 4 checkpoints of 1 thread")
    code, out, _ = lines_of(
        capsys, tmp_path, "prune", *here, "--all", "--older-than", "1h", "--yes"
    )
    assert (code, out) == (0, "removed 0 checkpoints of 0 threads\n")
    state = GRAPHS["forked"](memory.saver).get_state(config_of("forked"))
    ran = mongomem("prune", *here, "--all", "--yes")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert GRAPHS["forked"](memory.saver).get_state(config_of("forked")).values == state.values
    assert lines_of(capsys, tmp_path, "prune", *here, "--all", "--yes")[1] == (
        "removed 0 checkpoints of 0 threads\n"
    )


def test_prune_by_a_policy(
    memory: MongoMemory, here: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {one.thread_id: one.checkpoint_count for one in threads_of(memory)}
    dry = memory.saver.apply_retention(Retention(keep_last=1), dry_run=True)
    ran = mongomem("prune", *here, "--policy", "keep_last=1, older_than=4w", "--dry-run", "--json")
    told = printed_json(ran)
    assert (ran.returncode, ran.stderr, told["dry_run"], told["removed"]) == (0, "", True, 0)
    told = printed_json(mongomem("prune", *here, "--policy", "keep_last=1", "--dry-run", "--json"))
    removed = {one.thread_id: len(one.removed) for one in dry.pruned}
    assert {one["thread_id"]: one["removed"] for one in told["first"]} == removed
    assert (told["deleted"], told["changed"]) == (0, len(removed))
    assert {one.thread_id: one.checkpoint_count for one in threads_of(memory)} == before
    code, out, _ = lines_of(capsys, tmp_path, "prune", *here, "--policy", "keep_last=1", "--yes")
    last = f"removed {sum(removed.values())} checkpoints of {len(removed)} threads"
    assert (code, out.splitlines()[-1]) == (0, last)
    assert memory.saver.apply_retention(Retention(keep_last=1)).pruned == []


def test_a_damaged_thread_does_not_keep_others_from_being_pruned(
    mongo_client: MongoClient,
    database_name: str,
    memory: MongoMemory,
    here: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    documents = mongo_client[database_name]["mongomem_checkpoints"]
    documents.update_many(
        {"type": "checkpoint", "thread_id": "forked"}, {"$unset": {"checkpoint_id": ""}}
    )
    for asked in (["--all"], ["--policy", "keep_last=1"]):
        code, out, error = lines_of(capsys, tmp_path, "prune", *here, *asked, "--yes")
        assert (code, error) == (1, "")
        assert "left out: thread 'forked': " in out
        told = json.loads(lines_of(capsys, tmp_path, "prune", *here, *asked, "--yes", "--json")[1])
        assert (told["left_out"]["count"], told["removed"], told["exit_code"]) == (1, 0, 1)
    assert all(
        one.checkpoint_count == 1 for one in threads_of(memory) if one.thread_id in ("chat", "odd")
    )


def test_prune_by_a_policy_that_deletes(
    mongo_client: MongoClient,
    database_name: str,
    memory: MongoMemory,
    here: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mongo_client[database_name]["mongomem_checkpoints"].update_many(
        {"type": "thread", "thread_id": "odd"},
        [{"$set": {"updated_at": {"$subtract": ["$updated_at", 30 * 24 * 3600 * 1000]}}}],
    )
    mongo_client[database_name]["mongomem_checkpoint_writes"].delete_many({"thread_id": "odd"})
    asked = ["prune", *here, "--policy", "keep_last=2,idle_threads=4w"]
    code, out, error = lines_of(capsys, tmp_path, *asked)
    *rows, last = out.splitlines()
    what = last.removesuffix(" would go")
    assert code == 2
    assert rows[1].split() == ["odd", "all"]
    assert what.startswith("1 whole thread, and ")
    assert error == f"mongomem: Remove {what}? {NO_ONE}"
    told = json.loads(lines_of(capsys, tmp_path, *asked, "--yes", "--json")[1])
    assert (told["deleted"], told["deleted_threads"]) == (1, ["odd"])
    assert "odd" not in ids_of(memory)


def test_erase(
    memory: MongoMemory, here: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = ids_of(memory) - {"chat", "odd"}
    code, out, error = lines_of(capsys, tmp_path, "erase", *here, "ada")
    assert (code, error) == (
        2,
        f"mongomem: Erase 2 threads and 2 memories of user 'ada'? {NO_ONE}",
    )
    assert out == "user 'ada' has 2 threads and 2 memories\nthreads: odd, chat\n"
    told = json.loads(lines_of(capsys, tmp_path, "erase", *here, "ada", "--dry-run", "--json")[1])
    assert (told["threads"], told["memories"], told["erased"]) == (["odd", "chat"], 2, False)
    ran = mongomem("erase", *here, "ada", "--yes")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "erased 2 threads and 2 memories of user 'ada'\nthreads: odd, chat\n"
    assert ids_of(memory) == others
    assert {space[0] for space, _ in items_of(memory)} == {"ben", "docs"}
    again = lines_of(capsys, tmp_path, "erase", *here, "ada", "--yes")
    nothing = (
        "nothing is stored of user 'ada': no thread has user_id 'ada' in its metadata, and no item "
        "is below the namespace ada\n"
        "--user-key names another metadata key, --namespace another namespace\n"
    )
    assert again == (0, nothing, "")
    assert lines_of(capsys, tmp_path, "erase", *here, "ada", "--dry-run") == (0, nothing, "")
    asked = ["erase", *here, "9", "--user-key", "customer", "--namespace", "docs.a", "--yes"]
    assert "0 threads and 1 memory" in lines_of(capsys, tmp_path, *asked)[1]
    assert {space[0] for space, _ in items_of(memory)} == {"ben"}


def test_erase_of_threads_that_do_not_say_whose_they_are(
    mongo_client: MongoClient,
    database_name: str,
    memory: MongoMemory,
    here: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mongo_client[database_name]["mongomem_checkpoints"].update_one(
        {"type": "thread", "thread_id": "nested"}, {"$set": {"members": 7}}
    )
    code, out, error = lines_of(capsys, tmp_path, "erase", *here, "ada", "--yes")
    assert (code, error) == (1, "")
    assert out.splitlines()[-1] == (
        "1 thread cannot be read, or had too many users to name all, and may be of this user too: "
        "nested"
    )


def test_reindex(
    memory: MongoMemory, here: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, error = lines_of(capsys, tmp_path, "reindex", *here)
    assert (code, out) == (2, "")
    assert error.startswith("mongomem: say what embeds by --embed and --dims")
    asked = ["reindex", *here, "--embed", "local", "--dims", "64", "--field", "text"]
    ran = mongomem(*asked)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "made the vectors of 5 items\n"
    code, out, _ = lines_of(capsys, tmp_path, *asked, "--json")
    told = json.loads(out)
    assert (code, told["changed"], told["rejected"], told["finished"]) == (0, 0, {}, True)
    assert lines_of(capsys, tmp_path, *asked, "--force")[1] == "made the vectors of 5 items\n"
    other = ["reindex", *here, "--embed", "local", "--dims", "128"]
    assert lines_of(capsys, tmp_path, *other)[1] == "made the vectors of 5 items\n"
    told = lines_of(capsys, tmp_path, "reindex", *here)
    assert told == (0, "all vectors are of this configuration\n", "")
    file = str(tmp_path / "all.jsonl")
    lines_of(capsys, tmp_path, "export", *here, file)
    memory.store.delete_namespace(("ada",))
    code, out, _ = lines_of(capsys, tmp_path, "import", *here, file)
    assert out.splitlines()[-1] == "what was stored has no vectors yet: mongomem reindex makes them"
    assert lines_of(capsys, tmp_path, "reindex", *here)[1] == "made the vectors of 2 items\n"


def test_reindex_of_damaged_items(
    mongo_client: MongoClient,
    database_name: str,
    memory: MongoMemory,
    here: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mongo_client[database_name]["mongomem_store_items"].update_one(
        {"key": "name"}, {"$set": {"value": 3}}
    )
    asked = ["reindex", *here, "--embed", "local", "--dims", "64"]
    code, out, error = lines_of(capsys, tmp_path, *asked)
    assert (code, error) == (1, "")
    first, rejected = out.splitlines()
    assert first == "made the vectors of 4 items"
    assert rejected.startswith("left as it was: 'name' in ('ada',): damaged: ")


def test_export_and_import(
    memory: MongoMemory,
    mongo_client: MongoClient,
    mongo_uri: str,
    here: list[str],
    target: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "all.jsonl"
    ran = mongomem("export", *here, str(file))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("exported 8 threads with ")
    assert [one.name for one in tmp_path.iterdir()] == ["all.jsonl"]
    if sys.platform != "win32":
        assert file.stat().st_mode & 0o077 == 0
    there = ["--uri", mongo_uri, "--db", target]
    ran = mongomem("import", *there, str(file), "--json")
    told = printed_json(ran)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (told["threads"], told["items"]["copied"], told["error"]) == (8, 5, None)
    new = MongoMemory(mongo_client, target)
    assert threads_of(new) == threads_of(memory)
    assert items_of(new) == items_of(memory)
    assert_same_threads(memory.saver, new.saver)
    count = told["checkpoints"]["found"]
    code, out, _ = lines_of(capsys, tmp_path, "import", *there, str(file))
    assert (code, out) == (
        0,
        (
            f"threads      8\ncheckpoints  {count}: 0 stored, {count} there before\n"
            "items        5: 0 stored, 5 there before\n"
        ),
    )
    code, out, error = lines_of(capsys, tmp_path, "export", *here, str(file))
    assert (code, out) == (2, "")
    assert error == f"mongomem: Replace the file {str(file)!r}? {NO_ONE}"
    some = ["--thread", "odd", "--namespace", "ada.memories", "--yes"]
    code, out, _ = lines_of(capsys, tmp_path, "export", *here, str(file), *some)
    assert (code, out) == (0, "exported 1 thread with 1 checkpoint, 1 item\n")
    code, out, _ = lines_of(capsys, tmp_path, "export", *here, str(file), "--user", "a.b", "--yes")
    first, hint = out.splitlines()
    assert (code, first) == (0, "exported 0 threads with 0 checkpoints, 0 items")
    assert hint.startswith("nothing is there of what is named: ")


OPTIONS: Any = {
    "fields": {"fields": ["text"]},
    "metric": {"fields": ["text", "n"], "metric": "dot"},
    "language": {"language": "german"},
    "vectors alone": {"rank": "vector"},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_what_is_embedded_by_options_can_be_used_by_the_application(
    options: str,
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    target: str,
    here: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The options say the model alone; all else is as the application has it."""
    index: Any = {"embed": "local", "dims": 64, **OPTIONS[options]}
    source = MongoMemory(mongo_client, database_name, index=index)
    source.store.put(("ada",), "home", {"text": "I live in Lisbon."})
    file, there = str(tmp_path / "all.jsonl"), ["--uri", mongo_uri, "--db", target]
    embed = ["--embed", "local", "--dims"]
    commands = [
        ["export", *here, file],
        ["import", *there, file, *embed, "64"],
        ["setup", *there, *embed, "64"],
        ["memories", *there, "--query", "Lisbon", *embed, "64"],
    ]
    for words in commands:
        assert lines_of(capsys, tmp_path, *words)[0] == 0, words
    found = MongoStore(mongo_client, target, index=index).search(("ada",), query="Lisbon")
    assert found[0].score is not None
    assert lines_of(capsys, tmp_path, "reindex", *there, *embed, "128")[0] == 0
    other = MongoStore(mongo_client, target, index={**index, "dims": 128})
    assert other.search(("ada",), query="Lisbon")[0].score is not None


@pytest.mark.parametrize("options", ["metric", "language"])
def test_no_options_are_named_for_an_index_that_they_cannot_say(
    options: str,
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    target: str,
    here: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    index: Any = {"embed": "local", "dims": 64, **OPTIONS[options]}
    source = MongoMemory(mongo_client, database_name, index=index)
    source.store.put(("ada",), "home", {"text": "I live in Lisbon."})
    file = str(tmp_path / "all.jsonl")
    lines_of(capsys, tmp_path, "export", *here, file)
    _, out, _ = lines_of(capsys, tmp_path, "import", "--uri", mongo_uri, "--db", target, file)
    assert out.splitlines()[-1] == "mongomem reindex with --memory makes the vectors"


def test_fields_that_are_named_count(
    mongo_client: MongoClient,
    database_name: str,
    here: list[str],
    memory: MongoMemory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    embed = ["--embed", "local", "--dims", "64"]
    for fields in (["text"], ["n", "text"]):
        said = [word for one in fields for word in ("--field", one)]
        assert lines_of(capsys, tmp_path, "reindex", *here, *embed, *said)[0] == 0
        settings = mongo_client[database_name]["mongomem_store_settings"]
        found = settings.find_one({"_id": "index"})
        assert found is not None
        assert found["fields"] == fields


def test_an_import_tells_of_vectors_that_are_lost(
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    target: str,
    here: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    index: Any = {"embed": "local", "dims": 64, "fields": ["text"]}
    source = MongoMemory(mongo_client, database_name, index=index)
    source.store.put(("ada",), "home", {"text": "I live in Lisbon."})
    source.store.put(("ada",), "other", {"text": "My dog is called Brunel."}, index=False)
    file, there = str(tmp_path / "all.jsonl"), ["--uri", mongo_uri, "--db", target]
    lines_of(capsys, tmp_path, "export", *here, file)
    code, out, error = lines_of(capsys, tmp_path, "import", *there, file)
    assert (code, error) == (0, "")
    *_, lost, advice = out.splitlines()
    assert lost.startswith(
        "without vectors: 1 item that had vectors where the export was made, by "
    )
    made = "mongomem reindex --embed local --dims 64 --field text"
    assert advice == f"{made} makes the vectors"
    assert lines_of(capsys, tmp_path, "import", *there, file)[1].endswith(
        "0 stored, 2 there before\n"
    )
    assert lines_of(capsys, tmp_path, *made.split()[1:], *there)[0] == 0
    new = MongoMemory(mongo_client, target, index=index)
    assert new.store.search(("ada",), query="Lisbon")[0].score is not None
    new.store.delete_namespace(("ada",))
    told = json.loads(lines_of(capsys, tmp_path, "import", *there, file, "--json")[1])
    assert (told["without_vectors"], told["lacks_vectors"]) == (1, True)
    assert told["index"]["dims"] == 64
    code, out, _ = lines_of(capsys, tmp_path, "doctor", *there)
    assert code == 1
    assert "warning: 1 of 2 items looked at were stored without an index" in out
    assert "what to do: run mongomem reindex" in out


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_an_export_goes_where_a_link_leads(
    memory: MongoMemory, here: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kept").mkdir()
    target, link = tmp_path / "kept" / "all.jsonl", tmp_path / "link.jsonl"
    link.symlink_to(target)
    code, *_ = lines_of(capsys, tmp_path, "export", *here, str(link))
    assert (code, link.is_symlink()) == (0, True)
    assert target.read_bytes().startswith(b'{"format": "mongomem.lines"')


def test_through_a_pipe(
    memory: MongoMemory, mongo_client: MongoClient, mongo_uri: str, here: list[str], target: str
) -> None:
    words, options = command(["export", *here, "-", "--user", "ada"])
    with subprocess.Popen(words, stdout=subprocess.PIPE, **options) as writer:
        words, options = command(["import", "--uri", mongo_uri, "--db", target, "-"])
        ran = subprocess.run(
            words, stdin=writer.stdout, capture_output=True, timeout=HANG_SECONDS, **options
        )
    assert (ran.returncode, ran.stderr, writer.returncode) == (0, b"", 0)
    new = MongoMemory(mongo_client, target)
    assert ids_of(new) == {"chat", "odd"}
    for name in ids_of(new):
        assert [*new.saver.list(config_of(name))] == [*memory.saver.list(config_of(name))]


def test_an_export_whose_reader_goes_away(memory: MongoMemory, here: list[str]) -> None:
    words, options = command(["export", *here, "-"])
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == (
            "mongomem: what reads the export has ended before it: it is not whole\n"
        )
        assert process.wait(HANG_SECONDS) == 1


@pytest.mark.parametrize("name", ["setup", "delete", "prune", "erase", "shard"])
def test_a_reader_that_goes_away(name: str, memory: MongoMemory, here: list[str]) -> None:
    more = {"delete": ["odd", "--yes"], "prune": ["--all", "--yes"], "erase": ["ada", "--yes"]}
    assert_quiet_without_reader(name, *here, *more.get(name, []))
    left = {"delete": 7, "erase": 6}
    assert len(threads_of(memory)) == left.get(name, 8)


def test_shard(here: list[str], database_name: str, memory: MongoMemory) -> None:
    ran = mongomem("shard", *here)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[0] == f'sh.enableSharding("{database_name}")'
    assert (
        f'sh.shardCollection("{database_name}.mongomem_checkpoints", {{"thread_id": "hashed"}})'
        in ran.stdout.splitlines()
    )
    ran = mongomem("shard", *here, "--run", "--yes", "--json")
    told = printed_json(ran)
    assert (ran.returncode, told["exit_code"]) == (1, 1)
    assert ran.stderr == (
        "mongomem: the server is no mongos, and only that of a sharded cluster can shard: without "
        "--run the commands are printed and not issued\n"
    )


def interrupt(process: subprocess.Popen[Any]) -> None:
    """Press Ctrl-C until a process ends: Python misses one that comes just before it waits for a
    line.
    """
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(15)
            return


ANSWERS: dict[str, tuple[bytes | None, int, int]] = {
    "yes": (b"y\n", 0, 7),
    "no": (b"n\n", 2, 8),
    "Ctrl-C": (None, 130, 8),
}


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of POSIX")
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_question_on_a_terminal(answer: str, memory: MongoMemory, here: list[str]) -> None:
    typed, code, left = ANSWERS[answer]
    parent, child = pty.openpty()
    words, options = command(["delete", *here, "chat"])
    options["env"] |= {"TERM": "dumb", "COLUMNS": "200"}
    with subprocess.Popen(words, stdin=child, stdout=child, stderr=child, **options) as process:
        os.close(child)
        said = b""
        while b"[y/N]" not in said:
            said += os.read(parent, 4096)
        assert b"chat" in said
        assert b"Delete 1 thread with 6 checkpoints?" in said
        if typed is None:
            interrupt(process)
        else:
            os.write(parent, typed)
        said = read_to_the_end(parent)
        assert process.wait(HANG_SECONDS) == code
    os.close(parent)
    assert len(threads_of(memory)) == left
    assert b"Traceback" not in said


WRONG: list[tuple[str, int, str]] = [
    ("delete", 2, "name threads, or --idle-for TIME: one of them"),
    ("delete x --idle-for 3d", 2, "name threads, or --idle-for TIME: one of them"),
    (
        "delete --idle-for soon",
        2,
        "--idle-for takes a time such as 30m, 12h, 90d or 4w (minutes, hours, days, weeks), not 's",
    ),
    ("delete --idle-for 999999999999d", 2, "--idle-for takes a time such as"),
    ("delete nobody", 1, "there is no thread 'nobody' in this database"),
    ("delete nobody --dry-run", 1, "there is no thread 'nobody' in this database"),
    ("prune", 2, "name threads, or --all: one of them"),
    (
        "prune --policy keep_last=0",
        2,
        "--policy: keep_last must be a whole number from 1 on, not 0",
    ),
    ("prune --policy keep_last=1,keep_last=5 --yes", 2, "--policy names a field twice: "),
    ("prune --policy 7d --yes", 2, "--policy takes fields such as keep_last=10,older_than=7d"),
    ("prune --policy idle_threads=soon", 2, "idle_threads of --policy takes a time such as 30m"),
    ("prune odd --policy keep_last=1", 2, "--policy says what goes from every thread"),
    ("prune nobody --yes", 1, "there is no thread 'nobody' in this database"),
    ("prune odd --keep-last 0", 2, "Invalid value for '--keep-last'"),
    ("prune odd --yes --keep-last 100000000000000000000", 2, "Invalid value for '--keep-last'"),
    (
        "prune odd --yes --strategy all",
        2,
        'strategy must be "keep_latest" or "delete", not \'all\'',
    ),
    (f"prune --policy keep_last={'9' * 5000}", 2, "--policy takes fields such as"),
    ("erase", 2, "Missing argument 'USER': mongomem erase --help tells more"),
    ("erase ada --namespace a..b", 2, "a namespace is labels joined by dots"),
    ("setup --thread-ttl 0d", 2, "--thread-ttl takes a time such as"),
    ("setup --embed local", 2, "--embed and --dims name an index together"),
    ("reindex --embed nowhere:x --dims 3", 2, ""),
    ("import nowhere.jsonl", 2, "'nowhere.jsonl' cannot be read: No such file or directory"),
    ("import .", 2, "'.' cannot be read: Is a directory"),
    ("import app.py", 1, "'app.py': line 1 is no JSON"),
    ("export .", 2, "'.' is a folder: name a file"),
    ("export no/where", 2, "'no/where' is in no folder that is there: name a file"),
    ("export /dev/null --yes", 2, "'/dev/null' is a device or a pipe: name a file, or -"),
    ("export - --json", 2, "--json and the file - would share the standard output: name a file"),
    ("export x --thread nobody", 1, "there is no thread 'nobody' in this database"),
    ("export x --namespace a..b", 2, "a namespace is labels joined by dots"),
    ("shard --run", 1, "the server is no mongos"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), WRONG)
def test_wrong_usage_is_one_line(
    arguments: str,
    code: int,
    said: str,
    mongo_client: MongoClient,
    shared_database: str,
    mongo_uri: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saver = MongoSaver(mongo_client, shared_database)
    if not saver.list_threads():
        GRAPHS["asking"](saver).invoke({"topic": "x"}, config_of("odd"))
    (tmp_path / "app.py").write_text("x = 1\n", "utf-8")
    words = [*arguments.split(), "--uri", mongo_uri, "--db", shared_database]
    told, out, error = lines_of(capsys, tmp_path, *words)
    assert told == code
    assert error.startswith(f"mongomem: {said}")
    assert len(error.splitlines()) == 1
    if "--json" not in arguments:
        assert out == ""
    assert [one.name for one in tmp_path.iterdir()] == ["app.py"]
    assert len(saver.list_threads()) == 1


COMMANDS: dict[str, list[str]] = {
    "setup": [],
    "delete": ["odd", "--yes"],
    "prune": ["--all", "--yes"],
    "erase": ["ada", "--yes"],
    "reindex": ["--embed", "local", "--dims", "64"],
    "export": ["x.jsonl"],
    "import": ["file.jsonl"],
    "shard": [],
}


NOBODY = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500"


@pytest.mark.parametrize("name", COMMANDS)
def test_no_server_and_no_uri(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file.jsonl").write_text("", "utf-8")
    asked = [name, *COMMANDS[name]]
    code, out, error = lines_of(capsys, tmp_path, *asked)
    assert (code, out, len(error.splitlines())) == (2, "", 1)
    assert error.startswith("mongomem: name the server by --uri URI")
    code, out, error = lines_of(capsys, tmp_path, *asked, "--uri", NOBODY)
    assert (code, out, len(error.splitlines())) == (1, "", 1)
    assert "no MongoDB server answers within 0.5 s" in error
    code, out, error = lines_of(capsys, tmp_path, *asked, "--uri", "postgres://x:secret@y")
    assert (code, out, len(error.splitlines())) == (2, "", 1)
    assert "secret" not in error


@pytest.mark.parametrize(
    "name", [one for one in COMMANDS if one not in ("setup", "import", "shard")]
)
def test_a_database_without_collections(
    name: str,
    mongo_uri: str,
    database_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = [name, *COMMANDS[name], "--uri", mongo_uri, "--db", database_name]
    code, out, error = lines_of(capsys, tmp_path, *asked)
    assert (code, out, len(error.splitlines())) == (1, "", 1)
    assert "has no collections of mongomem" in error


def test_users_without_rights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LocalServer(throw_away=True) as server, MongoClient(server.uri) as client:
        filled(MongoMemory(client, "app"))
        roles = [{"role": "read", "db": "app"}]
        client["admin"].command("createUser", "reader", pwd="x", roles=roles)
        uri = f"mongodb://reader:x@{server.uri.partition('@')[2]}"
        there = ["--uri", uri, "--db", "app"]
        file = tmp_path / "file.jsonl"
        code, out, _ = lines_of(capsys, tmp_path, "export", *there, str(file))
        assert (code, out.split()[:3]) == (0, ["exported", "8", "threads"])
        MongoSaver(client, "app").delete_thread("chat")
        for name, more in COMMANDS.items():
            if name in ("export", "shard"):
                continue
            code, out, error = lines_of(capsys, tmp_path, name, *more, *there)
            assert (code, len(error.splitlines())) == (1, 1), (name, out, error)
            assert "right" in error or "may not" in error, (name, error)
        assert len(MongoSaver(client, "app").list_threads()) == 7


def test_options_of_the_application(
    mongo_client: MongoClient,
    mongo_uri: str,
    database_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "app.py").write_text(
        "from mongomem import MongoMemory\n"
        "def make():\n"
        f"    return MongoMemory.from_conn_string({mongo_uri!r}, db_name={database_name!r},\n"
        "        index={'embed': 'local', 'dims': 64}, collection_prefix='own_')\n",
        "utf-8",
    )
    memory = MongoMemory(mongo_client, database_name, collection_prefix="own_")
    memory.store.put(("ada",), "k", {"text": "x"})
    code, out, _ = lines_of(capsys, tmp_path, "reindex", "--memory", "app:make")
    assert (code, out) == (0, "made the vectors of 1 item\n")
    wrong: dict[str, Any] = {
        "reindex": ["--embed", "local", "--dims", "3"],
        "setup": ["--thread-ttl", "3d"],
        "erase": ["ada", "--user-key", "x"],
        "import": ["app.py", "--embed", "local", "--dims", "3"],
    }
    for name, more in wrong.items():
        code, out, error = lines_of(capsys, tmp_path, name, "--memory", "app:make", *more)
        assert (code, out, len(error.splitlines())) == (2, "", 1), name
        assert error.startswith("mongomem: --memory names "), name


def test_an_embedder_without_a_key_is_one_line(here: list[str], memory: MongoMemory) -> None:
    """What embeds raises errors of its own package."""
    asked = ["reindex", *here, "--embed", "openai:text-embedding-3-small", "--dims", "3"]
    ran = mongomem(*asked, OPENAI_API_KEY="")
    assert (ran.returncode, ran.stdout) == (1, "")
    (line,) = ran.stderr.splitlines()
    assert "set OPENAI_API_KEY" in line
