"""Values, times and numbers in lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from mongomem.display.markup import one_line
from mongomem.inspection.plain_values import text_of_bytes

LONGEST_CELL = 100
"""Characters of a name in a table; names in lines of their own are told whole."""

INDENT = "  "

LONGEST_LINE = 80
"""Characters of a value that stands in one line."""

SECONDS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}


def time_text(moment: datetime) -> str:
    """Return a time to the second, in UTC."""
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S}"


def span_text(span: timedelta) -> str:
    """Return a span of time in words, such as "90 days" or "1 day 12 hours", to the second."""
    left, parts = max(round(span.total_seconds()), 1), []
    for unit, length in SECONDS.items():
        number, left = divmod(left, length)
        if number:
            parts.append(counted(number, unit))
    return " ".join(parts)


def bytes_text(count: int | None) -> str:
    """Return a number of bytes; a question mark where it is not known."""
    return "?" if count is None else text_of_bytes(count)


def counted(number: int, thing: str) -> str:
    """Return how many things: "1 thread", "2 threads", "2,000 memories"."""
    if number == 1:
        return f"1 {thing}"
    has_ies = thing.endswith("y") and thing[-2] not in "aeiou"
    return f"{number:,} {thing[:-1]}ies" if has_ies else f"{number:,} {thing}s"


def count_text(count: int | None) -> str:
    """Return a number; a question mark where it is not known."""
    return "?" if count is None else f"{count:,}"


def ratio_text(ratio: float | None) -> str:
    """Return how many bytes of state a stored byte stands for."""
    return "-" if ratio is None else f"{ratio:.1f}"


def score_text(score: float | None) -> str:
    """Return a score, or a part of one."""
    return "" if score is None else f"{score:.3f}"


def cell(text: object, length: int = LONGEST_CELL) -> str:
    """Return a text for a cell of a table."""
    return one_line(str(text), length)


def namespace_text(labels: Iterable[str]) -> str:
    """Return a namespace as its labels joined by dots, as the options take it."""
    return ".".join(labels) or "(root)"


def value_lines(value: Any) -> Iterator[str]:
    """Give the lines of a plain value: a text by itself, messages by who speaks, all else as JSON.

    Args:
        value: As `mongomem.inspection.plain_values.plain` gives it.
    """
    if isinstance(value, str):
        yield from value.split("\n")
    elif is_message(value):
        yield from _message_lines(value)
    elif isinstance(value, list) and any(map(is_message, value)):
        for one in value:
            yield from value_lines(one)
    else:
        line = json_line(value)
        is_short = len(line) <= LONGEST_LINE
        whole = line if is_short else json.dumps(value, indent=2, ensure_ascii=False)
        yield from whole.split("\n")


def json_line(value: Any) -> str:
    """Return a plain value as one line of JSON; a text by itself."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def is_message(value: Any) -> bool:
    """Say whether a plain value is a message of LangChain, or a dict that looks like one."""
    return (
        isinstance(value, Mapping) and "content" in value and ("type" in value or "role" in value)
    )


def _message_lines(message: Mapping[str, Any]) -> Iterator[str]:
    """Give who speaks and what is said; beside it the tools that are called."""
    who = message.get("type") or message.get("role")
    content = message["content"]
    first, *others = json_line(content).split("\n")
    yield f"{who}: {first}"
    for line in others:
        yield f"{INDENT}{line}"
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        yield f"{INDENT}{_call_text(call)}"


def _call_text(call: Any) -> str:
    if not isinstance(call, Mapping):
        return json_line(call)
    return f"calls {call.get('name')} {json.dumps(call.get('args'), ensure_ascii=False)}"


def indented(lines: Iterable[str], mark: str = INDENT) -> Iterator[str]:
    """Put a mark before each line."""
    return (f"{mark}{line}" for line in lines)
