"""A copy that is cut short at any command goes on when it is called again."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from pymongo import MongoClient

from mongomem import MongoSaver, MongoStore
from mongomem.engine.runners import Runners
from mongomem.migration.item_copies import ItemCopies
from mongomem.migration.report import Report
from mongomem.migration.saver_threads import SaverThreads
from mongomem.migration.store_items import StoreItems
from mongomem.migration.thread_copies import ThreadCopies
from mongomem.testing import FailingRunner
from support.migrations import GRAPHS, config_of, copy

pytestmark = pytest.mark.shares_database

MOST_COMMANDS = 100
PERFORMED = (False, True)
"""How much of the command that ends the copy reaches the server: nothing, or all of it."""


def ended_at(client: MongoClient, database_name: str, at: int, *, performed: bool) -> Runners:
    runner = FailingRunner(client[database_name], at, performed, KeyboardInterrupt())
    return Runners(runner, None)  # type: ignore[arg-type]  # nothing is awaited here


def has_ended(broken: MongoSaver | MongoStore, at: int) -> bool:
    """Say whether a copy came to that command, also where the server refused it."""
    runner: Any = broken._runners.run
    return bool(runner.count > at)


@pytest.mark.parametrize("performed", PERFORMED)
def test_a_thread_goes_on_behind_every_command(
    mongo_client: MongoClient, database_name: str, performed: bool
) -> None:
    old = InMemorySaver()
    config = config_of("asking")
    GRAPHS["asking"](old).invoke({"topic": "x"}, config)
    source = SaverThreads(old)
    new = MongoSaver(mongo_client, database_name)
    new.setup()
    for at in range(MOST_COMMANDS):
        new.delete_thread("asking")
        broken = MongoSaver(mongo_client, database_name, auto_setup=False)
        broken._runners = ended_at(mongo_client, database_name, at, performed=performed)
        with contextlib.suppress(KeyboardInterrupt):
            ThreadCopies(source, broken, Report()).make()
        if not has_ended(broken, at):
            break
        for one in MongoSaver(mongo_client, database_name).list(config):
            there = old.get_tuple(one.config)
            assert there is not None
            assert len(one.pending_writes or ()) == len(there.pending_writes or ())
        report = copy(mongo_client, database_name, source)
        assert report.is_clean
        assert report.checkpoints.copied + report.checkpoints.present == 3
        state = GRAPHS["asking"](MongoSaver(mongo_client, database_name)).get_state(config)
        assert state == GRAPHS["asking"](old).get_state(config)
        (thread,) = new.list_threads()
        updated_at = datetime.fromisoformat(state.created_at or "")
        assert abs(thread.updated_at - updated_at) < timedelta(milliseconds=1)
    else:
        raise AssertionError("the copy never got through")
    assert at > 4


@pytest.mark.parametrize("performed", PERFORMED)
def test_items_go_on_behind_every_command(
    mongo_client: MongoClient, database_name: str, performed: bool
) -> None:
    old = InMemoryStore()
    for number in range(3):
        old.put(("a",), f"k{number}", {"n": number})
    source = StoreItems(old)
    new = MongoStore(mongo_client, database_name)
    new.setup()
    for at in range(MOST_COMMANDS):
        new.delete_namespace(("a",))
        broken = MongoStore(mongo_client, database_name, auto_setup=False)
        broken._runners = ended_at(mongo_client, database_name, at, performed=performed)
        with contextlib.suppress(KeyboardInterrupt):
            ItemCopies(source, broken, Report()).make()
        if not has_ended(broken, at):
            break
        assert copy(mongo_client, database_name, items=source).is_clean
    else:
        raise AssertionError("the copy never got through")
    assert at > 2
