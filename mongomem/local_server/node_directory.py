"""The data directory: who may start or run a mongod there (locks), and what runs there (state).

    data directory
    ├── start.lock            held by the process that starts or joins the server
    ├── keyfile               the secret from which all passwords come, see ``credentials``
    └── node0, node1, ...
        ├── server.lock       held by the supervisor: free means that nothing runs
        ├── server.json       control port and token; port and pid of mongod
        ├── mongod.log, mongod.log.1, supervisor.log
        └── data              the files of mongod, with its own mongod.lock

Locks are of the kernel, so that no crash leaves one behind. Pids are never trusted by themselves,
and no process is ended by one. Every file is opened as ``ownership`` has it.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

from .ownership import own_file, write_own

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

START_LOCK = "start.lock"
SERVER_LOCK = "server.lock"
MONGOD_LOG = "mongod.log"
SUPERVISOR_LOG = "supervisor.log"
DATA = "data"

_STATE = "server.json"
_HIGHEST_PORT = 65535


class State(TypedDict):
    """What runs in a node's directory, or ran last."""

    control: int
    token: str
    port: int
    pid: int


@contextlib.contextmanager
def hold_lock(path: Path, timeout: float) -> Iterator[None]:
    """Hold the exclusive lock of a file, against processes and threads alike. The kernel frees it
    on death.

    Raises:
        TimeoutError: Another holder kept it for longer than the timeout in seconds.
    """
    deadline = time.monotonic() + timeout
    with open(path, "ab", opener=own_file) as file:
        while not try_lock(file.fileno()):
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{path} is held by another process")
            time.sleep(0.02)
        try:
            yield
        finally:
            # Explicitly, since a child forked meanwhile shares the open file and would keep the
            # lock.
            unlock(file.fileno())


if sys.platform == "win32":

    def try_lock(descriptor: int) -> bool:
        """Lock a file for this process without waiting; say whether that was possible."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Give back what `try_lock` took."""
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:

    def try_lock(descriptor: int) -> bool:
        """Lock a file for this process without waiting; say whether that was possible."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Give back what `try_lock` took."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def read_state(node: Path) -> State | None:
    """Read server.json. None if it is missing or damaged."""
    try:
        with open(node / _STATE, "rb", opener=own_file) as file:
            return _checked(json.loads(file.read()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _checked(state: Mapping[str, Any]) -> State | None:
    """Return a state that was read, None if its values are damaged."""
    token, *numbers = [state[name] for name in ("token", "control", "port", "pid")]
    if not isinstance(token, str) or not all(map(_is_positive, numbers)):
        return None
    control, port, pid = numbers
    if max(control, port) > _HIGHEST_PORT:
        return None
    return State(control=control, token=token, port=port, pid=pid)


def _is_positive(number: object) -> bool:
    return type(number) is int and number > 0


def write_state(node: Path, state: State) -> None:
    """Replace server.json in one step, readable by its owner only: the token is in it."""
    write_own(node / _STATE, json.dumps(state).encode())


def is_supervised(node: Path) -> bool:
    """Tell whether a supervisor, starting, running or ending, holds a node directory."""
    try:
        with hold_lock(node / SERVER_LOCK, 0):
            return False
    except TimeoutError:
        return True
