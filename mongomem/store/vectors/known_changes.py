"""Which changes above the floor of a watermark are known already, by their timestamps alone.

A search beside a busy writer meets thousands of changes that it has met before, and a few new ones.
The server sends the timestamps of all of them as one BSON array, from which numpy takes the numbers
as they are: a number is a timestamp's seconds in its upper 32 bits and its increment in the lower
ones, so numbers have the order of timestamps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import bson
import numpy as np
import numpy.typing as npt
from bson.timestamp import Timestamp

Numbers: TypeAlias = npt.NDArray[np.uint64]
"""Timestamps as numbers."""

GROUP: dict[str, object] = {"_id": None, "t": {"$push": "$changed_at"}}
"""The ``$group`` whose one document `decode_numbers` reads."""

GROUP_HEAD = b"\x0a_id\x00\x04t\x00"
"""What stands between the length of that document and its array."""

NO_ID = GROUP_HEAD[:5]
"""Where it stands an `_id` of null follows, which no item has."""

TIMESTAMP = 0x11
"""The type of a timestamp in BSON 1.1."""

NOTHING: Numbers = np.empty(0, np.uint64)


def as_numbers(timestamps: Iterable[Timestamp]) -> Numbers:
    """Return timestamps as numbers, in their order."""
    return np.fromiter((one.time << 32 | one.inc for one in timestamps), np.uint64)


def below(number: int) -> Timestamp:
    """Return the timestamp right below a number."""
    return Timestamp((number - 1) >> 32, (number - 1) & 0xFFFFFFFF)


def timestamps_and_later(
    collection: str, path: str, floor: Timestamp, highest: Timestamp, later: Sequence[Any]
) -> list[dict[str, Any]]:
    """Build the pipeline whose answer `split_answer` reads: the timestamps alone of what changed
    below a path up to a timestamp, and the documents of what changed later, by stages that tell
    which.
    """

    def changed(when: dict[str, Timestamp]) -> dict[str, Any]:
        return {"$match": {"prefixes": path, "changed_at": when}}

    behind = [changed({"$gt": highest}), {"$sort": {"changed_at": 1}}, *later]
    union = {"$unionWith": {"coll": collection, "pipeline": behind}}
    return [changed({"$gt": floor, "$lte": highest}), {"$group": GROUP}, union]


def split_answer(found: list[bytes]) -> tuple[Numbers, list[bytes]]:
    """Tell the timestamps from the documents of items."""
    end = 4 + len(NO_ID)
    groups = [decode_numbers(one) for one in found if one[4:end] == NO_ID]
    items = [one for one in found if one[4:end] != NO_ID]
    return np.concatenate([NOTHING, *groups]), items


def decode_numbers(document: bytes) -> Numbers:
    """Read the timestamps in the BSON of a `GROUP`; what is no timestamp is left out."""
    start = 4 + len(GROUP_HEAD)
    if document[4:start] == GROUP_HEAD:
        numbers = _decoded(document[start:-1])
        if numbers is not None:
            return numbers
    values = bson.decode(document)["t"]
    return as_numbers(value for value in values if isinstance(value, Timestamp))


def _decoded(array: bytes) -> Numbers | None:
    """Read an array of timestamps; None where it holds anything else.

    An element is its type, its place as digits, a NUL and the number. So all elements whose places
    have as many digits are equally long, and follow each other.
    """
    parts, rest = [NOTHING], array[4:-1]
    for digits in range(1, 10):
        elements = _elements(rest, digits)
        if (elements["type"] != TIMESTAMP).any():
            return None
        parts.append(elements["number"])
        rest = rest[elements.nbytes :]
    return None if rest else np.concatenate(parts)


def _elements(array: bytes, digits: int) -> npt.NDArray[np.void]:
    """Take the elements whose places have so many digits, where these are the first."""
    layout = np.dtype([("type", "u1"), ("place", "u1", digits + 1), ("number", "<u8")])
    most = 10 if digits == 1 else 9 * 10 ** (digits - 1)
    return np.frombuffer(array, layout, min(most, len(array) // layout.itemsize))


def first_unknown(met: Numbers, known: Numbers) -> int | None:
    """Return the lowest number that was met more often than it is known; None: there is none.

    Somebody who copies documents gives two items one timestamp, which is why numbers are counted.
    """
    numbers, counts = np.unique(met, return_counts=True)
    ordered = np.sort(known)
    held = np.searchsorted(ordered, numbers, "right") - np.searchsorted(ordered, numbers, "left")
    unknown = numbers[counts > held]
    return int(unknown[0]) if len(unknown) else None
