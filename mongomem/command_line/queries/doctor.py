"""``mongomem doctor``: what is wrong or slow, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mongomem.command_line.command import Run, command
from mongomem.command_line.database import DatabaseOptions
from mongomem.command_line.printout import Block, progress
from mongomem.command_line.queries.texts import bytes_text, counted, json_line, span_text
from mongomem.command_line.refusals import DONE, FAILED
from mongomem.engine.clients import DEFAULT_DATABASE
from mongomem.inspection.examination.findings import Finding, Findings
from mongomem.inspection.inspector import Inspector
from mongomem.inspection.presence import Presence

WIDTH = 22
"""Characters of the name of a fact."""

SPANS = {
    "thread_ttl_seconds": "thread ttl",
    "threads_expire_after_seconds": "threads expire after",
}
"""Facts that are told in days and hours, and what they are called then."""


@command()
def doctor(run: Run) -> None:
    """Look for what is wrong or slow.

    Looks at the server, indexes, expiry, large threads and damaged data. Reads a bounded sample,
    and writes nothing. Of each finding it says how bad it is and what to do about it. Exit code 1
    where something is to be done: also where nothing is stored under the names that were given.
    """
    inspector = Inspector(run.open(may_be_empty=True))
    about, may_be_new = "", _may_be_new(run.database, inspector.presence())
    with progress(lambda: f"looking at {about}") as tell:
        for what, findings in inspector.examination(may_be_new=may_be_new):
            about = what
            run.answer = DoctorAnswer(findings)
            tell()


def _may_be_new(options: DatabaseOptions, found: Presence) -> bool:
    """Say whether nothing need be stored yet. Names that the command was given are likely to be
    wrong where there is nothing under them; those of an application, and the defaults, are not.
    """
    if options.memory is not None:
        return True
    are_defaults = options.db is options.prefix is None and found.database == DEFAULT_DATABASE
    return are_defaults and not found.other_prefixes


@dataclass(frozen=True, slots=True)
class DoctorAnswer:
    """What was found."""

    findings: Findings

    @property
    def exit_code(self) -> int:
        return FAILED if self.findings.needs_action else DONE

    def json(self) -> dict[str, Any]:
        return self.findings.json()

    def text(self) -> Iterator[Block]:
        for name, value in self.findings.facts.items():
            if name in SPANS and value is not None:
                value = span_text(timedelta(seconds=value))
            yield f"{SPANS.get(name, name.replace('_', ' ')):<{WIDTH}} {_fact(value)}"
        found = self.findings.sorted()
        for one in found:
            yield from _lines(one)
        if not self.findings.needs_action:
            yield "\nnothing needs to be done"


def _fact(value: Any) -> str:
    if isinstance(value, dict) and "collection" in value:
        sizes = (value["bytes"], value["disk_bytes"], value["index_bytes"])
        stored, disk, indexes = map(bytes_text, sizes)
        return (
            f"{counted(value['documents'], 'document')}, {stored}, {disk} on disk, {indexes} of "
            "indexes"
        )
    return "none" if value is None else json_line(value)


def _lines(one: Finding) -> Iterator[str]:
    yield f"\n{one.severity}: {one.what}"
    for name in one.names:
        yield f"  - {name}"
    if one.advice:
        yield f"  what to do: {one.advice}"
