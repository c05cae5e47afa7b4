"""Which chunks of a thread go: marked when nothing refers to them, deleted a grace later. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from mongomem.engine.commands import Document, as_utc


@dataclass(frozen=True, slots=True)
class GarbagePlan:
    """What a garbage collection does with the chunks of a thread, by their ids.

    Attributes:
        to_unmark: Those with a mark that something refers to again.
        to_delete: Those that nothing refers to, and whose mark is as old as the grace.
        to_mark: Those that nothing refers to, without a mark. A mark that is no time counts as
            none.
    """

    to_unmark: list[bytes]
    to_delete: list[bytes]
    to_mark: list[bytes]


def plan_garbage(
    chunks: Sequence[Document], living: Collection[bytes], cutoff: datetime
) -> GarbagePlan:
    """Decide what becomes of chunks; one whose mark is younger than `cutoff` is left as it is."""
    marked = {
        chunk["_id"]: as_utc(since)
        for chunk in chunks
        if isinstance(since := chunk.get("idle_since"), datetime)
    }
    return GarbagePlan(
        to_unmark=[key for key in marked if key in living],
        to_delete=[key for key, since in marked.items() if key not in living and since <= cutoff],
        to_mark=[
            chunk["_id"]
            for chunk in chunks
            if chunk["_id"] not in marked and chunk["_id"] not in living
        ],
    )
