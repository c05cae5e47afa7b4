"""A Postgres as the source: what its saver and its store do otherwise than others, and the factory
that the documentation shows, as a process that is ended and called again.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.store.base import PutOp
from langgraph.store.postgres import PostgresStore
from langgraph.types import Command
from pymongo import MongoClient

from mongomem import MongoSaver, MongoStore
from mongomem.migration import saver_threads
from mongomem.migration.report import Report
from mongomem.migration.saver_threads import SaverThreads
from mongomem.migration.store_items import StoreItems
from mongomem.migration.thread_copies import ThreadCopies
from support.command_line import ROOT, lines_of, mongomem, mongomem_ended, printed_json
from support.migrations import GRAPHS, assert_same_threads, config_of, copy, fill, stopping_saver
from support.pages import write_files

pytestmark = pytest.mark.shares_database


@pytest.fixture
def old_saver(postgres_uri: str) -> Iterator[PostgresSaver]:
    with PostgresSaver.from_conn_string(postgres_uri) as saver:
        yield saver


def test_listings_are_asked_for_by_pages(
    old_saver: PostgresSaver,
    postgres_uri: str,
    mongo_client: MongoClient,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Copies of a thread have its ids, more of them than there are in a page."""
    fill(old_saver)
    with psycopg.connect(postgres_uri) as connection:
        for number in range(5):
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                columns = [
                    name
                    for (name,) in connection.execute(
                        "SELECT column_name FROM information_schema.columns"
                        " WHERE table_name = %s AND column_name <> 'thread_id'",
                        [table],
                    )
                ]
                names = ", ".join(f'"{name}"' for name in columns)
                connection.execute(
                    f"INSERT INTO {table} (thread_id, {names}) SELECT %s, {names} FROM {table}"
                    " WHERE thread_id = 'chat'",
                    [f"chat {number}"],
                )
    limits = []

    class Watched(PostgresSaver):
        def list(self, *args: Any, **options: Any) -> Any:
            limits.append(options["limit"])
            return super().list(*args, **options)

    monkeypatch.setattr(saver_threads, "PAGE_SIZE", 2)
    report = copy(mongo_client, database_name, SaverThreads(Watched(old_saver.conn)))
    assert report.is_clean
    assert report.threads == 13
    assert max(limits) <= 16
    assert_same_threads(old_saver, MongoSaver(mongo_client, database_name))


