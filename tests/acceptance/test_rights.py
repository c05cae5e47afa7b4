"""Users with few rights: what they may do works, and what they may not is one error that names the
right.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from mongomem import ConfigurationError, MongoMemory, MongoSaver, MongoStore
from mongomem.engine.commands import BulkWrite, CreateIndexes, DatabaseCommand, Find, ListIndexes
from mongomem.engine.writes import SentOnce
from mongomem.local_server.mongod import find_mongod
from mongomem.testing import RecordingRunner
from support.databases import drop
from support.graphs import Steps
from support.savers import Calls, client_of
from support.stores import words

THREAD: Any = {"configurable": {"thread_id": "t"}}
CLIENTS = ("blocking", "threaded", "awaiting", "bridging")

CRUD = ("find", "insert", "update", "remove")
ROLES = {
    "crud": CRUD,
    "lists": (*CRUD, "listIndexes"),
    "creates": (*CRUD, "createIndex"),
    "no_change": (*CRUD, "listIndexes", "createIndex"),
    "reads": ("find",),
}


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A mongod that asks who you are; yields its address. Its users are made by those who need
    them.
    """
    directory = tmp_path_factory.mktemp("guarded")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        "--auth",
        "--bind_ip",
        "127.0.0.1",
        "--port",
        str(port),
        "--dbpath",
        str(directory),
        "--nounixsocket",
    ]
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen([find_mongod(None), *options], stdout=log) as process,
    ):
        try:
            create_administrator(f"127.0.0.1:{port}")
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


def create_administrator(address: str) -> None:
    """Make the first user, as MongoDB lets anybody on the machine; the server may be starting
    yet.
    """
    for _ in range(60):
        try:
            with MongoClient(f"mongodb://{address}", serverSelectionTimeoutMS=1_000) as client:
                client.admin.command("createUser", "root", pwd="root", roles=["root"])
        except PyMongoError:
            time.sleep(0.5)
        else:
            return
    pytest.fail("the server does not start")


@pytest.fixture
def administrator(guarded_server: str) -> Iterator[MongoClient]:
    with MongoClient(f"mongodb://root:root@{guarded_server}") as client:
        yield client


@pytest.fixture
def database(administrator: MongoClient) -> Iterator[str]:
    name = f"test_{uuid4().hex}"
    yield name
    drop(administrator, name)
    administrator[name].command("dropAllUsersFromDatabase")
    administrator[name].command("dropAllRolesFromDatabase")


def uri_of(role: str, administrator: MongoClient, address: str, database: str) -> str:
    """Make a user of a role in a database; return the connection string."""
    privileges = [{"resource": {"db": database, "collection": ""}, "actions": list(ROLES[role])}]
    administrator[database].command("createRole", role, privileges=privileges, roles=[])
    administrator[database].command("createUser", role, pwd="secret", roles=[role])
    return f"mongodb://{role}:secret@{address}/{database}"


@pytest.fixture
async def memory(
    request: Any,
    kind: str,
    role: str,
    administrator: MongoClient,
    guarded_server: str,
    database: str,
) -> AsyncIterator[MongoMemory]:
    """A memory of a user of a role, on a client of a kind; the setup is the user's affair."""
    options = getattr(request, "param", {})
    async with client_of(kind, uri_of(role, administrator, guarded_server, database)) as client:
        yield MongoMemory(client, database, index=words(), **options)


async def use(memory: MongoMemory, kind: str) -> None:
    """Do what applications do all day."""
    saver, store = Calls(memory.saver, kind), Calls(memory.store, kind)
    steps = Steps(saver)
    for number in range(3):
        await steps.put(number=number, text="x" * 9_000)
    await saver("put_writes", steps.config, [("text", "y" * 100_000)], "task")
    found = await saver("get_tuple", THREAD)
    assert found.checkpoint["channel_values"]["number"] == 2
    assert len(await saver.list(THREAD)) == 3
    assert [thread.thread_id for thread in await saver("list_threads")] == ["t"]
    await saver("prune", ["t"])
    await saver("copy_thread", "t", "copy")
    await saver("delete_thread", "t")
    await store("put", ("ada",), "k", {"text": "tea"}, ttl=5)
    assert (await store("get", ("ada",), "k")).value == {"text": "tea"}
    assert [item.key for item in await store("search", ("ada",), query="tea")] == ["k"]
    assert [item.key for item in await store("search", ("ada",))] == ["k"]
    assert await store("list_namespaces") == [("ada",)]
    await store("delete", ("ada",), "k")
    assert await store("reindex") == 0
    cache, full_key = Calls(memory.cache, kind), (("node",), "k")
    await cache("set", {full_key: (1, 60)})
    assert await cache("get", [full_key]) == {full_key: 1}
    await cache("clear", [("node",)])
    await cache("clear")


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("role", ["crud"])
@pytest.mark.parametrize(
    "memory", [{"auto_setup": False}, {"auto_setup": False, "thread_ttl": 60}], indirect=True
)
async def test_to_read_and_to_write_is_enough(memory: MongoMemory, kind: str) -> None:
    await use(memory, kind)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("role", ["crud", "lists", "creates", "no_change"])
