"""What a caller passed: how messages show it, and checks that every public parameter has in common.

An argument of the wrong kind ends in one error that names the parameter, before anything is read or
written. What only one operation asks of its arguments is checked beside that operation.
"""

from __future__ import annotations

import re
import reprlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from numbers import Integral
from typing import Any
from uuid import UUID

from bson import ObjectId

from mongomem.errors import InvalidInputError, MongomemError

LONGEST_SHOWN = 80
"""How many characters of a value a message shows."""

LARGEST_NUMBER = 2**63 - 1
"""The largest integer that BSON holds."""

KINDS_OF_IDS = "a string, or an int, a UUID, an ObjectId or an enum of these"
"""What `text_of` takes, for messages."""

_SECRETS = (
    (re.compile(r"(?<=://)\S*@"), "***@"),
    (
        re.compile(
            r"\b(?:sk|hf|gsk|xai|pplx|nvapi|gh[opsu]|github_pat|glpat|xox[abp])[-_][\w-]{12,}"
        ),
        "***",
    ),
    (
        re.compile(
            r"\b(?:AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w.-]+|Bearer\s+[^\s'\"]+)"
        ),
        "***",
    ),
    (
        re.compile(
            r"((?:(?:api|access|secret|private|account)[-_]?key|token|secret|passw(?:or)?d|pwd|credentials?)"
            r"['\"]?\s*[:=]\s*['\"]?)[^\s'\",;&}\]]+",
            re.IGNORECASE,
        ),
        r"\1***",
    ),
)
"""What no message may hold, and what stands in its place: the user and the password in a connection
string, keys in the forms that providers give them, and whatever is called a key, a token or a
password."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = LONGEST_SHOWN
_SHORT.maxlevel = 3


def _short_repr(value: object) -> str:
    """Return the repr of a value, shortened; of a string without a secret that a cut may halve."""
    if isinstance(value, str):
        return _SHORT.repr(without_secrets(value[: 8 * LONGEST_SHOWN]))
    return _SHORT.repr(value)


def shown(value: object) -> str:
    """Show a value in a message: its repr, cut to `LONGEST_SHOWN` characters and without a password
    or a key.

    Never raises, whatever the ``__repr__`` of a value does, and takes no longer for a long value
    than for a short one.
    """
    try:
        if isinstance(value, bytes | bytearray | memoryview):
            return f"{len(value)} bytes"
        text = _short_repr(value)
    # An int has too many digits (sys.set_int_max_str_digits), or a method of the value raised.
    except Exception:
        text = ""
    if not text or len(text) > LONGEST_SHOWN + 2:
        text = text[:LONGEST_SHOWN] + "..." if text else f"a {type(value).__name__}"
    return without_secrets(text)


def shown_parts(one: object, **parts: object) -> str:
    """Return the repr of an object: its class, and what is to be told of it, as keyword arguments.

    What is None is left out. Never raises and holds no secret, as `shown` does not.
    """
    told = ", ".join(f"{name}={shown(part)}" for name, part in parts.items() if part is not None)
    return f"{type(one).__name__}({told})"


def without_secrets(text: str) -> str:
    """Return a text with asterisks in the place of passwords and keys, see `_SECRETS`."""
    for secret, instead in _SECRETS:
        text = secret.sub(instead, text)
    return text


@contextmanager
def looking_at(name: str, error: type[MongomemError] = InvalidInputError) -> Iterator[None]:
    """Turn whatever a value raises when it is looked at into one error that names the parameter.

    Raises:
        InvalidInputError: Or the `error` given: it raised something.
    """
    try:
        yield
    except MongomemError:
        raise
    except Exception as raised:
        raise error(
            f"{name} cannot be used: looking at it raised {type(raised).__name__}"
        ) from raised


def checked_flag(name: str, value: object, error: type[MongomemError] = InvalidInputError) -> bool:
    """Return True or False, and nothing that only counts as one of them.

    Raises:
        InvalidInputError: Or the `error` given: it is something else.
    """
    if not isinstance(value, bool):
        raise error(f"{name} must be True or False, not {shown(value)}")
    return value


def checked_number(
    name: str, value: object, *, least: int = 0, error: type[MongomemError] = InvalidInputError
) -> int:
    """Return a whole number from `least` to `LARGEST_NUMBER`.

    Raises:
        InvalidInputError: Or the `error` given: it is something else.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not least <= int.__int__(value) <= LARGEST_NUMBER
    ):
        raise error(f"{name} must be a whole number from {least} on, not {shown(value)}")
    return int.__int__(value)


def checked_mapping(
    name: str, value: object, error: type[MongomemError] = InvalidInputError
) -> dict[Any, Any]:
    """Return the items of a mapping as a dict of its own.

    Raises:
        InvalidInputError: Or the `error` given: it is no mapping, or its methods fail.
    """
    if type(value) is dict:
        return value.copy()
    if not isinstance(value, Mapping):
        raise error(f"{name} must be a mapping, not {shown(value)}")
    try:
        return {**value}
    except Exception as raised:  # whatever a class of the caller does
        raise error(f"{name} must be a mapping that can be read, not {shown(value)}") from raised


def checked_list(name: str, value: object) -> list[Any]:
    """Return the elements of a list, or of another sequence that is no text, as a list of its own.

    Raises:
        InvalidInputError: It is something else, or its methods fail.
    """
    if isinstance(value, str | bytes | bytearray | memoryview) or not isinstance(
        value, Sequence | deque
    ):
        raise InvalidInputError(f"{name} must be a list, not {shown(value)}")
    try:
        return [*value]
    except Exception as error:  # whatever a class of the caller does
        raise InvalidInputError(
            f"{name} must be a list that can be read, not {shown(value)}"
        ) from error


def checked_text(name: str, value: object, error: type[MongomemError] = InvalidInputError) -> str:
    """Return a string of valid Unicode.

    Raises:
        InvalidInputError: Or the `error` given: it is no string, or holds a surrogate, which is no
            character.
    """
    if type(value) is str and value.isascii():
        return value
    if not isinstance(value, str):
        raise error(f"{name} must be a string, not {shown(value)}")
    text = str.__str__(value)  # and not what a subclass says of itself
    try:
        text.encode()
    except UnicodeEncodeError:
        raise error(f"{name} holds a surrogate, which is no character: {shown(text)}") from None
    return text


def text_of(value: object) -> str | None:
    """Return the string that an identifier of any kind stands for; None for what is no identifier.

    Strings, integers (also NumPy's), UUIDs and ObjectIds identify, and so does an enum whose value
    is one of these: by its value, whatever its ``str`` is on this version of Python. True and 1.0
    do not.
    """
    if type(value) is str:
        return value
    if isinstance(value, Enum):
        return None if isinstance(value.value, Enum) else text_of(value.value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, UUID | ObjectId):
        return str(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        return None
    try:
        return str(int(value))
    # more digits than sys.set_int_max_str_digits() allows, or whatever a class of the caller does
    except Exception:
        return None
