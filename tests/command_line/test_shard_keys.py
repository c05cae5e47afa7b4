"""Shard keys: which commands are issued, and that every write names its key. No mongos is run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pymongo import MongoClient

from mongomem import ConfigurationError, MongoMemory
from mongomem.engine.commands import (
    BulkWrite,
    Command,
    CreateIndexes,
    Plan,
    Replace,
    RunCommand,
    Update,
)
from mongomem.engine.runners import Runners
from mongomem.engine.writes import UpdateCommand
from mongomem.testing import RecordingRunner
from mongomem.upkeep.shard_keys import ShardedCollection, Sharding
from support.backups import exported, filled, imported
from support.migrations import GRAPHS, config_of, fill

pytestmark = pytest.mark.shares_database


def issued(plan: Plan[Any], replies: dict[str, Any]) -> list[Command[Any]]:
    """Return the commands that a plan awaits, answered by hand."""
    commands: list[Command[Any]] = []
    reply: Any = None
    while True:
        try:
            commands.append(plan.send(reply))
        except StopIteration:
            return commands
        command = commands[-1]
        asked = command.command if isinstance(command, RunCommand) else {}
        reply = replies.get(next(iter(asked), ""))


SHARDING = Sharding(
    'a"b',
    (
        ShardedCollection("threads", {"thread_id": "hashed"}),
        ShardedCollection("cache", {"_id": 1}),
    ),
)


def test_the_commands_of_the_shell() -> None:
    assert [*SHARDING.lines()] == [
        r'sh.enableSharding("a\"b")',
        r'db.getSiblingDB("a\"b").getCollection("threads").createIndex({"thread_id": "hashed"})',
        r'sh.shardCollection("a\"b.threads", {"thread_id": "hashed"})',
        r'sh.shardCollection("a\"b.cache", {"_id": 1})',
    ]


def test_the_commands_that_are_issued() -> None:
    assert issued(SHARDING.check(), {"hello": {"msg": "isdbgrid"}}) == [RunCommand({"hello": 1})]
    assert issued(SHARDING.issue(), {}) == [
        RunCommand({"enableSharding": 'a"b'}, on_admin=True),
        CreateIndexes("threads", [([("thread_id", "hashed")], {})]),
        RunCommand(
            {"shardCollection": 'a"b.threads', "key": {"thread_id": "hashed"}}, on_admin=True
        ),
        RunCommand({"shardCollection": 'a"b.cache', "key": {"_id": 1}}, on_admin=True),
    ]


@pytest.mark.parametrize("hello", [{}, {"setName": "rs"}, {"msg": "other"}])
def test_a_server_that_is_no_router(hello: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="no mongos"):
        issued(SHARDING.check(), {"hello": hello})


def test_every_write_names_its_shard_key(mongo_client: MongoClient, database_name: str) -> None:
    """An update that may insert must name it, and so must one of one document that is named by no
    `_id`.
    """
    memory = MongoMemory(mongo_client, database_name)
    keys = {one.collection: one.key for one in Sharding.of(memory).collections}
    runner = RecordingRunner(mongo_client[database_name])
    memory.saver._runners = memory.store._runners = Runners(runner, None)  # type: ignore[arg-type]
    memory.cache._runners = memory._runners = memory.saver._runners
    filled(memory)
    GRAPHS["asking"](memory.saver).invoke({"topic": "x"}, config_of("other"))
    memory.saver.copy_thread("asking", "copied")
    memory.saver.prune(["asking"], keep_last=1)
    data, _ = exported(memory)
    memory.saver.delete_thread("asking")
    memory.saver.delete_idle_threads(timedelta(days=1))
    imported(memory, data)
    memory.cache.set({(("a",), "k"): ({"n": 1}, 5)})
    written = 0
    for command in runner.commands:
        if not isinstance(command, BulkWrite | UpdateCommand) or command.collection not in keys:
            continue
        for write in command.writes:
            if isinstance(write, Update | Replace):
                written += 1
                assert keys[command.collection].keys() <= write.filter.keys(), write
    assert written > 100


def test_indexes_of_shard_keys_disturb_nothing(
    mongo_client: MongoClient, database_name: str
) -> None:
    memory = MongoMemory(mongo_client, database_name)
    fill(memory.saver)
    for one in Sharding.of(memory).collections:
        if "_id" not in one.key:
            mongo_client[database_name][one.collection].create_index([*one.key.items()])
    memory = MongoMemory(mongo_client, database_name)
    memory.setup()
    state = GRAPHS["forked"](memory.saver).get_state(config_of("forked"))
    assert state.values["topic"] == "other"
