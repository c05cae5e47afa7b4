"""What this package assumes about LangChain's message classes: which there are, where pydantic
keeps their state, and which values are plain. Pure.

`mongomem.checkpoint.serde.copies` and the message cache copy messages without calling them. The
slots that they read and set are private to pydantic, so the message cache compares what it does
with the installed versions before it relies on them (`MessageCache`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from langchain_core import messages
from langchain_core.messages import BaseMessage

MESSAGE_TYPES: frozenset[type[Any]] = frozenset(
    {
        messages.AIMessage,
        messages.AIMessageChunk,
        messages.ChatMessage,
        messages.FunctionMessage,
        messages.HumanMessage,
        messages.SystemMessage,
        messages.ToolMessage,
    }
)
"""The classes whose messages are copied and cached: they have no private state, add nothing when
they are deserialized, and are allowed by every serializer (``SAFE_MSGPACK_TYPES`` of langgraph)."""

SLOTS = frozenset(
    {
        "__dict__",
        "__pydantic_fields_set__",
        "__pydantic_extra__",
        "__pydantic_private__",
    }
)
"""The slots of a message, which hold all of its state."""

LEAVES = frozenset({type(None), bool, int, float, str, bytes})
"""The types of values that nobody can change. Exactly these: a subclass may have state."""

set_slot = object.__setattr__

SPECIMEN_FIELDS: dict[str, Any] = {
    "content": [{"type": "text", "text": "a", "index": 0}],
    "additional_kwargs": {"nested": {"list": [1, 2.5, None, True, b"a"]}, "empty": {}},
    "more": {"extra": [""]},
}
"""The fields of a specimen, with a value of every plain type; ``more`` is an extra field. The
others have their defaults."""

SPECIMEN_FIELDS_BY_TYPE: dict[str, dict[str, Any]] = {
    "AIMessage": {
        "tool_calls": [{"name": "look", "args": {"at": [1]}, "id": "c", "type": "tool_call"}],
        "usage_metadata": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    },
    "ChatMessage": {"role": "critic"},
    "FunctionMessage": {"name": "f"},
    "HumanMessage": {"response_metadata": {"model_name": "m", "logprob": -0.0}, "name": "n"},
    "ToolMessage": {"tool_call_id": "c", "artifact": {"rows": [[1], []]}, "status": "error"},
}
"""Fields that only some classes have or need, by the name of the class."""


def specimen(message_type: type[Any], label: str) -> BaseMessage:
    """Make a message of a class, with an id of its own for every label."""
    own = SPECIMEN_FIELDS_BY_TYPE.get(message_type.__name__, {})
    # Copies: what pydantic leaves shared would change under another thread that compares.
    fields = deepcopy(SPECIMEN_FIELDS | own)
    message: BaseMessage = message_type(id=f"{message_type.__name__} {label}", **fields)
    return message


def has_known_slots(message_type: type[Any]) -> bool:
    """Say whether instances of a class have no slot beside `SLOTS`, where more state might be."""
    return {
        slot for base in message_type.__mro__ for slot in _slots_of(base.__dict__.get("__slots__"))
    } == SLOTS


def _slots_of(declared: str | Sequence[str] | None) -> Sequence[str]:
    """Return the slots that a class declares; a single one may be declared by a string alone."""
    return [declared] if isinstance(declared, str) else declared or ()
