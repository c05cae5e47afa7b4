"""Documents that somebody has damaged, moved or edited: named where they are asked for, left out
where many are.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import bson
import numpy as np
import pytest
from bson import DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from pymongo import MongoClient
from pymongo.errors import WriteError

from mongomem.errors import CorruptDataError, SchemaVersionError
from mongomem.store.plans.read import items_after
from mongomem.store.store import MongoStore
from support.savers import KINDS, Calls, client_of
from support.stores import Clock, keys, words

NS = ("users", "u1")
OTHER = ("users", "u2")
ITEM = "users\x00u1\x00\x00k"
TEXTS = {"a": "red fish", "k": "blue fish", "z": "green stone"}
LATER = datetime(2025, 1, 1, tzinfo=timezone.utc)
WHEN = datetime(2024, 5, 1, 1, 2, 3, 456_789, timezone.utc)


@dataclass
class World:
    """A client of one kind, the collection of the items, and stores that have met nothing yet."""

    kind: str
    client: Any
    items: Any
    name: str

    def store(self, **options: Any) -> Calls:
        return Calls(
            MongoStore(
                self.client,
                self.name,
                **{"index": words(fields=["text"], rank="hybrid"), **options},
            ),
            self.kind,
        )

    async def export(self, store: Calls, namespace: tuple[str, ...]) -> list[Any]:
        """Read everything below a namespace as `MongoMemory.export_user` does, in small pages."""
        found: list[Any] = []
        after: str | None = None
        for _ in range(100):
            plan = items_after(store.target._context(), namespace, after, 2)
            runners = store.target._runners
            page = await runners.arun(plan) if store.is_async else runners.run(plan)
            if not page:
                return found
            found += [placed.item for placed in page if placed.item is not None]
            after = page[-1].id
        raise AssertionError("the export never ends")


@pytest.fixture(params=KINDS)
async def world(
    request: pytest.FixtureRequest, mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> AsyncIterator[World]:
    async with client_of(request.param, mongo_uri) as client:
        database = (client if request.param == "mongomock" else mongo_client)[database_name]
        yield World(request.param, client, database["mongomem_store_items"], database_name)


async def fill(world: World) -> dict[str, Any]:
    """Put three items, and return the document of the one that will be damaged: it has every field
    there is.
    """
    store = world.store()
    when = {"when": WHEN, "n": 7, "pair": (1, 2)}
    await store(
        "batch",
        [PutOp(NS, key, {"text": text, "n": 1}) for key, text in TEXTS.items() if key != "k"],
    )
    await store("put", NS, "k", {"text": TEXTS["k"], **when}, ["text"], ttl=60 * 24 * 365 * 50)
    document: dict[str, Any] = world.items.find_one({"_id": ITEM})
    return document


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


MISSING = object()

WRONG: dict[str, Any] = {
    "missing": MISSING,
    "null": None,
    "true": True,
    "zero": 0,
    "negative": -1,
    "long": Int64(2**63 - 1),
    "half": 0.5,
    "nan": float("nan"),
    "infinite": float("inf"),
    "decimal": Decimal128("1e400"),
    "text": "text",
    "empty text": "",
    "long text": "x" * 2**20,
    "empty list": [],
    "list": ["users", {"$ne": None}, 7],
    "list of lists": [[["users"]]],
    "empty object": {},
    "object": {"a": 1, "$where": "1"},
    "deep object": nested(90),
    "reference": DBRef("users", 1),
    "bytes": b"bytes",
    "long bytes": b"\x00" * 2**20,
    "exact bytes": bson.encode({"value": {"~object": 3}}),
    "object id": ObjectId(b"a" * 12),
    "regex": Regex("u1"),
    "timestamp": Timestamp(1, 1),
    "future timestamp": Timestamp(2**32 - 1, 1),
    "date beyond": DatetimeMS(2**62),
    "date before": DatetimeMS(-(2**62)),
    "smallest": MinKey(),
    "largest": MaxKey(),
}

FIELDS = (
    *(
        "namespace",
        "key",
        "path",
        "prefixes",
        "value",
        "exact",
        "created_at",
        "updated_at",
        "expires_at",
    ),
    *(
        "ttl_minutes",
        "changed_at",
        "index",
        "index_fields",
        "vectors",
        "codes",
        "terms",
        "generation",
        "schema_version",
    ),
    *(
        "namespace.0",
        "prefixes.1",
        "vectors.0",
        "vectors.0.vector",
        "vectors.0.digest",
        "value.text",
    ),
)


def damaged(document: dict[str, Any], field: str, wrong: Any) -> dict[str, Any]:
    """Return a copy of a document with something else in one place."""
    copy = deepcopy(document)
    *way, last = [int(name) if name.isdigit() else name for name in field.split(".")]
    place: Any = copy
    for name in way:
        place = place[name]
    if wrong is not MISSING:
        place[last] = wrong
    elif last in place or isinstance(last, int):
        del place[last]
    return copy


UNKNOWN_TO_MONGOMOCK = (Decimal128, DBRef, MinKey, MaxKey, Regex, DatetimeMS)


def replace(world: World, document: dict[str, Any]) -> bool:
    """Put a document in the place of the one with its id; say whether the server takes it.

    mongomock 4.3 cannot compare every type, nor read a field of what is no object in a list.
    """
    entries, value = document.get("vectors"), document.get("value")
    compared = [*document.values(), *(value.values() if isinstance(value, dict) else ())]
    if world.kind == "mongomock" and (
        any(isinstance(one, UNKNOWN_TO_MONGOMOCK) for one in compared)
        or isinstance(document.get("updated_at"), (Timestamp, int, float))
        or isinstance(document.get("changed_at"), (int, float, list))
        or (isinstance(entries, list) and not all(isinstance(entry, dict) for entry in entries))
    ):
        return False
    with suppress(WriteError):  # two arrays in one index, say
        world.items.replace_one({"_id": document["_id"]}, document, upsert=True)
        return True
    return False


async def check(
    world: World, store: Calls, victim: Any, scores: dict[str, float], what: str
) -> None:
    """Read in every way that reads many: all else is answered as ever, and the victim as it is or
    not at all.
    """
    reads = [
        SearchOp(NS),
        SearchOp(NS, limit=10, offset=1),
        SearchOp(NS, filter={"text": {"$gt": ""}}),
        SearchOp(NS, query="fish"),
        SearchOp((), query="fish", filter={"text": {"$in": list(TEXTS.values())}}),
        SearchOp(OTHER),
        SearchOp(OTHER, query="fish"),
        ListNamespacesOp(),
    ]
    plain, behind, *found, other, near, listed = await store("batch", reads)
    assert other == near == [], what
    assert {item.key for item in behind} <= {item.key for item in plain}, what
    assert len(behind) == len(plain) - 1, what
    assert NS in listed, what
    found += [
        plain,
        await world.export(store, NS),
        await store("search", NS, query="fish", min_score=-1.0),
    ]
    for number, items in enumerate(found):
        assert len(keys(items)) == len(set(keys(items))), (what, number)
        assert all(item.namespace == NS for item in items), (what, number)
        assert {"a", "z"} <= set(keys(items)) <= {"a", "k", "z"}, (what, number)
        for item in items:
            if item.key == "k":
                assert repr(item.value) == repr(victim and victim.value), (what, number)
            elif getattr(item, "score", None) is not None:
                assert item.score == pytest.approx(scores[item.key]), (what, number)


SHARE = {"blocking": 1, "mongomock": 1, "threaded": 7, "awaiting": 7, "bridging": 7}
"""Each damage, or one in seven where a kind of client runs the plans of another."""


async def test_damage_of_any_kind_anywhere_is_named_or_left_out(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, logger="mongomem")
    document = await fill(world)
    scores = {item.key: item.score for item in await world.store()("search", NS, query="fish")}
    warm, met = world.store(), 0
    await warm("search", NS, query="fish")
    for number, (field, name) in enumerate((field, name) for field in FIELDS for name in WRONG):
        if number % SHARE[world.kind] or not replace(world, damaged(document, field, WRONG[name])):
            continue
        what, fresh, victim, error = f"{field} is {name}", world.store(), None, None
        try:
            victim = await fresh("get", NS, "k", refresh_ttl=False)
        except (CorruptDataError, SchemaVersionError) as raised:
            error = str(raised)
        assert error is None or ("item 'k' in ('users', 'u1')" in error and len(error) <= 300), what
        assert victim is None or (victim.namespace, victim.key) == (NS, "k"), what
        assert error or victim, what
        await check(world, fresh, victim, scores, what)
        if number % 7 == 0:
            await check(world, warm, victim, scores, what)
        assert fresh.target.damaged_items >= (
            error is not None and field not in ("path", "prefixes")
        ), what
        met += error is not None
    assert met > 250 / SHARE[world.kind]
    assert warm.target.damaged_items > 0


async def test_a_put_mends_what_is_damaged_and_a_deletion_removes_it(world: World) -> None:
    document = await fill(world)
    for field in FIELDS:
        for name in ("missing", "null", "text", "list", "bytes", "date beyond"):
            for mends in (True, False):
                if not replace(world, damaged(document, field, WRONG[name])):
                    continue
                what, store = f"{field} is {name}", world.store()
                if mends:
                    await store("put", NS, "k", {"text": "blue fish", "n": 2})
                    item = await store("get", NS, "k")
                    assert item.value == {"text": "blue fish", "n": 2}, what
                    assert item.created_at <= item.updated_at, what
                    found = await store("search", NS, query="blue fish", limit=1)
                    assert [(one.key, round(one.score, 5)) for one in found] == [("k", 1.0)], what
                else:
                    await store("delete", NS, "k")
                    assert await store("get", NS, "k") is None, what
                    assert sorted(keys(await store("search", ()))) == ["a", "z"], what


async def test_a_damaged_item_is_logged_and_counted_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    document = await fill(world)
    replace(world, damaged(document, "created_at", "yesterday"))
    store = world.store()
    assert store.target.damaged_items == 0
    for _ in range(3):
        assert len(await store("search", NS)) == 2
        assert len(await store("search", NS, query="fish")) == 2
        assert len(await world.export(store, NS)) == 2
    assert store.target.damaged_items == 1
    told = [record for record in caplog.records if record.name == "mongomem"]
    assert [record.levelno for record in told] == [logging.WARNING]
    assert "item 'k' in ('users', 'u1')" in told[0].getMessage()
    assert "created_at" in told[0].getMessage()
    replace(world, document)
    assert sorted(keys(await store("search", NS))) == ["a", "k", "z"]
    assert store.target.damaged_items == 1


# --- where an item stands
# --------------------------------------------------------------------------


def moves(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every way to say that an item stands under another's namespace."""
    paths = ["", "users", "users\x00u2"]
    changes: dict[str, dict[str, Any]] = {
        "namespace": {"namespace": list(OTHER)},
        "key": {"key": "other"},
        "path": {"path": "users\x00u2"},
        "prefixes": {"prefixes": paths},
        "one more prefix": {"prefixes": [*document["prefixes"], "users\x00u2"]},
        "one prefix less": {"prefixes": document["prefixes"][:-1]},
        "labels in one": {"namespace": ["users\x00u1"], "prefixes": ["", "users\x00u1"]},
        "namespace as text": {"namespace": "users\x00u1"},
        "all but the path": {"namespace": list(OTHER), "prefixes": paths},
        "all but the namespace": {"path": "users\x00u2", "prefixes": paths},
        "all": {"namespace": list(OTHER), "path": "users\x00u2", "prefixes": paths},
    }
    return {name: {**document, **change} for name, change in changes.items()}


