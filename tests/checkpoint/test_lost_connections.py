"""Puts and pending writes are sent once. Whatever becomes of the connection, what the caller was
told is stored is stored, once; and what comes late changes nothing that came after it.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ConnectionFailure,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)

from mongomem import MongoSaver
from mongomem.checkpoint.plans.put import MOST_SENT
from mongomem.engine.writes import OutcomeUnknownError, SentOnce, UpdateCommand, WriteReply
from support.graphs import Steps
from support.savers import Calls, saver_of

KINDS = ("blocking", "threaded", "awaiting", "bridging")

UNKNOWN: dict[str, Callable[[], Exception]] = {
    "connection": lambda: AutoReconnect("connection closed"),
    "time out": lambda: NetworkTimeout("timed out"),
    "step down": lambda: NotPrimaryError("not primary", {"code": 10107}),
    "shut down": lambda: OperationFailure("interrupted", 11600),
}

Losing = Callable[[int, Callable[[], Exception], bool], list[SentOnce]]


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Losing:
    """Make the next so many commands that are sent once raise an error, done or not; return what is
    sent.
    """

    def lose(count: int, error: Callable[[], Exception], done: bool) -> list[SentOnce]:
        sent: list[SentOnce] = []
        issue = SentOnce.issue

        async def raised(reply: Any = None) -> Any:
            if inspect.isawaitable(reply):
                await reply
            raise error()

        def issued(command: SentOnce, database: Any) -> Any:
            sent.append(command)
            if len(sent) > count:
                return issue(command, database)
            reply = issue(command, database) if done else None
            if "Async" in type(database).__name__:
                return raised(reply)
            raise error()

        monkeypatch.setattr(SentOnce, "issue", issued)
        return sent

    return lose


@pytest.fixture(params=KINDS)
async def calls(
    request: pytest.FixtureRequest, mongo_uri: str, database_name: str
) -> AsyncIterator[Calls]:
    async with saver_of(request.param, mongo_uri, database_name) as saver:
        yield Calls(saver, request.param)


@pytest.mark.parametrize("done", [True, False], ids=["reply lost", "request lost"])
@pytest.mark.parametrize("met", UNKNOWN)
async def test_a_put_whose_outcome_is_unknown_is_stored_once(
    calls: Calls, losing: Losing, met: str, done: bool
) -> None:
    steps = Steps(calls)
    for number in range(2):
        await steps.put(a="a" * 9_000, number=number)
    sent = losing(1, UNKNOWN[met], done)
    await steps.put(number=2)
    assert [type(one) for one in sent] == [UpdateCommand, UpdateCommand]
    found = await calls.list(steps.config | {"configurable": {"thread_id": "t"}})
    assert [one.checkpoint["channel_values"]["number"] for one in found] == [2, 1, 0]
    assert found[0].checkpoint["channel_values"]["a"] == "a" * 9_000
    assert found[0].parent_config == found[1].config


@pytest.mark.parametrize("done", [True, False], ids=["reply lost", "request lost"])
async def test_the_first_put_of_a_thread_too(calls: Calls, losing: Losing, done: bool) -> None:
    losing(1, UNKNOWN["connection"], done)
    steps = Steps(calls)
    await steps.put({"user_id": "ada"}, a=1)
    await steps.put(a=2)
    found = await calls.list({"configurable": {"thread_id": "t"}})
    assert [one.checkpoint["channel_values"] for one in found] == [{"a": 2}, {"a": 1}]
    (thread,) = await calls("list_threads", filter={"user_id": "ada"})
    assert thread.thread_id == "t"


async def test_a_put_is_sent_three_times_at_most(calls: Calls, losing: Losing) -> None:
    steps = Steps(calls)
    await steps.put(a=1)
    sent = losing(10, UNKNOWN["connection"], False)
    with pytest.raises(AutoReconnect, match="connection closed"):
        await steps.put(a=2)
    assert len(sent) == MOST_SENT == 3


async def test_attempts_that_met_others_are_not_counted(calls: Calls, losing: Losing) -> None:
    met_others = BulkWriteError({"writeErrors": [{"index": 0, "code": 11000, "errmsg": ""}]})
    errors = iter([met_others] * 3 + [AutoReconnect("connection closed")] * (MOST_SENT - 1))
    steps = Steps(calls)
    await steps.put(a=1)
    sent = losing(3 + MOST_SENT - 1, lambda: next(errors), False)
    await steps.put(a=2)
    assert len(sent) == 3 + MOST_SENT
    assert (await calls("get_tuple", steps.config)).checkpoint["channel_values"] == {"a": 2}


@pytest.mark.parametrize("error", [ServerSelectionTimeoutError, WaitQueueTimeoutError])
async def test_what_was_never_sent_is_not_sent_again(
    calls: Calls, losing: Losing, error: type[ConnectionFailure]
) -> None:
    steps = Steps(calls)
    await steps.put(a=1)
    sent = losing(10, lambda: error("no server"), False)
    with pytest.raises(error):
        await steps.put(a=2)
    assert len(sent) == 1


@pytest.mark.parametrize("done", [True, False], ids=["reply lost", "request lost"])
async def test_writes_whose_outcome_is_unknown_are_stored_once(
    calls: Calls, losing: Losing, done: bool
) -> None:
    steps = Steps(calls)
    config = await steps.put(a=1)
    losing(1, UNKNOWN["connection"], done)
    await calls("put_writes", config, [("a", 1), ("b", 2)], "task")
    found = await calls("get_tuple", config)
    assert found.pending_writes == [("task", "a", 1), ("task", "b", 2)]


async def test_the_first_write_of_a_task_stays(calls: Calls) -> None:
    steps = Steps(calls)
    config = await steps.put(a=1)
    await calls("put_writes", config, [("a", 1), ("b", 2)], "task")
    await calls("put_writes", config, [("a", 7), ("b", 7), ("c", 3)], "task")
    found = await calls("get_tuple", config)
    assert found.pending_writes == [("task", "a", 1), ("task", "b", 2), ("task", "c", 3)]


@pytest.fixture
def saver(mongo_client: MongoClient[Any], database_name: str) -> MongoSaver:
    return MongoSaver(mongo_client, database_name)


REMOVALS: dict[str, Callable[[MongoSaver], Any]] = {
    "delete_thread": lambda saver: saver.delete_thread("t"),
    "prune": lambda saver: saver.prune(["t"], strategy="delete"),
}


@pytest.mark.parametrize("removal", REMOVALS)
async def test_a_put_that_comes_late_brings_nothing_back(
    saver: MongoSaver,
    mongo_client: MongoClient[Any],
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
    removal: str,
) -> None:
    calls, sent = Calls(saver, "blocking"), list[UpdateCommand]()
    perform = UpdateCommand.perform

    def recorded(command: UpdateCommand, database: Any) -> Any:
        sent.append(command)
        return perform(command, database)

    monkeypatch.setattr(UpdateCommand, "perform", recorded)
    steps = Steps(calls)
    for number in range(3):
        await steps.put(a="a" * 9_000, number=number)
    REMOVALS[removal](saver)
    database = mongo_client.get_database(database_name)
    before = list(saver.list({"configurable": {"thread_id": "t"}}))
    for command in list(sent):
        with pytest.raises(BulkWriteError):
            perform(command, database)
    assert list(saver.list({"configurable": {"thread_id": "t"}})) == before
    assert len(saver.list_threads()) == (1 if before else 0)


def test_a_reply_that_a_failover_may_undo_is_no_answer() -> None:
    undone = {"ok": 1.0, "n": 1, "writeConcernError": {"code": 91, "errmsg": "shutting down"}}
    with pytest.raises(OutcomeUnknownError) as met:
        WriteReply.of(undone)
    assert isinstance(met.value.met, BulkWriteError)
    late = {"ok": 1.0, "n": 1, "writeConcernError": {"code": 64, "errmsg": "waiting timed out"}}
    with pytest.raises(BulkWriteError):
        WriteReply.of(late)
