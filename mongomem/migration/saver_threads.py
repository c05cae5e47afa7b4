"""Source: any LangGraph saver, by its public methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple
from pymongo.errors import PyMongoError

from mongomem.arguments import shown
from mongomem.checkpoint.documents.config import CheckpointRef, ref_of_config
from mongomem.errors import InvalidInputError
from mongomem.migration.blocked_types import all_revived
from mongomem.migration.parts import LeftOut, Place, SourceCheckpoint, SourceThread, SourceWrite

UNREACHABLE = (PyMongoError, OSError)
"""Errors that say nothing of what was to be read."""


MOST_LISTED = 1_000_000
"""In one listing. That of langgraph-checkpoint-redis ends at 10,000 unless it is given a limit,
takes no higher one than this, and knows no ``before`` for the ids that LangGraph gives."""


class SaverThreads:
    """The threads of any saver.

    A saver has no method that lists threads, so every checkpoint is listed once for their ids, once
    more thread by thread for the places, and read by itself. A listing is read to its end before
    anything else is asked: savers hold a lock or a cursor meanwhile (langgraph-checkpoint-sqlite
    3.1).
    """

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver = saver

    def threads(self) -> Iterator[SourceThread | LeftOut]:
        threads: dict[str, SourceThread] = {}
        failed: list[LeftOut] = []
        try:
            for one in self._listed(None):
                thread_id = ref_of_config(one.config).thread_id
                own_id = one.config["configurable"]["thread_id"]
                threads[thread_id] = SourceThread(thread_id, own_id)
        except UNREACHABLE:
            raise
        except Exception as error:  # whatever a saver does
            failed = [LeftOut.of("what the saver lists behind these threads", error)]
        yield from threads.values()
        yield from failed

    def places(self, thread: SourceThread) -> Iterator[Place | LeftOut]:
        found: list[Place | LeftOut] = []
        try:
            for one in self._listed({"configurable": {"thread_id": thread.own_id}}):
                found.append(_place(thread, one))  # noqa: PERF401 (an error leaves what was before)
        except UNREACHABLE:
            raise
        except Exception as error:  # whatever a saver does
            found.append(LeftOut.of(f"a part of thread {shown(thread.thread_id)}", error))
        yield from dict.fromkeys(found)

    def _listed(self, config: RunnableConfig | None) -> Iterator[CheckpointTuple]:
        """List checkpoints to the last. A listing without a limit may have one, so one is given,
        and what is older than the oldest is asked for until there is nothing.
        """
        oldest: RunnableConfig | None = None
        while True:
            page_oldest = oldest
            for one in self._saver.list(config, before=oldest, limit=MOST_LISTED):
                if page_oldest is None or _id(one.config) < _id(page_oldest):
                    page_oldest = one.config
                yield one
            if page_oldest is oldest:
                return
            oldest = page_oldest

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
            except UNREACHABLE:
                raise
            except Exception as error:  # whatever a saver does
                yield LeftOut.of(place.ref, error)


def _id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])


def _place(thread: SourceThread, one: CheckpointTuple) -> Place:
    ref = ref_of_config(one.config)
    parent = None if one.parent_config is None else ref_of_config(one.parent_config).checkpoint_id
    own = CheckpointRef(thread.thread_id, ref.checkpoint_ns, ref.checkpoint_id)
    return Place(own, parent, len(one.pending_writes or ()))


def _checkpoint(place: Place, found: CheckpointTuple) -> SourceCheckpoint:
    return SourceCheckpoint(place, found.checkpoint, found.metadata, _writes(found))


def _writes(found: CheckpointTuple) -> list[SourceWrite]:
    """Return the pending writes. Their places among those of their task are counted: savers tell
    neither them nor the path of the task.
    """
    counts: dict[str, int] = {}
    writes = []
    for task_id, channel, value in found.pending_writes or ():
        idx = WRITES_IDX_MAP.get(channel)
        if idx is None:
            idx = counts.get(task_id, 0)
            counts[task_id] = idx + 1
        writes.append(SourceWrite(task_id, "", idx, channel, value))
    return writes
