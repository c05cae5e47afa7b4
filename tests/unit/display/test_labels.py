"""Labels stand inside the frame, and on no other label or point."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from mongomem.display.labels import Box, places

FRAME = Box(0, 0, 800, 500)
coordinates = st.tuples(st.floats(0, 800), st.floats(0, 500))


@given(st.lists(coordinates, max_size=25))
def test_labels_overlap_nothing(points: list[tuple[float, float]]) -> None:
    found = places(points, [(120, 12)] * len(points), FRAME)
    placed = [place.box for place in found if place is not None]
    assert len(found) == len(points)
    assert all(box.is_inside(FRAME) for box in placed)
    assert not any(one.overlaps(other) for one, other in combinations(placed, 2))
    for box in placed:
        assert not any(box.left < x < box.right and box.bottom < y < box.top for x, y in points)


def test_a_label_stands_to_the_right_where_there_is_room() -> None:
    (place,) = places([(100, 100)], [(50, 10)], FRAME)
    assert place is not None
    assert (place.box, place.is_far) == (Box(107, 95, 157, 105), False)
    assert place.nearest(100, 100) == (107, 100)


def test_without_room_there_is_no_label() -> None:
    assert places([(5, 5)], [(900, 10)], FRAME) == [None]
    assert places([(5, 5), (9, 9)], [(20, 10)], FRAME)[0] is not None
