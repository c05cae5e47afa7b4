"""Errors of the command line: exit codes, and one line that tells what to do."""

from __future__ import annotations

import re

from pymongo.errors import OperationFailure, PyMongoError

from mongomem.arguments import without_secrets
from mongomem.engine.commands import UNAUTHORIZED
from mongomem.errors import InvalidInputError, MongomemError, ThreadNotFoundError

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: all is well; something failed or needs to be done; wrong usage, nothing was begun;
ended by Ctrl-C."""

GOES_ON = "the same command goes on"
"""What a command that can be cut short says of itself."""

NOT_AUTHORIZED = re.compile(r"not authorized on (\S+) to execute command \{ (\w+)")
"""How a server refuses (MongoDB 4.4 to 8.2)."""


class Refusal(Exception):  # noqa: N818 (the refusal of what was asked, not an error of it)
    """What was asked for cannot be done as it was asked: wrong usage."""


class Failure(Refusal):
    """What was asked for is right, and cannot be done now."""


def is_foreseen(error: BaseException) -> bool:
    """Say whether an error tells by itself what was met: ours, and those of the packages that a
    command works with, such as what embeds. Others are faults of the program.
    """
    ours = (Refusal, MongomemError, PyMongoError, OSError, KeyboardInterrupt)
    package = type(error).__module__.partition(".")[0]
    return isinstance(error, ours) or package not in ("builtins", "click", "typer")


def code_of(error: BaseException) -> int:
    """Return the exit code for an error: whose fault it is."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, Failure):
        return FAILED
    return USAGE if isinstance(error, Refusal | InvalidInputError) else FAILED


def line_of(error: BaseException, advice: str = "") -> str:
    """Say in one line what was met and what to do.

    Args:
        error: What was met.
        advice: What to do where the server or the connection is at fault.
    """
    then = f"; {advice}" if advice else ""
    if isinstance(error, KeyboardInterrupt):
        return f"interrupted{then}"
    if isinstance(error, OperationFailure) and error.code in UNAUTHORIZED:
        return _missing_right(error)
    notes = getattr(error, "__notes__", [])  # Python 3.11
    said = without_secrets(" ".join(" ".join([str(error), *notes]).split()))
    if isinstance(error, Refusal | MongomemError):
        return _own(error, said)
    if isinstance(error, PyMongoError | OSError):
        short = re.split(r" \(configured timeouts|, Timeout: |, full error: ", said)[0]
        return f"{type(error).__name__}: {short}{then}"
    return f"{type(error).__name__}: {said}"


def _own(error: BaseException, said: str) -> str:
    """Say what an error of ours says, and what of it is a command's."""
    if isinstance(error, ThreadNotFoundError):
        return f"{said}: mongomem threads and mongomem history list what is there"
    return said.partition(" open_timeout=")[0].rstrip(".")


def _missing_right(error: OperationFailure) -> str:
    """Say which right is missing."""
    found = NOT_AUTHORIZED.search(str(error))
    what = f"run {found[2]} in the database {found[1]}" if found else "do that"
    return (
        f"the user of the connection string may not {what}: reading needs the role read there, "
        "writing readWrite"
    )
