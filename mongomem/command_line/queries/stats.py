"""``mongomem stats``: what a database holds, and what of it is large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mongomem.command_line.command import Run, command, count_option
from mongomem.command_line.printout import Block, progress
from mongomem.command_line.queries.memories import namespace_table
from mongomem.command_line.queries.texts import bytes_text, count_text, counted, ratio_text
from mongomem.command_line.refusals import DONE
from mongomem.command_line.tables import Table
from mongomem.inspection.inspector import Inspector
from mongomem.inspection.statistics import Statistics
from mongomem.inspection.thread_channels import ChannelUse


@command()
def stats(
    run: Run,
    thread: Annotated[
        str | None,
        typer.Argument(
            metavar="THREAD",
            help="Only the channels of this thread. [default: the database]",
            show_default=False,
        ),
    ] = None,
    *,
    largest: Annotated[int, count_option("How many of the largest are shown.", 0)] = 10,
) -> None:
    """Add up what takes the room.

    Per collection, thread, channel and namespace. Stored bytes are those of the documents; state is
    what the checkpoints would take if each kept all of its values for itself. What has expired
    counts until the server deletes it. Reads everything once, page by page, on the server; Ctrl-C
    shows what was added up so far.
    """
    inspector = Inspector(run.open())
    if thread is not None:
        run.answer = ThreadAnswer(thread, inspector.channels(thread))
        return
    for found in _watched(inspector.statistics(most=largest)):
        run.answer = StatisticsAnswer(found)


def _watched(growing: Iterator[Statistics]) -> Iterator[Statistics]:
    """Show how far it came while it grows."""
    newest: list[Statistics] = []
    with progress(lambda: _progress_line(newest[-1])) as tell:
        for one in growing:
            newest[:] = [one]
            tell()
            yield one


def _progress_line(found: Statistics) -> str:
    return f"{found.documents + found.items:,} of about {found.expected():,} documents"


@dataclass(frozen=True, slots=True)
class StatisticsAnswer:
    """What a database holds."""

    found: Statistics

    @property
    def exit_code(self) -> int:
        return DONE

    def json(self) -> dict[str, Any]:
        return self.found.json()

    def text(self) -> Iterator[Block]:
        found = self.found
        yield _collections(found)
        if not found.is_whole:
            yield "\nonly what was read before it was interrupted:"
        yield f"\n{_threads_line(found)}"
        if found.threads and found.most:
            yield _threads(found)
            yield SHARING
            yield ""
            yield _channels(found)
        items = f"{counted(found.namespaces, 'namespace')} with {counted(found.items, 'item')}"
        yield f"\n{items if found.items else 'no items'}"
        if found.namespaces and found.most:
            yield namespace_table(found.largest_namespaces())


SHARING = (
    "sharing: state divided by stored. It grows with what checkpoints have in common.\n"
    "Below 1, values are so small that the documents around them take more room."
)
"""What stands below a table that has that column."""


def _threads_line(found: Statistics) -> str:
    """Say what all threads come to."""
    if not found.threads:
        return "no threads"
    total = found.total
    ratio = ratio_text(total.logical / total.stored if total.stored else None)
    return (
        f"{counted(found.threads, 'thread')}: {bytes_text(total.logical)} of state, stored in "
        f"{bytes_text(total.stored)} (sharing {ratio})"
    )


def _collections(found: Statistics) -> Table:
    rows = [
        [
            one.name,
            count_text(one.documents),
            *map(bytes_text, (one.bytes, one.disk, one.indexes)),
        ]
        for one in found.collections
    ]
    return Table(("collection", ">documents", ">bytes", ">on disk", ">indexes"), rows)


def _threads(found: Statistics) -> Table:
    rows = [
        [
            name,
            count_text(size.checkpoints),
            bytes_text(size.stored),
            bytes_text(size.logical),
            ratio_text(size.logical / size.stored if size.stored else None),
        ]
        for name, size in found.largest_threads()
    ]
    return Table(("thread", ">checkpoints", ">stored", ">state", ">sharing"), rows)


def _channels(found: Statistics) -> Table:
    rows = [
        [
            name,
            count_text(size.values),
            bytes_text(size.logical),
            bytes_text(size.largest),
        ]
        for name, size in found.largest_channels()
    ]
    return Table(("channel", ">values", ">state", ">largest"), rows)


@dataclass(frozen=True, slots=True)
class ThreadAnswer:
    """What the channels of a thread hold."""

    thread_id: str
    channels: Mapping[str, ChannelUse]

    @property
    def exit_code(self) -> int:
        return DONE

    def json(self) -> dict[str, Any]:
        channels = [{"channel": name, **use.json()} for name, use in self.channels.items()]
        return {"thread_id": self.thread_id, "channels": channels}

    def text(self) -> Iterator[Block]:
        rows = [
            [
                name,
                count_text(use.values),
                bytes_text(use.stored),
                bytes_text(use.logical),
                ratio_text(use.logical / use.stored if use.stored else None),
            ]
            for name, use in self.channels.items()
        ]
        yield Table(("channel", ">values", ">stored", ">state", ">sharing"), rows)
        yield SHARING
