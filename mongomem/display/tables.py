"""`table`: what a search found with its scores, threads, or any rows."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from langgraph.store.base import Item, SearchItem

from mongomem.arguments import checked_list, checked_number, looking_at, shown
from mongomem.display.descriptions import described
from mongomem.display.markup import Html, cell, element, fitted, one_line, page
from mongomem.display.results import Rendered, aligned
from mongomem.errors import InvalidInputError
from mongomem.store.documents.stored_item import ExplainedItem

Row = Mapping[str, object]

LONGEST_CELL, LONGEST_LINE_CELL = 60, 36
"""Characters of a cell, in HTML and in text."""

WIDEST_KEY = "max(8em,24cqw)"
"""Width of a key in HTML, in parts of the notebook's: most are UUIDs, of 36 characters."""

END_OF_KEY = 4
"""How many characters of a key are shown whatever its width: its last, which are random."""

BAR = 60
"""Width of the bar of a score of 1, in pixels."""

SCORE = "score"


class Share(float):
    """A part of a score."""


def table(
    rows: Iterable[Any], *, columns: Sequence[str] | None = None, limit: int = 100
) -> Rendered:
    """Show rows under one another.

    Items of a store have the columns score (where one has a score), namespace (where there are
    several), key, the fields of their values, and updated_at. Results of
    ``search(..., explain=True)`` have meaning and words beside their score. Threads, reports and
    other dataclasses have their fields, mappings their keys; of configs the end of the checkpoint's
    id is shown. Where a notebook has no room for a long key it shows its ends, and all of it where
    the pointer rests on it.

    Args:
        rows: ``store.search(...)``, ``saver.list_threads()``, or any items, dataclasses or
            mappings.
        columns: Which columns, in which order; None: all that have a value somewhere.
        limit: How many rows are shown at most: the first.

    Raises:
        InvalidInputError: An argument is of the wrong kind.
    """
    most = checked_number("limit", limit)
    cells = [_row(one) for one in _checked_rows(rows)]
    names = _columns(cells) if columns is None else _checked_columns(columns)
    if not cells or not names:
        return Rendered("(no rows)", page(element("em", "no rows")))
    return _rendered(cells[:most], names, more=max(0, len(cells) - most))


def _rendered(cells: Sequence[Row], names: Sequence[str], *, more: int) -> Rendered:
    lines, blocks = _lines(cells, names), [_table(cells, names)]
    if more:
        note = f"{more} more are not shown"
        lines.append(note)
        blocks.append(element("div", note, class_="dim"))
    return Rendered("\n".join(lines), page(*blocks))


def _checked_rows(rows: object) -> Iterable[object]:
    if isinstance(rows, (str, bytes, Mapping, AsyncIterator)) or not isinstance(rows, Iterable):
        raise InvalidInputError(f"rows must be a list of items or threads, not {shown(rows)}")
    return rows


def _checked_columns(columns: object) -> list[str]:
    with looking_at("columns"):
        return [str(name) for name in checked_list("columns", columns)]


def _row(one: object) -> Row:
    """Read one row as a mapping of columns to values."""
    with looking_at("rows"):
        if isinstance(one, Item):
            return _of_item(one)
        if isinstance(one, Mapping):
            return {str(name): value for name, value in one.items()}
        if dataclasses.is_dataclass(one) and not isinstance(one, type):
            return {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
    raise InvalidInputError(f"rows must hold items, dataclasses or mappings, not {shown(one)}")


def _of_item(item: Item) -> Row:
    """Read an item; a field of its value that is called like a column stands behind ``value.``."""
    first: dict[str, object] = {"namespace": item.namespace, "key": item.key}
    if isinstance(item, ExplainedItem):
        parts = {"meaning": item.meaning, "words": item.words}
        first = {
            name: None if part is None else Share(part) for name, part in parts.items()
        } | first
    if isinstance(item, SearchItem):
        first = {SCORE: item.score, **first}
    own = {*first, "updated_at"}
    fields = {
        f"value.{name}" if name in own else str(name): value for name, value in item.value.items()
    }
    return {**first, **fields, "updated_at": item.updated_at}


def _columns(rows: Sequence[Row]) -> list[str]:
    """Name the columns in the order in which they are met, times last: those that say something."""
    met = dict.fromkeys(name for row in rows for name in row)
    named = [name for name in met if any(row.get(name) is not None for row in rows)]
    namespaces = {str(row.get("namespace")) for row in rows}
    said = [name for name in named if name != "namespace" or len(namespaces) > 1]
    return sorted(said, key=lambda name: name == "updated_at")


def _cell(name: str, value: object, length: int) -> str:
    if value is None:
        return ""
    if isinstance(value, Share) or (name == SCORE and isinstance(value, float)):
        return f"{value:.2f}"
    if name == "namespace" and isinstance(value, tuple):
        return one_line(" / ".join(map(str, value)), length)
    return described(value, length)


def _lines(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    heads = [one_line(name, LONGEST_LINE_CELL) for name in names]
    written = [[_cell(name, row.get(name), LONGEST_LINE_CELL) for name in names] for row in rows]
    return aligned([heads, *written])


def _table(rows: Sequence[Row], names: Sequence[str]) -> Html:
    head = element("tr", *(cell(one_line(name, LONGEST_CELL), tag="th") for name in names))
    body = [
        element("tr", *(_html_cell(name, row.get(name)) for name in names), style="height:30px")
        for row in rows
    ]
    return element("table", element("thead", head), element("tbody", *body))


def _html_cell(name: str, value: object) -> Html:
    text = _cell(name, value, LONGEST_CELL)
    if name == SCORE and isinstance(value, float):
        return cell(text, Html(" "), _bar(value))
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    dimmed = "dim" if name in ("updated_at", "created_at") else ""
    align = "right" if is_number else "left"
    shown = _ends(text) if name == "key" else text
    return cell(shown, align=align, class_=dimmed, title=_cell(name, value, 600))


def _ends(key: str) -> Html:
    """Let a key lose its middle where there is no room, and keep its end."""
    start, end = key[:-END_OF_KEY], key[-END_OF_KEY:]
    return fitted(WIDEST_KEY, element("span", start), element("span", end, class_="kept"))


def _bar(score: float) -> Html:
    """Draw a score between 0 and 1 as a bar."""
    width = round(BAR * min(1.0, max(0.0, score)))
    style = f"display:inline-block;width:{width}px;height:9px;border-radius:3px;background:#3b82f6"
    return element("span", "", style=style)
