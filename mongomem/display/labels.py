"""Where the labels of points stand, so that they can be read: beside their point, and on no other
label or point. Pure geometry, in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

GAP = 7
"""Pixels between a point and its label."""

SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
"""Where a label is tried: right, left, above, below, then across."""

DISTANCES = (1, 3, 6, 9, 13)
"""How far away it is tried, in gaps. From the second on a line leads to it."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, from the lower left corner to the upper right one."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )

    def is_inside(self, other: Box) -> bool:
        return (
            other.left <= self.left
            and self.right <= other.right
            and other.bottom <= self.bottom
            and self.top <= other.top
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a label stands.

    Attributes:
        is_far: It is so far from its point that a line leads there.
    """

    box: Box
    is_far: bool

    def nearest(self, x: float, y: float) -> tuple[float, float]:
        """Return where a line from a point meets the label."""
        box = self.box
        return min(max(x, box.left), box.right), min(max(y, box.bottom), box.top)


def places(
    points: Sequence[tuple[float, float]], sizes: Sequence[tuple[float, float]], frame: Box
) -> list[Place | None]:
    """Place the labels of points, in order; None where there is no room for one.

    Args:
        points: The points.
        sizes: Width and height of a label for each of them, or for the first of them.
        frame: What labels stay inside of.
    """
    dots = [Box(x - GAP, y - GAP, x + GAP, y + GAP) for x, y in points]
    found: list[Place | None] = []
    for number, (point, size) in enumerate(zip(points, sizes, strict=False)):
        labels = [place.box for place in found if place]
        others = [*labels, *dots[:number], *dots[number + 1 :]]
        found.append(_first_free(_candidates(point, size), frame, others))
    return found


def _first_free(candidates: Iterable[Place], frame: Box, others: Sequence[Box]) -> Place | None:
    """Return the first place that is inside a frame and on none of some other boxes."""
    for place in candidates:
        if place.box.is_inside(frame) and not any(map(place.box.overlaps, others)):
            return place
    return None


def _candidates(point: tuple[float, float], size: tuple[float, float]) -> Iterator[Place]:
    (x, y), (width, height) = point, size
    for distance in DISTANCES:
        for right, up in SIDES:
            left = x - width / 2 + right * (width / 2 + GAP * distance)
            bottom = y - height / 2 + up * (height / 2 + GAP * distance)
            yield Place(Box(left, bottom, left + width, bottom + height), distance > 1)
