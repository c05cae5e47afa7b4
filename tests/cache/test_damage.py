"""Entries that somebody has damaged, moved or edited: misses, and never errors or other values."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from copy import deepcopy
from datetime import datetime, timedelta, timezone
from typing import Any

import bson
import pytest
from bson.datetime_ms import DatetimeMS
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from pymongo import MongoClient
from pymongo.errors import WriteError

from mongomem.cache.documents.entry import entry_id
from support.caches import NS, World

pytestmark = pytest.mark.shares_database

KEY: Any = (NS, "k")
OTHER: Any = (NS, "other")
VALUE = {"messages": ["text " * 50]}
MISSING = object()

WRONG: dict[str, Any] = {
    "missing": MISSING,
    "none": None,
    "true": True,
    "text": "x",
    "empty": "",
    "known type": "null",
    "bytes": b"x" * 17,
    "no bytes": b"",
    "user bytes": bson.Binary(b"x" * 16, 128),
    "list": [b"\x01" * 16, 5],
    "no fields": {},
    "operator": {"$gt": 1},
    "negative": -1,
    "two": 2,
    "largest": 2**63 - 1,
    "fraction": 1.5,
    "not a number": float("nan"),
    "decimal": bson.Decimal128("7"),
    "object id": bson.ObjectId("0" * 24),
    "year 10000": DatetimeMS(253402300800000),
    "no year": DatetimeMS(2**63 - 1),
    "year 1": datetime(1, 1, 1, tzinfo=timezone.utc),
    "next year": datetime(2031, 1, 1, tzinfo=timezone.utc),
    "pattern": re.compile("x"),
    "long": "x" * 100_000,
}

FIELDS = ("type", "data", "packed", "sealed", "cipher", "digest", "expires_at", "schema_version")
READABLE = ("namespace", "key", "created_at")
"""For people: a value is read without them."""


def serializer() -> EncryptedSerializer:
    return EncryptedSerializer.from_pycryptodome_aes(key=b"sixteen or more!")


def place(world: World, document: dict[str, Any], field: str, wrong: Any) -> bool:
    """Put something else in a field; say whether the server takes it."""
    changed = {name: deepcopy(value) for name, value in document.items() if name != field}
    if wrong is not MISSING:
        changed[field] = wrong
    with suppress(WriteError):
        world.entries.replace_one({"_id": document["_id"]}, changed)
        return changed != document
    return False


@pytest.mark.parametrize("seals", [False, True], ids=["plain", "encrypted"])
@pytest.mark.parametrize("field", [*FIELDS, *READABLE])
async def test_a_damaged_entry_is_a_miss_and_the_next_set_mends_it(
    world: World, field: str, seals: bool
) -> None:
    options: dict[str, Any] = {"serde": serializer()} if seals else {}
    cache = world.cache(**options)
    await cache("set", {KEY: (VALUE, 60), OTHER: ("other", None)})
    document = world.entries.find_one({"_id": entry_id(*KEY)})
    for name, wrong in WRONG.items():
        if world.kind == "mongomock" and isinstance(wrong, DatetimeMS | bson.Decimal128):
            continue
        if not place(world, document, field, wrong):
            continue
        found = await cache("get", [KEY, OTHER])
        assert found.pop(OTHER) == "other"
        # what the entry never had, and nothing reads, does no harm
        assert found in ({}, {KEY: VALUE}), name
        if (field in document and field not in READABLE) or field == "sealed":
            assert found == {}, name
    await cache("set", {KEY: (VALUE, 60)})
    assert await cache("get", [KEY]) == {KEY: VALUE}
    assert cache.target.unreadable_entries <= 1


@pytest.mark.parametrize("seals", [False, True], ids=["plain", "encrypted"])
async def test_what_was_moved_or_lives_longer_than_it_was_set_to_is_not_read(
    world: World, seals: bool, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"serde": serializer()} if seals else {}
    cache = world.cache(**options)
    await cache("set", {KEY: (VALUE, 60), OTHER: ("other", None)})
    document = world.entries.find_one({"_id": entry_id(*KEY)})
    world.entries.replace_one(
        {"_id": entry_id(*OTHER)}, {**document, "_id": entry_id(*OTHER), "key": "other"}
    )
    with caplog.at_level(logging.WARNING, "mongomem"):
        assert await cache("get", [KEY, OTHER]) == {KEY: VALUE}
        later = document["expires_at"] + timedelta(days=1)
        for change in ({"$set": {"expires_at": later}}, {"$unset": {"expires_at": 1}}):
            world.entries.update_one({"_id": document["_id"]}, change)
            assert await cache("get", [KEY]) == {}
    (told,) = [one.getMessage() for one in caplog.records if one.name == "mongomem"]
    assert "not what was stored in this place" in told
    assert cache.target.unreadable_entries == 2


async def test_an_entry_of_a_newer_mongomem_is_a_miss(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    cache = world.cache()
    await cache("set", {KEY: (VALUE, None)})
    world.entries.update_many({}, {"$set": {"schema_version": 2}})
    with caplog.at_level(logging.WARNING, "mongomem"):
        assert await cache("get", [KEY]) == {}
    assert "upgrade it" in caplog.text


async def test_many_damaged_entries_of_a_node_are_one_line(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    cache = world.cache()
    keys: list[Any] = [(NS, str(number)) for number in range(20)] + [(("other",), "k")]
    await cache("set", dict.fromkeys(keys, (VALUE, None)))
    world.entries.update_many({}, {"$unset": {"digest": 1}})
    with caplog.at_level(logging.WARNING, "mongomem"):
        assert await cache("get", keys) == {}
    assert len([one for one in caplog.records if "digest is missing" in one.message]) == 2
    assert cache.target.unreadable_entries == 21


def test_bytes_in_a_database_run_no_code(
    mongo_client: MongoClient, database_name: str, tmp_path: Any
) -> None:
    """Somebody with write access names a function: it is not called, and the entry is a miss."""
    import ormsgpack
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from mongomem import MongoCache
    from mongomem.checkpoint.serde.place_digest import cache_entry_binding
    from mongomem.checkpoint.serde.serializer import ValueSerializer

    made = tmp_path / "made"
    payload = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "mkdir", str(made)))))
    sealed = ValueSerializer.of(JsonPlusSerializer(), None).seal(
        payload, cache_entry_binding(*KEY, "msgpack", None)
    )
    fields = {"type": "msgpack", "schema_version": 1, **sealed}
    mongo_client[database_name]["mongomem_cache_entries"].insert_one(
        {"_id": entry_id(*KEY), **fields}
    )
    cache: MongoCache[Any] = MongoCache(mongo_client, database_name)
    assert cache.get([KEY]) == {}
    assert cache.unreadable_entries == 1
    assert not made.exists()
