"""Search by meaning and words: what is ranked how, against a plain computation of both parts."""

from __future__ import annotations

import copy
import math
import pickle
import random
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import PutOp
from pymongo import MongoClient, monitoring

from mongomem import MongoStore
from mongomem.errors import ConfigurationError, IndexMismatchError, InvalidInputError
from mongomem.store.documents.stored_item import ExplainedItem
from mongomem.store.words.analysis import analyser_for
from mongomem.store.words.bm25 import K1, B
from mongomem.store.words.query import Phrase
from support.bag_of_words import bag_of_words
from support.savers import KINDS, client_of
from support.stores import DIMS, keys, store_of, store_on, words

NS = ("users", "u1")
HYBRID: dict[str, Any] = words(rank="hybrid", fields=["text"])
WORDS: dict[str, Any] = {"rank": "words", "fields": ["text"]}
ANALYSER = analyser_for("english")
VOCABULARY = ["red", "green", "blue", "bird", "fish", "whale", "river", "city", "tea", "the", "of"]


def terms_of(text: str) -> list[str]:
    return [word.term for word in ANALYSER.words(text)]


def shares(texts: Mapping[str, str], query: str) -> dict[str, float]:
    """Compute by the formula what share of a query the words of each text reach."""
    terms = {key: terms_of(text) for key, text in texts.items()}
    wanted = list(dict.fromkeys(terms_of(query)))
    count = {term: sum(term in own for own in terms.values()) for term in wanted}
    weight = {term: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for term, n in count.items()}
    average = max(1.0, sum(map(len, terms.values())) / len(texts))

    def share(own: list[str]) -> float:
        counts, normal = Counter(own), K1 * (1 - B + B * len(own) / average)
        reached = sum(
            weight[term] * counts[term] * (K1 + 1) / (counts[term] + normal) for term in wanted
        )
        return min(1.0, reached / sum(weight.values())) if wanted else 0.0

    return {key: share(own) for key, own in terms.items()}


def cosines(texts: Mapping[str, str], query: str) -> dict[str, float]:
    rows = np.array(bag_of_words(DIMS)([query, *texts.values()]))
    return dict(zip(texts, (rows[1:] @ rows[0]).tolist(), strict=True))


def plain_ranking(texts: Mapping[str, str], query: str) -> list[tuple[str, float]]:
    """Score every item by both parts, and sort all of them."""
    meaning, reached = cosines(texts, query), shares(texts, query)
    scores = {key: (max(0.0, meaning[key]) + reached[key]) / 2 for key in texts}
    return sorted(scores.items(), key=lambda pair: (-round(pair[1], 6), pair[0]))


def scored(items: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(item.key, item.score) for item in items]


def texts_at_random(source: random.Random, count: int) -> dict[str, str]:
    return {
        f"k{number:03}": " ".join(source.choices(VOCABULARY, k=source.randrange(1, 9)))
        for number in range(count)
    }


@pytest.mark.parametrize("kind", KINDS)
async def test_pages_are_those_of_a_plain_computation(
    kind: str, mongo_uri: str, database_name: str
) -> None:
    source = random.Random(kind)
    texts = texts_at_random(source, 120)
    async with store_of(kind, mongo_uri, database_name, index=HYBRID) as store:
        await store("batch", [PutOp(NS, key, {"text": text}) for key, text in texts.items()])
        for _ in range(6):
            query = " ".join(source.choices(VOCABULARY, k=source.randrange(1, 6)))
            expected = plain_ranking(texts, query)
            found: list[tuple[str, Any]] = []
            for offset in range(0, 140, 35):
                page = await store("search", NS, query=query, limit=35, offset=offset)
                found += scored(page)
            assert dict(found) == pytest.approx(dict(expected), abs=1e-5)
            assert [score for _, score in found] == pytest.approx(
                [score for _, score in expected], abs=1e-5
            )


def test_the_first_ten_are_those_of_all_after_writes_of_others(
    mongo_client: MongoClient, database_name: str
) -> None:
    source = random.Random(7)
    store, other = (MongoStore(mongo_client, database_name, index=HYBRID) for _ in range(2))
    texts = texts_at_random(source, 300)
    store.batch([PutOp(NS, key, {"text": text}) for key, text in texts.items()])
    for turn in range(5):
        changed = dict(
            zip(source.sample([*texts], 40), texts_at_random(source, 40).values(), strict=True)
        )
        gone = source.sample([*(texts.keys() - changed.keys())], 20)
        texts = {key: text for key, text in {**texts, **changed}.items() if key not in gone}
        puts = [PutOp(NS, key, {"text": text}) for key, text in changed.items()]
        other.batch(puts + [PutOp(NS, key, None) for key in gone])
        query = " ".join(source.choices(VOCABULARY, k=3))
        store.search(NS, query=query, limit=300)  # meets the items that are gone
        found = store.search(NS, query=query, limit=10)
        expected = plain_ranking(texts, query)[:10]
        assert [item.score for item in found] == pytest.approx(
            [score for _, score in expected], abs=1e-5
        ), turn


