"""What a document says of a thread that is imported, checked as far as no value has to be read for
it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.transfer.json_parts import Part
from mongomem.transfer.pieces import given_piece


@dataclass(frozen=True, slots=True)
class GivenThread:
    """A thread of a document that is imported, its parts checked as they are read."""

    part: Part
    thread_id: str
    pieces: list[bytes]

    @classmethod
    def of(cls, part: Part) -> GivenThread:
        pieces = [given_piece(one) for one in part.member("pieces").parts()]
        return cls(part, part.member("thread_id").identifier(), pieces)

    def times(self, now: datetime) -> tuple[datetime, datetime]:
        """Return when it was created and last updated."""
        created_at, updated_at = (self.part.member(f"{one}_at") for one in ("created", "updated"))
        return created_at.past_time(now), updated_at.past_time(now)

    def users(self) -> dict[str, list[str]]:
        """Return whom it names, by metadata key."""
        return {key: part.texts() for key, part in self.part.member("users").members()}

    def checkpoints(self) -> list[GivenCheckpoint]:
        """Return the checkpoints in the order of their ids, but each behind its parent.

        Raises:
            InvalidInputError: Two have one id, or one is its own ancestor.
        """
        parts = self.part.member("checkpoints").parts()
        given = [GivenCheckpoint.of(self.thread_id, part) for part in parts]
        return _behind_parents(sorted(given, key=lambda one: one.ref.checkpoint_id or ""))


@dataclass(frozen=True, slots=True)
class GivenCheckpoint:
    """A checkpoint of a thread that is imported; its values are decoded when they are needed."""

    part: Part
    ref: CheckpointRef
    parent_id: str | None
    hidden: bool

    @classmethod
    def of(cls, thread_id: str, part: Part) -> GivenCheckpoint:
        namespace = part.member("namespace").identifier(optional=True)
        ref = CheckpointRef(thread_id, namespace, part.member("id").identifier())
        parent, hidden = part.optional("parent_id"), part.optional("hidden")
        if hidden is not None and hidden.value is not True:
            raise hidden.wrong("true, or not there")
        return cls(part, ref, None if parent is None else parent.identifier(), hidden is not None)


def _behind_parents(given: Iterable[GivenCheckpoint]) -> list[GivenCheckpoint]:
    """Put checkpoints behind their parents, and else leave them in order. Ids are in the order of
    time, but where clocks differ a child may have the lower one.
    """
    by_ref: dict[CheckpointRef, GivenCheckpoint] = {}
    for one in given:
        if by_ref.setdefault(one.ref, one) is not one:
            raise one.part.member("id").wrong("the id of one checkpoint of its namespace")
    placed: dict[CheckpointRef, GivenCheckpoint] = {}
    for one in by_ref.values():
        placed |= reversed(_line_to(one, by_ref, placed).items())
    return [*placed.values()]


def _line_to(
    one: GivenCheckpoint,
    by_ref: Mapping[CheckpointRef, GivenCheckpoint],
    placed: Mapping[CheckpointRef, GivenCheckpoint],
) -> dict[CheckpointRef, GivenCheckpoint]:
    """Return a checkpoint and its ancestors up to the first that has its place."""
    line: dict[CheckpointRef, GivenCheckpoint] = {}
    at: GivenCheckpoint | None = one
    while at is not None and at.ref not in placed:
        if at.ref in line:
            raise at.part.member("parent_id").wrong("the id of no descendant, nor its own")
        line[at.ref] = at
        at = None if at.parent_id is None else by_ref.get(at.ref.at(at.parent_id))
    return line
