"""A batch of operations: checked before the first command, and grouped by kind.

Everything that may be wrong with an operation is found here: a batch that gets through asks only
what the database and the embedder can answer. Reads see the state before the batch; of several puts
of one item the last one counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)

from mongomem.arguments import KINDS_OF_IDS, checked_flag, checked_text, shown, text_of
from mongomem.engine.commands import MAX_DOCUMENT_BYTES
from mongomem.errors import InvalidInputError, UnstorableValueError
from mongomem.store.documents.filter import checked_filter
from mongomem.store.documents.filter_query import Query, to_query
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import NewItem
from mongomem.store.documents.namespace import Namespace, item_id, name_of_item, path_of
from mongomem.store.documents.ttl import checked_minutes
from mongomem.store.documents.value import EncodedValue, elements, encode_value, is_text, plain

MOST_ITEMS = 2**31 - 2
"""The largest limit and offset: the driver takes an int32."""

HIGHEST_SCORE = sys.float_info.max

WAY_OUT = (
    ", as no label of LangGraph may: mongomem.user_namespace(user_id) makes a namespace of any "
    "user id"
)

LONGEST_PATH = MAX_DOCUMENT_BYTES // 4
LONGEST_KEY = MAX_DOCUMENT_BYTES // 2
"""In bytes: a document has each of them several times, so no document holds longer ones."""

LONGEST_ENTRIES = 2 * 2**20
"""In bytes: how long the entries of an item in one index may be. An entry has the whole `_id`, and
there is one for each prefix. With more a write is too large for the cache of a small server (error
388, TransactionTooLargeForCache, MongoDB 6.0)."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """An item to be removed."""

    namespace: Namespace
    key: str


@dataclass(frozen=True, slots=True)
class Search:
    """A search, checked.

    Attributes:
        filter: In plain types; None where everything matches.
        narrowed: The query that narrows by the filter; empty where none does.
        min_score: Items with a lower score or none are left out; None: no item is.
        explain: The results tell what their scores are made of.
    """

    prefix: Namespace
    filter: dict[str, Any] | None
    narrowed: Query
    limit: int
    offset: int
    query: str | None
    refresh_ttl: bool
    min_score: float | None
    explain: bool = False

    @property
    def path(self) -> str:
        return path_of(self.prefix)


@dataclass(slots=True)
class GroupedOps:
    """The operations of a batch by kind; reads by their place in the answer, writes by the id of
    their item.
    """

    size: int = 0
    gets: dict[int, GetOp] = field(default_factory=dict)
    searches: dict[int, Search] = field(default_factory=dict)
    listings: dict[int, ListNamespacesOp] = field(default_factory=dict)
    writes: dict[str, NewItem | Deletion] = field(default_factory=dict)

    def add(self, op: Op, indexing: IndexSettings | None) -> None:
        """Check the next operation of the batch and sort it to its kind."""
        place = self.size
        if isinstance(op, GetOp):
            self.gets[place] = _checked_get(op)
        elif isinstance(op, SearchOp):
            self.searches[place] = checked_search(op, indexing)
        elif isinstance(op, PutOp):
            write = _checked_put(op, indexing)
            self.writes[item_id(write.namespace, write.key)] = write
        elif isinstance(op, ListNamespacesOp):
            self.listings[place] = _checked_listing(op)
        else:
            raise InvalidInputError(f"ops must be operations such as GetOp, not {shown(op)}")
        self.size += 1

    @property
    def puts(self) -> dict[str, NewItem]:
        return {item: write for item, write in self.writes.items() if isinstance(write, NewItem)}

    @property
    def deletions(self) -> dict[str, Deletion]:
        return {item: write for item, write in self.writes.items() if isinstance(write, Deletion)}


def put_op(namespace: Any, key: Any, value: Any, index: Any, ttl: Any) -> PutOp:
    """Make the operation of ``put``, which alone may not write to the root or to LangGraph's own
    namespace.

    Raises:
        InvalidInputError: The namespace is no tuple or list.
        InvalidNamespaceError: As said, or a label cannot be one.
    """
    checked = check_namespace(namespace)
    if not checked:
        raise InvalidNamespaceError("The namespace of an item cannot be empty")
    if checked[0] == "langgraph":
        raise InvalidNamespaceError(
            f'The first label of a namespace cannot be "langgraph": {shown(checked)}'
        )
    return PutOp(checked, key, value, index, ttl)


def list_op(prefix: Any, suffix: Any, max_depth: Any, limit: Any, offset: Any) -> ListNamespacesOp:
    """Make the operation of ``list_namespaces``."""
    given = {"prefix": prefix, "suffix": suffix}
    conditions = (MatchCondition(kind, path) for kind, path in given.items() if path is not None)  # type: ignore[arg-type]
    return ListNamespacesOp(tuple(conditions), max_depth, limit, offset)


def group_ops(ops: Iterable[Op], indexing: IndexSettings | None) -> GroupedOps:
    """Check every operation and sort it to its kind.

    Raises:
        InvalidInputError: An argument is of the wrong kind.
        InvalidNamespaceError: A label is empty, no string, or holds a period or NUL.
        UnstorableValueError: A value cannot be stored.
    """
    batch = GroupedOps()
    for op in _iterator(ops):
        batch.add(op, indexing)
    return batch


def join_writes(batches: Iterable[GroupedOps]) -> GroupedOps:
    """Make one batch of several that only write: of several writes of one item the last counts."""
    joined = GroupedOps()
    for batch in batches:
        joined.writes |= batch.writes
        joined.size += batch.size
    return joined


def _iterator(ops: Iterable[Op]) -> Iterator[Op]:
    try:
        return iter(ops)
    except Exception as error:  # whatever an object that is no iterable does
        raise InvalidInputError(f"ops must be a list of operations, not {shown(ops)}") from error


def check_namespace(namespace: object, name: str = "namespace") -> Namespace:
    """Return a namespace as a tuple of strings; a list is one too, as for LangGraph's other stores.

    Raises:
        InvalidInputError: Neither a tuple nor a list.
        InvalidNamespaceError: A label is empty, no string, or holds a period, NUL or a surrogate;
            or all are too long.
    """
    if not isinstance(namespace, (tuple, list)):
        raise InvalidInputError(
            f'{name} must be a tuple of strings such as ("users", "u1"), not {shown(namespace)}'
        )
    labels = tuple(_checked_label(label, name) for label in elements(namespace))
    length = len(path_of(labels).encode())
    if length > LONGEST_PATH:
        raise InvalidNamespaceError(f"{name} is longer than any document holds: {length:,} bytes")
    return labels


def _checked_label(label: object, name: str) -> str:
    if not isinstance(label, str):
        raise InvalidNamespaceError(f"A label of {name} must be a string, not {shown(label)}")
    text = str.__str__(label)
    for is_wrong, reason in (
        (not text, "is empty"),
        ("." in text, f"holds a period ('.'){'' if name == 'user_namespace' else WAY_OUT}"),
        ("\x00" in text, "holds NUL"),
        (not is_text(text), "holds a surrogate, which is no character"),
    ):
        if is_wrong:
            raise InvalidNamespaceError(f"A label of {name} {reason}: {shown(text)}")
    return text


def checked_key(key: object) -> str:
    """Return the key of an item as the string that is stored: ``7`` and ``"7"`` are one key, as for
    LangGraph's other stores.

    Raises:
        InvalidInputError: It is no string and stands for none (`text_of`), is no valid Unicode, or
            is too long.
    """
    text = text_of(key)
    if text is None:
        raise InvalidInputError(f"key must be {KINDS_OF_IDS}, not {shown(key)}")
    text = checked_text("key", text)
    if (length := len(text.encode())) > LONGEST_KEY:
        raise InvalidInputError(
            f"key {shown(text)} is longer than any document holds: {length:,} bytes"
        )
    return text


def _checked_get(op: GetOp) -> GetOp:
    namespace, key = check_namespace(op.namespace), checked_key(op.key)
    return GetOp(namespace, key, checked_flag("refresh_ttl", op.refresh_ttl))


def checked_search(
    op: SearchOp,
    indexing: IndexSettings | None,
    min_score: object = None,
    explain: object = False,
) -> Search:
    """Check a search; LangGraph's operation has no place for `min_score` and `explain`.

    Raises:
        InvalidInputError: An argument is of the wrong kind, or nothing is scored that `min_score`
            could leave out.
        InvalidNamespaceError: A label of the prefix cannot be one.
    """
    chosen = None if op.filter is None else checked_filter(op.filter)
    query = None if op.query is None else checked_text("query", op.query)
    if min_score is not None and not (query and indexing):
        raise InvalidInputError(
            "min_score needs a query, and a store with an index: nothing else has a score"
        )
    return Search(
        prefix=check_namespace(op.namespace_prefix, "namespace_prefix"),
        filter=chosen or None,
        narrowed=to_query(chosen or {}, field="value", exact_field="exact"),
        limit=min(_checked_count("limit", op.limit), MOST_ITEMS),
        offset=min(_checked_count("offset", op.offset), MOST_ITEMS),
        query=query,
        refresh_ttl=checked_flag("refresh_ttl", op.refresh_ttl),
        min_score=None if min_score is None else _checked_score(min_score),
        explain=checked_flag("explain", explain),
    )


def _checked_put(op: PutOp, indexing: IndexSettings | None) -> NewItem | Deletion:
    namespace, key = check_namespace(op.namespace), checked_key(op.key)
    name = name_of_item(namespace, key)
    index_fields, ttl_minutes = _checked_choice(op.index, name), checked_minutes(op.ttl)
    if op.value is None:
        return Deletion(namespace, key)
    _check_entries(namespace, key, name)
    value = _checked_value(op.value, name)
    texts = indexing.texts(value.value, index_fields) if indexing else ()
    return NewItem(namespace, key, value, texts, index_fields, ttl_minutes)


def _checked_value(value: object, name: str) -> EncodedValue:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name}: value must be a dict, not {shown(value)}")
    return encode_value(value, name)


def _check_entries(namespace: Namespace, key: str, name: str) -> None:
    if (len(namespace) + 1) * len(item_id(namespace, key).encode()) > LONGEST_ENTRIES:
        raise UnstorableValueError(
            f"{name}: namespace and key are longer than the indexes of an item may be"
        )


def _checked_listing(op: ListNamespacesOp) -> ListNamespacesOp:
    given = op.match_conditions
    if given is not None and not isinstance(given, (tuple, list)):
        raise InvalidInputError(
            f"match_conditions must be a tuple of MatchCondition, not {shown(given)}"
        )
    return ListNamespacesOp(
        tuple(
            _checked_condition(condition) for condition in elements(() if given is None else given)
        ),
        None if op.max_depth is None else _checked_count("max_depth", op.max_depth),
        _checked_count("limit", op.limit),
        _checked_count("offset", op.offset),
    )


def _checked_condition(condition: object) -> MatchCondition:
    if not isinstance(condition, MatchCondition):
        raise InvalidInputError(
            f"match_conditions must be a tuple of MatchCondition, not of {shown(condition)}"
        )
    kind = plain(condition.match_type)
    if not isinstance(kind, str) or kind not in ("prefix", "suffix"):
        raise InvalidInputError(f'match_type must be "prefix" or "suffix", not {shown(kind)}')
    return MatchCondition(kind, check_namespace(condition.path, kind))  # type: ignore[arg-type]


def _checked_choice(index: object, name: str) -> list[str] | Literal[False] | None:
    if index is None or index is False:
        return index
    paths = list(elements(index)) if isinstance(index, (list, tuple)) else [None]
    if not all(isinstance(path, str) and plain(path) for path in paths):
        raise InvalidInputError(
            f'{name}: index must be None, False or a list of paths such as ["text"], not '
            f"{shown(index)}"
        )
    return list(dict.fromkeys(checked_text("a path of index", path) for path in paths))


def _checked_count(name: str, number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or int.__int__(number) < 0:
        raise InvalidInputError(f"{name} must be a whole number, 0 or more, not {shown(number)}")
    return int.__int__(number)


def _checked_score(min_score: object) -> float:
    number = plain(min_score)
    if (
        isinstance(number, bool)
        or not isinstance(number, (int, float))
        or not abs(number) <= HIGHEST_SCORE
    ):
        raise InvalidInputError(f"min_score must be a number, not {shown(number)}")
    return float(number)
