"""Data of other packages for the tests of migrations, and how the library copies it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bson import json_util
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pymongo import MongoClient

from mongomem import MongoSaver, MongoStore
from mongomem.migration.comparison import Comparison
from mongomem.migration.item_copies import ItemCopies
from mongomem.migration.parts import ItemSource, ThreadSource
from mongomem.migration.report import Report
from mongomem.migration.thread_copies import ThreadCopies
from support.graphs import asking, chain_of, counting, mapping, nested

ROOT = Path(__file__).parents[2]

FORMER = ROOT / "tests" / "fixtures" / "official_mongodb_0_2.json"
"""What langgraph-checkpoint-mongodb 0.2.0 and langgraph-store-mongodb 0.1.0 stored, with
langgraph-checkpoint 2.1: a chat, a refund that waits for an answer, two items."""

Made = Callable[[Any], Any]


def stopping_saver(opened: str, reads: int) -> str:
    """Return the source of a factory ``make_slow_saver``. The saver that it opens by an expression
    writes the file ``reached`` after some reads, and hangs.
    """
    return f"""
import time
from pathlib import Path

def make_slow_saver():
    with {opened} as saver:
        read = saver.get_tuple
        def slow(config, left=[{reads}]):
            left[0] -= 1
            if left[0] < 0:
                Path("reached").touch()
                time.sleep(3600)
            return read(config)
        saver.get_tuple = slow
        yield saver
"""


GRAPHS: Mapping[str, Made] = {
    "asking": lambda saver: asking(saver, questions=2, side_by_side=2),
    "nested": nested,
    "keeping": lambda saver: nested(saver, child_saver=True, asks=False),
    "mapping": lambda saver: mapping(saver, str),
    "counting": lambda saver: counting(saver, 3),
    "forked": lambda saver: chain_of(saver, "one", "two", "three"),
}
"""By the names of threads the graphs that fill them: interrupts side by side and in subgraphs,
memories of subgraphs, `Send`, a DeltaChannel, a fork."""

ODD = {"a.b": {"$gt": 1}, "": "empty", "user_id": "ada", "ключ": [1, None, {"n": 1.5}]}
"""Metadata with keys that MongoDB takes for something else."""


def config_of(thread_id: str, **more: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id, **more}}


def chat(saver: Any) -> Any:
    """Compile a chat whose node answers with the number of messages."""
    return (
        StateGraph(MessagesState)
        .add_node("answer", lambda state: {"messages": [AIMessage(f"{len(state['messages'])}")]})
        .add_edge(START, "answer")
        .compile(checkpointer=saver)
    )


def refund(saver: Any) -> Any:
    """Compile the graph that the thread "refund" of `FORMER` waits in."""

    def ask(state: MessagesState) -> Any:
        return {"messages": [AIMessage("paid" if interrupt({"amount": 42}) else "refused")]}

    return (
        StateGraph(MessagesState)
        .add_node("ask", ask)
        .add_edge(START, "ask")
        .compile(checkpointer=saver)
    )


def fill(saver: Any) -> None:
    """Let graphs of many kinds run on a saver."""
    for name, make in GRAPHS.items():
        graph, config = make(saver), config_of(name)
        given: dict[str, Any] = {"items": ["x"]} if name == "counting" else {"topic": "x"}
        for _ in range(5 if name == "counting" else 1):
            graph.invoke(given, config)
    forked = GRAPHS["forked"](saver)
    past = [*forked.get_state_history(config_of("forked"))][2]
    forked.update_state(past.config, {"log": ["forked"], "topic": "other"})
    forked.invoke(None, config_of("forked"))
    talk = chat(saver)
    for text in ("Hello", "How are you?"):
        talk.invoke(
            {"messages": [HumanMessage(text, additional_kwargs={"odd": {"a": 1}})]},
            {**config_of("chat"), "metadata": {"user_id": "ada"}},
        )
    saver.put(config_of("odd", checkpoint_ns=""), empty_checkpoint(), {"step": 1, **ODD}, {})


def store_former(client: MongoClient, db_name: str) -> dict[str, Any]:
    """Store `FORMER`; return it."""
    data: dict[str, Any] = json_util.loads(FORMER.read_text("utf-8"))
    for name, documents in data.items():
        if name != "versions":
            client[db_name][name].insert_many(documents)
    return data


def documents_of(client: MongoClient, db_name: str, *names: str) -> dict[str, Any]:
    """Return all documents and indexes of collections."""
    found: dict[str, Any] = {}
    for name in names:
        collection = client[db_name][name]
        found[name] = [*collection.find({}, sort=[("_id", 1)])], [*collection.list_indexes()]
    return found


def copy(
    client: MongoClient,
    db_name: str,
    threads: ThreadSource | None = None,
    items: ItemSource | None = None,
) -> Report:
    """Copy into a database, and compare."""
    report = Report()
    if threads is not None:
        ThreadCopies(threads, MongoSaver(client, db_name), report).make()
        Comparison(report).threads(threads, MongoSaver(client, db_name, cache_bytes=0))
    if items is not None:
        ItemCopies(items, MongoStore(client, db_name), report).make()
        Comparison(report).items(items, MongoStore(client, db_name))
    return report


def assert_same_threads(old: Any, new: Any) -> None:
    """Compare what `fill` left, as graphs see it."""
    for name, make in {**GRAPHS, "chat": chat}.items():
        config = config_of(name)
        one, other = make(old), make(new)
        history = [*one.get_state_history(config)]
        assert len(history) > 2, name
        assert [*other.get_state_history(config)] == history, name
        there, here = (graph.get_state(config, subgraphs=True) for graph in (one, other))
        assert here == there, name
