"""A real ``langgraph dev`` on loopback, as a process that a test starts and stops."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from support.waits import HANG_SECONDS, await_that

ALONE = {
    "LANGSMITH_TRACING": "false",
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
}
"""It asks nobody outside of this machine."""

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ADDRESS = re.compile(r"API: (http://127\.0\.0\.1:\d+)")


@dataclass(frozen=True, slots=True)
class LangGraphServer:
    """A process that serves the ``langgraph.json`` of a directory.

    Attributes:
        directory: Where it runs, and keeps its own records of threads and runs.
    """

    directory: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        """What it printed so far."""
        return COLOUR.sub("", (self.directory / "log").read_text("utf-8", "replace"))

    @property
    def url(self) -> str | None:
        """Where it listens: at another port than it was told where somebody else had that."""
        found = ADDRESS.search(self.log)
        return found and found[1]

    def client(self, **headers: str) -> LangGraphClient:
        """Make a client, to be entered in one event loop."""
        return get_client(url=self.url, headers=headers, timeout=HANG_SECONDS)

    def is_settled(self) -> bool:
        """Say whether it answers, or has ended."""
        if self.process.poll() is not None:
            return True
        try:
            return self.url is not None and httpx.get(f"{self.url}/ok").is_success
        except httpx.TransportError:
            return False


@contextmanager
def langgraph_dev(
    directory: Path, environment: Mapping[str, str], *arguments: str
) -> Iterator[LangGraphServer]:
    """Start a server, wait until it answers or has ended, and end it as Ctrl-C does."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    options = ("--no-browser", "--no-reload", "--port", port, *arguments)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "langgraph_cli", "dev", *options],
            cwd=directory,
            env={**os.environ, **ALONE, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        server = LangGraphServer(directory, process)
        await_that(server.is_settled)
        yield server
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(HANG_SECONDS)
        finally:
            process.kill()


def write_config(directory: Path, graphs: Mapping[str, str], **parts: Any) -> None:
    """Write a ``langgraph.json``."""
    directory.mkdir(exist_ok=True)
    config = {"dependencies": ["."], "graphs": graphs, **parts}
    (directory / "langgraph.json").write_text(json.dumps(config), "utf-8")
