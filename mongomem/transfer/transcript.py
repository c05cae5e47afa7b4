"""The messages of a thread, for people: role, text and time. Pure.

A message is told once, with the time of the first checkpoint that holds it: in the order in which
they came, also those that were removed from the state later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Transcript:
    """The messages of a thread that were met so far.

    Attributes:
        lines: One each, as JSON.
        told: What tells one message from another.
    """

    lines: list[dict[str, Any]] = field(default_factory=list)
    told: set[Hashable] = field(default_factory=set)

    def add(self, messages: object, time: object) -> None:
        """Tell the messages that a checkpoint of this time holds, and none before did."""
        counts: Counter[Hashable] = Counter()
        for message in messages if isinstance(messages, list) else [messages]:
            line = _line(message)
            if line is None:
                continue
            said = (_field(message, "id"), line["role"], line["text"])
            counts[said] += 1
            if (mark := (*said, counts[said])) not in self.told:
                self.told.add(mark)
                self.lines.append({**line, "time": time if isinstance(time, str) else None})


def _line(message: object) -> dict[str, str] | None:
    """Return role and text of a message; None where it has none."""
    try:
        role = _field(message, "type", "role")
        text = _text(_field(message, "content"))
    except Exception:  # whatever a message of the caller's own class does
        return None
    return {"role": role, "text": text} if isinstance(role, str) and text else None


def _field(message: object, *names: str) -> Any:
    """Return the first field of these names that a message has, an object or a dict."""
    for name in names:
        found = message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)
        if found is not None:
            return found if isinstance(found, str | list) else str(found)
    return None


def _text(content: object) -> str:
    """Return the text of a message's content, which may be blocks."""
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") if isinstance(block, Mapping) else block for block in blocks]
    said = "".join([text for text in texts if isinstance(text, str)])
    return said.encode(errors="ignore").decode()
