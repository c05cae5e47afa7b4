"""Graphs for the tests of savers, a play of them on any saver, and what two plays have in
common.
"""

from __future__ import annotations

import dataclasses
import operator
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from pprint import pformat
from typing import Annotated, Any
from uuid import uuid4

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt
from pymongo import MongoClient
from typing_extensions import TypedDict

from support.databases import drop

MODES = ["values", "updates", "tasks", "checkpoints"]


@contextmanager
def passing_database(client: MongoClient) -> Iterator[str]:
    """Name a database that nobody else uses; drop it afterwards."""
    name = f"test_{uuid4().hex}"
    yield name
    drop(client, name)


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]
    topic: str
    count: int


class Flaky(Exception):  # noqa: N818 (a node's own exception)
    """What a node raises on purpose."""


def chain_of(saver: Any, *nodes: str, runs: list[str] | None = None, **options: Any) -> Any:
    """Compile nodes in a row; each appends its name to the log, and to `runs` when it runs."""
    builder = StateGraph(State)
    for name in nodes:

        def node(state: State, name: str = name) -> State:
            if runs is not None:
                runs.append(name)
            return {"log": [name], "count": state.get("count", 0) + 1}

        builder.add_node(name, node)
    for before, after in zip((START, *nodes), (*nodes, END), strict=True):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver, **options)


def asking(saver: Any, *, questions: int = 1, side_by_side: int = 1) -> Any:
    """Compile nodes that run side by side, each asking the same number of questions, and one that
    ends it.
    """
    builder = StateGraph(State)
    builder.add_node("begin", lambda state: {"log": ["begin"]})
    builder.add_node("finish", lambda state: {"log": ["finish"]})
    builder.add_edge(START, "begin")
    names = [f"ask{number}" for number in range(side_by_side)]
    for name in names:

        def ask(state: State, name: str = name) -> State:
            return {
                "log": [
                    f"{name}: {interrupt({'of': name, 'number': number})}"
                    for number in range(questions)
                ]
            }

        builder.add_node(name, ask)
        builder.add_edge("begin", name)
    builder.add_edge(names, "finish")
    return builder.compile(checkpointer=saver)


def mapping(saver: Any, work: Callable[[Any], Any], size: int = 4) -> Any:
    """Compile a map-reduce: one `work` for each of `size` numbers, by `Send`."""
    builder = StateGraph(State)
    builder.add_node("plan", lambda state: {"log": ["plan"]})
    builder.add_node("work", lambda one: {"log": [work(one["number"])]})
    builder.add_node("reduce", lambda state: {"count": len(state["log"])})
    builder.add_edge(START, "plan")
    builder.add_conditional_edges(
        "plan", lambda _: [Send("work", {"number": n}) for n in range(size)], ["work"]
    )
    builder.add_edge("work", "reduce")
    return builder.compile(checkpointer=saver)


def nested(saver: Any, *, child_saver: Any = None, asks: bool = True) -> Any:
    """Compile a graph that calls a child that calls a grandchild, which may ask."""
    grand = StateGraph(State)
    grand.add_node("look", lambda state: {"log": ["look"], "count": state.get("count", 0) + 1})
    grand.add_node(
        "decide", lambda state: {"log": [f"decided {interrupt('well?')}" if asks else "decided"]}
    )
    grand.add_edge(START, "look")
    grand.add_edge("look", "decide")
    child = StateGraph(State)
    child.add_node("before", lambda state: {"topic": "child"})
    child.add_node("grand", grand.compile(checkpointer=child_saver))
    child.add_edge(START, "before")
    child.add_edge("before", "grand")
    parent = StateGraph(State)
    parent.add_node("open", lambda state: {"log": ["open"]})
    parent.add_node("child", child.compile(checkpointer=child_saver))
    parent.add_node("close", lambda state: {"log": ["close"]})
    parent.add_edge(START, "open")
    parent.add_edge("open", "child")
    parent.add_edge("child", "close")
    return parent.compile(checkpointer=saver)


