"""Cutting values: whatever is cut joins again, and what did not change is not stored again."""

from __future__ import annotations

import random
from hashlib import blake2b
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mongomem.checkpoint.serde.chunks import (
    HEAD_BYTES,
    LARGE,
    NO_PARENT_CHUNKS,
    ChunkedValue,
    ParentChunks,
    chunk_value,
    fits,
    inline_value,
    split_hashes,
)

NOISE = random.Random(1)


def joined(stored: ChunkedValue, chunks: dict[bytes, bytes]) -> bytes:
    """Put a value together from its document and the chunks there are."""
    lowest, *rest = stored.stored.hash_levels or (b"",)
    for names in rest:
        lowest = b"".join([chunks[name] for name in split_hashes(lowest)]) + names
    return stored.stored.join([chunks[name] for name in split_hashes(lowest)])


def stored_one_after_the_other(values: list[bytes], key: bytes = b"") -> list[int]:
    """Cut each value on the one before, check that all of them join, and return the bytes each one
    added.
    """
    chunks: dict[bytes, bytes] = {}
    known, cuts, added = NO_PARENT_CHUNKS, [], []
    for value in values:
        made = chunk_value("t", value, key, known)
        assert made.chunks.keys() <= made.referenced.hashes | chunks.keys()
        added.append(sum(len(piece) for name, piece in made.chunks.items() if name not in chunks))
        chunks |= made.chunks
        known = made.referenced
        cuts.append(made)
    assert [joined(made, chunks) for made in cuts] == values
    return added


pieces = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda text, times: text * times, st.binary(min_size=1, max_size=8), st.integers(0, 9000)
    ),
    st.builds(
        lambda seed, size: random.Random(seed).randbytes(size),
        st.integers(0, 5),
        st.integers(0, 90_000),
    ),
)
bodies = st.lists(pieces, max_size=4).map(b"".join)


@settings(deadline=None, max_examples=150)
@given(st.lists(bodies, min_size=1, max_size=4), st.sampled_from([b"", b"secret" * 5]))
def test_whatever_is_cut_joins_again(values: list[bytes], key: bytes) -> None:
    stored_one_after_the_other(values, key)


@settings(deadline=None, max_examples=60)
@given(bodies, st.integers(0, 200_000), st.integers(0, 5000), pieces)
def test_whatever_is_edited_joins_again(value: bytes, at: int, length: int, put: bytes) -> None:
    edited = value[:at] + put + value[at + length :]
    stored_one_after_the_other([value, edited, value, edited + put])


@pytest.mark.parametrize(
    "size", [*range(HEAD_BYTES + 3), 255, 256, 257, 1024, 4096, 4097, LARGE, LARGE * 4, 300_000]
)
def test_every_size_joins_again(size: int) -> None:
    stored_one_after_the_other([NOISE.randbytes(size), NOISE.randbytes(size), b"\0" * size])


def messages(count: int) -> list[bytes]:
    return [NOISE.randbytes(1200) for _ in range(count)]


def listed(parts: list[bytes]) -> bytes:
    """Write a list as msgpack does: its length stands at the front."""
    return b"\xdc" + len(parts).to_bytes(2, "big") + b"".join(parts)


def test_appending_costs_what_is_appended() -> None:
    parts = messages(400)
    added = stored_one_after_the_other([listed(parts[:count]) for count in range(300, 401)])
    # Each message is stored once small and once more when its region has come to rest; names come
    # on top.
    assert sum(added[1:]) < 3 * 100 * 1200


def test_trimming_the_head_costs_about_what_is_trimmed() -> None:
    parts = messages(400)
    added = stored_one_after_the_other([listed(parts[count : 200 + count]) for count in range(100)])
    # Appended small, at rest large, and small again when it reaches the head: about four times,
    # with names.
    assert sum(added[1:]) < 6 * 100 * 1200


