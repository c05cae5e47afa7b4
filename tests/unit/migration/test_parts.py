"""The order of checkpoints, and what is left out."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.errors import InvalidInputError
from mongomem.migration.parts import LeftOut, Place, behind_parents
from mongomem.migration.report import MOST_NAMED, Named


def places(pairs: Iterable[tuple[int, int | None]]) -> list[Place]:
    return [
        Place(CheckpointRef("t", "", f"{own:02}"), None if parent is None else f"{parent:02}", 0)
        for own, parent in pairs
    ]


@given(st.dictionaries(st.integers(0, 30), st.integers(0, 40) | st.none()))
def test_each_is_behind_its_parent_and_none_is_lost(parents: dict[int, int | None]) -> None:
    """Also where parents are gone, and where damaged ones make a circle."""
    given_places = places(parents.items())
    ordered = behind_parents(given_places)
    assert sorted(ordered, key=str) == sorted(given_places, key=str)
    at = {place.ref.checkpoint_id: number for number, place in enumerate(ordered)}
    for place in ordered:
        line, above = {place.ref.checkpoint_id}, place
        while above.parent_id in at and above.parent_id not in line:
            line.add(above.parent_id)
            above = ordered[at[above.parent_id]]
        if above.parent_id not in line and place.parent_id in at:
            assert at[place.parent_id] < at[place.ref.checkpoint_id]


def test_ids_are_in_the_order_of_time() -> None:
    ordered = behind_parents(places([(3, 5), (1, None), (5, 1), (4, 3)]))
    assert [place.ref.checkpoint_id for place in ordered] == ["01", "05", "03", "04"]


def test_a_reason_is_one_short_line() -> None:
    assert LeftOut.of("x", ValueError("a\n  b")).reason == "ValueError: a b"
    assert LeftOut.of("x", InvalidInputError("a\nb")).reason == "a b"
    assert len(LeftOut.of("x", ValueError("a" * 1000)).reason) == 200


def test_as_many_are_named_as_memory_is_for() -> None:
    named = Named()
    named.add(LeftOut("x", "y") for _ in range(MOST_NAMED + 5))
    assert (named.count, len(named.first)) == (MOST_NAMED + 5, MOST_NAMED)
