"""The lists of ids that may match a filter: what they hold, for how long, and how much."""

from __future__ import annotations

import random

import pytest

from mongomem.store.vectors.matching_ids import (
    ID_BYTES,
    LARGEST_SHARE,
    MOST_FILTERS,
    VALID_SECONDS,
    MatchingIds,
)

ITEMS = 1000
LONGEST = ITEMS // LARGEST_SHARE


def ids(first: int, count: int) -> list[str]:
    return [f"k{number}" for number in range(first, first + count)]


def test_a_list_ends_by_the_clock_and_leaves_no_memory_behind() -> None:
    matching = MatchingIds()
    matching.note(b"a", ids(0, 3), 100.0, ITEMS)
    matching.note(b"b", ids(0, 5), 130.0, ITEMS)
    assert matching.get(b"a", 99.0 + VALID_SECONDS) == {*ids(0, 3)}
    assert matching.size == 8 * ID_BYTES
    assert matching.get(b"a", 100.0 + VALID_SECONDS) is None
    assert matching.size == 5 * ID_BYTES
    matching.add_changed(ids(50, 2), ITEMS)
    assert matching.get(b"b", 129.0 + VALID_SECONDS) == {*ids(0, 5), *ids(50, 2)}
    matching.note(b"c", ids(0, 1), 130.0 + VALID_SECONDS, ITEMS)
    assert matching.size == ID_BYTES


def test_a_list_that_is_asked_for_does_not_live_longer() -> None:
    matching = MatchingIds()
    matching.note(b"a", ids(0, 3), 100.0, ITEMS)
    for second in range(100, 160):
        assert matching.get(b"a", second) is not None
    assert matching.get(b"a", 160.0) is None
    matching.note(b"a", ids(0, 2), 170.0, ITEMS)
    assert matching.get(b"a", 229.0) == {*ids(0, 2)}


def test_what_is_given_out_is_not_what_is_kept() -> None:
    matching, given = MatchingIds(), {*ids(0, 3)}
    matching.note(b"a", given, 0.0, ITEMS)
    given.clear()
    found = matching.get(b"a", 0.0)
    assert found is not None
    found.clear()
    assert matching.get(b"a", 0.0) == {*ids(0, 3)}


@pytest.mark.parametrize("size", [LONGEST, LONGEST + 1])
def test_a_list_is_no_longer_than_a_share_of_the_items(size: int) -> None:
    matching = MatchingIds()
    matching.note(b"a", ids(0, size), 0.0, ITEMS)
    assert (matching.get(b"a", 0.0) is not None) is (size <= LONGEST)
    assert matching.size <= LONGEST * ID_BYTES


def test_a_list_that_grows_too_long_or_has_too_few_items_beside_it_goes() -> None:
    matching = MatchingIds()
    matching.note(b"a", ids(0, LONGEST - 1), 0.0, ITEMS)
    matching.add_changed(ids(0, LONGEST), ITEMS)
    assert matching.get(b"a", 0.0) is not None
    matching.add_changed(["new"], ITEMS)
    assert (matching.get(b"a", 0.0), matching.size) == (None, 0)
    matching.note(b"a", ids(0, 3), 0.0, ITEMS)
    matching.add_changed(["new"], 4 * LARGEST_SHARE)
    assert matching.get(b"a", 0.0) == {*ids(0, 3), "new"}
    matching.add_changed(["new"], 4 * LARGEST_SHARE - 1)
    assert matching.get(b"a", 0.0) is None


@pytest.mark.parametrize("seed", range(10))
def test_as_a_plain_computation_says(seed: int) -> None:
    """Whatever is noted, changed and asked for in whichever order: what is given out has all that
    was listed and all that changed since, and all lists together stay within their bound.
    """
    chance, matching, now = random.Random(seed), MatchingIds(), 0.0
    expected: dict[bytes, tuple[set[str], float]] = {}
    given_out = 0
    for _ in range(3000):
        now += chance.choice([0.0, 0.1, 1.0, 9.0])
        name = b"%d" % chance.randrange(MOST_FILTERS + 4)
        some = ids(chance.randrange(ITEMS), chance.choice([0, 1, 5, 60, LONGEST + 1]))
        match chance.choice(["note", "changed", "changed", "get", "get"]):
            case "note":
                matching.note(name, some, now, ITEMS)
                expected[name] = ({*some}, now + VALID_SECONDS)
            case "changed":
                few = some[:3]
                matching.add_changed(few, ITEMS)
                for listed, _ in expected.values():
                    listed.update(few)
            case _:
                found = matching.get(name, now)
                given_out += found is not None
                if found is not None:
                    assert found == expected[name][0]
                    assert now < expected[name][1]
        assert matching.size <= MOST_FILTERS * LONGEST * ID_BYTES
    assert given_out > 100


def test_a_kind_is_selective_where_its_last_filter_was() -> None:
    matching = MatchingIds()
    assert not matching.is_selective(b"a")
    matching.note_kind(b"a", LONGEST, ITEMS)
    assert matching.is_selective(b"a")
    assert not matching.is_selective(b"b")
    matching.note_kind(b"a", LONGEST + 1, ITEMS)
    assert not matching.is_selective(b"a")


def test_few_kinds_are_remembered_the_last_ones() -> None:
    matching = MatchingIds()
    for number in range(MOST_FILTERS):
        matching.note_kind(b"%d" % number, 1, ITEMS)
    matching.note_kind(b"0", 1, ITEMS)
    matching.note_kind(b"new", 1, ITEMS)
    assert [matching.is_selective(kind) for kind in (b"0", b"1", b"2", b"new")] == [
        True,
        False,
        True,
        True,
    ]
