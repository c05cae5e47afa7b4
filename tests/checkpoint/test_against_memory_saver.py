"""MongoSaver against InMemorySaver, step by random step, over every runner.

Where the oracle differs from the documented contract, the generator stays off: a filter on None
(the oracle matches a missing key, PostgresSaver does not) and on nested values (the oracle compares
whole)."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import mongomock
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from pymongo import AsyncMongoClient, MongoClient

from mongomem.checkpoint.saver import MongoSaver
from support.savers import KINDS, end

CHANNELS = ("messages", "context", "flag", "__pregel_tasks")
NAMESPACES = ("", "child:1", "child:1|grand:2")
SPECIAL = ("__error__", "__interrupt__", "__resume__", "__scheduled__")

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
)
long_text = st.builds(
    lambda text, times: text * times,
    st.text("abcdefgh \u00e9\u4e2d", min_size=9),
    st.integers(200, 900),
)
values = st.recursive(
    scalars | long_text | st.binary(max_size=3000),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
metadata_values = st.booleans() | st.integers(-5, 5) | st.text("xyz", max_size=2)


def comparable(found: CheckpointTuple | None) -> Any:
    if found is None:
        return None
    return (
        {
            key: found.config["configurable"].get(key)
            for key in ("thread_id", "checkpoint_ns", "checkpoint_id")
        },
        found.checkpoint,
        found.metadata,
        found.parent_config,
        found.pending_writes,
    )


class SaverMachine(RuleBasedStateMachine):
    """Does the same to both savers and compares every answer."""

    saver: MongoSaver
    is_async: bool
    configs = Bundle("configs")

    def __init__(self) -> None:
        super().__init__()
        self.oracle = InMemorySaver()
        self.threads = [f"{name}-{uuid4()}" for name in "ab"]
        self.clock = 0

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if not self.is_async:
            return getattr(self.saver, name)(*args, **kwargs)
        return self.loop.run_until_complete(getattr(self.saver, f"a{name}")(*args, **kwargs))

    def listed(self, *args: Any, **kwargs: Any) -> list[CheckpointTuple]:
        if not self.is_async:
            return list(self.saver.list(*args, **kwargs))

        async def collect() -> list[CheckpointTuple]:
            return [one async for one in self.saver.alist(*args, **kwargs)]

        return self.loop.run_until_complete(collect())

    loop: asyncio.AbstractEventLoop

    @initialize(target=configs, thread=st.integers(0, 1))
    def begin(self, thread: int) -> Any:
        return {"configurable": {"thread_id": self.threads[thread], "checkpoint_ns": ""}}

    @rule(target=configs, thread=st.integers(0, 1), namespace=st.sampled_from(NAMESPACES))
    def root(self, thread: int, namespace: str) -> Any:
        return {"configurable": {"thread_id": self.threads[thread], "checkpoint_ns": namespace}}

    @rule(
        target=configs,
        config=configs,
        changes=st.dictionaries(st.sampled_from(CHANNELS), values | st.just(...), max_size=3),
        own=st.dictionaries(
            st.sampled_from(("user_id", "tag", "step")), metadata_values, max_size=3
        ),
        appended=st.none()
        | st.builds(
            lambda text, times: text * times, st.text(min_size=1, max_size=9), st.integers(1, 200)
        ),
    )
    def put(
        self, config: Any, changes: dict[str, Any], own: dict[str, Any], appended: str | None
    ) -> Any:
        parent = (
            self.oracle.get_tuple(config) if "checkpoint_id" in config["configurable"] else None
        )
        checkpoint = copy.deepcopy(parent.checkpoint) if parent else self._empty()
        if appended is not None:
            changes = {**changes, "log": [*checkpoint["channel_values"].get("log", []), appended]}
        new_versions = {}
        for channel, value in changes.items():
            current = checkpoint["channel_versions"].get(channel)
            new_versions[channel] = checkpoint["channel_versions"][channel] = (
                self.oracle.get_next_version(current, None)
            )
            checkpoint["channel_values"].pop(channel, None)
            if value is not ...:
                checkpoint["channel_values"][channel] = value
        checkpoint["id"] = str(uuid6())
        metadata: Any = {"source": "loop", "parents": {}, **own}
        passed = copy.deepcopy(checkpoint)
        stored = self.call("put", config, passed, metadata, new_versions)
        passed["channel_values"].clear()
        assert stored == self.oracle.put(config, checkpoint, metadata, new_versions)
        return stored

    def _empty(self) -> Any:
        return {
            "v": 4,
            "id": "",
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": {},
            "channel_versions": {},
            "versions_seen": {"node": {"messages": "1"}},
            "updated_channels": None,
        }

    @rule(
        config=configs,
        channels=st.lists(st.sampled_from(CHANNELS[:3] + SPECIAL), max_size=4),
        value=values,
        task=st.sampled_from(("zzz", "aaa")),
        path=st.sampled_from(("", "~a1", "~b1")),
    )
    def put_writes(
        self, config: Any, channels: list[str], value: Any, task: str, path: str
    ) -> None:
        if "checkpoint_id" not in config["configurable"]:
            return
        writes = [(channel, [value, position]) for position, channel in enumerate(channels)]
        self.call("put_writes", config, writes, task, path)
        self.oracle.put_writes(config, writes, task, path)

    @rule(config=configs)
    def get_tuple(self, config: Any) -> None:
        assert comparable(self.call("get_tuple", config)) == comparable(
            self.oracle.get_tuple(config)
        )

    @rule(
        config=configs,
        channels=st.lists(st.sampled_from((*CHANNELS, "log")), unique=True, max_size=3),
    )
    def delta_history(self, config: Any, channels: list[str]) -> None:
        mine = self.call("get_delta_channel_history", config=config, channels=channels)
        assert mine == self.oracle.get_delta_channel_history(config=config, channels=channels)

    @rule(
        thread=st.integers(0, 1),
        namespace=st.none() | st.sampled_from(NAMESPACES),
        before=st.none() | configs,
        filter=st.none()
        | st.dictionaries(st.sampled_from(("user_id", "tag")), metadata_values, max_size=2),
        limit=st.none() | st.integers(0, 12),
    )
    def list(
        self, thread: int, namespace: str | None, before: Any, filter: Any, limit: int | None
    ) -> None:
        config: Any = {"configurable": {"thread_id": self.threads[thread]}}
        if namespace is not None:
            config["configurable"]["checkpoint_ns"] = namespace
        expected = [
            comparable(one) for one in self.oracle.list(config, filter=filter, before=before)
        ]
        # The oracle lists namespace by namespace; the contract is newest first.
        expected.sort(
            key=lambda one: (one[0]["checkpoint_id"], one[0]["checkpoint_ns"]), reverse=True
        )
        expected = _strictly(expected, filter)
        if limit is not None:
            expected = expected[:limit]
        found = [
            comparable(one)
            for one in self.listed(config, filter=filter, before=before, limit=limit)
        ]
        assert found == expected

    @rule(thread=st.integers(0, 1))
    def delete_thread(self, thread: int) -> None:
        self.call("delete_thread", self.threads[thread])
        self.oracle.delete_thread(self.threads[thread])


def _strictly(expected: list[Any], filter: dict[str, Any] | None) -> list[Any]:
    """Drop what the oracle takes for equal and JSON does not: true is not 1."""
    return [
        one
        for one in expected
        if all(
            isinstance(one[2].get(key), bool) == isinstance(value, bool)
            for key, value in (filter or {}).items()
        )
    ]


@contextmanager
def client_of(kind: str, uri: str, loop: asyncio.AbstractEventLoop) -> Iterator[Any]:
    if kind == "mongomock":
        yield mongomock.MongoClient()
    elif kind == "awaiting":
        client = AsyncMongoClient(uri)
        yield client
        loop.run_until_complete(client.close())
    else:
        with MongoClient(uri) as client:
            yield client


@pytest.mark.parametrize("kind", KINDS)
def test_does_as_the_in_memory_saver(kind: str, mongo_uri: str, database_name: str) -> None:
    loop = asyncio.new_event_loop()
    with client_of(kind, mongo_uri, loop) as client:
        machine = type(
            "Machine",
            (SaverMachine,),
            {
                "saver": MongoSaver(client, database_name),
                "is_async": kind in ("threaded", "awaiting"),
                "loop": loop,
            },
        )
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=12,
                stateful_step_count=25,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    end(loop)
