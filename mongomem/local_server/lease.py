"""Hold a running mongod from the process that uses it: the users' end of the supervisor's protocol.

What a supervisor is and when it ends mongod is told in ``supervisor``.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

from mongomem.local_server.node_directory import SUPERVISOR_LOG, is_supervised, read_state
from mongomem.local_server.ownership import own_file
from mongomem.local_server.process import HOST, STOP_GRACE
from mongomem.local_server.supervisor import (
    GREETING_TIMEOUT,
    WILL_RECONNECT,
    LaunchRequest,
    read_line,
)

# Imports the package of this file by itself, from the end of the path: the whole of mongomem would
# take a second where this takes 50 ms, and isolated mode keeps the user's environment and directory
# out.
_SCRIPT = (
    "import sys; sys.path.append(sys.argv[2]); from local_server.supervisor import main; main()"
)


class MongodExitedError(Exception):
    """mongod did not come up; ``code`` is its exit code, None if it or its supervisor was not ready
    in time.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Lease:
    """One user's hold on a running mongod. It ends with the connection, hence with the process."""

    connection: socket.socket
    port: int
    pid: int

    def is_alive(self) -> bool:
        """Tell whether mongod still runs."""
        # The supervisor says nothing after its answer but that mongod died: readable means this, or
        # that it ended.
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            return not selector.select(0)

    def leave(self) -> None:
        """Give up the hold without waiting."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Give up the hold; where no other users stay, wait until mongod has ended."""
        self.leave()
        with self.connection, contextlib.suppress(OSError):
            self.connection.settimeout(STOP_GRACE + 5)
            while self.connection.recv(64):
                pass

    def close_to_come_back(self) -> None:
        """Do what `close` does, where mongod died and is to be started anew: its directory is kept
        in any case.
        """
        with contextlib.suppress(OSError):
            self.connection.sendall(WILL_RECONNECT)
        self.close()


def join(node: Path) -> Lease | None:
    """Become a user of the mongod that runs in a node directory. None if none runs, or one ends."""
    state = read_state(node)
    if state is None or not is_supervised(node):
        return None
    with contextlib.suppress(OSError, MongodExitedError):
        return _enter(state["control"], state["token"], GREETING_TIMEOUT)
    return None


def launch(order: LaunchRequest) -> Lease:
    """Start a supervisor with its mongod, and become its first user.

    Raises:
        MongodExitedError: It did not come up; mongod.log or supervisor.log in the node directory
            tells why.
    """
    supervisor = _start_supervisor(order)
    # It may end long before this process, or after: reaped by a thread, it leaves no zombie and no
    # warning.
    threading.Thread(target=supervisor.wait, name="mongomem-supervisor", daemon=True).start()
    with cast("IO[bytes]", supervisor.stdout) as stdout:
        line = stdout.readline()
    if not line:
        raise MongodExitedError(None)
    greeting = json.loads(line)
    return _enter(greeting["control"], greeting["token"], order.timeout + GREETING_TIMEOUT)


def _start_supervisor(order: LaunchRequest) -> subprocess.Popen[bytes]:
    """Start a supervisor, which prints how to reach it and writes its errors to supervisor.log."""
    with open(Path(order.node) / SUPERVISOR_LOG, "wb", opener=own_file) as log:
        return subprocess.Popen(  # noqa: S603 - this Python, this package
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                _SCRIPT,
                json.dumps(asdict(order)),
                str(Path(__file__).parents[1]),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=tempfile.gettempdir(),
            **_detached(),
        )


def _detached() -> dict[str, Any]:
    """Build the options of Popen that keep Ctrl-C in the terminal away from the child."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def _enter(control: int, token: str, timeout: float) -> Lease:
    """Connect to a supervisor, show the token and wait for the answer."""
    connection = socket.create_connection((HOST, control), timeout)
    try:
        connection.sendall(f"{token}\n".encode())
        port, pid = _read_answer(read_line(connection))
        connection.settimeout(None)
        return Lease(connection, port, pid)
    except BaseException:
        connection.close()
        raise


def _read_answer(line: bytes) -> tuple[int, int]:
    """Read port and pid of mongod.

    Raises:
        MongodExitedError: The supervisor says so; or another program, which took its port, says
            whatever it says.
    """
    try:
        answer = json.loads(line)
        code, port, pid = (answer.get(name) for name in ("exit", "port", "pid"))
    except (ValueError, AttributeError):
        raise MongodExitedError(None) from None
    if type(port) is not int or type(pid) is not int:
        raise MongodExitedError(code if type(code) is int else None)
    return port, pid