def extend(value: list, updates: list[list]) -> list:
    """Append updates: the reducer of a list channel, batched as a DeltaChannel wants it."""
    return [*value, *(one for update in updates for one in update)]


def counting(saver: Any, frequency: int | None) -> Any:
    """Compile a graph of one step a call whose list is a DeltaChannel, or a plain reducer where
    `frequency` is None.
    """
    channel = (
        operator.add
        if frequency is None
        else DeltaChannel(extend, list, snapshot_frequency=frequency)
    )
    schema = TypedDict("Counted", {"items": Annotated[list, channel], "last": int})  # noqa: UP013 (a type made here)
    builder = StateGraph(schema)
    builder.add_node(
        "step",
        lambda state: {"items": [f"step {len(state['items'])}"], "last": len(state["items"])},
    )
    builder.add_edge(START, "step")
    return builder.compile(checkpointer=saver)


class Steps:
    """Puts checkpoints on a thread, one on the other, as a running graph does."""

    def __init__(
        self, calls: Any, thread_id: Any = "t", namespace: str = "", **configurable: Any
    ) -> None:
        self.calls = calls
        self.config: Any = {
            "configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, **configurable}
        }
        self.values: dict[str, Any] = {}
        self.versions: dict[str, Any] = {}
        self.number = -1

    async def put(self, metadata: dict[str, Any] | None = None, **changed: Any) -> Any:
        """Put a checkpoint in which these channels have changed; return its config, to which the
        next one is put.
        """
        self.number += 1
        fresh = {channel: f"{self.number + 1:032}.{random.random()}" for channel in changed}
        self.values, self.versions = self.values | changed, self.versions | fresh
        checkpoint = {
            "v": 4,
            "id": str(uuid6()),
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": dict(self.values),
            "channel_versions": dict(self.versions),
            "versions_seen": {},
            "updated_channels": sorted(changed),
        }
        known = {"source": "loop", "step": self.number, "parents": {}} | (metadata or {})
        placed = await self.calls("put", self.config, checkpoint, known, fresh)
        self.config = {"configurable": {**self.config["configurable"], **placed["configurable"]}}
        return placed


class Play:
    """Runs graphs on one saver, sync or async, and keeps what a caller sees in `seen`."""

    def __init__(self, saver: Any, is_async: bool) -> None:
        self.saver = saver
        self.is_async = is_async
        self.prefix = str(uuid4())
        self.seen: list[Any] = []

    def thread(self, name: str = "one", **more: Any) -> dict[str, Any]:
        """Return the config of a thread that no other play has."""
        return {"configurable": {"thread_id": f"{self.prefix}/{name}", **more}}

    async def call(self, target: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method by its sync name, in the way of this play."""
        if self.is_async:
            return await getattr(target, f"a{name}")(*args, **kwargs)
        return getattr(target, name)(*args, **kwargs)

    async def each(self, target: Any, name: str, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Iterate over what a streaming method gives."""
        if self.is_async:
            async for one in getattr(target, f"a{name}")(*args, **kwargs):
                yield one
        else:
            for one in getattr(target, name)(*args, **kwargs):
                yield one

    async def run(self, graph: Any, given: Any, config: Any, **options: Any) -> None:
        """Stream a run in all modes, subgraphs too; an exception of a node is seen as an event."""
        events: list[Any] = []
        modes = {"stream_mode": MODES, "subgraphs": True} | options
        try:
            async for event in self.each(graph, "stream", given, config, **modes):
                events.append(event)
        except (Flaky, GraphInterrupt) as error:
            events.append(("raised", repr(error)))
        self.seen.append(_side_by_side_sorted(events))

    async def look(self, graph: Any, config: Any) -> Any:
        """See the state, subgraphs included, the history and every stored checkpoint; return the
        state.
        """
        state = await self.call(graph, "get_state", config, subgraphs=True)
        history = [one async for one in self.each(graph, "get_state_history", config)]
        thread = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
        stored = [one async for one in self.each(self.saver, "list", thread)]
        stored.sort(
            key=lambda one: (blank(one.config), one.config["configurable"]["checkpoint_id"])
        )
        self.seen.append({"state": state, "history": history, "stored": stored})
        return state

    async def history(self, graph: Any, config: Any) -> list[Any]:
        """Return the states of a thread, newest first."""
        return [one async for one in self.each(graph, "get_state_history", config)]


Scenario = Callable[[Play], Awaitable[None]]


async def assert_as_in_memory(scenario: Scenario, play: Play) -> None:
    """Play a scenario on the in-memory saver and by `play`; fail at the first thing that is seen to
    differ.
    """
    oracle = Play(InMemorySaver(), play.is_async)
    await scenario(oracle)
    await scenario(play)
    if difference := first_difference(normalised(oracle.seen), normalised(play.seen)):
        pytest.fail(difference)


VERSION = re.compile(r"\b0{8,}(\d+)\.[\d.]+(?:e-\d+)?")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:\+00:00|Z)")
IDENTIFIER = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b[0-9a-f]{32}\b")


