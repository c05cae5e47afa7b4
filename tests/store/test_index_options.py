"""Options of the index: what is wrong with one ends in an error that names it and tells no secret,
or in a warning.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import mongomock
import numpy as np
import pytest
from langgraph.store.base import PutOp

from mongomem import MongoMemory, MongoStore
from mongomem.errors import ConfigurationError
from mongomem.store.documents.coverage import MOST_PATHS, Coverage
from mongomem.store.documents.index_config import KNOWN_OPTIONS
from support.bag_of_words import bag_of_words
from support.savers import KINDS
from support.stores import keys, store_of, words

DIMS = 16
NS = ("users", "u1")
KEY = "sk-abcdefghijklmnop123456"
PASSWORD = "hunter2hunter2"


def named(texts: Any) -> Any:
    return bag_of_words(DIMS)(texts)


class Hostile:
    """Raises whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(KEY)

    def __repr__(self) -> str:
        raise LookupError(KEY)

    def __eq__(self, other: object) -> bool:
        raise LookupError(KEY)

    def __hash__(self) -> int:
        raise LookupError(KEY)


class HostileClass:
    @property
    def __class__(self) -> Any:
        raise LookupError(KEY)


class HostileMapping(dict[str, Any]):
    def keys(self) -> Any:
        raise LookupError(KEY)

    def __iter__(self) -> Any:
        raise LookupError(KEY)


class LongRepr:
    def __repr__(self) -> str:
        return "x" * 10_000_000


HOSTILE: dict[str, Callable[[], Any]] = {
    "an int": lambda: -1,
    "a huge int": lambda: 10**5_000,
    "a float": lambda: 1.5,
    "nan": lambda: float("nan"),
    "a bool": lambda: True,
    "nothing in it": lambda: "",
    "spaces": lambda: "  ",
    "a surrogate": lambda: "a\udc80",
    "a huge text": lambda: "x" * 10_000_000,
    "a key": lambda: {"api_key": KEY, "n": KEY},
    "a URI": lambda: {"uri": f"mongodb://user:{PASSWORD}@host/"},
    "a URI as bytes": lambda: f"mongodb://user:{PASSWORD}@host/".encode(),
    "bytes": lambda: b"x" * 1_000_000,
    "a list": list,
    "a list of lists": lambda: [["text"]],
    "a list with nothing": lambda: [""],
    "a list of surrogates": lambda: ["\ud800"],
    "a list of numbers": lambda: [1, 2],
    "a huge list": lambda: ["text"] * 1_000_000,
    "a list of a huge text": lambda: ["x" * 10_000_000],
    "dots": lambda: ["..."],
    "a set": lambda: {"text"},
    "a dict": lambda: {"$ne": None},
    "an endless iterator": lambda: itertools.count(),
    "an array": lambda: np.ones(3),
    "a class": lambda: dict,
    "a module": lambda: itertools,
    "an object": object,
    "what raises": Hostile,
    "what has no class": HostileClass,
    "what shows itself for long": LongRepr,
}


def refused(**options: Any) -> str:
    """Return the message of the one error that a store, and a memory, raises."""
    index: Any = {"embed": named, "dims": DIMS, "fields": ["text"], **options}
    messages = set()
    for make in (
        lambda: MongoStore(mongomock.MongoClient(), index=index),
        lambda: MongoMemory(_mock(), index=index),
    ):
        with pytest.raises(ConfigurationError) as raised:
            make()
        messages.add(str(raised.value))
    (message,) = messages
    assert KEY not in message
    assert PASSWORD not in message
    assert len(message) < 500
    message.encode()
    return message


def _mock() -> Any:
    return mongomock.MongoClient()


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("option", sorted(KNOWN_OPTIONS))
def test_a_hostile_option_is_named(option: str, value: str) -> None:
    assert option in refused(**{option: HOSTILE[value]()})


