"""What a caller passed: how messages show it, and the checks that every public parameter has in common.

An argument of the wrong kind ends in one error that names the parameter, before anything is read or written. What
only one operation asks of its arguments is checked beside that operation.
"""

from __future__ import annotations

import re
import reprlib

from mongomem.errors import InvalidInputError, MongomemError

LONGEST_SHOWN = 80
"""How many characters of a value a message shows."""

LARGEST_NUMBER = 2**63 - 1
"""The largest integer that BSON holds."""

_PASSWORD = re.compile(r"(?<=://)\S*@")
"""The user and the password in a connection string: up to its last @, since a password may hold any character."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = LONGEST_SHOWN
_SHORT.maxlevel = 3


def shown(value: object) -> str:
    """Show a value in a message: its repr, cut to `LONGEST_SHOWN` characters and without a password.

    Never raises, whatever the ``__repr__`` of a value does, and takes no longer for a long value than for a short one.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    try:
        text = _SHORT.repr(_PASSWORD.sub("***@", value[: 8 * LONGEST_SHOWN]) if isinstance(value, str) else value)
    except Exception:  # an int of too many digits (sys.set_int_max_str_digits), or whatever a value does
        text = ""
    if not text or len(text) > LONGEST_SHOWN + 2:
        text = text[:LONGEST_SHOWN] + "..." if text else f"a {type(value).__name__}"
    return _PASSWORD.sub("***@", text)


def checked_flag(name: str, value: object, error: type[MongomemError] = InvalidInputError) -> bool:
    """Return True or False, and nothing that only counts as one of them.

    Raises:
        InvalidInputError: Or the `error` given: it is something else.
    """
    if not isinstance(value, bool):
        raise error(f"{name} must be True or False, not {shown(value)}")
    return value


def checked_number(name: str, value: object, *, least: int = 0, error: type[MongomemError] = InvalidInputError) -> int:
    """Return a whole number from `least` to `LARGEST_NUMBER`.

    Raises:
        InvalidInputError: Or the `error` given: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_NUMBER:
        raise error(f"{name} must be a whole number from {least} on, not {shown(value)}")
    return int(value)


def checked_text(name: str, value: object, error: type[MongomemError] = InvalidInputError) -> str:
    """Return a string of valid Unicode.

    Raises:
        InvalidInputError: Or the `error` given: it is no string, or holds a surrogate, which is no character.
    """
    if not isinstance(value, str):
        raise error(f"{name} must be a string, not {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise error(f"{name} holds a surrogate, which is no character: {shown(value)}") from None
    return str.__str__(value)
