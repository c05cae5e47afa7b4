"""What options of these commands mean: times, filters, namespaces, bounds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Annotated, Any, TypeAlias

import typer

from mongomem.arguments import shown
from mongomem.command_line.command import count_option
from mongomem.command_line.refusals import Refusal
from mongomem.inspection.plain_values import WHOLE, Bounds

Limit: TypeAlias = Annotated[int, count_option("How many at most.")]

Filters: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="KEY=VALUE",
        help="Only what contains that; a value is JSON, or else a text. Can be repeated.",
    ),
]

Full: TypeAlias = Annotated[
    bool, typer.Option("--full", help="Values as a whole, however long they are.")
]

ThreadId: TypeAlias = Annotated[str, typer.Argument(metavar="THREAD", help="The id of a thread.")]

CheckpointNamespace: TypeAlias = Annotated[
    str,
    typer.Option(
        "--checkpoint-ns", metavar="NAMESPACE", help="The checkpoint namespace of a subgraph."
    ),
]


BOUNDED = Bounds()
"""How much of a value is told unless --full is said."""


def bounds_of(full: bool, bounded: Bounds = BOUNDED) -> Bounds:
    """Return how much of a value is told."""
    return WHOLE if full else bounded


def filter_of(given: Iterable[str] | None) -> dict[str, Any]:
    """Return what is to be contained.

    Raises:
        Refusal: One has no ``=``, is nested too deeply, or has the key of another.
    """
    wanted: dict[str, Any] = {}
    for one in given or ():
        key, separator, value = one.partition("=")
        if not separator or not key:
            raise Refusal(f"--filter takes KEY=VALUE, such as source=loop, not {shown(one)}")
        if key in wanted:
            raise Refusal(f"--filter names the key {shown(key)} twice")
        wanted[key] = _value(key, value)
    return wanted


def _value(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise Refusal(f"--filter: the value of {shown(key)} is nested too deeply") from None
    except ValueError:
        return text


def before_of(given: str | None) -> datetime | str | None:
    """Return a time, in UTC where it says nothing else; what is none is the id of a thread.

    Raises:
        Refusal: It is a time that no clock has in UTC.
    """
    if given is None:
        return None
    try:
        # Python 3.10 reads no "Z".
        moment = datetime.fromisoformat(given[:-1] + "+00:00" if given.endswith("Z") else given)
    except ValueError:
        return given
    try:
        return (
            moment.astimezone(timezone.utc)
            if moment.tzinfo
            else moment.replace(tzinfo=timezone.utc)
        )
    except OverflowError:
        raise Refusal(
            f"--before takes a time from the year 1 to 9999, not {shown(given)}"
        ) from None


def labels_of(namespace: str | None) -> tuple[str, ...]:
    """Return the labels of a namespace, which are joined by dots: no label holds one.

    Raises:
        Refusal: A label is empty.
    """
    labels = tuple(namespace.split(".")) if namespace else ()
    if not all(labels):
        raise Refusal(
            f"a namespace is labels joined by dots, such as ada.memories: {shown(namespace)}"
        )
    return labels
