"""Draw ``overview.svg``: what a chatbot leaves behind in MongoDB, from a real run.

    python docs/picture.py      draws it anew

Nothing in it differs from run to run: a test compares the picture with another run.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from pymongo import MongoClient

from mongomem import LocalServer, MongoMemory, user_namespace
from mongomem.display import timeline

PICTURE = Path(__file__).parent / "overview.svg"
INDEX: Any = {"embed": "local", "dims": 256, "fields": ["text"]}

WIDTH, MARGIN, LINE, SIZE = 980, 24, 19, 13
GREEN, INK, PAPER, PANEL = "#15803d", "#18181b", "#ffffff", "#f4f4f5"
LANES = {"●": "#3b82f6", "─": "#16a34a", "╮": "#16a34a", "│": "#16a34a"}
"""Colours of the signs that draw the branches of a thread."""

Panel = tuple[str, list[str]]
"""A title, and lines of text below it."""


def answer(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
    """Remember a statement, and answer a question by what is remembered."""
    namespace = (*user_namespace(runtime.context["user_id"]), "memories")
    text = state["messages"][-1].text
    if text.endswith("?"):
        found = runtime.store.search(namespace, query=text, limit=1)  # type: ignore[union-attr]
        return {"messages": [("ai", found[0].value["text"])]}
    runtime.store.put(namespace, text, {"text": text})  # type: ignore[union-attr]
    return {"messages": [("ai", "I shall remember that.")]}


def conversation(graph: Any, memory: MongoMemory) -> list[Panel]:
    """Talk on two threads of one user, and go back once; return panels of title and lines."""
    ada = memory.user("ada")
    context = {"user_id": ada.id}
    said = []
    for thread, text in (
        ("monday", "My dog is called Brunel."),
        ("monday", "I live in Lisbon."),
        ("tuesday", "Do I have a pet?"),
    ):
        state = graph.invoke({"messages": text}, ada.config(thread), context=context)
        said.append(f"{thread:<8} ada: {text:<26} ai: {state['messages'][-1].text}")
    earlier = [*graph.get_state_history(ada.config("monday"))][3]
    graph.invoke({"messages": "I live in Porto."}, earlier.config, context=context)
    history = str(timeline(graph.get_state_history(ada.config("monday")))).splitlines()
    return [
        ("A user talks on two threads", said),
        ("MongoSaver keeps every step of the thread monday, and a fork of it", history),
    ]


def documents(database: Any) -> list[str]:
    """Return stored documents as lines, as mongosh shows them, shortened."""
    checkpoints, items = database["mongomem_checkpoints"], database["mongomem_store_items"]
    lines = []
    for one in checkpoints.find({"type": "thread"}).sort("thread_id", 1):
        shown = {"thread_id": one["thread_id"], **one["members"], "preview": one["preview"]}
        lines.append(json.dumps(shown))
    for one in items.find().sort("key", 1):
        shown = {"namespace": one["namespace"], "value": one["value"], "vectors": "..."}
        lines.append(json.dumps(shown))
    return lines


def coloured(line: str) -> str:
    """Return a line as SVG, the signs of branches in colour: those of the first in blue."""
    parts = []
    for place, sign in enumerate(line):
        colour = LANES["│"] if sign == "●" and place else LANES.get(sign)
        text = html.escape(sign)
        parts.append(text if colour is None else f'<tspan fill="{colour}">{text}</tspan>')
    return "".join(parts)


def drawn(panels: list[Panel]) -> str:
    """Return the panels as SVG: a title and lines of text each."""
    parts, y = [], MARGIN
    for title, lines in panels:
        height = LINE * len(lines) + 18
        parts.append(
            f'<text x="{MARGIN}" y="{y + 4}" fill="{GREEN}" font-weight="600" '
            f'font-family="system-ui, sans-serif">{html.escape(title)}</text>'
            f'<rect x="{MARGIN}" y="{y + 14}" width="{WIDTH - 2 * MARGIN}" height="{height}" '
            f'rx="6" fill="{PANEL}"/>'
        )
        for row, line in enumerate(lines):
            parts.append(
                f'<text x="{MARGIN + 14}" y="{y + 36 + row * LINE}" fill="{INK}" '
                f'xml:space="preserve">{coloured(line)}</text>'
            )
        y += height + 44
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - 16}" '
        f'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" '
        f'font-size="{SIZE}">\n<rect width="{WIDTH}" height="{y - 16}" fill="{PAPER}"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def picture() -> str:
    """Run the chatbot on a server of its own; return what it left behind, as SVG."""
    builder = StateGraph(MessagesState, context_schema=dict)  # type: ignore[type-var]
    builder.add_node(answer).add_edge(START, "answer")
    with LocalServer(throw_away=True) as server:
        memory = MongoMemory.connect(server.uri, db_name="app", index=INDEX)
        graph = builder.compile(checkpointer=memory.saver, store=memory.store)
        panels = conversation(graph, memory)
        with MongoClient[Any](server.uri) as client:
            title = "What is readable in the database: threads, and the items of MongoStore"
            panels.append((title, documents(client["app"])))
        memory.close()
    return drawn(panels)


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")
