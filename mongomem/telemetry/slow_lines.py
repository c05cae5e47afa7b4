"""The line of a slow operation, by the logger ``mongomem``."""

from __future__ import annotations

import logging

from mongomem.arguments import shown
from mongomem.telemetry.operation import Operation
from mongomem.telemetry.subjects import NAMESPACE, THREAD_ID

LOGGER = logging.getLogger("mongomem")


def tell_if_slow(operation: Operation, slow_ms: float) -> None:
    """Log an operation that has ended, where it took so many milliseconds or more."""
    taken = operation.seconds * 1000
    if taken >= slow_ms:
        LOGGER.warning("slow: %s", _told(operation, taken))


def _told(operation: Operation, taken: float) -> str:
    parts = [f"{operation.memory}.{operation.name}{_about(operation)} took {taken:.1f} ms"]
    parts.append(f"{operation.round_trips} round trip{'s' * (operation.round_trips != 1)}")
    if operation.slowest is not None:
        slowest, longest = operation.slowest.title(), operation.slowest_seconds * 1000
        parts.append(f"the slowest command {slowest} {longest:.1f} ms")
    if operation.error is not None:
        parts.append(f"raised {type(operation.error).__name__}")
    return ", ".join(parts)


def _about(operation: Operation) -> str:
    for attribute, what in ((THREAD_ID, "thread"), (NAMESPACE, "namespace")):
        if attribute in operation.subject:
            return f" of {what} {shown(operation.subject[attribute])}"
    return ""