def test_a_prefix_too_large_for_memory_is_ranked_alike(
    mongo_client: MongoClient, database_name: str
) -> None:
    texts = texts_at_random(random.Random(3), 80)
    held = MongoStore(mongo_client, database_name, index=HYBRID)
    scanned = MongoStore(mongo_client, database_name, index=HYBRID, index_cache_bytes=1)
    held.batch([PutOp(NS, key, {"text": text}) for key, text in texts.items()])
    for query in ("red bird", 'coffee "green fish"', "whale", "the of"):
        assert scored(scanned.search(NS, query=query)) == scored(held.search(NS, query=query))


@pytest.mark.parametrize("kind", KINDS)
async def test_words_alone_need_no_embedder(kind: str, mongo_uri: str, database_name: str) -> None:
    texts = texts_at_random(random.Random(5), 60)
    async with store_of(kind, mongo_uri, database_name, index=WORDS) as store:
        await store("batch", [PutOp(NS, key, {"text": text}) for key, text in texts.items()])
        await store("put", NS, "blank", {"n": 1})
        reached = shares(texts, "green whale")
        expected = {key: share for key, share in reached.items() if share}
        found = await store("search", NS, query="green whale", limit=100)
        with_score = {item.key: item.score for item in found if item.score is not None}
        assert with_score == pytest.approx(expected, abs=1e-5)
        assert {item.key for item in found} == {*texts, "blank"}
        assert [item.score for item in found[: len(expected)]] == sorted(
            with_score.values(), reverse=True
        )
        with pytest.raises(ConfigurationError, match="without an embedder"):
            await store("get_vectors", NS)
        assert await store("reindex") == 0


def test_words_alone_read_the_items_with_a_word_of_the_query_only(
    mongo_uri: str, database_name: str
) -> None:
    heard = CommandListener()
    with MongoClient(mongo_uri, event_listeners=[heard]) as client:
        store = MongoStore(client, database_name, index=WORDS)
        texts = {f"k{number:03}": "red bird" for number in range(600)} | {"one": "blue whale"}
        store.batch([PutOp(NS, key, {"text": text}) for key, text in texts.items()])
        for query, best in (("whale", "one"), ("coffee", None), ("the", None)):
            heard.read = 0
            found = store.search(NS, query=query, limit=5, min_score=1e-6)
            assert keys(found) == [best] * bool(best)
            assert heard.read == len(found)


class CommandListener(monitoring.CommandListener):
    """Counts the items that come with a value."""

    read = 0

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Wait for the reply."""

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        documents = event.reply.get("cursor", {}).get("firstBatch", ())
        self.read += sum("value" in document for document in documents)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Leave the error to the caller."""


@pytest.mark.parametrize("index", [HYBRID, WORDS], ids=["hybrid", "words"])
def test_a_phrase_of_stop_words_finds_what_has_it(
    mongo_client: MongoClient, database_name: str, index: Any
) -> None:
    texts = {"band": "We heard The Who in Leeds", "other": "the bird who sang", "none": "fish"}
    store = MongoStore(mongo_client, database_name, index=index)
    store.batch([PutOp(NS, key, {"text": text}) for key, text in texts.items()])
    for query in ('"the who"', '"The Who" coffee'):
        assert keys(store.search(NS, query=query)) == ["band"]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))])
def test_an_explained_item_is_copied_and_stored_with_both_parts(
    mongo_client: MongoClient, database_name: str, copied: Any
) -> None:
    store = MongoStore(mongo_client, database_name, index=HYBRID)
    store.put(NS, "a", {"text": "red bird"})
    (found,) = store.search(NS, query="red", explain=True)
    serializer = JsonPlusSerializer(
        allowed_msgpack_modules=[(ExplainedItem.__module__, ExplainedItem.__name__)]
    )
    stored = serializer.loads_typed(serializer.dumps_typed([found]))[0]
    assert "words=1.0" in repr(found)
    for one in (copied(found), stored):
        assert type(one) is ExplainedItem
        assert one.dict() == found.dict()