def plain(value: Any) -> Any:
    """Return `value` as lists, dicts and texts that say its types and show neither times nor random
    numbers.
    """
    if isinstance(value, str):
        return TIME.sub("<time>", VERSION.sub(r"v\1", value))
    if isinstance(value, Mapping):
        # The in-memory saver gives back the very config it was asked with, LangGraph's own keys
        # included.
        return {
            plain(key): plain(one)
            for key, one in value.items()
            if not str(key).startswith("__pregel_")
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return [type(value).__name__, plain(fields)]
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return [type(value).__name__, plain(value._asdict())]
    if isinstance(value, list | tuple):
        return [type(value).__name__, *(plain(one) for one in value)]
    return value if value is None or isinstance(value, bool | int | float) else plain(repr(value))


def blank(value: Any) -> str:
    """Return a text of `value` in which all identifiers are equal, to sort by."""
    return IDENTIFIER.sub("<id>", repr(_sorted_keys(plain(value))))


def _sorted_keys(value: Any) -> Any:
    if isinstance(value, dict):
        items = [(key, _sorted_keys(one)) for key, one in value.items()]
        return dict(sorted(items, key=lambda item: IDENTIFIER.sub("<id>", repr(item))))
    return [_sorted_keys(one) for one in value] if isinstance(value, list) else value


def _side_by_side_sorted(events: list[Any]) -> list[Any]:
    """Sort what tasks of one super-step emit, which run side by side, between the checkpoints that
    bound it.
    """
    ordered: list[Any] = []
    group: list[Any] = []
    for event in events:
        if event[1] == "checkpoints" or (
            event[1] == "values" and "__interrupt__" not in (event[2] or ())
        ):
            ordered += [*sorted(group, key=blank), event]
            group = []
        else:
            group.append(event)
    return ordered + sorted(group, key=blank)


def normalised(seen: Any) -> list[str]:
    """Return lines that two plays of one scenario share: identifiers are numbered in order of
    appearance.
    """
    numbers: dict[str, int] = {}
    text = pformat(_sorted_keys(plain(seen)), width=120, sort_dicts=False)
    return IDENTIFIER.sub(
        lambda found: f"<id {numbers.setdefault(found[0], len(numbers))}>", text
    ).splitlines()


def first_difference(one: list[str], other: list[str]) -> str:
    """Return the lines about the first one that differs; pytest's own comparison of so much takes
    minutes.
    """
    for number, (left, right) in enumerate(zip_longest(one, other)):
        if left != right:
            before = one[max(0, number - 12) : number]
            return "\n".join(
                [
                    *before,
                    *(f"- {line}" for line in one[number:][:5]),
                    *(f"+ {line}" for line in other[number:][:5]),
                ]
            )
    return ""
