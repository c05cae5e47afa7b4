"""How a store keeps to one configuration of its index: names of models, changes of them, reindexes
that break off.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import mongomock
import numpy as np
import pytest
from langgraph.store.base import PutOp
from pymongo import MongoClient
from pymongo.errors import AutoReconnect

from mongomem import MongoStore
from mongomem.engine.commands import Query
from mongomem.errors import IndexMismatchError, InvalidInputError, ReindexError
from mongomem.store.plans.model_check import check_model
from mongomem.store.plans.reindex import reindex
from mongomem.store.vectors.quantization import decode_vectors
from mongomem.testing import FailingRunner, MongomockDatabase, RecordingRunner
from support.bag_of_words import bag_of_words
from support.savers import KINDS, client_of
from support.stepping import Stepped
from support.stores import CountingEmbedder, keys, store_on, words

DIMS = 16
NS = ("users", "u1")
ITEMS = "mongomem_store_items"
SETTINGS = "mongomem_store_settings"

SHIFT = [0]
"""What no name of `shifting` tells: by how much its vectors are turned."""


def shifting(texts: Sequence[str]) -> list[list[float]]:
    """A function whose vectors depend on something outside of it, as those of a server do."""
    return [[*vector[SHIFT[0] :], *vector[: SHIFT[0]]] for vector in bag_of_words(DIMS)(texts)]


def named(texts: Sequence[str], model: str = "a") -> list[list[float]]:
    return bag_of_words(DIMS)(texts)


@dataclass
class Counted:
    """Shifting, and counts its texts."""

    calls: list[str] = field(default_factory=list)

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls += texts
        return shifting(texts)


@pytest.fixture(autouse=True)
def _unshifted() -> Iterator[None]:
    SHIFT[0] = 0
    yield
    SHIFT[0] = 0


@pytest.fixture(autouse=True)
def _look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stores that are in use learn of a change at once, and not within ten seconds."""
    monkeypatch.setattr("mongomem.store.context.CHECK_VALID_SECONDS", 0.0)


def index(embed: Any = shifting, **more: Any) -> Any:
    return {"embed": embed, "dims": DIMS, "rank": "vector", "fields": ["text"], **more}


def puts(number: int) -> list[PutOp]:
    return [PutOp(NS, f"k{n:02}", {"text": f"word{n} here"}) for n in range(number)]


def old_settings(model: str, fields: Sequence[str] = ("text",)) -> dict[str, Any]:
    """What releases before the second form of names kept of a configuration."""
    description = {"model": model, "dims": DIMS, "fields": list(fields), "metric": "cosine"}
    digest = hashlib.blake2b(
        json.dumps(description, sort_keys=True).encode(), digest_size=16
    ).hexdigest()
    return {"_id": "index", "fingerprint": digest, **description}


def settings_in(database: Any) -> dict[str, Any]:
    found: dict[str, Any] = database[SETTINGS].find_one({"_id": "index"})
    return found


# --- names of models in a store
# --------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("module", [__name__, "__main__"])
async def test_a_store_of_before_is_accepted_and_learns_the_new_name(
    mongo_uri: str, database_name: str, kind: str, module: str
) -> None:
    async with client_of(kind, mongo_uri) as client:
        before = old_settings(f"function:{module}.named")
        looked = (
            client[database_name] if kind == "mongomock" else MongoClient(mongo_uri)[database_name]
        )
        looked[SETTINGS].insert_one(dict(before))
        embedder = partial(named, model="b")
        assert (
            await store_on(client, kind, database_name, index=index(embedder))(
                "search", NS, query="word1"
            )
            == []
        )
        assert settings_in(looked) == before, "who reads writes nothing"
        store = store_on(client, kind, database_name, index=index(embedder))
        await store("batch", puts(3))
        after = settings_in(looked)
        assert after["model"] == "function:test_index_configuration.named(model=b)"
        assert (after["fingerprint"], after["known_as"], after["form"]) == (
            before["fingerprint"],
            before["model"],
            2,
        )
        assert {item["index"] for item in looked[ITEMS].find()} == {before["fingerprint"]}
        again = store_on(client, kind, database_name, index=index(embedder))
        assert keys(await again("search", NS, query="word1", limit=1)) == ["k01"]
        assert await again("reindex") == 0
        with pytest.raises(IndexMismatchError, match=r"named\(model=c\)"):
            await store_on(client, kind, database_name, index=index(partial(named, model="c")))(
                "search", NS, query="w"
            )
        if kind != "mongomock":
            looked.client.close()


