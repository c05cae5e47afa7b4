"""A personal assistant that writes its own memories: the model calls tools, the tools are methods
of `memory.user(...)`.

    python examples/assistant.py --user ada

With OPENAI_API_KEY a model of the OpenAI API calls the tools (OPENAI_MODEL, OPENAI_BASE_URL), else
a few rules do. The server is that of MONGODB_URI, or one of this machine (extra `server`).

    remember(text)            one sentence about the user, found again by its meaning
    recall(query)             the memories that fit best
    forget(key)               one memory less
    update_profile(changes)   what there is one of: name, home, language; a JSON Merge Patch

The tools are told whose memories they are by the context of the run, never by the model: no prompt
makes it read those of somebody else. `create_agent` of langchain takes the same tools, with
``context_schema=Context``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
    trim_messages,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import ToolNode, ToolRuntime, tools_condition
from langgraph.runtime import Runtime
from langgraph.store.base import Item
from openai import OpenAI, OpenAIError
from pymongo.errors import ConnectionFailure, PyMongoError

from mongomem import MongoMemory, User, local_uri
from mongomem.errors import InvalidInputError, MongomemError

RECALLED = 5
LAST_MESSAGES = 40
"""How many messages of the thread the model reads."""

MOST_STEPS, STEPS_OF_A_CALL = 16, 3
"""Of a turn, and of a model that calls a tool and answers. A model that only calls tools is
stopped."""


# The tools. `runtime` is given by ToolNode, and is not shown to the model.


@dataclass(frozen=True)
class Context:
    """Whom a run is for."""

    user: User


@tool
def remember(text: str, runtime: ToolRuntime[Context]) -> str:
    """Keep a lasting fact about the user, in one short sentence."""
    # The same fact has the same key: a tool that runs again after a crash adds nothing.
    key = runtime.context.user.remember(text, key=str(uuid5(NAMESPACE_OID, text.casefold())))
    return f"Remembered under {key}."


@tool
def recall(query: str, runtime: ToolRuntime[Context]) -> str:
    """Find what was remembered about the user: one memory a line, with its key, the best first."""
    found = runtime.context.user.recall(query, limit=RECALLED)
    return "\n".join(f"{item.key}: {text_of(item)}" for item in found) or "Nothing."


@tool
def forget(key: str, runtime: ToolRuntime[Context]) -> str:
    """Delete one memory, by the key that recall gave."""
    runtime.context.user.forget(key)
    return "Forgotten."


@tool
def update_profile(changes: dict[str, Any], runtime: ToolRuntime[Context]) -> str:
    """Change the profile of the user, for what there is one of, such as name, home or language.

    A JSON object of what changes; null removes a key.
    """
    profile = runtime.context.user.update_profile(changes)
    return f"The profile is now {json.dumps(profile, default=str)}"


TOOLS: list[BaseTool] = [remember, recall, forget, update_profile]


def text_of(item: Item) -> str:
    """Return what a memory says; all of one that another program stored without a text."""
    return str(item.value.get("text", item.value))


def told(error: Exception) -> str:
    """Tell the model what went wrong with its call of a tool.

    Without the database there is no going on: that ends the turn, and the next one repeats the
    call. Anything else would fail again and again.
    """
    if isinstance(error, ConnectionFailure):
        raise error
    return f"That failed: {type(error).__name__}: {short(error)}"


def short(error: Exception) -> str:
    """Fit an error into one line."""
    return " ".join(clean(str(error)).split())[:300]


def clean(text: str) -> str:
    """Replace what UTF-8 cannot say: halves of characters, which JSON lets through."""
    return text.encode(errors="replace").decode()


# The graph.

Model = Callable[[Sequence[AnyMessage]], AIMessage]
"""Answers messages, or asks for tools to be called."""

PROMPT = (
    "You are a personal assistant who remembers across conversations. Keep what will matter later: "
    "facts by `remember`, what there is one of by `update_profile`. Look things up by `recall` "
    "before you say that you do not know. The profile of this user: {profile}"
)


class State(MessagesState):
    """The messages of a thread, and how many steps the turn may still take."""

    remaining_steps: RemainingSteps


def build_graph(model: Model) -> StateGraph[State, Context, State, State]:
    """Build the loop of an agent: the model, the tools that it asks for, the model again."""

    def answer(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        if state["remaining_steps"] < STEPS_OF_A_CALL:
            return {"messages": [AIMessage("I called many tools, and have no answer.")]}
        profile = json.dumps(runtime.context.user.profile(), default=str)
        recent: Any = trim_messages(
            state["messages"],
            max_tokens=LAST_MESSAGES,
            token_counter=len,
            start_on="human",  # no answer of a tool without its call
        )
        return {"messages": [model([SystemMessage(PROMPT.format(profile=profile)), *recent])]}

    builder = StateGraph(State, context_schema=Context)
    builder.add_node("model", answer)
    builder.add_node("tools", ToolNode(TOOLS, handle_tool_errors=told))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder


# Who answers.


class OpenAIModel:
    """A model behind the OpenAI API, or one that speaks its protocol (OPENAI_BASE_URL)."""

    def __init__(self) -> None:
        self._client = OpenAI(timeout=60)
        self._name = os.environ.get("OPENAI_MODEL") or "gpt-4o-mini"
        self._tools: Any = [convert_to_openai_tool(each) for each in TOOLS]
        self.introduction = f"{self._name} at {self._client.base_url.host} answers."

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __call__(self, messages: Sequence[AnyMessage]) -> AIMessage:
        asked: Any = convert_to_openai_messages(messages)
        completion = self._client.chat.completions.create(
            model=self._name, messages=asked, tools=self._tools
        )
        if not completion.choices:
            return AIMessage("(no answer)")
        message = completion.choices[0].message
        calls, said = [], [clean(message.content or "")]
        for call in message.tool_calls or ():
            if call.type == "function":
                name, arguments = clean(call.function.name), clean(call.function.arguments)
                try:
                    calls.append(tool_call(name, read_arguments(arguments), clean(call.id)))
                except (ValueError, RecursionError):
                    said.append(f"(It called {name} with no JSON object: {arguments[:300]})")
        return AIMessage("\n".join(filter(None, said)), tool_calls=calls)


def read_arguments(text: str) -> dict[str, Any]:
    """Read the arguments of a tool.

    Raises:
        ValueError: They are no JSON object, or hold what cannot be sent back to the model: NaN, or
            half a character.
        RecursionError: They are nested too deeply.
    """
    arguments = json.loads(text)
    if not isinstance(arguments, dict):
        raise ValueError(text)
    json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    return arguments


VALUE = r"(?P<value>[\w-]+(?: (?!and\b|but\b)[\w-]+)*)"
STATEMENTS = {
    "name": rf"\bmy name is {VALUE}",
    "home": rf"\bI (?:now )?(?:live in|moved to) {VALUE}",
}
FACT = r"\bremember(?: that)? (?P<said>.+)|(?P<fact>\bI (?:have|like|love|hate|am|work|own)\b.+)"
FORGET = r"^forget (?:that )?(?P<what>.+)"


def rules(messages: Sequence[AnyMessage]) -> AIMessage:
    """Stand in for a model: read the user by patterns, call the tools, quote what they return."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return _after_tool(messages, last)
    if match := re.search(FORGET, last.text, re.IGNORECASE):
        return _calling("recall", query=match["what"])
    if last.text.rstrip().endswith("?"):
        return _calling("recall", query=last.text)
    profile = {
        key: match["value"]
        for key, pattern in STATEMENTS.items()
        if (match := re.search(pattern, last.text, re.IGNORECASE))
    }
    calls = [tool_call("update_profile", {"changes": profile})] if profile else []
    calls += [
        tool_call("remember", {"text": match["said"] or match["fact"]})
        for match in re.finditer(FACT, last.text, re.IGNORECASE)
    ]
    return AIMessage("" if calls else "Tell me about yourself, or ask me.", tool_calls=calls)


