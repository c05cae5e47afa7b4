"""A thread that comes from a saver of numbers goes on with versions of their kind."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from pymongo import MongoClient

from mongomem import MongoSaver
from support.graphs import chain_of


class Counting(InMemorySaver):
    """A saver of integers or floats, as those of old were: it does not override the base's
    versions.
    """

    first: Any = 1

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.first if current is None else current + 1


@pytest.mark.parametrize("first", [1, 1.0])
def test_a_thread_from_a_saver_of_numbers_goes_on(
    first: Any, mongo_client: MongoClient, database_name: str
) -> None:
    theirs, ours = Counting(), MongoSaver(mongo_client, database_name)
    theirs.first = first
    config: Any = {"configurable": {"thread_id": "t"}}
    chain_of(theirs, "one", "two").invoke({"log": ["begin"]}, config)
    placed: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for one in reversed(list(theirs.list(config))):
        placed = ours.put(placed, one.checkpoint, one.metadata, {})
        by_task: dict[str, list[Any]] = {}
        for task, channel, value in one.pending_writes or ():
            by_task.setdefault(task, []).append((channel, value))
        for task, writes in by_task.items():
            ours.put_writes(placed, writes, task)
    graph = chain_of(ours, "one", "two")
    assert graph.get_state(config).values == {"log": ["begin", "one", "two"], "count": 2}
    for turn in range(2):
        result = graph.invoke({"log": ["again"]}, config)
        assert result["log"][-3:] == ["again", "one", "two"]
        assert result["count"] == 4 + 2 * turn
    newest = ours.get_tuple(config)
    assert newest is not None
    assert {type(version) for version in newest.checkpoint["channel_versions"].values()} == {
        type(first)
    }
