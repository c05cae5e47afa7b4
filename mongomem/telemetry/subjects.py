"""What an operation is about: its thread, or its namespace. Read from the arguments of a call as
they were passed, so whatever is wrong about them is left out: the operation itself refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

Subject: TypeAlias = Mapping[str, str | int | tuple[str, ...]]
"""The attributes that say what an operation is about."""

THREAD_ID, NAMESPACE, BATCH_SIZE = (
    "mongomem.thread_id",
    "mongomem.namespace",
    "db.operation.batch.size",
)

LONGEST_TEXT, MOST_LABELS = 256, 16
"""How much of an identifier is told, in characters, and of how many labels."""


def subject_of(arguments: Mapping[str, object]) -> Subject:
    """Return what the arguments of a call say, by the names in `READERS`. Never raises."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        try:
            found.update(READERS[name](value))
        except Exception:  # noqa: S112 (whatever a class of the caller does)
            continue
    return found


def _text(value: object) -> str:
    """Return an identifier as text that every exporter can encode.

    Raises:
        TypeError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | UUID):
        raise TypeError("no identifier")
    text = str.__str__(value) if isinstance(value, str) else str(value)
    return text[:LONGEST_TEXT].encode("utf-8", "replace").decode()


def _of_thread(thread_id: object) -> Subject:
    return {THREAD_ID: _text(thread_id)}


def _of_config(config: Any) -> Subject:
    return _of_thread(config["configurable"]["thread_id"])


def _of_threads(thread_ids: Any) -> Subject:
    return _of_thread(thread_ids[0]) if len(thread_ids) == 1 else {BATCH_SIZE: len(thread_ids)}


def _of_namespace(namespace: Any) -> Subject:
    return {NAMESPACE: tuple(_text(label) for label in [*namespace][:MOST_LABELS])}


def _of_namespaces(namespaces: Sequence[Any]) -> Subject:
    """Say the namespace where it is one, and how many operations there are where these are more."""
    count: Subject = {BATCH_SIZE: len(namespaces)} if len(namespaces) > 1 else {}
    first = [*namespaces[0]]
    return {
        **count,
        **(_of_namespace(first) if all([*one] == first for one in namespaces) else {}),
    }


def _of_ops(ops: Any) -> Subject:
    """Read LangGraph's operations, unless reading them would use them up."""
    if not isinstance(ops, list | tuple):
        return {}
    return _of_namespaces(
        [one.namespace if hasattr(one, "namespace") else one.namespace_prefix for one in ops]
    )


def _of_batches(batches: Any) -> Subject:
    """Read the writes of operations that the store has grouped."""
    return _of_namespaces([write.namespace for one in batches for write in one.writes.values()])


def _of_keys(keys: Any) -> Subject:
    """Read pairs of a namespace and a key, or a mapping by such pairs."""
    return _of_namespaces([namespace for namespace, _ in keys])


READERS: Mapping[str, Callable[[Any], Subject]] = {
    "config": _of_config,
    "thread_id": _of_thread,
    "thread_ids": _of_threads,
    "namespace": _of_namespace,
    "namespaces": _of_namespaces,
    "ops": _of_ops,
    "batches": _of_batches,
    "keys": _of_keys,
}
"""What is read from an argument, by the name that callers of an `Observer` give it."""
