"""Copies of items, page by page, with their times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from langgraph.store.base import NOT_PROVIDED, PutOp

from mongomem.migration.parts import ItemSource, LeftOut, SourceItem, parted
from mongomem.migration.report import Report
from mongomem.store.documents.ops import group_ops
from mongomem.store.store import MongoStore
from mongomem.transfer.memories import GivenItem, import_items, unchanged_ids


@dataclass(frozen=True, slots=True)
class ItemCopies:
    """The copy of every item of a source.

    An item of the target that was updated later stays. One that expires lives its time from now on.
    A copy that was cut short leaves whole items, and the same call goes on with the others. The
    store embeds what is copied, where it has an index.

    Attributes:
        source: Where the items are.
        store: Where they go.
        report: What is told of it.
        tell: Is called after each page.
        dry_run: Count, and write nothing.
    """

    source: ItemSource
    store: MongoStore
    report: Report
    tell: Callable[[], None] = lambda: None
    dry_run: bool = False

    def make(self) -> None:
        """Copy the items.

        Raises:
            PyMongoError: A connection was lost, or a right is missing.
            ConfigurationError: The target is not one.
        """
        for page in self.source.pages():
            items, lost = parted(page)
            given, refused = parted(given_item(self.store, one) for one in items)
            self.report.left_out.add([*lost, *refused])
            self.report.items.found += len(page)
            self._copy(given)
            self.tell()

    def _copy(self, given: Sequence[GivenItem]) -> None:
        run, context = self.store._runners.run, self.store._context()
        unchanged = run(unchanged_ids(context, given))
        due = [one for one in given if one.id not in unchanged]
        self.report.items.present += len(given) - len(due)
        if not self.dry_run and due:
            stored = len(run(import_items(context, due)))
            self.report.items.copied += stored
            self.report.items.present += len(due) - stored


def given_item(store: MongoStore, one: SourceItem) -> GivenItem | LeftOut:
    """Return an item as the target takes it."""
    ttl = NOT_PROVIDED if one.ttl_minutes is None else one.ttl_minutes
    try:
        op = PutOp(one.namespace, one.key, {**one.value}, None, store._ttl(ttl))
        group_ops([op], None)
    except Exception as error:  # whatever the value of an item is
        return LeftOut.of(one, error)
    return GivenItem(op, one.created_at, one.updated_at)
