"""Items read from their documents, and checked.

The ``_id`` of an item names its namespace and its key and never changes. The other fields that name
them must agree: a document that somebody has moved or edited to another namespace is an item of
neither namespace. Nothing here knows of queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson.timestamp import Timestamp
from langgraph.store.base import Item, SearchItem

from mongomem.arguments import shown
from mongomem.damage import UNREADABLE, Damage
from mongomem.engine.commands import Document, as_utc
from mongomem.errors import CorruptDataError, SchemaVersionError
from mongomem.store.documents.index_config import EmbeddedText, IndexSettings
from mongomem.store.documents.item import SCHEMA_VERSION, name_of
from mongomem.store.documents.namespace import SEPARATOR, namespace_of, prefixes_of
from mongomem.store.documents.ttl import LONGEST_MINUTES
from mongomem.store.documents.value import decode_value, is_text

Kind = type | tuple[type, ...]

REQUIRED: tuple[tuple[str, Kind], ...] = (
    ("namespace", list),
    ("key", str),
    ("path", str),
    ("prefixes", list),
    ("value", dict),
    ("created_at", datetime),
    ("updated_at", datetime),
)
NAMING = ("namespace", "key", "path", "prefixes")
"""Fields that name an item, as its `_id` does."""

OPTIONAL: tuple[tuple[str, Kind], ...] = (
    ("exact", bytes),
    ("expires_at", datetime),
    ("ttl_minutes", (int, float)),
)
"""Fields that a reader relies on, and what they hold. Null in one that may be missing counts as
missing."""


@dataclass(frozen=True, slots=True)
class Score:
    """How well an item answers a query.

    Attributes:
        value: What it is ranked by.
        meaning: The similarity of the closest of its vectors; None where none is compared.
        words: How much of the query its words reach, in [0, 1]; None where they do not count.
    """

    value: float
    meaning: float | None = None
    words: float | None = None


class ExplainedItem(SearchItem):
    """A result of ``search(..., explain=True)``: a ``SearchItem``, and what its score is made of.

    Attributes:
        meaning: See `Score`.
        words: See `Score`.
    """

    __slots__ = ("meaning", "words")

    def __init__(self, *, meaning: float | None, words: float | None, **fields: Any) -> None:
        super().__init__(**fields)
        self.meaning, self.words = meaning, words

    def dict(self) -> dict[str, Any]:
        """Return all fields, as LangGraph prints an item and stores it in the state of a graph."""
        return {**super().dict(), "meaning": self.meaning, "words": self.words}


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as it is stored, and when it expires.

    Attributes:
        fields: What LangGraph's ``Item`` is made of.
        expires_at: When it expires, aware; None: never.
        ttl_minutes: How long it lives after its last use.
    """

    id: str
    fields: dict[str, Any]
    expires_at: datetime | None
    ttl_minutes: float | None

    @property
    def namespace(self) -> tuple[str, ...]:
        namespace: tuple[str, ...] = self.fields["namespace"]
        return namespace

    @property
    def updated_at(self) -> datetime:
        updated_at: datetime = self.fields["updated_at"]
        return updated_at

    @property
    def value(self) -> dict[str, Any]:
        value: dict[str, Any] = self.fields["value"]
        return value

    def item(self) -> Item:
        """Make the result of ``get``."""
        return Item(**self.fields)

    def search_item(self, score: Score | None, *, explained: bool = False) -> SearchItem:
        """Make the result of ``search``."""
        value = None if score is None else score.value
        if not explained:
            return SearchItem(**self.fields, score=value)
        meaning, words = (score.meaning, score.words) if score else (None, None)
        return ExplainedItem(**self.fields, score=value, meaning=meaning, words=words)


def read_item(document: Mapping[str, Any]) -> StoredItem:
    """Read an item from its document.

    Raises:
        CorruptDataError: A field is missing or of the wrong kind, or the document says that it is
            another item than its ``_id``. Names the item.
        SchemaVersionError: A newer mongomem wrote it.
    """
    try:
        _check_version(document)
        _check_kinds(document)
        fields = {
            "namespace": _checked_namespace(document),
            "key": document["key"],
            "value": decode_value(document["value"], document.get("exact")),
            "created_at": as_utc(document["created_at"]),
            "updated_at": as_utc(document["updated_at"]),
        }
    except UNREADABLE as error:
        raise type(error)(f"{name_of(document)}: {error}") from error
    moment = document.get("expires_at")
    expires_at = None if moment is None else as_utc(moment)
    return StoredItem(document["_id"], fields, expires_at, document.get("ttl_minutes"))


