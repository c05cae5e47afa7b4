"""Values of items as BSON that people can read and query, without losing anything.

What BSON gives back as it was given is stored plainly. Where it would not (a tuple comes back as a
list, a time loses its microseconds, an integer beyond 64 bits or a key with a dot is refused), the
readable copy says it as well as it can, and *exact bytes* beside it hold the truth. What neither
can hold, a set or an object, is refused with the path to it.

Subclasses of the plain types (an ``IntEnum``, an ``OrderedDict``) come back as the plain type.
Nothing here can make an object of any other type: bytes that an attacker wrote stay data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import bson

from mongomem.errors import CorruptDataError, UnstorableValueError

MAX_DEPTH = 90
"""MongoDB refuses documents nested deeper than 100 levels (MongoDB 4.4 to 8.2), the item's own included."""

SPECIAL = "~"
"""Begins the one key of an object that stands for something else in exact bytes."""

READABLE = str.maketrans({"\x00": "\u2400", ".": "\uff0e", "$": "\uff04"})
"""What the readable copy shows for characters that no name of a field may hold: a picture of NUL, and wide ones."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A value as it is stored.

    Attributes:
        readable: What people and queries see.
        exact: Bytes that give the value back where `readable` does not, else None.
    """

    readable: dict[str, Any]
    exact: bytes | None


def encode_value(value: Mapping[str, Any], name: str) -> Encoded:
    """Encode the value of an item that messages call `name`.

    Raises:
        UnstorableValueError: Something inside can be held neither by BSON nor by exact bytes.
    """
    walk = _Walk(name)
    readable = walk.object(dict(value), ())
    return Encoded(readable, bson.encode({"value": _exact(value)}) if walk.lossy else None)


def decode_value(readable: Mapping[str, Any], exact: bytes | None) -> dict[str, Any]:
    """Give back the value that `encode_value` was given."""
    value = _from_plain(readable) if exact is None else _from_exact(bson.decode(exact)["value"])
    if not isinstance(value, dict):
        raise CorruptDataError(f"The exact bytes of an item hold a {type(value).__name__}, not a value")
    return value


Path: TypeAlias = tuple[str, ...]


@dataclass(slots=True)
class _Walk:
    """One pass over a value that makes its readable copy, and finds out whether that is the whole truth.

    Attributes:
        lossy: Something was met that BSON would not give back as it is.
    """

    name: str
    lossy: bool = False

    def readable(self, value: Any, path: Path) -> Any:
        if len(path) > MAX_DEPTH:
            raise UnstorableValueError(f"{self.name}: nested deeper than {MAX_DEPTH} levels, or within itself")
        if value is None or isinstance(value, bool):
            return value
        for kind, encode in _READABLE_KINDS:
            if isinstance(value, kind):
                return encode(self, value, path)
        reason = f"a {type(value).__name__} cannot be stored; JSON, bytes, tuples and datetimes can"
        raise self._unstorable(path, reason)

    def text(self, value: str, path: Path) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self._unstorable(path, "the text holds a surrogate, which is no character") from None
        return str(value)

    def integer(self, value: int, _path: Path) -> int | str:
        if is_int64(value):
            return int(value)
        self.lossy = True
        return hex(value)  # `str` refuses more than 4,300 digits (sys.set_int_max_str_digits)

    def time(self, value: datetime, _path: Path) -> Any:
        self.lossy = True
        try:
            bson.encode({"time": value})
        except OverflowError:
            return value.isoformat()
        return value

    def list(self, value: Iterable[Any], path: Path) -> Any:
        self.lossy = self.lossy or isinstance(value, tuple)
        return [self.readable(element, (*path, f"[{index}]")) for index, element in enumerate(value)]

    def object(self, value: Mapping[Any, Any], path: Path) -> dict[str, Any]:
        readable: dict[str, Any] = {}
        for key, element in value.items():
            if not isinstance(key, str):
                raise self._unstorable(path, f"the key {key!r} is a {type(key).__name__}, not a string")
            shown = self.text(key, path)
            if not is_plain_key(shown):
                self.lossy = True
                shown = shown.translate(READABLE)
            readable[shown] = self.readable(element, (*path, key))
        return readable

    def _unstorable(self, path: Path, reason: str) -> UnstorableValueError:
        place = ".".join(path).replace(".[", "[") or "the value itself"
        return UnstorableValueError(f"{self.name}: at {place}: {reason}")


_READABLE_KINDS: tuple[tuple[type | tuple[type, ...], Callable[[_Walk, Any, Path], Any]], ...] = (
    (str, _Walk.text),
    (int, _Walk.integer),
    (float, lambda _walk, value, _path: float(value)),
    (dict, _Walk.object),
    ((list, tuple), _Walk.list),
    (bytes, lambda _walk, value, _path: bytes(value)),
    (datetime, _Walk.time),
)


def named(value: object) -> str:
    """Show a value in a message; also an integer that Python refuses to write (``sys.set_int_max_str_digits``)."""
    try:
        return repr(value)
    except ValueError:
        return f"a {type(value).__name__} of more digits than can be shown"


def is_int64(number: int) -> bool:
    """Say whether BSON holds an integer as one."""
    return -(2**63) <= number < 2**63


def is_plain_key(key: str) -> bool:
    """Say whether a key can be the name of a field, and part of the path of one in a query."""
    return bool(key) and not any(character in key for character in ".$\x00")


def _exact(value: Any) -> Any:
    if isinstance(value, Mapping):
        if any(key.startswith(SPECIAL) or not is_plain_key(key) for key in value):
            return {f"{SPECIAL}object": [[str(key), _exact(element)] for key, element in value.items()]}
        return {str(key): _exact(element) for key, element in value.items()}
    if isinstance(value, tuple):
        return {f"{SPECIAL}tuple": [_exact(element) for element in value]}
    if isinstance(value, list):
        return [_exact(element) for element in value]
    if isinstance(value, datetime):
        return {f"{SPECIAL}time": value.isoformat(), "fold": value.fold}
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value) if is_int64(value) else {f"{SPECIAL}integer": hex(value)}
    return _builtin(value)


def _builtin(value: Any) -> Any:
    """Turn a subclass of a plain type into that type: BSON knows no other."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(value)
    return bytes(value) if isinstance(value, bytes) else value


def _from_exact(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_exact(element) for element in value]
    if not isinstance(value, dict):
        return _from_plain(value)
    special = next(iter(value), "")
    if not special.startswith(SPECIAL):
        return {key: _from_exact(element) for key, element in value.items()}
    decode = _SPECIAL_KINDS.get(special[len(SPECIAL) :])
    if decode is None:
        raise CorruptDataError(f"The exact bytes of an item hold an unknown kind of value, {special!r}")
    return decode(value)


_SPECIAL_KINDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "object": lambda value: {key: _from_exact(element) for key, element in value[f"{SPECIAL}object"]},
    "tuple": lambda value: tuple(_from_exact(element) for element in value[f"{SPECIAL}tuple"]),
    "time": lambda value: datetime.fromisoformat(value[f"{SPECIAL}time"]).replace(fold=value["fold"]),
    "integer": lambda value: int(value[f"{SPECIAL}integer"], 16),
}


def _from_plain(value: Any) -> Any:
    """Turn what PyMongo decodes into builtins: it gives 64-bit integers a type of its own, ``bson.Int64``."""
    if isinstance(value, Mapping):
        return {key: _from_plain(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_from_plain(element) for element in value]
    if isinstance(value, int) and type(value) is not bool:
        return int(value)
    return value
