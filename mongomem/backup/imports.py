"""The import: what is there already is skipped.

A thread is checked as a whole before the first of it is stored, and so is a page of items. So a
damaged line leaves whole what came before it, and nothing of what it belongs to. An import that was
cut short may leave the first checkpoints of one thread: the same import goes on behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from mongomem.arguments import shown
from mongomem.backup.given_lines import thread_lines
from mongomem.backup.lines import Line, index_in, read_head, read_lines
from mongomem.backup.page_sizes import PAGE_BYTES
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.plans.setup import ensure_setup
from mongomem.errors import InvalidInputError
from mongomem.memory import MongoMemory
from mongomem.migration.parts import LeftOut
from mongomem.migration.report import Count, Named
from mongomem.store.context import Context as StoreContext
from mongomem.transfer.given_thread import GivenThread
from mongomem.transfer.json_parts import Part
from mongomem.transfer.memories import (
    PAGE_SIZE,
    GivenItem,
    import_items,
    newest_of,
    unchanged_ids,
    without_vectors,
)
from mongomem.transfer.stored_thread import Stored, stored_parts
from mongomem.transfer.thread_export import living_document
from mongomem.transfer.thread_import import check_thread, import_thread

ANOTHER = (
    "a thread of that id is there which has no checkpoint in common with it: delete that one, or "
    "copy it to another id, and import again"
)


@dataclass(slots=True)
class ImportReport:
    """What was read and stored.

    Attributes:
        threads: How many threads the file has.
        checkpoints: Their checkpoints.
        items: The items. One that is there and was updated later counts as there.
        left_out: The threads that were not stored.
        without_vectors: How many of the items that were stored had vectors where they come from,
            and have none now, since the store has no index.
        index: How they were embedded there: model, dims, fields, metric, analyser. None where they
            were not, or the file does not say it.
    """

    threads: int = 0
    checkpoints: Count = field(default_factory=Count)
    items: Count = field(default_factory=Count)
    left_out: Named = field(default_factory=Named)
    without_vectors: int = 0
    index: dict[str, Any] | None = None

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


@dataclass(slots=True)
class Import:
    """The import of threads and items.

    Nothing that is there is removed. A checkpoint that is there stays, and so does an item that was
    updated later. A thread that somebody runs or deletes meanwhile stays readable: its runs go on
    from their own checkpoints, and what is imported stands beside them.

    Attributes:
        memory: What is written to.
        file: Where the lines are.
        report: What is told of it.
        tell: Is called after each step.
        head: The first line of the file, where that was read before.
    """

    memory: MongoMemory
    file: IO[bytes]
    report: ImportReport = field(default_factory=ImportReport)
    tell: Callable[[], None] = lambda: None
    head: Part | None = None
    _items: list[GivenItem] = field(default_factory=list)
    _bytes: int = 0

    def make(self) -> None:
        """Read the file, and store what is not there.

        Raises:
            InvalidInputError: A line cannot be imported, or the file ends too early. Names the
                line.
        """
        try:
            head = read_head(self.file) if self.head is None else self.head
            self.report.index = index_in(head)
            self._take_all(read_lines(self.file))
        except InvalidInputError:
            self._store_items()
            raise

    def _take_all(self, lines: Iterator[Line]) -> None:
        is_whole = False
        for line in lines:
            if is_whole:
                raise InvalidInputError(f"line {line.number} stands behind the end")
            if line.kind == "item":
                self._take_item(line)
                continue
            self._store_items()
            is_whole = line.kind == "end"
            if is_whole:
                self._check_end(line)
            else:
                self._take_thread(line, lines)
        if not is_whole:
            raise InvalidInputError(
                "the file ends before its last line: it was cut off, and the rest is missing. What "
                "it has is imported"
            )

    def _check_end(self, line: Line) -> None:
        counts = {
            "threads": self.report.threads,
            "checkpoints": self.report.checkpoints.found,
            "items": self.report.items.found,
        }
        for name, own in counts.items():
            if (told := line.part.member(name)).value != own:
                raise told.wrong(f"{own}: lines are missing")

    def _take_thread(self, first: Line, lines: Iterator[Line]) -> None:
        """Gather the lines of a thread, and store it.

        Raises:
            InvalidInputError: It is not whole, or cannot be imported. Nothing of it was stored.
        """
        with thread_lines(first) as gathered:
            for line in lines:
                if (thread := gathered.take(line)) is not None:
                    self._store_thread(thread)
                    return
            raise InvalidInputError(
                f"the file ends within thread {shown(gathered.thread_id)}: it was cut off. Nothing "
                "of that thread is imported"
            )

    def _store_thread(self, thread: GivenThread) -> None:
        run, context = self.memory.saver._runners.run, self.memory.saver._context()
        stored = run(stored_parts(context, thread.thread_id))
        present = sum(stored.has(one.ref) for one in thread.given)
        self.report.threads += 1
        self.report.checkpoints.found += len(thread.given)
        if stored.checkpoints and not present:
            self.report.left_out.add([LeftOut(f"thread {shown(thread.thread_id)}", ANOTHER)])
        elif thread.given:
            run(import_checked(context, thread, stored))
            self.report.checkpoints.present += present
            self.report.checkpoints.copied += len(thread.given) - present
        self.tell()

    def _take_item(self, line: Line) -> None:
        """Keep an item for its page, and store the page when that is full."""
        now = self.memory.store._context().now()
        self._items.append(GivenItem.of(line.part, (), now))
        self._bytes += len(line.text)
        if len(self._items) == PAGE_SIZE or self._bytes > PAGE_BYTES:
            self._store_items()

    def _store_items(self) -> None:
        given, self._items, self._bytes = self._items, [], 0
        if not given:
            return
        run, context = self.memory.store._runners.run, self.memory.store._context()
        stored = run(store_items(context, given))
        items = self.report.items
        items.found += len(given)
        items.copied += len(stored)
        items.present += len(given) - len(stored)
        self.report.without_vectors += without_vectors(context, stored)
        self.tell()


async def store_items(context: StoreContext, given: Sequence[GivenItem]) -> list[GivenItem]:
    """Store the items that are not there as they are given; return those that were stored."""
    newest = newest_of(given)
    unchanged = await unchanged_ids(context, newest)
    return await import_items(context, [one for one in newest if one.id not in unchanged])


async def import_checked(context: Context, thread: GivenThread, stored: Stored) -> None:
    """Check what is not there of a thread, and store it.

    Raises:
        InvalidInputError: It cannot be imported. Nothing of the thread was stored.
    """
    before = await living_document(context, thread.thread_id)
    await check_thread(context, thread, {}, before, stored)
    await ensure_setup(context)
    await import_thread(context, thread, {}, before, stored)
