"""BM25 over stored terms: against a plain computation, and what is refused as terms."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping

import bson
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mongomem.store.words.analysis import DEFAULT_LANGUAGE, analyser_for
from mongomem.store.words.bm25 import K1, B, WordQuery
from mongomem.store.words.occurrences import FEW_APPENDED, MOST_COMPARED
from mongomem.store.words.query import parse_query
from mongomem.store.words.readable import readable
from mongomem.store.words.stored_terms import are_terms, encode_terms, hash_of, mark_of
from mongomem.store.words.term_index import FEW_REMOVED, TermIndex

MARK = mark_of("english-1")
CODES = bytes(range(16))
WORDS = [f"w{number}" for number in range(40)]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=30)
ANALYSER = analyser_for(DEFAULT_LANGUAGE)


def plain_scores(items: Mapping[str, list[str]], query: list[str]) -> dict[str, float]:
    """Compute BM25 as its formula says, item by item."""
    wanted = list(dict.fromkeys(query))
    frequency = {term: sum(term in terms for terms in items.values()) for term in wanted}
    weights = {
        term: math.log(1 + (len(items) - count + 0.5) / (count + 0.5))
        for term, count in frequency.items()
    }
    average = max(1.0, sum(map(len, items.values())) / len(items)) if items else 1.0
    scores = {}
    for item, terms in items.items():
        counts, normal = Counter(terms), K1 * (1 - B + B * len(terms) / average)
        total = sum(
            weights[term] * counts[term] * (K1 + 1) / (counts[term] + normal) for term in wanted
        )
        scores[item] = min(1.0, total / sum(weights.values()))
    return scores


def hashes_of(terms: list[str]) -> np.ndarray:
    return np.array([*dict.fromkeys(map(hash_of, terms))], dtype=np.uint32)


def stored(terms: list[str]) -> bytes:
    return encode_terms(terms, MARK, CODES)


def add(index: TermIndex, items: dict[str, list[str]]) -> None:
    index.add([*items], [stored(terms) for terms in items.values()], [CODES] * len(items))


def scores_of(index: TermIndex, ids: list[str], query: list[str]) -> dict[str, float]:
    hashes = hashes_of(query)
    words = WordQuery.of(hashes, index.statistics(hashes))
    return dict(zip(ids, index.scores(words)[index.slots(ids)].tolist(), strict=True))


@given(st.lists(TEXTS, min_size=1, max_size=20), st.lists(TEXTS, max_size=8), TEXTS, st.data())
def test_scores_are_those_of_the_formula_after_any_changes(
    first: list[list[str]], second: list[list[str]], query: list[str], data: st.DataObject
) -> None:
    if not query:
        query = ["w0"]
    items = {f"i{number}": terms for number, terms in enumerate(first)}
    index = TermIndex(MARK)
    add(index, items)
    for number, terms in enumerate(second):
        item = data.draw(st.sampled_from([*items, f"n{number}"]))
        index.remove(item)
        items[item] = terms
        add(index, {item: terms})
    for item in data.draw(st.lists(st.sampled_from([*items]), max_size=3, unique=True)):
        index.remove(item)
        del items[item]
    assert scores_of(index, [*items], query) == pytest.approx(plain_scores(items, query), abs=1e-6)


def test_many_terms_are_looked_up_as_few_are_compared() -> None:
    items = {f"i{n}": [f"t{n * 7 % 50 + k}" for k in range(10)] for n in range(30)}
    index = TermIndex(MARK)
    add(index, items)
    for count in (MOST_COMPARED, MOST_COMPARED + 1):
        query = [f"t{number}" for number in range(count)]
        expected = pytest.approx(plain_scores(items, query), abs=1e-6)
        assert scores_of(index, [*items], query) == expected


def test_terms_are_found_in_order_and_behind_it() -> None:
    source = random.Random(2)
    index, items = TermIndex(MARK), dict[str, list[str]]()
    for turn in range(6):
        new = {
            f"i{turn} {n}": [f"t{source.randrange(90)}" for _ in range(9)]
            for n in range(FEW_APPENDED // 8)
        }
        add(index, new)
        items |= new
        query = [f"t{source.randrange(99)}" for _ in range(1 + 20 * turn)]
        expected = pytest.approx(plain_scores(items, query), abs=1e-6)
        assert scores_of(index, [*items], query) == expected


def test_room_of_removed_items_is_given_up_and_scores_stay() -> None:
    index, items = TermIndex(MARK), {"kept": ["a", "b", "b"], "other": ["a"]}
    add(index, items)
    for number in range(FEW_REMOVED + 10):
        add(index, {f"gone{number}": ["a", "c"]})
        index.remove(f"gone{number}")
    before, size = scores_of(index, [*items], ["a", "b"]), index.size
    moved = index.pack()
    assert moved is not None
    assert index.pack() is None
    assert index.size < size / 10
    assert scores_of(index, [*items], ["a", "b"]) == before
    assert before == pytest.approx(plain_scores(items, ["a", "b"]), abs=1e-6)


def test_an_item_of_average_length_with_every_word_has_the_score_one() -> None:
    index = TermIndex(MARK)
    add(index, {"all": ["red", "bird"], "none": ["green", "fish"]})
    assert scores_of(index, ["all", "none"], ["red", "bird"]) == {"all": 1.0, "none": 0.0}


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        b"",
        b"\x00",
        mark_of("german-1") + stored(["a"])[2:],
        encode_terms(["a"], MARK, bytes(16)),
        stored(["a"]) + b"\x00",
        stored(["a"])[:-1],
        [1, 2],
    ],
    ids=range(9),
)
def test_what_are_no_terms_of_this_text_by_this_analyser(value: object) -> None:
    assert not are_terms(value, MARK, CODES)
    index = TermIndex(MARK)
    index.add(["a"], [value], [CODES])
    assert index.slots(["a"]) == [0]


def test_an_item_without_a_word_has_terms() -> None:
    terms = encode_terms([], MARK, CODES)
    assert are_terms(terms, MARK, CODES)
    assert len(terms) == 4


def test_a_sentence_of_140_characters_takes_90_bytes_at_most() -> None:
    text = (
        "Caroline: I took my kids to the beach last weekend, and we had such a good time there "
        "that they asked me at breakfast when we would go again!"
    )
    assert 138 <= len(text) <= 142
    terms = encode_terms([word.term for word in ANALYSER.words(text)], MARK, CODES)
    assert len(bson.encode({"terms": terms})) - len(bson.encode({})) <= 90


@pytest.mark.parametrize(
    ("query", "phrases"),
    [
        ('"hot chocolate" trip', ["hot chocolate"]),
        ("“Hot  Chocolate” trip", ["hot chocolate"]),
        ('unbalanced "quote', []),
        ('"" and "  " and "?!"', []),
        ('"one" "two words"', ["one", "two words"]),
        ('Ada: "I love it!" Bob: "Really?"', []),
        ('{"name": "Ada", "city":"Lisbon"}', []),
        ('Ada: "hot chocolate"', []),
        ('he said "I would never go to that place again"', []),
        ('runs on "Node.js" or "3.11"', ["node.js", "3.11"]),
        ('a 27" monitor or a 32" one', []),
        ('a 27" monitor of "LG"', ["lg"]),
        ("no quotes", []),
        ('"', []),
        ('When does Ada plan to pick up "The Alchemist"?', []),
        ('Ada read "Dune". What did she think of it?', []),
        ('「"三体"」是谁写的？', []),
        ('who wrote "Dune"', ["dune"]),
        ('"Dune"?', ["dune"]),
        ('"Dune" "Emma".', ["dune", "emma"]),
        ('runs on "Node.js" v3.11', ["node.js"]),
    ],
)
def test_short_quotations_are_phrases_and_speech_is_none(query: str, phrases: list[str]) -> None:
    assert [phrase.text for phrase in parse_query(query, ANALYSER).phrases] == phrases


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ('{"a": "milk\\neggs\\tfresh"}', '{"a": "milk eggs fresh"}'),
        ('["C:\\\\new \\"red\\"", "\\u0001"]', '["C:\\new "red"", "\x01"]'),
        ("C:\\new", "C:\\new"),
        ("[C:\\new]", "[C:\\new]"),
        ('{"a": "milk\\neggs"', '{"a": "milk\\neggs"'),
        ("[" * 100_000 + '"\\n"' + "]" * 100_000, None),
        ("", ""),
    ],
    ids=range(7),
)
def test_json_reads_without_its_escapes(text: str, reads: str | None) -> None:
    assert readable(text) == (text if reads is None else reads)


@pytest.mark.parametrize(
    ("quoted", "text", "holds"),
    [
        ("hot chocolate", "We drank HOT   chocolate.", True),
        ("hot chocolate", "hot white chocolate", False),
        ("art", "a party", False),
        ("art", "modern art, mostly", True),
        ("咖啡", "我喜欢喝咖啡的早晨", True),
        ("c++", "I write c++ daily", True),
        ("straße", "STRASSE", True),
        ("can't", "I can’t stop", True),
        ("茶", "红茶好喝", True),
        ("を飲", "コーヒーを飲みます", True),
        ("GPT4", "我用GPT4模型", True),
        ("GPT", "我用GPT4模型", False),
        ("art", "a party of art", True),
        ("a" + "\u0301" * 70, "á" + "\u0301" * 90, True),
    ],
)
def test_a_phrase_stands_in_a_text(quoted: str, text: str, holds: bool) -> None:
    query = parse_query(f'"{quoted}"', ANALYSER)
    assert query.holds_phrases([text]) is holds
    terms = {hash_of(word.term) for word in ANALYSER.words(text)}
    assert not holds or terms.issuperset(query.phrase_hashes().tolist())
