"""End a mongod that outlived its supervisor: by its own protocol and with its key, never by a pid
from a file.

Only the mongod of this data directory knows the key, and it has to show that before it is told
anything. So no other process is ever ended, whatever files say and whoever took a pid or a port
meanwhile.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from pymongo.errors import PyMongoError

from mongomem.errors import LocalServerError
from mongomem.local_server.credentials import Credentials
from mongomem.local_server.node_directory import DATA, is_supervised, read_state, try_lock, unlock
from mongomem.local_server.ownership import own_file
from mongomem.local_server.process import STOP_GRACE
from mongomem.local_server.replica_set import connect

_ANSWER_TIMEOUT = 1.0
_LOCK = "mongod.lock"
_UNKNOWN = 0


def end_orphan(node: Path, credentials: Credentials) -> None:
    """Wait until no mongod without a supervisor holds the files of a node; ask ours to end.

    Raises:
        LocalServerError: One holds them that is not known to be ours, or does not end.
    """
    state = read_state(node)
    pid = _holder(node)
    if pid is None or is_supervised(node):
        return
    deadline = time.monotonic()
    if state is not None and pid in {state["pid"], _UNKNOWN}:
        deadline += STOP_GRACE
        with (
            contextlib.suppress(PyMongoError),
            connect(state["port"], _ANSWER_TIMEOUT, credentials.of_system()) as it,
        ):
            it.admin.command("shutdown", force=True)
    _await_end(node, pid, deadline)


def _await_end(node: Path, pid: int | None, deadline: float) -> None:
    """Wait until no process holds the files of a node, which the one with this pid does now."""
    while pid is not None:
        if time.monotonic() > deadline:
            raise LocalServerError(
                f"{f'process {pid}' if pid else 'another process'} holds {node / DATA / _LOCK} and "
                "is not known to be a server of this directory, or does not end: end it, or name "
                "another directory in MONGOMEM_DATA_DIR"
            )
        time.sleep(0.02)
        pid = _holder(node)


def _holder(node: Path) -> int | None:
    """Read the pid in mongod.lock if a process holds the lock, 0 if it cannot be told which one."""
    try:
        with open(node / DATA / _LOCK, "rb", opener=own_file) as file:
            if try_lock(file.fileno()):
                unlock(file.fileno())
                return None
            return int(file.read(100))
    except FileNotFoundError:
        return None
    except (PermissionError, ValueError):  # on Windows the file of a running mongod is shut
        return _UNKNOWN
