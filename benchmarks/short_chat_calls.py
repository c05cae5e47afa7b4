"""The saver calls of a short chat: recorded once from a real graph, and repeated on every saver."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from pymongo import WriteConcern

from saver_chat import Chat, Saver, Script, WrongStateError

TURNS = 20

OPERATIONS = ("put", "put_writes", "get_tuple")

Call = tuple[str, tuple[Any, ...]]
"""The name of a method, and its arguments; the first is a config."""


class Recorder(InMemorySaver):
    """Keeps what a graph asks of its saver."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def get_tuple(self, config: Any) -> Any:
        self.calls.append(("get_tuple", (config,)))
        return super().get_tuple(config)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        values = {
            channel: value.copy() if isinstance(value, list) else value
            for channel, value in checkpoint["channel_values"].items()
        }
        own = {**checkpoint, "channel_values": values}
        self.calls.append(("put", (config, own, metadata, new_versions)))
        return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.calls.append(("put_writes", (config, list(writes), task_id, task_path)))
        super().put_writes(config, writes, task_id, task_path)


def recorded_calls(turns: int = TURNS) -> list[Call]:
    """Play a chat and return what it asked of its saver, in order."""
    recorder = Recorder()
    chat = Chat.on("recorded", recorder, Script.of(turns))
    for turn in range(1, turns + 1):
        chat.play(turn)
    return recorder.calls


@dataclass(slots=True)
class Taken:
    """What the calls of one operation took, in seconds."""

    wall: list[float] = field(default_factory=list)
    cpu: float = 0.0


@dataclass(slots=True)
class Replayed:
    """What a saver took for the recorded calls, by operation."""

    turns: int = 0
    taken: dict[str, Taken] = field(default_factory=lambda: {name: Taken() for name in OPERATIONS})

    def wall_ms(self, operation: str) -> float:
        """Return the median of a call."""
        return 1e3 * statistics.median(self.taken[operation].wall)

    def cpu_ms(self, operation: str) -> float:
        """Return the mean of a call."""
        return 1e3 * self.taken[operation].cpu / len(self.taken[operation].wall)

    def turn_ms(self, of_call: Callable[[str], float]) -> float:
        """Return what the calls of one turn come to."""
        return sum(
            of_call(name) * len(taken.wall) / self.turns for name, taken in self.taken.items()
        )


class NoServer:
    """Answers writes at once, as a database or as a collection: what is left of a put is the code
    of its saver.
    """

    write_concern = WriteConcern("majority")

    def command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        return {"ok": 1.0, "n": len(command["updates"])}

    def update_one(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


def repeat_puts(saver: Saver, calls: Sequence[Call], thread_id: str, into: Replayed) -> None:
    """Make the recorded puts alone, of which nothing is read back."""
    _make([call for call in calls if call[0] == "put"], saver, thread_id, into)


def replay(saver: Saver, calls: Sequence[Call], thread_id: str, into: Replayed) -> None:
    """Make the recorded calls on a thread of a saver, one after the other.

    Raises:
        WrongStateError: The last state is not the one that was put.
    """
    _make(calls, saver, thread_id, into)
    last = next(others[0] for name, (_, *others) in reversed(calls) if name == "put")
    found = saver.get_tuple({"configurable": {"thread_id": thread_id}})
    if found is None or found.checkpoint["channel_values"] != last["channel_values"]:
        raise WrongStateError(f"{type(saver).__name__}: the last state is not the one that was put")


def _make(calls: Sequence[Call], saver: Saver, thread_id: str, into: Replayed) -> None:
    configurable: Mapping[str, Any]
    for name, (config, *others) in calls:
        configurable = {**config["configurable"], "thread_id": thread_id}
        arguments = ({**config, "configurable": configurable}, *others)
        method = getattr(saver, name)
        begin, cpu = time.perf_counter(), time.process_time()
        method(*arguments)
        taken = into.taken[name]
        taken.cpu += time.process_time() - cpu
        taken.wall.append(time.perf_counter() - begin)
        into.turns += name == "get_tuple"
