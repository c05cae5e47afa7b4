"""The export: threads one after the other, then items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from mongomem.arguments import shown
from mongomem.backup.lines import FORMAT, SPOOLED_BYTES, VERSION, encoded, index_in
from mongomem.backup.page_sizes import page_size
from mongomem.backup.selection import Selection
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.plans.thread_state import MAX_ATTEMPTS, backoff
from mongomem.engine.commands import slices
from mongomem.memory import MongoMemory
from mongomem.migration.parts import LeftOut
from mongomem.migration.report import Named
from mongomem.store.documents.namespace import Namespace
from mongomem.store.plans.setup import stored_config
from mongomem.transfer.json_parts import Part
from mongomem.transfer.memories import ItemPage, item_page
from mongomem.transfer.thread_export import (
    PAGE_SIZE,
    Outline,
    ThreadJson,
    checkpoint_page,
    count_living,
    has_lost_any,
    thread_outline,
)

PIECES_PER_LINE = 1000
"""About 1 MB."""


@dataclass(slots=True)
class Exported:
    """What was written.

    Attributes:
        threads: How many threads.
        checkpoints: How many checkpoints.
        items: How many items.
        left_out: What is damaged, or cannot be said to be of a user.
    """

    threads: int = 0
    checkpoints: int = 0
    items: int = 0
    left_out: Named = field(default_factory=Named)

    def counts(self) -> dict[str, int]:
        """Return how many of each kind there are."""
        return {"threads": self.threads, "checkpoints": self.checkpoints, "items": self.items}

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Export:
    """The export of threads and items.

    Threads are read one after the other while others may write: each is as it was at some moment of
    the export. One that begins meanwhile may be left out. A thread is gathered on the disk before
    the first of it is written.

    Attributes:
        memory: What is read.
        file: Where the lines go.
        selection: What of it.
        report: What is told of it.
        tell: Is called after each step.
    """

    memory: MongoMemory
    file: IO[bytes]
    selection: Selection = field(default_factory=Selection)
    report: Exported = field(default_factory=Exported)
    tell: Callable[[], None] = lambda: None

    def make(self) -> None:
        """Write the file.

        Raises:
            ThreadNotFoundError: A thread that is named is not there.
        """
        self.selection.check(self.memory)
        self._write(self._head())
        for thread_id in self.selection.thread_ids(self.memory):
            self._thread(thread_id)
        self.report.left_out.add(self._undecided())
        for namespace in self.selection.all_namespaces(self.memory):
            self._items(namespace)
        self._write({"end": self.report.counts()})

    def _head(self) -> dict[str, Any]:
        """Return the first line: what the file is, and how its items were embedded."""
        made = self.memory.saver._context().now().isoformat()
        run, context = self.memory.store._runners.run, self.memory.store._context()
        settings = {"index": run(stored_config(context))}
        return {
            "format": FORMAT,
            "version": VERSION,
            "exported_at": made,
            "index": index_in(Part(settings, "settings")),
        }

    def _undecided(self) -> Iterator[LeftOut]:
        """Name the threads of which it is not certain whether they are of a user."""
        for user, thread_id in self.selection.undecided(self.memory):
            reason = f"it does not say whether it is of user {shown(user)}"
            yield LeftOut(f"thread {shown(thread_id)}", reason)

    def _write(self, line: dict[str, Any]) -> None:
        self.file.write(encoded(line))

    def _thread(self, thread_id: str) -> None:
        """Write a thread. One that loses checkpoints while it is read is read again."""
        run, context = self.memory.saver._runners.run, self.memory.saver._context()
        for attempt in range(MAX_ATTEMPTS):
            outline = run(thread_outline(context, thread_id))
            if outline is None:
                return
            with SpooledTemporaryFile(SPOOLED_BYTES) as lines:
                gathered = self._gathered(context, outline, lines)
                if not run(has_lost_any(context, outline)):
                    self._take(context, outline, gathered, lines)
                    return
            run(backoff(attempt))
        self._leave_out(
            thread_id, "it lost checkpoints each time that it was read: export it again"
        )

    def _gathered(
        self, context: Context, outline: Outline, lines: IO[bytes]
    ) -> Collection[str | bytes]:
        """Write the checkpoints of a thread to a file; return the `_id` of each."""
        run, gathered = self.memory.saver._runners.run, ThreadJson(context, outline)
        for ids in slices(outline.ids, PAGE_SIZE):
            for stored, writes in run(checkpoint_page(context, outline, ids)):
                run(gathered.add(stored, writes))
                for some in slices(gathered.pieces.take(), PIECES_PER_LINE):
                    lines.write(encoded({"pieces": some}))
                lines.writelines(encoded({"checkpoint": one}) for one in gathered.checkpoints)
                gathered.checkpoints.clear()
                self.tell()
        return gathered.gathered

    def _take(
        self,
        context: Context,
        outline: Outline,
        gathered: Collection[str | bytes],
        lines: IO[bytes],
    ) -> None:
        """Write a thread whose checkpoints are in a file, and name it where some are damaged. Where
        nothing of it can be read, nothing is written.
        """
        if gathered:
            self._write({"thread": outline.described})
            lines.seek(0)
            copyfileobj(lines, self.file)
            end = {"thread_id": outline.thread_id, "checkpoints": len(gathered)}
            self._write({"thread_end": end})
            self.report.threads += 1
            self.report.checkpoints += len(gathered)
        missing = [one for one in outline.ids if one not in gathered]
        if damaged := self.memory.saver._runners.run(count_living(context, outline, missing)):
            reason = f"{damaged} of {len(outline.ids)} checkpoints cannot be read"
            self._leave_out(outline.thread_id, reason)

    def _leave_out(self, thread_id: str, reason: str) -> None:
        self.report.left_out.add([LeftOut(f"thread {shown(thread_id)}", reason)])

    def _items(self, namespace: Namespace) -> None:
        run, context = self.memory.store._runners.run, self.memory.store._context()
        page: ItemPage | None = None
        while page is None or page.last is not None:
            after = None if page is None else page.last
            size = run(page_size(context, namespace, after))
            page = run(item_page(context, namespace, after, limit=size))
            self._item_page(page)

    def _item_page(self, page: ItemPage) -> None:
        for one in page.items:
            self._write({"item": one})
        self.report.items += len(page.items)
        self.report.left_out.add(LeftOut(shown(one), "it is damaged") for one in page.damaged)
        self.tell()
