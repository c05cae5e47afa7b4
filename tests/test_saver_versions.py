"""Versions of channels: above the last, of its kind, so that a thread from any saver goes on."""

from __future__ import annotations

import math
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from pymongo import MongoClient

from graphs import chain_of
from mongomem import InvalidInputError, MongoSaver
from mongomem.checkpoint.versions import next_version
from store_fixtures import named

KINDS: list[Any] = [None, "00000000000000000000000000000007.0.5", "7", 0, 7, 2**63, 2**70, 0.0, 7.5, 2.0**60, 1e300, -3]


@pytest.mark.parametrize("current", KINDS, ids=named)
def test_the_next_version_is_above_the_last_and_of_its_kind(current: Any) -> None:
    following = [next_version(current)]
    for _ in range(20):
        following.append(next_version(following[-1]))
    assert following == sorted(set(following))
    assert {type(one) for one in following} == {str if current is None else type(current)}
    assert current is None or current == "7" or current < following[0]


def test_two_branches_that_count_alike_differ() -> None:
    assert next_version(None) != next_version(None)


@pytest.mark.parametrize("wrong", [True, "", "a", ".5", b"1", [], {}, math.nan, math.inf, object()], ids=named)
def test_what_is_no_version_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="version"):
        next_version(wrong)


class Counting(InMemorySaver):
    """A saver of integers or floats, as those of old were: it does not override the base's versions."""

    first: Any = 1

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.first if current is None else current + 1


@pytest.mark.parametrize("first", [1, 1.0])
def test_a_thread_from_a_saver_of_numbers_goes_on(first: Any, mongo_client: MongoClient, database_name: str) -> None:
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
    assert {type(version) for version in newest.checkpoint["channel_versions"].values()} == {type(first)}
