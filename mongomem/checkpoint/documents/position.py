"""Where a listing of checkpoints has come to: by the fields of the last document, damaged or not.
Pure.

MongoDB orders values of unlike types by their type: numbers, strings, then all else but what is
null, which comes first. Identifiers are strings; what is none was changed by others, and stands
before or behind all that is to be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bson.decimal128 import Decimal128
from bson.min_key import MinKey

from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.engine.commands import Document

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
    def at(cls, address: CheckpointRef) -> Position:
        """Return the position of an address."""
        return cls(address.checkpoint_id, address.thread_id, address.checkpoint_ns)

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
