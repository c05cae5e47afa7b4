"""The timeline of a thread: its steps, forks, questions and errors, as text and as HTML."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, StateSnapshot, interrupt

from mongomem import display
from mongomem.display.lanes import layout_of
from mongomem.display.markup import one_line
from mongomem.display.thread_history import Step, changes, steps_of
from mongomem.errors import InvalidInputError
from support.html import heads, parsed, plain, rows

CONFIG: Any = {"configurable": {"thread_id": "1"}}


class Letter(MessagesState):
    approved: bool


def mail(saver: Any) -> Any:
    """Compile a graph that drafts, asks, and sends."""
    builder = StateGraph(Letter)
    builder.add_node("draft", lambda state: {"messages": [("ai", "Dear Bob")]})
    builder.add_node("approve", lambda state: {"approved": interrupt("Send it?") == "yes"})
    builder.add_node("send", lambda state: {"messages": [("ai", "Sent.")]})
    for before, after in ((START, "draft"), ("draft", "approve"), ("approve", "send")):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver)


@pytest.fixture
def graph() -> Any:
    graph = mail(InMemorySaver())
    graph.invoke({"messages": "Write to Bob."}, CONFIG)
    return graph


def history(graph: Any) -> list[StateSnapshot]:
    return list(graph.get_state_history(CONFIG))


def fork(graph: Any) -> None:
    """Answer, then go back to the draft and write another."""
    graph.invoke(Command(resume="yes"), CONFIG)
    before = next(state for state in history(graph) if state.next == ("draft",))
    graph.update_state(before.config, {"messages": [("ai", "Hi Bob")]}, as_node="draft")


def test_a_row_says_what_a_step_did_and_where_it_leads(graph: Any) -> None:
    shown = display.timeline(history(graph))
    assert [cells[:4] for cells in rows(shown.html)] == [
        ["-1", "input", "", "→ __start__"],
        ["0", "loop", "messages + human: Write to Bob.", "→ draft"],
        ["1", "loop", "messages + ai: Dear Bob", "→ approve asks: Send it?"],
    ]
    assert heads(shown.html) == ["step", "source", "what changed", "next", "checkpoint"]
    newest = history(graph)[0].config["configurable"]["checkpoint_id"]
    assert rows(shown.html)[-1][4] == f"…{newest[-6:]} latest"


def test_text_is_what_a_terminal_prints(graph: Any) -> None:
    assert str(display.timeline(history(graph))).splitlines() == [
        "●  -1  input  → __start__",
        "●   0  loop   → draft      messages + human: Write to Bob.",
        "●   1  loop   → approve    messages + ai: Dear Bob; asks: Send it?",
    ]


def test_forks_are_branches(graph: Any) -> None:
    fork(graph)
    shown = display.timeline(history(graph))
    assert repr(shown).splitlines() == [
        "●    -1  input                   → __start__",
        "●─╮   0  loop                    → draft      messages + human: Write to Bob.",
        "● │   1  loop                    → approve    messages + ai: Dear Bob; asks: Send it?",
        "● │   2  loop                    → send       approved = True",
        "● │   3  loop                    end          messages + ai: Sent.",
        "  ●   1  update, fork of step 0  → approve    messages + ai: Hi Bob",
    ]
    drawn = parsed(shown.html).find(".//svg")
    assert drawn is not None
    assert len(drawn.findall("path")) == 2
    assert len({dot.get("cx") for dot in drawn.findall("circle")}) == 2
    assert [dot.get("cy") for dot in drawn.findall("circle")] == [
        str(31 * (row + 0.5)) for row in range(6)
    ]


def test_branches_are_text_too_where_drawings_are_dropped(graph: Any) -> None:
    fork(graph)
    expected = ["●", "●─╮", "●\u00a0│", "●\u00a0│", "●\u00a0│", "\u00a0\u00a0●"]
    assert plain(display.timeline(history(graph)).html) == expected


@pytest.mark.parametrize("forks", [1, 2, 3, 5])
def test_branches_share_no_lane_in_a_row(graph: Any, forks: int) -> None:
    for _ in range(forks):
        fork(graph)
    steps = steps_of(history(graph))
    layout = layout_of(steps)
    assert sorted(row for branch in layout.branches for row in branch.rows) == [*range(len(steps))]
    for row in range(len(steps)):
        lanes = [branch.lane for branch in layout.branches if row in branch.span]
        assert len(lanes) == len(set(lanes))


def test_lanes_cross_in_text(graph: Any) -> None:
    before = next(state for state in history(graph) if state.next == ("draft",))
    for text in ("One", "Two"):
        graph.update_state(before.config, {"messages": [("ai", text)]}, as_node="draft")
    first = next(state for state in history(graph) if state.next == ("__start__",))
    graph.update_state(first.config, {"messages": [("ai", "Three")]}, as_node="draft")
    rails = [
        line.split("  -")[0].split("   ")[0]
        for line in str(display.timeline(history(graph))).splitlines()
    ]
    assert rails[0].startswith("●─────╮")
    assert rails[1].startswith("●─┬─╮ │")


def step(id: str, parent_id: str | None) -> Step:
    return Step(id, parent_id, "1", "loop", (), (), (), (), "", "")


def one(number: int) -> str:
    return f"{number:06}"


@pytest.mark.parametrize("parent", [one(0), one(1), one(2), "elsewhere"])
def test_a_parent_that_does_not_stand_above_its_child_is_not_shown(parent: str) -> None:
    """As where clocks differ, or somebody wrote the ids."""
    layout = layout_of([step(one(0), parent), step(one(1), one(0)), step(one(2), one(1))])
    (branch,) = layout.branches
    assert (branch.origin, branch.is_cut, branch.rows) == (None, True, [0, 1, 2])


def test_a_history_whose_ids_are_not_in_the_order_of_time_is_shown(graph: Any) -> None:
    newest, *older = history(graph)
    parent = newest.config["configurable"]
    for own in (newest.config, older[0].parent_config):
        assert own is not None
        own["configurable"]["checkpoint_id"] = "0"
    assert parent["checkpoint_id"] == "0"
    assert len(rows(display.timeline([newest, *older]).html)) == 3


def forked(forks: int) -> list[Step]:
    """Make a step with so many forks, each of two steps."""
    began = [step(one(0), None)]
    for number in range(1, forks + 1):
        began += [step(one(2 * number), one(0)), step(one(2 * number + 1), one(2 * number))]
    return began


def calls_of(work: Callable[[], object]) -> int:
    """Count the calls of functions, built-in ones too."""
    seen = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, arg: seen.append(event))
    try:
        work()
    finally:
        sys.setprofile(before)
    return sum(event in ("call", "c_call") for event in seen)


def test_twice_as_many_forks_are_twice_as_much_work() -> None:
    """Whatever the drawing takes, which is as large as rows times lanes."""
    few, many = (calls_of(lambda n=n: layout_of(forked(n))) for n in (50, 100))  # type: ignore[misc]
    passed = [sum(len(branch.line) for branch in layout_of(forked(n)).branches) for n in (50, 100)]
    assert many - passed[1] < 2.1 * (few - passed[0])


@pytest.mark.parametrize("seed", range(20))
def test_lanes_are_the_first_free_ones(seed: int) -> None:
    random = Random(seed)
    steps = [
        step(one(n), None if n == 0 or random.random() < 0.1 else one(random.randrange(n)))
        for n in range(40)
    ]
    branches = layout_of(steps).branches
    for number, branch in enumerate(branches):
        met = {other.lane for other in branches[:number] if {*other.span} & {*branch.span}}
        assert branch.lane == next(lane for lane in range(41) if lane not in met)


def test_the_drawing_is_as_wide_as_its_lanes_whatever_a_notebook_says_of_drawings(
    graph: Any,
) -> None:
    """JupyterLab: ``.jp-RenderedHTMLCommon img, svg {max-width: 100%}``."""
    fork(graph)
    html = parsed(display.timeline(history(graph)).html)
    cell, drawn = html.find(".//td[@rowspan]"), html.find(".//svg")
    assert cell is not None
    assert drawn is not None
    assert drawn.get("width") == "40"
    assert "max-width:none" in drawn.get("style", "")
    assert "min-width:40px" in cell.get("style", "")


def test_tuples_of_a_saver_tell_the_same(graph: Any) -> None:
    fork(graph)
    saver = graph.checkpointer
    of_saver = display.timeline(list(saver.list(CONFIG)))
    assert rows(of_saver.html) == rows(display.timeline(history(graph)).html)


def test_the_order_of_a_history_does_not_matter(graph: Any) -> None:
    fork(graph)
    assert str(display.timeline(history(graph)[::-1])) == str(display.timeline(history(graph)))


def test_a_history_that_is_cut_begins_with_a_line_from_above(graph: Any) -> None:
    steps = history(graph)[:1]
    drawn = parsed(display.timeline(steps).html).find(".//path")
    assert drawn is not None
    assert drawn.get("d") == "M10.0 0.0V15.5"
    assert rows(display.timeline(steps).html)[0][2] == ("messages + ai: Dear Bob (and 1 before it)")


def test_of_many_changes_the_first_are_shown(graph: Any) -> None:
    many = graph.get_state(CONFIG)._replace(values={f"c{n}": "x" * 90 for n in range(9)})
    (cells,) = rows(display.timeline([many]).html)
    expected = "".join(f"c{n} = {'x' * 17}…" for n in range(3))
    assert cells[2] == f"{expected}and 6 more"


def test_no_more_than_the_limit_is_shown(graph: Any) -> None:
    shown = display.timeline(history(graph), limit=2)
    assert [cells[0] for cells in rows(shown.html)] == ["0", "1"]
    assert str(shown).splitlines()[0] == "1 earlier steps are not shown"
    assert "1 earlier steps are not shown" in shown.html


def test_errors_of_nodes_are_shown() -> None:
    builder = StateGraph(MessagesState)

    def fail(state: MessagesState) -> None:
        raise RuntimeError("no <b>mail</b> server")

    builder.add_node("fail", fail)
    builder.add_edge(START, "fail")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError):
        graph.invoke({"messages": "x"}, CONFIG)
    assert "no <b>mail</b> server" in rows(display.timeline(history(graph)).html)[-1][3]


def test_an_empty_history_says_so() -> None:
    shown = display.timeline([])
    assert str(shown) == "(no checkpoints)"
    assert "".join(parsed(shown.html).itertext()).endswith("no checkpoints")
    graph = mail(InMemorySaver())
    assert str(display.timeline([graph.get_state(CONFIG)])) == "(no checkpoints)"


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</td></tr></table></div>",
    "a\u202eb\u0000c\x1b[31md\ud800e",
    "x" * 100_000,
    "\n\n  lines\r\n\t",
    "&lt;&amp;",
    "]]><!--",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_values_are_escaped_and_cut(text: str) -> None:
    snapshot = StateSnapshot(
        values={"messages": [HumanMessage(text)], text: text, "nested": {text: [text]}},
        next=(text,),
        config={"configurable": {"checkpoint_id": text, "checkpoint_ns": text}},
        metadata={"source": text, "step": text},  # type: ignore[typeddict-item]
        created_at=text,
        parent_config=None,
        tasks=(),
        interrupts=(),
    )
    shown = display.timeline([snapshot])
    assert len(rows(shown.html)) == 1
    assert len(shown.html) < 20_000
    assert len(str(shown).splitlines()) == 1
    assert len(str(shown)) < 2_000
    assert not set("\u202e\x00\x1b\ud800\n") & set(str(shown) + shown.html)


class Cruel:
    """A value whose every method fails."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError

    def __str__(self) -> str:
        raise RuntimeError


