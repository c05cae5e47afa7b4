"""Two more uses of a saver: a thread of many small checkpoints, and one very large state."""

from __future__ import annotations

import base64
import random
import time
from typing import Any, TypedDict

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.graph import END, START, MessagesState, StateGraph

from saver_chat import Saver, WrongStateError, random_text

CHECKPOINTS_A_RUN = 3
"""What one run of the graph leaves: the input, the state before the node and the state behind
it."""

MEGABYTE = 2**20


class Note(TypedDict):
    """A state that does not grow."""

    text: str


def _texts(count: int) -> list[str]:
    source = random.Random(2)
    return [random_text(source) for _ in range(count)]


def write_notes(saver: Saver, checkpoints: int) -> None:
    """Leave a thread of checkpoints, each with a note of 1 KB, and their writes."""

    def shout(state: Note) -> dict[str, Any]:
        return {"text": state["text"].upper()}

    builder = StateGraph(Note)
    builder.add_node("shout", shout)
    builder.add_edge(START, "shout")
    builder.add_edge("shout", END)
    graph = builder.compile(checkpointer=saver)
    for text in _texts(-(-checkpoints // CHECKPOINTS_A_RUN)):
        graph.invoke({"text": text}, {"configurable": {"thread_id": "notes"}})


def list_notes(name: str, saver: Saver, checkpoints: int) -> float:
    """List the checkpoints with their writes; return the seconds it took."""
    begin = time.perf_counter()
    found = list(saver.list({"configurable": {"thread_id": "notes"}}, limit=checkpoints))
    elapsed = time.perf_counter() - begin
    _check_notes(name, found, checkpoints)
    return elapsed


def _check_notes(name: str, found: list[CheckpointTuple], checkpoints: int) -> None:
    """Compare what was listed, newest first, with the notes: run by run, the state after, before
    and at the input.
    """
    texts = _texts(-(-checkpoints // CHECKPOINTS_A_RUN))
    expected: list[tuple[str | None, list[str]]] = []
    for position, text in reversed(list(enumerate(texts))):
        earlier = texts[position - 1].upper() if position else None
        expected += [(text.upper(), []), (text, [text.upper()]), (earlier, [text])]
    listed = [
        (
            one.checkpoint["channel_values"].get("text"),
            [value for _, channel, value in one.pending_writes or [] if channel == "text"],
        )
        for one in found
    ]
    if listed != expected[:checkpoints]:
        raise WrongStateError(f"{name}: the notes listed are not those that were written")


def round_trip(writer: Saver, reader: Saver, megabytes: int) -> tuple[float, float]:
    """Store a state of so many messages of 1 MB and read it through a saver that knows nothing;
    return both times.
    """
    source = random.Random(3)
    raw = MEGABYTE * 3 // 4
    messages = [
        HumanMessage(base64.b64encode(source.randbytes(raw)).decode(), id=str(n))
        for n in range(megabytes)
    ]
    config = {"configurable": {"thread_id": "large"}}
    begin = time.perf_counter()
    _message_graph(writer).update_state(config, {"messages": messages}, as_node="nothing")
    stored = time.perf_counter()
    found = _message_graph(reader).get_state(config).values["messages"]
    read = time.perf_counter()
    if found != messages:
        raise WrongStateError("the large state read back is not the one that was stored")
    return stored - begin, read - stored


def _nothing(_: MessagesState) -> dict[str, Any]:
    return {}


def _message_graph(saver: Saver) -> Any:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("nothing", _nothing)
    builder.add_edge(START, "nothing")
    return builder.compile(checkpointer=saver)
