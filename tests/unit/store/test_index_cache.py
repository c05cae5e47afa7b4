"""The cache of indexes: its bound, and the state of their synchronization."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from bson.timestamp import Timestamp

from mongomem.store.documents.namespace import paths_meet
from mongomem.store.vectors.index_cache import (
    COMPACTED_ITEMS,
    LOAD_SECONDS,
    MANY_KNOWN,
    MAX_DEFERRALS,
    MAX_DEFERRED,
    CachedIndex,
    IndexCache,
)
from mongomem.store.vectors.known_changes import as_numbers
from mongomem.store.vectors.matching_ids import MOST_FILTERS
from mongomem.store.vectors.memory_index import Change, MemoryIndex
from mongomem.store.vectors.quantization import (
    Metric,
    quantize,
)
from mongomem.store.vectors.watermark import ChangeRead


def at(number: int) -> Timestamp:
    return Timestamp(number, 1)


def change(name: str, number: int, rows: Any, metric: Metric = "cosine") -> Change:
    return Change(name, at(number), None if rows is None else quantize(np.atleast_2d(rows), metric))


def test_the_indexes_stay_within_their_limit() -> None:
    cache = IndexCache(limit=60_000)
    for name in ("a", "b", "c", "d"):
        index = cache.get(name, lambda: MemoryIndex(16, "cosine"))
        index.upsert(change(f"{name}{n}", n + 1, np.ones(16, np.float32)) for n in range(40))
        cache.get("a", lambda: MemoryIndex(16, "cosine"))
        cache.evict(name)
        assert cache.size <= 60_000
    assert len(cache.get("a", lambda: MemoryIndex(16, "cosine")).index) == 40
    assert len(cache.get("b", lambda: MemoryIndex(16, "cosine")).index) == 0


def test_forgetting_a_namespace_forgets_what_is_above_and_below() -> None:
    cache = IndexCache(limit=10**9)
    for path in ("", "u1", "u1\x00a", "u1\x00a\x00b", "u10"):
        cache.get(path, lambda: MemoryIndex(2, "cosine")).upsert([change("x", 1, [1, 0])])
    cache.invalidate(partial(paths_meet, "u1\x00a"))
    assert [
        path
        for path in ("", "u1", "u1\x00a", "u1\x00a\x00b", "u10")
        if len(cache.get(path, lambda: MemoryIndex(2, "cosine")).index)
    ] == ["u10"]


def test_indexes_without_items_count_too() -> None:
    cache = IndexCache(limit=1_000_000)
    for number in range(3_000):
        cache.get(f"u{number}", lambda: MemoryIndex(1536, "cosine"))
        cache.evict(f"u{number}")
    assert 900_000 < cache.size <= 1_000_000
    assert len(cache._indexes) < 1_000


def test_an_eviction_measures_one_index_however_many_are_held() -> None:
    asked: list[str] = []

    class Counted(MemoryIndex):
        @property
        def size(self) -> int:
            asked.append("size")
            return 1

    cache = IndexCache(limit=10_000)
    for number in range(500):
        cache._indexes[f"u{number}"] = CachedIndex(Counted(2, "cosine"))
        cache.get(f"u{number}", lambda: MemoryIndex(2, "cosine"))
        cache.evict(f"u{number}")
    assert len(asked) <= 2 * 500
    assert cache.size == 500


def test_one_caller_at_a_time_loads_an_index() -> None:
    cached = IndexCache(limit=10**9).get("u1", lambda: MemoryIndex(2, "cosine"))
    assert cached.claim_load(100.0)
    assert not cached.claim_load(100.0 + LOAD_SECONDS / 2)
    assert cached.claim_load(100.0 + LOAD_SECONDS)
    cached.release_load()
    assert cached.claim_load(100.0 + LOAD_SECONDS)


def test_the_faster_of_two_loads_counts() -> None:
    cached = IndexCache(limit=10**9).get("u1", lambda: MemoryIndex(2, "cosine"))
    first, second = MemoryIndex(2, "cosine"), MemoryIndex(2, "cosine")
    read = ChangeRead([], 1.0, 2.0, 100)
    assert cached.take_loaded(first, read, has_unique_timestamps=True)
    assert not cached.take_loaded(second, read, has_unique_timestamps=False)
    assert (cached.index, cached.has_unique_timestamps) == (first, True)


def test_few_changes_are_deferred_a_few_times_in_a_row() -> None:
    cached = IndexCache(limit=10**9).get("u1", lambda: MemoryIndex(2, "cosine"))
    expected = [True] * MAX_DEFERRALS + [False]
    assert [cached.defers(MAX_DEFERRED) for _ in expected * 2] == expected * 2
    assert cached.defers(1)
    assert not cached.defers(MAX_DEFERRED + 1)
    assert [cached.defers(1) for _ in expected] == expected


def test_a_compaction_is_due_again_once_an_index_has_doubled() -> None:
    cached = IndexCache(limit=10**9).get("u1", lambda: MemoryIndex(2, "cosine"))
    for size, is_due in ((COMPACTED_ITEMS, False), (COMPACTED_ITEMS + 1, True)):
        cached.upsert(change(f"{n}", 1, None) for n in range(size))
        assert cached.needs_compaction is is_due
    cached.compact({f"{n}": at(1) for n in range(1, COMPACTED_ITEMS + 1)})
    assert not cached.needs_compaction
    assert not cached.has_grown
    assert set(cached.timestamps()) == {"0"}


def test_known_are_the_changes_that_the_index_holds() -> None:
    cached = IndexCache(limit=10**9).get("u1", lambda: MemoryIndex(2, "cosine"))
    cached.upsert(change(name, number, [1, 0]) for number, name in enumerate("abc", 1))
    read = [("a", at(1)), ("b", at(9)), ("d", at(4))]
    cached.note_known(as_numbers([at(3)]), read)
    assert cached.known.tolist() == as_numbers([at(3), at(1)]).tolist()


def test_of_an_item_that_is_removed_nothing_is_known() -> None:
    """A member of a replica set that is behind may not have it yet."""
    cached = IndexCache(limit=10**9).get("u1", lambda: MemoryIndex(2, "cosine"))
    cached.upsert([change("a", 1, [1, 0]), change("b", 2, [1, 0])])
    cached.note_known(as_numbers([]), [("a", at(1)), ("b", at(2))])
    cached.remove({"a": at(1)})
    assert cached.known.tolist() == as_numbers([at(2)]).tolist()
    cached.compact({"b": at(2)})
    assert cached.known.tolist() == []


def test_timestamps_alone_are_read_where_many_are_known_and_each_names_one_item() -> None:
    cached = IndexCache(limit=10**9).get("u1", lambda: MemoryIndex(2, "cosine"))
    for count, is_unique, expected in (
        (MANY_KNOWN.start - 1, True, False),
        (MANY_KNOWN.start, True, True),
        (MANY_KNOWN.start, False, False),
        (MANY_KNOWN.stop, True, False),
    ):
        cached.has_unique_timestamps = is_unique
        cached.note_known(as_numbers(map(at, range(count))), [])
        assert cached.knows_many is expected


FILTER = b"filter"


def cached_index(count: int) -> CachedIndex:
    cached = IndexCache(limit=10**9).get("u1", lambda: MemoryIndex(2, "cosine"))
    cached.upsert(change(f"k{n}", 1 + n, [1, 0]) for n in range(count))
    return cached


def test_what_matches_a_filter_is_known_for_a_minute_with_what_has_changed_since() -> None:
    cached = cached_index(40)
    cached.note_matching(FILTER, ["k1", "k2"], 100.0, cached.version)
    cached.upsert([change("k3", 50, [0, 1])])
    cached.upsert([])
    assert cached.matching(FILTER, 159.0) == {"k1", "k2", "k3"}
    assert cached.matching(b"other", 100.0) is None
    assert cached.matching(FILTER, 160.0) is None


def test_what_matches_a_filter_is_not_kept_past_a_change() -> None:
    cached = cached_index(40)
    version = cached.version
    cached.upsert([change("k3", 50, [0, 1])])
    cached.note_matching(FILTER, ["k1"], 100.0, version)
    assert cached.matching(FILTER, 100.0) is None


def test_a_list_of_many_of_the_items_is_dropped() -> None:
    cached = cached_index(40)
    cached.note_matching(FILTER, [f"k{n}" for n in range(11)], 100.0, cached.version)
    assert cached.matching(FILTER, 100.0) is None
    size = cached.size
    cached.note_matching(FILTER, [f"k{n}" for n in range(10)], 100.0, cached.version)
    assert cached.matching(FILTER, 100.0) is not None
    assert cached.size > size
    cached.upsert([change("k20", 50, [0, 1])])
    assert cached.matching(FILTER, 100.0) is None


def test_the_filter_that_was_not_searched_by_for_longest_is_forgotten_first() -> None:
    cached = cached_index(40)
    for n in range(MOST_FILTERS):
        cached.note_matching(b"%d" % n, ["k1"], 100.0, cached.version)
    assert cached.matching(b"0", 100.0) == {"k1"}
    cached.note_matching(FILTER, ["k2"], 100.0, cached.version)
    assert cached.matching(b"1", 100.0) is None
    assert cached.matching(b"0", 100.0) == {"k1"}
