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
"""Messages from the end that are looked at, since the last ones may be calls of tools, which have
no text; and blocks from the beginning of each."""

FIELD = "preview"
"""The name that ``clear_metadata`` has to hold for a preview to stand readable beside an encrypting
serializer."""


def preview_of(
    checkpoint: Checkpoint, checkpoint_ns: str, clear: Collection[str] | None
) -> dict[str, str | None]:
    """Return the field of a thread document that a checkpoint changes: none where it holds no
    messages of the thread.

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
        content: Any = (
            message.get("content")
            if isinstance(message, Mapping)
            else getattr(message, "content", message)
        )
        blocks = content[:MOST_LOOKED_AT] if isinstance(content, list) else [content]
        said = "".join([_block_text(block)[: 2 * LONGEST_PREVIEW] for block in blocks])
    except Exception:  # whatever a message of the caller's own class does
        return ""
    line = " ".join(said.split())[:LONGEST_PREVIEW]
    return line.encode(errors="ignore").decode()


def _block_text(block: Any) -> str:
    text = block.get("text") if isinstance(block, Mapping) else block
    return text if isinstance(text, str) else ""
