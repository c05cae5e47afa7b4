"""Where a checkpoint is: the part of a LangGraph config that a saver reads, checked.

Every identifier passes through here before a query is built, so a filter never holds anything but
strings: an operator such as ``{"$ne": None}`` cannot become one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig

from mongomem.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Address:
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

    def at(self, checkpoint_id: str | None) -> Address:
        """Return the address of another checkpoint of the same namespace."""
        return Address(self.thread_id, self.checkpoint_ns, checkpoint_id)

    def __str__(self) -> str:
        namespace = f" in {self.checkpoint_ns!r}" if self.checkpoint_ns else ""
        return f"checkpoint {self.checkpoint_id!r} of thread {self.thread_id!r}{namespace}"


def identifier(name: str, value: object) -> str:
    """Return `value` as the string that is stored.

    Strings pass; ints and UUIDs become strings, so that ``thread_id=7`` and ``"7"`` are one thread.

    Raises:
        InvalidInputError: For any other type, and for a string that is not valid Unicode.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | UUID):
        raise InvalidInputError(f"{name} must be a string, not {type(value).__name__}: {value!r:.80}")
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{name} is not valid Unicode: {value!r:.80}") from error
    return text


def channel_name(value: object) -> str:
    """Return the name of a channel.

    Raises:
        InvalidInputError: It is no string, empty, or not valid Unicode.
    """
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"the name of a channel is a string that is not empty, not {value!r:.80}")
    return identifier("channel", value)


def optional_identifier(name: str, value: object) -> str | None:
    """Return `value` as the string that is stored; None and the empty string mean that it is not given."""
    return None if value is None or value == "" else identifier(name, value)


def configurable(config: object) -> Mapping[str, Any]:
    """Return the ``configurable`` part of a config, which callers may have got wrong."""
    found = config.get("configurable") if isinstance(config, Mapping) else None
    if not isinstance(found, Mapping):
        raise InvalidInputError('config must be {"configurable": {"thread_id": ..., ...}}')
    return found


def address_of(config: RunnableConfig) -> Address:
    """Read the address from a config.

    Raises:
        InvalidInputError: Without a thread_id, or where a part is not an identifier.
    """
    part = configurable(config)
    if part.get("thread_id") is None:
        raise InvalidInputError('config has no thread_id: pass {"configurable": {"thread_id": ...}}')
    return Address(
        identifier("thread_id", part["thread_id"]),
        identifier("checkpoint_ns", part.get("checkpoint_ns") or ""),
        optional_identifier("checkpoint_id", part.get("checkpoint_id")),
    )
