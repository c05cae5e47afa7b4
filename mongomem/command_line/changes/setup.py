"""The command that prepares a database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import typer

from mongomem.command_line.changes.durations import DURATION_METAVAR, duration_of
from mongomem.command_line.command import Run, Yes, command
from mongomem.command_line.database import IndexOptions
from mongomem.command_line.printout import Block
from mongomem.command_line.queries.texts import counted, span_text
from mongomem.command_line.refusals import DONE, GOES_ON
from mongomem.command_line.tables import Table
from mongomem.memory import MongoMemory
from mongomem.upkeep.preparation import Preparation, prepare, threads_unused_for

NEVER = "never"


@command(GOES_ON)
def setup(
    run: Run,
    *,
    index: IndexOptions,
    thread_ttl: Annotated[
        str | None,
        typer.Option(
            metavar=DURATION_METAVAR,
            help="How long a thread lives that nobody uses, such as 90d; or never.",
        ),
    ] = None,
    yes: Yes = False,
) -> None:
    """Create the indexes, and bring older data up to date.

    Says what was done. What is there already stays, so the command can be repeated.
    """
    options = {}
    if thread_ttl is not None:
        never = thread_ttl == NEVER
        options["thread_ttl"] = None if never else duration_of("--thread-ttl", thread_ttl)
    memory = run.open_indexed(index, may_be_new=True, **options)
    _ask(run, memory, options.get("thread_ttl"), yes=yes)
    run.answer = SetupAnswer(prepare(memory))


def _ask(run: Run, memory: MongoMemory, ttl: timedelta | None, *, yes: bool) -> None:
    """Ask where a time to live would end threads at once."""
    if ttl is None or yes:
        return
    if unused := threads_unused_for(memory, ttl):
        were = "was" if unused == 1 else "were"
        run.confirm(
            f"{counted(unused, 'thread')} {were} not used for that long, and will be deleted. Go "
            "on?",
            yes=yes,
        )


@dataclass(frozen=True, slots=True)
class SetupAnswer:
    """What a setup did."""

    done: Preparation

    exit_code = DONE

    def json(self) -> dict[str, Any]:
        return self.done.json()

    def text(self) -> Iterator[Block]:
        for collection, version in self.done.migrated.items():
            yield f"{collection}: brought to schema version {version}"
        if self.done.changes:
            rows = [
                (one.change, one.collection, one.index, _expiry(one.expire_after_seconds))
                for one in self.done.changes
            ]
            yield Table(["done", "collection", "index", "expires"], rows)
        else:
            yield f"all {self.done.indexes} indexes are there"
        yield from self._life()

    def _life(self) -> Iterator[str]:
        """Say how long threads live, and that the server deletes them a little later."""
        ttl, expiry = self.done.thread_ttl_seconds, self.done.threads_expire_after_seconds
        if ttl is not None and expiry is not None:
            life, latest = (span_text(timedelta(seconds=one)) for one in (ttl, expiry))
            yield f"a thread that nobody uses for {life} reads as gone"
            yield (
                f"the server deletes it after {latest}: a tenth more, since uses are noted once in "
                "a tenth of the time"
            )


def _expiry(seconds: int | None) -> str:
    if seconds is None:
        return ""
    return f"after {span_text(timedelta(seconds=seconds))}" if seconds else "at its time"
