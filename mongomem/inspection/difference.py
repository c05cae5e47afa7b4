"""What differs between two states, channel by channel. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mongomem.display.descriptions import same
from mongomem.inspection.plain_values import Bounds, plain
from mongomem.inspection.state import State

Kind = Literal["added", "removed", "changed"]

ABSENT = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """What became of a channel, or of a part of its value.

    Attributes:
        name: The channel; of a part the id of a message, the key of an object, or the place in a
            list.
        kind: What became of it.
        before, after: Its values; `ABSENT` where it is not.
        parts: Of a changed list or object, what became of its elements. Where there are some, the
            value as a whole need not be looked at.
    """

    name: str
    kind: Kind
    before: Any = ABSENT
    after: Any = ABSENT
    parts: Sequence[Difference] = ()

    def json(self, bounds: Bounds) -> dict[str, Any]:
        """Return it as JSON, its values bounded."""
        told: dict[str, Any] = {"name": self.name, "kind": self.kind}
        if self.parts:
            return told | {"parts": [one.json(bounds) for one in self.parts]}
        sides = {"before": self.before, "after": self.after}
        return told | {name: plain(one, bounds) for name, one in sides.items() if one is not ABSENT}


def differences(one: State, other: State) -> list[Difference]:
    """Tell what became of the channels of one state in the other."""
    return list(_of_mappings(one.values, other.values))


def _of_mappings(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    for name in {**before, **after}:
        found = _of_values(str(name), before.get(name, ABSENT), after.get(name, ABSENT))
        if found is not None:
            yield found


def _of_values(name: str, before: Any, after: Any) -> Difference | None:
    if before is ABSENT:
        return Difference(name, "added", after=after)
    if after is ABSENT:
        return Difference(name, "removed", before)
    if same(before, after):
        return None
    return Difference(name, "changed", before, after, tuple(_parts(before, after)))


def _parts(before: Any, after: Any) -> Iterator[Difference]:
    """Tell what became of the elements of two lists or objects."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _of_mappings(before, after)
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
        yield from _of_lists(before, after)


def _of_lists(before: Sequence[Any], after: Sequence[Any]) -> Iterator[Difference]:
    """Tell what became of elements: by their ids where all have one, as messages do; else by their
    places in front of and behind what both have in common.
    """
    one, other = _by_id(before), _by_id(after)
    if one is not None and other is not None:
        yield from _of_mappings(one, other)
        return
    first = _common(before, after)
    last = _common(before[first:][::-1], after[first:][::-1])
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    yield from _of_mappings(_by_place(old, first), _by_place(new, first))


def _by_place(elements: Sequence[Any], first: int) -> dict[str, Any]:
    return {f"[{place}]": element for place, element in enumerate(elements, first)}


def _by_id(elements: Sequence[Any]) -> dict[str, Any] | None:
    """Return elements by their ids; None where one has none, or two have the same."""
    found: dict[str, Any] = {}
    for element in elements:
        own = _id_of(element)
        if own is None or own in found:
            return None
        found[own] = element
    return found


def _id_of(element: Any) -> str | None:
    try:
        own = element.get("id") if isinstance(element, Mapping) else getattr(element, "id", None)
    except Exception:  # whatever an attribute of a value does
        return None
    return own if isinstance(own, str) else None


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Count the elements that two lists have in common at their front."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if not same(left, right):
            break
        count += 1
    return count
