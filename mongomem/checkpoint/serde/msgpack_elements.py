"""A serialized list as its elements, and back: as much of msgpack as that takes. Pure.

The formats stand in the msgpack specification
(https://github.com/msgpack/msgpack/blob/master/spec.md): an array is a header and its elements one
behind the other, and an object that the serializer made something of is an extension, which tells
its length.
"""

from __future__ import annotations

from collections.abc import Sequence

FIXARRAY, ARRAY_16, ARRAY_32 = 0x90, 0xDC, 0xDD
LENGTH_OF_ARRAY = {ARRAY_16: 2, ARRAY_32: 4}
"""How many bytes tell the length of an array; a fixarray has it in its marker."""

LENGTH_OF_EXTENSION = {0xC7: 1, 0xC8: 2, 0xC9: 4}
"""How many bytes tell the length of an ext 8, 16 or 32; behind them is the type, one byte."""


def split(data: bytes) -> list[bytes] | None:
    """Return the elements of a serialized list of objects, or None where it is something else."""
    count, start = _header_of(data)
    elements: list[bytes] = []
    for _ in range(count):
        stop = _end_of(data, start)
        if stop is None:
            return None
        elements.append(data[start:stop])
        start = stop
    return elements if elements and start == len(data) else None


def first(data: bytes) -> bytes | None:
    """Return the first element of a serialized list of objects, or None where it is something
    else.
    """
    count, start = _header_of(data)
    stop = _end_of(data, start)
    return data[start:stop] if count and stop is not None else None


def _end_of(data: bytes, start: int) -> int | None:
    """Return where the extension ends that begins at `start`, or None where none does."""
    width = LENGTH_OF_EXTENSION.get(data[start]) if start < len(data) else None
    if width is None:
        return None
    length_end = start + 1 + width
    return length_end + 1 + int.from_bytes(data[start + 1 : length_end], "big")


def _header_of(data: bytes) -> tuple[int, int]:
    """Return how many elements a list has, 0 where the data is no list, and where they begin."""
    marker = data[0] if data else 0
    if marker & 0xF0 == FIXARRAY:
        return marker & 0x0F, 1
    width = LENGTH_OF_ARRAY.get(marker, 0)
    return int.from_bytes(data[1 : 1 + width], "big"), 1 + width


def join(elements: Sequence[bytes]) -> bytes:
    """Return the serialized list of serialized elements."""
    return b"".join([_header(len(elements)), *elements])


def _header(count: int) -> bytes:
    if count < 16:
        return bytes([FIXARRAY | count])
    marker = ARRAY_16 if count < 2**16 else ARRAY_32
    return bytes([marker]) + count.to_bytes(LENGTH_OF_ARRAY[marker], "big")
