"""What the tests of clients share: a model that follows a script, and both memories on each kind of
client.

A scenario is played twice in the same way, on LangGraph's in-memory classes and on MongoDB, and
must tell the same."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from mongomem import MongoCache, MongoSaver, MongoStore
from support.savers import client_of
from support.stores import words

KINDS = ("blocking", "threaded", "awaiting", "bridged")
"""MongoClient called sync and async, AsyncMongoClient awaited, and AsyncMongoClient called sync by
worker threads."""


@dataclass(frozen=True, slots=True)
class Memories:
    """A saver, a store, a cache, and the way in which everything that uses them is called."""

    kind: str
    saver: Any
    store: Any
    cache: Any

    async def call(self, target: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of an agent, a tool, a backend or a store by the name of its sync twin."""
        if self.kind == "blocking":
            return getattr(target, name)(*args, **kwargs)
        if self.kind == "bridged":
            return await asyncio.to_thread(partial(getattr(target, name), *args, **kwargs))
        return await getattr(target, f"a{name}")(*args, **kwargs)

    async def history(self, agent: Any, config: Any) -> list[Any]:
        """Collect the states of a thread, newest first."""
        if self.kind in ("threaded", "awaiting"):
            return [state async for state in agent.aget_state_history(config)]
        return await self.call(_Collected(agent), "history", config)


@dataclass(frozen=True, slots=True)
class _Collected:
    agent: Any

    def history(self, config: Any) -> list[Any]:
        return list(self.agent.get_state_history(config))


@asynccontextmanager
async def memories_of(kind: str, uri: str, db_name: str) -> AsyncIterator[Memories]:
    """Make both memories and the cache on a client of a kind."""
    async with client_of("awaiting" if kind == "bridged" else kind, uri) as client:
        store = MongoStore(client, db_name, index=words())
        yield Memories(kind, MongoSaver(client, db_name), store, MongoCache(client, db_name))


Scenario = Callable[[Memories], Awaitable[Iterable[Any]]]


async def assert_as_in_memory(scenario: Scenario, memories: Memories) -> None:
    """Play a scenario on both; compare what it tells but for ids, times and the last digits of
    scores.
    """
    in_memory = Memories(
        memories.kind, InMemorySaver(), InMemoryStore(index=words()), InMemoryCache()
    )
    expected, told = [_told(await scenario(each)) for each in (in_memory, memories)]
    assert told == expected


_VARYING = re.compile(
    r"(?P<id>[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})"
    r"|(?P<time>\d{4}-\d\d-\d\d[T ][\d:.]+(?:\+00:00|Z)?)"
    r"|(?P<number>\d\.\d+)"
)


def _told(answers: Iterable[Any]) -> list[str]:
    """Write answers down with each id as the number of its first mention."""
    ids: dict[str, str] = {}

    def shorter(found: re.Match[str]) -> str:
        if found["id"]:
            return ids.setdefault(found["id"].replace("-", ""), f"id {len(ids)}")
        return "time" if found["time"] else f"{float(found['number']):.3f}"

    return [
        _VARYING.sub(shorter, json.dumps(answer, default=_plain, ensure_ascii=False))
        for answer in answers
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, BaseMessage):
        calls = [[call["name"], call["args"]] for call in getattr(value, "tool_calls", ())]
        return {"type": value.type, "content": value.content, "calls": calls}
    return value.dict() if hasattr(value, "dict") else str(value)


class ScriptedModel(BaseChatModel):
    """A chat model whose `reply` makes the next message of the messages so far. It ignores which
    tools are bound.
    """

    reply: Callable[[Sequence[BaseMessage]], AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_options: Any) -> Runnable[Any, Any]:
        return self.bind()

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_options: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.reply(messages))])


def calling(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    """Make the message that calls tools by name."""
    made = [
        ToolCall(name=name, args=args, id=f"call {number}")
        for number, (name, args) in enumerate(calls)
    ]
    return AIMessage("", tool_calls=made)


def obeying(messages: Sequence[BaseMessage]) -> AIMessage:
    """Do what a person says who speaks JSON, a list of [tool, arguments]; then repeat what the
    tools answered.
    """
    if messages[-1].type == "human":
        return calling(*json.loads(str(messages[-1].content)))
    answers: list[str] = []
    for message in reversed(messages):
        if message.type != "tool":
            break
        answers.insert(0, str(message.content))
    return AIMessage("; ".join(answers))


def says(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Make the input of an agent on an obeying model."""
    return {"messages": [{"role": "user", "content": json.dumps(calls)}]}
