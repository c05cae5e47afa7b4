"""Subgraphs in every combination of persistence, with removals between their calls: what remembers
goes on so.
"""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import TASKS
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from mongomem.checkpoint.saver import MongoSaver
from support.graphs import Play
from support.savers import saver_of

pytestmark = pytest.mark.shares_database

PERSISTENCE: dict[str, Any] = {"of a call": None, "of its own": True, "none": False}
"""What a subgraph may be compiled with, see ``checkpointer`` of ``StateGraph.compile``."""


class Turn(TypedDict, total=False):
    said: str
    told: Annotated[list, operator.add]


class Remembering(Turn, total=False):
    notes: Annotated[list, operator.add]


def remembering(saver: Any, outer: str, inner: str, *, asks: bool) -> Any:
    """Compile three graphs in each other; the two subgraphs note every turn, and tell how many they
    remember.
    """

    def note(state: Remembering) -> Any:
        said = f"{state['said']} ({interrupt('sure?')})" if asks else state["said"]
        return {"notes": [said], "told": [f"inner knows {len(state.get('notes', []))}"]}

    innermost = StateGraph(Remembering).add_node("note", note).add_edge(START, "note")
    middle = StateGraph(Remembering)
    middle.add_node(
        "count",
        lambda state: {"notes": [1], "told": [f"outer knows {len(state.get('notes', []))}"]},
    )
    middle.add_node("inner", innermost.compile(checkpointer=PERSISTENCE[inner]), input_schema=Turn)
    middle.add_edge(START, "count").add_edge("count", "inner")
    root = (
        StateGraph(Turn)
        .add_node("outer", middle.compile(checkpointer=PERSISTENCE[outer]))
        .add_edge(START, "outer")
    )
    return root.compile(checkpointer=saver)


@pytest.fixture
async def play(mongo_uri: str, database_name: str, kind: str) -> AsyncIterator[Play]:
    async with saver_of(kind, mongo_uri, database_name, grace=timedelta(0)) as saver:
        yield Play(saver, kind in ("awaiting", "threaded"))


async def turn(play: Play, graph: Any, number: int, *, asks: bool, between: Any = None) -> Any:
    """Play one turn, as a run of its own; `between` is done while it waits for an answer, and
    behind it.
    """
    run: Any = play.thread() | {"metadata": {"run_id": f"run {number}"}}
    result = await play.call(graph, "invoke", {"said": f"turn {number}"}, run)
    if asks:
        if between is not None:
            await between()
        result = await play.call(graph, "invoke", Command(resume=f"answer {number}"), run)
    if between is not None:
        await between()
    return result["told"]


RULES: dict[str, dict[str, Any]] = {
    "the newest": {},
    "the last two": {"keep_last": 2},
    "what is older": {"older_than": timedelta(0)},
}


@pytest.mark.parametrize("kind", ["blocking"])
@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("inner", PERSISTENCE)
@pytest.mark.parametrize("outer", PERSISTENCE)
async def test_pruning_between_turns_changes_no_answer(
    outer: str, inner: str, rule: str, asks: bool, play: Play
) -> None:
    async def prune() -> None:
        await play.call(
            play.saver, "prune", [play.thread()["configurable"]["thread_id"]], **RULES[rule]
        )

    ours = remembering(play.saver, outer, inner, asks=asks)
    theirs = remembering(InMemorySaver(), outer, inner, asks=asks)
    for number in range(4):
        told = await turn(play, ours, number, asks=asks, between=prune)
        assert told == await turn(play, theirs, number, asks=asks), f"turn {number}"
    states = [
        await play.call(graph, "get_state", play.thread(), subgraphs=True)
        for graph in (ours, theirs)
    ]
    assert states[0].values == states[1].values


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_pruning_leaves_one_checkpoint_of_each_namespace_that_outlives_a_call(
    play: Play,
) -> None:
    graph = remembering(play.saver, "of its own", "of its own", asks=False)
    for number in range(3):
        await turn(play, graph, number, asks=False)
    await play.call(play.saver, "prune", [play.thread()["configurable"]["thread_id"]])
    left = [
        one.config["configurable"]["checkpoint_ns"]
        async for one in play.each(play.saver, "list", play.thread())
    ]
    assert sorted(left) == ["", "outer", "outer|inner"]


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_pruning_takes_what_belongs_to_finished_calls(play: Play) -> None:
    graph = remembering(play.saver, "of a call", "of a call", asks=False)
    for number in range(3):
        await turn(play, graph, number, asks=False)
    await play.call(play.saver, "prune", [play.thread()["configurable"]["thread_id"]])
    left = [
        one.config["configurable"]["checkpoint_ns"]
        async for one in play.each(play.saver, "list", play.thread())
    ]
    assert left == [""]


