"""Serialized values in JSON.

A checkpoint holds the whole list of messages, and so does the next one. So a value is cut where its
content says so (FastCDC), and a piece that several values share stands in the document once.
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from typing import IO, Any

from pyfastcdc import FastCDC

from mongomem.checkpoint.serde.channels import Serialized
from mongomem.transfer.json_parts import Part

PIECE_BYTES = 1024
"""The average size of a piece."""

LARGEST_PIECE = PIECE_BYTES * 4
"""In bytes."""

DIGEST_BYTES = 20
"""By which pieces are known: those of a large thread are not kept in memory."""

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
        encoded: Base64 of those that were not taken yet, in the order in which they were met.
        places: The place of each among all of the thread, by its digest.
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
        digest = blake2b(piece, digest_size=DIGEST_BYTES).digest()
        if digest not in self.places:
            self.places[digest] = len(self.places)
            self.encoded.append(base64_of(piece))
        return self.places[digest]

    def take(self) -> list[str]:
        """Return the pieces that were met since the last call."""
        taken, self.encoded = self.encoded, []
        return taken


@dataclass(slots=True)
class PieceFile:
    """The pieces of a thread that is imported, one behind the other in a file.

    Attributes:
        file: Where they are: in memory, or on the disk.
        ends: Where each ends, behind a zero.
    """

    file: IO[bytes] = field(default_factory=BytesIO)
    ends: array[int] = field(default_factory=lambda: array("Q", [0]))

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def size(self) -> int:
        """How many bytes they have together."""
        return self.ends[-1]

    def add(self, pieces: Iterable[bytes]) -> None:
        """Put pieces behind the others."""
        self.file.seek(self.size)
        for piece in pieces:
            self.file.write(piece)
            self.ends.append(self.size + len(piece))

    def size_of(self, places: Iterable[int]) -> int:
        """Return how many bytes the pieces at some places have together."""
        return sum(self.ends[place + 1] - self.ends[place] for place in places)

    def joined(self, places: Sequence[int]) -> bytes:
        """Return the pieces at some places, in one: neighbours are read at once."""
        parts, first = [], 0
        for at in range(1, len(places) + 1):
            if at == len(places) or places[at] != places[at - 1] + 1:
                parts.append(self._read(places[first], places[at - 1]))
                first = at
        return b"".join(parts)

    def _read(self, first: int, last: int) -> bytes:
        self.file.seek(self.ends[first])
        return self.file.read(self.ends[last + 1] - self.ends[first])


@dataclass(slots=True)
class GivenPieces:
    """The pieces of a thread that is imported, for the values of one checkpoint.

    Attributes:
        pieces: The pieces.
        left: How many bytes its values may still come to.
    """

    pieces: PieceFile
    left: int

    @classmethod
    def of(cls, pieces: PieceFile) -> GivenPieces:
        return cls(pieces, max(ALWAYS_TAKEN, MOST_REPEATED * pieces.size))

    def joined(self, part: Part) -> bytes:
        """Return the pieces that a part of a document names, in one.

        Raises:
            InvalidInputError: It names none, or the values of the checkpoint come to too much.
        """
        places = [_checked_place(one, len(self.pieces)) for one in part.parts()]
        self.left -= self.pieces.size_of(places)
        if self.left < 0:
            raise part.wrong("fewer pieces: the values of this checkpoint repeat them too often")
        return self.pieces.joined(places)


def given_pieces(part: Part) -> Iterable[bytes]:
    """Return the pieces that a list of a document holds."""
    return (given_piece(one) for one in part.parts())


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