def test_items_of_one_time_come_over(
    postgres_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    """What one transaction puts has one time, and each page of the store its own order of that."""
    with PostgresStore.from_conn_string(postgres_uri) as old:
        old.batch([PutOp(("a",), f"k{n}", {"n": n, "text": "x" * (n % 50)}) for n in range(1000)])
        old.batch([PutOp(("a", "below"), f"k{n}", {"n": n}) for n in range(120)])
        report = copy(mongo_client, database_name, items=StoreItems(old))
    assert report.is_clean
    assert (report.items.found, report.items.copied, report.compared) == (1120, 1120, 1120)
    stored = MongoStore(mongo_client, database_name).search(("a",), limit=2000)
    assert len({(one.namespace, one.key) for one in stored}) == 1120


def test_a_ttl_is_not_refreshed_and_not_told(
    postgres_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    ttl: Any = {"default_ttl": 60, "refresh_on_read": True, "omit_expired": True}
    expiry = "SELECT key, expires_at FROM store ORDER BY key"
    with PostgresStore.from_conn_string(postgres_uri, ttl=ttl) as old:
        for key, minutes in (("default", 60), ("gone", 1), ("never", None), ("short", 5)):
            old.put(("a",), key, {"n": 1}, ttl=minutes)
        with psycopg.connect(postgres_uri) as connection:
            connection.execute("UPDATE store SET expires_at = now() WHERE key = 'gone'")
            connection.commit()
            before = connection.execute(expiry).fetchall()
            report = copy(mongo_client, database_name, items=StoreItems(old))
            connection.commit()
            assert connection.execute(expiry).fetchall() == before
    assert report.is_clean
    found = mongo_client[database_name]["mongomem_store_items"].find(
        {}, {"expires_at": 1, "key": 1}
    )
    assert {one["key"]: one.get("expires_at") for one in found} == {
        "default": None,
        "never": None,
        "short": None,
    }


def test_a_connection_that_is_lost_ends_the_copy(
    old_saver: PostgresSaver, postgres_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    """Nothing of the source is said to be damaged, and the same copy goes on."""
    fill(old_saver)
    report, told = Report(), 0

    def tell() -> None:
        nonlocal told
        told += 1
        if told == 12:
            with psycopg.connect(postgres_uri) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

    new = MongoSaver(mongo_client, database_name)
    with pytest.raises(ConnectionError, match="the source fails: AdminShutdown"):
        ThreadCopies(SaverThreads(old_saver), new, report, tell).make()
    assert report.left_out.count == 0
    assert report.checkpoints.copied > 0
    with PostgresSaver.from_conn_string(postgres_uri) as again:
        assert copy(mongo_client, database_name, SaverThreads(again)).is_clean
        assert_same_threads(again, MongoSaver(mongo_client, database_name))


def stored(client: MongoClient, database_name: str) -> int:
    """Count the checkpoints of a target."""
    collection = client[database_name]["mongomem_checkpoints"]
    return collection.count_documents({"type": "checkpoint"})


SLOW = "from postgres_memories import make_saver\n" + stopping_saver("make_saver()", reads=9)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("ended", [signal.SIGINT, signal.SIGKILL])
def test_the_factory_of_the_page_as_a_command_that_is_ended(
    ended: signal.Signals,
    postgres_uri: str,
    mongo_client: MongoClient,
    mongo_uri: str,
    target: str,
    tmp_path: Path,
) -> None:
    write_files((ROOT / "docs" / "how-to" / "migrate.md").read_text("utf-8"), tmp_path)
    (tmp_path / "slow.py").write_text(SLOW, "utf-8")
    with PostgresSaver.from_conn_string(postgres_uri) as old:
        fill(old)
        with PostgresStore.from_conn_string(postgres_uri) as store:
            store.put(("ada", "memories"), "home", {"text": "I live in Lisbon."})
        asked = ["migrate", "--uri", mongo_uri, "--db", target, "--json"]
        ran = mongomem_ended(
            ended,
            *[*asked, "--from-saver", "slow:make_slow_saver"],
            cwd=tmp_path,
            POSTGRES_URI=postgres_uri,
        )
        if ended == signal.SIGINT:
            line = "mongomem: interrupted; the same command goes on\n"
            assert (ran.stderr, ran.returncode) == (line, 130)
            assert printed_json(ran)["checkpoints"]["copied"] == stored(mongo_client, target)
        there = stored(mongo_client, target)

        names = [f"postgres_memories:{name}" for name in ("make_saver", "make_store")]
        both = ["--from-saver", names[0], "--from-store", names[1], "--verify"]
        ran = mongomem(*asked, *both, cwd=tmp_path, POSTGRES_URI=postgres_uri)
        told = printed_json(ran)
        assert (ran.stderr, ran.returncode) == ("", 0)
        assert told["checkpoints"]["present"] == there > 0
        assert told["compared"] == told["checkpoints"]["found"] + 1
        new = MongoSaver(mongo_client, target)
        assert_same_threads(old, new)
    paid = GRAPHS["nested"](new).invoke(Command(resume="yes"), config_of("nested"))
    assert paid["log"][-2:] == ["decided yes", "close"]
    item = MongoStore(mongo_client, target).get(("ada", "memories"), "home")
    assert item is not None
    assert item.value == {"text": "I live in Lisbon."}


def test_a_server_that_is_not_there_is_one_line(
    mongo_uri: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_files((ROOT / "docs" / "how-to" / "migrate.md").read_text("utf-8"), tmp_path)
    monkeypatch.setenv("POSTGRES_URI", "postgresql://ada:secret@127.0.0.1:1/x")
    monkeypatch.delitem(sys.modules, "postgres_memories", raising=False)
    asked = ["migrate", "--from-saver", "postgres_memories:make_saver", "--uri", mongo_uri]
    code, out, error = lines_of(capsys, tmp_path, *asked)
    sys.modules.pop("postgres_memories", None)
    assert (code, out) == (1, "")
    assert error.startswith(
        "mongomem: --from-saver: postgres_memories:make_saver fails: OperationalError: "
    )
    assert len(error.splitlines()) == 1
    assert "secret" not in error


def test_tables_that_are_not_there_are_named(
    postgres_server: str, mongo_client: MongoClient, database_name: str
) -> None:
    """The source is not made: that would write."""
    with PostgresSaver.from_conn_string(postgres_server) as saver:
        report = copy(mongo_client, database_name, SaverThreads(saver))
    with PostgresStore.from_conn_string(postgres_server) as store:
        of_items = copy(mongo_client, database_name, items=StoreItems(store))
    for told in (report, of_items):
        (left,) = told.left_out.first
        assert left.reason.startswith("UndefinedTable: ")
    with psycopg.connect(postgres_server) as connection:
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        assert connection.execute(tables).fetchone() == (0,)
