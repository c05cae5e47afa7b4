"""The graph of the chatbot: LangGraph as anyone writes it.

graph = build_graph(responder).compile(checkpointer=memory.saver, store=memory.store)
graph.invoke({"messages": "Hello"}, {"configurable": {"thread_id": "1", "user_id": "ada"}},
context=User(("ada",)))

Nothing here knows that its memories are in MongoDB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from responder import Responder

RECALLED = 3
"""How many memories the chatbot calls to mind for a message."""


@dataclass(frozen=True)
class User:
    """Whom the graph talks to: the context of a run, and the namespace of what is theirs."""

    namespace: tuple[str, ...]


def build_graph(responder: Responder) -> StateGraph[MessagesState, User]:
    """Build a chat of one node: recall what fits the last message, answer it, keep what was
    learned.
    """

    def chat(state: MessagesState, runtime: Runtime[User]) -> dict[str, Any]:
        namespace = (*runtime.context.namespace, "memories")
        last_message = state["messages"][-1].text
        memories = runtime.store.search(namespace, query=last_message, limit=RECALLED)
        reply = responder.respond(state["messages"], memories)
        for fact in reply.learned:
            runtime.store.put(namespace, fact.key, {"text": fact.text, "kind": fact.kind})
        return {"messages": [{"role": "assistant", "content": reply.text}]}

    builder = StateGraph(MessagesState, context_schema=User)
    builder.add_node(chat)
    builder.add_edge(START, "chat")
    return builder
