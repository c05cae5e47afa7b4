"""What an examination finds: facts, and findings with what to do about each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pymongo.errors import OperationFailure

from mongomem.engine.commands import MAX_TIME_EXPIRED, UNAUTHORIZED, Plan

T = TypeVar("T")

Severity = Literal["error", "warning", "note", "unseen"]

NEEDS_ACTION: tuple[Severity, ...] = ("error", "warning")

ORDER: tuple[Severity, ...] = ("error", "warning", "note", "unseen")
"""The worst first."""

MOST_MILLISECONDS = 5_000
"""How long the server may take for one look."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was found.

    Attributes:
        code: What kind of thing, for programs.
        severity: "error": something does not work, or data is damaged. "warning": it will hurt.
            "note": good to know. "unseen": this could not be looked at.
        what: What was seen.
        advice: What to do about it; empty where nothing needs to be done.
        names: Threads, checkpoints, items or indexes that it is about; some of them.
    """

    code: str
    severity: Severity
    what: str
    advice: str = ""
    names: Sequence[str] = ()

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "code": self.code,
            "severity": self.severity,
            "what": self.what,
            "advice": self.advice,
            "names": list(self.names),
        }


@dataclass(slots=True)
class Findings:
    """What was found so far.

    Attributes:
        facts: By name, what is as it is.
        found: The findings, in the order in which they were met.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    found: list[Finding] = field(default_factory=list)

    def error(self, code: str, what: str, advice: str = "", names: Sequence[str] = ()) -> None:
        """Add something that does not work."""
        self.found.append(Finding(code, "error", what, advice, names))

    def warning(self, code: str, what: str, advice: str = "", names: Sequence[str] = ()) -> None:
        """Add something that will hurt."""
        self.found.append(Finding(code, "warning", what, advice, names))

    def note(self, code: str, what: str, advice: str = "", names: Sequence[str] = ()) -> None:
        """Add something that is good to know."""
        self.found.append(Finding(code, "note", what, advice, names))

    def unseen(self, what: str, why: str, advice: str = "") -> None:
        """Add something that could not be looked at, once."""
        finding = Finding("unseen", "unseen", f"not seen: {what}, since {why}", advice)
        if finding not in self.found:
            self.found.append(finding)

    def sorted(self) -> list[Finding]:
        """Return the findings, the worst first."""
        return sorted(self.found, key=lambda one: ORDER.index(one.severity))

    @property
    def needs_action(self) -> bool:
        """Whether something is to be done."""
        return any(one.severity in NEEDS_ACTION for one in self.found)

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"facts": self.facts, "findings": [one.json() for one in self.sorted()]}


async def look(findings: Findings, what: str, plan: Plan[T]) -> T | None:
    """Return what a look sees; None, and a finding, where the user may not or it takes too long."""
    try:
        return await plan
    except OperationFailure as error:
        if error.code in UNAUTHORIZED:
            advice = "give the user the role clusterMonitor on admin, and read on this database"
            findings.unseen(what, "this user has not the right to", advice)
        elif error.code == MAX_TIME_EXPIRED:
            findings.unseen(what, f"it takes more than {MOST_MILLISECONDS // 1000} s")
        else:
            raise
        return None
