"""Calls that are made at the same time."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from mongomem.engine.workers import in_threads
from support.waits import HANG_SECONDS


@pytest.mark.parametrize("count", [1, 2, 5])
def test_calls_are_made_at_the_same_time_and_one_here(count: int) -> None:
    together = threading.Barrier(count)
    threads: list[threading.Thread] = []

    def call() -> None:
        together.wait(HANG_SECONDS)
        threads.append(threading.current_thread())

    in_threads([call] * count)
    assert len({*threads}) == count
    assert threading.current_thread() in threads


@pytest.mark.parametrize("place", [0, 1])
def test_what_a_call_raises_is_raised_when_all_have_ended(place: int) -> None:
    ended: list[int] = []

    def call(number: int) -> None:
        ended.append(number)
        if number == place:
            raise LookupError(f"call {number}")

    with pytest.raises(LookupError, match=f"call {place}"):
        in_threads([lambda: call(0), lambda: call(1)])
    assert sorted(ended) == [0, 1]


AT_THE_END = """
import atexit
from mongomem.engine.workers import in_threads

atexit.register(lambda: in_threads([lambda: print("first"), lambda: print("second")]))
"""


def test_calls_are_made_while_the_interpreter_ends() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert (ran.stdout.split(), ran.stderr) == (["first", "second"], "")
