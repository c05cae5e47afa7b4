"""A batch of operations, checked whole before the first command and sorted into what has to be done.

Everything that may be wrong with an operation is found here: a batch that gets through asks only what
the database and the embedder can answer. Reads see the state before the batch; of several puts of one
item the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
    validate_op_namespace,
)

from mongomem.errors import InvalidInputError
from mongomem.store.documents import MAX_DOCUMENT_BYTES, Put
from mongomem.store.expiry import check_minutes
from mongomem.store.filters import check_filter
from mongomem.store.indexing import Indexing
from mongomem.store.namespaces import Namespace, item_id, path_of
from mongomem.store.values import encode_value, named

MOST_ITEMS = 2**31 - 2
"""More than these no search gives or leaves out: what a driver takes for a limit and a batch (BSON's int32)."""

LONGEST_PATH = MAX_DOCUMENT_BYTES // 4
LONGEST_KEY = MAX_DOCUMENT_BYTES // 2
"""In bytes: no document holds longer ones, for it says them several times."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """An item to be removed."""

    namespace: Namespace
    key: str


@dataclass(slots=True)
class Batch:
    """The operations of a batch by kind; reads by their place in the answer, writes by the id of their item."""

    size: int = 0
    gets: dict[int, GetOp] = field(default_factory=dict)
    searches: dict[int, SearchOp] = field(default_factory=dict)
    listings: dict[int, ListNamespacesOp] = field(default_factory=dict)
    writes: dict[str, Put | Deletion] = field(default_factory=dict)

    @property
    def puts(self) -> dict[str, Put]:
        return {item: write for item, write in self.writes.items() if isinstance(write, Put)}

    @property
    def deletions(self) -> dict[str, Deletion]:
        return {item: write for item, write in self.writes.items() if isinstance(write, Deletion)}


def put_op(namespace: Any, key: Any, value: Any, index: Any, ttl: Any) -> PutOp:
    """Make the operation of ``put``, which alone may not write to the root or to LangGraph's own namespace.

    Raises:
        InvalidNamespaceError: As said.
    """
    if namespace == ():
        raise InvalidNamespaceError("The namespace of an item cannot be empty")
    if isinstance(namespace, tuple) and namespace[0] == "langgraph":
        raise InvalidNamespaceError(f'The first label of a namespace cannot be "langgraph": {namespace!r}')
    return PutOp(namespace, key, value, index, ttl)


def list_op(prefix: Any, suffix: Any, max_depth: Any, limit: Any, offset: Any) -> ListNamespacesOp:
    """Make the operation of ``list_namespaces``."""
    given = {"prefix": prefix, "suffix": suffix}
    conditions = (MatchCondition(kind, path) for kind, path in given.items() if path is not None)  # type: ignore[arg-type]
    return ListNamespacesOp(tuple(conditions), max_depth, limit, offset)


def sort_batch(ops: Iterable[Op], indexing: Indexing | None) -> Batch:
    """Check every operation and sort it to its kind.

    Raises:
        InvalidInputError: An argument is of the wrong kind.
        InvalidNamespaceError: A label is empty, no string, or holds a period or NUL.
        UnstorableValueError: A value cannot be stored.
    """
    batch = Batch()
    for place, op in enumerate(ops):
        if isinstance(op, GetOp):
            batch.gets[place] = _checked_get(op)
        elif isinstance(op, SearchOp):
            batch.searches[place] = _checked_search(op)
        elif isinstance(op, PutOp):
            batch.writes[item_id(*_checked_address(op))] = _checked_put(op, indexing)
        elif isinstance(op, ListNamespacesOp):
            batch.listings[place] = _checked_listing(op)
        else:
            raise InvalidInputError(f"Unknown operation: {op!r}")
        batch.size += 1
    return batch


def join_writes(batches: Iterable[Batch]) -> Batch:
    """Make one batch of several that only write: of several writes of one item the last counts."""
    joined = Batch()
    for batch in batches:
        joined.writes |= batch.writes
        joined.size += batch.size
    return joined


def check_namespace(namespace: Any, name: str = "namespace") -> None:
    """Refuse what is no tuple of labels.

    Raises:
        InvalidInputError: Not a tuple.
        InvalidNamespaceError: A label is empty, no string, or holds a period, NUL or a surrogate; or all are too long.
    """
    if not isinstance(namespace, tuple):
        raise InvalidInputError(f'{name} must be a tuple of strings such as ("users", "u1"), not {namespace!r}')
    validate_op_namespace(SearchOp(namespace))
    try:
        length = len(path_of(namespace).encode())
    except UnicodeEncodeError:
        raise InvalidNamespaceError(f"A label of {name} holds a surrogate, which is no character") from None
    if length > LONGEST_PATH:
        raise InvalidNamespaceError(f"{name} is longer than any document holds: {length:,} bytes")


def _checked_address(op: GetOp | PutOp) -> tuple[Namespace, str]:
    check_namespace(op.namespace)
    if not isinstance(op.key, str):
        raise InvalidInputError(f"key must be a string, not {op.key!r}")
    try:
        length = len(op.key.encode())
    except UnicodeEncodeError:
        raise InvalidInputError(f"key {op.key!r} holds a surrogate, which is no character") from None
    if length > LONGEST_KEY:
        raise InvalidInputError(f"key {op.key[:20]!r}... is longer than any document holds: {length:,} bytes")
    return op.namespace, op.key


def _checked_get(op: GetOp) -> GetOp:
    _checked_address(op)
    _check_flag(op.refresh_ttl)
    return op


def _checked_search(op: SearchOp) -> SearchOp:
    check_namespace(op.namespace_prefix, "namespace_prefix")
    _check_number("limit", op.limit)
    _check_number("offset", op.offset)
    _check_flag(op.refresh_ttl)
    if op.query is not None and not isinstance(op.query, str):
        raise InvalidInputError(f"query must be a string, not {op.query!r}")
    if op.filter is not None:
        check_filter(op.filter)
    return op._replace(limit=min(op.limit, MOST_ITEMS), offset=min(op.offset, MOST_ITEMS))


def _checked_put(op: PutOp, indexing: Indexing | None) -> Put | Deletion:
    if op.value is None:
        return Deletion(op.namespace, op.key)
    name = f"item {op.key!r} in {op.namespace!r}"
    if not isinstance(op.value, Mapping):
        raise InvalidInputError(f"{name}: value must be a dict, not {op.value!r}")
    _check_choice(op.index, name)
    check_minutes(op.ttl)
    value = encode_value(op.value, name)
    texts = indexing.texts(op.value, op.index) if indexing else ()
    return Put(op.namespace, op.key, value, texts, op.index and [*op.index], op.ttl)


def _checked_listing(op: ListNamespacesOp) -> ListNamespacesOp:
    for condition in op.match_conditions or ():
        if condition.match_type not in ("prefix", "suffix"):
            raise InvalidInputError(f"Unknown condition on namespaces: {condition!r}")
        check_namespace(condition.path, condition.match_type)
    if op.max_depth is not None:
        _check_number("max_depth", op.max_depth)
    _check_number("limit", op.limit)
    _check_number("offset", op.offset)
    return op


def _check_choice(index: Any, name: str) -> None:
    if index is None or index is False:
        return
    if not isinstance(index, list) or not all(isinstance(path, str) and path for path in index):
        raise InvalidInputError(f'{name}: index must be None, False or a list of paths such as ["text"], not {index!r}')


def _check_number(name: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise InvalidInputError(f"{name} must be a whole number, 0 or more, not {named(number)}")


def _check_flag(refresh_ttl: Any) -> None:
    if not isinstance(refresh_ttl, bool):
        raise InvalidInputError(f"refresh_ttl must be True or False, not {refresh_ttl!r}")