def texts_in(document: Mapping[str, Any], indexing: IndexSettings) -> list[EmbeddedText]:
    """Extract the texts of an item that are embedded.

    Raises:
        CorruptDataError: As `read_item`; or the item's own choice of paths is none.
        SchemaVersionError: As `read_item`.
    """
    choice = document.get("index_fields")
    is_list = isinstance(choice, list) and all(isinstance(path, str) for path in choice)
    if not (is_list or choice is None or isinstance(choice, bool)):
        raise CorruptDataError(f"{name_of(document)}: its index_fields is {shown(choice)}")
    return indexing.texts(read_item(document).value, choice)


def sound_items(documents: Iterable[Document], damage: Damage) -> list[StoredItem]:
    """Read items, and leave out those that are damaged."""
    found: list[StoredItem] = []
    for document in documents:
        with damage.left_out(document.get("_id")):
            found.append(read_item(document))
    return found


def ids_in(documents: Iterable[Document]) -> list[str]:
    """List the ids of documents; ids that no item can have, put there by hand, are left out."""
    return [document["_id"] for document in with_ids(documents)]


def with_ids(documents: Iterable[Document]) -> list[Document]:
    """List the documents that have an id of an item. Of thousands all ids are checked at once."""
    listed = [*documents]
    ids = [document["_id"] for document in listed]
    if {*map(type, ids)} <= {str} and is_text("".join(ids)):
        return listed
    return [document for document in listed if is_id(document["_id"])]


def timestamps_in(documents: Iterable[Document]) -> list[tuple[str, Timestamp]]:
    """List the ids of documents with the timestamps of their last writes; documents without one are
    left out.
    """
    return [
        (document["_id"], document["changed_at"])
        for document in with_ids(documents)
        if isinstance(document.get("changed_at"), Timestamp)
    ]


def is_id(id: object) -> bool:
    """Say whether this can be the id of an item, and part of a query."""
    return isinstance(id, str) and is_text(id)


def _check_version(document: Mapping[str, Any]) -> None:
    version = document.get("schema_version")
    # NaN is not at least 1.
    if isinstance(version, bool) or not isinstance(version, (int, float)) or not version >= 1:
        raise CorruptDataError(f"its schema_version is {shown(version)}")
    if version > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"written by a newer mongomem (schema {shown(version)}, this one knows "
            f"{SCHEMA_VERSION}); upgrade mongomem to read it"
        )


def _check_kinds(document: Mapping[str, Any]) -> None:
    for name, kind in REQUIRED:
        if not isinstance(document.get(name), kind):
            raise CorruptDataError(
                f"its {name} is {shown(document[name])}" if name in document else f"has no {name}"
            )
    for name, kind in OPTIONAL:
        given = document.get(name)
        if given is not None and not isinstance(given, kind):
            raise CorruptDataError(f"its {name} is {shown(given)}")
    _check_minutes(document.get("ttl_minutes"))


def _check_minutes(minutes: Any) -> None:
    if minutes is not None and (isinstance(minutes, bool) or not 0 < minutes <= LONGEST_MINUTES):
        raise CorruptDataError(f"its ttl_minutes is {shown(minutes)}")


def _checked_namespace(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the namespace that the ``_id`` names; all other fields that name the item agree."""
    named = document.get("_id")
    if not isinstance(named, str) or SEPARATOR * 2 not in named or not is_text(named):
        raise CorruptDataError("its _id names no item")
    path, _, key = named.partition(SEPARATOR * 2)
    namespace = namespace_of(path)
    if (
        document["namespace"] != [*namespace]
        or document["key"] != key
        or document["path"] != path
        or document["prefixes"] != prefixes_of(namespace)
    ):
        found = {name: document[name] for name in NAMING}
        raise CorruptDataError(
            f"is stored under another name, {shown(found)}: it was moved, or edited by hand"
        )
    return namespace
