"""What a document says of a thread that is imported, checked as far as no value has to be read for
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.transfer.json_parts import Part
from mongomem.transfer.pieces import PieceFile, given_pieces


@dataclass(frozen=True, slots=True)
class GivenThread:
    """A thread of a document that is imported, its parts checked as they are read.

    Attributes:
        part: What is said of the thread as a whole.
        thread_id: Its id.
        pieces: What its values are made of.
        given: Its checkpoints, in any order.
    """

    part: Part
    thread_id: str
    pieces: PieceFile
    given: Sequence[GivenCheckpoint]

    @classmethod
    def of(cls, part: Part) -> GivenThread:
        """Read a thread that stands in one part of a document."""
        thread_id, pieces = part.member("thread_id").identifier(), PieceFile()
        pieces.add(given_pieces(part.member("pieces")))
        parts = part.member("checkpoints").parts()
        return cls(part, thread_id, pieces, [GivenCheckpoint.of(thread_id, one) for one in parts])

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
        return _behind_parents(sorted(self.given, key=lambda one: one.ref.checkpoint_id or ""))


@dataclass(frozen=True, slots=True)
class GivenCheckpoint:
    """A checkpoint of a thread that is imported; its values are decoded when they are needed.

    Attributes:
        ref: Where it is.
        parent_id: The id of its parent.
        hidden: Whether it is there only for the replay of others.
        writes: How many pending writes it has.
        read: Gives what is said of it.
    """

    ref: CheckpointRef
    parent_id: str | None
    hidden: bool
    writes: int
    read: Callable[[], Part]

    @classmethod
    def of(
        cls, thread_id: str, part: Part, read: Callable[[], Part] | None = None
    ) -> GivenCheckpoint:
        """Read where a checkpoint is. It keeps `part`, unless `read` gives that again."""
        namespace = part.member("namespace").identifier(optional=True)
        ref = CheckpointRef(thread_id, namespace, part.member("id").identifier())
        parent, hidden = part.optional("parent_id"), part.optional("hidden")
        if hidden is not None and hidden.value is not True:
            raise hidden.wrong("true, or not there")
        parent_id = None if parent is None else parent.identifier()
        writes = len(part.member("writes").parts())
        return cls(ref, parent_id, hidden is not None, writes, read or (lambda: part))


def _behind_parents(given: Iterable[GivenCheckpoint]) -> list[GivenCheckpoint]:
    """Put checkpoints behind their parents, and else leave them in order. Ids are in the order of
    time, but where clocks differ a child may have the lower one.
    """
    by_ref: dict[CheckpointRef, GivenCheckpoint] = {}
    for one in given:
        if by_ref.setdefault(one.ref, one) is not one:
            raise one.read().member("id").wrong("the id of one checkpoint of its namespace")
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
            raise at.read().member("parent_id").wrong("the id of no descendant, nor its own")
        line[at.ref] = at
        at = None if at.parent_id is None else by_ref.get(at.ref.at(at.parent_id))
    return line
