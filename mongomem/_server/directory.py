"""The directory of one node: who may run a mongod in it (the lock), and what runs there (the state).

    node directory
    ├── server.lock       held by the supervisor: free means that nothing runs, whatever server.json says
    ├── server.json       control port and token; port and pid of mongod (the port is used again if free)
    ├── mongod.log, mongod.log.1, supervisor.log
    └── data              the files of mongod, with its own mongod.lock

Locks are of the kernel, so that no crash leaves one behind. Pids are never trusted by themselves.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SERVER_LOCK = "server.lock"
MONGOD_LOG = "mongod.log"
SUPERVISOR_LOG = "supervisor.log"
DATA = "data"

_STATE = "server.json"


@contextlib.contextmanager
def hold_lock(path: Path, timeout: float) -> Iterator[None]:
    """Hold the exclusive lock of a file, against processes and threads alike. The kernel frees it on death.

    Raises:
        TimeoutError: Another holder kept it for longer than the timeout in seconds.
    """
    deadline = time.monotonic() + timeout
    with path.open("ab") as file:
        while not try_lock(file.fileno()):
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{path} is held by another process")
            time.sleep(0.02)
        try:
            yield
        finally:
            # Explicitly, since a child forked meanwhile shares the open file and would keep the lock.
            unlock(file.fileno())


if sys.platform == "win32":

    def try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:

    def try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def read_state(node: Path) -> dict[str, Any] | None:
    """Read server.json: what runs in a node directory, or ran last. None if it is missing or damaged."""
    try:
        state = json.loads((node / _STATE).read_text())
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and {"control", "token", "port", "pid"} <= state.keys() else None


def write_state(node: Path, state: dict[str, Any]) -> None:
    """Replace server.json in one step, readable by its owner only: the token is in it."""
    draft = node / f"{_STATE}.new"
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600, exist_ok=False)
    draft.write_text(json.dumps(state))
    draft.replace(node / _STATE)


def is_supervised(node: Path) -> bool:
    """Tell whether a supervisor, starting, running or ending, holds a node directory."""
    try:
        with hold_lock(node / SERVER_LOCK, 0):
            return False
    except TimeoutError:
        return True
