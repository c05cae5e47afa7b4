"""Work beside the calls: a piece at a time, and how it ends."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mongomem.engine.workers import Background
from support.waits import HANG_SECONDS, await_that

ROOT = Path(__file__).parents[3]
SEEN: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")


def test_a_thread_does_one_piece_at_a_time() -> None:
    background, begun, go_on = Background(), [], threading.Event()

    def work(may_go_on: Callable[[], bool]) -> None:
        begun.append(SEEN.get())
        assert go_on.wait(HANG_SECONDS)

    SEEN.set("the caller's")
    background.in_thread(work)
    background.in_thread(work)
    await_that(lambda: begun == ["nothing"])
    go_on.set()
    await_that(lambda: not background._is_under_way())
    background.in_thread(work)
    await_that(lambda: len(begun) == 2)
    background.close()
    background.in_thread(work)
    assert len(begun) == 2


def test_close_waits_until_a_thread_has_stopped() -> None:
    background, states = Background(), []

    def work(may_go_on: Callable[[], bool]) -> None:
        states.append("begun")
        await_that(lambda: not may_go_on())
        states.append("stopped")

    background.in_thread(work)
    await_that(lambda: states == ["begun"])
    background.close()
    assert states == ["begun", "stopped"]
    background.close()


async def test_a_thread_is_waited_for_beside_the_loop() -> None:
    background, states = Background(), []

    def work(may_go_on: Callable[[], bool]) -> None:
        states.append("begun")
        await_that(lambda: not may_go_on())
        states.append("stopped")

    background.in_thread(work)
    await asyncio.to_thread(await_that, lambda: states == ["begun"])
    await background.aclose()
    assert states == ["begun", "stopped"]


async def test_a_task_is_cancelled_at_once() -> None:
    background, states = Background(), []

    async def work() -> None:
        states.append(SEEN.get())
        try:
            await asyncio.Event().wait()
        finally:
            states.append("stopped")

    SEEN.set("the caller's")
    background.as_task(work)
    background.as_task(work)
    await asyncio.sleep(0)
    assert states == ["nothing"]
    await background.aclose()
    assert states == ["nothing", "stopped"]
    background.as_task(work)
    await asyncio.sleep(0)
    assert len(states) == 2


async def test_a_task_is_cancelled_from_another_thread() -> None:
    background, ended = Background(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    background.as_task(work)
    await asyncio.sleep(0)
    await asyncio.to_thread(background.close)
    await asyncio.wait_for(ended.wait(), HANG_SECONDS)


def test_a_task_of_a_loop_that_has_ended_is_no_obstacle() -> None:
    background = Background()

    async def begin() -> None:
        background.as_task(asyncio.Event().wait)  # type: ignore[arg-type]

    asyncio.run(begin())
    background.close()
    assert not background._is_under_way()


ENDS = """
from mongomem.engine.workers import Background
import threading
begun = threading.Event()

def work(may_go_on):
    begun.set()
    while may_go_on():
        threading.Event().wait(0.001)
    print("stopped")

Background().in_thread(work)
begun.wait()
print("main ends", flush=True)
"""

FORKS = """
import os, threading
from mongomem.engine.workers import Background
background, begun, go_on = Background(), threading.Event(), threading.Event()

def held(may_go_on):
    begun.set()
    go_on.wait()

background.in_thread(held)
begun.wait()
child = os.fork()
if child == 0:
    done = threading.Event()
    background.in_thread(lambda _: done.set())
    os._exit(0 if done.wait(60) else 1)
print(os.waitpid(child, 0)[1])
go_on.set()
background.close()
"""


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        (ENDS, "main ends\nstopped\n"),
        pytest.param(FORKS, "0\n", marks=pytest.mark.filterwarnings("ignore::DeprecationWarning")),
    ],
    ids=["the interpreter ends", "a forked child"],
)
def test_in_a_process_of_its_own(code: str, printed: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        timeout=HANG_SECONDS,
    )
    assert (ran.stdout, ran.stderr) == (printed, "")
