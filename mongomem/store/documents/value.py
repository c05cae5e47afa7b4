"""Values of items as BSON that people can read and query, without losing anything.

What BSON gives back as it was given is stored plainly. Where it would not (a tuple comes back as a
list, a time loses its microseconds, an integer beyond 64 bits or a key with a dot is refused), the
readable copy is as close as BSON allows, and *exact bytes* beside it hold the value, together with
a digest of the readable copy. Where the digest no longer fits somebody has edited the copy, and the
copy is the value. What neither can hold, a set or an object, is refused with the path to it.

Subclasses of the plain types (an ``IntEnum``, an ``OrderedDict``) come back as the plain type.
Nothing here can make an object of any other type: bytes that an attacker wrote stay data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import bson
from bson.datetime_ms import DatetimeMS
from bson.errors import BSONError
from bson.int64 import Int64

from mongomem.arguments import LONGEST_SHOWN, shown
from mongomem.engine.commands import as_utc
from mongomem.errors import CorruptDataError, UnstorableValueError

MAX_DEPTH = 90
"""MongoDB refuses documents nested deeper than 100 levels (MongoDB 4.4 to 8.2), the item's own
included."""

MOST_CONTAINERS = 2**20
"""Lists and objects of a value. A list may be in it many times, and is counted each time."""

SPECIAL = "~"
"""Begins the only key of an object that encodes another type in exact bytes."""

READABLE = str.maketrans({"\x00": "\u2400", ".": "\uff0e", "$": "\uff04"})
"""What the readable copy shows for characters that no name of a field may hold: a picture of NUL,
and wide ones."""


@dataclass(frozen=True, slots=True)
class EncodedValue:
    """A value as it is stored.

    Attributes:
        readable: The copy that people and queries see.
        exact: Bytes that give the value back where `readable` does not, else None.
    """

    readable: dict[str, Any]
    exact: bytes | None

    @property
    def value(self) -> dict[str, Any]:
        """The value in plain types, as it was when it was encoded."""
        if self.exact is None:
            return self.readable
        value: dict[str, Any] = _from_exact(bson.decode(self.exact)["value"])
        return value


def encode_value(value: Mapping[str, Any], name: str) -> EncodedValue:
    """Encode the value of an item; `name` is the item in messages.

    Raises:
        UnstorableValueError: Something inside can be held neither by BSON nor by exact bytes.
    """
    walk = _Encoder(name)
    given = value if isinstance(value, dict) else _as_dict(value, name)
    readable = walk.object(given, ())
    if not walk.lossy:
        return EncodedValue(readable, None)
    return EncodedValue(
        readable, bson.encode({"value": _exact(given), "readable": digest_of(readable)})
    )


def _as_dict(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    try:
        return dict(value)
    except Exception as error:  # whatever a mapping of the caller's own does
        raise UnstorableValueError(f"{name}: the value cannot be read: {shown(error)}") from error


def decode_value(readable: Mapping[str, Any], exact: bytes | None) -> dict[str, Any]:
    """Return the value that `encode_value` was given, or the readable copy if somebody edited it.

    Raises:
        CorruptDataError: It cannot be read.
    """
    try:
        kept = None if exact is None else bson.decode(exact)
        if kept is None or ("readable" in kept and kept["readable"] != digest_of(readable)):
            value = _from_plain(readable)
        else:
            value = _from_exact(kept["value"])
    except CorruptDataError:
        raise
    except (
        BSONError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise CorruptDataError(f"its exact bytes are damaged ({type(error).__name__})") from error
    if not isinstance(value, dict):
        raise CorruptDataError(f"its exact bytes hold a {type(value).__name__}, not a value")
    return value


def plain(value: Any) -> Any:
    """Turn a subclass of a plain type into that type, whatever its methods do; return anything else
    as it is.
    """
    for kind, convert in _PLAIN:
        if isinstance(value, kind):
            return convert(value)
    return value


def is_int64(number: int) -> bool:
    """Say whether BSON holds an integer as one."""
    return -(2**63) <= number < 2**63


def is_plain_key(key: str) -> bool:
    """Say whether a key can be the name of a field, and part of the path of one in a query."""
    return bool(key) and not any(character in key for character in ".$\x00")


def is_text(value: str) -> bool:
    """Say whether a string can be encoded: a surrogate, as bytes that are no text are decoded to,
    is no character.
    """
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- what people read
# ------------------------------------------------------------------------------

Path: TypeAlias = tuple[str, ...]


@dataclass(slots=True)
class _Encoder:
    """One pass over a value that makes its readable copy.

    Attributes:
        lossy: BSON would not give the value back as it is.
        containers: How many lists and objects were met.
    """

    name: str
    lossy: bool = False
    containers: int = 0

    def readable(self, value: Any, path: Path) -> Any:
        if value is None or isinstance(value, bool):
            return value
        for kind, encode in _READABLE_KINDS:
            if isinstance(value, kind):
                return encode(self, value, path)
        reason = f"a {type(value).__name__} cannot be stored; JSON, bytes, tuples and datetimes can"
        raise self._unstorable(path, reason)

    def text(self, value: str, path: Path) -> str:
        text = str.__str__(value)
        if not is_text(text):
            raise self._unstorable(path, "the text holds a surrogate, which is no character")
        return text

    def integer(self, value: int, _path: Path) -> int | str:
        number = int.__int__(value)
        if is_int64(number):
            return number
        self.lossy = True
        return hex(number)  # `str` refuses more than 4,300 digits (sys.set_int_max_str_digits)

    def time(self, value: datetime, path: Path) -> Any:
        self.lossy = True
        try:
            bson.encode({"time": value})
        except OverflowError:
            return datetime.isoformat(value)
        except Exception as error:  # whatever a time zone of the caller's own does
            raise self._unstorable(path, f"the time cannot be read: {shown(error)}") from error
        return value

    def list(self, value: Iterable[Any], path: Path) -> Any:
        self._enter(path)
        self.lossy = self.lossy or isinstance(value, tuple)
        return [
            self.readable(element, (*path, f"[{index}]"))
            for index, element in enumerate(elements(value))
        ]

    def object(self, value: dict[Any, Any], path: Path) -> dict[str, Any]:
        self._enter(path)
        readable: dict[str, Any] = {}
        for key, element in dict.items(value):
            if not isinstance(key, str):
                raise self._unstorable(
                    path, f"the key {shown(key)} is a {type(key).__name__}, not a string"
                )
            name = self.text(key, path)
            place = name
            if not is_plain_key(name):
                self.lossy = True
                name = name.translate(READABLE)
            readable[name] = self.readable(element, (*path, place))
        return readable

    def _enter(self, path: Path) -> None:
        self.containers += 1
        if len(path) > MAX_DEPTH:
            raise UnstorableValueError(
                f"{self.name}: nested deeper than {MAX_DEPTH} levels, or within itself"
            )
        if self.containers > MOST_CONTAINERS:
            raise UnstorableValueError(
                f"{self.name}: more than {MOST_CONTAINERS:,} lists and objects"
            )

    def _unstorable(self, path: Path, reason: str) -> UnstorableValueError:
        place = (
            ".".join(part[:LONGEST_SHOWN] for part in path).replace(".[", "[") or "the value itself"
        )
        cut = place if len(place) <= LONGEST_SHOWN else f"{place[:LONGEST_SHOWN]}..."
        return UnstorableValueError(f"{self.name}: at {cut}: {reason}")


_READABLE_KINDS: tuple[
    tuple[type | tuple[type, ...], Callable[[_Encoder, Any, Path], Any]], ...
] = (
    (str, _Encoder.text),
    (int, _Encoder.integer),
    (float, lambda _walk, value, _path: float.__float__(value)),
    (dict, _Encoder.object),
    ((list, tuple), _Encoder.list),
    (bytes, lambda _walk, value, _path: plain(value)),
    (datetime, _Encoder.time),
)

_PLAIN: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (bool, lambda value: value),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytes, lambda value: b"".join((value,))),
)


def elements(value: Any) -> Iterable[Any]:
    """Iterate over a list or a tuple, whatever the methods of a subclass do."""
    return list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)


def digest_of(readable: Mapping[str, Any]) -> bytes:
    """Return a digest of a readable copy, independent of the tool that wrote it.

    Numbers that are equal count as one, in whatever type BSON holds them, and the order of fields
    does not count.
    """
    return hashlib.blake2b(bson.encode({"value": _alike(readable)}), digest_size=16).digest()


def _alike(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _alike(element) for key, element in sorted(value.items())}
    if isinstance(value, list):
        return [_alike(element) for element in value]
    if isinstance(value, float) and value.is_integer() and is_int64(int(value)):
        return Int64(value)
    return Int64(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _from_plain(value: Any) -> Any:
    """Turn what PyMongo decodes into builtins: it gives 64-bit integers a type of its own,
    ``bson.Int64``.
    """
    if isinstance(value, str):
        if not is_text(value):
            raise CorruptDataError("its value holds bytes that are no text")
        return value
    if isinstance(value, dict):
        return {_from_plain(key): _from_plain(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_from_plain(element) for element in value]
    if isinstance(value, DatetimeMS):
        raise CorruptDataError("its value holds a date that no datetime can hold")
    if isinstance(value, datetime):
        return as_utc(value)
    return int(value) if isinstance(value, Int64) else value


# --- what is exact
# ---------------------------------------------------------------------------------


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return _exact_object(value)
    if isinstance(value, tuple):
        return {f"{SPECIAL}tuple": [_exact(element) for element in elements(value)]}
    if isinstance(value, list):
        return [_exact(element) for element in elements(value)]
    if isinstance(value, datetime):
        return {f"{SPECIAL}time": datetime.isoformat(value), "fold": value.fold}
    builtin = plain(value)
    if isinstance(builtin, int) and not is_int64(builtin):
        return {f"{SPECIAL}integer": hex(builtin)}
    return builtin


def _exact_object(value: dict[Any, Any]) -> dict[str, Any]:
    """Encode an object; as pairs where BSON refuses a key or a key begins with `SPECIAL`."""
    pairs = [(str.__str__(key), _exact(element)) for key, element in dict.items(value)]
    if any(key.startswith(SPECIAL) or not is_plain_key(key) for key, _ in pairs):
        return {f"{SPECIAL}object": [list(pair) for pair in pairs]}
    return dict(pairs)


def _from_exact(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_exact(element) for element in value]
    if not isinstance(value, dict):
        return _builtin(value)
    special = next(iter(value), "")
    if not special.startswith(SPECIAL):
        return {key: _from_exact(element) for key, element in value.items()}
    decode = _SPECIAL_KINDS.get(special[len(SPECIAL) :])
    if decode is None:
        raise CorruptDataError(f"its exact bytes hold an unknown kind of value, {shown(special)}")
    return decode(value)


def _builtin(value: Any) -> Any:
    if not isinstance(value, (str, int, float, bytes, type(None))):
        raise CorruptDataError(f"its exact bytes hold a {type(value).__name__}")
    return int(value) if isinstance(value, Int64) else value


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    made = {key: _from_exact(element) for key, element in pairs}
    if not all(isinstance(key, str) for key in made):
        raise CorruptDataError("its exact bytes hold a key that is no string")
    return made


_SPECIAL_KINDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "object": lambda value: _object(value[f"{SPECIAL}object"]),
    "tuple": lambda value: tuple(_from_exact(element) for element in value[f"{SPECIAL}tuple"]),
    "time": lambda value: datetime.fromisoformat(value[f"{SPECIAL}time"]).replace(
        fold=value["fold"]
    ),
    "integer": lambda value: int(value[f"{SPECIAL}integer"], 16),
}