def test_a_score_is_explained_on_request(mongo_client: MongoClient, database_name: str) -> None:
    store = MongoStore(mongo_client, database_name, index=HYBRID)
    texts = {"a": "red bird", "b": "green bird", "c": "blue fish"}
    store.batch([PutOp(NS, key, {"text": text}) for key, text in texts.items()])
    store.put(NS, "none", {"n": 1})
    found = store.search(NS, query="red bird", explain=True)
    assert all(type(item) is ExplainedItem for item in found)
    parts = {item.key: (item.meaning, item.words) for item in found}  # type: ignore[attr-defined]
    assert parts.pop("none") == (None, None)
    assert {key: meaning for key, (meaning, _) in parts.items()} == pytest.approx(
        cosines(texts, "red bird"), abs=1e-6
    )
    assert {key: share for key, (_, share) in parts.items()} == pytest.approx(
        shares(texts, "red bird"), abs=1e-6
    )
    assert type(store.search(NS, query="red bird")[0]) is not ExplainedItem
    by_meaning = MongoStore(mongo_client, database_name, index={**HYBRID, "rank": "vector"})
    first = by_meaning.search(NS, query="red bird", explain=True, limit=1)[0]
    assert (first.score, first.words) == (pytest.approx(1.0), None)  # type: ignore[attr-defined]
    plain = MongoStore(mongo_client, database_name).search(NS, explain=True, limit=1)
    assert plain[0].score is None
    with pytest.raises(InvalidInputError, match="explain"):
        store.search(NS, query="red", explain=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_phrase_must_stand_in_a_text(kind: str, mongo_uri: str, database_name: str) -> None:
    async with store_of(kind, mongo_uri, database_name, index=HYBRID) as store:
        texts = {f"far{n}": f"hot tea and white chocolate {n}" for n in range(50)}
        texts |= {"near": "We had hot chocolate.", "also": "HOT  Chocolate!", "no": "hot"}
        await store("batch", [PutOp(NS, key, {"text": text}) for key, text in texts.items()])
        await store("put", NS, "blank", {"n": 1})
        found = await store("search", NS, query='white "hot chocolate"', limit=40)
        assert {*keys(found)} == {"near", "also"}
        assert await store("search", NS, query='"cold chocolate"') == []
        assert len(await store("search", NS, query='hot chocolate"', limit=5)) == 5
        said = await store("search", NS, query='Ada: "Was there hot chocolate?"', limit=5)
        assert len(said) == 5
        filtered = await store(
            "search", NS, query='"hot chocolate"', filter={"text": "HOT  Chocolate!"}
        )
        assert keys(filtered) == ["also"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", ["hybrid", "words"])
async def test_words_and_phrases_of_a_whole_item_are_those_of_its_texts(
    kind: str, mongo_uri: str, database_name: str, rank: str
) -> None:
    """Without `fields` what is embedded is JSON, in which a line break is an escape."""
    index = {"rank": "words"} if rank == "words" else words(rank="hybrid")
    async with store_of(kind, mongo_uri, database_name, index=index) as store:
        list_of_lines = {"text": 'Shopping:\nmilk\teggs "fresh"', "path": "C:\\new\\table"}
        await store("put", NS, "list", {"notes": list_of_lines})
        await store("put", NS, "other", {"notes": {"text": "a bridge"}})
        for query in ('"milk"', '"shopping: milk eggs"', '"new"', '"table"', "eggs", "fresh"):
            found = await store("search", NS, query=query, limit=1, explain=True)
            assert [(item.key, item.words > 0.5) for item in found] == [("list", True)], query
        for query in ('"nmilk"', '"teggs"'):
            assert await store("search", NS, query=query) == []


@pytest.mark.parametrize("index", [HYBRID, WORDS], ids=["hybrid", "words"])
@pytest.mark.parametrize(
    "query",
    [
        *("what is the", "🐦", '"', '"unbalanced', '""', "\x00", "\ud800", "?!", "é" * 300),
        "word " * 200_000,
        "x" * 1_000_000,
        '"{}" bird'.format("e\u0301\u0316" * 60),
        '"red{}"'.format("\u0301\u0316" * 500_000),
        " ".join(f'"w{number}"' for number in range(50_000)),
    ],
    ids=range(14),
)
def test_any_query_gets_an_answer(
    mongo_client: MongoClient, database_name: str, index: Any, query: str
) -> None:
    store = MongoStore(mongo_client, database_name, index=index)
    texts = ["red bird", "🐦", "", "?!", "und die Katze", "我喜欢喝咖啡", "\u0301"]
    store.batch([PutOp(NS, f"k{n}", {"text": text}) for n, text in enumerate(texts)])
    is_phrase = query.startswith(('"e', '"w'))  # longer ones and unbalanced ones are none
    if "\ud800" in query:
        with pytest.raises(InvalidInputError):
            store.search(NS, query=query)
    else:
        found = {*keys(store.search(NS, query=query))}
        assert found == (set() if is_phrase else {f"k{n}" for n in range(len(texts))})


async def test_a_phrase_is_looked_for_off_the_event_loop(
    mongo_uri: str, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_in, threads = Phrase.is_in, list[threading.Thread]()

    def noted(phrase: Phrase, folded: str) -> bool:
        threads.append(threading.current_thread())
        return is_in(phrase, folded)

    monkeypatch.setattr(Phrase, "is_in", noted)
    async with store_of("awaiting", mongo_uri, database_name, index=WORDS) as store:
        await store("put", NS, "a", {"text": "the red bird"})
        assert keys(await store("search", NS, query='"red bird"')) == ["a"]
    assert threads
    assert threading.current_thread() not in threads


def test_a_phrase_is_found_in_a_text_of_a_million_marks(
    mongo_client: MongoClient, database_name: str
) -> None:
    """NFKC takes a time quadratic in the marks of one character: a quarter of an hour for these."""
    store = MongoStore(mongo_client, database_name, index=WORDS)
    store.put(NS, "marks", {"text": "a" + "\u0301\u0316" * 500_000 + " the end"})
    store.put(NS, "other", {"text": "an end"})
    assert keys(store.search(NS, query='"the"')) == ["marks"]


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ({**HYBRID, "rank": "best"}, "rank must be one of"),
        ({**HYBRID, "rank": 1}, "rank must be one of"),
        ({**HYBRID, "metric": "dot"}, 'must be "cosine"'),
        ({**HYBRID, "language": "klingon"}, "klingon"),
        ({**HYBRID, "language": 7}, "language"),
        ({**HYBRID, "rank": "vector", "language": "english"}, "no language"),
        ({**WORDS, "embed": "local"}, "no vectors"),
        ({**WORDS, "dims": 256}, "no vectors"),
        ({"fields": ["text"]}, "embed"),
    ],
)
def test_what_contradicts_itself_is_refused(
    mongo_client: MongoClient, database_name: str, index: Any, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        MongoStore(mongo_client, database_name, index=index)


def test_items_of_a_store_without_terms_rank_by_meaning_until_they_are_converted(
    mongo_client: MongoClient, database_name: str
) -> None:
    texts = {"a": "red bird", "b": "green bird", "c": "blue fish"}
    before = MongoStore(mongo_client, database_name, index={**HYBRID, "rank": "vector"})
    before.batch([PutOp(NS, key, {"text": text}) for key, text in texts.items()])
    store = MongoStore(mongo_client, database_name, index=HYBRID)
    halves = {key: value / 2 for key, value in cosines(texts, "red bird").items()}
    assert dict(scored(store.search(NS, query="red bird"))) == pytest.approx(halves, abs=1e-6)
    assert {*keys(store.search(NS, query='"red bird"'))} == {"a"}
    assert store.reindex() == 3
    assert store.reindex() == 0
    expected = dict(plain_ranking(texts, "red bird"))
    for one in (store, MongoStore(mongo_client, database_name, index=HYBRID)):
        assert dict(scored(one.search(NS, query="red bird"))) == pytest.approx(expected, abs=1e-5)
    before.put(NS, "b", {"text": "red whale"})
    after = dict(scored(store.search(NS, query="red bird")))
    assert after["b"] == pytest.approx(cosines({"b": "red whale"}, "red bird")["b"] / 2)


def test_terms_of_another_text_do_not_count(mongo_client: MongoClient, database_name: str) -> None:
    store = MongoStore(mongo_client, database_name, index=HYBRID)
    store.put(NS, "a", {"text": "red bird"})
    items = mongo_client[database_name]["mongomem_store_items"]
    kept = items.find_one({"key": "a"})["terms"]
    store.put(NS, "a", {"text": "green fish"})
    items.update_one({"key": "a"}, {"$set": {"terms": kept}})
    fresh = MongoStore(mongo_client, database_name, index=HYBRID)
    for one in (store, fresh):
        assert scored(one.search(NS, query="red bird")) == [("a", 0.0)]
    assert (store.reindex(), store.reindex()) == (1, 0)
    assert scored(store.search(NS, query="green fish")) == [("a", pytest.approx(1.0))]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_reindex_finds_terms_that_do_not_count(
    kind: str, mongo_uri: str, database_name: str
) -> None:
    embedder = bag_of_words(DIMS)
    async with client_of(kind, mongo_uri) as client:
        store = store_on(client, kind, database_name, index={**HYBRID, "embed": embedder})
        german = {**HYBRID, "embed": embedder, "language": "german"}
        other = store_on(client, kind, database_name, index=german)
        await store("put", NS, "a", {"text": "die Häuser am Fluss"})
        assert await other("reindex") == 1
        # This store has compared its configuration less than ten seconds ago.
        await store("put", NS, "b", {"text": "die Häuser am Berg"})
        assert await other("reindex") == 1
        assert await other("reindex") == 0
        found = await other("search", NS, query="Haus", explain=True)
        assert [item.words > 0.5 for item in found] == [True, True]


@pytest.mark.parametrize("kind", KINDS)
async def test_another_language_needs_a_reindex(
    kind: str, mongo_uri: str, database_name: str
) -> None:
    embedder = bag_of_words(DIMS)
    german = {**HYBRID, "embed": embedder, "language": "german"}
    async with client_of(kind, mongo_uri) as client:
        store = store_on(client, kind, database_name, index=HYBRID)
        await store("put", NS, "a", {"text": "die Häuser am Fluss"})
        other = store_on(client, kind, database_name, index=german)
        with pytest.raises(IndexMismatchError, match="analyser"):
            await other("search", NS, query="Haus")
        assert await other("reindex") == 1
        found = await other("search", NS, query="Haus", explain=True)
        assert found[0].words > 0.5
        assert found[0].meaning == pytest.approx(0, abs=0.2)


def test_rare_words_of_a_query_lead_with_the_local_model(
    mongo_client: MongoClient, database_name: str
) -> None:
    store = MongoStore(mongo_client, database_name, index={"embed": "local", "fields": ["text"]})
    texts = {f"k{n}": f"Ada told me about day {n} of her holiday" for n in range(30)}
    texts["kayak"] = "Bob bought a kayak"
    store.batch([PutOp(NS, key, {"text": text}) for key, text in texts.items()])
    query = "what did Ada tell me about kayaks on her holiday"
    by_meaning = MongoStore(
        mongo_client, database_name, index={"embed": "local", "fields": ["text"], "rank": "vector"}
    )

    def place(one: MongoStore, key: str) -> float:
        found = one.search(NS, query=query, limit=40, explain=True)
        return next(item.meaning for item in found if item.key == key)  # type: ignore[attr-defined]

    assert place(store, "kayak") > place(by_meaning, "kayak")
    assert place(store, "k3") < place(by_meaning, "k3")


def test_min_score_and_filters_keep_their_meaning(
    mongo_client: MongoClient, database_name: str
) -> None:
    texts = texts_at_random(random.Random(11), 60)
    store = MongoStore(mongo_client, database_name, index=HYBRID)
    values = {
        key: {"text": text, "even": n % 2 == 0} for n, (key, text) in enumerate(texts.items())
    }
    store.batch([PutOp(NS, key, value) for key, value in values.items()])
    expected = dict(plain_ranking(texts, "red whale"))
    lowest = sorted(expected.values())[-8] - 1e-4
    found = store.search(NS, query="red whale", min_score=lowest, limit=60)
    assert {*keys(found)} == {key for key, score in expected.items() if score >= lowest}
    even = store.search(NS, query="red whale", filter={"even": True}, limit=60)
    assert dict(scored(even)) == pytest.approx(
        {key: score for key, score in expected.items() if values[key]["even"]}, abs=1e-5
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_store_deletes_counts_no_more(
    kind: str, mongo_uri: str, database_name: str
) -> None:
    texts = {f"river{n}": "river" for n in range(20)} | {"both": "river bird", "bird": "bird"}
    async with store_of(kind, mongo_uri, database_name, index=HYBRID) as store:
        await store("batch", [PutOp(NS, key, {"text": text}) for key, text in texts.items()])
        for prefix in (NS, NS[:1], ()):
            assert await store("search", prefix, query="river bird", limit=3)
        gone = [key for key in texts if key.startswith("river")]
        await store("batch", [PutOp(NS, key, None) for key in gone[:-1]])
        await store("delete", NS, gone[-1])
        left = {key: text for key, text in texts.items() if key not in gone}
        expected = pytest.approx(dict(plain_ranking(left, "river bird")), abs=1e-5)
        for prefix in (NS, NS[:1], ()):
            assert dict(scored(await store("search", prefix, query="river bird"))) == expected
        await store("put", NS, gone[0], {"text": "river"})
        left |= {gone[0]: "river"}
        expected = pytest.approx(dict(plain_ranking(left, "river bird")), abs=1e-5)
        assert dict(scored(await store("search", NS, query="river bird"))) == expected