def test_editing_the_middle_costs_a_region_at_most() -> None:
    parts = messages(300)
    edited = [*parts[:150], b"changed" + parts[150][7:], *parts[151:]]
    first, second, third = stored_one_after_the_other(
        [listed(parts), listed(parts), listed(edited)]
    )
    assert second < first / 10
    assert third < 2 * 4 * LARGE


def test_a_long_value_that_shares_nothing_is_few_chunks() -> None:
    made = chunk_value("t", NOISE.randbytes(2_000_000), b"")
    assert len(made.chunks) < 2_000_000 / LARGE * 1.2
    assert len(made.stored.hash_levels[0]) <= 512


def test_names_under_another_key_are_others() -> None:
    data = NOISE.randbytes(50_000)
    assert (
        not chunk_value("t", data, b"a").referenced.hashes
        & chunk_value("t", data, b"b").referenced.hashes
    )
    assert chunk_value("t", data, b"a") == chunk_value("t", data, b"a")


def test_known_regions_are_found_without_their_content() -> None:
    data = NOISE.randbytes(200_000)
    first = chunk_value("t", data, b"")
    again = chunk_value("t", data + b"more", b"", ParentChunks(first.referenced.hashes))
    assert all(name not in first.referenced.hashes for name in again.chunks)
    assert sum(map(len, again.chunks.values())) < 4096


def test_inline_is_the_value_itself() -> None:
    assert joined(inline_value("t", b"short"), {}) == b"short"
    assert inline_value("t", b"").stored.size == 0


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([], []),
        ([100, 200], [True, True]),
        ([3000, 100], [False, True]),
        ([2000, 2000, 100], [True, False, True]),
        ([2048, 2049], [True, False]),
    ],
)
def test_the_smallest_stay_inline(sizes: list[int], kept: list[bool]) -> None:
    assert fits(sizes, 2048, 4000) == kept


def test_growth_is_linear() -> None:
    parts = messages(200)
    added = stored_one_after_the_other([listed(parts[:count]) for count in range(1, 201)])
    halves = [sum(added[:100]), sum(added[100:])]
    assert max(later / earlier for earlier, later in pairwise(halves)) < 1.6


def chunk_digest(made: list[ChunkedValue]) -> tuple[int, str]:
    """Return how many chunks there are, and a digest of what is stored."""
    chunks = dict(sorted(chunk for one in made for chunk in one.chunks.items()))
    stored = [part for one in made for part in (one.stored.inline, *one.stored.hash_levels)]
    parts = [*chunks, *chunks.values(), *stored]
    joined = b"".join([len(part).to_bytes(4, "big") + part for part in parts])
    return len(chunks), blake2b(joined, digest_size=8).hexdigest()


GOLDEN = random.Random(7).randbytes(200_000)


def test_a_value_is_stored_as_it_was_by_every_version_before() -> None:
    """Other cuts would be read as well, and share nothing with what is stored."""
    whole = chunk_value("t", GOLDEN, b"")
    assert chunk_digest([whole]) == (13, "af7256694cb387fe")
    edited = GOLDEN[:100_000] + b"new" + GOLDEN[100_000:] + b"more" * 500
    assert chunk_digest([chunk_value("t", edited, b"", whole.referenced)]) == (
        12,
        "8575915af6e86bf0",
    )
    keyed = chunk_value("t", GOLDEN + b"more" * 500, b"k" * 32, keep_tail=False)
    assert chunk_digest([keyed]) == (14, "923aac33df747b23")
    grown = [chunk_value("t", GOLDEN[:50_000], b"")]
    for end in range(51_000, 90_000, 1_000):
        grown.append(chunk_value("t", GOLDEN[:end], b"", grown[-1].referenced))
    assert chunk_digest(grown) == (58, "b661fd5e3871c6b4")
    fine = ParentChunks(grown[-1].referenced.hashes)
    assert chunk_digest([chunk_value("t", GOLDEN[1_000:120_000], b"", fine)]) == (
        37,
        "8a51a47405b986e5",
    )