async def test_an_item_that_was_moved_is_nobodys(world: World) -> None:
    document = await fill(world)
    await world.store()("put", OTHER, "own", {"text": "blue bird"})
    warm = world.store()
    await warm("search", OTHER, query="fish")
    for name, moved in moves(document).items():
        world.items.replace_one({"_id": ITEM}, moved)
        for store in (world.store(), warm):
            with pytest.raises(CorruptDataError, match=r"item 'k' in \('users', 'u1'\)"):
                await store("get", NS, "k")
            assert await store("get", OTHER, "k") is None, name
            assert await store("get", NS, "other") is None, name
            for options in (
                {},
                {"query": "blue fish"},
                {"filter": {"n": 7}},
                {"limit": 1, "query": "blue fish"},
            ):
                for item in await store("search", OTHER, **options):
                    assert (item.namespace, item.key) == (OTHER, "own"), name
                for prefix in (NS, ("users",), ()):
                    found = await store("search", prefix, **options)
                    assert "k" not in keys(found), name
                    assert all(item.namespace[: len(prefix)] == prefix for item in found), name
            assert keys(await world.export(store, OTHER)) == ["own"], name
            assert keys(await world.export(store, NS)) == ["a", "z"], name
            assert store.target.damaged_items == 1, name


async def test_a_copy_under_anothers_name_is_nobodys(world: World) -> None:
    document = await fill(world)
    name_of_theirs = "users\x00u2\x00\x00k"
    for moved in (
        {**document},
        {**document, "path": "users\x00u2", "prefixes": ["", "users", "users\x00u2"]},
    ):
        world.items.replace_one(
            {"_id": name_of_theirs}, {**moved, "_id": name_of_theirs}, upsert=True
        )
        store = world.store()
        with pytest.raises(CorruptDataError, match=r"item 'k' in \('users', 'u2'\)"):
            await store("get", OTHER, "k")
        assert await store("search", OTHER) == await store("search", OTHER, query="fish") == []
        assert sorted(keys(await store("search", ()))) == ["a", "k", "z"]
        assert sorted(keys(await store("search", NS, query="fish"))) == ["a", "k", "z"]
        assert store.target.damaged_items == 1


