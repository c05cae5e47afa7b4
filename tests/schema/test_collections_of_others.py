"""Collections that somebody else uses: named before anything is written; what stands under older
names is found.
"""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId
from pymongo import MongoClient

from mongomem import ConfigurationError, MongoSaver
from support.graphs import chain_of
from support.savers import KINDS, Calls, saver_of
from support.stores import named

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
CHECKPOINT: Any = {
    "v": 4,
    "id": "1",
    "ts": "2026-01-01T00:00:00+00:00",
    "channel_values": {"a": "x" * 5000},
    "channel_versions": {"a": "1"},
    "versions_seen": {},
}
FOREIGN_IDS: list[Any] = [
    ObjectId(b"a" * 12),
    "an id",
    7,
    {"compound": 1},
    b"bytes of another length",
]


async def put(calls: Calls) -> Any:
    return await calls("put", CONFIG, CHECKPOINT, {"source": "loop"}, {})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["checkpoints", "checkpoint_writes"])
@pytest.mark.parametrize("auto_setup", [True, False])
async def test_documents_of_others_are_named_before_anything_is_written(
    kind: str,
    name: str,
    auto_setup: bool,
    mongo_uri: str,
    database_name: str,
    mongo_client: MongoClient,
) -> None:
    options = {"collection_prefix": "", "auto_setup": auto_setup}
    async with saver_of(kind, mongo_uri, database_name, **options) as saver:
        collection = saver._runners.run.database.database[name] if kind == "mongomock" else None  # type: ignore[attr-defined]
        collection = mongo_client[database_name][name] if collection is None else collection
        collection.insert_one({"_id": ObjectId(), "thread_id": "t"})
        calls = Calls(saver, kind)
        for call in (
            put(calls),
            calls("get_tuple", CONFIG),
            calls.list(CONFIG),
            calls("list_threads"),
        ):
            with pytest.raises(
                ConfigurationError,
                match=rf"'{name}' holds documents .* ObjectId.*collection_prefix",
            ):
                await call
        assert collection.count_documents({}) == 1
        assert len(list(collection.list_indexes())) == 1


@pytest.mark.parametrize("foreign", FOREIGN_IDS, ids=named)
def test_ids_of_every_other_kind_are_recognised(
    foreign: Any, mongo_client: MongoClient, database_name: str
) -> None:
    mongo_client[database_name]["mongomem_checkpoints"].insert_one({"_id": foreign})
    with pytest.raises(ConfigurationError, match="another package uses it"):
        MongoSaver(mongo_client, database_name).setup()


def test_a_unique_index_of_others_is_named(mongo_client: MongoClient, database_name: str) -> None:
    mongo_client[database_name]["checkpoints"].create_index(
        [("thread_id", 1), ("checkpoint_id", -1)], unique=True
    )
    with pytest.raises(ConfigurationError, match="unique index 'thread_id_1_checkpoint_id_-1'"):
        MongoSaver(mongo_client, database_name, collection_prefix="").setup()


@pytest.mark.parametrize("auto_setup", [True, False])
def test_what_stands_under_the_names_of_old_is_found(
    auto_setup: bool, mongo_client: MongoClient, database_name: str
) -> None:
    old = MongoSaver(mongo_client, database_name, collection_prefix="")
    chain_of(old, "one").invoke({"log": []}, {"configurable": {"thread_id": "t"}})
    new = MongoSaver(mongo_client, database_name, auto_setup=auto_setup)
    for call in (
        lambda: new.get_tuple(CONFIG),
        lambda: new.put(CONFIG, CHECKPOINT, {"source": "loop"}, {}),
    ):
        with pytest.raises(ConfigurationError, match=r'collection_prefix=""'):
            call()
    assert "mongomem_checkpoints" not in mongo_client[database_name].list_collection_names()
    again = MongoSaver(mongo_client, database_name, collection_prefix="", auto_setup=auto_setup)
    assert again.get_tuple(CONFIG) == old.get_tuple(CONFIG)


def test_other_packages_under_the_names_of_old_are_let_be(
    mongo_client: MongoClient, database_name: str
) -> None:
    mongo_client[database_name]["checkpoints"].insert_one({"_id": ObjectId(), "thread_id": "t"})
    saver = MongoSaver(mongo_client, database_name)
    assert saver.get_tuple(CONFIG) is None
    saver.put(CONFIG, CHECKPOINT, {"source": "loop"}, {})
    assert saver.get_tuple(CONFIG) is not None
