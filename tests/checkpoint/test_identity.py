"""Whom a thread is of: ids of every kind are one string everywhere, and a thread remembers
everybody.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import AsyncIterator
from typing import Any

import mongomock
import numpy as np
import pytest
from bson import Binary, ObjectId
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, StateGraph
from pymongo import MongoClient

from mongomem import ConfigurationError, InvalidInputError, MongoMemory, MongoSaver
from mongomem.checkpoint.documents import identity
from mongomem.checkpoint.documents.config import LONGEST_IDENTIFIER, identifier
from mongomem.checkpoint.documents.identity import LONGEST_IDENTITY, TOO_MANY, additions, forms_of
from support.graphs import State, Steps
from support.savers import KINDS, Calls, client_of

SECRET = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
WITH_USERS: dict[str, Any] = {"clear_metadata": ["source", "step", "run_id", "user_id"]}


class Named(str, enum.Enum):
    ADA = "ada"


class Numbered(enum.IntEnum):
    SEVEN = 7


class Plain(enum.Enum):
    BOB = "bob"
    FIVE = uuid.UUID(int=5)
    NOBODY = ("a", "b")


class Text(str):
    """A string whose ``str`` is another."""

    def __str__(self) -> str:
        return "somebody else"


IDS: dict[str, tuple[Any, str]] = {
    "str": ("ada", "ada"),
    "empty": ("", ""),
    "digits": ("7", "7"),
    "zeros": ("007", "007"),
    "accents": ("ünï/çø:$.%", "ünï/çø:$.%"),
    "operator": ("$ne", "$ne"),
    "NUL": ("a\x00da", "ada"),
    "subclass": (Text("ada"), "ada"),
    "int": (7, "7"),
    "negative": (-7, "-7"),
    "64 bits": (2**63 - 1, str(2**63 - 1)),
    "large int": (2**70, str(2**70)),
    "numpy": (np.int64(7), "7"),
    "numpy str": (np.str_("ada"), "ada"),
    "UUID": (uuid.UUID(int=5), str(uuid.UUID(int=5))),
    "ObjectId": (ObjectId(b"a" * 12), "61" * 12),
    "str enum": (Named.ADA, "ada"),
    "int enum": (Numbered.SEVEN, "7"),
    "enum": (Plain.BOB, "bob"),
    "enum of a UUID": (Plain.FIVE, str(uuid.UUID(int=5))),
}

NOBODY: dict[str, Any] = {
    "list": ["ada"],
    "tuple": ("ada",),
    "dict": {"$ne": None},
    "bytes": b"ada",
    "Binary": Binary(b"ada", 4),
    "object": object(),
    "surrogate": "\ud800",
    "complex": 1j,
    "numpy bool": np.bool_(True),
    "array": np.arange(3),
    "enum of a tuple": Plain.NOBODY,
    "too long": "a" * (LONGEST_IDENTITY + 1),
    "class": str,
}


@pytest.fixture(params=KINDS)
async def calls(
    request: Any, mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> AsyncIterator[MemoryCalls]:
    async with client_of(request.param, mongo_uri) as client:
        raw = client if request.param == "mongomock" else mongo_client
        yield MemoryCalls(MongoMemory(client, database_name), request.param, raw[database_name])


class MemoryCalls(Calls):
    """Calls the saver of a memory, and what both memories do together."""

    def __init__(self, memory: MongoMemory, kind: str, database: Any) -> None:
        super().__init__(memory.saver, kind)
        self.memory, self.checkpoints = memory, database["mongomem_checkpoints"]

    async def erase(self, user: Any) -> list[str]:
        erased = (
            await self.memory.aerase_user(user) if self.is_async else self.memory.erase_user(user)
        )
        assert erased.undecided == []
        return sorted(erased.threads)

    async def export(self, user: Any) -> list[str]:
        """Return the threads that are in an export."""
        exporting = (
            self.memory.aexport_user(user) if self.is_async else self.memory.export_user(user)
        )
        found = [one async for one in exporting] if self.is_async else list(exporting)  # type: ignore[union-attr, arg-type]
        return sorted(
            {one.config["configurable"]["thread_id"] for one in found if hasattr(one, "checkpoint")}
        )

    async def listed(self, user: Any, **more: Any) -> list[str]:
        return sorted(
            [one.thread_id for one in await self("list_threads", filter={"user_id": user, **more})]
        )


@pytest.mark.shares_database
@pytest.mark.parametrize("name", IDS)
async def test_an_id_of_any_kind_is_its_string_everywhere(calls: MemoryCalls, name: str) -> None:
    given, text = IDS[name]
    await Steps(calls, "in configurable", user_id=given).put(a=1)
    steps = Steps(calls, "in metadata")
    steps.config["metadata"] = {"user_id": given}
    await steps.put(a=1)
    await Steps(calls, "in the metadata of a checkpoint").put({"user_id": given}, a=1)
    await Steps(calls, "as a string", user_id=text).put(a=1)
    await Steps(calls, "of another", user_id="eve").put(a=1)
    of_user = ["as a string", "in configurable", "in metadata", "in the metadata of a checkpoint"]
    for asked in (given, text):
        found = await calls.list(None, filter={"user_id": asked})
        assert sorted(one.config["configurable"]["thread_id"] for one in found) == of_user
        assert {str(one.metadata["user_id"]) for one in found} == {text}
        threads = await calls("list_threads", filter={"user_id": asked})
        assert sorted(one.thread_id for one in threads) == of_user
        assert {one.metadata["user_id"] for one in threads} == {text}
    calls.memory._user_namespace = lambda user: ("u", user.encode().hex() or "none")
    assert await calls.export(given) == of_user
    assert await calls.erase(given) == of_user
    assert [one.thread_id for one in await calls("list_threads")] == ["of another"]


@pytest.mark.shares_database
@pytest.mark.parametrize("name", NOBODY)
@pytest.mark.parametrize("place", ["configurable", "metadata", "argument"])
async def test_what_identifies_nobody_is_refused_before_anything_is_written(
    calls: MemoryCalls, name: str, place: str
) -> None:
    steps = Steps(calls)
    if place != "argument":
        steps.config.setdefault(place, {})["user_id"] = NOBODY[name]
    with pytest.raises(InvalidInputError, match="user_id says whose the thread is"):
        await steps.put({"user_id": NOBODY[name]} if place == "argument" else None, a=1)
    assert calls.checkpoints.count_documents({}) == 0
    if name != "too long":
        with pytest.raises(InvalidInputError, match="user_id"):
            await calls.erase(NOBODY[name])
        with pytest.raises(InvalidInputError, match="user_id"):
            await calls.export(NOBODY[name])
    assert (
        await calls.listed(NOBODY[name])
        == await calls.list(None, filter={"user_id": NOBODY[name]})
        == []
    )


@pytest.mark.shares_database
@pytest.mark.parametrize("value", [None, True, False, 7.5])
async def test_none_true_and_floats_are_what_they_are_and_nobody(
    calls: MemoryCalls, value: Any
) -> None:
    told = []
    for target in (Calls(InMemorySaver(), "blocking"), calls):
        await Steps(target, "t", user_id=value).put(a=1)
        await Steps(target, "u").put({"user_id": value}, a=1)
        told.append(sorted(repr(one.metadata) for one in await target.list(None)))
    assert told[0] == told[1]
    assert [one["members"] for one in calls.checkpoints.find({"type": "thread"})] == [
        {"user_id": []}
    ] * 2
    for user in ("ada", "True", "75", "1"):
        assert await calls.listed(user) == await calls.export(user) == []
    if value is not None:
        assert await calls.listed(value) == ["t", "u"]
        assert await calls.listed(value + 1) == []


async def test_graphs_that_run_for_ids_of_all_kinds(calls: MemoryCalls) -> None:
    builder = StateGraph(State)
    builder.add_node("node", lambda state: {"count": 1})
    builder.add_edge(START, "node")
    graph: Any = builder.compile(checkpointer=calls.target)
    for thread, user in (
        ("1", uuid.UUID(int=5)),
        ("2", Numbered.SEVEN),
        ("3", 2**70),
        ("4", ObjectId(b"a" * 12)),
    ):
        config: Any = {"configurable": {"thread_id": thread, "user_id": user}}
        await graph.ainvoke({"count": 0}, config) if calls.is_async else graph.invoke(
            {"count": 0}, config
        )
        assert await calls.export(user) == await calls.listed(user) == [thread]
        assert await calls.erase(user) == [thread]
    assert await calls.list(None) == []


async def test_a_thread_remembers_everybody_and_shows_the_last(calls: MemoryCalls) -> None:
    for user in ("ada", "bob", None, "ada", 7, "ada", Named.ADA):
        await Steps(calls, "shared", user_id=user).put(a=1)
    await Steps(calls, "ada's", user_id="ada").put(a=1)
    for user, threads in (
        ("ada", ["ada's", "shared"]),
        ("bob", ["shared"]),
        ("7", ["shared"]),
        ("eve", []),
    ):
        assert await calls.listed(user) == await calls.export(user) == threads
    assert [one.metadata for one in await calls("list_threads")] == [{"user_id": "ada"}] * 2
    stored = calls.checkpoints.find_one({"type": "thread", "thread_id": "shared"})
    assert stored["members"] == {"user_id": ["ada", "bob", "7"]}
    assert await calls.erase("bob") == ["shared"]
    assert await calls.listed("ada") == ["ada's"]
    await Steps(calls, "shared", user_id="eve").put(a=1)
    assert [await calls.listed(user) for user in ("ada", "bob", "eve")] == [
        ["ada's"],
        [],
        ["shared"],
    ]


async def test_both_whom_the_metadata_and_the_config_name_are_remembered(
    calls: MemoryCalls,
) -> None:
    steps = Steps(calls, "t", user_id="ada")
    steps.config["metadata"] = {"user_id": "a-pseudonym"}
    await steps.put(a=1)
    assert [one.metadata["user_id"] for one in await calls("list_threads")] == ["a-pseudonym"]
    assert await calls.listed("ada") == await calls.listed("a-pseudonym") == ["t"]
    assert await calls.erase("ada") == ["t"]


async def test_a_copy_is_of_the_users_of_both(calls: MemoryCalls) -> None:
    for user, thread in (
        ("ada", "source"),
        ("bob", "source"),
        ("eve", "target"),
        ("mallory", "other"),
    ):
        await Steps(calls, thread, user_id=user).put(a=1)
    for target in ("target", "fresh"):
        await calls("copy_thread", "source", target)
    assert await calls.listed("ada") == await calls.listed("bob") == ["fresh", "source", "target"]
    assert await calls.listed("eve") == ["target"]
    assert {
        one.metadata["user_id"] for one in await calls("list_threads", filter={"user_id": "ada"})
    } == {"bob"}
    assert await calls.erase("bob") == ["fresh", "source", "target"]
    assert [one.thread_id for one in await calls("list_threads")] == ["other"]


async def test_the_user_key_stays_whatever_else_is_indexed(calls: MemoryCalls) -> None:
    client = calls.memory._client
    options: Any = {"metadata_indexes": ["project", "user_id", "project"]}
    memory = MongoMemory(client, calls.checkpoints.database.name, saver_options=options)
    assert memory.saver._options.metadata_keys == ("user_id", "project")
    calls = MemoryCalls(
        memory, "awaiting" if calls.is_async else "blocking", calls.checkpoints.database
    )
    for user, project in (("ada", 1), ("ada", 2), ("bob", 1)):
        await Steps(calls, f"{user} {project}", user_id=user, project=project).put(a=1)
    assert await calls.listed("ada") == ["ada 1", "ada 2"]
    assert await calls.listed("ada", project="1") == ["ada 1"]
    assert await calls.listed("ada", project=3) == []
    assert await calls.erase("ada") == ["ada 1", "ada 2"]


# --- encryption
# -------------------------------------------------------------------------------------------------


@pytest.fixture(params=["mongod", "mongomock"])
def database(request: Any, mongo_client: MongoClient, database_name: str) -> Any:
    return (mongo_client if request.param == "mongod" else mongomock.MongoClient())[database_name]


def memory_of(database: Any, **options: Any) -> MongoMemory:
    return MongoMemory(database.client, database.name, **options)


def put(saver: MongoSaver, thread: str, user: Any, **more: Any) -> None:
    steps = Steps(Calls(saver, "blocking"), thread, user_id=user, **more)
    with pytest.raises(StopIteration):
        steps.put(a=1).send(None)


def test_an_encrypted_thread_knows_its_users_without_naming_them(database: Any) -> None:
    memory = memory_of(database, serde=SECRET)
    for thread, users in (
        ("1", ["canary", uuid.UUID(int=5), "canary"]),
        ("2", [None, "bob"]),
        ("3", [None]),
    ):
        for user in users:
            put(memory.saver, thread, user)
    put(memory.saver, "4", "canary")
    stored = list(database.mongomem_checkpoints.find({"type": "thread"}, sort=[("thread_id", 1)]))
    assert [len(one["members"]["user_id"]) for one in stored] == [2, 1, 0, 1]
    assert len({one for document in stored for one in document["members"]["user_id"]}) == 4, (
        "one digest a thread"
    )
    assert "canary" not in str(list(database.mongomem_checkpoints.find()))
    # Threads say it themselves: their checkpoints need not be readable.
    database.mongomem_checkpoints.update_many(
        {"type": "checkpoint"}, {"$set": {"content": {"data": b""}}}
    )
    for user, threads in (
        (uuid.UUID(int=5), ["1"]),
        ("bob", ["2"]),
        ("eve", []),
        ("canary", ["4"]),
    ):
        erased = memory_of(database, serde=SECRET).erase_user(user)
        assert (erased.threads, erased.undecided) == (threads, [])


def test_digests_survive_a_copy(database: Any) -> None:
    memory = memory_of(database, serde=SECRET)
    put(memory.saver, "source", "ada")
    put(memory.saver, "source", "bob")
    put(memory.saver, "target", "eve")
    for target in ("target", "fresh"):
        memory.saver.copy_thread("source", target)
    assert sorted(memory.erase_user("eve").threads) == ["target"]
    assert sorted(memory.erase_user("ada").threads) == ["fresh", "source"]


@pytest.mark.parametrize("options", [{}, {"serde": SECRET}])
def test_what_may_not_stand_readable_does_not_and_is_found(database: Any, options: Any) -> None:
    memory = memory_of(database, saver_options={"clear_metadata": ["source"]}, **options)
    put(memory.saver, "1", "canary-user")
    put(memory.saver, "2", "other")
    fields = {"content": 0} if not options else None
    assert "canary-user" not in str(list(database.mongomem_checkpoints.find({}, fields)))
    with pytest.raises(ConfigurationError, match="clear_metadata"):
        memory.saver.list_threads(filter={"user_id": "canary-user"})
    assert memory.erase_user("canary-user").threads == ["1"]


def test_threads_under_another_key_are_undecided_and_others_are_not(database: Any) -> None:
    put(memory_of(database, serde=SECRET).saver, "sealed", "ada")
    put(memory_of(database).saver, "plain", "ada")
    put(memory_of(database, serde=SECRET, saver_options=WITH_USERS).saver, "named", "eve")
    other = EncryptedSerializer.from_pycryptodome_aes(key=b"fedcba9876543210")
    for options in ({}, {"serde": other}):
        erased = memory_of(database, **options).erase_user("bob")
        assert (erased.threads, erased.undecided) == ([], ["sealed"])
    erased = memory_of(database, serde=SECRET).erase_user("ada")
    assert (sorted(erased.threads), erased.undecided) == (["plain", "sealed"], [])


# --- what others wrote
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [(), ("project",)])
def test_threads_of_savers_that_do_not_know_the_key_are_found_by_the_truth(
    database: Any, keys: Any
) -> None:
    ignorant = MongoSaver(database.client, database.name, metadata_indexes=keys)
    for user in ("ada", "bob"):
        put(ignorant, "old", user)
    put(ignorant, "other", "eve")
    put(memory_of(database).saver, "old", "mallory")
    memory = memory_of(database)
    assert memory.saver._options.metadata_keys == ("user_id",)
    for user in ("ada", "bob", "mallory"):
        exported = {one.config["configurable"]["thread_id"] for one in memory.export_user(user)}  # type: ignore[union-attr]
        assert exported == {"old"}
    assert memory.erase_user("ada").threads == ["old"]
    assert [one.thread_id for one in memory.saver.list_threads()] == ["other"]


def test_savers_that_do_not_know_the_key_keep_the_members_of_others(database: Any) -> None:
    put(memory_of(database).saver, "t", "ada")
    put(MongoSaver(database.client, database.name, metadata_indexes=()), "t", "bob")
    stored = database.mongomem_checkpoints.find_one({"type": "thread"})
    assert stored["members"] == {"user_id": ["ada", "bob"]}
    assert memory_of(database).erase_user("bob").threads == ["t"]


def as_version_1(database: Any, thread: str, held: Any) -> None:
    """Make of a thread one as version 1 stored it: the last user as it was given, and nobody
    else.
    """
    fields = {"members": "", "identity": ""}
    where = {"type": "thread", "thread_id": thread}
    database.mongomem_checkpoints.update_one(
        where, {"$unset": fields, "$set": {"metadata.user_id": held}}
    )
    database.mongomem_checkpoints.update_many(
        {"type": "checkpoint", "thread_id": thread}, {"$set": {"metadata.user_id": held}}
    )


@pytest.mark.parametrize("held", [7, "7"])
@pytest.mark.parametrize("asked", [7, "7", Numbered.SEVEN])
def test_what_version_1_stored_is_found(database: Any, held: Any, asked: Any) -> None:
    memory = memory_of(database)
    for thread, user in (("old", held), ("new", 7), ("other", 77), ("older", 77)):
        put(memory.saver, thread, user)
    as_version_1(database, "old", held)
    as_version_1(database, "older", 77)
    listed = memory.saver.list_threads(filter={"user_id": asked})
    assert [one.thread_id for one in listed] == ["new", "old"]
    assert [
        one.thread_id
        for one in memory.saver.list_threads(filter={"user_id": asked}, before=listed[0])
    ] == ["old"]
    assert len(list(memory.saver.list(None, filter={"user_id": asked}))) == 2
    put(memory_of(database).saver, "old", "bob")  # goes on as version 1 has it
    assert [one.thread_id for one in memory.saver.list_threads(filter={"user_id": "bob"})] == [
        "old"
    ]
    assert sorted(memory.erase_user(asked).threads) == ["new", "old"]


def test_damaged_members_are_undecided(database: Any) -> None:
    memory = memory_of(database)
    for number, damage in enumerate(
        [{"members": 5}, {"members": {"user_id": "ada"}}, {"members": {"user_id": [5]}}]
    ):
        put(memory.saver, str(number), "ada")
        database.mongomem_checkpoints.update_one(
            {"type": "thread", "thread_id": str(number)}, {"$set": damage}
        )
    put(memory.saver, "sound", "ada")
    erased = memory_of(database).erase_user("ada")
    assert erased.threads == ["sound"]
    assert {"0", "1"} <= {*erased.undecided}
    with pytest.raises(Exception, match="thread '1'"):
        put(memory_of(database).saver, "1", "ada")


# --- many
# -------------------------------------------------------------------------------------------------


def test_a_thread_of_very_many_is_bounded_and_misses_nobody(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "MOST_MEMBERS", 3)
    memory = memory_of(database)
    for number in range(8):
        put(memory_of(database).saver, "t", f"user {number}")
    stored = database.mongomem_checkpoints.find_one({"type": "thread"})
    assert stored["members"]["user_id"] == ["user 0", "user 1", "user 2", TOO_MANY]
    memory._user_namespace = lambda user: ("u", user.encode().hex())
    for number in range(8):
        assert len(list(memory.export_user(f"user {number}"))) == 8
    with pytest.raises(InvalidInputError, match="one user more"):
        memory.saver.update_thread("t", {"user_id": "user 8"})
    erased = memory.erase_user("user")
    assert (erased.threads, erased.undecided) == ([], ["t"])
    assert memory.erase_user("user 7").threads == ["t"]


def test_additions() -> None:
    known = {"user_id": frozenset({"ada"}), "project": frozenset[Any]()}
    assert additions(known, {}) == {"user_id": frozenset(), "project": frozenset()}
    assert additions(known, {"user_id": ["ada", "bob"], "unknown": ["x"]}) == {
        "user_id": frozenset({"bob"}),
        "project": frozenset(),
    }


@pytest.mark.parametrize(("given", "text"), [one for one in IDS.values() if one[1]])
def test_thread_ids_are_of_all_these_kinds(given: Any, text: str) -> None:
    saver = MongoSaver(mongomock.MongoClient())
    put(saver, given, "ada")
    stored = str(given) if isinstance(given, str) and "\0" in given else text
    (thread,) = saver.list_threads()
    assert thread.thread_id == stored == identifier("thread_id", given)
    assert len(list(saver.list({"configurable": {"thread_id": given}}))) == 1
    saver.delete_thread(given)
    assert saver.get_tuple({"configurable": {"thread_id": stored}}) is None


@pytest.mark.parametrize(
    "name", [*(name for name in NOBODY if name != "too long"), "digits", "long"]
)
def test_what_is_no_identifier_is_refused(name: str) -> None:
    wrong = {"digits": 10**5000, "long": "a" * (LONGEST_IDENTIFIER + 1), **NOBODY}[name]
    saver = MongoSaver(mongomock.MongoClient())
    for call in (
        lambda: put(saver, wrong, "ada"),
        lambda: saver.get_tuple({"configurable": {"thread_id": wrong}}),
        lambda: saver.get_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": wrong}}),
        lambda: saver.get_tuple({"configurable": {"thread_id": "t", "checkpoint_id": wrong}}),
        lambda: saver.delete_thread(wrong),
        lambda: saver.update_thread(wrong, {}),
        lambda: saver.copy_thread(wrong, "t"),
        lambda: saver.prune([wrong]),
    ):
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert len(str(caught.value)) < 400


def test_forms() -> None:
    assert forms_of("7") == ["7", 7]
    assert forms_of("ada") == ["ada"]


# --- namespaces of users
# -------------------------------------------------------------------------------------------------


def failing(user: str) -> Any:
    raise KeyError(user)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda user: (),
        lambda user: [],
        lambda user: None,
        lambda user: user,
        lambda user: ("",),
        lambda user: (user, ""),
        lambda user: (7,),
        lambda user: {user},
        lambda user: iter((user,)),
        lambda user: ("a.b",),
        lambda: ("u",),
        failing,
    ],
)
def test_a_namespace_that_is_none_is_refused_before_anything_is_touched(wrong: Any) -> None:
    client = mongomock.MongoClient()
    memory = MongoMemory(client, user_namespace=wrong)
    put(memory.saver, "t", "ada")
    memory.store.put(("bob",), "k", {"text": "x"})
    for call in (memory.erase_user, lambda user: list(memory.export_user(user))):
        with pytest.raises(InvalidInputError, match="user_namespace"):
            call("ada")
    assert len(memory.saver.list_threads()) == len(memory.store.search(())) == 1


def test_a_namespace_of_everybody_is_refused_before_anything_is_touched() -> None:
    memory = MongoMemory(mongomock.MongoClient(), user_namespace=lambda user: ("users", "memories"))
    put(memory.saver, "t", "ada")
    memory.store.put(("users", "memories"), "k", {"text": "of bob"})
    for call in (memory.erase_user, lambda user: list(memory.export_user(user))):
        with pytest.raises(ConfigurationError, match="for every user"):
            call("ada")
    assert len(memory.saver.list_threads()) == len(memory.store.search(())) == 1
    known = {"ada": ("users", "1")}
    assert MongoMemory(memory._client, user_namespace=known.__getitem__).erase_user(
        "ada"
    ).threads == ["t"]


def test_a_list_is_a_namespace_too() -> None:
    memory = MongoMemory(mongomock.MongoClient(), user_namespace=lambda user: ["users", user])  # type: ignore[arg-type, return-value]
    memory.store.put(("users", "ada"), "k", {"text": "x"})
    memory.store.put(("users", "bob"), "k", {"text": "x"})
    assert memory.erase_user("ada").memories == 1
    assert len(memory.store.search(())) == 1


@pytest.mark.parametrize("wrong", [None, (), ("u",), "user", 7])
def test_a_namespace_function_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="user_namespace"):
        MongoMemory(mongomock.MongoClient(), user_namespace=wrong)


@pytest.mark.parametrize("of_whom", ["user_id", "langgraph_auth_user_id"])
async def test_what_a_langgraph_server_says_of_a_request_is_not_kept(
    of_whom: str, mongo_client: MongoClient, database_name: str
) -> None:
    """Unless it is by that that the application knows whose threads are."""
    memory = MongoMemory(mongo_client, database_name, user_key=of_whom)
    said = {
        "langgraph_request_id": "a request",
        "langgraph_auth_user_id": "ada",
        "langgraph_auth_permissions": "read",
        "graph_id": "chat",
        "user_id": "ada",
    }
    steps = Steps(Calls(memory.saver, "blocking"), **said)
    steps.config["metadata"] = {"langgraph_auth_user": "Ada", "langgraph_request_id": "one"}
    found = memory.saver.get_tuple(await steps.put(a=1))
    assert found is not None
    assert found.metadata.keys() - {"source", "step", "parents"} == {"graph_id", "user_id", of_whom}
    assert [one.thread_id for one in memory.user("ada").threads()] == ["t"]
