"""Operations as spans of OpenTelemetry. Imported only where the process has imported
``opentelemetry.trace`` already: who wants spans has.

The names follow the semantic conventions for database client spans
(https://opentelemetry.io/docs/specs/semconv/database/database-spans/), and ``mongomem.*`` is what
they have no name for. An error is told by its type and, where the server refused something, by its
code. Its text, and the traceback with it, may hold values, and are not told.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from pymongo.errors import OperationFailure

from mongomem.telemetry.operation import Operation

SCOPE = "mongomem"


@lru_cache(maxsize=1)
def _tracer_of(provider: Any) -> trace.Tracer:
    try:
        own: str | None = version("mongomem")
    except PackageNotFoundError:  # used from its source, not installed
        own = None
    tracer: trace.Tracer = provider.get_tracer(SCOPE, own)
    return tracer


class OperationSpan:
    """The span of one operation, a child of the span that is current where the operation began."""

    __slots__ = ("_span", "is_recorded")

    def __init__(self, operation: Operation, database: str, collection: str) -> None:
        attributes: dict[str, Any] = {
            "db.system.name": "mongodb",
            "db.namespace": database,
            "db.collection.name": collection,
            "db.operation.name": operation.name,
            "mongomem.memory": operation.memory,
            **operation.subject,
        }
        tracer = _tracer_of(trace.get_tracer_provider())
        self._span = tracer.start_span(
            f"{operation.name} {collection}", kind=SpanKind.CLIENT, attributes=attributes
        )
        self.is_recorded = self._span.is_recording()

    def current(self) -> AbstractContextManager[object]:
        """Make the span the parent of what is begun inside, in whichever thread or task."""
        return trace.use_span(self._span, record_exception=False, set_status_on_exception=False)

    def end(self, operation: Operation) -> None:
        """Tell what was counted, and how it ended."""
        if self.is_recorded:
            self._span.set_attributes(_counts(operation))
            if operation.error is not None:
                self._tell_error(operation.error)
        self._span.end()

    def _tell_error(self, error: BaseException) -> None:
        kind = type(error)
        self._span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}")
        if isinstance(error, OperationFailure) and (code := _code_of(error)) is not None:
            self._span.set_attribute("db.response.status_code", str(code))
        self._span.set_status(Status(StatusCode.ERROR, kind.__name__))


def _code_of(error: OperationFailure) -> int | None:
    """Return the code of the server; of a write of several the first one that was refused."""
    refused = (error.details or {}).get("writeErrors") or [{}]
    code: int | None = refused[0].get("code", error.code)
    return code


def _counts(operation: Operation) -> dict[str, int]:
    counts = {
        "mongomem.round_trips": operation.round_trips,
        "mongomem.sent_bytes": operation.sent_bytes,
        "mongomem.received_bytes": operation.received_bytes,
    }
    if operation.hits or operation.misses:
        counts["mongomem.cache.hits"] = operation.hits
        counts["mongomem.cache.misses"] = operation.misses
    return counts
