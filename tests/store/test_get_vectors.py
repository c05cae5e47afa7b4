"""Items with their stored vectors, over every runner: which, in which order, and what is left
out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import PutOp
from pymongo import MongoClient

from mongomem.display import amemory_map, memory_map
from mongomem.errors import ConfigurationError, IndexMismatchError, InvalidInputError
from support.bag_of_words import bag_of_words
from support.savers import KINDS, Calls, client_of
from support.stores import DIMS, Clock, CountingEmbedder, keys, store_on, words

NS = ("ada", "memories")


class World:
    """A client of one kind, and stores on it."""

    def __init__(self, client: Any, kind: str, database: str) -> None:
        self.client, self.kind, self.database = client, kind, database

    def store(self, **options: Any) -> Calls:
        return store_on(
            self.client, self.kind, self.database, **{"index": words(fields=["text"]), **options}
        )


@pytest.fixture(params=KINDS)
async def world(
    request: pytest.FixtureRequest, mongo_uri: str, database_name: str
) -> AsyncIterator[World]:
    async with client_of(request.param, mongo_uri) as client:
        yield World(client, request.param, database_name)


def of(found: list[Any]) -> list[str]:
    return keys(one.item for one in found)


async def test_items_come_with_the_vectors_of_their_texts(world: World) -> None:
    store = world.store()
    await store("put", NS, "pet", {"text": "a dog", "toys": ["ball", "old shoe"]})
    await store("put", NS, "toys", {"toys": ["red ball", "kite"]}, ["toys[*]"])
    await store("put", (*NS, "deeper"), "home", {"text": "Lisbon"})
    await store("put", ("adam",), "home", {"text": "Porto"})
    found = {one.item.key: one for one in await store("get_vectors", NS)}
    assert set(found) == {"pet", "toys", "home"}
    assert found["pet"].item.value["text"] == "a dog"
    assert found["home"].item.namespace == (*NS, "deeper")
    assert found["toys"].paths == ("toys[*]", "toys[*]")
    for key, texts in (("pet", ["a dog"]), ("toys", ["red ball", "kite"]), ("home", ["Lisbon"])):
        assert found[key].vectors.dtype == np.float32
        assert found[key].vectors.shape == (len(texts), DIMS)
        np.testing.assert_allclose(found[key].vectors, bag_of_words(DIMS)(texts), atol=1e-6)


@pytest.mark.parametrize(("limit", "expected"), [(300, (1, 2)), (2, (1, 1)), (1, (1, 0))])
async def test_a_map_counts_the_newest_items_that_have_no_vectors(
    limit: int, expected: tuple[int, int], world: World
) -> None:
    clock = Clock()
    store = world.store(clock=clock)
    await store("put", NS, "textless", {"toys": ["ball"]})
    for key, index in (("plain", False), ("pet", None)):
        clock.advance(minutes=1)
        await store("put", NS, key, {"text": "a dog"}, index)
    draw = amemory_map if store.is_async else memory_map
    drawn: Any = draw(store.target, NS, limit=limit)
    shown = await drawn if store.is_async else drawn
    points, without = len(shown.points), shown.without_vectors
    assert (points, without) == expected
    assert (f"; items without vectors: {without}" in str(shown)) is (without > 0)


async def test_the_newest_come_first_up_to_the_limit(world: World) -> None:
    clock = Clock()
    store = world.store(clock=clock)
    for key in ("first", "second", "third"):
        await store("put", NS, key, {"text": key})
        clock.advance(minutes=1)
    await store("put", NS, "unindexed", {"text": "fourth"}, False)
    assert of(await store("get_vectors", NS, limit=2)) == ["third", "second"]
    assert of(await store("get_vectors", NS)) == ["third", "second", "first"]
    assert await store("get_vectors", NS, limit=0) == []


async def test_nothing_is_embedded_or_refreshed(world: World) -> None:
    clock, embedder = Clock(), CountingEmbedder()
    index = {"embed": embedder, "dims": DIMS, "fields": ["text"]}
    store = world.store(index=index, clock=clock, ttl={"refresh_on_read": True})
    await store("put", NS, "short", {"text": "gone in a minute"}, ttl=1)
    asked = len(embedder.calls)
    assert of(await store("get_vectors", NS)) == ["short"]
    assert len(embedder.calls) == asked
    clock.advance(minutes=0.9)
    assert of(await store("get_vectors", NS)) == ["short"]
    clock.advance(minutes=0.2)
    assert await store("get_vectors", NS) == []


async def test_vectors_of_another_configuration_are_refused(world: World) -> None:
    await world.store()("put", NS, "pet", {"text": "a dog"})
    with pytest.raises(IndexMismatchError):
        await world.store(index=words(256, fields=["text"]))("get_vectors", NS)


async def test_a_store_without_an_index_says_so(world: World) -> None:
    with pytest.raises(ConfigurationError, match="no vectors"):
        await world.store(index=None)("get_vectors", NS)


@pytest.mark.parametrize(
    ("namespace", "limit"), [("ada", 1), (("a.b",), 1), (NS, -1), (NS, "1"), (NS, True)]
)
async def test_wrong_arguments_are_named(world: World, namespace: Any, limit: Any) -> None:
    with pytest.raises((InvalidInputError, ValueError), match=r"limit|namespace_prefix"):
        await world.store()("get_vectors", namespace, limit=limit)


DAMAGE: dict[str, dict[str, Any]] = {
    "cut": {"vectors.0.vector": b"\x27\x00"},
    "no bytes": {"vectors.0.vector": [1.0, 2.0]},
    "infinite": {"vectors.0.vector": b"\x27\x00" + b"\x00\x00\x80\x7f" * DIMS},
    "without a path": {"vectors.0.path": 5},
    "entries without a vector": {"vectors": [{"digest": "x"}]},
    "moved": {"key": "elsewhere"},
}


@pytest.mark.parametrize("fields", DAMAGE.values(), ids=DAMAGE)
async def test_a_damaged_item_is_left_out_and_counted(
    world: World, mongo_client: MongoClient, fields: dict[str, Any]
) -> None:
    store = world.store()
    await store("batch", [PutOp(NS, key, {"text": key}) for key in ("sound", "damaged")])
    client = world.client if world.kind == "mongomock" else mongo_client
    items = client[world.database]["mongomem_store_items"]
    items.update_one({"key": "damaged"}, {"$set": fields})
    assert of(await store("get_vectors", NS)) == ["sound"]
    assert store.target.damaged_items == 1
