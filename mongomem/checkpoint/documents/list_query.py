"""Which checkpoints a listing is about, and where it has come to: by the fields of the last
document, damaged or not. Pure.

MongoDB orders values of unlike types by their type: numbers, strings, then all else but what is
null, which comes first. Identifiers are strings; what is none was changed by others, and stands
before or behind all that is to be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson.decimal128 import Decimal128
from bson.min_key import MinKey
from langchain_core.runnables import RunnableConfig

from mongomem.arguments import checked_number
from mongomem.checkpoint.documents import config as configs
from mongomem.checkpoint.documents.collections import CHECKPOINT, VISIBLE
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.identity import narrowed
from mongomem.checkpoint.documents.metadata import checked_filter
from mongomem.engine.commands import Document
from mongomem.errors import InvalidInputError

NO_DOCUMENT: Document = {"$in": []}

ANY_STRING: Document = {"$gte": ""}


@dataclass(frozen=True, slots=True)
class Position:
    """The last checkpoint that was read, in the order of a listing: newest first, then by thread
    and namespace.
    """

    checkpoint_id: object
    thread_id: object
    checkpoint_ns: object

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Position:
        """Return the position of a document."""
        return cls(
            *(document.get(field) for field in ("checkpoint_id", "thread_id", "checkpoint_ns"))
        )

    @classmethod
    def at(cls, ref: CheckpointRef) -> Position:
        """Return the position of a ref."""
        return cls(ref.checkpoint_id, ref.thread_id, ref.checkpoint_ns)

    def behind(self) -> Document:
        """Return the condition for what comes behind: a range on the index, and the tie decided."""
        if not isinstance(self.checkpoint_id, str):
            return {
                "checkpoint_id": NO_DOCUMENT
                if sorts_before_strings(self.checkpoint_id)
                else ANY_STRING
            }
        same = {"checkpoint_id": self.checkpoint_id}
        ties: list[Document] = [
            {"checkpoint_id": {"$lt": self.checkpoint_id}},
            {**same, "thread_id": above(self.thread_id)},
            {
                **same,
                "thread_id": {"$eq": self.thread_id},
                "checkpoint_ns": above(self.checkpoint_ns),
            },
        ]
        return {"checkpoint_id": {"$lte": self.checkpoint_id}, "$or": ties}


def above(value: object) -> Document:
    """Return the condition for the strings above a value."""
    if isinstance(value, str):
        return {"$gt": value}
    return ANY_STRING if sorts_before_strings(value) else NO_DOCUMENT


def sorts_before_strings(value: object) -> bool:
    """Say whether a value that is no string comes before all strings in the order of MongoDB."""
    return value is None or (
        isinstance(value, MinKey | Decimal128 | float | int) and not isinstance(value, bool)
    )


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which checkpoints a listing is about, checked.

    Attributes:
        place: Equalities on thread, namespace and checkpoint, as far as they are given.
        before: Only checkpoints with an id below this one.
        filter: What the metadata must contain.
        limit: How many to give, None for all.
    """

    place: Document
    before: str | None = None
    filter: Mapping[str, Any] | None = None
    limit: int | None = None

    def on_server(self, after: Position | None, metadata_keys: Sequence[str]) -> Document:
        """Return the query for a superset of what is listed behind a position: what the readable
        copy of the metadata can tell.
        """
        conditions = [
            {"type": CHECKPOINT, "hidden": VISIBLE, **self.place},
            *narrowed(self.filter or {}, metadata_keys),
        ]
        if self.before is not None:
            conditions.append({"checkpoint_id": {"$lt": self.before}})
        if after is not None:
            conditions.append(after.behind())
        return {"$and": [condition for condition in conditions if condition]}

    def sort(self) -> list[tuple[str, int]] | None:
        """Return the order of the listing, without the fields that are equalities."""
        order = [("checkpoint_id", -1), ("thread_id", 1), ("checkpoint_ns", 1)]
        return [(field, way) for field, way in order if field not in self.place] or None


def checked_query(
    config: RunnableConfig | None, filter: object, before: RunnableConfig | None, limit: object
) -> ListQuery:
    """Check the arguments of ``list``.

    Raises:
        InvalidInputError: For a negative limit, or an argument that is not what LangGraph
            documents.
    """
    most = None if limit is None else checked_number("limit", limit)
    bound = (
        configs.optional_identifier(
            "checkpoint_id", configs.configurable(before).get("checkpoint_id")
        )
        if before is not None
        else None
    )
    return ListQuery(_listed_place(config), bound, checked_filter(filter), most)


def _listed_place(config: RunnableConfig | None) -> Document:
    """Return the equalities of a listing: without a namespace it is about all of the thread's.

    Only None lists across threads: a config whose thread_id was forgotten would show one user the
    threads of all.
    """
    if config is None:
        return {}
    part = configs.configurable(config)
    if part.get("thread_id") is None:
        raise InvalidInputError(
            "config has no thread_id: pass one, or None as the config to list across all threads"
        )
    place: Document = {"thread_id": configs.given_thread(part["thread_id"])}
    if part.get("checkpoint_ns") is not None:
        place["checkpoint_ns"] = configs.identifier("checkpoint_ns", part["checkpoint_ns"])
    if (
        checkpoint_id := configs.optional_identifier("checkpoint_id", part.get("checkpoint_id"))
    ) is not None:
        place["checkpoint_id"] = checkpoint_id
    return place