def test_texts_of_before_keep_their_vectors() -> None:
    client = mongomock.MongoClient()
    database = client["db"]
    database[SETTINGS].insert_one(old_settings(f"function:{__name__}.named"))
    text = "word1 here"
    MongoStore(client, "db", index=index(named)).put(NS, "k", {"text": text})
    (entry,) = database[ITEMS].find_one()["vectors"]
    named_before = f"function:{__name__}.named\x00{DIMS}\x00{text}"
    assert entry["digest"] == hashlib.blake2b(named_before.encode(), digest_size=16).hexdigest()


def test_another_configuration_of_before_is_refused() -> None:
    client = mongomock.MongoClient()
    client["db"][SETTINGS].insert_one(old_settings(f"function:{__name__}.named", fields=["title"]))
    with pytest.raises(IndexMismatchError):
        MongoStore(client, "db", index=index(named)).put(NS, "k", {"text": "fish"})


def test_a_name_that_is_said_later_is_that_of_the_same_model() -> None:
    client = mongomock.MongoClient()
    counting = Counted()
    MongoStore(client, "db", index=index(named)).batch(puts(3))
    fingerprint = settings_in(client["db"])["fingerprint"]
    MongoStore(client, "db", index=index(named, model="mine")).setup()
    assert settings_in(client["db"])["model"] == "mine"
    assert settings_in(client["db"])["fingerprint"] == fingerprint
    store = MongoStore(client, "db", index=index(counting, model="mine"))
    assert store.reindex() == 0
    store.put(NS, "k01", {"text": "word1 here", "more": 1})
    assert counting.calls == ["word0 here"], (
        "compared with what is there; the text that was the same kept its vector"
    )
    with pytest.raises(IndexMismatchError, match="model 'mine'"):
        MongoStore(client, "db", index=index(named)).put(NS, "k", {"text": "fish"})
    with pytest.raises(IndexMismatchError, match="model 'yours'"):
        MongoStore(client, "db", index=index(named, model="yours")).put(NS, "k", {"text": "fish"})


def test_what_is_said_alone_tells_models_apart() -> None:
    client = mongomock.MongoClient()
    MongoStore(client, "db", index=index(lambda texts: shifting(texts), model="mine")).batch(
        puts(3)
    )
    assert MongoStore(client, "db", index=index(partial(named, model="z"), model="mine")).search(
        NS, query="word1"
    )
    for other in (
        {"model": "mine "},
        {"model": "mine", "dims": 17},
        {"model": "mine", "fields": ["$"]},
    ):
        with pytest.raises(IndexMismatchError):
            MongoStore(client, "db", index=index(**other)).setup()


@pytest.mark.parametrize(
    "damage", [{"model": 7}, {"known_as": [1]}, {"generation": "x"}, {"fingerprint": None}]
)
def test_damaged_settings_are_those_of_another_configuration(damage: Mapping[str, Any]) -> None:
    client = mongomock.MongoClient()
    MongoStore(client, "db", index=index()).batch(puts(3))
    client["db"][SETTINGS].update_one({}, {"$set": dict(damage)})
    store = MongoStore(client, "db", index=index())
    with pytest.raises(IndexMismatchError):
        store.search(NS, query="word1")
    store.reindex()
    assert keys(store.search(NS, query="word1", limit=1)) == ["k01"]