@pytest.mark.parametrize(
    "value", [value for value in HOSTILE if value not in ("a key", "a URI", "a dict")]
)
def test_a_hostile_index_is_named(value: str) -> None:
    for make in (MongoStore, MongoMemory):
        with pytest.raises(ConfigurationError, match="index") as raised:
            make(_mock(), index=HOSTILE[value]())
        assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    "options",
    [
        {"api_key": KEY},
        {"uri": f"mongodb://u:{PASSWORD}@h"},
        {1: 2, "a": 3},
        {"x" * 10_000_000: 1},
        {"Embed": "local"},
    ],
)
def test_unknown_options_are_named_without_their_values(options: Mapping[Any, Any]) -> None:
    index: Any = {"embed": "local", **options}
    with pytest.raises(ConfigurationError, match="Unknown options of index") as raised:
        MongoStore(_mock(), index=index)
    assert KEY not in str(raised.value)
    assert PASSWORD not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_a_mapping_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="index cannot be used"):
        MongoStore(_mock(), index=HostileMapping(embed="local"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [f"openai:{KEY}", KEY, f"cohere:{KEY}", f"http://user:{PASSWORD}@host/v1", "local:" + KEY],
)
def test_a_key_in_the_place_of_a_name_is_not_shown(name: str) -> None:
    try:
        store = MongoStore(_mock(), index={"embed": name, "dims": DIMS})
    except ConfigurationError as error:
        message = str(error)
    else:
        message = str(store)
    assert KEY not in message
    assert PASSWORD not in message


def test_what_is_no_mistake_is_taken() -> None:
    index: Any = {
        "embed": named,
        "dims": DIMS,
        "fields": ("text", "$"),
        "metric": "dot",
        "model": "m",
        "batch_size": 1,
    }
    for given in (
        index,
        MappingProxyType(index),
        {**index, "model": None, "batch_size": None, "fields": None},
    ):
        store = MongoStore(_mock(), index=given)
        store.put(NS, "k", {"text": "fish"})
        assert keys(store.search(NS, query="fish")) == ["k"]
    assert MongoStore(_mock(), index={"embed": named, "dims": DIMS, "batch_size": 2**40})  # type: ignore[typeddict-unknown-key]
    assert MongoStore(_mock(), index={"embed": named, "dims": DIMS, "model": "模型 🗾" * 9})  # type: ignore[typeddict-unknown-key]


# --- paths that give nothing
# -----------------------------------------------------------------------


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "mongomem")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "mongomem"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_path_that_never_gives_a_text_is_told_once(
    mongo_uri: str, database_name: str, kind: str, warnings: Callable[[], list[str]]
) -> None:
    index = words(DIMS, fields=["text", "txet", "parts[*].name"])
    async with store_of(kind, mongo_uri, database_name, index=index) as store:
        for n in range(19):
            await store("put", NS, f"k{n}", {"text": f"text {n}", "parts": [{"nmae": "x"}]})
        assert warnings() == []
        await store("batch", [PutOp(NS, f"b{n}", {"text": f"text {n}"}) for n in range(3)])
        first, second = sorted(warnings())
        assert ("'parts[*].name'" in first, "'txet'" in second, "22 items" in first) == (
            True,
            True,
            True,
        )
        await store("batch", [PutOp(NS, f"c{n}", {"text": f"text {n}"}) for n in range(60)])
        assert len(warnings()) == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_a_search_that_finds_nothing_by_meaning_tells_at_once(
    mongo_uri: str, database_name: str, kind: str, warnings: Callable[[], list[str]]
) -> None:
    async with store_of(
        kind, mongo_uri, database_name, index=words(DIMS, fields=["txet"])
    ) as store:
        await store("put", NS, "k", {"text": "fish"})
        for _ in range(2):
            assert [item.score for item in await store("search", NS, query="fish")] == [None]
        (message,) = warnings()
        assert "'txet'" in message


def test_a_path_of_an_item_is_told_too(warnings: Callable[[], list[str]]) -> None:
    store = MongoStore(_mock(), index=words(DIMS, fields=["text"]))
    store.batch([PutOp(NS, f"k{n}", {"text": f"text {n}"}, index=["title"]) for n in range(20)])
    (message,) = warnings()
    assert "'title'" in message


def test_a_field_that_is_only_optional_is_not_told(warnings: Callable[[], list[str]]) -> None:
    client = _mock()
    index = words(DIMS, fields=["text", "note", "blank", "same"])
    store = MongoStore(client, index=index)
    store.batch([PutOp(NS, f"k{n}", {"text": "t", "same": "t"}) for n in range(19)])
    store.put(NS, "noted", {"text": "t", "note": "a note", "blank": "  ", "same": "t"})
    store.batch(
        [PutOp(NS, f"l{n}", {"text": "t", "blank": "here", "same": "t"}) for n in range(100)]
    )
    assert [message for message in warnings() if "'blank'" not in message] == []
    later = MongoStore(client, index=index)
    later.batch(
        [PutOp(NS, f"m{n}", {"text": "t", "blank": "here", "same": "t"}) for n in range(100)]
    )
    assert [message for message in warnings() if "'blank'" not in message] == []


def test_items_that_are_not_to_be_embedded_are_not_counted(
    warnings: Callable[[], list[str]],
) -> None:
    store = MongoStore(_mock(), index=words(DIMS, fields=["text"]))
    store.batch([PutOp(NS, f"k{n}", {"n": n}, index=False) for n in range(50)])
    assert store.search(NS, query="fish", limit=1)[0].score is None
    assert warnings() == []
    MongoStore(_mock()).batch([PutOp(NS, f"k{n}", {"n": n}) for n in range(50)])
    assert warnings() == []


def test_paths_without_end_are_not_kept_without_end() -> None:
    coverage = Coverage()
    for n in range(5_000):
        coverage.note([f"blank{n}", f"there{n}"], {f"there{n}"})
    assert len(coverage._blank) == len(coverage._settled) == MOST_PATHS
    coverage.note(["blank1"], {"blank1"})
    assert "blank1" not in coverage._blank
