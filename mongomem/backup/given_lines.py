"""A thread of a file, gathered on the disk until it is whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import IO

from mongomem.arguments import shown
from mongomem.backup.lines import SPOOLED_BYTES, Line, parsed
from mongomem.errors import InvalidInputError
from mongomem.transfer.given_thread import GivenCheckpoint, GivenThread
from mongomem.transfer.json_parts import Part
from mongomem.transfer.pieces import PieceFile, given_pieces


@dataclass(slots=True)
class GivenLines:
    """The lines of a thread that were read so far.

    Attributes:
        head: What is said of the thread as a whole.
        thread_id: Its id.
        pieces: What its values are made of.
        texts: The lines of its checkpoints, one behind the other.
        given: Where its checkpoints are.
    """

    head: Part
    thread_id: str
    pieces: PieceFile
    texts: IO[bytes]
    given: list[GivenCheckpoint] = field(default_factory=list)

    def take(self, line: Line) -> GivenThread | None:
        """Add a line of the thread; return the thread where it is the last.

        Raises:
            InvalidInputError: It belongs to no thread, or is not what should stand there.
        """
        if line.kind == "pieces":
            self.pieces.add(given_pieces(line.part))
        elif line.kind == "checkpoint":
            self._keep(line)
        elif line.kind == "thread_end":
            return self._ended(line.part)
        else:
            raise InvalidInputError(
                f"data cannot be imported: thread {shown(self.thread_id)} does not end before "
                f"line {line.number}: lines are missing"
            )
        return None

    def _keep(self, line: Line) -> None:
        begins = self.texts.seek(0, 2)
        self.texts.write(line.text)
        read = partial(self._read, line.number, begins, len(line.text))
        self.given.append(GivenCheckpoint.of(self.thread_id, line.part, read))

    def _read(self, number: int, begins: int, length: int) -> Part:
        self.texts.seek(begins)
        return parsed(self.texts.read(length), number).part

    def _ended(self, part: Part) -> GivenThread:
        for name, own in (("thread_id", self.thread_id), ("checkpoints", len(self.given))):
            if (told := part.member(name)).value != own:
                raise told.wrong(f"{shown(own)}: lines are missing")
        return GivenThread(self.head, self.thread_id, self.pieces, self.given)


@contextmanager
def thread_lines(first: Line) -> Iterator[GivenLines]:
    """Give what gathers the thread that a line begins; what it holds goes with the block.

    Raises:
        InvalidInputError: The line begins none.
    """
    with (
        SpooledTemporaryFile(SPOOLED_BYTES) as pieces,
        SpooledTemporaryFile(SPOOLED_BYTES) as texts,
    ):
        if first.kind != "thread":
            raise InvalidInputError(
                f"data cannot be imported: line {first.number} is of a thread, and none has begun: "
                "lines are missing"
            )
        thread_id = first.part.member("thread_id").identifier()
        yield GivenLines(first.part, thread_id, PieceFile(pieces), texts)