def _after_tool(messages: Sequence[AnyMessage], last: ToolMessage) -> AIMessage:
    """Go on after a tool: forget what was found for that, else answer."""
    asked = next(message.text for message in reversed(messages) if message.type == "human")
    if last.name == "recall" and last.text != "Nothing.":
        key, _, text = last.text.partition("\n")[0].partition(": ")
        if re.search(FORGET, asked, re.IGNORECASE):
            return _calling("forget", key=key)
        return AIMessage(f'You told me: "{text}" My notes on you: {_profile(messages)}')
    if last.name == "recall":
        return AIMessage(f"You told me nothing of it. My notes on you: {_profile(messages)}")
    return AIMessage("That is forgotten." if last.name == "forget" else "I will remember that.")


def _profile(messages: Sequence[AnyMessage]) -> str:
    return messages[0].text.rpartition("this user: ")[2]


def tool_call(name: str, arguments: dict[str, Any], call_id: str = "") -> Any:
    """Return a call of a tool, as messages hold it."""
    return {"name": name, "args": arguments, "id": call_id or str(uuid4()), "type": "tool_call"}


def _calling(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[tool_call(name, arguments)])


# The conversation.


class Assistant:
    """A user at a thread, and the agent."""

    def __init__(
        self,
        graph: CompiledStateGraph[State, Context, State, State],
        user: User,
        thread: str | None = None,
    ) -> None:
        self._graph, self._context = graph, Context(user)
        self._config: RunnableConfig = {**user.config(thread), "recursion_limit": MOST_STEPS}
        self.thread = str(self._config["configurable"]["thread_id"])

        # A thread of somebody else is none of this user's to read.
        owner = (self._graph.get_state(self._config).metadata or {}).get("user_id", user.id)
        if owner != user.id:
            raise InvalidInputError(f"thread {self.thread} is not {user.id}'s")

    def say(self, text: str) -> Iterator[str]:
        """Answer a message: a line for every call of a tool, then the answer."""
        if self._graph.get_state(self._config).next:
            # A process ended in the middle of a turn. Finish that: a model refuses messages in
            # which the answer of a tool is missing.
            yield from self._run(None)
        yield from self._run({"messages": [("user", text)]})

    def _run(self, given: Any) -> Iterator[str]:
        stream = self._graph.stream(
            given, self._config, context=self._context, stream_mode="updates"
        )
        for update in stream:
            for message in (update.get("model") or {}).get("messages", ()):
                yield from (f"  [{call['name']} {call['args']}]" for call in message.tool_calls)
                yield from filter(None, [message.text])