@pytest.mark.parametrize("memory", [{}, {"thread_ttl": 60}], indirect=True)
async def test_where_the_indexes_are_there_no_right_to_make_them_is_needed(
    memory: MongoMemory, kind: str, administrator: MongoClient, database: str
) -> None:
    MongoMemory(administrator, database, index=words(), thread_ttl=60).setup()
    await use(memory, kind)
    await Calls(memory, kind)("setup")


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(
    ("role", "right"), [("crud", "createIndex (or listIndexes)"), ("lists", "createIndex")]
)
@pytest.mark.parametrize("has_collections", [False, True])
async def test_a_missing_right_to_create_indexes_is_one_error(
    memory: MongoMemory,
    kind: str,
    right: str,
    has_collections: bool,
    administrator: MongoClient,
    database: str,
) -> None:
    if has_collections:
        for name in ("checkpoints", "checkpoint_writes", "store_items", "cache_entries"):
            administrator[database].create_collection(f"mongomem_{name}")
    calls = {
        "mongomem_checkpoint_writes lacks indexes: writes": Steps(Calls(memory.saver, kind)).put(
            a=1
        ),
        "mongomem_store_items lacks indexes: by_update, by_change, by_path, by_expiry": Calls(
            memory.store, kind
        )("put", ("ada",), "k", {"text": "tea"}),
        "mongomem_cache_entries lacks indexes: by_expiry": Calls(memory.cache, kind)(
            "set", {(("node",), "k"): (1, 60)}
        ),
        "lacks indexes": Calls(memory, kind)("setup"),
    }
    for message, call in calls.items():
        with pytest.raises(ConfigurationError) as caught:
            await call
        assert message in str(caught.value)
        assert f"not the right {right} on that collection" in str(caught.value)
        assert "auto_setup=False" in str(caught.value)
        assert caught.value.__suppress_context__
    assert administrator[database]["mongomem_checkpoints"].count_documents({}) == 0
    assert administrator[database]["mongomem_store_items"].count_documents({}) == 0


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("role", ["no_change", "creates"])
@pytest.mark.parametrize("memory", [{"thread_ttl": 30}], indirect=True)
async def test_a_missing_right_to_change_the_ttl_is_named(
    memory: MongoMemory, kind: str, administrator: MongoClient, database: str
) -> None:
    MongoSaver(administrator, database, ttl=60).setup()
    with pytest.raises(
        ConfigurationError,
        match=r"the index expiry of mongomem_checkpoint.* has not the right collMod",
    ):
        await Steps(Calls(memory.saver, kind)).put(a=1)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("role", ["reads"])
async def test_who_may_only_read_reads(
    memory: MongoMemory, kind: str, administrator: MongoClient, database: str
) -> None:
    own = MongoMemory(administrator, database, index=words())
    await Steps(Calls(own.saver, "blocking")).put(a=1)
    own.store.put(("ada",), "k", {"text": "tea"}, ttl=5)
    saver, store = Calls(memory.saver, kind), Calls(memory.store, kind)
    assert (await saver("get_tuple", THREAD)).checkpoint["channel_values"] == {"a": 1}
    assert len(await saver.list(THREAD)) == 1
    assert [thread.thread_id for thread in await saver("list_threads")] == ["t"]
    assert (await store("get", ("ada",), "k")).value == {"text": "tea"}
    assert [item.key for item in await store("search", ("ada",), query="tea")] == ["k"]
    with pytest.raises(OperationFailure, match="not authorized"):
        await Steps(saver).put(a=2)


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_what_opens_with_a_wrong_password_is_one_error(
    kind: str, administrator: MongoClient, guarded_server: str, database: str
) -> None:
    uri = uri_of("crud", administrator, guarded_server, database)
    for wrong in (uri.replace("secret", "5ecret"), uri.replace("crud", "nobody")):
        opening = MongoMemory.from_conn_string(wrong)
        enter: Any = (
            opening.__aenter__
            if kind == "awaiting"
            else partial(asyncio.to_thread, opening.__enter__)
        )
        with pytest.raises(
            ConfigurationError, match=f"{guarded_server} refuses .* its user or its password"
        ) as caught:
            await enter()
        assert "5ecret" not in str(caught.value)
        assert caught.value.__suppress_context__
        assert opening._opened == {}
    with (
        pytest.raises(ConfigurationError, match="asks for a user and a password"),
        MongoMemory.from_conn_string(f"mongodb://{guarded_server}"),
    ):
        raise AssertionError("opened")
    with MongoMemory.from_conn_string(uri, auto_setup=False) as memory:
        assert memory.saver._runners.run.database.name == database  # type: ignore[attr-defined]
        assert memory.saver.get_tuple(THREAD) is None