async def test_documents_of_no_item_are_left_out(world: World) -> None:
    document = await fill(world)
    own = {"changed_at": Timestamp(2_000_000_000, 1)}
    for odd in (
        7,
        ObjectId(b"b" * 12),
        {"a": 1},
        "text",
        "",
        b"bytes",
        datetime(2024, 1, 1, tzinfo=timezone.utc),
    ):
        world.items.replace_one({"_id": odd}, {**document, **own, "_id": odd}, upsert=True)
    store = world.store()
    for _ in range(2):
        assert sorted(keys(await store("search", NS))) == ["a", "k", "z"]
        assert sorted(keys(await store("search", NS, query="fish"))) == ["a", "k", "z"]
        assert sorted(
            keys(await store("search", NS, query="fish", filter={"n": {"$exists": True}}))
        ) == ["a", "k", "z"]
        assert len(await store("search", NS, limit=2, offset=1)) == 2
        assert keys(await world.export(store, NS)) == ["a", "k", "z"]
    assert store.target.damaged_items == 7


async def test_a_namespace_takes_its_items_along_wherever_they_were_moved(world: World) -> None:
    document = await fill(world)
    for moved in moves(document).values():
        world.items.replace_one({"_id": ITEM}, moved, upsert=True)
        store = world.store()
        await store("put", OTHER, "own", {"n": 1})
        await store("delete_namespace", NS)
        assert keys(await store("search", ())) == ["own"]
        assert world.items.count_documents({}) == 1


