"""The command line on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from contextlib import suppress

from support.command_line import command
from support.waits import HANG_SECONDS


def read_to_the_end(terminal: int) -> bytes:
    """Read what is written to a terminal until nobody writes any more."""
    said = b""
    with suppress(OSError):  # how Linux says that
        while more := os.read(terminal, 4096):
            said += more
    return said


def on_terminal(*arguments: str, columns: int, typed: str = "") -> tuple[int, str]:
    """Run the command line on a terminal; return its exit code, and what stands there then."""
    parent, child = pty.openpty()
    words, options = command(arguments)
    options["env"] |= {"TERM": "dumb", "COLUMNS": str(columns)}
    with subprocess.Popen(words, stdin=child, stdout=child, stderr=child, **options) as process:
        os.close(child)
        os.write(parent, typed.encode())
        said = read_to_the_end(parent)
        code = process.wait(HANG_SECONDS)
    os.close(parent)
    return code, said.decode().replace("\r\n", "\n")
