"""Classes that a serializer did not revive while a value was read.

LangGraph's serializers give plain data in the place of an object whose class they are not to call,
and tell it by an event alone (langgraph.checkpoint.serde.event_hooks). A copy would keep the plain
data for good, so such a checkpoint is left out instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener

from mongomem.errors import InvalidInputError


@contextmanager
def all_revived() -> Iterator[None]:
    """Read values, and refuse them where a class was not revived.

    Raises:
        InvalidInputError: At the end, names the classes.
    """
    blocked: dict[str, None] = {}

    def heard(event: SerdeEvent) -> None:
        if event["kind"] == "msgpack_blocked":
            blocked[f"{event['module']}.{event['name']}"] = None

    unregister = register_serde_event_listener(heard)
    try:
        yield
    finally:
        unregister()
    if blocked:
        raise InvalidInputError(
            f"it holds objects of {', '.join([*blocked][:3])}, whose module is not imported: "
            "--import imports it"
        )