# What needs no guarded server.


def test_a_setup_that_has_nothing_to_do_only_reads(
    mongo_client: MongoClient, database_name: str
) -> None:
    for made in (MongoSaver, MongoStore):
        for number in range(2):
            one: Any = made(
                mongo_client, database_name, **({"ttl": 60} if made is MongoSaver else {})
            )
            runner = RecordingRunner(one._runners.run.database)
            one._runners = type(one._runners)(runner, one._runners.arun)
            one.setup()
            kinds = {type(command) for command in runner.commands}
            assert (CreateIndexes in kinds) is (number == 0)
            assert number == 0 or kinds <= {ListIndexes, Find}


UNIQUE = {
    "mongomem_checkpoints": [("type", 1)],
    "mongomem_checkpoint_writes": [("thread_id", 1)],
    "mongomem_store_items": [("namespace", 1)],
}


@pytest.mark.parametrize("kind", ["blocking", "threaded", "awaiting", "bridging"])
async def test_a_unique_index_of_somebody_else_is_named_and_nothing_is_repeated(
    kind: str,
    mongo_uri: str,
    mongo_client: MongoClient,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database, written = mongo_client[database_name], list[DatabaseCommand[Any]]()

    def recorded(issue: Callable[..., Any]) -> Callable[..., Any]:
        def issued(command: DatabaseCommand[Any], target: Any) -> Any:
            written.append(command)
            return issue(command, target)

        return issued

    async with client_of(kind, mongo_uri) as client:
        memory = MongoMemory(client, database_name)
        saver, store = Calls(memory.saver, kind), Calls(memory.store, kind)
        steps = Steps(saver)
        config = await steps.put(text="a" * 9_000)
        await saver("put_writes", config, [("a", 1)], "task")
        await saver("put_writes", config, [("a", 1)], "task")  # a duplicate of its own is none
        await store("put", ("ada",), "k", {"n": 1})
        database["mongomem_checkpoints"].delete_many({"type": {"$ne": "thread"}})
        for name, keys in UNIQUE.items():
            database[name].create_index(keys, name="theirs", unique=True)
        for kind_of_write in (BulkWrite, SentOnce):
            monkeypatch.setattr(kind_of_write, "issue", recorded(kind_of_write.issue))
        calls = {
            "mongomem_checkpoints": Steps(saver, "other").put(a=1),
            "mongomem_checkpoint_writes": saver(
                "put_writes", config, [("b", 1), ("c", 1)], "other"
            ),
            "mongomem_store_items": store("put", ("ada",), "other", {"n": 1}),
        }
        for name, call in calls.items():
            written.clear()
            with pytest.raises(
                ConfigurationError, match=f"{database_name}.{name} has a unique index 'theirs'"
            ):
                await call
            assert len(written) == 1
        with pytest.raises(ConfigurationError, match="has a unique index 'theirs'"):
            await saver(
                "put_writes",
                {"configurable": {**config["configurable"], "thread_id": "new"}},
                [("a", "x" * 10**5)],
                "t",
            )


def test_an_index_in_the_place_of_ours_is_named(
    mongo_client: MongoClient, database_name: str
) -> None:
    mongo_client[database_name]["mongomem_checkpoints"].create_index([("mine", 1)], name="history")
    mongo_client[database_name]["mongomem_store_items"].create_index(
        [("prefixes", 1), ("updated_at", -1), ("_id", 1)], name="mine"
    )
    for one in (MongoSaver(mongo_client, database_name), MongoStore(mongo_client, database_name)):
        with pytest.raises(
            ConfigurationError, match="has another index in the place of one that mongomem needs"
        ):
            one.setup()
