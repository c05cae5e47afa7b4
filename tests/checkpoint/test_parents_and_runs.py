"""Which checkpoint a put continues, and which run made it: by configs and ids of every form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from bson import ObjectId

from support.graphs import Steps
from support.savers import KINDS, Calls, saver_of

pytestmark = pytest.mark.shares_database

THREAD: Any = {"configurable": {"thread_id": "t"}}

RUN = UUID("00000000-0000-4000-8000-000000000001")


@pytest.fixture
async def calls(mongo_uri: str, database_name: str, kind: str) -> AsyncIterator[Calls]:
    async with saver_of(kind, mongo_uri, database_name) as saver:
        yield Calls(saver, kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_checkpoint_that_is_put_again_by_its_own_config_stays_on_its_parent(
    calls: Calls,
) -> None:
    steps = Steps(calls)
    first, second = await steps.put(c=1, long="x" * 20_000), await steps.put(c=2, long="x" * 20_000)
    await steps.put(c=3, long="x" * 20_000)
    found = await calls("get_tuple", second)
    changed = {**found.checkpoint, "channel_values": {"c": "changed", "long": "y"}}
    changed["channel_versions"] = {"c": "9", "long": "9"}
    assert await calls("put", second, changed, found.metadata, {}) == second
    again = await calls("get_tuple", second)
    assert again.checkpoint["channel_values"] == {"c": "changed", "long": "y"}
    assert again.parent_config == first
    history = await calls("get_delta_channel_history", config=second, channels=["c"])
    assert history["c"]["seed"] == 1
    await calls("prune", ["t"], keep_last=2)
    left = [one.checkpoint["channel_values"]["c"] for one in await calls.list(THREAD)]
    assert left == [3, "changed"]


@pytest.mark.parametrize("kind", KINDS)
async def test_checkpoints_that_are_copied_by_their_own_configs_are_nobodys_ancestors(
    calls: Calls,
) -> None:
    steps = Steps(calls)
    for number in range(5):
        await steps.put(c=number, long="x" * 20_000)
    for one in await calls.list(THREAD):
        moved = {"configurable": {**one.config["configurable"], "thread_id": "copy"}}
        await calls("put", moved, one.checkpoint, one.metadata, {})
    copied = await calls.list({"configurable": {"thread_id": "copy"}})
    originals = await calls.list(THREAD)
    assert [one.checkpoint for one in copied] == [one.checkpoint for one in originals]
    assert [one.parent_config for one in copied] == [None] * 5
    await calls("prune", ["copy"])
    (newest,) = await calls.list({"configurable": {"thread_id": "copy"}})
    assert newest.checkpoint == originals[0].checkpoint


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("run_id", [RUN, 7, ObjectId("0" * 24), "run"], ids=str)
async def test_a_run_is_found_by_its_id_of_any_form(calls: Calls, run_id: Any) -> None:
    for number, asked in enumerate((run_id, str(run_id))):
        steps = Steps(calls, f"thread {number}")
        await steps.put(c=1)
        await steps.put({"run_id": run_id}, c=2)
        await calls("delete_for_runs", [asked])
        place = {"configurable": {"thread_id": f"thread {number}"}}
        assert [one.checkpoint["channel_values"]["c"] for one in await calls.list(place)] == [1]
