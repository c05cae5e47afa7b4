"""Spans that are kept in memory, of a provider that a test sets and takes back; and what a client
sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler
from pymongo.monitoring import CommandListener


class Spans:
    """The spans that have ended."""

    def __init__(self, sampler: Sampler = ALWAYS_ON) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=ParentBased(sampler))
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("tests")

    @property
    def own(self) -> list[ReadableSpan]:
        """Those of mongomem."""
        found = self._exporter.get_finished_spans()
        return [one for one in found if one.instrumentation_scope.name == "mongomem"]

    @property
    def operations(self) -> list[str]:
        return [f"{one.attributes['mongomem.memory']}.{name_of(one)}" for one in self.own]

    def clear(self) -> None:
        self._exporter.clear()

    def only(self) -> ReadableSpan:
        (span,) = self.own
        return span


def name_of(span: ReadableSpan) -> Any:
    return span.attributes["db.operation.name"]


@contextmanager
def provided(spans: Spans) -> Iterator[Spans]:
    """Provide spans to the process, which OpenTelemetry lets nobody take back."""
    before = trace._TRACER_PROVIDER
    trace._TRACER_PROVIDER = spans.provider
    try:
        yield spans
    finally:
        trace._TRACER_PROVIDER = before
        spans.provider.shutdown()


class Sent(CommandListener):
    """The commands that a client sent, and the span that was current where each was."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []
        self.spans: list[int] = []

    def started(self, event: Any) -> None:
        self.commands.append(dict(event.command))
        self.spans.append(trace.get_current_span().get_span_context().span_id)

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass
