"""The beginning of the last message of a thread, as lists of threads show it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from langgraph.checkpoint.base import Checkpoint

CHANNEL = "messages"
"""The channel of LangGraph's ``MessagesState``."""

LONGEST_PREVIEW = 120
"""In characters."""

MOST_LOOKED_AT = 4
"""Messages from the end that are looked at: the last ones of a step may be calls of tools, which have no text."""

FIELD = "preview"
"""The name that ``clear_metadata`` has to hold for a preview to stand readable beside an encrypting serializer."""


def preview_of(checkpoint: Checkpoint, checkpoint_ns: str, clear: Collection[str] | None) -> dict[str, str | None]:
    """Return the field of a thread document that a checkpoint changes: none where it holds no messages of the thread.

    A thread whose messages are gone has None.
    """
    messages = checkpoint["channel_values"].get(CHANNEL)
    if checkpoint_ns or not isinstance(messages, list) or not (clear is None or FIELD in clear):
        return {}
    texts = (_text(message) for message in reversed(messages[-MOST_LOOKED_AT:]))
    return {FIELD: next(filter(None, texts), None)}


def _text(message: object) -> str:
    """Return the beginning of a message's text on one line; empty for what has none."""
    try:
        content: Any = message.get("content") if isinstance(message, Mapping) else getattr(message, "content", message)
        said = content if isinstance(content, str) else "".join(map(_block_text, content))
    except Exception:  # whatever a message of the caller's own class does
        return ""
    line = " ".join(said[: 2 * LONGEST_PREVIEW].split())[:LONGEST_PREVIEW]
    return line.encode(errors="ignore").decode()


def _block_text(block: Any) -> str:
    text = block.get("text") if isinstance(block, Mapping) else block
    return text if isinstance(text, str) else ""