# --- another model under the same name
# -------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_another_model_under_the_same_name_is_noticed(
    mongo_uri: str, database_name: str, kind: str
) -> None:
    async with client_of(kind, mongo_uri) as client:
        await store_on(client, kind, database_name, index=index())("batch", puts(5))
        SHIFT[0] = 5
        changed = store_on(client, kind, database_name, index=index())
        for name, arguments, options in (
            ("put", (NS, "new", {"text": "new"}), {}),
            ("search", (NS,), {"query": "word1"}),
            ("reindex", (), {}),
        ):
            with pytest.raises(
                IndexMismatchError, match=r"in another way .* store\.reindex\(force=True\)"
            ):
                await changed(name, *arguments, **options)
        assert sorted(keys(await changed("search", NS))) == [f"k{n:02}" for n in range(5)]
        SHIFT[0] = 0
        assert keys(await changed("search", NS, query="word1", limit=1)) == ["k01"]
        SHIFT[0] = 5
        changed = store_on(client, kind, database_name, index=index())
        assert await changed("reindex", force=True) == 5
        await changed("put", NS, "new", {"text": "new"})
        restarted = store_on(client, kind, database_name, index=index())
        assert [
            item.score for item in await restarted("search", NS, query="word1 here", limit=1)
        ] == [pytest.approx(1)]
        SHIFT[0] = 0
        with pytest.raises(IndexMismatchError, match="force=True"):
            await store_on(client, kind, database_name, index=index())(
                "put", NS, "k", {"text": "fish"}
            )


def test_one_who_says_the_name_is_believed_and_warned(caplog: pytest.LogCaptureFixture) -> None:
    client = mongomock.MongoClient()
    MongoStore(client, "db", index=index(model="mine")).batch(puts(3))
    SHIFT[0] = 5
    store = MongoStore(client, "db", index=index(model="mine"))
    with caplog.at_level(logging.WARNING, "mongomem"):
        store.put(NS, "k", {"text": "fish"})
        store.put(NS, "l", {"text": "bird"})
    assert [record.name for record in caplog.records] == ["mongomem"]
    assert "reindex(force=True)" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", ["put", "search"])