def greeting(user: User) -> str:
    """Tell what is known of a user."""
    profile, newest = user.profile(), user.recall(limit=RECALLED)
    if not profile and not newest:
        return f"Hello {user.id}, we have not met before."
    known = "".join(f"\n  {text_of(item)}" for item in newest)
    return f"Welcome back, {user.id}. Profile: {json.dumps(profile, default=str)}{known}"


def lines(prompt: str) -> Iterator[str]:
    """Give the lines of the keyboard, or of whatever standard input is."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    with suppress(EOFError):
        while True:
            yield input(prompt)


def converse(
    assistant: Assistant, said: Iterable[str], troubles: tuple[type[Exception], ...]
) -> None:
    """Answer line by line. Trouble with the model or the database costs a line."""
    for line in filter(None, map(str.strip, said)):
        try:
            for shown in assistant.say(line):
                print(shown)
        except troubles as trouble:
            print(f"That failed: {type(trouble).__name__}: {short(trouble)}")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="An assistant that writes its own memories.")
    parser.add_argument("--user", type=_name, default="guest", help="who you are (%(default)s)")
    parser.add_argument("--thread", help="the thread to go on with (a new one)")
    parser.add_argument("--db", default=os.environ.get("MONGOMEM_DB") or "assistant")
    parser.add_argument("--embed", default="local", help="e.g. openai:text-embedding-3-small")
    parser.add_argument("--dims", type=int, default=256, help="size of its vectors (%(default)s)")
    return parser.parse_args()


def _name(text: str) -> str:
    if not re.fullmatch(r"[\w.@ -]{1,40}", text):
        raise argparse.ArgumentTypeError("a name is 1 to 40 letters, digits, blanks or one of _.@-")
    return text


def main() -> None:
    """Talk until the lines end."""
    options = parse()
    sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.stdout.reconfigure(errors="replace", line_buffering=True)  # type: ignore[union-attr]
    index: Any = {"embed": options.embed, "dims": options.dims, "fields": ["text"]}
    troubles = (PyMongoError, MongomemError, OpenAIError)
    try:
        with ExitStack() as stack:
            model: Model = rules
            if os.environ.get("OPENAI_API_KEY"):
                model = stack.enter_context(closing(OpenAIModel()))
            memory = stack.enter_context(
                MongoMemory.from_conn_string(local_uri(), db_name=options.db, index=index)
            )
            graph = build_graph(model).compile(checkpointer=memory.saver, store=memory.store)
            user = memory.user(options.user)
            assistant = Assistant(graph, user, options.thread)
            print(getattr(model, "introduction", "Rules answer, which understand no language."))
            print(f"{greeting(user)}\n(thread {assistant.thread}; Ctrl-D ends)")
            converse(assistant, lines(f"{user.id}> "), troubles)
    except troubles as trouble:
        sys.exit(f"assistant: {type(trouble).__name__}: {short(trouble)}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
