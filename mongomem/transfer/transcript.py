"""The messages of a thread, for people: role, text and time. Pure.

A message is told once, with the time of the first checkpoint that holds it: in the order in which
they came, also those that were removed from the state later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mongomem.checkpoint.documents.preview import CHANNEL


@dataclass(slots=True)
class Lines:
    """The messages that were met so far.

    Attributes:
        told: One each, as JSON.
        marks: What tells one message from another.
    """

    told: list[dict[str, Any]] = field(default_factory=list)
    marks: set[Hashable] = field(default_factory=set)

    def add(self, messages: object, time: object, *, are_new: bool = False) -> None:
        """Tell the messages that were not told yet. Those without an id are told apart by their
        text, unless `are_new` says that all are.
        """
        counts: Counter[Hashable] = Counter()
        for message in messages if isinstance(messages, list) else [messages]:
            line = _line(message)
            if line is None:
                continue
            own_id = _field(message, "id")
            said = (own_id, line["role"], line["text"])
            counts[said] += 1
            mark = (*said, counts[said])
            if mark not in self.marks or (are_new and own_id is None):
                self.marks.add(mark)
                self.told.append({**line, "time": time if isinstance(time, str) else None})


@dataclass(slots=True)
class Transcript:
    """The messages of a thread: as its checkpoints hold them, or, where a DeltaChannel leaves them
    in the pending writes, as those do.
    """

    stored: Lines = field(default_factory=Lines)
    written: Lines = field(default_factory=Lines)
    is_delta: bool = False

    @property
    def lines(self) -> list[dict[str, Any]]:
        return self.written.told if self.is_delta else self.stored.told

    def add(
        self, checkpoint: Mapping[str, Any], stored: Sequence[Any], written: Sequence[Any]
    ) -> None:
        """Take in the next checkpoint.

        Args:
            checkpoint: The checkpoint without its channels.
            stored: The messages that it holds, if any.
            written: The messages of each of its writes.
        """
        time = checkpoint.get("ts")
        self.is_delta |= not stored and CHANNEL in checkpoint["channel_versions"]
        for held in stored:
            # A snapshot of a DeltaChannel is a named tuple of one value (``_DeltaSnapshot``).
            messages = held[0] if isinstance(held, tuple) and len(held) == 1 else held
            self.stored.add(messages, time)
            if not self.written.told:
                self.written.add(messages, time)
        for messages in written:
            self.written.add(messages, time, are_new=True)


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
