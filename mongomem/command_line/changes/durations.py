"""Durations, as options say them."""

from __future__ import annotations

import re
from datetime import timedelta

from mongomem.arguments import shown
from mongomem.command_line.refusals import Refusal

UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

DURATION = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")

DURATION_METAVAR = "TIME"


def duration_of(option: str, text: str | None) -> timedelta | None:
    """Return the time that an option says, such as ``90d``; None where it says nothing.

    Raises:
        Refusal: It says none.
    """
    if text is None:
        return None
    found = DURATION.fullmatch(text.strip())
    try:
        time = timedelta(**{UNITS[found[2]]: float(found[1])}) if found else timedelta(0)
    except OverflowError:
        time = timedelta(0)
    if time <= timedelta(0):
        raise Refusal(
            f"{option} takes a time such as 30m, 12h, 90d or 4w (minutes, hours, days, weeks), not "
            f"{shown(text)}"
        )
    return time
