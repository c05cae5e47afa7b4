"""The primary changes under a running graph, once by stepping down and once by dying: nothing that
was said is lost, and the graph meets no error.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START, MessagesState, StateGraph
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import AutoReconnect

from mongomem import LocalServer, MongoSaver
from support.waits import await_that

TURNS = 24
DISTURBED = {6: "step down", 12: "step down", 18: "kill"}
"""What happens to the primary while the graph answers in these turns."""

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with LocalServer(tmp_path, members=3) as started:
        yield started


def step_down(client: MongoClient[Any]) -> None:
    try:
        client.admin.command({"replSetStepDown": 2, "force": True})
    except AutoReconnect:
        """It hangs up as it steps down."""


def kill(server: LocalServer, client: MongoClient[Any]) -> None:
    members = client.admin.command("replSetGetConfig")["config"]["members"]
    await_that(lambda: client.primary is not None)
    host, port = client.primary or ("", 0)
    primary = [member["host"] for member in members].index(f"{host}:{port}")
    os.kill(server.pids[primary], signal.SIGKILL)


def chat_of(saver: MongoSaver, disturb: Callable[[int], None], *, is_async: bool) -> Any:
    """Compile a graph that answers with the number of the turn."""

    def number_of(state: MessagesState) -> int:
        number = (len(state["messages"]) + 1) // 2
        disturb(number)
        return number

    def reply(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", f"answer {number_of(state)}")]}

    async def areply(state: MessagesState) -> dict[str, Any]:
        return reply(state)

    builder = StateGraph(MessagesState)
    builder.add_node("reply", areply if is_async else reply)
    builder.add_edge(START, "reply")
    return builder.compile(checkpointer=saver)


SAID = [text for turn in range(1, TURNS + 1) for text in (f"question {turn}", f"answer {turn}")]


def question(turn: int) -> dict[str, Any]:
    return {"messages": [("user", f"question {turn}")]}


def check(server: LocalServer) -> None:
    """See that all is there, by a process that has read nothing."""
    with MongoClient[Any](server.uri) as client:
        saver = MongoSaver(client, "app")
        found = saver.get_tuple(CONFIG)
        assert found is not None
        assert [one.content for one in found.checkpoint["channel_values"]["messages"]] == SAID
        history = list(saver.list(CONFIG))
        assert len(history) == 3 * TURNS
        assert [one.metadata["step"] for one in history] == [*reversed(range(-1, 3 * TURNS - 1))]
        parents = [one.parent_config for one in history[:-1]]
        assert parents == [one.config for one in history[1:]]
        assert not found.pending_writes


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_graph_goes_on_when_the_primary_changes(
    server: LocalServer, is_async: bool
) -> None:
    disturbances: list[Future[None]] = []
    with MongoClient[Any](server.uri) as watching, ThreadPoolExecutor(1) as beside:

        def disturb(turn: int) -> None:
            if DISTURBED.get(turn) == "step down":
                disturbances.append(beside.submit(step_down, watching))
            elif turn in DISTURBED:
                disturbances.append(beside.submit(kill, server, watching))

        if is_async:
            async with AsyncMongoClient[Any](server.uri) as aclient:
                graph = chat_of(MongoSaver(aclient, "app"), disturb, is_async=True)
                for turn in range(1, TURNS + 1):
                    await graph.ainvoke(question(turn), CONFIG)
        else:
            with MongoClient[Any](server.uri) as client:
                graph = chat_of(MongoSaver(client, "app"), disturb, is_async=False)
                for turn in range(1, TURNS + 1):
                    graph.invoke(question(turn), CONFIG)
        assert len(disturbances) == len(DISTURBED)
        for one in disturbances:
            one.result()
    check(server)
