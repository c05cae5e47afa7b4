"""The lines of a file: written, and read one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from mongomem.errors import InvalidInputError
from mongomem.transfer.json_parts import Part

FORMAT, VERSION = "mongomem.lines", 1

LONGEST_LINE = 128 * 2**20
"""In bytes. An item is at most 16 MB, which JSON makes six times as long where it consists of
control characters; beside that it may stand encoded once more."""

SPOOLED_BYTES = 16 * 2**20
"""What of a thread stays in memory; the rest goes to a temporary file."""

KINDS = ("thread", "pieces", "checkpoint", "thread_end", "item", "end")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file.

    Attributes:
        number: Which it is, from 1 on.
        kind: One of `KINDS`.
        part: What it says.
        text: The line itself.
    """

    number: int
    kind: str
    part: Part
    text: bytes


def encoded(value: Mapping[str, Any]) -> bytes:
    """Return the line that says something."""
    try:
        return f"{json.dumps(value, ensure_ascii=False, allow_nan=False)}\n".encode()
    except UnicodeEncodeError:  # half a pair of surrogates, which JSON writes as an escape
        return f"{json.dumps(value, allow_nan=False)}\n".encode()


def read_lines(file: IO[bytes]) -> Iterator[Line]:
    """Read the lines of a file behind the first.

    Raises:
        InvalidInputError: One is none of such a file. Names its number.
    """
    number = 2
    while text := _read(file, number):
        yield parsed(text, number)
        number += 1


def parsed(text: bytes, number: int) -> Line:
    """Read what a line says.

    Raises:
        InvalidInputError: It says nothing.
    """
    whole = _json(text, number)
    kind, *others = whole.object() or [""]
    if others or kind not in KINDS:
        raise whole.wrong(f"an object with one member, one of {', '.join(KINDS)}")
    return Line(number, kind, whole.member(kind), text)


def _read(file: IO[bytes], number: int) -> bytes:
    """Read a line; empty at the end.

    Raises:
        InvalidInputError: It is too long.
    """
    text = file.readline(LONGEST_LINE + 1)
    if len(text) > LONGEST_LINE:
        raise InvalidInputError(
            f"line {number} is longer than {LONGEST_LINE} bytes: this is no file that "
            "mongomem export has written"
        )
    return text


def _json(text: bytes, number: int) -> Part:
    try:
        return Part(json.loads(text), f"line {number}")
    except (ValueError, RecursionError) as error:
        cut = "" if text.endswith(b"\n") else ", and the file ends in it: it was cut off"
        raise InvalidInputError(f"line {number} is no JSON ({error}){cut}") from error


def read_head(file: IO[bytes]) -> Part:
    """Read the first line of a file, which says what it is.

    Raises:
        InvalidInputError: The file is of another format or version.
    """
    text = _read(file, 1)
    if not text:
        raise InvalidInputError("the file is empty: it is no file that mongomem export has written")
    whole = _json(text, 1)
    if whole.member("format").value != FORMAT:
        raise whole.member("format").wrong(f'"{FORMAT}"')
    version = whole.member("version")
    if version.number(1) != VERSION:
        raise version.wrong(f"{VERSION}, as this mongomem reads it (a newer one may have made it)")
    return whole


def index_in(head: Part) -> dict[str, Any] | None:
    """Return how items were embedded, as the first line says it: model, dims, fields, metric and
    analyser. None where it says nothing of the kind: it decides nothing of how lines are read.
    """
    try:
        index = head.member("index")
        return {
            "model": index.member("model").text(),
            "dims": index.member("dims").number(0),
            "fields": index.member("fields").texts(),
            "metric": index.member("metric").text(),
            "analyser": None if (told := index.optional("analyser")) is None else told.text(),
        }
    except InvalidInputError:
        return None
