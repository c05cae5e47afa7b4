"""One line for an error, that tells what to do."""

from __future__ import annotations

import re

from pymongo.errors import OperationFailure, PyMongoError

from mongomem.arguments import without_secrets
from mongomem.engine.commands import UNAUTHORIZED
from mongomem.errors import MongomemError

GOES_ON = "the same command goes on"

NOT_AUTHORIZED = re.compile(r"not authorized on (\S+) to execute command \{ (\w+)")
"""How a server refuses (MongoDB 4.4 to 8.2)."""


class Refusal(Exception):  # noqa: N818 (the refusal of what was asked, not an error of it)
    """What was asked for cannot be done as it was asked: wrong usage."""


class Failure(Refusal):
    """What was asked for is right, and cannot be done now."""


def line_of(error: BaseException) -> str:
    """Say in one line what was met and what to do."""
    if isinstance(error, OperationFailure) and error.code in UNAUTHORIZED:
        return _missing_right(error)
    said = without_secrets(" ".join(str(error).split()))
    if isinstance(error, Refusal | MongomemError):
        return said.partition(" open_timeout=")[0].rstrip(".")
    if isinstance(error, PyMongoError | OSError):
        short = re.split(r" \(configured timeouts|, Timeout: |, full error: ", said)[0]
        return f"{type(error).__name__}: {short}; {GOES_ON}"
    return f"{type(error).__name__}: {said}"


def _missing_right(error: OperationFailure) -> str:
    """Say which right is missing: a source is read, a target is written to."""
    found = NOT_AUTHORIZED.search(str(error))
    what = f"run {found[2]} in the database {found[1]}" if found else "do that"
    return (
        f"the user of the connection string may not {what}: a source needs the role read there, a "
        "target readWrite"
    )
