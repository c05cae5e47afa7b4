"""Serialized values in JSON. Pure.

A checkpoint holds the whole list of messages, and so does the next one. So a value is cut where its
content says so (FastCDC), and a piece that several values share stands in the document once.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyfastcdc import FastCDC

from mongomem.checkpoint.serde.channels import Serialized
from mongomem.transfer.json_parts import Part

PIECE_BYTES = 1024
"""The average size of a piece."""

LARGEST_VALUE = 2**30
"""In bytes. A document that names a piece many times may stand for more than there is memory."""


def base64_of(data: bytes) -> str:
    """Return base64 of bytes."""
    return base64.b64encode(data).decode("ascii")


@dataclass(slots=True)
class Pieces:
    """The pieces of the values of one thread.

    Attributes:
        encoded: Base64 of each, in the order in which they were met.
        places: Where each stands in `encoded`.
    """

    encoded: list[str] = field(default_factory=list)
    places: dict[bytes, int] = field(default_factory=dict)

    def encode(self, value: Serialized) -> dict[str, Any]:
        """Return what stands for a value in the document."""
        kind, data = value
        if len(data) <= PIECE_BYTES:
            return {"type": kind, "data": base64_of(data)}
        cutter = FastCDC(PIECE_BYTES, min_size=PIECE_BYTES // 4, max_size=PIECE_BYTES * 4)
        cut = [self._place(bytes(piece.data)) for piece in cutter.cut_buf(data)]
        return {"type": kind, "pieces": cut}

    def _place(self, piece: bytes) -> int:
        if piece not in self.places:
            self.places[piece] = len(self.encoded)
            self.encoded.append(base64_of(piece))
        return self.places[piece]


def decode_value(part: Part, pieces: Sequence[bytes]) -> Serialized:
    """Return the value that a part of a document stands for.

    Raises:
        InvalidInputError: It stands for none.
    """
    kind = part.member("type").text()
    if (data := part.optional("data")) is not None:
        return kind, data.data()
    named = part.member("pieces")
    chosen = [pieces[_checked_place(one, len(pieces))] for one in named.parts()]
    if sum(map(len, chosen)) > LARGEST_VALUE:
        raise part.wrong(f"a value of at most {LARGEST_VALUE:,} bytes")
    return kind, b"".join(chosen)


def _checked_place(part: Part, count: int) -> int:
    place = part.number(0)
    if place >= count:
        raise part.wrong(f"the place of one of {count} pieces")
    return place
