"""A retention policy as an option says it."""

from __future__ import annotations

import re
from typing import Any

from mongomem.arguments import shown
from mongomem.checkpoint.retention.policy import Retention
from mongomem.command_line.changes.durations import duration_of
from mongomem.command_line.refusals import Refusal
from mongomem.errors import ConfigurationError

POLICY_METAVAR = "POLICY"

SPANS = ("older_than", "idle_threads", "waiting_threads")

KEPT = re.compile(r"[0-9]{1,18}")


def policy_of(text: str | None) -> Retention | None:
    """Return the policy that ``--policy`` says, such as ``keep_last=10,older_than=7d``; None where
    it says nothing.

    Raises:
        Refusal: It says none.
    """
    if text is None:
        return None
    fields = [_field(part) for part in text.split(",")]
    given = dict(fields)
    if len(given) < len(fields):
        raise Refusal(f"--policy names a field twice: {shown(text)}")
    try:
        return Retention(**given)
    except ConfigurationError as error:
        raise Refusal(f"--policy: {error}") from None


def _field(part: str) -> tuple[str, Any]:
    name, _, value = (one.strip() for one in part.partition("="))
    if name in SPANS:
        return name, duration_of(f"{name} of --policy", value)
    if name == "keep_last" and KEPT.fullmatch(value):
        return name, int(value)
    raise Refusal(
        "--policy takes fields such as keep_last=10,older_than=7d,idle_threads=90d,"
        f"waiting_threads=365d, not {shown(part)}"
    )
