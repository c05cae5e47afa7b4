"""Search by meaning, over every runner: what is found, in which order, and what is embedded for
it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import mongomock
import numpy as np
import pytest
from langgraph.store.base import PutOp, SearchOp
from pymongo import MongoClient

from mongomem.errors import (
    DimensionMismatchError,
    IndexMismatchError,
    ReindexError,
    UnstorableValueError,
)
from mongomem.store.store import MongoStore
from mongomem.store.vectors.quantization import METRICS, Metric, decode_vectors, similarities
from support.bag_of_words import bag_of_words
from support.databases import drop
from support.savers import KINDS, Calls, client_of
from support.stores import DIMS, CountingEmbedder, keys, store_of, store_on, words

NS = ("users", "u1")
OTHER = 768


def cosine(one: str, other: str, dims: int = DIMS) -> float:
    rows = np.array(bag_of_words(dims)([one, other]))
    return float(rows[0] @ rows[1] / np.linalg.norm(rows[0]) / np.linalg.norm(rows[1]))


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture(params=KINDS)
async def store(
    request: pytest.FixtureRequest, mongo_uri: str, database_name: str, embedder: CountingEmbedder
) -> AsyncIterator[Calls]:
    index = {"embed": embedder, "dims": DIMS, "rank": "vector", "fields": ["text"]}
    async with store_of(request.param, mongo_uri, database_name, index=index) as calls:
        yield calls


def scored(items: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(item.key, None if item.score is None else round(item.score, 5)) for item in items]


FACTS = {
    "cat": "my cat likes fish",
    "dog": "my dog likes bones",
    "car": "red car",
    "sea": "fish swim in the sea",
}


async def test_the_closest_comes_first_with_its_cosine(store: Calls) -> None:
    await store("batch", [PutOp(NS, key, {"text": text}) for key, text in FACTS.items()])
    query = "what does my cat like: fish"
    found = await store("search", NS, query=query)
    expected = sorted(
        ((round(cosine(text, query), 5), key) for key, text in FACTS.items()),
        key=lambda p: (-p[0], p[1]),
    )
    assert scored(found) == [(key, score) for score, key in expected]
    assert found[0].value == {"text": FACTS["cat"]}
    assert keys(await store("search", NS, query=query, limit=1)) == ["cat"]
    assert keys(await store("search", NS, query=query, limit=1, offset=1)) == [expected[1][1]]
    assert await store("search", NS, query=query, limit=0) == []


async def test_items_without_a_vector_follow_unscored(store: Calls) -> None:
    await store("put", NS, "none", {"other": 1})
    await store("put", NS, "off", {"text": "my cat"}, index=False)
    await store("put", NS, "cat", {"text": "my cat"})
    assert scored(await store("search", NS, query="cat"))[1:] == [
        ("off", None),
        ("none", None),
    ] or scored(await store("search", NS, query="cat"))[1:] == [("none", None), ("off", None)]
    assert keys(await store("search", NS, query="cat", limit=1)) == ["cat"]
    pages = [
        keys(await store("search", NS, query="cat", limit=1, offset=start)) for start in range(4)
    ]
    assert sorted(key for page in pages for key in page) == ["cat", "none", "off"]
    assert pages[3] == []


async def test_pages_with_a_query_are_stable_and_complete(store: Calls) -> None:
    puts = [
        PutOp(NS, f"k{n}", {"text": f"word{n % 7} thing", "n": n, "odd": n % 2 == 1})
        for n in range(85)
    ]
    await store(
        "batch", [*puts, *(PutOp(NS, f"p{n}", {"n": n, "odd": n % 2 == 1}) for n in range(10))]
    )
    for chosen, expected in ((None, 95), ({"odd": True}, 47), ({"n": {"$ne": 3}}, 93)):
        options = {"query": "word3 thing", "filter": chosen}
        pages = [
            await store("search", NS, limit=10, offset=start, **options)
            for start in range(0, 100, 10)
        ]
        found = [key for page in pages for key in keys(page)]
        assert len(found) == len(set(found)) == expected
        whole = await store("search", NS, limit=100, **options)
        assert keys(whole) == found
        scores = [item.score for item in whole if item.score is not None]
        assert scores == sorted(scores, reverse=True)


async def test_a_filter_that_few_far_ones_match_still_gives_all(store: Calls) -> None:
    puts = [
        PutOp(NS, f"k{n}", {"text": "near word" if n % 50 else "far away", "n": n})
        for n in range(600)
    ]
    await store("batch", puts)
    for chosen in ({"text": "far away"}, {"text": {"$ne": "near word"}}):
        found = await store("search", NS, query="near word", filter=chosen, limit=10)
        assert len(found) == 10
        assert all(item.value["n"] % 50 == 0 for item in found)
        assert len(await store("search", NS, query="near word", filter=chosen, limit=100)) == 12


async def test_what_is_below_another_namespace_is_never_found(store: Calls) -> None:
    for namespace in (("docs", "public"), ("docs", "private"), ("docs",), ("docs", "publicity")):
        await store("put", namespace, "k", {"text": "the secret"})
    found = await store("search", ("docs", "public"), query="the secret")
    assert [item.namespace for item in found] == [("docs", "public")]
    assert len(await store("search", (), query="the secret")) == 4


# --- which texts get a vector
# ----------------------------------------------------------------------


async def test_a_batch_that_mixes_everything_gives_each_text_its_own_vector(store: Calls) -> None:
    await store("put", NS, "was", {"text": "old words"})
    await store(
        "batch",
        [
            PutOp(NS, "a", {"text": "apples"}),
            PutOp(NS, "off", {"text": "apples"}, index=False),
            PutOp(NS, "blank", {"text": "  "}),
            PutOp(NS, "empty", {"text": ""}),
            PutOp(NS, "missing", {}),
            PutOp(NS, "b", {"text": "bananas"}),
            PutOp(NS, "same", {"text": "apples"}),
            PutOp(NS, "other", {"text": "x", "title": "bananas"}, index=["title"]),
            PutOp(NS, "was", {"text": "old words"}, index=False),
        ],
    )
    found = dict(scored(await store("search", NS, query="apples", limit=20)))
    assert {key for key, score in found.items() if score == 1} == {"a", "same"}
    assert {key for key, score in found.items() if score is None} == {
        "off",
        "blank",
        "empty",
        "missing",
        "was",
    }
    found = dict(scored(await store("search", NS, query="bananas", limit=20)))
    assert {key for key, score in found.items() if score == 1} == {"b", "other"}


async def test_an_item_with_many_vectors_counts_once_with_its_best(
    mongo_uri: str, database_name: str
) -> None:
    value = {
        "title": "about whales",
        "parts": [{"text": "small fish"}, {"text": "large ships"}, {"n": 1}],
        "a": {"b": "deep"},
    }
    for kind in KINDS:
        name = f"{database_name[:-4]}{kind[:4]}"
        index = words(fields=["title", "parts[*].text", "a.b", "$"])
        async with store_of(kind, mongo_uri, name, index=index) as calls:
            await calls("put", NS, "many", value)
            await calls("put", NS, "one", {"title": "large"})
            for query in ("about whales", "small fish", "large ships", "deep"):
                found = await calls("search", NS, query=query)
                assert sorted(keys(found)) == ["many", "one"]
                assert scored(found)[0] == ("many", 1.0)
            with MongoClient(mongo_uri) as client:
                drop(client, name)


async def test_unchanged_and_repeated_texts_are_embedded_once(
    store: Calls, embedder: CountingEmbedder
) -> None:
    await store("batch", [PutOp(NS, key, {"text": "the same"}) for key in "abc"])
    await store("put", NS, "d", {"text": "another"})
    assert embedder.calls == [["the same"], ["another"]]
    await store("put", NS, "a", {"text": "the same", "more": 1})
    assert embedder.calls == [["the same"], ["another"]]
    await store("batch", [PutOp(NS, "a", {"text": "new"}), PutOp(NS, "b", {"text": "the same"})])
    assert embedder.calls[2:] == [["new"]]
    assert scored(await store("search", NS, query="new", limit=1)) == [("a", 1.0)]


async def test_a_value_with_times_and_bytes_can_be_embedded_whole(
    mongo_uri: str, database_name: str
) -> None:
    from datetime import datetime, timezone

    async with store_of("mongomock", mongo_uri, database_name, index=words()) as calls:
        await calls(
            "put",
            NS,
            "k",
            {"when": datetime(2024, 1, 2, tzinfo=timezone.utc), "raw": b"x", "text": "hello"},
        )
        assert len(await calls("search", NS, query="hello")) == 1


# --- embedders that fail
# ---------------------------------------------------------------------------


async def test_an_embedder_that_fails_writes_nothing(
    store: Calls, embedder: CountingEmbedder
) -> None:
    await store("put", NS, "there", {"text": "there"})
    embedder.error = RuntimeError("no more credit")
    with pytest.raises(RuntimeError, match="credit"):
        await store(
            "batch",
            [PutOp(NS, "plain", {"n": 1}), PutOp(NS, "k", {"text": "t"}), PutOp(NS, "there", None)],
        )
    embedder.error = None
    assert keys(await store("search", NS)) == ["there"]


async def test_an_item_too_large_is_not_embedded_first(
    store: Calls, embedder: CountingEmbedder
) -> None:
    with pytest.raises(UnstorableValueError, match="item 'big'"):
        await store(
            "batch",
            [PutOp(NS, "k", {"text": "fish"}), PutOp(NS, "big", {"text": "x" * 17_000_000})],
        )
    assert embedder.texts == []
    assert await store("search", NS) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_wrong_dimensions_write_nothing(
    mongo_uri: str, database_name: str, kind: str
) -> None:
    async with store_of(
        kind, mongo_uri, database_name, index={"embed": bag_of_words(3), "dims": 4}
    ) as calls:
        with pytest.raises(DimensionMismatchError):
            await calls(
                "batch", [PutOp(NS, "plain", {"n": 1}, index=False), PutOp(NS, "k", {"text": "t"})]
            )
        assert await calls("search", NS) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_an_async_embedder_serves_sync_and_async_calls(
    mongo_uri: str, database_name: str, kind: str
) -> None:
    embed = bag_of_words(DIMS)

    async def aembed(texts: Sequence[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return embed(texts)

    async with store_of(
        kind, mongo_uri, database_name, index={"embed": aembed, "dims": DIMS, "rank": "vector"}
    ) as calls:
        await calls("put", NS, "k", {"text": "hello"})
        assert len(await calls("search", NS, query="hello")) == 1


# --- freshness
# -------------------------------------------------------------------------------------


async def test_a_write_of_another_process_is_seen_at_once(
    mongo_uri: str, database_name: str
) -> None:
    with MongoClient(mongo_uri) as client:
        foreign = MongoStore(client, database_name, index=words(fields=["text"]))
        for kind in ("blocking", "threaded", "awaiting"):
            namespace = (kind, "memories")
            async with store_of(
                kind, mongo_uri, database_name, index=words(fields=["text"])
            ) as calls:
                assert await calls("search", (kind,), query="fish") == []
                for n in range(12):
                    foreign.put(namespace, f"k{n}", {"text": f"fish number{n}"})
                    found = await calls("search", (kind,), query=f"fish number{n}", limit=3)
                    assert scored(found)[0] == (f"k{n}", 1.0)
                foreign.put(namespace, "k3", {"text": "quite different"})
                assert scored(await calls("search", (kind,), query="quite different", limit=1)) == [
                    ("k3", 1.0)
                ]
                assert "k3" not in keys(
                    await calls("search", (kind,), query="fish number3", limit=11)
                )
                foreign.put(namespace, "k4", {"text": "fish number4"}, index=False)
                assert scored(await calls("search", (kind,), query="fish number4", limit=20))[
                    -1
                ] == ("k4", None)
                foreign.delete(namespace, "k5")
                assert "k5" not in keys(
                    await calls("search", (kind,), query="fish number5", limit=20)
                )
                foreign.put(namespace, "k5", {"text": "fish number5"})
                assert scored(await calls("search", (kind,), query="fish number5", limit=1)) == [
                    ("k5", 1.0)
                ]
                foreign.delete_namespace((kind,))
                assert await calls("search", (kind,), query="fish") == []


def test_what_was_written_since_is_found_where_it_is_now(
    mongo_client: MongoClient, database_name: str
) -> None:
    """Items move about in meaning, come and go between searches; each answer is what a fresh store
    gives.
    """
    index, moved = words(fields=["text"]), random.Random(5)
    store, other = (MongoStore(mongo_client, database_name, index=index) for _ in range(2))
    texts = [f"fish {n} {'fish' if n % 3 else 'bird'} river" for n in range(40)]
    other.batch([PutOp(("a",), f"k{n}", {"text": text}) for n, text in enumerate(texts)])
    for turn in range(60):
        for _ in range(moved.choice([0, 1, 1, 2, 3, 12])):
            key = f"k{moved.randrange(50)}"
            text = moved.choice(["bird", "fish", "stone", moved.choice(texts)])
            value = moved.choice([None, {"text": text}, {"text": text}])
            other.batch([PutOp(("a",), key, value, index=moved.choice([None, None, False]))])
        options: dict[str, Any] = {
            "query": "fish",
            "limit": moved.choice([1, 5, 100]),
            "offset": moved.choice([0, 3]),
        }
        fresh = MongoStore(mongo_client, database_name, index=index)
        expected, found = (one.search(("a",), **options) for one in (fresh, store))
        assert [(item.key, item.value, item.score) for item in found] == [
            (item.key, item.value, item.score) for item in expected
        ], turn


def test_many_deleted_items_do_not_hide_those_behind(mongo_uri: str, database_name: str) -> None:
    with MongoClient(mongo_uri) as client:
        store, foreign = (
            MongoStore(client, database_name, index=words(fields=["text"])) for _ in range(2)
        )
        store.batch([PutOp(NS, f"near{n}", {"text": "fish"}) for n in range(300)])
        store.batch([PutOp(NS, f"far{n}", {"text": f"fish and more{n}"}) for n in range(12)])
        assert len(store.search(NS, query="fish", limit=10)) == 10
        foreign.batch([PutOp(NS, f"near{n}", None) for n in range(300)])
        found = store.search(NS, query="fish", limit=10)
        assert len(found) == 10
        assert all(key.startswith("far") for key in keys(found))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_prefix_too_large_for_memory_gives_the_same(
    mongo_uri: str, database_name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mongomem.store.plans.candidates.PAGE_SIZE", 40)
    index = words(fields=["text"])
    async with client_of(kind, mongo_uri) as client:
        large = store_on(client, kind, database_name, index=index)
        small = store_on(client, kind, database_name, index=index, index_cache_bytes=2_000)
        oracle = store_on(mongomock.MongoClient(), "mongomock", database_name, index=index)
        puts = [
            PutOp(NS, f"k{n}", {"text": f"fish number{n % 40} kind{n % 3}", "n": n})
            for n in range(150)
        ]
        await large("batch", puts)
        await oracle("batch", puts)
        for options in ({}, {"offset": 30}, {"filter": {"n": {"$lt": 9}}}, {"limit": 200}):
            expected = scored(await oracle("search", NS, query="fish number7 kind1", **options))
            assert (
                scored(await large("search", NS, query="fish number7 kind1", **options)) == expected
            )
            assert (
                scored(await small("search", NS, query="fish number7 kind1", **options)) == expected
            )
        assert small.target._context().index_cache.size == 0
        assert large.target._context().index_cache.size > 0


def test_a_busy_namespace_of_short_lived_items_stays_in_memory(
    mongo_client: MongoClient, database_name: str
) -> None:
    store = MongoStore(
        mongo_client, database_name, index=words(fields=["text"]), index_cache_bytes=200_000
    )
    other = MongoStore(mongo_client, database_name, index=words(fields=["text"]))
    store.put(NS, "keep", {"text": "keep", "n": 1})
    for _ in range(12):
        other.batch([PutOp(NS, f"k{n}", {"text": f"passing {n}"}) for n in range(100)])
        assert scored(store.search(NS, query="keep", limit=1, filter={"n": 1})) == [("keep", 1.0)]
        other.batch([PutOp(NS, f"k{n}", None) for n in range(100)])
        other.batch([PutOp(NS, f"again{n}", {"text": f"passing {n}"}) for n in range(100)])
        assert scored(store.search(NS, query="keep", limit=1, filter={"n": 1})) == [("keep", 1.0)]
        other.batch([PutOp(NS, f"again{n}", None) for n in range(100)])
        cache = store._context().index_cache
        assert not cache.too_large
        assert 0 < cache.size <= 200_000


def test_gone_items_never_outweigh_those_that_are_there(
    mongo_client: MongoClient, database_name: str
) -> None:
    store = MongoStore(mongo_client, database_name, index=words(8, fields=["text"]))
    store.put(NS, "keep", {"text": "keep", "n": 1})
    for turn in range(6):
        puts = [PutOp(NS, f"{turn}k{n}", {"text": f"passing {n}"}, index=False) for n in range(600)]
        store.batch(puts)
        store.search(NS, query="keep", limit=1)
        store.batch([put._replace(value=None) for put in puts])
    assert len(store._context().index_cache._indexes["\x00".join(NS)].timestamps()) < 2_000


def test_a_prefix_that_became_small_is_held_again(
    mongo_client: MongoClient, database_name: str
) -> None:
    store = MongoStore(
        mongo_client, database_name, index=words(fields=["text"]), index_cache_bytes=100_000
    )
    puts = [PutOp(NS, f"k{n}", {"text": f"passing {n}"}) for n in range(200)]
    store.batch([PutOp(NS, "keep", {"text": "keep"}), *puts])
    assert scored(store.search(NS, query="keep", limit=1)) == [("keep", 1.0)]
    assert store._context().index_cache.too_large
    store.batch([put._replace(value=None) for put in puts])
    for _ in range(2):
        assert scored(store.search(NS, query="keep", limit=1)) == [("keep", 1.0)]
    assert not store._context().index_cache.too_large
    assert store._context().index_cache.size > 0


# --- metrics, batches
# ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["blocking", "mongomock"])
async def test_metrics_share_one_scale(mongo_uri: str, database_name: str, kind: str) -> None:
    rows = {"long": [3.0, 0.0], "short": [0.5, 0.0], "other": [1.0, 1.0], "q": [1.0, 0.0]}

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [rows[text] for text in texts]

    expected = {
        "cosine": [("long", 1.0), ("short", 1.0), ("other", 0.70711)],
        "dot": [("long", 3.0), ("other", 1.0), ("short", 0.5)],
        "euclidean": [("short", 0.66667), ("other", 0.5), ("long", 0.33333)],
    }
    for metric, order in expected.items():
        index = {
            "embed": embed,
            "dims": 2,
            "rank": "vector",
            "fields": ["t"],
            "metric": metric,
            "model": "rows",
        }
        async with store_of(
            kind, mongo_uri, database_name, index=index, collection_prefix=f"{metric}_"
        ) as calls:
            await calls("batch", [PutOp(NS, name, {"t": name}) for name in rows if name != "q"])
            assert scored(await calls("search", NS, query="q")) == order


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("index_cache_bytes", [2**24, 1])
def test_the_closest_are_found_where_vectors_share_a_large_component(
    mongo_client: MongoClient,
    database_name: str,
    metric: Metric,
    index_cache_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mongomem.store.plans.semantic_search.PAGE_SIZE", 700)
    monkeypatch.setattr("mongomem.store.plans.candidates.PAGE_SIZE", 700)
    rows = np.random.default_rng(5).standard_normal((1_600, 8), dtype=np.float32)
    rows[:, 3] += 1_000
    index: Any = {
        "embed": lambda texts: rows[[int(text) for text in texts]],
        "model": "rows",
        "dims": 8,
    }
    index |= {"fields": ["t"], "metric": metric}
    store = MongoStore(
        mongo_client, database_name, index=index, index_cache_bytes=index_cache_bytes
    )
    store.batch([PutOp(NS, f"{n}", {"t": f"{n}"}) for n in range(1_590)])
    for query in range(1_590, 1_600):
        truth = np.argsort(-similarities(rows[:1_590], rows[query], metric), kind="stable")[:10]
        assert keys(store.search(NS, query=f"{query}")) == [f"{n}" for n in truth]


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_one_of_many_that_share_nothing_else_with_the_query_is_found(
    mongo_client: MongoClient, database_name: str, metric: str
) -> None:
    """What it shares is less than a level of its code, so that all codes score zero."""

    def count(texts: Sequence[str]) -> list[list[int]]:
        return [[text.count("the"), text.count("dog"), text.count("cat")] for text in texts]

    index: Any = {"embed": count, "dims": 3, "fields": ["t"], "rank": "vector", "metric": metric}
    store = MongoStore(mongo_client, database_name, index=index)
    texts = [f"{'the ' * 300}{'dog' * (n == 450)}" for n in range(500)]
    store.batch([PutOp(NS, f"{n:03}", {"t": text}) for n, text in enumerate(texts)])
    assert keys(store.search(NS, query="dog", limit=1)) == ["450"]
    assert keys(store.search(NS, query="cat", limit=300)) == [f"{n:03}" for n in range(300)]


async def test_the_queries_of_a_batch_are_embedded_by_one_call_before_anything(
    store: Calls, embedder: CountingEmbedder
) -> None:
    await store("batch", [PutOp(NS, key, {"text": text}) for key, text in FACTS.items()])
    embedder.calls.clear()
    first, second, third = await store(
        "batch",
        [
            SearchOp(NS, query="cat", limit=1),
            SearchOp(NS, query="car", limit=1),
            SearchOp(NS, query="cat", limit=2),
        ],
    )
    assert [sorted(call) for call in embedder.calls] == [["car", "cat"]]
    assert (keys(first), keys(second), keys(third)[0]) == (["cat"], ["car"], "cat")


# --- the configuration of the index
# ----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_configuration_that_nothing_was_made_with_gives_way(
    mongo_uri: str, database_name: str, kind: str
) -> None:
    class BrokenError(Exception):
        pass

    def broken(texts: Sequence[str]) -> list[list[float]]:
        raise BrokenError

    async with client_of(kind, mongo_uri) as client:
        failing = Calls(
            MongoStore(
                client,
                database_name,
                index={"embed": broken, "dims": 3, "rank": "vector", "fields": ["text"]},
            ),
            kind,
        )
        with pytest.raises(BrokenError):
            await failing("put", NS, "k", {"text": "fish"})
        working = Calls(MongoStore(client, database_name, index=words(fields=["text"])), kind)
        assert await working("search", NS, query="fish") == []
        await working("put", NS, "k", {"text": "fish"})
        assert scored(await working("search", NS, query="fish")) == [("k", 1.0)]
        late = Calls(
            MongoStore(
                client,
                database_name,
                index={"embed": broken, "dims": 3, "rank": "vector", "fields": ["text"]},
            ),
            kind,
        )
        with pytest.raises(IndexMismatchError):
            await late("put", NS, "l", {"text": "fish"})


def test_the_first_vectors_decide_and_not_the_first_call(
    mongo_client: MongoClient, database_name: str
) -> None:
    first = MongoStore(mongo_client, database_name, index=words(fields=["text"]))

    def overtaken(texts: Sequence[str]) -> list[list[float]]:
        first.put(NS, "k", {"text": "fish"})
        return [[1.0, 0.0, 0.0]] * len(texts)

    index: Any = {
        "embed": overtaken,
        "dims": 3,
        "rank": "vector",
        "fields": ["text"],
        "model": "slow",
    }
    slow = MongoStore(mongo_client, database_name, index=index)
    with pytest.raises(IndexMismatchError):
        slow.put(NS, "late", {"text": "bird"})
    assert [item.key for item in first.search(NS)] == ["k"]


@pytest.mark.parametrize("kind", KINDS)
async def test_another_configuration_is_refused_until_reindex(
    mongo_uri: str, database_name: str, kind: str
) -> None:
    puts = [PutOp(NS, f"k{n}", {"text": f"number{n}", "title": f"title{n}"}) for n in range(230)]
    async with client_of(kind, mongo_uri) as client:
        old = store_on(client, kind, database_name, index=words(fields=["text"]))
        await old(
            "batch",
            [*puts, PutOp(NS, "own", {"text": "mine and only mine", "title": "x"}, index=["text"])],
        )
        await old("batch", [PutOp(NS, "off", {"text": "mine", "title": "x"}, index=False)])
        embedder = CountingEmbedder(OTHER)
        index = {"embed": embedder, "dims": OTHER, "rank": "vector", "fields": ["title"]}
        new = store_on(client, kind, database_name, index=index)
        for name, arguments, options in (
            ("search", (NS,), {"query": "title7"}),
            ("put", (NS, "k", {}), {}),
        ):
            with pytest.raises(IndexMismatchError, match=r"reindex\(\)"):
                await new(name, *arguments, **options)
        assert len(await new("search", NS, limit=300)) == 232
        assert await new("reindex") == 232
        assert (
            len(embedder.texts) == 232 - 1 + 1
        )  # each title; of the own choice its text; of "off" nothing
        found = scored(await new("search", NS, query="title7", limit=300))
        assert found[0] == ("k7", 1.0)
        assert found[-1] == ("off", None)
        assert scored(await new("search", NS, query="mine and only mine", limit=1)) == [
            ("own", 1.0)
        ]
        assert await new("reindex") == 0
        restarted = store_on(client, kind, database_name, index=words(fields=["text"]))
        with pytest.raises(IndexMismatchError):
            await restarted("search", NS, query="number1")


def test_reindex_goes_on_where_it_was_cut_short_and_searches_go_on(
    mongo_uri: str, database_name: str
) -> None:
    with MongoClient(mongo_uri) as client:
        old = MongoStore(client, database_name, index=words(fields=["text"]))
        old.batch([PutOp(NS, f"k{n:03}", {"text": f"number{n}"}) for n in range(250)])
        embedder = CountingEmbedder(OTHER)
        new = MongoStore(
            client,
            database_name,
            index={"embed": embedder, "dims": OTHER, "rank": "vector", "fields": ["text"]},
        )
        whole = bag_of_words(OTHER)

        def fail_at_second(texts: Sequence[str]) -> list[list[float]]:
            if len(embedder.calls) > 1:
                raise RuntimeError("no more credit")
            return whole(texts)

        embedder._embed = fail_at_second  # type: ignore[assignment]
        with pytest.raises(RuntimeError):
            new.reindex()
        embedder._embed = whole
        found = scored(new.search(NS, query="number7", limit=300))
        assert found[0] == ("k007", 1.0)
        assert len(found) == 250
        assert sum(score is None for _, score in found) == 150
        assert new.reindex() == 150
        assert all(
            score is not None for _, score in scored(new.search(NS, query="number7", limit=300))
        )


def test_reindex_keeps_vectors_whose_text_and_model_are_the_same(
    mongo_uri: str, database_name: str
) -> None:
    embedder = CountingEmbedder()
    with MongoClient(mongo_uri) as client:
        index = {"embed": embedder, "dims": DIMS, "rank": "vector"}
        MongoStore(client, database_name, index={**index, "fields": ["text"]}).put(
            NS, "k", {"text": "a", "title": "b"}
        )
        again = MongoStore(client, database_name, index={**index, "fields": ["text", "title"]})
        assert again.reindex() == 1
        assert embedder.texts == ["a", "b"]


def test_vectors_are_stored_as_bson_vectors(mongo_uri: str, database_name: str) -> None:
    with MongoClient(mongo_uri) as client:
        MongoStore(client, database_name, index=words(fields=["text"])).put(
            NS, "k", {"text": "hello there"}
        )
        (document,) = client[database_name].mongomem_store_items.find()
        (entry,) = document["vectors"]
        assert entry["path"] == "text"
        assert entry["vector"].as_vector().data == decode_vectors([entry["vector"]])[0].tolist()
        assert document["value"] == {"text": "hello there"}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_integer_too_long_for_a_text_is_embedded(
    mongo_uri: str, database_name: str, kind: str
) -> None:
    embedder = CountingEmbedder()
    value = {"n": 10**5_000, "deep": {"n": -(10**5_000)}, "text": "tea"}
    async with store_of(
        kind, mongo_uri, database_name, index={"embed": embedder, "dims": DIMS, "rank": "vector"}
    ) as calls:
        await calls("put", NS, "whole", value)
        await calls("put", NS, "part", value, index=["n", "deep.n", "text"])
        assert (await calls("get", NS, "whole")).value == value
        assert hex(10**5_000) in embedder.texts[0]
        assert set(embedder.texts[1:]) == {hex(10**5_000), hex(-(10**5_000)), "tea"}
        assert scored(await calls("search", NS, query="tea", limit=1)) == [("part", 1.0)]


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_reindex_converts_all_but_what_cannot_be_and_names_it(
    mongo_uri: str, database_name: str, kind: str
) -> None:
    embedder = CountingEmbedder()
    async with client_of(kind, mongo_uri) as client:
        plain = store_on(client, kind, database_name)
        names = [f"k{n:03}" for n in range(230)]
        await plain("batch", [PutOp(NS, name, {"text": f"number {name}"}) for name in names])
        large = "x" * (16 * 2**20 - 1_300)
        await plain("put", NS, "k100large", {"text": "large", "rest": large})
        await plain("put", NS, "k150", {"text": "damaged", "exact": (1,)})
        with MongoClient(mongo_uri) as direct:
            direct[database_name].mongomem_store_items.update_one(
                {"key": "k150"}, {"$set": {"exact": b"no bson"}}
            )
        index = {"embed": embedder, "dims": DIMS, "rank": "vector", "fields": ["text"]}
        store = store_on(client, kind, database_name, index=index)
        for texts in (230, 231):  # of the large one once each time, of all others once
            with pytest.raises(ReindexError, match="k100large") as raised:
                await store("reindex")
            assert set(raised.value.items) == {(NS, "k100large"), (NS, "k150")}
            assert len(embedder.texts) == texts
        with MongoClient(mongo_uri) as direct:
            direct[database_name].mongomem_store_items.delete_one({"key": "k150"})
        found = scored(await store("search", NS, query="number k007", limit=300))
        assert [key for key, score in found if score is None] == ["k100large"]
        assert len(found) == 230
        await store("delete", NS, "k100large")
        assert await store("reindex") == 0


async def test_what_changes_beside_many_known_changes_is_found(
    store: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mongomem.store.vectors.index_cache.MANY_KNOWN", range(1, 100))
    ns = ("known",)
    await store("batch", [PutOp(ns, f"k{n}", {"text": f"fish number{n}"}) for n in range(12)])
    expected = {f"k{n}" for n in range(12)}
    for n in range(20):
        assert {*keys(await store("search", ns, query="fish", limit=50))} == expected
        await store("put", ns, f"k{n}", {"text": f"fish again{n}"})
        expected.add(f"k{n}")
        if n % 3 == 0:
            await store("delete", ns, f"k{n}")
            expected.remove(f"k{n}")
        (closest,) = await store("search", ns, query=f"fish again{n}", limit=1)
        assert (closest.key == f"k{n}") is (n % 3 != 0)
