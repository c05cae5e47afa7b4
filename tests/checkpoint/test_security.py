"""Security: operators in arguments, malicious payloads, plaintext in the database."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import bson
import ormsgpack
import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import INTERRUPT
from pymongo import MongoClient

from mongomem import CorruptDataError
from mongomem.checkpoint.saver import MongoSaver
from support.graphs import Steps
from support.savers import Calls, saver_of

CANARY = "CANARY-5f3a"
WRONG: dict[str, Any] = {
    "not equal": {"$ne": None},
    "greater": {"$gt": ""},
    "regex": re.compile(""),
    "bson regex": bson.Regex(""),
    "list": [{"$ne": None}],
    "bytes": b"t",
}


@pytest.fixture
async def calls(mongo_uri: str, database_name: str, kind: str) -> AsyncIterator[Calls]:
    async with saver_of(kind, mongo_uri, database_name) as saver:
        yield Calls(saver, kind)


def config(**changed: Any) -> Any:
    return {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c"} | changed}


def checkpoint(**changed: Any) -> Any:
    plain = {
        "v": 4,
        "id": "c",
        "ts": "",
        "channel_values": {},
        "channel_versions": {},
        "versions_seen": {},
    }
    return plain | changed


@pytest.mark.parametrize("kind", ["blocking", "awaiting", "mongomock"])
@pytest.mark.parametrize("name", WRONG)
async def test_no_operator_gets_into_a_query(
    name: str, kind: str, calls: Calls, mongo_client: MongoClient, database_name: str
) -> None:
    await Steps(calls).put({"user_id": "ada"}, a=1)
    await calls("put_writes", (await calls.list(None))[0].config, [("a", 1)], "task")
    wrong, source = WRONG[name], {"source": "loop"}
    before = await calls.list(None)
    places = [config(**{key: wrong}) for key in ("thread_id", "checkpoint_ns", "checkpoint_id")]
    attempts: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        *(("get_tuple", (place,), {}) for place in places),
        *(("put", (place, checkpoint(), source, {}), {}) for place in places),
        ("put", (config(), checkpoint(id=wrong), source, {}), {}),
        *(("put_writes", (place, [("a", 1)], "task"), {}) for place in places),
        ("put_writes", (config(), [("a", 1)], wrong), {}),
        ("put_writes", (config(), [("a", 1)], "task", wrong), {}),
        ("put_writes", (config(), [(wrong, 1)], "task"), {}),
        *(
            ("get_delta_channel_history", (), {"config": place, "channels": ["a"]})
            for place in places
        ),
        ("get_delta_channel_history", (), {"config": config(), "channels": [wrong]}),
        ("delete_thread", (wrong,), {}),
        ("delete_for_runs", ([wrong],), {}),
        ("copy_thread", (wrong, "u"), {}),
        ("copy_thread", ("t", wrong), {}),
        ("prune", ([wrong],), {}),
        *(("prune", (["t"],), {key: wrong}) for key in ("strategy", "keep_last", "older_than")),
        ("delete_idle_threads", (wrong,), {}),
        *(("list_threads", (), {key: wrong}) for key in ("limit", "before")),
    ]
    for method, arguments, named in attempts:
        with pytest.raises((TypeError, ValueError)):
            await calls(method, *arguments, **named)
    for place in places:
        with pytest.raises((TypeError, ValueError)):
            await calls.list(place)
    for named in ({"limit": wrong}, {"before": config(checkpoint_id=wrong)}):
        with pytest.raises((TypeError, ValueError)):
            await calls.list(None, **named)
    assert await calls.list(None) == before
    if kind != "mongomock":
        assert mongo_client[database_name].mongomem_checkpoints.count_documents({}) == 2
        assert mongo_client[database_name].mongomem_checkpoint_writes.count_documents({}) == 1


@pytest.mark.parametrize("kind", ["blocking", "awaiting", "mongomock"])
@pytest.mark.parametrize("name", WRONG)
async def test_what_a_filter_wants_is_data(name: str, calls: Calls) -> None:
    await Steps(calls).put({"user_id": "ada", "nested": {"a": "t"}}, a=1)
    for wanted in (
        {"user_id": WRONG[name]},
        {"nested": {"a": WRONG[name]}},
        {"nested": WRONG[name]},
    ):
        assert await calls.list(None, filter=wanted) == []
        assert await calls("list_threads", filter=wanted) == []
    for operator in ("$where", "$expr", "$or", "$function"):
        for call in (
            calls.list(None, filter={operator: "true"}),
            calls("list_threads", filter={operator: "true"}),
        ):
            with pytest.raises((TypeError, ValueError)):
                await call


def malicious(path: str) -> bytes:
    """Return what JsonPlusSerializer writes for an object, naming a function that it must not
    call.
    """
    return ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "mkdir", path))))


@pytest.mark.parametrize("place", ["body", "channel", "write"])
@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize(
    "serde", [None, JsonPlusSerializer(allowed_msgpack_modules=None)], ids=["default", "strict"]
)
async def test_a_malicious_payload_is_not_executed(
    place: str,
    pickled: bool,
    serde: Any,
    mongo_client: MongoClient,
    database_name: str,
    tmp_path: Any,
) -> None:
    target = tmp_path / "made"
    saver = MongoSaver(mongo_client, database_name, serde=serde)
    steps = Steps(Calls(saver, "blocking"))
    await steps.put(a=1)
    saver.put_writes(steps.config, [("a", 1)], "task")
    code = b"cposix\nmkdir\n(V" + str(target).encode() + b"\ntR."
    kind, content = ("pickle", code) if pickled else ("msgpack", malicious(str(target)))
    database = mongo_client[database_name]
    if place == "write":
        change = {"$set": {"type": kind, "data": content}, "$unset": {"packed": ""}}
        reply = database.mongomem_checkpoint_writes.update_one({}, change)
    else:
        evil, other = {"type": kind, "length": len(content)}, {"type": "null", "length": 0}
        values = (
            {"body": evil, "channels": []}
            if place == "body"
            else {"body": other, "channels": [evil]}
        )
        values["channels"] = [{"channel": "a", **value} for value in values["channels"]]
        reply = database.mongomem_checkpoints.update_one(
            {"type": "checkpoint"}, {"$set": {**values, "content": {"data": content}}}
        )
    assert reply.modified_count == 1
    fresh = MongoSaver(mongo_client, database_name, serde=serde)
    for read in (lambda: fresh.get_tuple(steps.config), lambda: list(fresh.list(None))):
        with suppress(CorruptDataError):
            read()
    assert not target.exists()


async def test_an_allowlist_lets_more_types_through_and_shares_everything_else(
    mongo_client: MongoClient, database_name: str
) -> None:
    from langchain_core.documents import Document

    class_path = (Document.__module__, Document.__name__)
    strict = MongoSaver(
        mongo_client, database_name, serde=JsonPlusSerializer(allowed_msgpack_modules=None)
    )
    clone = strict.with_allowlist([("tests.checkpoint.test_listing", "Colour")])
    assert isinstance(clone, MongoSaver)
    steps = Steps(Calls(clone, "blocking"))
    await steps.put(a=Document(page_content=class_path[0]))
    assert (
        strict.get_tuple(steps.config).checkpoint["channel_values"]["a"].page_content
        == class_path[0]
    )
    assert clone._caches is strict._caches
    strict.delete_thread("t")
    assert clone.get_tuple(steps.config) is None


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_no_plaintext_reaches_the_database_of_an_encrypting_saver(
    kind: str, mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=os.urandom(32))
    async with saver_of(kind, mongo_uri, database_name, serde=serde) as saver:
        calls = Calls(saver, kind)
        steps = Steps(calls, "t", "", user_id=CANARY)
        for number in range(4):
            long = [f"{CANARY} {number}"] * 3000
            await steps.put({"secret": {"deep": [CANARY]}}, small=CANARY, long=long, number=number)
            writes = [("a", CANARY), (INTERRUPT, CANARY), ("long", long * 4)]
            await calls("put_writes", steps.config, writes, "task")
        found = await calls("get_tuple", steps.config)
        assert found.checkpoint["channel_values"] == steps.values
        assert found.metadata["user_id"] == CANARY
        assert len(await calls.list(None, filter={"user_id": CANARY})) == 4
        await calls("copy_thread", "t", "u")
        await calls("prune", ["t"])
        assert (await calls("get_tuple", {"configurable": {"thread_id": "t"}})) is not None
        copied = await calls("get_tuple", {"configurable": {"thread_id": "u"}})
        assert copied.checkpoint["channel_values"] == steps.values
    database = mongo_client[database_name]
    documents = [
        document for name in database.list_collection_names() for document in database[name].find()
    ]
    assert len(documents) > 10
    assert not [document for document in documents if CANARY.encode() in bson.encode(document)]


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_an_encrypting_saver_shares_what_did_not_change(
    kind: str, mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=os.urandom(32))
    static = os.urandom(500_000)
    async with saver_of(kind, mongo_uri, database_name, serde=serde) as saver:
        steps = Steps(Calls(saver, kind))
        await steps.put(static=static, number=0)
        for number in range(20):
            await steps.put(number=number)
        await steps.put(static=static + b"more", number=-1)
    sizes = mongo_client[database_name].mongomem_checkpoints.aggregate(
        [{"$group": {"_id": None, "all": {"$sum": {"$bsonSize": "$$ROOT"}}}}]
    )
    assert next(sizes)["all"] < 1.5 * len(static)


async def test_a_saver_without_the_key_says_so(
    mongo_client: MongoClient, database_name: str
) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=os.urandom(32))
    steps = Steps(Calls(MongoSaver(mongo_client, database_name, serde=serde), "blocking"))
    await steps.put(a=1)
    with pytest.raises(ValueError, match="encrypted"):
        MongoSaver(mongo_client, database_name).get_tuple(steps.config)