def test_values_that_fail_or_hold_themselves_are_described() -> None:
    endless: list[Any] = []
    endless.append(endless)
    told = changes(
        {"cruel": Cruel(), "array": np.zeros(3)},
        {"cruel": Cruel(), "array": np.ones(3), "endless": endless},
    )
    assert [change.channel for change in told] == ["cruel", "array", "endless"]
    assert all(change.effect for change in told)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {"count": 1}, ["count = 1"]),
        ({"count": 1}, {"count": 1}, []),
        ({"log": ["a"]}, {"log": ["a", "b"]}, ["log + b"]),
        ({"log": ["a"]}, {"log": ["a", "b", "c"]}, ["log + c (and 1 before it)"]),
        ({"log": ["a", "b"]}, {"log": ["b"]}, ["log = b"]),
        ({"log": ["a"]}, {"log": []}, ["log = []"]),
        ({}, {"log": [], "text": ""}, []),
        ({"gone": 1}, {}, ["gone removed"]),
        ({}, {"plan": {"a": 1.5}}, ["plan = a: 1.5"]),
    ],
)
def test_changes(before: dict[str, Any], after: dict[str, Any], expected: list[str]) -> None:
    assert [str(change) for change in changes(before, after)] == expected


def test_a_message_that_calls_tools_names_them() -> None:
    call = AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "1"}])
    assert [str(change) for change in changes({}, {"messages": [call]})] == [
        "messages + ai calls search"
    ]


