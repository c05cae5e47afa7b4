"""An agent of LangChain with LangMem's tools that `langgraph dev` serves in a test: a file by
itself, which the server imports.
"""

from __future__ import annotations

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langmem import create_manage_memory_tool, create_search_memory_tool

from support.agents import ScriptedModel, obeying

OF_USER = ("memories", "{user_id}")

agent = create_agent(
    ScriptedModel(reply=obeying),
    [create_manage_memory_tool(OF_USER), create_search_memory_tool(OF_USER)],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"manage_memory": True})],
)