@pytest.mark.parametrize("kind", ["blocking"])
@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("inner", PERSISTENCE)
@pytest.mark.parametrize("outer", PERSISTENCE)
async def test_a_removed_run_is_as_if_it_had_not_been(
    outer: str, inner: str, asks: bool, play: Play
) -> None:
    ours = remembering(play.saver, outer, inner, asks=asks)
    theirs = remembering(InMemorySaver(), outer, inner, asks=asks)
    for number in (0, 1, 2):
        await turn(play, ours, number, asks=asks)
    await play.call(play.saver, "delete_for_runs", ["run 2"])
    for number in (0, 1):
        await turn(play, theirs, number, asks=asks)
    assert await turn(play, ours, 3, asks=asks) == await turn(play, theirs, 3, asks=asks)


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_an_earlier_run_may_go_and_its_subgraph_remembers(play: Play) -> None:
    ours, theirs = (
        remembering(saver, *["of its own"] * 2, asks=False)
        for saver in (play.saver, InMemorySaver())
    )
    for number in (0, 1, 2):
        assert await turn(play, ours, number, asks=False) == await turn(
            play, theirs, number, asks=False
        )
    await play.call(play.saver, "delete_for_runs", ["run 0", "run 1"])
    assert await turn(play, ours, 3, asks=False) == await turn(play, theirs, 3, asks=False)


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_what_a_user_wrote_into_a_subgraph_outlives_the_run_that_called_it(
    play: Play,
) -> None:
    ours = remembering(play.saver, "of its own", "none", asks=False)
    await turn(play, ours, 0, asks=False)
    own = [one async for one in play.each(play.saver, "list", play.thread(checkpoint_ns="outer"))]
    written = {**own[0].checkpoint, "id": f"{own[0].checkpoint['id']}-by-hand"}
    metadata = {"source": "update", "step": 9, "parents": own[0].metadata["parents"]}
    await play.call(play.saver, "put", own[0].config, written, metadata, {})
    await play.call(play.saver, "delete_for_runs", ["run 0"])
    left = [one async for one in play.each(play.saver, "list", play.thread())]
    assert [one.checkpoint for one in left] == [written]


@pytest.mark.parametrize("kind", ["blocking", "awaiting", "mongomock"])
async def test_pruning_leaves_the_sends_that_an_old_head_left_with_its_parent(play: Play) -> None:
    saver: MongoSaver = play.saver

    async def put(config: Any, checkpoint_id: str) -> Any:
        checkpoint = {
            "v": 2,
            "id": checkpoint_id,
            "ts": "2025-01-01T00:00:00+00:00",
            "channel_values": {"said": checkpoint_id},
            "channel_versions": {"said": saver.get_next_version(None, None)},
            "versions_seen": {},
        }
        return await play.call(
            saver, "put", config, checkpoint, {"source": "loop", "step": 0, "parents": {}}, {}
        )

    config = play.thread(checkpoint_ns="")
    for number in range(3):
        config = await put(config, f"checkpoint {number}")
        await play.call(saver, "put_writes", config, [(TASKS, f"send {number}")], f"task {number}")
    config = await put(config, "head")
    for _ in range(2):
        await play.call(saver, "prune", [play.thread()["configurable"]["thread_id"]])
        head = await play.call(saver, "get_tuple", play.thread(checkpoint_ns=""))
        assert head.checkpoint["channel_values"] == {"said": "head", TASKS: ["send 2"]}
        assert head.parent_config is None
        assert [one.config async for one in play.each(saver, "list", play.thread())] == [config]
