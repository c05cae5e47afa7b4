"""Where a checkpoint is: the part of a LangGraph config that a saver reads, checked.

Every identifier passes through here before a query is built, so a filter never holds anything but
strings: an operator such as ``{"$ne": None}`` cannot become one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias
from uuid import UUID

from bson import ObjectId
from langchain_core.runnables import RunnableConfig

from mongomem.arguments import KINDS_OF_IDS, checked_mapping, checked_text, shown, text_of
from mongomem.errors import InvalidInputError

LONGEST_IDENTIFIER = 65_536
"""In characters. An identifier stands on every document of its thread, and none may come near the
16 MB of one."""


Identifier: TypeAlias = str | int | UUID | ObjectId | Enum
"""What names a user or a thread: a string, or what stands for one (`text_of`)."""


@dataclass(frozen=True, slots=True)
class CheckpointRef:
    """A thread, a namespace in it, and a checkpoint there, or None for its newest."""

    thread_id: str
    checkpoint_ns: str = ""
    checkpoint_id: str | None = None

    def config(self) -> RunnableConfig:
        """Return the config that leads here."""
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.checkpoint_ns,
                "checkpoint_id": self.checkpoint_id,
            }
        }

    @property
    def place(self) -> tuple[str, str, str | None]:
        """Return the parts."""
        return self.thread_id, self.checkpoint_ns, self.checkpoint_id

    def at(self, checkpoint_id: str | None) -> CheckpointRef:
        """Return the ref of another checkpoint of the same namespace."""
        return CheckpointRef(self.thread_id, self.checkpoint_ns, checkpoint_id)

    def __str__(self) -> str:
        namespace = f" in {self.checkpoint_ns!r}" if self.checkpoint_ns else ""
        return f"checkpoint {self.checkpoint_id!r} of thread {self.thread_id!r}{namespace}"


def identifier(name: str, value: object) -> str:
    """Return `value` as the string that is stored: ``thread_id=7`` and ``"7"`` are one thread.

    Raises:
        InvalidInputError: It is no identifier (`text_of`), no valid Unicode, or longer than
            `LONGEST_IDENTIFIER`.
    """
    if type(value) is str and value.isascii() and len(value) <= LONGEST_IDENTIFIER:
        return value
    text = text_of(value)
    if text is None:
        raise InvalidInputError(
            f"{name} must be {KINDS_OF_IDS}, not {type(value).__name__}: {shown(value)}"
        )
    if len(text) > LONGEST_IDENTIFIER:
        raise InvalidInputError(
            f"{name} has more than {LONGEST_IDENTIFIER} characters: {shown(text)}"
        )
    return checked_text(name, text)


def channel_name(value: object) -> str:
    """Return the name of a channel.

    Raises:
        InvalidInputError: It is no string, empty, or not valid Unicode.
    """
    name = str.__str__(value) if isinstance(value, str) else ""
    if not name:
        raise InvalidInputError(
            f"the name of a channel is a string that is not empty, not {shown(value)}"
        )
    return identifier("channel", name)


def optional_identifier(name: str, value: object) -> str | None:
    """Return `value` as the string that is stored; None and "" mean that it is not given."""
    text = None if value is None else identifier(name, value)
    return text or None


def configurable(config: object) -> Mapping[str, Any]:
    """Return the ``configurable`` part of a config, which callers may have got wrong."""
    given = config if type(config) is dict else checked_mapping("config", config)
    if (found := given.get("configurable")) is None:
        raise InvalidInputError('config must be {"configurable": {"thread_id": ..., ...}}')
    return found if type(found) is dict else checked_mapping('config["configurable"]', found)


def given_thread(thread_id: object) -> str:
    """Return a thread id that a config gives.

    Raises:
        InvalidInputError: It is no identifier, or empty: that is what is left of one that was
            forgotten.
    """
    if not (text := identifier("thread_id", thread_id)):
        raise InvalidInputError(
            "the thread_id of config is empty: whoever forgets theirs would share that thread"
        )
    return text


def ref_of_config(config: RunnableConfig) -> CheckpointRef:
    """Read the ref from a config.

    Raises:
        InvalidInputError: Without a thread_id, or where a part is not an identifier.
    """
    part = configurable(config)
    if part.get("thread_id") is None:
        raise InvalidInputError(
            'config has no thread_id: pass {"configurable": {"thread_id": ...}}'
        )
    return CheckpointRef(
        given_thread(part["thread_id"]),
        optional_identifier("checkpoint_ns", part.get("checkpoint_ns")) or "",
        optional_identifier("checkpoint_id", part.get("checkpoint_id")),
    )
