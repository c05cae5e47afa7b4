"""Namespaces as strings that a database can index.

A namespace is a tuple of labels. Joined by NUL, which no label may hold, it is a *path*: paths sort
as their tuples do (NUL is the smallest character, and UTF-8 keeps the order of code points), and a
prefix of labels is never confused with a prefix of characters: ``("u1",)`` never meets
``("u10",)``.

Arguments of callers are checked in `mongomem.store.documents.ops`; nothing here knows of documents
or queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from langgraph.store.base import MatchCondition

from mongomem.arguments import shown
from mongomem.store.documents.value import is_text

Namespace = tuple[str, ...]

SEPARATOR = "\x00"
ANY_LABEL = "*"
LIST_BYTES = 4 * 2**20
"""Bytes of ids in one command: with a path beside each, half of the 16 MB of a document."""

ID_OVERHEAD = 16
"""What BSON adds to each element of an array: its type, its number as text, its length."""

ROOT = ""
"""The path of the empty namespace, a prefix of every other: no label is empty."""


def path_of(namespace: Iterable[str]) -> str:
    """Join the labels of a namespace."""
    return SEPARATOR.join(namespace)


def namespace_of(path: str) -> Namespace:
    """Split a path into the labels that `path_of` joined."""
    return tuple(path.split(SEPARATOR)) if path else ()


def prefixes_of(namespace: Sequence[str]) -> list[str]:
    """List the paths of all leading parts, from the root to the namespace itself."""
    return [path_of(namespace[:length]) for length in range(len(namespace) + 1)]


def short_prefixes_of(namespace: Sequence[str], longest: int) -> Iterator[str]:
    """List the paths of the leading parts that have at most so many characters, from the root."""
    path = ROOT
    if longest >= 0:
        yield path
    for label in namespace:
        path = f"{path}{SEPARATOR}{label}" if path else label
        if len(path) > longest:
            return
        yield path


def item_id(namespace: Iterable[str], key: str) -> str:
    """Name an item by its path and its key, so that the same item is the same document everywhere.

    Two NULs end the path. A path holds no two in a row, so a key may hold any character.
    """
    return f"{path_of(namespace)}{SEPARATOR}{SEPARATOR}{key}"


def name_of_item(namespace: Namespace, key: str) -> str:
    """Name an item by namespace and key, for messages."""
    return f"item {shown(key)} in {shown(namespace)}"


def id_range(prefix: Sequence[str]) -> dict[str, str]:
    """Bound the ids of the items in the namespaces of `path_range`, as a condition on ``_id``."""
    path = path_of(prefix)
    return {"$gte": f"{path}{SEPARATOR}", "$lt": f"{path}\x01"} if prefix else {"$gte": ROOT}


def path_of_item(id: str) -> str:
    """Return the path of the item with an id."""
    return id.partition(SEPARATOR * 2)[0]


def is_path(path: object) -> bool:
    """Say whether this is the path of a namespace."""
    if not isinstance(path, str) or "." in path or not is_text(path):
        return False
    return not path or all(path.split(SEPARATOR))


def split_by_bytes(ids: Iterable[str]) -> Iterator[list[str]]:
    """Split ids into lists that one command can carry, with their paths beside them."""
    part: list[str] = []
    size = 0
    for item in ids:
        length = ID_OVERHEAD + len(item.encode())
        if part and size + length > LIST_BYTES:
            yield part
            part, size = [], 0
        part.append(item)
        size += length
    if part:
        yield part


def path_range(prefix: Sequence[str]) -> dict[str, str]:
    """Bound the paths that begin with the labels of `prefix`, as a condition on ``path``.

    The first character above NUL ends the range: only the path itself and paths that continue
    after a NUL sort below it.
    """
    path = path_of(prefix)
    return {"$gte": path, "$lt": f"{path}\x01"} if prefix else {"$gte": ROOT}


def literal_prefix(conditions: Iterable[MatchCondition]) -> Namespace:
    """Return the longest prefix without a wildcard that the conditions ask for: the server narrows
    by it.
    """
    starts = [
        _before_wildcard(condition.path)
        for condition in conditions
        if condition.match_type == "prefix"
    ]
    return max(starts, key=len, default=())


def matches_conditions(namespace: Sequence[str], conditions: Iterable[MatchCondition]) -> bool:
    """Say whether a namespace meets every condition. A label of ``*`` in a condition stands for any
    one label.
    """
    return all(_matches(namespace, condition) for condition in conditions)


def _matches(namespace: Sequence[str], condition: MatchCondition) -> bool:
    length = len(condition.path)
    if len(namespace) < length:
        return False
    labels = (
        namespace[:length]
        if condition.match_type == "prefix"
        else namespace[len(namespace) - length :]
    )
    return all(
        wanted in (ANY_LABEL, label) for wanted, label in zip(condition.path, labels, strict=True)
    )


def _before_wildcard(path: Sequence[str]) -> Namespace:
    labels = tuple(path)
    return labels[: labels.index(ANY_LABEL)] if ANY_LABEL in labels else labels


def paths_meet(one: str, other: str) -> bool:
    """Say whether one of two paths is above the other, or both are the same."""
    shorter, longer = sorted((one, other), key=len)
    return not shorter or longer == shorter or longer.startswith(shorter + SEPARATOR)
