"""Start, watch and stop mongod as a child process. Knows of ports and exit codes, not of users."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from secrets import SystemRandom
from typing import Any

if sys.platform == "linux":
    import ctypes

from .node_directory import MONGOD_LOG, read_state
from .ownership import own_file

HOST = "127.0.0.1"
STOP_GRACE = 20.0
"""Seconds between asking mongod to stop and killing it."""

_PORT_TAKEN = 48  # mongod's exit code EXIT_NET_ERROR
_CANNOT_EXECUTE = 126  # as a shell would report it
_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
_LISTENING = b"waiting for connections"  # in every log since MongoDB 2; capitalised since 4.4


class NotStartedError(Exception):
    """mongod ended before it listened; ``code`` is its exit code, None if not ready in time."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


def start_mongod(
    command: Sequence[str], node: Path, timeout: float
) -> tuple[subprocess.Popen[bytes], int]:
    """Start mongod on the port of the last run, else on a free one, and wait until it listens."""
    state = read_state(node)
    code = None
    for wanted in (state["port"] if state else 0, 0, 0):
        port = _free_port(wanted)
        mongod = _spawn(command, node, port)
        try:
            code = _await_listening(mongod, node / MONGOD_LOG, timeout)
        except BaseException:
            end_mongod(mongod)
            raise
        if code == 0:
            return mongod, port
        if code != _PORT_TAKEN:  # else somebody was quicker to take the port: try another
            break
    raise NotStartedError(code)


def _free_port(wanted: int) -> int:
    """Find the wanted port to be free, or another one."""
    # Where no system takes ports for outgoing connections: the port will be free at the next start,
    # too.
    for port in filter(None, [wanted, *SystemRandom().sample(range(20000, 32000), 20)]):
        with contextlib.suppress(OSError), socket.create_server((HOST, port)):
            return port
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])


def _spawn(command: Sequence[str], node: Path, port: int) -> subprocess.Popen[bytes]:
    """Start mongod with its output in mongod.log; the log of the run before is kept beside it."""
    log = node / MONGOD_LOG
    with contextlib.suppress(FileNotFoundError):
        log.replace(node / f"{MONGOD_LOG}.1")
    with open(log, "wb", opener=own_file) as output:
        try:
            return subprocess.Popen(  # noqa: S603 - the program that was found or named by the user
                [*command, "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                **_tied_to_this_process(),
            )
        except OSError as error:
            output.write(f"{error}\n".encode())
            raise NotStartedError(_CANNOT_EXECUTE) from error


def _tied_to_this_process() -> dict[str, Any]:
    """Build the options of Popen that make mongod end with its supervisor, where the system can."""
    if sys.platform == "win32":
        # A group of its own, to which CTRL_BREAK_EVENT can be sent.
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    if sys.platform == "linux":
        prctl, supervisor = ctypes.CDLL(None).prctl, os.getpid()

        def follow() -> None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != supervisor:  # it died before the line above
                os._exit(1)

        return {"preexec_fn": follow}
    return {}


def _await_listening(mongod: subprocess.Popen[bytes], log: Path, timeout: float) -> int | None:
    """Wait until mongod accepts connections. 0 if so, else its exit code, None if time was over.

    Reads the log, since a connection to the port could be answered by another process that took it.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if (code := mongod.poll()) is not None:
            return code or 1
        if _LISTENING in log.read_bytes().lower():
            return 0
        time.sleep(0.01)
    end_mongod(mongod)
    return None


def end_mongod(mongod: subprocess.Popen[bytes]) -> None:
    """Stop mongod cleanly, or kill it after the grace. Returns when it is gone."""
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            mongod.send_signal(signal.CTRL_BREAK_EVENT)
        else:
            mongod.terminate()
    try:
        mongod.wait(STOP_GRACE)
    except subprocess.TimeoutExpired:
        mongod.kill()
        mongod.wait()
