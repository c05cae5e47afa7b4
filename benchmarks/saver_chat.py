"""The application that every saver runs: a chatbot over ``MessagesState``, one thread, two messages
a turn.
"""

from __future__ import annotations

import random
import string
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, MessagesState, StateGraph

Saver = BaseCheckpointSaver[Any]

MESSAGE_CHARACTERS = 1024
LETTERS = string.ascii_lowercase + "      "
"""Random letters with a space after about four of them: text of words that no compression shortens
much."""


class WrongStateError(AssertionError):
    """A saver gave back another state than it was given."""


def random_text(source: random.Random, characters: int = MESSAGE_CHARACTERS) -> str:
    return "".join(source.choices(LETTERS, k=characters))


@dataclass(frozen=True, slots=True)
class Taken:
    """What a turn took, in seconds.

    Attributes:
        wall: From the call to its return.
        cpu: What this process computed meanwhile, on all of its threads; others on the machine
            matter little to it.
    """

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Script:
    """What is said, the same for every saver: human and AI in turn."""

    messages: tuple[AnyMessage, ...]

    @classmethod
    def of(cls, turns: int, seed: int = 1) -> Script:
        """Write a conversation."""
        source = random.Random(seed)
        kinds = (HumanMessage, AIMessage) * turns
        return cls(
            tuple(
                kind(random_text(source), id=str(UUID(int=source.getrandbits(128), version=4)))
                for kind in kinds
            )
        )

    def until(self, turn: int) -> list[AnyMessage]:
        """Return the messages that are there once `turn` is over."""
        return list(self.messages[: 2 * turn])

    def check(self, messages: Sequence[AnyMessage], where: str) -> None:
        """Compare messages that were read with the beginning of the script.

        Raises:
            WrongStateError: They differ.
        """
        if list(messages) != list(self.messages[: len(messages)]):
            raise WrongStateError(f"{where}: the messages read back are not those that were said")


@dataclass(frozen=True, slots=True)
class Chat:
    """A thread of one saver that follows the script."""

    name: str
    saver: Saver
    graph: Any
    config: RunnableConfig
    script: Script

    @classmethod
    def on(cls, name: str, saver: Saver, script: Script, thread_id: str = "chat") -> Chat:
        """Compile START -> chatbot -> END with the saver."""

        def chatbot(state: MessagesState) -> dict[str, Any]:
            return {"messages": [script.messages[len(state["messages"])]]}

        builder = StateGraph(MessagesState)
        builder.add_node("chatbot", chatbot)
        builder.add_edge(START, "chatbot")
        builder.add_edge("chatbot", END)
        config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
        return cls(name, saver, builder.compile(checkpointer=saver), config, script)

    def with_saver(self, saver: Saver) -> Chat:
        """Return the same thread, seen through another saver object."""
        return Chat.on(self.name, saver, self.script, self.config["configurable"]["thread_id"])

    def play(self, turn: int) -> Taken:
        """Say the human's line of a turn and get the answer; return what it took."""
        line = self.script.messages[2 * turn - 2]
        begin, cpu = time.perf_counter(), time.process_time()
        state = self.graph.invoke({"messages": [line]}, self.config)
        taken = Taken(time.perf_counter() - begin, time.process_time() - cpu)
        self._check(state, turn)
        return taken

    def jump(self, done: int, turn: int) -> None:
        """Bring the thread from the end of turn `done` to that of `turn` by one update of its
        state.
        """
        lines = list(self.script.messages[2 * done : 2 * turn])
        self.graph.update_state(self.config, {"messages": lines}, as_node="chatbot")

    def state(self, turn: int) -> float:
        """Read the state as it is after a turn; return the seconds it took."""
        begin = time.perf_counter()
        snapshot = self.graph.get_state(self.config)
        elapsed = time.perf_counter() - begin
        self._check(snapshot.values, turn)
        return elapsed

    def history(self, turn: int, limit: int) -> float:
        """Read the newest checkpoints of the history; return the seconds it took."""
        begin = time.perf_counter()
        snapshots = list(self.graph.get_state_history(self.config, limit=limit))
        elapsed = time.perf_counter() - begin
        self._check(snapshots[0].values, turn)
        self._check_history([snapshot.values.get("messages", []) for snapshot in snapshots], limit)
        return elapsed

    def listing(self, limit: int) -> float:
        """List checkpoints with their writes, keeping none; return the seconds that the saver
        took.
        """
        elapsed, lengths = 0.0, []
        found = iter(self.saver.list(self.config, limit=limit))
        while True:
            begin = time.perf_counter()
            one = next(found, None)
            elapsed += time.perf_counter() - begin
            if one is None:
                break
            messages = one.checkpoint["channel_values"].get("messages", [])
            self.script.check(messages, self.name)
            for _, channel, value in one.pending_writes or []:
                if channel == "messages":  # the lines that come next
                    self.script.check([*messages, *value], f"{self.name}, pending writes")
            lengths.append(len(messages))
        self._check_lengths(lengths, limit)
        return elapsed

    def _check(self, state: dict[str, Any], turn: int) -> None:
        if len(state["messages"]) != 2 * turn:
            raise WrongStateError(
                f"{self.name}: {len(state['messages'])} messages after turn {turn}"
            )
        self.script.check(state["messages"], self.name)

    def _check_history(self, states: Iterable[Sequence[AnyMessage]], limit: int) -> None:
        states = list(states)
        for messages in states:
            self.script.check(messages, self.name)
        self._check_lengths([len(messages) for messages in states], limit)

    def _check_lengths(self, lengths: Sequence[int], limit: int) -> None:
        if len(lengths) != limit or sorted(lengths, reverse=True) != list(lengths):
            raise WrongStateError(
                f"{self.name}: {len(lengths)} checkpoints of {limit}, or in another order"
            )
