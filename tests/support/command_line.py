"""The command line as a process, and in this one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mongomem.command_line.application import run
from support.waits import HANG_SECONDS, await_that

ROOT = Path(__file__).parents[2]


def command(arguments: Sequence[str], cwd: Path | None = None, **more: str) -> list[Any]:
    """Return the arguments of ``subprocess`` that run the command line, and its options."""
    environment = {key: value for key, value in os.environ.items() if key != "MONGODB_URI"}
    environment |= {"PYTHONPATH": str(ROOT), **more}
    run = "from mongomem.command_line.entry import main; main()"
    return [[sys.executable, "-c", run, *arguments], {"cwd": cwd, "env": environment}]


def mongomem(
    *arguments: str, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    words, options = command(arguments, cwd, **more)
    return subprocess.run(words, capture_output=True, text=True, timeout=HANG_SECONDS, **options)


def mongomem_ended(
    ended: signal.Signals, *arguments: str, cwd: Path, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line, and send it a signal once a file ``reached`` is in its directory."""
    words, options = command(arguments, cwd, **more)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    ) as process:
        await_that(lambda: (cwd / "reached").exists() or process.poll() is not None)
        process.send_signal(ended)
        stdout, stderr = process.communicate(timeout=HANG_SECONDS)
    return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)


def assert_quiet_without_reader(*arguments: str) -> None:
    """Run the command line for a reader that goes away before anything is printed: that is no
    error.
    """
    words, options = command(arguments)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(HANG_SECONDS)) == ("", 0)


def printed_json(ran: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def ran_here(
    captured: pytest.CaptureFixture[str], directory: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, as `mongomem` does in one of its own: a process takes
    seconds to begin.
    """
    code, out, error = lines_of(captured, directory, *arguments)
    return subprocess.CompletedProcess([*arguments], code, out, error)


def lines_of(
    captured: pytest.CaptureFixture[str], directory: Path, *arguments: str
) -> tuple[int, str, str]:
    """Run the command line in this process, in a directory; return its exit code and what it
    printed.
    """
    with pytest.MonkeyPatch.context() as changed:
        changed.chdir(directory)
        changed.setattr(sys, "path", [*sys.path])
        changed.delitem(sys.modules, "app", raising=False)
        changed.delenv("MONGODB_URI", raising=False)
        code = run(arguments)
    sys.modules.pop("app", None)
    told = captured.readouterr()
    return code, told.out, told.err