async def test_a_store_that_forgot_its_index_says_so_once(
    mongo_uri: str, database_name: str, kind: str, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    calls = {"put": (NS, "k00", {"text": "fish"}), "search": (NS,)}
    more = {"query": "word1"} if call == "search" else {}
    async with client_of(kind, mongo_uri) as client:
        plain = store_on(client, kind, database_name)
        await plain(call, *calls[call], **more)  # nobody has an index yet
        await store_on(client, kind, database_name, index=index())("batch", puts(3))
        caplog.clear()
        forgetful = store_on(client, kind, database_name)
        await forgetful("put", NS, "apart", {"text": "fish"}, index=False)
        await forgetful("search", NS)
        await forgetful("delete", NS, "k02")
        assert caplog.records == []
        for _ in range(2):
            await forgetful(call, *calls[call], **more)
    (told,) = caplog.records
    assert (told.name, told.levelname) == ("mongomem", "WARNING")
    assert f"{ITEMS} is indexed with model " in told.message
    assert f"dims {DIMS}, fields ['text']" in told.message


def test_an_index_without_vectors_is_said_to_remove_those_that_are_there() -> None:
    client = mongomock.MongoClient()
    MongoStore(client, "db", index=index()).batch(puts(3))
    by_words = MongoStore(client, "db", index={"rank": "words", "fields": ["text"]})
    with pytest.raises(IndexMismatchError, match=r"store\.reindex\(\) to remove them\."):
        by_words.put(NS, "k", {"text": "fish"})


def test_comparing_costs_one_text_in_a_process() -> None:
    client = mongomock.MongoClient()
    MongoStore(client, "db", index=index(CountingEmbedder(DIMS))).batch(puts(30))
    counting = CountingEmbedder(DIMS)
    store = MongoStore(client, "db", index=index(counting))
    for n in range(3):
        store.put(NS, f"new{n}", {"text": f"new{n}"})
        store.search(NS, query="word1")
    assert counting.calls == [
        ["new0"],
        ["word0 here"],
        ["word1"],
        ["new1"],
        ["word1"],
        ["new2"],
        ["word1"],
    ]


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
def test_rounding_is_no_other_model(metric: str) -> None:
    client = mongomock.MongoClient()
    noise = np.random.default_rng(3)

    def rough(texts: Sequence[str]) -> Any:
        return np.array(bag_of_words(DIMS)(texts)) + noise.normal(0, 0.01, (len(texts), DIMS))

    for _ in range(5):
        MongoStore(client, "db", index=index(rough, model="rough", metric=metric)).batch(puts(2))
    assert (
        len(
            MongoStore(client, "db", index=index(rough, model="rough", metric=metric)).search(
                NS, query="word1"
            )
        )
        == 2
    )


def by_chance(texts: Sequence[str]) -> Any:
    """Vectors as those of LangChain's FakeEmbeddings are, which tests of applications use."""
    return np.random.default_rng().standard_normal((len(texts), DIMS))


def only_known(texts: Sequence[str]) -> Any:
    """An embedder that refuses a text that it gave a vector before."""
    if SHIFT[0] and "word0 here" in texts:
        raise KeyError("word0 here")
    return shifting(texts)


@pytest.mark.parametrize("embed", [by_chance, only_known])
def test_what_cannot_be_compared_is_accepted(embed: Any) -> None:
    client = mongomock.MongoClient()
    MongoStore(client, "db", index=index(embed)).batch(puts(1))
    SHIFT[0] = 3
    store = MongoStore(client, "db", index=index(embed))
    store.put(NS, "new", {"text": "new"})
    assert len(store.search(NS, query="new")) == 2


def test_damaged_and_unindexed_items_are_not_compared() -> None:
    client = mongomock.MongoClient()
    store = MongoStore(client, "db", index=index())
    store.batch([*puts(3), PutOp(NS, "a", {"text": "not"}, index=False)])
    for key, change in (
        ("k00", {"exact": b"no bson"}),
        ("k01", {"vectors": [{}]}),
        ("k02", {"value": {"text": "new"}}),
    ):
        client["db"][ITEMS].update_one({"key": key}, {"$set": change})
    SHIFT[0] = 5
    MongoStore(client, "db", index=index()).put(NS, "new", {"text": "new"})


def test_a_store_in_use_compares_again_after_all_was_made_anew() -> None:
    client = mongomock.MongoClient()
    stale = MongoStore(client, "db", index=index(shifting))
    stale.batch(puts(3))
    SHIFT[0] = 5
    MongoStore(client, "db", index=index(shifting)).reindex(force=True)
    SHIFT[0] = 0
    with pytest.raises(IndexMismatchError, match="force=True"):
        stale.put(NS, "new", {"text": "new"})


def test_large_items_are_not_read_to_compare() -> None:
    """Few of the first items are read."""
    client = mongomock.MongoClient()
    MongoStore(client, "db", index=index()).batch(puts(40))
    store = MongoStore(client, "db", index=index())
    database = MongomockDatabase(client["db"])
    runner = RecordingRunner(database)
    runner(check_model(store._context(), store._context().indexing))
    (read,) = [command for command in runner.commands if isinstance(command, Query)]
    assert 1 <= len(read.perform(database)) <= 3


# --- everything anew
# -------------------------------------------------------------------------------


def vectors_in(database: Any) -> dict[str, list[float]]:
    return {
        item["key"]: decode_vectors([item["vectors"][0]["vector"]])[0].tolist()
        for item in database[ITEMS].find({"vectors": {"$exists": True}})
    }


def made_now(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: pytest.approx(shifting([f"word{int(key[1:])} here"])[0]) for key in keys}


@pytest.fixture
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mongomem.store.plans.reindex.PAGE_SIZE", 4)


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("performed", [False, True, 1])
@pytest.mark.parametrize("again", [{"force": True}, {}])
def test_a_forced_reindex_that_breaks_off_anywhere_goes_on(
    performed: Any, again: Mapping[str, Any]
) -> None:
    for at in count():
        SHIFT[0] = 0
        client = mongomock.MongoClient()
        database = MongomockDatabase(client["db"])
        MongoStore(client, "db", index=index(Counted())).batch(puts(10))
        SHIFT[0] = 5
        runner = FailingRunner(database, at, performed)
        with suppress(AutoReconnect):
            runner(reindex(MongoStore(client, "db", index=index(Counted()))._context(), force=True))
        claimed = settings_in(client["db"]).get("forced", False)
        done = sum(item.get("generation", 0) for item in client["db"][ITEMS].find())
        assert claimed or not done or runner.count <= at + 1
        if runner.count <= at:
            assert at > 15
            assert vectors_in(client["db"]) == made_now(vectors_in(client["db"]))
            return
        counted = Counted()
        store = MongoStore(client, "db", index=index(counted))
        if again or claimed:
            assert store.reindex(**again) == (10 - done if claimed else 10)
            assert len(counted.calls) <= 10 + 1
            assert vectors_in(client["db"]) == made_now(vectors_in(client["db"]))
            assert "forced" not in settings_in(client["db"])


def test_each_forced_reindex_makes_all_anew() -> None:
    client = mongomock.MongoClient()
    counted = Counted()
    store = MongoStore(client, "db", index=index(counted))
    store.batch(puts(3))
    for generation in (1, 2, 3):
        counted.calls.clear()
        assert store.reindex(force=True) == 3
        assert len(counted.calls) == 3
        assert settings_in(client["db"])["generation"] == generation
        assert store.reindex() == 0
    assert {item["generation"] for item in client["db"][ITEMS].find()} == {3}
    store.put(NS, "k00", {"text": "word0 here", "n": 1})
    assert len(counted.calls) == 3, "a text that is the same keeps its vector"
    store.put(NS, "k00", {"text": "word0 here"}, index=False)
    assert store.reindex() == 0


def test_an_empty_store_can_be_forced() -> None:
    client = mongomock.MongoClient()
    store = MongoStore(client, "db", index=index())
    assert store.reindex(force=True) == 0
    store.batch(puts(2))
    assert store.reindex() == 0
    assert store.reindex(force=True) == 2


@pytest.mark.parametrize("force", [1, "yes", None, []])
def test_force_is_a_flag(force: Any) -> None:
    with pytest.raises(InvalidInputError, match="force must be True or False"):
        MongoStore(mongomock.MongoClient(), index=index()).reindex(force)


@pytest.mark.usefixtures("_small_pages")
def test_writers_meanwhile_are_scored_and_carry_nothing_old_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store in use learns of a forced reindex within ten seconds; what it writes until then
    counts as before.
    """
    client = mongomock.MongoClient()
    database = MongomockDatabase(client["db"])
    monkeypatch.setattr("mongomem.store.context.CHECK_VALID_SECONDS", 1_000.0)
    unaware = MongoStore(client, "db", index=index())
    unaware.batch(puts(10))
    SHIFT[0] = 5
    conversion = Stepped(
        reindex(MongoStore(client, "db", index=index())._context(), force=True), database
    )
    while "generation" not in settings_in(client["db"]):
        conversion.perform(1)
    unaware.put(NS, "k09", {"text": "word9 here", "n": 1})
    unaware.put(NS, "k10", {"text": "word10 here"})
    assert all(item.score is not None for item in unaware.search(NS, query="word9 here", limit=20))
    monkeypatch.setattr("mongomem.store.context.CHECK_VALID_SECONDS", 0.0)
    unaware.put(NS, "k08", {"text": "word8 here", "n": 1})
    conversion.perform()
    assert vectors_in(client["db"]) == made_now(vectors_in(client["db"]))
    assert len(vectors_in(client["db"])) == 11
    assert all(item.score is not None for item in unaware.search(NS, query="word9 here", limit=20))


# --- a change of the configuration
# -----------------------------------------------------------------


class DownError(Exception):
    """The embedding server does not answer."""


def down(texts: Sequence[str]) -> Any:
    raise DownError


@pytest.mark.parametrize("kind", KINDS)
async def test_a_reindex_whose_embedder_is_down_changes_nothing(
    mongo_uri: str, database_name: str, kind: str
) -> None:
    async with client_of(kind, mongo_uri) as client:
        old = store_on(client, kind, database_name, index=words(DIMS, fields=["text"]))
        await old("batch", puts(5))
        new = store_on(client, kind, database_name, index=index(down, dims=8))
        for _ in range(2):
            with pytest.raises(DownError):
                await new("reindex")
        for store in (
            old,
            store_on(client, kind, database_name, index=words(DIMS, fields=["text"])),
        ):
            assert [
                item.score is not None for item in await store("search", NS, query="word1")
            ] == [True] * 5
            await store("put", NS, "k01", {"text": "word1 here"})
        with pytest.raises(IndexMismatchError):
            await new("put", NS, "k", {"text": "fish"})
        working = store_on(client, kind, database_name, index=words(8, fields=["text"]))
        assert await working("reindex") == 5
        with pytest.raises(IndexMismatchError):
            await old("put", NS, "k", {"text": "fish"})
        with pytest.raises(IndexMismatchError):
            await old("search", NS, query="word1")
        assert keys(await working("search", NS, query="word1", limit=1)) == ["k01"]


def test_what_has_nothing_to_embed_changes_the_configuration_too() -> None:
    for ops in (
        [],
        [PutOp(NS, "off", {"text": "off"}, index=False)],
        [PutOp(NS, "none", {"n": 1})],
    ):
        client = mongomock.MongoClient()
        old = MongoStore(client, "db", index=words(DIMS, fields=["text"]))
        old.batch([*puts(1), *ops])
        old.delete(NS, "k00")
        new = MongoStore(client, "db", index=index(down))
        assert new.reindex() == len(ops)
        assert new.search(NS, limit=5) == old.search(NS, limit=5)
        with pytest.raises(IndexMismatchError):
            old.put(NS, "k", {"text": "fish"})


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("performed", [False, True, 1])
def test_a_reindex_that_breaks_off_anywhere_leaves_one_configuration_in_use(performed: Any) -> None:
    outcomes = set()
    for at in count():
        client = mongomock.MongoClient()
        old = MongoStore(client, "db", index=words(DIMS, fields=["text"]))
        old.batch(puts(10))
        new = MongoStore(client, "db", index=index(Counted(), model="new"))
        runner = FailingRunner(MongomockDatabase(client["db"]), at, performed)
        with suppress(AutoReconnect):
            runner(reindex(new._context()))
        is_new = settings_in(client["db"])["model"] == "new"
        done = sum(
            item["index"] == new._context().configured.fingerprint
            for item in client["db"][ITEMS].find()
        )
        outcomes.add((is_new, done))
        if not is_new:
            assert done == 0
            assert all(item.score is not None for item in old.search(NS, query="word1"))
        else:
            scores = [item.score for item in new.search(NS, query="word1", limit=20)]
            assert (len(scores), sum(score is not None for score in scores)) == (10, done)
        assert MongoStore(client, "db", index=index(Counted(), model="new")).reindex() == 10 - done
        if runner.count <= at:
            break
    assert {(False, 0), (True, 0), (True, 4), (True, 8), (True, 10)} <= outcomes


DAMAGES: dict[str, dict[str, Any]] = {
    "no key": {"$unset": {"key": ""}},
    "no namespace": {"$unset": {"namespace": ""}},
    "another namespace": {"$set": {"namespace": ["users", "u2"]}},
    "another path": {"$set": {"path": 7}},
    "no value": {"$unset": {"value": ""}},
    "a value that is none": {"$set": {"value": "text"}},
    "exact bytes that are none": {"$set": {"exact": b"no bson"}},
    "a choice that is none": {"$set": {"index_fields": {"text": 1}}},
    "a choice of one": {"$set": {"index_fields": "text"}},
    "a choice of numbers": {"$set": {"index_fields": [1]}},
    "from the future": {"$set": {"schema_version": 99}},
}


@pytest.mark.parametrize("kind", ["blocking", "mongomock"])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_damaged_items_are_named_and_the_others_converted(
    mongo_client: MongoClient, mongo_uri: str, database_name: str, kind: str, damage: str
) -> None:
    async with client_of(kind, mongo_uri) as client:
        items = (client if kind == "mongomock" else mongo_client)[database_name][ITEMS]
        await store_on(client, kind, database_name, index=words(DIMS, fields=["text"]))(
            "batch", puts(6)
        )
        items.update_one({"key": "k02"}, DAMAGES[damage])
        items.insert_one({"_id": 7, "foreign": True})
        items.update_one({"key": "k03"}, {"$unset": {"changed_at": "", "vectors": ""}})
        items.update_one({"key": "k04"}, {"$set": {"vectors": [{"digest": 1}], "generation": "x"}})
        new = store_on(client, kind, database_name, index=index())
        for again in range(2):
            with pytest.raises(ReindexError) as raised:
                await new("reindex")
            assert list(raised.value.items) == [(NS, "k02")], again
        scores = {item.key: item.score for item in await new("search", NS, query="word3", limit=20)}
        assert all(scores[f"k{n:02}"] is not None for n in (0, 1, 3, 4, 5))
        assert items.find_one({"_id": 7}) == {"_id": 7, "foreign": True}


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("configured", [True, False], ids=["configured", "without an index before"])
def test_of_two_reindexes_to_different_configurations_one_goes_on(
    mongo_client: MongoClient, database_name: str, force: bool, configured: bool
) -> None:
    """Whatever the first has done when the second runs; what the winner makes nobody undoes.

    The first begins after the second only where it has not looked at the settings yet.
    """
    winners: list[str] = []
    database = mongo_client[database_name]
    for place in count():
        for name in (ITEMS, SETTINGS):
            database[name].delete_many({})
        before: Any = {"index": words(DIMS, fields=["text"])} if configured else {}
        MongoStore(mongo_client, database_name, **before).batch(puts(10))
        stores = {
            model: MongoStore(mongo_client, database_name, index=index(model=model))
            for model in ("one", "two")
        }
        begun = Stepped(reindex(stores["one"]._context(), force), database)
        begun.perform(place)
        if begun.ended:
            break
        Stepped(reindex(stores["two"]._context(), force), database).perform()
        with suppress(IndexMismatchError):
            begun.perform()
        winners.append(settings_in(database)["model"])
        assert not begun.ended or winners[-1] == "one" or place >= begun.commands - 1, (
            "it had ended before"
        )
        winner = stores[winners[-1]]
        assert winner.reindex() == 0
        assert all(item.score is not None for item in winner.search(NS, query="word1", limit=20))
    assert winners == sorted(winners)
    assert winners.count("two") > 10


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("force", [False, True])
def test_two_reindexes_to_the_same_configuration_end_together(
    mongo_client: MongoClient, database_name: str, force: bool
) -> None:
    for place in count():
        database = mongo_client[database_name]
        for name in (ITEMS, SETTINGS):
            database[name].delete_many({})
        MongoStore(mongo_client, database_name, index=words(DIMS, fields=["text"])).batch(puts(10))
        first, second = (MongoStore(mongo_client, database_name, index=index()) for _ in range(2))
        begun = Stepped(reindex(first._context(), force), database)
        begun.perform(place)
        if begun.ended:
            return
        Stepped(reindex(second._context(), force), database).perform()
        begun.perform()
        assert {item["index"] for item in database[ITEMS].find()} == {
            settings_in(database)["fingerprint"]
        }
        assert vectors_in(database) == made_now(vectors_in(database))
        assert first.reindex() == second.reindex() == 0
