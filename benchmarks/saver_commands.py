"""How many commands go to MongoDB: for a turn, and for each operation of a saver that is warm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.base import Checkpoint
from langgraph.checkpoint.base.id import uuid6

from saver_chat import Chat, Script
from saver_peers import CommandCounter, Opened

TURNS = 5
FIRST_PAGE = 8
"""Checkpoints in the first page of a listing; so many are asked for, that it is one page."""


@dataclass(frozen=True, slots=True)
class Commands:
    """Counts of commands.

    Attributes:
        durable: Those of a turn that wait for the journal.
        reads: The others of a turn.
        operations: Those of each operation.
        levels: How many levels of names lie above the longest value, for mongomem.
    """

    durable: float
    reads: float
    operations: dict[str, int]
    levels: int


def count_commands(opened: Opened, script: Script, turn: int) -> Commands:
    """Count on a thread that is at `turn`, with a saver that has played one more."""
    if opened.counted is None:
        raise ValueError(f"{opened.name} has no commands to count")
    counter = CommandCounter()
    chat = Chat.on(opened.name, opened.counted(counter), script, "counted")
    chat.play(1)
    chat.jump(1, turn)
    chat.play(turn + 1)
    counter.sent.clear()
    for following in range(turn + 2, turn + 2 + TURNS):
        chat.play(following)
    durable, total = counter.durable, counter.sent.total()
    operations = _count_operations(opened, chat, counter)
    return Commands(durable / TURNS, (total - durable) / TURNS, operations, _levels(opened))


def _count_operations(opened: Opened, chat: Chat, counter: CommandCounter) -> dict[str, int]:
    latest = chat.saver.get_tuple(chat.config)
    if latest is None:
        raise ValueError(f"{opened.name} has no checkpoint of the chat")
    following = _following(chat, latest.checkpoint)
    steps: dict[str, Callable[[], Any]] = {
        "put": lambda: chat.saver.put(
            latest.config, following, {"source": "loop", "step": 0, "parents": {}}, {}
        ),
        "put_writes": lambda: chat.saver.put_writes(
            latest.config, [("messages", chat.script.messages[:1])], "task"
        ),
        "get_tuple": lambda: chat.saver.get_tuple(chat.config),
        "list, first page": lambda: list(chat.saver.list(chat.config, limit=FIRST_PAGE)),
    }
    found = {name: _counted(counter, step) for name, step in steps.items()}
    cold_counter = CommandCounter()
    cold = opened.counted(cold_counter) if opened.counted else chat.saver
    cold_counter.sent.clear()  # the official saver reads its indexes in the constructor
    cold.get_tuple(chat.config)
    return found | {"get_tuple, cold": cold_counter.sent.total()}


def _following(chat: Chat, checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint behind this one, by one message."""
    versions, values = dict(checkpoint["channel_versions"]), dict(checkpoint["channel_values"])
    versions["messages"] = chat.saver.get_next_version(versions["messages"], None)
    values["messages"] = [*values["messages"], chat.script.messages[0]]
    return {
        **checkpoint,
        "id": str(uuid6()),
        "channel_versions": versions,
        "channel_values": values,
    }


def _counted(counter: CommandCounter, step: Callable[[], Any]) -> int:
    counter.sent.clear()
    step()
    return counter.sent.total()


def _levels(opened: Opened) -> int:
    newest = opened.database["mongomem_checkpoints"].find_one(
        {"thread_id": "counted"}, sort=[("checkpoint_id", -1)]
    )
    return max(
        (len(value.get("chunks", [])) for value in (newest or {}).get("channels", [])), default=0
    )
