"""Source: any LangGraph saver, by its public methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple

from mongomem.arguments import shown
from mongomem.checkpoint.documents.config import CheckpointRef, ref_of_config
from mongomem.errors import InvalidInputError
from mongomem.migration.blocked_types import all_revived
from mongomem.migration.lenient_lister import lenient
from mongomem.migration.lost_sources import raise_if_lost
from mongomem.migration.parts import (
    LeftOut,
    Place,
    SourceCheckpoint,
    SourceThread,
    SourceWrite,
    source_thread,
)

MOST_LISTED = 1_000_000
"""In one listing. That of langgraph-checkpoint-redis ends at 10,000 unless it is given a limit,
takes no higher one than this, and knows no ``before`` for the ids that LangGraph gives."""

PAGED = "BasePostgresSaver"
"""The savers whose listing is in memory whole before it gives anything, with all values
(langgraph-checkpoint-postgres 3.2). It is newest first across threads, so it is asked for by
pages."""

PAGE_SIZE = 100


class SaverThreads:
    """The threads of any saver.

    A saver has no method that lists threads, so every checkpoint is listed once for their ids, once
    more thread by thread for the places, and read by itself. A listing is read to its end before
    anything else is asked: savers hold a lock or a cursor meanwhile (langgraph-checkpoint-sqlite
    3.1).
    """

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver, self._lister = saver, lenient(saver)
        self._is_paged = any(one.__name__ == PAGED for one in type(saver).__mro__)

    def threads(self) -> Iterator[SourceThread | LeftOut]:
        threads: dict[str, SourceThread | LeftOut] = {}
        failed: list[LeftOut] = []
        try:
            for one in self._listed(None):
                found = source_thread(one.config["configurable"]["thread_id"])
                threads[found.what if isinstance(found, LeftOut) else found.thread_id] = found
        except Exception as error:  # whatever a saver does
            raise_if_lost(error)
            failed = [LeftOut.of("what the saver lists behind these threads", error)]
        yield from threads.values()
        yield from failed

    def places(self, thread: SourceThread) -> Iterator[Place | LeftOut]:
        found: list[Place | LeftOut] = []
        try:
            for one in self._listed({"configurable": {"thread_id": thread.own_id}}):
                found.append(_place(thread, one))  # noqa: PERF401 (an error leaves what was before)
        except Exception as error:  # whatever a saver does
            raise_if_lost(error)
            found.append(LeftOut.of(f"a part of thread {shown(thread.thread_id)}", error))
        yield from dict.fromkeys(found)

    def _listed(self, config: RunnableConfig | None) -> Iterator[CheckpointTuple]:
        return self._paged(config) if self._is_paged else self._whole(config)

    def _whole(self, config: RunnableConfig | None) -> Iterator[CheckpointTuple]:
        """List checkpoints to the last. A listing without a limit may have one, so one is given,
        and what is older than the oldest is asked for until there is nothing.
        """
        oldest: RunnableConfig | None = None
        while True:
            page_oldest = oldest
            for one in self._lister.list(config, before=oldest, limit=MOST_LISTED):
                if page_oldest is None or _id(one.config) < _id(page_oldest):
                    page_oldest = one.config
                yield one
            if page_oldest is oldest:
                return
            oldest = page_oldest

    def _paged(self, config: RunnableConfig | None) -> Iterator[CheckpointTuple]:
        """List checkpoints by pages, newest first. A page begins with those of the oldest id of the
        one before, once more: a copy of a thread has the same ids.
        """
        before: RunnableConfig | None = None
        limit = PAGE_SIZE
        while True:
            page = [*self._lister.list(config, before=before, limit=limit)]
            yield from page
            if len(page) < limit:
                return
            # One that begins with another id is behind that, and before every higher one.
            behind: RunnableConfig = {"configurable": {"checkpoint_id": f"{_id(page[-1].config)}0"}}
            if behind == before:  # a page of one id
                limit *= 2
            before = behind

    def read(
        self, thread: SourceThread, places: Sequence[Place]
    ) -> Iterator[SourceCheckpoint | LeftOut]:
        for place in places:
            config = place.ref.config()
            config["configurable"]["thread_id"] = thread.own_id
            try:
                with all_revived():
                    found = self._saver.get_tuple(config)
                if found is None:
                    raise InvalidInputError("it was deleted meanwhile")
                yield _checkpoint(place, found)
            except Exception as error:  # whatever a saver does
                raise_if_lost(error)
                yield LeftOut.of(place.ref, error)


def _id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])


def _place(thread: SourceThread, one: CheckpointTuple) -> Place | LeftOut:
    try:
        ref = ref_of_config(one.config)
        on = None if one.parent_config is None else ref_of_config(one.parent_config)
    except InvalidInputError as error:
        return LeftOut.of(f"a checkpoint of thread {shown(thread.thread_id)}", error)
    own = CheckpointRef(thread.thread_id, ref.checkpoint_ns, ref.checkpoint_id)
    # Some savers call a checkpoint its own parent that was put by its own config.
    parent_id = None if on is None or on == ref else on.checkpoint_id
    return Place(own, parent_id, len(one.pending_writes or ()))


def _checkpoint(place: Place, found: CheckpointTuple) -> SourceCheckpoint:
    return SourceCheckpoint(place, found.checkpoint, found.metadata, _writes(found))


def _writes(found: CheckpointTuple) -> list[SourceWrite]:
    """Return the pending writes. Their places among those of their task are counted: savers tell
    neither them nor the path of the task.

    The order of tasks is that of their paths, and channels are rebuilt by it (`writes_sort_key`).
    So what stands for a path is the place of the task. A path of LangGraph begins with a tilde and
    sorts behind that: what a task writes that ran again comes behind what was copied.
    """
    tasks = {task_id: place for place, task_id in enumerate(_tasks(found))}
    counts: dict[str, int] = {}
    writes = []
    for task_id, channel, value in found.pending_writes or ():
        idx = WRITES_IDX_MAP.get(channel)
        if idx is None:
            idx = counts.get(task_id, 0)
            counts[task_id] = idx + 1
        writes.append(SourceWrite(task_id, f"{tasks[task_id]:010}", idx, channel, value))
    return writes


def _tasks(found: CheckpointTuple) -> dict[str, None]:
    """Return the ids of the tasks in the order of their pending writes."""
    return dict.fromkeys(task_id for task_id, _, _ in found.pending_writes or ())
