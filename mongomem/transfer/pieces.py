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

LARGEST_PIECE = PIECE_BYTES * 4
"""In bytes."""

MOST_REPEATED, ALWAYS_TAKEN = 64, 2**28
"""How many times the bytes of all pieces the values of one checkpoint may come to, and how many
bytes they may in any case. A document that names a piece many times may stand for more than there
is memory."""


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
        cutter = FastCDC(PIECE_BYTES, min_size=PIECE_BYTES // 4, max_size=LARGEST_PIECE)
        cut = [self._place(bytes(piece.data)) for piece in cutter.cut_buf(data)]
        return {"type": kind, "pieces": cut}

    def _place(self, piece: bytes) -> int:
        if piece not in self.places:
            self.places[piece] = len(self.encoded)
            self.encoded.append(base64_of(piece))
        return self.places[piece]


@dataclass(slots=True)
class GivenPieces:
    """The pieces of a thread that is imported, for the values of one checkpoint.

    Attributes:
        pieces: The pieces.
        left: How many bytes its values may still come to.
    """

    pieces: Sequence[bytes]
    left: int

    @classmethod
    def of(cls, pieces: Sequence[bytes]) -> GivenPieces:
        return cls(pieces, max(ALWAYS_TAKEN, MOST_REPEATED * sum(map(len, pieces))))

    def joined(self, part: Part) -> bytes:
        """Return the pieces that a part of a document names, in one.

        Raises:
            InvalidInputError: It names none, or the values of the checkpoint come to too much.
        """
        places = [_checked_place(one, len(self.pieces)) for one in part.parts()]
        self.left -= sum(len(self.pieces[place]) for place in places)
        if self.left < 0:
            raise part.wrong("fewer pieces: the values of this checkpoint repeat them too often")
        return b"".join([self.pieces[place] for place in places])


def given_piece(part: Part) -> bytes:
    """Return one of the pieces of a document, not longer than the export makes them: so a value is
    in proportion to what names its pieces.
    """
    data = part.data()
    if len(data) > LARGEST_PIECE:
        raise part.wrong(f"a piece of at most {LARGEST_PIECE} bytes")
    return data


def decode_value(part: Part, pieces: GivenPieces) -> Serialized:
    """Return the value that a part of a document stands for.

    Raises:
        InvalidInputError: It stands for none, or the values of the checkpoint come to too much.
    """
    kind = part.member("type").text()
    if (data := part.optional("data")) is not None:
        return kind, data.data()
    return kind, pieces.joined(part.member("pieces"))


def _checked_place(part: Part, count: int) -> int:
    place = part.number(0)
    if place >= count:
        raise part.wrong(f"the place of one of {count} pieces")
    return place
