"""Hold one mongod for as long as somebody uses it: the whole of the supervisor's process.

Each user keeps one loopback connection open: a line with the token of the node's state, answered by
a line of JSON. A user that leaves, by a close or by ``kill -9``, is an end-of-file here, and the
last one to leave ends mongod. Nobody polls: once mongod is up, everything waits in the kernel.

If mongod dies, every user is sent one more line, and the supervisor exits. That of a throw-away
node first waits until its users have left, for the directory goes with the last of them; unless one
said that it comes back, which keeps it for the mongod that this user starts next. If the supervisor
is killed, Linux ends mongod too (parent-death signal); elsewhere the next user ends the orphan.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from .node_directory import SERVER_LOCK, State, hold_lock, write_state
from .process import HOST, NotStartedError, end_mongod, start_mongod

WILL_RECONNECT = b"back\n"
"""What a user says that leaves a mongod that died in order to start it anew."""

GREETING_TIMEOUT = 10.0
"""Seconds that either end of a connection waits for the other's first line."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What a supervisor is to run: mongod without its port, in a node directory that exists."""

    node: str
    command: list[str]
    timeout: float
    discard: str | None = None
    """A directory of nodes to delete once no node is left in it; None keeps all files."""


def read_line(connection: socket.socket) -> bytes:
    """Read the one line that the other end of a connection says. Empty at end-of-file."""
    with connection.makefile("rb") as stream:
        return stream.readline(4096)


@dataclass(slots=True)
class _Users:
    """The users of one running mongod, a thread for each. The last one to leave ends mongod, for
    good.
    """

    mongod: subprocess.Popen[bytes]
    token: str
    answer: bytes
    changed: threading.Condition = field(default_factory=threading.Condition)
    present: set[socket.socket] = field(default_factory=set)
    ending: bool = False
    come_back: bool = False
    kept: list[socket.socket] = field(default_factory=list)

    def admit_all(self, listener: socket.socket) -> None:
        """Accept users for ever."""
        while True:
            try:
                connection, _ = listener.accept()
                threading.Thread(target=self._admit, args=(connection,), daemon=True).start()
            # There is no descriptor, or no thread, while strangers hold too many.
            except (OSError, RuntimeError):
                time.sleep(0.1)

    def _admit(self, connection: socket.socket) -> None:
        if _is_user(connection, self.token) and self.enter(connection):
            self.serve(connection)
        else:
            connection.close()

    def enter(self, connection: socket.socket) -> bool:
        """Answer and count one more user; False once mongod is ending."""
        with self.changed:
            if self.ending:
                return False
            with contextlib.suppress(OSError):
                connection.sendall(self.answer)
            self.present.add(connection)
            return True

    def serve(self, connection: socket.socket) -> None:
        """Wait until a user that was counted leaves."""
        with contextlib.suppress(OSError):
            while said := connection.recv(64):
                self.come_back |= said == WILL_RECONNECT
        with self.changed:
            self.present.remove(connection)
            last = not self.present
            self.ending |= last
            if last:
                # Closed by the exit of this process only: then the user knows that mongod is gone.
                self.kept.append(connection)
            self.changed.notify_all()
        if last:
            end_mongod(self.mongod)
        else:
            connection.close()

    def await_leaving(self) -> None:
        """Tell the users that mongod died, and wait until all have left."""
        with self.changed:
            self.ending = True
            for connection in self.present:
                with contextlib.suppress(OSError):
                    connection.sendall(b"\n")
            self.changed.wait_for(lambda: not self.present)


def _is_user(connection: socket.socket, token: str) -> bool:
    """Tell whether a connection shows the token in time. Any process of the machine can connect."""
    connection.settimeout(GREETING_TIMEOUT)
    try:
        shown = read_line(connection).strip()
        connection.settimeout(None)
    except OSError:
        return False
    return hmac.compare_digest(shown, token.encode())


def _first_user(listener: socket.socket, token: str) -> socket.socket:
    """Wait for the user that launched this process; TimeoutError if it died meanwhile."""
    listener.settimeout(GREETING_TIMEOUT)
    while True:
        connection, _ = listener.accept()
        if _is_user(connection, token):
            listener.settimeout(None)
            return connection
        connection.close()


def _supervise(order: LaunchRequest) -> bool:
    """Run mongod from its first user to its last; tell whether one comes back to what it left.

    Raises:
        NotStartedError: It does not start. The user was told.
    """
    node, token = Path(order.node), secrets.token_hex(16)
    with socket.create_server((HOST, 0)) as listener:
        control = listener.getsockname()[1]
        print(json.dumps({"control": control, "token": token}), flush=True)
        first = _first_user(listener, token)
        mongod, port = _start(order, node, first)
        try:
            write_state(node, State(control=control, token=token, port=port, pid=mongod.pid))
            users = _Users(mongod, token, _line(port=port, pid=mongod.pid))
            _let_in(users, first, listener)
            mongod.wait()
            if order.discard is not None:
                users.await_leaving()
            return users.come_back
        finally:
            end_mongod(mongod)


def _start(
    order: LaunchRequest, node: Path, first: socket.socket
) -> tuple[subprocess.Popen[bytes], int]:
    """Start mongod; where it does not start, tell that the first user."""
    try:
        return start_mongod(order.command, node, order.timeout)
    except NotStartedError as error:
        first.sendall(_line(exit=error.code))
        raise


def _let_in(users: _Users, first: socket.socket, listener: socket.socket) -> None:
    """Count the first user, then serve that one and accept others, in threads of their own."""
    users.enter(first)
    threading.Thread(target=users.serve, args=(first,), daemon=True).start()
    threading.Thread(target=users.admit_all, args=(listener,), daemon=True).start()


def _line(**answer: int | None) -> bytes:
    return json.dumps(answer).encode() + b"\n"


def _discard(order: LaunchRequest) -> None:
    if order.discard is not None:
        shutil.rmtree(order.node, ignore_errors=True)
        if not any(Path(order.discard).glob("node*")):
            shutil.rmtree(order.discard, ignore_errors=True)


def main() -> None:
    """Run the order given as the only argument, a line of JSON. Holds server.lock until mongod is
    gone.
    """
    order = LaunchRequest(**json.loads(sys.argv[1]))
    # A polite end of this process is an end of mongod: SystemExit passes through every finally.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with hold_lock(Path(order.node) / SERVER_LOCK, order.timeout):
            come_back = _supervise(order)
        order = replace(order, discard=None) if come_back else order
    except NotStartedError:
        order = replace(order, discard=None)  # the user was referred to the log
    finally:
        _discard(order)
