"""The command that copies the data of other packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mongomem.checkpoint.saver import MongoSaver
from mongomem.command_line.command import Run, command
from mongomem.command_line.database import IndexOptions
from mongomem.command_line.printout import progress
from mongomem.command_line.refusals import DONE, FAILED, GOES_ON
from mongomem.command_line.sources import Named, Sources, open_sources
from mongomem.memory import MongoMemory
from mongomem.migration.comparison import Comparison
from mongomem.migration.item_copies import ItemCopies
from mongomem.migration.mongodb_items import ITEMS
from mongomem.migration.mongodb_threads import CHECKPOINTS, DB_NAME, WRITES
from mongomem.migration.report import Count, Report
from mongomem.migration.report import Named as NamedThings
from mongomem.migration.thread_copies import ThreadCopies
from mongomem.store.store import MongoStore

MOST_LINES = 20
"""How many things are named; ``--json`` names up to 1,000."""


@command(GOES_ON)
def migrate(
    run: Run,
    *,
    index: IndexOptions,
    from_mongo: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="A server with data of langgraph-checkpoint-mongodb or langgraph-store-mongodb.",
        ),
    ] = None,
    from_db: Annotated[
        str, typer.Option(metavar="NAME", help="The database of --from-mongo.")
    ] = DB_NAME,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            metavar="COLLECTION",
            help=f"Copy the checkpoints of this collection. [default: {CHECKPOINTS}]",
        ),
    ] = None,
    writes: Annotated[
        str | None,
        typer.Option(
            metavar="COLLECTION", help=f"The collection of their writes. [default: {WRITES}]"
        ),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            metavar="COLLECTION",
            help=f"Copy the items of this collection. [default: {ITEMS}]",
        ),
    ] = None,
    from_saver: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FACTORY", help="Copy the threads of any LangGraph saver."),
    ] = None,
    from_store: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FACTORY", help="Copy the items of any LangGraph store."),
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import a module whose classes stand in the data. Can be repeated.",
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read both sides afterwards, and name what differs.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what is to be copied; write nothing.")
    ] = False,
) -> None:
    """Copy threads and items of other LangGraph packages.

    The source is only read. What is there already stays as it is, so that the same command goes on
    with what was cut short. Nothing may write to the source meanwhile.

    Exit codes: 0 all is there, 1 something differs or failed, 2 wrong usage, 130 ended by Ctrl-C.
    """
    named = Named(
        *(from_mongo, from_db, checkpoints, writes, items, from_saver, from_store),
        imports=imports or [],
    )
    sources = open_sources(named, run.stack)
    # One that is opened by itself remembers nothing of what was copied.
    memory = run.open_indexed(index, may_be_new=True)
    verifier = run.open(may_be_new=True).saver
    report = Report()
    run.answer = MigrationAnswer(report, is_compared=verify and not dry_run)
    with progress(lambda: _progress_line(report)) as tell:
        _copy(sources, memory, report, tell, dry_run)
        if verify and not dry_run:
            _compare(sources, memory.store, verifier, Comparison(report, tell))


def _progress_line(report: Report) -> str:
    checkpoints, items = report.checkpoints, report.items
    return (
        f"{report.threads} threads, {checkpoints.copied + checkpoints.present} of "
        f"{checkpoints.found} checkpoints, {items.copied + items.present} items, "
        f"{report.compared} compared"
    )


def _copy(
    sources: Sources,
    memory: MongoMemory,
    report: Report,
    tell: Callable[[], None],
    dry_run: bool,
) -> None:
    for threads in sources.threads:
        ThreadCopies(threads, memory.saver, report, tell, dry_run).make()
    for items in sources.items:
        ItemCopies(items, memory.store, report, tell, dry_run).make()


def _compare(
    sources: Sources, store: MongoStore, verifier: MongoSaver, comparison: Comparison
) -> None:
    for threads in sources.threads:
        comparison.threads(threads, verifier)
    for items in sources.items:
        comparison.items(items, store)


@dataclass(frozen=True, slots=True)
class MigrationAnswer:
    """What a migration has done."""

    report: Report
    is_compared: bool

    @property
    def exit_code(self) -> int:
        return DONE if self.report.is_clean else FAILED

    def json(self) -> dict[str, Any]:
        return self.report.json()

    def text(self) -> Iterator[str]:
        report = self.report
        yield f"threads      {report.threads}"
        yield f"checkpoints  {_count(report.checkpoints)}"
        yield f"writes       {report.writes}"
        yield f"items        {_count(report.items)}"
        if self.is_compared:
            yield f"compared     {report.compared}, {report.differences.count} differ"
        yield from _named("left out", report.left_out)
        yield from _named("differs", report.differences)


def _count(count: Count) -> str:
    return f"{count.found}: {count.copied} copied, {count.present} there before"


def _named(what: str, named: NamedThings) -> Iterator[str]:
    for one in named.first[:MOST_LINES]:
        yield f"{what}: {one.what}: {one.reason}"
    if named.count > MOST_LINES:
        yield f"{what}: {named.count - MOST_LINES} more (--json names up to 1,000)"