def changed_tuple(**fields: Any) -> CheckpointTuple:
    config: Any = {"configurable": {"thread_id": "1", "checkpoint_id": "1"}}
    return CheckpointTuple(config, empty_checkpoint(), {})._replace(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"config": {}},
        {"config": {"configurable": {}}},
        {"config": {"configurable": {"checkpoint_id": Cruel()}}},
        {"config": None},
        {"parent_config": {"configurable": {"checkpoint_id": Cruel()}}},
        {"parent_config": 7},
        {"checkpoint": {}},
        {"metadata": 7},
        {"pending_writes": 7},
    ],
)
def test_a_tuple_that_is_none_is_named_in_one_line(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"^history ") as caught:
        display.timeline([changed_tuple(**fields)])
    assert "\n" not in str(caught.value)


def test_metadata_that_cannot_be_written_is_described() -> None:
    shown = display.timeline([changed_tuple(metadata={"step": Cruel(), "source": Cruel()})])
    assert [cell[:6] for cell in rows(shown.html)[0][:2]] == ["<Cruel", "<Cruel"]


@pytest.mark.parametrize("wrong", [None, "history", 3, [3], {"a": 1}, [None]])
def test_what_is_no_history_is_named(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="history"):
        display.timeline(wrong)


def test_a_single_snapshot_is_no_history(graph: Any) -> None:
    with pytest.raises(InvalidInputError, match="history"):
        display.timeline(graph.get_state(CONFIG))


async def test_an_async_history_says_how_to_collect_it(graph: Any) -> None:
    told = graph.aget_state_history(CONFIG)
    with pytest.raises(InvalidInputError, match="async for"):
        display.timeline(told)
    await told.aclose()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("short", "short"),
        ("0123456789", "0123456789"),
        ("0123456789x", "012345678…"),
        ("a\n b", "a b"),
    ],
)
def test_one_line_cuts_at_its_length(text: str, line: str) -> None:
    assert one_line(text, 10) == line
