"""The command that copies the data of other packages."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import typer
from pymongo.errors import PyMongoError

from mongomem.command_line.ends import Ends, Named, opened
from mongomem.command_line.printout import (
    print_error,
    print_result,
    progress,
    report_json,
    report_text,
)
from mongomem.command_line.refusals import GOES_ON, Failure, Refusal, line_of
from mongomem.errors import MongomemError
from mongomem.migration.comparison import Comparison
from mongomem.migration.item_copies import ItemCopies
from mongomem.migration.mongodb_items import ITEMS
from mongomem.migration.mongodb_threads import CHECKPOINTS, DB_NAME, WRITES
from mongomem.migration.report import Report
from mongomem.migration.thread_copies import ThreadCopies

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def migrate(
    from_mongo: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="A server with data of langgraph-checkpoint-mongodb or langgraph-store-mongodb.",
        ),
    ] = None,
    db: Annotated[
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
    to: Annotated[
        str | None,
        typer.Option(metavar="URI", envvar="MONGODB_URI", help="The server of the target."),
    ] = None,
    to_db: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The database of the target. [default: that of --to, or mongomem]"
        ),
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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Copy threads and items of other LangGraph packages.

    The source is only read. What is there already stays as it is, so that the same command goes on
    with what was cut short. Nothing may write to the source meanwhile.

    Exit codes: 0 all is there, 1 something differs or failed, 2 wrong usage, 130 ended by Ctrl-C.
    """
    named = Named(
        *(from_mongo, db, checkpoints, writes, items, from_saver, from_store, to, to_db),
        imports=imports or [],
    )
    raise typer.Exit(Migration(named, verify, dry_run, as_json).run())


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration as it was asked for."""

    named: Named
    verify: bool
    dry_run: bool
    as_json: bool
    report: Report = field(default_factory=Report)

    def run(self) -> int:
        """Carry it out, and print what was done; return the exit code."""
        # A copy names itself what a serializer does not revive.
        logging.getLogger("langgraph.checkpoint.serde").setLevel(logging.ERROR)
        try:
            with opened(self.named) as ends:
                self._copy_and_compare(ends)
        except Refusal as refusal:
            return self._refused(refusal)
        except KeyboardInterrupt:
            return self._ended(INTERRUPTED, f"interrupted; {GOES_ON}")
        except (MongomemError, PyMongoError, OSError) as error:
            return self._ended(FAILED, line_of(error))
        return self._ended(0 if self.report.is_clean else FAILED, None)

    def _copy_and_compare(self, ends: Ends) -> None:
        with progress(self.report) as tell:
            self._copy(ends, tell)
            if self.verify and not self.dry_run:
                self._compare(ends, tell)

    def _copy(self, ends: Ends, tell: Callable[[], None]) -> None:
        for threads in ends.threads:
            ThreadCopies(threads, ends.memory.saver, self.report, tell, self.dry_run).make()
        for items in ends.items:
            ItemCopies(items, ends.memory.store, self.report, tell, self.dry_run).make()

    def _compare(self, ends: Ends, tell: Callable[[], None]) -> None:
        comparison = Comparison(self.report, tell)
        for threads in ends.threads:
            comparison.threads(threads, ends.verifier)
        for items in ends.items:
            comparison.items(items, ends.memory.store)

    def _refused(self, refusal: Refusal) -> int:
        """Print why nothing was begun."""
        code = FAILED if isinstance(refusal, Failure) else USAGE
        if self.as_json:
            print_result(report_json(self.report, exit_code=code, error=str(refusal)))
        print_error(str(refusal))
        return code

    def _ended(self, code: int, line: str | None) -> int:
        """Print what was done, and why it ended there."""
        if self.as_json:
            print_result(report_json(self.report, exit_code=code, error=line))
        else:
            print_result(report_text(self.report, verified=self.verify and not self.dry_run))
        if line is not None:
            print_error(line)
        return code