async def test_paths_that_name_no_namespace_are_left_out_of_the_list(world: World) -> None:
    document = await fill(world)
    for number, path in enumerate(("a\x00\x00b", "a.b", "\x00", "a\x00")):
        odd = f"{number}"
        world.items.replace_one({"_id": odd}, {**document, "_id": odd, "path": path}, upsert=True)
    store = world.store()
    assert await store("list_namespaces") == [NS]
    assert await store("list_namespaces", max_depth=1) == [("users",)]
    assert store.target.damaged_items == 4


# --- pages
# -----------------------------------------------------------------------------------------


async def test_pages_go_past_damaged_items(world: World) -> None:
    await world.store()(
        "batch", [PutOp(NS, f"k{n:02}", {"text": f"fish {n}", "n": n}) for n in range(40)]
    )
    hurt = [
        name
        for name in WRONG
        if not name.startswith("long") and "list" not in name and "object" not in name
    ]
    for number in range(0, 40, 2):
        document = world.items.find_one({"_id": f"users\x00u1\x00\x00k{number:02}"})
        field = ("updated_at", "created_at", "value", "key")[number // 2 % 4]
        replace(world, damaged(document, field, WRONG[hurt[number // 2 % len(hurt)]]))
    sound = {f"k{n:02}" for n in range(1, 40, 2)}
    for options in (
        {},
        {"filter": {"n": {"$gte": 0}}},
        {"query": "fish 3"},
        {"query": "fish", "min_score": -1},
    ):
        for limit in (1, 3, 7):
            store = world.store()
            pages = [
                await store("search", NS, limit=limit, offset=start, **options)
                for start in range(0, 42, limit)
            ]
            found = [key for page in pages for key in keys(page)]
            assert len(found) == len(set(found)), (options, limit)
            assert sound <= set(found), (options, limit)
            assert [len(page) for page in pages if page][:-1] == [limit] * (
                len(found) // limit - (len(found) % limit == 0)
            )


async def test_a_timestamp_of_the_future_hides_no_write(world: World) -> None:
    document = await fill(world)
    world.items.replace_one({"_id": ITEM}, {**document, "changed_at": Timestamp(2**32 - 1, 1)})
    reader, writer = world.store(), world.store()
    assert len(await reader("search", NS, query="fish")) == 3
    for number in range(20):
        await writer("put", NS, f"new{number:02}", {"text": f"brown bear{number}"})
        found = await reader("search", NS, query=f"brown bear{number}", min_score=0.999)
        assert f"new{number:02}" in keys(
            found
        )  # and maybe one whose words fall into the same places of the bag
        await writer("put", NS, "k", {"text": f"black bird{number}"})
        assert "k" in keys(await reader("search", NS, query=f"black bird{number}", min_score=0.999))
        if number % 5 == 4:
            change = {"$set": {"changed_at": Timestamp(2**32 - 1, number)}}
            world.items.update_one({"_id": ITEM}, change)


# --- vectors
# ---------------------------------------------------------------------------------------


async def test_damaged_vectors_move_no_others(world: World) -> None:
    document = await fill(world)
    expected = [
        (item.key, item.score) for item in await world.store()("search", NS, query="red fish")
    ]
    vector, codes = bytes(document["vectors"][0]["vector"]), document["codes"]
    size = len(codes)

    def in_place(whole: bytes, at: int, part: bytes) -> bytes:
        return whole[:at] + part + whole[at + len(part) :]

    nan, inf, below = (np.float32(number).tobytes() for number in (np.nan, np.inf, -5.0))
    for name, hurt in {
        "shorter": {"vectors.0.vector": vector[:-4]},
        "longer": {"vectors.0.vector": vector + b"\x00" * 4},
        "of another header": {"vectors.0.vector": b"\x03" + vector[1:]},
        "with nan": {"vectors.0.vector": in_place(vector, 2, nan)},
        "infinite": {"vectors.0.vector": in_place(vector, 6, inf)},
        "one sound, one not": {"vectors": [*document["vectors"], {"vector": b""}]},
        "codes shorter": {"codes": codes[:-1]},
        "codes longer": {"codes": codes + b"\x00"},
        "empty codes": {"codes": b""},
        "scale is nan": {"codes": in_place(codes, 0, nan)},
        "residual is infinite": {"codes": in_place(codes, 4, inf)},
        "square is below zero": {"codes": in_place(codes, 8, below)},
        "scale is below zero": {"codes": in_place(codes, 0, below)},
        "second row is nan": {"codes": codes + in_place(codes, 0, nan), "size": size},
    }.items():
        hurt_document = document
        for field, wrong in hurt.items():
            hurt_document = damaged(hurt_document, field, wrong)
        replace(world, hurt_document)
        for store in (world.store(), world.store(index_cache_bytes=1)):
            for _ in range(2):
                found = [
                    (item.key, item.score) for item in await store("search", NS, query="red fish")
                ]
                assert [one for one in found if one[0] != "k"] == [
                    one for one in expected if one[0] != "k"
                ], name
                (score,) = [score for key, score in found if key == "k"]
                # Terms are not believed where the codes that they were stored with are others.
                assert score is None or ("codes" in hurt and score <= dict(expected)["k"]), name
            assert store.target.damaged_items == 1, name
            assert (await store("get", NS, "k")).value["text"] == TEXTS["k"]


async def test_a_damaged_vector_is_not_used_again(world: World) -> None:
    document = await fill(world)
    for wrong in (
        b"",
        b"x" * 7,
        bytes(document["vectors"][0]["vector"])[:-4],
        "text",
        None,
        float("nan"),
    ):
        replace(world, damaged(document, "vectors.0.vector", wrong))
        store = world.store()
        await store("put", NS, "k", {"text": TEXTS["k"]})
        found = await store("search", NS, query=TEXTS["k"], limit=1)
        assert [(item.key, round(item.score, 5)) for item in found] == [("k", 1.0)]


# --- values
# ----------------------------------------------------------------------------------------

EXACT: dict[str, Any] = {
    "no document": b"\x01",
    "cut": bson.encode({"value": {"a": 1}})[:-2],
    "no value": bson.encode({}),
    "a list": bson.encode({"value": [1]}),
    "an object of a number": bson.encode({"value": {"~object": 3}}),
    "an object of numbers": bson.encode({"value": {"~object": [1, 2]}}),
    "an object with a number for a key": bson.encode({"value": {"~object": [[1, 2]]}}),
    "an object with a list for a key": bson.encode({"value": {"~object": [[[1], 2]]}}),
    "an unknown kind": bson.encode({"value": {"a": {"~shell": "rm"}}}),
    "a tuple of none": bson.encode({"value": {"a": {"~tuple": None}}}),
    "a time that is none": bson.encode({"value": {"a": {"~time": "x", "fold": 0}}}),
    "a time without fold": bson.encode({"value": {"a": {"~time": "2024-01-01"}}}),
    "a fold of two": bson.encode({"value": {"a": {"~time": "2024-01-01", "fold": 2}}}),
    "an integer that is none": bson.encode({"value": {"a": {"~integer": "x"}}}),
    "an integer of an integer": bson.encode({"value": {"a": {"~integer": 7}}}),
    "a regex": bson.encode({"value": {"a": Regex("x")}}),
    "a date": bson.encode({"value": {"a": DatetimeMS(2**62)}}),
    "text that is none": bson.encode({"value": {"a": "XYZ"}}).replace(b"XYZ", b"\xff\xfe\xfd"),
    "deep": bson.encode({"value": nested(400)})[:-100],
}


@pytest.mark.parametrize("name", EXACT)
async def test_damaged_exact_bytes_are_named(world: World, name: str) -> None:
    document = await fill(world)
    replace(world, {**document, "exact": EXACT[name]})
    store = world.store()
    with pytest.raises(CorruptDataError, match=r"item 'k' in \('users', 'u1'\): its exact bytes"):
        await store("get", NS, "k")
    for options in ({}, {"query": "fish"}, {"filter": {"text": {"$ne": "x"}}}):
        assert sorted(keys(await store("search", NS, **options))) == ["a", "z"]
    assert store.target.damaged_items == 1


async def test_bytes_that_are_no_text_end_no_search(
    world: World, mongo_client: MongoClient
) -> None:
    if world.kind == "mongomock":
        return  # it keeps objects, and no bytes
    document = await fill(world)
    items: Any = mongo_client[world.name]["mongomem_store_items"]
    for number, (old, new) in enumerate(
        ((b"blue fish", b"blue f\xffsh"), (b"u1\x00\x00k", b"u1\x00\x00\xff"))
    ):
        items.delete_many({"_id": {"$gt": ITEM, "$lt": f"{ITEM}~"}})
        copy = {**document, "_id": ITEM, "exact": None}
        items.delete_one({"_id": ITEM})
        encoded = bson.encode(copy).replace(old, new)
        items.insert_one(RawBSONDocument(encoded))
        store = world.store()
        for options in (
            {},
            {"query": "fish"},
            {"limit": 2, "query": "fish"},
            {"filter": {"n": {"$exists": True}}},
        ):
            assert set(keys(await store("search", NS, **options))) == {"a", "z"}, number
        assert keys(await world.export(store, NS)) == ["a", "z"]
        assert store.target.damaged_items == 1
        raw: Any = items.with_options(bson.CodecOptions(document_class=RawBSONDocument))
        for kept in list(raw.find({"key": "k"})):
            assert b"\xff" in kept.raw


# --- edits by hand
# ---------------------------------------------------------------------------------


async def test_an_edit_by_hand_counts(world: World) -> None:
    value = {
        "text": "blue fish",
        "when": WHEN,
        "pair": (1, 2),
        "n": 2**70,
        "a.b": 1,
        "list": [1, {"deep": WHEN}],
    }
    for change, expected in (
        ({"value.text": "red"}, {"text": "red"}),
        ({"value.more": 1}, {"more": 1}),
        ({"value.list.1.deep": None}, {"list": [1, {"deep": None}]}),
        ({"value.pair.0": 9}, {"pair": [9, 2]}),
        (
            {"value.when": datetime(2025, 1, 1, tzinfo=timezone.utc)},
            {"when": datetime(2025, 1, 1, tzinfo=timezone.utc)},
        ),
    ):
        store = world.store()
        await store("put", NS, "k", value)
        assert (await store("get", NS, "k")).value == value
        world.items.update_one({"_id": ITEM}, {"$set": change})
        edited = (await store("get", NS, "k")).value
        shown = {"when": WHEN.replace(microsecond=456_000), "pair": [1, 2], "n": hex(2**70)}
        lists = {"list": [1, {"deep": WHEN.replace(microsecond=456_000)}]}
        everything = {"text": "blue fish", **shown, **lists, "a\uff0eb": 1, **expected}
        assert edited == everything
        (name, wanted), *_ = expected.items()
        assert keys(await store("search", NS, filter={name: wanted})) == ["k"]
        assert [item.value for item in await store("search", NS)] == [everything]
        assert [item.value for item in await store("search", NS, query="fish")] == [everything]
        await store("put", NS, "k", {**edited, "pair": (3, 4)})
        assert (await store("get", NS, "k")).value == {**everything, "pair": (3, 4)}


async def test_what_is_written_down_otherwise_is_no_edit(world: World) -> None:
    """Tools write integers as doubles, 32 bits as 64, and fields in an order of their own."""
    value = {
        "pair": (1, 2),
        "n": 7,
        "long": 2**40,
        "half": 0.5,
        "object": {"a": 1, "b": 2.0},
        "when": WHEN,
    }
    store = world.store()
    await store("put", NS, "k", value)
    readable = world.items.find_one({"_id": ITEM})["value"]
    for other in (
        {**readable, "n": Int64(7), "pair": [1.0, Int64(2)]},
        {**readable, "n": 7.0, "long": float(2**40), "object": {"a": 1.0, "b": 2}},
        dict(reversed(list(readable.items()))),
        {**readable, "object": {"b": 2.0, "a": 1}},
    ):
        world.items.update_one({"_id": ITEM}, {"$set": {"value": other}})
        item = await store("get", NS, "k")
        assert item.value == value
        assert type(item.value["pair"]) is tuple
    world.items.update_one({"_id": ITEM}, {"$set": {"value.n": 7.5}})
    assert (await store("get", NS, "k")).value["n"] == 7.5


async def test_exact_bytes_of_the_first_version_win(world: World) -> None:
    store = world.store()
    await store("put", NS, "k", {"pair": (1, 2)})
    exact = bson.encode({"value": {"pair": {"~tuple": [1, 2]}}})  # without a digest
    world.items.update_one({"_id": ITEM}, {"$set": {"exact": exact, "value.pair": [3, 4]}})
    assert (await store("get", NS, "k")).value == {"pair": (1, 2)}


async def test_an_edited_text_is_embedded_again_by_the_next_put(world: World) -> None:
    store = world.store()
    await store("put", NS, "k", {"text": "blue fish"})
    world.items.update_one({"_id": ITEM}, {"$set": {"value.text": "red bird"}})
    item = await store("get", NS, "k")
    assert item.value == {"text": "red bird"}
    assert (
        round((await store("search", NS, query="blue fish"))[0].score, 5) == 1.0
    )  # its vector is of the text before
    await store("put", NS, "k", item.value)
    assert round((await store("search", NS, query="red bird"))[0].score, 5) == 1.0


async def test_many_are_read_around_a_damaged_one_in_a_batch(world: World) -> None:
    document = await fill(world)
    replace(world, damaged(document, "value", 7))
    store = world.store()
    with pytest.raises(CorruptDataError, match="item 'k'"):
        await store("batch", [GetOp(NS, "a"), GetOp(NS, "k"), PutOp(NS, "new", {"n": 1})])
    assert await store("get", NS, "new") is None
    assert (await store("batch", [GetOp(NS, "a"), SearchOp(NS)]))[0].key == "a"


async def test_an_item_of_a_newer_version_says_so(world: World) -> None:
    document = await fill(world)
    replace(world, {**document, "schema_version": 2, "value": "in another form"})
    store = world.store()
    with pytest.raises(
        SchemaVersionError, match=r"item 'k' in \('users', 'u1'\).*schema 2.*upgrade"
    ):
        await store("get", NS, "k")
    assert sorted(keys(await store("search", NS))) == ["a", "z"]
    assert store.target.damaged_items == 1


async def test_expired_items_are_swept(world: World) -> None:
    clock = Clock()
    store = world.store(clock=clock)
    await store("batch", [PutOp(NS, f"k{n}", {"text": "t"}, ttl=5) for n in range(3)])
    await store("put", NS, "for ever", {"text": "t"})
    assert await store("sweep_ttl") == 0
    clock.advance(minutes=6)
    assert await store("sweep_ttl") == 3
    assert await store("sweep_ttl") == 0
    assert world.items.count_documents({}) == 1
    assert await store("stop_ttl_sweeper", 1.0) is True
    started = await store("start_ttl_sweeper", sweep_interval_minutes=5)
    if store.is_async:
        assert await started is None
    assert started.done()
    assert started.result() is None
