"""Copies of threads: each whole, its checkpoints oldest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.collections import checkpoint_doc_id
from mongomem.checkpoint.plans.put import put
from mongomem.checkpoint.plans.put_writes import SerializedWrite, Task, store_writes
from mongomem.checkpoint.saver import MongoSaver
from mongomem.checkpoint.serde.channels import serialized
from mongomem.checkpoint.serde.place_digest import BEGAN, MILLISECOND
from mongomem.errors import (
    ContentionError,
    CorruptDataError,
    InvalidInputError,
    UnstorableValueError,
)
from mongomem.migration.parts import (
    LeftOut,
    Place,
    SourceCheckpoint,
    SourceThread,
    SourceWrite,
    ThreadSource,
    behind_parents,
    parted,
)
from mongomem.migration.report import Report
from mongomem.transfer.json_parts import CLOCKS_DIFFER
from mongomem.transfer.stored_thread import (
    Stored,
    date_thread,
    stored_checkpoints,
    stored_parts,
)

OF_ONE = (InvalidInputError, UnstorableValueError, CorruptDataError, ContentionError)
"""Errors that are those of one checkpoint or item, and not of the target."""


@dataclass(frozen=True, slots=True)
class ThreadCopies:
    """The copy of every thread of a source.

    Nothing of the target is replaced or removed: a checkpoint that is there stays, and so do its
    writes. A copy that was cut short leaves whole checkpoints, and the same call goes on behind
    them. Nothing may run on a thread meanwhile.

    Attributes:
        source: Where the threads are.
        saver: Where they go.
        report: What is told of it.
        tell: Is called after each step.
        dry_run: Count, and write nothing.
    """

    source: ThreadSource
    saver: MongoSaver
    report: Report
    tell: Callable[[], None] = lambda: None
    dry_run: bool = False

    def make(self) -> None:
        """Copy the threads.

        Raises:
            PyMongoError: A connection was lost, or a right is missing.
            ConfigurationError: The target is not one.
        """
        for thread in self.source.threads():
            if isinstance(thread, LeftOut):
                self.report.left_out.add([thread])
            else:
                self.report.threads += 1
                self._copy(thread)
            self.tell()

    def _copy(self, thread: SourceThread) -> None:
        places, lost = parted(self.source.places(thread))
        stored = self.saver._runners.run(stored_parts(self.saver._context(), thread.thread_id))
        missing = [
            one for one in behind_parents(places) if not stored.has_all_of(one.ref, one.writes)
        ]
        self._count(places, lost, stored)
        if self.dry_run or not places:
            return
        for one in self.source.read(thread, missing):
            self._store(one, stored)
            self.tell()
        self._date(thread, places)

    def _count(self, places: Sequence[Place], lost: Sequence[LeftOut], stored: Stored) -> None:
        self.report.left_out.add(lost)
        self.report.checkpoints.found += len(places) + len(lost)
        self.report.checkpoints.present += sum(stored.has(one.ref) for one in places)
        self.report.writes += sum(one.writes for one in places)

    def _store(self, one: SourceCheckpoint | LeftOut, stored: Stored) -> None:
        if isinstance(one, LeftOut):
            self.report.left_out.add([one])
            return
        is_there = stored.has(one.place.ref)
        try:
            self.saver._runners.run(
                store_checkpoint(self.saver._context(), one, writes_alone=is_there)
            )
        except OF_ONE as error:
            self.report.left_out.add([LeftOut.of(one.place.ref, error)])
        else:
            self.report.checkpoints.copied += not is_there

    def _date(self, thread: SourceThread, places: Sequence[Place]) -> None:
        """Give a thread the times of its first and its last checkpoint, so that lists show it where
        it belongs. One that went on in the target keeps its last.
        """
        run, context = self.saver._runners.run, self.saver._context()
        ordered = sorted(places, key=lambda place: place.ref.checkpoint_id or "")
        ends, _ = parted(self.source.read(thread, [ordered[0], ordered[-1]]))
        now = context.now()
        times = sorted(time for one in ends if (time := _time(one, now)) is not None)
        if not times:
            return
        stored = run(stored_checkpoints(context, thread.thread_id))
        known = {checkpoint_doc_id(one.ref) for one in places}
        run(date_thread(context, thread.thread_id, (times[0], times[-1]), stored, known))


def _time(one: SourceCheckpoint, now: datetime) -> datetime | None:
    """Return when a checkpoint was made; None where that is no time that has been."""
    try:
        made = datetime.fromisoformat(one.checkpoint["ts"]).astimezone(timezone.utc)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return made if BEGAN + MILLISECOND <= made <= now + CLOCKS_DIFFER else None


async def store_checkpoint(
    context: Context, one: SourceCheckpoint, *, writes_alone: bool = False
) -> None:
    """Store the writes of a checkpoint, each in the place that it had, then the checkpoint: once
    that is there, so are they.
    """
    for (task_id, path), writes in _by_task(one.writes).items():
        await store_writes(
            context,
            Task(one.place.ref, task_id, path),
            [_serialized(context, write) for write in writes],
        )
    if not writes_alone:
        config = one.place.ref.at(one.place.parent_id).config()
        await put(context, config, one.checkpoint, one.metadata)


def _by_task(writes: Sequence[SourceWrite]) -> dict[tuple[str, str], list[SourceWrite]]:
    found: dict[tuple[str, str], list[SourceWrite]] = {}
    for one in writes:
        found.setdefault((one.task_id, one.task_path), []).append(one)
    return found


def _serialized(context: Context, write: SourceWrite) -> SerializedWrite:
    value = serialized(context.serializer, "a write to channel %s", write.channel, write.value)
    return SerializedWrite(write.idx, write.channel, value)
