"""Check what a caller says about the server. Each fault is one ConfigurationError that names the
parameter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mongomem.arguments import LARGEST_NUMBER, checked_number, shown
from mongomem.errors import ConfigurationError

_LONGEST_PATH = 4096  # PATH_MAX of Linux; elsewhere less, which the system says
_MOST_MEMBERS = 7  # of a replica set that vote
_LONGEST_PARAMETER = 1000
_PARAMETER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,99}")
_DECIDED = frozenset({"enableLocalhostAuthBypass", "authenticationMechanisms"})
"""Server parameters that would open the server to others, or close it to us."""


def checked_path(name: str, value: object) -> Path | None:
    """Return an absolute path, or None for None. Nothing is looked up but the home and the working
    directory.

    Raises:
        ConfigurationError: It is no path, or one that no system has.
    """
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike):
        raise ConfigurationError(f"{name} must be a path, not {shown(value)}")
    text = _text_of_path(name, value)
    try:
        return Path(text).expanduser().absolute()
    # The named user has no home, or the working directory was deleted.
    except (OSError, RuntimeError) as error:
        raise ConfigurationError(
            f"{name} cannot be made absolute: {shown(text)} ({error})"
        ) from None


def _text_of_path(name: str, value: str | os.PathLike[Any]) -> str:
    """Return a path as text that a system may take for one."""
    try:
        text: Any = os.fspath(value)
        encoded = os.fsencode(text) if isinstance(text, str) else b""
    except Exception as error:  # whatever a __fspath__ does; a surrogate
        raise ConfigurationError(
            f"{name} is no path: {shown(value)} ({type(error).__name__})"
        ) from None
    if not encoded or not isinstance(text, str) or "\0" in text or len(encoded) > _LONGEST_PATH:
        raise ConfigurationError(
            f"{name} must be a path of 1 to {_LONGEST_PATH} characters, not {shown(text)}"
        )
    return text


def checked_span(name: str, value: object, *, least: float, most: float) -> float:
    """Return a number within bounds. NaN is within none.

    Raises:
        ConfigurationError: It is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ConfigurationError(
            f"{name} must be a number from {least:g} to {most:g}, not {shown(value)}"
        )
    return float(value)


def checked_members(name: str, value: object) -> int:
    """Return the number of nodes in a replica set.

    Raises:
        ConfigurationError: It is something else.
    """
    members = checked_number(name, value, least=1, error=ConfigurationError)
    if members > _MOST_MEMBERS:
        raise ConfigurationError(f"{name} must be at most {_MOST_MEMBERS}, not {shown(value)}")
    return members


def checked_parameters(name: str, value: object) -> dict[str, str]:
    """Return server parameters as mongod reads them on its command line.

    Raises:
        ConfigurationError: It is no mapping of names to booleans, numbers and strings, or has a
            name that this package decides.
    """
    given = {} if value is None else _read_mapping(name, value)
    return {
        _parameter_name(name, key): _parameter(f"{name}[{shown(key)}]", entry)
        for key, entry in given.items()
    }


def _read_mapping(name: str, value: object) -> dict[object, object]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"{name} must be a mapping of server parameters, not {shown(value)}"
        )
    try:
        return dict(value)
    except Exception as error:  # whatever a mapping does
        raise ConfigurationError(
            f"{name} cannot be read: {shown(value)} ({type(error).__name__})"
        ) from None


def _parameter_name(name: str, key: object) -> str:
    if not isinstance(key, str) or not _PARAMETER_NAME.fullmatch(key):
        raise ConfigurationError(
            f"{name} holds {shown(key)}, which is no name of a server parameter"
        )
    if key in _DECIDED:
        raise ConfigurationError(
            f"{name} must not hold {key}: the local server's authentication depends on it"
        )
    return key


def _text_of_parameter(value: object) -> str:
    """Return a value as mongod reads it; "" for one of another kind."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        # Infinity is beyond that, and NaN compares with nothing.
        return str(value) if abs(value) <= LARGEST_NUMBER else ""
    return str.__str__(value) if isinstance(value, str) else ""


def _parameter(name: str, value: object) -> str:
    text = _text_of_parameter(value)
    if not text or len(text) > _LONGEST_PARAMETER or not text.isprintable():
        raise ConfigurationError(
            f"{name} must be a boolean, a number or a line of text, not {shown(value)}"
        )
    return text
