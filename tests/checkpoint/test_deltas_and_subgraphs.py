"""Graphs that ask a saver for more than to keep what it is given: DeltaChannels, integer versions,
subgraphs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from langgraph.types import Command

from mongomem.checkpoint.saver import MongoSaver
from support.graphs import Play, asking, assert_as_in_memory, chain_of, counting, nested
from support.savers import saver_of

STEPS = 30


pytestmark = pytest.mark.shares_database


@pytest.fixture
async def play(mongo_uri: str, database_name: str, kind: str) -> AsyncIterator[Play]:
    async with saver_of(kind, mongo_uri, database_name, grace=timedelta(0)) as saver:
        yield Play(saver, kind in ("awaiting", "threaded"))


async def count(play: Play, graph: Any, config: Any, steps: int) -> None:
    for number in range(steps):
        await play.call(graph, "invoke", {"items": [f"input {number}"]}, config)


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
@pytest.mark.parametrize("frequency", [1, 3, 1000])
async def test_a_delta_channel_is_as_in_memory(frequency: int, play: Play) -> None:
    async def scenario(play: Play) -> None:
        graph, config = counting(play.saver, frequency), play.thread()
        await count(play, graph, config, 6)
        await play.look(graph, config)
        older = (await play.history(graph, config))[5]
        fork = await play.call(
            graph, "update_state", older.config, {"items": ["forked"]}, as_node="step"
        )
        await play.call(graph, "invoke", {"items": ["on the fork"]}, fork)
        await play.look(graph, config)
        await play.look(graph, older.config)

    await assert_as_in_memory(scenario, play)


@pytest.mark.parametrize("kind", ["blocking", "awaiting", "mongomock"])
@pytest.mark.parametrize("frequency", [1, 3, 1000])
async def test_pruning_leaves_the_state_of_a_delta_channel(frequency: int, play: Play) -> None:
    graph, config = counting(play.saver, frequency), play.thread()
    await count(play, graph, config, STEPS)
    before = await play.call(graph, "get_state", config)
    assert len(before.values["items"]) == 2 * STEPS
    for _ in range(3):
        await play.call(
            play.saver, "prune", [config["configurable"]["thread_id"]], strategy="keep_latest"
        )
        after = await play.call(graph, "get_state", config)
        assert after.values == before.values
        assert after.parent_config is None
        assert len(await play.history(graph, config)) == 1
    await count(play, graph, config, 3)
    assert len((await play.call(graph, "get_state", config)).values["items"]) == 2 * STEPS + 6
    for one in await play.history(graph, config):
        assert one.values["items"][: 2 * STEPS] == before.values["items"]


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_pruning_leaves_every_fork_tip_that_it_keeps_of_a_delta_channel(play: Play) -> None:
    graph, config = counting(play.saver, 1000), play.thread()
    await count(play, graph, config, 5)
    older = (await play.history(graph, config))[7]
    fork = await play.call(
        graph, "update_state", older.config, {"items": ["forked"]}, as_node="step"
    )
    await play.call(graph, "invoke", {"items": ["on the fork"]}, fork)
    kept = (await play.history(graph, config))[:6]
    await play.call(play.saver, "prune", [config["configurable"]["thread_id"]], keep_last=6)
    for before in kept:
        after = await play.call(graph, "get_state", before.config)
        assert (after.values, after.next, after.tasks) == (before.values, before.next, before.tasks)


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
@pytest.mark.parametrize("frequency", [1, 1000])
async def test_a_plain_channel_may_become_a_delta_channel_and_plain_again(
    frequency: int, play: Play
) -> None:
    async def scenario(play: Play) -> None:
        plain, delta, config = (
            counting(play.saver, None),
            counting(play.saver, frequency),
            play.thread(),
        )
        await count(play, plain, config, 3)
        await play.look(delta, config)
        await count(play, delta, config, 3)
        await play.look(delta, config)

    await assert_as_in_memory(scenario, play)
    state = await play.call(counting(play.saver, frequency), "get_state", play.thread())
    assert len(state.values["items"]) == 12


@pytest.mark.parametrize("kind", ["blocking"])
async def test_pruning_leaves_a_channel_that_became_a_delta_channel(play: Play) -> None:
    plain, delta, config = counting(play.saver, None), counting(play.saver, 1000), play.thread()
    await count(play, plain, config, 3)
    await count(play, delta, config, 3)
    before = await play.call(delta, "get_state", config)
    await play.call(play.saver, "prune", [config["configurable"]["thread_id"]])
    assert (await play.call(delta, "get_state", config)).values == before.values


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_removing_a_run_leaves_the_later_state_of_a_delta_channel(play: Play) -> None:
    graph, config = counting(play.saver, 1000), play.thread()
    for number in range(4):
        run = config | {"metadata": {"run_id": f"run {number}"}}
        await play.call(graph, "invoke", {"items": [f"run {number}"]}, run)
    before = await play.call(graph, "get_state", config)
    await play.call(play.saver, "delete_for_runs", ["run 1"])
    after = await play.call(graph, "get_state", config)
    assert after.values == before.values
    assert len(await play.history(graph, config)) == 9


class Integers(MongoSaver):
    """Versions that collide between forks, as savers of old made them."""

    def get_next_version(self, current: Any, channel: None) -> Any:
        return (current or 0) + 1


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
@pytest.mark.parametrize("size", [1, 20_000])
async def test_forks_with_colliding_integer_versions_keep_their_own_values(
    size: int, kind: str, play: Play
) -> None:
    saver = Integers.__new__(Integers)
    saver.__dict__.update(play.saver.__dict__)
    graph, config = chain_of(saver, "one", "two"), play.thread()
    await play.call(graph, "invoke", {"log": ["begin"], "topic": "t"}, config)
    base = next(one for one in await play.history(graph, config) if one.next == ("one",))
    forks = {}
    for name in ("left", "right", "wrong"):
        value = {"topic": name * size, "log": [name]}
        fork = await play.call(graph, "update_state", base.config, value, as_node="__start__")
        forks[name] = (await play.call(graph, "invoke", None, fork), fork)
    for name, (result, fork) in forks.items():
        assert result["topic"] == name * size
        assert result["log"] == ["begin", name, "one", "two"]
        assert (await play.call(graph, "get_state", fork)).values["topic"] == name * size
    tips = [one for one in await play.history(graph, config) if not one.next]
    assert [tip.values["log"][1] for tip in tips] == ["wrong", "right", "left", "one"]


@pytest.mark.parametrize("kind", ["blocking", "awaiting", "mongomock"])
async def test_the_namespaces_of_subgraphs_are_listed_apart_and_deleted_together(
    play: Play,
) -> None:
    graph, config, bystander = nested(play.saver), play.thread(), play.thread("other")
    for thread in (config, bystander):
        await play.call(graph, "invoke", {"log": []}, thread)
    listed = [one async for one in play.each(play.saver, "list", config)]
    namespaces = {one.config["configurable"]["checkpoint_ns"] for one in listed}
    assert sorted(namespace.count("|") + bool(namespace) for namespace in namespaces) == [0, 1, 2]
    for namespace in namespaces:
        place = play.thread(checkpoint_ns=namespace)
        own = [one async for one in play.each(play.saver, "list", place)]
        assert own == [
            one for one in listed if one.config["configurable"]["checkpoint_ns"] == namespace
        ]
        newest = await play.call(play.saver, "get_tuple", place)
        assert newest == own[0]
    await play.call(play.saver, "delete_thread", config["configurable"]["thread_id"])
    assert [one async for one in play.each(play.saver, "list", config)] == []
    assert len([one async for one in play.each(play.saver, "list", bystander)]) == len(listed)
    assert (await play.call(graph, "get_state", config)).values == {}


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_pruning_an_interrupted_thread_leaves_the_interrupt_in_its_subgraph(
    play: Play,
) -> None:
    graph, config = nested(play.saver), play.thread()
    for answer in ("first", "second"):
        await play.call(graph, "invoke", {"log": [answer]}, config)
        await play.call(play.saver, "prune", [config["configurable"]["thread_id"]])
        result = await play.call(graph, "invoke", Command(resume=answer), config)
        assert f"decided {answer}" in result["log"]
        assert result["log"][-1] == "close"


@pytest.mark.parametrize("kind", ["blocking", "awaiting", "mongomock"])
async def test_a_copied_thread_goes_on_by_itself(play: Play) -> None:
    graph, config, target = asking(play.saver), play.thread(), play.thread("copy")
    await play.call(graph, "invoke", {"log": []}, config)
    await play.call(
        play.saver, "copy_thread", *(one["configurable"]["thread_id"] for one in (config, target))
    )
    await play.call(play.saver, "delete_thread", config["configurable"]["thread_id"])
    assert (await play.call(graph, "get_state", target)).interrupts
    result = await play.call(graph, "invoke", Command(resume="yes"), target)
    assert result["log"] == ["begin", "ask0: yes", "finish"]


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_copying_a_pruned_delta_thread_copies_its_state(play: Play) -> None:
    graph, config, target = counting(play.saver, 1000), play.thread(), play.thread("copy")
    await count(play, graph, config, 4)
    source_id, target_id = (one["configurable"]["thread_id"] for one in (config, target))
    await play.call(play.saver, "prune", [source_id])
    await play.call(play.saver, "copy_thread", source_id, target_id)
    state = await play.call(graph, "get_state", target)
    assert state.values == (await play.call(graph, "get_state", config)).values
    assert len(await play.history(graph, target)) == 1
