"""Tables as lines, in terminals of any width."""

from __future__ import annotations

from uuid import UUID

import pytest
from rich.cells import cell_len

from mongomem.command_line.tables import Table, lines_of

ID = str(UUID(int=2**127 + 12345))
MESSAGE = "I live in Lisbon, near the river, and my dog is called Brunel."
LISTED = Table(
    ("thread", "updated (UTC)", ">checkpoints", ">stored", "~last message"),
    [(ID, "2026-12-02 03:40:00", "12", "12.3 KB", MESSAGE), ("short", "", "1", "1 KB", "")],
)
TREE = Table(
    ("", ">step", "…source", "…next", "…what changed", "checkpoint"),
    [
        ("●─╮", "1", "update, fork of step 1", "→ answer", MESSAGE, "…0123456789ab"),
        ("  ●", "2", "loop", "end", "", "…0123456789ac"),
    ],
)
NAMES = Table(("namespace", ">items"), [("ada.memories", "2"), (".".join(["long"] * 40), "10")])
WIDTHS = [1, 20, 60, 80, 120, 200, None]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("table", [LISTED, TREE, NAMES], ids=["listed", "tree", "names"])
def test_what_is_no_text_stays_whole(table: Table, width: int | None) -> None:
    lines = lines_of(table, width).body
    for row in table.rows:
        for column, cell in zip(table.columns, row, strict=True):
            if not column.startswith(("~", "…")):
                assert any(cell in line for line in lines)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("table", [LISTED, TREE], ids=["listed", "tree"])
def test_lines_are_no_longer_than_a_terminal(table: Table, width: int) -> None:
    lines = lines_of(table, width)
    assert max(map(cell_len, [*lines.header, *lines.body])) <= width


@pytest.mark.parametrize("width", [60, 80, 120, None])
def test_a_text_is_told_to_its_end(width: int | None) -> None:
    said = " ".join(" ".join(lines_of(LISTED, width).body).split())
    for word in MESSAGE.split():
        assert word in said


def test_columns_stand_beside_each_other_where_there_is_room() -> None:
    lines = lines_of(NAMES, None)
    assert lines.header == [f"namespace{' ' * 190}  items"]
    assert [line[-2:] for line in lines.body] == [" 2", "10"]
    lines = lines_of(LISTED, 80)
    assert lines.header == [
        "thread                                updated (UTC)        checkpoints   stored",
        "  last message",
    ]
    assert lines.body == [
        f"{ID}  2026-12-02 03:40:00           12  12.3 KB",
        f"  {MESSAGE}",
        f"{'short':59}{'1':>11}{'1 KB':>9}",
    ]


def test_a_drawing_keeps_one_line_a_row() -> None:
    for width in (40, 60, 80, 200):
        assert [line[:3] for line in lines_of(TREE, width).body] == ["●─╮", "  ●"]
    assert "update, fo…" in lines_of(TREE, 60).body[0]


@pytest.mark.parametrize("width", [3, 12, 30])
def test_long_words_and_wide_characters(width: int) -> None:
    table = Table(("~value",), [("漢字" * 30,), ("x" * 100,), ("",)])
    lines = lines_of(table, width).body
    assert "".join(lines).replace(" ", "") == "漢字" * 30 + "x" * 100
    assert max(map(cell_len, lines)) <= width


def test_nothing_of_a_cell_is_obeyed_by_a_terminal() -> None:
    lines = lines_of(Table(("thread",), [("a\x1b[2J\nb",)]), 80).body
    assert lines == ["a\\u{1b}[2J\\u{a}b"]


def test_no_rows() -> None:
    assert lines_of(Table(("thread", "~text"), []), 80).body == []
