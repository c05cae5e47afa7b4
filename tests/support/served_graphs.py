"""Graphs that `langgraph dev` serves in a test: a file by itself, which the server imports."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from typing_extensions import TypedDict


def notes_of(config: RunnableConfig) -> tuple[str, str]:
    """Return the namespace of the user of a run."""
    return (config["configurable"]["user_id"], "notes")


async def answer(state: MessagesState, runtime: Runtime, config: RunnableConfig) -> dict[str, Any]:
    """Tell what is known; ask a person about refunds; wait for ever, or call the store in the
    wrong way, where that is said.
    """
    store: Any = runtime.store
    said = state["messages"][-1].text
    if said == "wait":
        await asyncio.Event().wait()
    if said == "block":
        store.search(notes_of(config))
    if said == "refund":
        return {"messages": [("ai", f"decided: {interrupt('a refund?')}")]}
    found = await store.asearch(notes_of(config), query=said, limit=1)
    await store.aput(notes_of(config), said, {"text": said})
    return {"messages": [("ai", f"known: {[item.value['text'] for item in found]}")]}


def count(state: MessagesState, runtime: Runtime, config: RunnableConfig) -> dict[str, Any]:
    """Ask the store from a worker thread, as sync nodes and tools do."""
    store: Any = runtime.store
    notes = store.search(notes_of(config), filter={"text": {"$ne": ""}}, limit=100)
    return {"messages": [("ai", f"{len(notes)} notes")]}


def extend(value: list[str], updates: list[list[str]]) -> list[str]:
    """Append updates, as a DeltaChannel wants it."""
    return [*value, *(one for update in updates for one in update)]


class Log(TypedDict):
    """Lines, of which a checkpoint stores what was added."""

    lines: Annotated[list[str], DeltaChannel(extend, list, snapshot_frequency=3)]


def write(state: Log) -> dict[str, Any]:
    """Add a line."""
    return {"lines": [f"line {len(state['lines'])}"]}


chat = (
    StateGraph(MessagesState)
    .add_node(answer)
    .add_node(count)
    .add_edge(START, "answer")
    .add_edge("answer", "count")
    .compile()
)
log = StateGraph(Log).add_node(write).add_edge(START, "write").compile()
