"""The one place where a plan becomes one that is observed."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, TypeVar

from mongomem.arguments import shown
from mongomem.engine.clients import database_name_of
from mongomem.engine.commands import Plan
from mongomem.engine.runners import named
from mongomem.errors import ConfigurationError
from mongomem.telemetry.operation import Operation, Span
from mongomem.telemetry.slow_lines import tell_if_slow
from mongomem.telemetry.subjects import subject_of

T = TypeVar("T")

SPANS = "opentelemetry.trace"
"""The module that an application imports to provide spans. It is not imported for it: where nobody
has, nobody provides any."""


@dataclass(frozen=True, slots=True)
class Observer:
    """Observes the operations of one saver, store or cache, where anybody looks.

    Attributes:
        memory: Whose operations: ``"saver"``, ``"store"`` or ``"cache"``.
        database: The name of its database.
        collection: The name of the collection that holds what it keeps.
        slow_ms: From how many milliseconds on an operation is logged; None for none.
    """

    memory: str
    database: str
    collection: str
    slow_ms: float | None

    @classmethod
    def of(
        cls, memory: str, client: Any, db_name: str | None, collection: str, slow_ms: object
    ) -> Observer:
        """Make the observer of what is built on a client. Does no I/O.

        Raises:
            ConfigurationError: `slow_ms` is no number of milliseconds.
        """
        name = database_name_of(client, db_name)
        return cls(memory, name, collection, checked_slow_ms(slow_ms))

    def __call__(self, name: str, plan: Plan[T], **arguments: object) -> Plan[T]:
        """Return a plan that does what `plan` does and is observed, or `plan` itself where nobody
        looks.

        Args:
            name: What the operation is called.
            plan: What it does. Not begun.
            **arguments: What tells its subject, see `subjects.READERS`.
        """
        if self.slow_ms is None and not spans_are_wanted():
            return plan
        return named(self._observed(name, plan, arguments), plan)

    async def _observed(self, name: str, plan: Plan[T], arguments: dict[str, object]) -> T:
        operation = Operation(self.memory, name, subject_of(arguments))
        operation.span = self._span(operation)
        error: BaseException | None = None
        try:
            return await operation.observe(plan)
        except BaseException as raised:
            error = raised
            raise
        finally:
            operation.end(error)
            self._tell(operation)
            operation.error = error = None  # or they would hold this frame, which holds them

    def _span(self, operation: Operation) -> Span | None:
        if not spans_are_wanted():
            return None
        from mongomem.telemetry.spans import OperationSpan

        return OperationSpan(operation, self.database, self.collection)

    def _tell(self, operation: Operation) -> None:
        if operation.span is not None:
            operation.span.end(operation)
        if self.slow_ms is not None:
            tell_if_slow(operation, self.slow_ms)


def spans_are_wanted() -> bool:
    """Say whether the application has a provider of spans."""
    api: Any = sys.modules.get(SPANS)
    try:
        return api is not None and type(api.get_tracer_provider()) is not api.ProxyTracerProvider
    except AttributeError:  # another thread is importing it
        return False


def checked_slow_ms(slow_ms: object) -> float | None:
    """Return a number of milliseconds from 0 on, or None.

    Raises:
        ConfigurationError: It is neither.
    """
    if slow_ms is None:
        return None
    number = _number(slow_ms)
    if number is None or not 0 <= number < math.inf:  # which NaN is not
        raise ConfigurationError(
            f"slow_ms must be milliseconds from 0 on, or None, not {shown(slow_ms)}"
        )
    return number


def _number(value: object) -> float | None:
    """Return a number as a plain one, whatever a subclass says of itself; None for anything
    else.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else None
