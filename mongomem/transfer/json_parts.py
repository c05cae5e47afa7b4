"""Parts of a JSON document that somebody passed: each is checked where it is read, and an error
names the place of what is wrong. Pure.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from mongomem.arguments import checked_flag, checked_text, shown
from mongomem.checkpoint.documents.config import identifier
from mongomem.checkpoint.serde.place_digest import BEGAN, MILLISECOND
from mongomem.errors import InvalidInputError, MongomemError

T = TypeVar("T")

CLOCKS_DIFFER = timedelta(days=1)
"""By how much the clock of the database of an export may be ahead."""


@dataclass(frozen=True, slots=True)
class Part:
    """A value in a JSON document, and its place there.

    Every method raises ``InvalidInputError`` where the value is of another kind.
    """

    value: Any
    place: str

    def wrong(self, expected: str) -> InvalidInputError:
        """Return the error that says what should stand here."""
        return InvalidInputError(
            f"data cannot be imported: {self.place} must be {expected}, not {shown(self.value)}"
        )

    def text(self) -> str:
        """Return a string."""
        return self.checked(lambda: checked_text(self.place, self.value), "a string")

    def identifier(self, *, optional: bool = False) -> str:
        """Return an identifier of a thread or of a part of one; empty only if `optional`."""
        text = self.checked(lambda: identifier(self.place, self.text()), "an identifier")
        if not text and not optional:
            raise self.wrong("an identifier")
        return text

    def texts(self) -> list[str]:
        """Return a list of strings."""
        return [part.text() for part in self.parts()]

    def number(self, least: int) -> int:
        """Return a whole number from `least` on."""
        number = self.value
        if type(number) is not int or not least <= number < 2**63:
            raise self.wrong(f"a whole number from {least} on")
        return number

    def flag(self) -> bool:
        """Return true or false."""
        return self.checked(lambda: checked_flag(self.place, self.value), "true or false")

    def time(self) -> datetime:
        """Return a time, in UTC."""
        moment = self.checked(lambda: datetime.fromisoformat(self.text()), "a time in ISO 8601")
        if moment.tzinfo is None:
            raise self.wrong("a time with its time zone")
        return self.checked(lambda: moment.astimezone(timezone.utc), "a time in UTC")

    def past_time(self, now: datetime) -> datetime:
        """Return a time behind the beginning of 1970, which what is listed is behind, and not ahead
        of now by more than clocks differ.
        """
        moment = self.time()
        if not BEGAN + MILLISECOND <= moment <= now + CLOCKS_DIFFER:
            raise self.wrong("a time after 1970 that has been")
        return moment

    def data(self) -> bytes:
        """Return the bytes that base64 stands for."""
        text = self.text()
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise self.wrong("base64") from None

    def object(self) -> dict[str, Any]:
        """Return an object."""
        if not isinstance(self.value, dict) or not all(type(key) is str for key in self.value):
            raise self.wrong("an object")
        return self.value

    def parts(self) -> list[Part]:
        """Return the elements of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return [Part(one, f"{self.place}[{at}]") for at, one in enumerate(self.value)]

    def members(self) -> Iterator[tuple[str, Part]]:
        """Give the members of an object."""
        return ((key, self.member(key)) for key in self.object())

    def member(self, name: str) -> Part:
        """Return a member of an object."""
        if name not in self.object():
            raise InvalidInputError(f"data cannot be imported: {self.place} has no {shown(name)}")
        return Part(self.value[name], f"{self.place}.{name}"[:200])

    def optional(self, name: str) -> Part | None:
        """Return a member of an object, None where it is not there or null."""
        return None if self.object().get(name) is None else self.member(name)

    def checked(self, read: Callable[[], T], expected: str) -> T:
        """Return what `read` makes of this value."""
        try:
            return read()
        except InvalidInputError as error:
            if str(error).startswith("data cannot be imported"):
                raise
            raise self.wrong(expected) from error
        except Exception as error:
            raise self.wrong(expected) from error

    def named(self, error: Exception) -> InvalidInputError:
        """Return the error that says what was met in this part."""
        what = error if isinstance(error, MongomemError | ValueError) else type(error).__name__
        return InvalidInputError(f"data cannot be imported: {self.place}: {what}")
