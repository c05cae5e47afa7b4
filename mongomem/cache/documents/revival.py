"""Values as they were when they were set, or not at all. Pure.

LangGraph's serializer gives plain data in the place of an object whose type it may not revive. A
node that ran would have given the object. So a cache that answered with the data would change what
the graph does; it answers with a miss instead.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener

from mongomem.arguments import shown
from mongomem.checkpoint.serde.serializer import ValueSerializer
from mongomem.errors import CorruptDataError

BLOCKED = frozenset({"msgpack_blocked", "msgpack_method_blocked"})
"""The events of ``JsonPlusSerializer`` that tell of a type or a method that it did not call
(langgraph-checkpoint 4.3)."""

_blocked: ContextVar[list[str] | None] = ContextVar("mongomem_cache_blocked", default=None)
"""What was blocked in the deserialization that runs here; None where none of a cache runs."""


def _note(event: SerdeEvent) -> None:
    met = _blocked.get()
    if met is not None and event["kind"] in BLOCKED:
        met.append(f"{event['module']}.{event['name']}")


register_serde_event_listener(_note)


def revive(serializer: ValueSerializer, kind: str, data: bytes) -> Any:
    """Deserialize a value.

    Raises:
        CorruptDataError: It cannot be, or a type in it is not revived.
    """
    met: list[str] = []
    token = _blocked.set(met)
    try:
        value = serializer.loads(kind, data)
    except Exception as error:  # each serializer raises errors of its own
        raise CorruptDataError(
            f"its value cannot be deserialized: {type(error).__name__}: {shown(str(error))}"
        ) from error
    finally:
        _blocked.reset(token)
    if met:
        raise CorruptDataError(f"its serializer does not revive {shown(met[0])}")
    return value
