"""What a source gives. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata

from mongomem.arguments import shown
from mongomem.checkpoint.documents.config import CheckpointRef, identifier
from mongomem.errors import InvalidInputError, MongomemError

LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What was not copied, and why not."""

    what: str
    reason: str

    @classmethod
    def of(cls, what: object, error: Exception) -> LeftOut:
        """Say in one line what an error means."""
        said = " ".join(str(error).split())
        if not isinstance(error, MongomemError):
            said = f"{type(error).__name__}: {said}"
        return cls(str(what), said[:LONGEST_REASON])


@dataclass(frozen=True, slots=True)
class SourceThread:
    """A thread of a source.

    Attributes:
        thread_id: What it is called in the target.
        own_id: What the source calls it.
    """

    thread_id: str
    own_id: Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where a checkpoint is, and how many pending writes it has."""

    ref: CheckpointRef
    parent_id: str | None
    writes: int


@dataclass(frozen=True, slots=True)
class SourceWrite:
    """A pending write."""

    task_id: str
    task_path: str
    idx: int
    channel: str
    value: Any


@dataclass(frozen=True, slots=True)
class SourceCheckpoint:
    """A checkpoint with everything of it, its values deserialized."""

    place: Place
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    writes: Sequence[SourceWrite]


@dataclass(frozen=True, slots=True)
class SourceItem:
    """An item.

    Attributes:
        namespace: Where it is.
        key: Its name there.
        value: Its value.
        created_at: When it was made, aware.
        updated_at: When it was put last, aware.
        ttl_minutes: How long items of the source live; None where the source does not tell.
    """

    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    ttl_minutes: float | None = None

    def __str__(self) -> str:
        return f"item {shown(self.key)} in {shown(self.namespace)}"


class ThreadSource(Protocol):
    """Where threads come from."""

    def threads(self) -> Iterator[SourceThread | LeftOut]:
        """Give the threads."""
        ...

    def places(self, thread: SourceThread) -> Iterator[Place | LeftOut]:
        """Give the places of the checkpoints of a thread, in any order."""
        ...

    def read(
        self, thread: SourceThread, places: Sequence[Place]
    ) -> Iterator[SourceCheckpoint | LeftOut]:
        """Read checkpoints of a thread, in the order of the places."""
        ...


class ItemSource(Protocol):
    """Where items come from."""

    def pages(self) -> Iterator[list[SourceItem | LeftOut]]:
        """Give the items by pages."""
        ...


T = TypeVar("T")


def source_thread(own_id: object) -> SourceThread | LeftOut:
    """Return a thread by what its source calls it."""
    try:
        thread_id = identifier("thread_id", own_id)
        if not thread_id:
            raise InvalidInputError("a thread_id is not empty")
        return SourceThread(thread_id, own_id)
    except InvalidInputError as error:
        return LeftOut.of(f"thread {shown(own_id)}", error)


def parted(found: Iterable[T | LeftOut]) -> tuple[list[T], list[LeftOut]]:
    """Tell what was read from what was left out."""
    read: list[T] = []
    left_out: list[LeftOut] = []
    for one in found:
        if isinstance(one, LeftOut):
            left_out.append(one)
        else:
            read.append(one)
    return read, left_out


def behind_parents(places: Iterable[Place]) -> list[Place]:
    """Put places in the order of their ids, which is that of time, but each behind its parent:
    where clocks differ a child may have the lower id.
    """
    by_ref = {
        one.ref: one for one in sorted(places, key=lambda place: place.ref.checkpoint_id or "")
    }
    placed: dict[CheckpointRef, Place] = {}
    for one in by_ref.values():
        line: dict[CheckpointRef, Place] = {}
        at: Place | None = one
        while at is not None and at.ref not in placed and at.ref not in line:
            line[at.ref] = at
            at = None if at.parent_id is None else by_ref.get(at.ref.at(at.parent_id))
        placed |= reversed(line.items())
    return [*placed.values()]
