"""The conversation: a user at a thread of theirs, and its commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

HELP = """\
/new               start a new thread            /user NAME  be another user
/threads           list your threads             /open N  go on with thread N of that list
/history           list the turns of this thread /back N  go back to turn N and go on from there
/memories [QUERY]  what is known of you          /help /quit"""

NO_NAME = "A user's name is 1 to 40 letters, digits, blanks or one of _.@-"
SHOWN = 100
"""Characters of a message or memory that a line of a list shows."""


class Conversation:
    """A user at a thread of theirs, and what they can do there besides talking."""

    def __init__(self, graph: Any, memory: Any, user: str) -> None:
        self._graph, self._memory = graph, memory
        self.user, self.thread_id, self._title = user, "", ""
        self._checkpoint: dict[str, str] = {}
        self._commands: dict[str, Callable[[str], str]] = {
            "/new": self.new,
            "/user": self.switch_user,
            "/threads": self.threads,
            "/open": self.open,
            "/history": self.history,
            "/back": self.back,
            "/memories": self.memories,
            "/help": lambda _: HELP,
        }
        self.new()

    @property
    def prompt(self) -> str:
        """The user and the thread."""
        return f"{self.user} {self.thread_id}> "

    def answer(self, line: str) -> str:
        """Do what a line says: a command, or something to talk about."""
        if not line.startswith("/"):
            return self.say(line)
        name, _, argument = line.partition(" ")
        command = self._commands.get(name)
        return (
            command(argument.strip())
            if command
            else f"There is no command {short(name)} (see /help)."
        )

    def say(self, text: str) -> str:
        """Let the graph answer, on from the newest checkpoint of the thread or from the one gone
        back to.
        """
        self._title = self._title or short(text, 40)
        message = {"role": "user", "content": text}
        state = self._graph.invoke(
            {"messages": [message]}, self._config(), context={"namespace": self._namespace()}
        )
        self._checkpoint = {}
        return str(state["messages"][-1].text)

    def _config(self) -> dict[str, Any]:
        """Name the thread. The user's name and the title reach its metadata, by which threads are
        listed.
        """
        thread = {"thread_id": self.thread_id, "user_id": self.user, **self._checkpoint}
        return {"configurable": thread, "metadata": {"title": self._title}}

    def new(self, _: str = "") -> str:
        """Start a thread. It is stored with its first turn."""
        self.thread_id, self._title, self._checkpoint = uuid4().hex[:8], "", {}
        return "A new thread."

    def switch_user(self, name: str) -> str:
        """Become another user, in a new thread."""
        if not is_name(name):
            return NO_NAME
        self.user = name
        self.new()
        return self.greeting()

    def greeting(self) -> str:
        """Say how much is known of the user from before."""
        threads, memories = len(self._threads(100)), len(self._memories(limit=100))
        if not threads and not memories:
            return f"Hello {self.user}, we have not met before."
        return (
            f"Welcome back, {self.user}. Known of you from before: {memories} memories, "
            f"{threads} threads."
        )

    def _threads(self, limit: int) -> list[Any]:
        found: list[Any] = self._memory.saver.list_threads(
            filter={"user_id": self.user}, limit=limit
        )
        return found

    def threads(self, _: str) -> str:
        """List the user's threads, newest first."""
        lines = [
            f"{'*' if thread.thread_id == self.thread_id else ' '}{number:2}  "
            f"{thread.updated_at.astimezone():%Y-%m-%d %H:%M}  {thread.thread_id}  "
            f"{thread.metadata.get('title', '')}"
            for number, thread in enumerate(self._threads(20), 1)
        ]
        return "\n".join(lines) or "No thread of yours is stored yet."

    def open(self, number: str) -> str:
        """Go on with a thread of the list."""
        thread = _chosen(self._threads(20), number)
        if thread is None:
            return f"There is no thread {short(number)} (see /threads)."
        self.thread_id, self._title, self._checkpoint = (
            thread.thread_id,
            thread.metadata.get("title", ""),
            {},
        )
        return f"On with {self.thread_id}: {self._title}"

    def _turns(self) -> list[Any]:
        """Return the checkpoints at which an answer had been given, oldest first, over all
        forks.
        """
        config = {"configurable": {"thread_id": self.thread_id}}
        history = self._graph.get_state_history(config)
        return [state for state in history if state.values.get("messages") and not state.next][::-1]

    def history(self, _: str) -> str:
        """List the turns of the thread; the star is on the one that the next message goes on
        from.
        """
        turns = self._turns()
        here = self._checkpoint.get("checkpoint_id") or (turns and checkpoint_id(turns[-1]))
        lines = [
            f"{'*' if checkpoint_id(turn) == here else ' '}{number:2}  "
            f"{len(turn.values['messages']):3} messages, the last you wrote: "
            f"{short(turn.values['messages'][-2].text, 60)}"
            for number, turn in enumerate(turns, 1)
        ]
        return "\n".join(lines) or "This thread has no turn yet."

    def back(self, number: str) -> str:
        """Return to an earlier turn. What comes next is a fork of the thread; memories stay as they
        are.
        """
        turn = _chosen(self._turns(), number)
        if turn is None:
            return f"There is no turn {short(number)} (see /history)."
        self._checkpoint = {"checkpoint_id": checkpoint_id(turn)}
        return f"Back at: {short(turn.values['messages'][-2].text)}"

    def _namespace(self) -> tuple[str, ...]:
        """Return the user's namespace: no label of one holds the period of a mail address."""
        namespace: tuple[str, ...] = self._memory.user(self.user).namespace
        return namespace

    def _memories(self, **options: Any) -> list[Any]:
        found: list[Any] = self._memory.store.search((*self._namespace(), "memories"), **options)
        return found

    def memories(self, query: str) -> str:
        """List what is known of the user: the newest first, or what fits the query best."""
        found = self._memories(query=query or None, limit=10 if query else 100)
        scores = ["" if memory.score is None else f"{memory.score:5.2f}  " for memory in found]
        lines = [
            f"  {score}{short(str(memory.value.get('text', memory.value)))}"
            for score, memory in zip(scores, found, strict=True)
        ]
        return "\n".join(lines) or f"Nothing is known of {self.user}."


def is_name(name: str) -> bool:
    """Tell whether a user can have this name."""
    return bool(re.fullmatch(r"[\w.@ -]{1,40}", name))


def _chosen(options: list[Any], number: str) -> Any | None:
    """Return the option of this number, counted from 1."""
    index = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0
    return options[index - 1] if 1 <= index <= len(options) else None


def checkpoint_id(state: Any) -> str:
    """Return the id of the checkpoint that a state was read from."""
    return str(state.config["configurable"]["checkpoint_id"])


def short(text: str, length: int = SHOWN) -> str:
    """Fit a text into one line."""
    line = " ".join(text[: 2 * length].split())
    return line if len(line) <= length else line[: length - 3] + "..."
