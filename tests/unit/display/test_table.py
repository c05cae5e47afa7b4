"""Tables of items, threads and other rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import Item, SearchItem

from mongomem import ExplainedItem, PruneReport, Thread, display
from mongomem.errors import InvalidInputError
from support.html import heads, parsed, rows

WHEN = datetime(2030, 1, 2, 3, 4, 5, 678, timezone.utc)
NS = ("ada", "memories")


def found(key: str, value: dict[str, Any], score: float | None, ns: Any = NS) -> SearchItem:
    return SearchItem(ns, key, value, WHEN, WHEN, score)


def test_search_results_come_with_their_scores() -> None:
    shown = display.table(
        [found("pet", {"text": "A dog.", "tags": ["a", "b"]}, 0.4567), found("x", {"n": 1.5}, None)]
    )
    assert heads(shown.html) == ["score", "key", "text", "tags", "n", "updated_at"]
    assert rows(shown.html) == [
        ["0.46", "pet", "A dog.", "a, b", "", "2030-01-02 03:04:05"],
        ["", "x", "", "", "1.5", "2030-01-02 03:04:05"],
    ]
    assert str(shown).splitlines() == [
        "score  key  text    tags  n    updated_at",
        "0.46   pet  A dog.  a, b       2030-01-02 03:04:05",
        "       x                  1.5  2030-01-02 03:04:05",
    ]


def explained(
    key: str, value: dict[str, Any], meaning: float | None, words: float | None
) -> ExplainedItem:
    fields = found(key, value, 0.5).dict()
    return ExplainedItem(**fields, meaning=meaning, words=words)


def test_what_a_score_is_made_of_is_shown() -> None:
    """With the name of a part before a field of a value that is called alike."""
    shown = display.table(
        [explained("a", {"words": 1234.5}, 0.4567, 0.5), explained("b", {}, 0.25, None)]
    )
    assert heads(shown.html) == ["score", "meaning", "words", "key", "value.words", "updated_at"]
    assert [cells[:5] for cells in rows(shown.html)] == [
        ["0.50", "0.46", "0.50", "a", "1234"],
        ["0.50", "0.25", "", "b", ""],
    ]
    assert heads(display.table([explained("a", {}, 0.5, None)]).html)[:3] == [
        "score",
        "meaning",
        "key",
    ]
    plain = display.table([found("a", {"words": 0.00012}, 0.5)])
    assert rows(plain.html)[0][:3] == ["0.50", "a", "0.00012"]


def config(checkpoint_id: str, namespace: str = "") -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": "1", "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id
        }
    }  # fmt: skip


def test_reports_name_checkpoints_by_the_ends_of_their_ids() -> None:
    many = [config(f"1f0-{number:06d}") for number in range(20)]
    reports = [
        PruneReport("1", [config("1f0-abcdef"), config("1f0-123456", "sub:1")], []),
        PruneReport("2", many, [config("1f0-abcdef")]),
    ]
    shown = rows(display.table(reports).html)
    assert shown[0] == ["1", "2: …abcdef, sub:1 …123456", "[]"]
    assert shown[1][1].startswith("20: …000000, …000001, ")
    assert shown[1][2] == "1: …abcdef"
    assert rows(display.table([{"at": config("1f0-abcdef")}]).html) == [["…abcdef"]]
    assert rows(display.table([{"at": {"configurable": {"a": 1}}}]).html) == [
        ["configurable: {'a': 1}"]
    ]


@pytest.mark.parametrize(("score", "width"), [(-0.5, 0), (0.0, 0), (0.5, 30), (1.0, 60), (7.0, 60)])
def test_a_score_has_a_bar(score: float, width: int) -> None:
    bar = parsed(display.table([found("k", {}, score)]).html).find(".//td/span")
    assert bar is not None
    assert f"width:{width}px" in bar.get("style", "")


def test_columns_that_say_nothing_are_left_out() -> None:
    assert heads(display.table([found("k", {"a": None}, None)]).html) == ["key", "updated_at"]
    several = [found("k", {}, None), found("k", {}, None, ("bob",))]
    assert [cells[0] for cells in rows(display.table(several).html)] == ["ada / memories", "bob"]


def test_a_field_called_like_a_column_keeps_its_value() -> None:
    item = Item(namespace=NS, key="k", value={"key": "inner"}, created_at=WHEN, updated_at=WHEN)
    shown = display.table([item])
    assert heads(shown.html) == ["key", "value.key", "updated_at"]
    assert rows(shown.html)[0][:2] == ["k", "inner"]


def test_columns_can_be_chosen() -> None:
    items = [found("k", {"text": "A dog.", "kind": "pet"}, 0.5)]
    assert rows(display.table(items, columns=["kind", "key", "no"]).html) == [["pet", "k", ""]]


@pytest.mark.parametrize("wrong", ["key", b"key", 5, {"key"}, {"key": 1}, iter(["key"])])
def test_columns_are_a_list(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="columns must be a list"):
        display.table([found("k", {}, 0.5)], columns=wrong)


class Unwritten:
    def __str__(self) -> str:
        raise RuntimeError


def test_names_that_cannot_be_written_are_one_error() -> None:
    wrong: Any = [Unwritten()]
    with pytest.raises(InvalidInputError, match="columns cannot be used"):
        display.table([found("k", {}, 0.5)], columns=wrong)
    with pytest.raises(InvalidInputError, match="rows cannot be used"):
        display.table([{Unwritten(): 1}])


@pytest.mark.parametrize("key", ["p", "pet", "two words", "12345678-1234-1234-1234-123456789abc"])
def test_a_key_is_whole_and_its_middle_gives_way_where_there_is_no_room(key: str) -> None:
    """Which a browser decides: see ``test_display_browser.py``."""
    shown = display.table([found(key, {"text": key}, None)])
    assert rows(shown.html)[0][:2] == [key, key]
    kept = parsed(shown.html).find(".//td//span[@class='kept']")
    assert kept is not None
    assert kept.text == key[-4:]
    cell = parsed(shown.html).find(".//tbody/tr/td")
    assert cell is not None
    assert cell.get("title") == key
    assert key in str(shown)


def test_threads_and_mappings_are_rows() -> None:
    threads = [Thread("1", WHEN, WHEN, {"user_id": "ada"}, "Hello", None)]
    assert heads(display.table(threads).html) == [
        "thread_id", "created_at", "metadata", "preview", "updated_at"
    ]  # fmt: skip
    assert rows(display.table([{"name": "data", "bytes": 12}]).html) == [["data", "12"]]


def test_no_more_than_the_limit_is_shown() -> None:
    shown = display.table([{"n": n} for n in range(5)], limit=2)
    assert rows(shown.html) == [["0"], ["1"]]
    assert str(shown).splitlines()[-1] == "3 more are not shown"


@pytest.mark.parametrize("empty", [[], iter(()), [{}]])
def test_nothing_is_told(empty: Any) -> None:
    shown = display.table(empty)
    assert str(shown) == "(no rows)"
    assert "".join(parsed(shown.html).itertext()).endswith("no rows")


@pytest.mark.parametrize(
    "text", ["<script>1</script>", '"><b onclick=1>', "a\u202e\x00\x1b\nb", "x" * 100_000, "\ud800"]
)
def test_hostile_values_are_escaped_and_cut(text: str) -> None:
    shown = display.table([found(text, {text: text, "list": [text] * 1000}, 0.5, (text,))])
    assert len(rows(shown.html)) == 1
    assert len(shown.html) < 8_000
    assert len(str(shown).splitlines()) == 2
    assert not set("\u202e\x00\x1b\n\ud800") & set(shown.html + str(shown).replace("\n", "", 1))


@dataclass
class Strange:
    it: object


def test_any_value_is_described() -> None:
    endless: dict[str, Any] = {}
    endless["itself"] = endless
    shown = display.table(
        [Strange(endless), Strange(float("nan")), Strange(b"1"), Strange(10**5000)]
    )
    assert len(rows(shown.html)) == 4


@pytest.mark.parametrize("wrong", [None, "rows", {"a": 1}, 3, [3], [Strange]])
def test_what_is_no_row_is_named(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="rows"):
        display.table(wrong)
