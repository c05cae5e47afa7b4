"""Whole graphs behave on MongoSaver as they do on InMemorySaver: events, states, histories, stored
checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Overwrite, StateUpdate, interrupt

from support.graphs import (
    Flaky,
    Play,
    Scenario,
    State,
    asking,
    assert_as_in_memory,
    chain_of,
    mapping,
    nested,
)
from support.savers import saver_of

SCENARIOS: dict[str, Scenario] = {}


def scenario(play: Scenario) -> Scenario:
    SCENARIOS[play.__name__] = play
    return play


@scenario
async def interrupt_and_resume(play: Play) -> None:
    graph, config = asking(play.saver, questions=2), play.thread(user_id="ada")
    await play.run(graph, {"log": []}, config)
    await play.look(graph, config)
    for answer in ("first", "second"):
        await play.run(graph, Command(resume=answer), config)
        await play.look(graph, config)


@scenario
async def interrupts_side_by_side(play: Play) -> None:
    graph, config = asking(play.saver, side_by_side=3), play.thread()
    await play.run(graph, {"log": []}, config)
    state = await play.look(graph, config)
    first, *others = sorted(state.interrupts, key=lambda one: one.value["of"])
    await play.run(graph, Command(resume={first.id: "one"}), config)
    await play.look(graph, config)
    await play.run(graph, Command(resume={one.id: one.value["of"] for one in others}), config)
    await play.look(graph, config)


@scenario
async def sends_map_and_reduce(play: Play) -> None:
    graph, config = mapping(play.saver, lambda number: f"number {number}", size=8), play.thread()
    await play.run(graph, {"log": []}, config)
    await play.look(graph, config)


@scenario
async def sends_that_ask(play: Play) -> None:
    graph, config = (
        mapping(play.saver, lambda number: interrupt(number) if number % 2 else number),
        play.thread(),
    )
    await play.run(graph, {"log": []}, config)
    state = await play.look(graph, config)
    await play.run(
        graph, Command(resume={one.id: one.value * 10 for one in state.interrupts}), config
    )
    await play.look(graph, config)


@scenario
async def sends_of_which_one_fails(play: Play) -> None:
    failing, runs = {2}, []

    def work(number: int) -> str:
        runs.append(number)
        if number in failing:
            time.sleep(0.3)  # until the others are done: what they wrote is kept
            raise Flaky(number)
        return f"number {number}"

    graph, config = mapping(play.saver, work), play.thread()
    await play.run(graph, {"log": []}, config)
    await play.look(graph, config)
    failing.clear()
    await play.run(graph, None, config)
    await play.look(graph, config)
    play.seen.append(sorted(runs))


@scenario
async def errors_then_retry(play: Play) -> None:
    failures = [Flaky("once"), Flaky("twice")]

    def node(state: State) -> State:
        if failures:
            raise failures.pop(0)
        return {"log": ["done"]}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph, config = builder.compile(checkpointer=play.saver), play.thread()
    await play.run(graph, {"log": ["begin"]}, config)
    for _ in range(2):
        await play.look(graph, config)
        await play.run(graph, None, config)
    await play.look(graph, config)


@scenario
async def subgraphs_that_inherit(play: Play) -> None:
    graph, config = nested(play.saver), play.thread()
    await play.run(graph, {"log": []}, config)
    state = await play.look(graph, config)
    child = state.tasks[0].state
    await play.look(graph, child.config)
    await play.look(graph, child.tasks[0].state.config)
    await play.call(graph, "update_state", child.tasks[0].state.config, {"log": ["from outside"]})
    await play.run(graph, Command(resume="yes"), config)
    await play.look(graph, config)
    await play.run(graph, {"log": ["again"]}, config)
    await play.look(graph, config)


@scenario
async def subgraphs_with_a_memory_of_their_own(play: Play) -> None:
    graph, config = nested(play.saver, child_saver=True, asks=False), play.thread()
    for turn in range(3):
        await play.run(graph, {"log": [f"turn {turn}"]}, config)
        await play.look(graph, config)


@scenario
async def long_chats_whose_messages_are_edited_in_place(play: Play) -> None:
    def node(state: MessagesState) -> dict[str, Any]:
        said = state["messages"]
        said[len(said) // 2].content = f"edited when there were {len(said)}"
        said[0].additional_kwargs.setdefault("seen", []).append(len(said))
        said[1].response_metadata = {"score": 1 if len(said) % 4 == 1 else True}
        removed = [RemoveMessage(said[3].id)] if len(said) > 24 else []
        return {
            "messages": [
                *removed,
                AIMessage(f"answer {len(said)}", id=f"ai {len(said)} {said[-1].id}"),
            ]
        }

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph, config = builder.compile(checkpointer=play.saver), play.thread()
    for turn in range(14):
        asked = [
            HumanMessage(f"question {turn}", id=f"human {turn} {part}", name="ada")
            for part in range(2)
        ]
        await play.run(graph, {"messages": asked}, config, durability="sync")
        await play.call(graph, "get_state", config)
    await play.look(graph, config)


@scenario
async def updates_of_state(play: Play) -> None:
    graph, config = (
        chain_of(play.saver, "one", "two", "three", interrupt_before=["two"]),
        play.thread(),
    )
    await play.call(graph, "update_state", config, {"log": ["before anything"]}, as_node="one")
    await play.look(graph, config)
    await play.run(graph, {"log": ["begin"]}, config)
    for values, as_node in [
        ({"topic": "x"}, None),
        (None, None),
        ({"log": ["as two"]}, "two"),
        (None, END),
    ]:
        await play.call(graph, "update_state", config, values, as_node=as_node)
        await play.look(graph, config)
    await play.run(graph, None, config)
    await play.look(graph, config)


@scenario
async def updates_in_bulk(play: Play) -> None:
    graph, config = chain_of(play.saver, "one", "two", "three"), play.thread()
    steps = [
        [StateUpdate({"log": ["in"], "topic": "x" * 5000}, "__input__")],
        [StateUpdate({"log": ["by one"], "count": 1}, "one")],
        [StateUpdate({"topic": "y" * 5000}, "two")],
    ]
    await play.call(graph, "bulk_update_state", config, steps)
    await play.look(graph, config)
    await play.call(graph, "bulk_update_state", config, [[StateUpdate(None, "__copy__")]])
    await play.look(graph, config)
    older = (await play.history(graph, config))[2]
    copied = [StateUpdate([({"log": ["copied"]}, "one")], "__copy__")]
    await play.call(graph, "bulk_update_state", older.config, [copied])
    await play.look(graph, config)
    await play.run(graph, None, config)
    await play.look(graph, config)


@scenario
async def forks_and_replay(play: Play) -> None:
    runs: list[str] = []
    graph, config = chain_of(play.saver, "one", "two", "three", runs=runs), play.thread()
    await play.run(graph, {"log": ["begin"], "topic": "long " * 2000}, config)
    before_two = next(one for one in await play.history(graph, config) if one.next == ("two",))
    before_three = next(one for one in await play.history(graph, config) if one.next == ("three",))
    for values, base in [
        (None, before_three),
        ({"log": ["forked"]}, before_two),
        ({"topic": "new"}, before_two),
    ]:
        runs.clear()
        fork = await play.call(graph, "update_state", base.config, values)
        await play.run(graph, None, fork)
        await play.look(graph, config)
        play.seen.append(list(runs))
    runs.clear()
    await play.run(graph, None, before_two.config)
    play.seen.append(list(runs))
    await play.look(graph, config)


@scenario
async def overwritten_reducers(play: Play) -> None:
    builder = StateGraph(State)
    builder.add_node("clean", lambda state: {"log": Overwrite(["only this"])})
    builder.add_edge(START, "clean")
    graph, config = builder.compile(checkpointer=play.saver), play.thread()
    await play.run(graph, {"log": ["a", "b"]}, config)
    await play.run(graph, {"log": ["c"]}, config)
    await play.look(graph, config)


@scenario
async def functions_as_graphs(play: Play) -> None:
    @task
    def double(number: int) -> int:
        play.seen.append(f"double {number}")
        return number * 2

    @entrypoint(checkpointer=play.saver)
    def flow(number: int, *, previous: Any = None) -> Any:
        doubled = double(number).result()
        answer = interrupt({"doubled": doubled})
        return entrypoint.final(value=(previous, doubled, answer), save=doubled)

    config = play.thread()
    for number in (1, 2):
        await play.run(flow, number, config)
        await play.look(flow, config)
        await play.run(flow, Command(resume=f"answer {number}"), config)
        await play.look(flow, config)


async def durable(play: Play, durability: str) -> None:
    graph, config = asking(play.saver), play.thread()
    await play.run(graph, {"log": []}, config, durability=durability)
    await play.look(graph, config)
    await play.run(graph, Command(resume="yes"), config, durability=durability)
    await play.look(graph, config)
    whole, other = chain_of(play.saver, "one", "two", "three"), play.thread("other")
    await play.run(whole, {"log": []}, other, durability=durability)
    await play.look(whole, other)


@scenario
async def durability_exit(play: Play) -> None:
    await durable(play, "exit")


@scenario
async def durability_sync(play: Play) -> None:
    await durable(play, "sync")


@scenario
async def durability_async(play: Play) -> None:
    await durable(play, "async")


@scenario
async def a_channel_that_leaves_the_graph_and_returns(play: Play) -> None:
    def of(schema: Any) -> Any:
        builder = StateGraph(schema)
        builder.add_node("node", lambda state: {"log": ["node"]})
        builder.add_edge(START, "node")
        return builder.compile(checkpointer=play.saver)

    small = type("Small", (dict,), {"__annotations__": {"log": State.__annotations__["log"]}})
    config = play.thread()
    await play.run(of(State), {"log": ["a"], "topic": "kept " * 2000, "count": 7}, config)
    await play.run(of(small), {"log": ["b"]}, config)
    await play.look(of(small), config)
    await play.run(of(State), {"log": ["c"]}, config)
    await play.look(of(State), config)


@pytest.fixture
async def play(mongo_uri: str, shared_database: str, kind: str) -> AsyncIterator[Play]:
    async with saver_of(kind, mongo_uri, shared_database) as saver:
        yield Play(saver, kind in ("awaiting", "threaded"))


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_graph_is_seen_as_it_is_on_the_in_memory_saver(name: str, play: Play) -> None:
    await assert_as_in_memory(SCENARIOS[name], play)


@pytest.mark.parametrize("kind", ["mongomock", "threaded"])
@pytest.mark.parametrize(
    "name", ["interrupts_side_by_side", "subgraphs_that_inherit", "forks_and_replay"]
)
async def test_a_graph_is_seen_so_on_the_other_clients_too(name: str, play: Play) -> None:
    await assert_as_in_memory(SCENARIOS[name], play)
