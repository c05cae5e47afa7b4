"""What notebooks show, as Chromium draws it as a static page: what is in sight, and what is cut."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import Item
from langgraph.types import Command, interrupt
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from mongomem.display import Rendered, table, timeline
from mongomem.display.markup import one_line
from support.browsers import windowless

CONFIG: Any = {"configurable": {"thread_id": "1"}}
WHEN = datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
QUESTION = "Do you want me to send this letter as it stands, or should I shorten it before?"
FAILURE = "The mail server answered 550: this mailbox is over its quota, try again tomorrow"
ROOMY, NARROW = 1400, 700
UUID = "12345678-1234-1234-1234-123456789abc"


class Letter(MessagesState):
    topic: str
    approved: bool


def draft(state: Letter) -> dict[str, Any]:
    return {"messages": [("ai", "Dear Bob, thank you for " * 5)], "topic": "bridges " * 9}


def approve(state: Letter) -> dict[str, Any]:
    return {"approved": interrupt(QUESTION)}


def send(state: Letter) -> None:
    raise ValueError(FAILURE)


def letters() -> Rendered:
    """Show a thread with long texts, a long question, a long error and a fork."""
    builder = StateGraph(Letter).add_sequence([draft, approve, send]).add_edge(START, "draft")
    graph = builder.compile(checkpointer=InMemorySaver())
    graph.invoke({"messages": "Write to Bob about the bridge. " * 5}, CONFIG)
    before = list(graph.get_state_history(CONFIG))[1].config
    with pytest.raises(ValueError, match="mailbox"):
        graph.invoke(Command(resume=True), CONFIG)
    graph.update_state(before, {"messages": [("ai", "Hi Bob")]}, as_node="draft")
    return timeline(list(graph.get_state_history(CONFIG)))


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    with windowless() as running:
        yield running


class Drawn:
    """A page with what a notebook shows, so many pixels wide."""

    def __init__(self, chrome: Chrome, folder: Path, shown: Rendered, width: int) -> None:
        page = folder / "shown.html"
        body = f"<div style='width:{width}px'>{shown.html}</div>"
        page.write_text(f"<!doctype html><meta charset='utf-8'>{body}", encoding="utf-8")
        chrome.get(page.as_uri())
        self.chrome = chrome

    def rights(self, css: str) -> list[float]:
        """Return how far the elements reach to the right, in pixels of the page's width."""
        left = self.chrome.find_element(By.CSS_SELECTOR, ".mongomem").rect["x"]
        found = self.chrome.find_elements(By.CSS_SELECTOR, css)
        return [one.rect["x"] + one.rect["width"] - left for one in found]

    def cuts(self, css: str) -> list[bool]:
        """Say of the elements whether their text is longer than they are wide."""
        script = (
            "return [...document.querySelectorAll(arguments[0])]"
            ".map(one => one.scrollWidth > one.clientWidth)"
        )
        cut: list[bool] = self.chrome.execute_script(script, css)
        return cut


@pytest.mark.parametrize("width", [NARROW, 940, ROOMY])
def test_questions_and_errors_leave_the_checkpoints_in_sight(
    width: int, chrome: Chrome, tmp_path: Path
) -> None:
    drawn = Drawn(chrome, tmp_path, letters(), width)
    ends = drawn.rights("td:last-child > *")
    assert len(ends) == 6
    assert max(ends) <= width
    notes = chrome.find_elements(By.CSS_SELECTOR, "td:nth-last-child(2) .chip")
    assert [note.get_attribute("title") for note in notes] == [
        f"asks: {QUESTION}",
        one_line(f"ValueError({FAILURE!r})"),
    ]
    assert min(note.rect["width"] for note in notes) > 30


def keyed(*keys: str) -> Rendered:
    values = [
        Item(
            value={"text": "A dog."}, key=key, namespace=("ada",), created_at=WHEN, updated_at=WHEN
        )
        for key in keys
    ]
    return table(values)


@pytest.mark.parametrize(
    ("width", "cut"), [(NARROW, [False, True]), (ROOMY, [False, False])], ids=["narrow", "roomy"]
)
def test_keys_are_cut_only_where_there_is_no_room(
    width: int, cut: list[bool], chrome: Chrome, tmp_path: Path
) -> None:
    drawn = Drawn(chrome, tmp_path, keyed("pet", UUID), width)
    assert drawn.cuts("td .fit > :first-child") == cut
    assert drawn.cuts("td .fit > .kept") == [False, False]


def test_a_sentence_is_a_key_that_has_room(chrome: Chrome, tmp_path: Path) -> None:
    drawn = Drawn(chrome, tmp_path, keyed("My dog is called Brunel."), 940)
    assert drawn.cuts("td .fit > *") == [False, False]
