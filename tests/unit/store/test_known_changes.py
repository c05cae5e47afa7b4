"""Which changes are known by their timestamps, and that no search misses one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import islice
from operator import itemgetter
from typing import Any

import bson
import numpy as np
import pytest
from bson.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from mongomem.engine.commands import AggregateRaw, Find, RunCommand
from mongomem.engine.effects import CacheUse, Compute, FindInParts
from mongomem.store.context import Context, context_for
from mongomem.store.plans.index_sync import IndexScope, synced_index
from mongomem.store.vectors.known_changes import (
    as_numbers,
    below,
    decode_numbers,
    first_unknown,
)
from mongomem.store.vectors.quantization import quantize
from mongomem.store.vectors.watermark import ALLOWED_LATENESS_SECONDS

DIMS = 4
FAR = Timestamp(2**32 - 100, 0)
"""From here on no server gave a timestamp."""

NUMBERS = st.integers(2**32, 2**64 - 1)


def timestamp(number: int) -> Timestamp:
    return Timestamp(number >> 32, number & 0xFFFFFFFF)


def group(values: Sequence[Any]) -> bytes:
    return bson.encode({"_id": None, "t": list(values)})


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 99, 100, 101, 999, 1_000, 1_001, 12_345])
def test_arrays_of_any_length_are_read(count: int) -> None:
    numbers = [(100 + n) << 32 | n for n in range(count)]
    assert decode_numbers(group(map(timestamp, numbers))).tolist() == numbers


@given(
    st.lists(
        st.one_of(NUMBERS.map(timestamp), st.integers(-9, 9), st.lists(NUMBERS.map(timestamp)))
    )
)
def test_what_is_no_timestamp_is_left_out(values: list[Any]) -> None:
    expected = as_numbers(value for value in values if isinstance(value, Timestamp))
    assert decode_numbers(group(values)).tolist() == expected.tolist()
    elsewhere = bson.encode({"t": values, "_id": None})
    assert decode_numbers(elsewhere).tolist() == expected.tolist()


@given(NUMBERS, NUMBERS)
def test_numbers_have_the_order_of_timestamps(one: int, other: int) -> None:
    assert as_numbers([timestamp(one)]).tolist() == [one]
    assert (one < other) is (timestamp(one) < timestamp(other))
    assert below(one) < timestamp(one)
    assert as_numbers([below(one)])[0] == one - 1


@given(st.lists(st.integers(1, 9)), st.lists(st.integers(1, 9)))
def test_a_timestamp_that_more_items_have_is_unknown(met: list[int], known: list[int]) -> None:
    arrays = (np.array(numbers, np.uint64) for numbers in (met, known))
    surplus = Counter(met) - Counter(known)
    assert first_unknown(*arrays) == min(surplus, default=None)


# --- searches of one index, stepped by hand beside a server that is played
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Write:
    """A write that becomes visible at a moment; without a timestamp it deletes the item."""

    shown_at: float
    item: str
    changed_at: Timestamp | None


@dataclass
class PlayedServer:
    """Answers the commands of `synced_index` out of writes. Each command takes 10 ms."""

    writes: list[Write]
    fingerprint: str
    now: float = 0.0
    commands: list[Any] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    """By its item the place of the write whose codes were sent last."""

    def visible(self) -> dict[str, int]:
        """Return by its item the place of the write that is visible now.

        The server orders the writes of one item: a later one has the higher timestamp, except
        behind one that no server gave.
        """
        found: dict[str, int] = {}
        for place, write in enumerate(self.writes):
            if write.shown_at > self.now:
                break
            before = self.changed_at(found[write.item]) if write.item in found else FAR
            if write.changed_at is None:
                found.pop(write.item, None)
            elif before >= FAR or write.changed_at > before:
                found[write.item] = place
        return found

    def changed_at(self, place: int) -> Timestamp:
        changed_at = self.writes[place].changed_at
        assert changed_at
        return changed_at

    def answer(self, command: Any) -> Any:
        if isinstance(command, CacheUse):
            return None
        self.now += 0.01
        self.commands.append(command)
        if isinstance(command, Compute):
            return command.perform(None)
        if isinstance(command, RunCommand):
            began = datetime.fromtimestamp(100, timezone.utc)
            return {"localTime": began + timedelta(seconds=self.now)}
        if isinstance(command, AggregateRaw):
            return list(map(bson.encode, self.aggregated(*command.pipeline)))
        if isinstance(command, FindInParts):
            return self.hand_on(command)
        return list(self.found(command))

    def hand_on(self, command: FindInParts) -> None:
        """Answer a read in parts: each has what is visible when it is read."""
        behind = ""
        while True:
            found = sorted(self.found(command), key=itemgetter("_id"))
            part = [one for one in found if one["_id"] > behind][:2]
            if not (part and command.take(part)):
                return
            behind = part[-1]["_id"]
            self.now += 0.01

    def aggregated(self, match: Any, _group: Any, union: Any) -> Iterator[dict[str, Any]]:
        """Answer a read of timestamps up to one, and of the changes behind it."""
        bounds = match["$match"]["changed_at"]
        met = sorted(
            one
            for one in map(self.changed_at, self.visible().values())
            if bounds["$gt"] < one <= bounds["$lte"]
        )
        if met:
            yield {"_id": None, "t": met}
        later, *_, limit, project = union["$unionWith"]["pipeline"]
        find = Find("", later["$match"], project["$project"])
        yield from islice(self.found(find), limit["$limit"])

    def found(self, command: Find | FindInParts) -> Iterator[dict[str, Any]]:
        """Answer a read by ids, of changes, or of a page."""
        above = command.filter.get("changed_at", {}).get("$gt", Timestamp(0, 0))
        ids = command.filter.get("_id")
        named = ids.get("$in") if isinstance(ids, dict) else [ids]
        codes = quantize(np.ones((1, DIMS), np.float32), "cosine")
        for item, place in self.visible().items():
            changed_at = self.changed_at(place)
            if changed_at > above and (ids is None or named is None or item in named):
                if "codes" in (command.projection or {}):
                    self.sent[item] = place
                known = {"_id": item, "changed_at": changed_at}
                yield {**known, "codes": codes, "index": self.fingerprint}


def context_of(server: PlayedServer) -> Context:
    index: Any = {"embed": lambda texts: [], "model": "none", "dims": DIMS}
    made = context_for(
        "played_",
        index,
        None,
        backend="exact",
        index_cache_bytes=10**9,
        auto_setup=True,
        clock=lambda: datetime.now(timezone.utc),
    )
    return replace(made, monotonic=lambda: server.now, unix_time=lambda: 100 + server.now)


def searched(context: Context, server: PlayedServer, path: str = "u") -> Any:
    assert context.indexing
    server.fingerprint = context.indexing.fingerprint
    plan, reply = synced_index(IndexScope(context, context.indexing, path)), None
    while True:
        try:
            reply = server.answer(plan.send(reply))
        except StopIteration as finished:
            return finished.value


def item_id(n: int) -> str:
    return f"u\x00\x00k{n}"


@st.composite
def histories(draw: st.DrawFn) -> list[Write]:
    """Writes of a few items: timestamps in order, visible up to five seconds later in any order;
    deletions, and timestamps that no server gave.
    """
    writes, moment = [], 0.0
    for n in range(draw(st.integers(1, 40))):
        moment += draw(st.sampled_from([0.0, 0.01, 0.3, 1.0, 2.5, 6.0]))
        item = item_id(draw(st.integers(0, 12)))
        late = draw(st.sampled_from([0.0, 0.0, 0.02, 0.5, 3.0, ALLOWED_LATENESS_SECONDS - 0.1]))
        kind = draw(st.sampled_from(["put"] * 8 + ["delete", "far"]))
        given_at = {"put": int(100 + moment), "far": FAR.time, "delete": 0}[kind]
        changed_at = Timestamp(given_at, n + 1) if given_at else None
        writes.append(Write(moment + (late if kind == "put" else 0.0), item, changed_at))
    return sorted(writes, key=lambda write: write.shown_at)


@settings(max_examples=400, deadline=None)
@given(histories(), st.lists(st.sampled_from([0.0, 0.05, 0.7, 2.0, 5.5]), min_size=2, max_size=30))
def test_no_search_misses_what_was_visible_when_it_began(
    writes: list[Write], pauses: list[float]
) -> None:
    """Whether timestamps alone are read first or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mongomem.store.vectors.index_cache.MANY_KNOWN", range(2, 100))
        patch.setattr("mongomem.store.vectors.index_cache.MAX_DEFERRED", 1)
        server = PlayedServer(writes, "")
        context = context_of(server)
        for pause in pauses:
            server.now += pause
            before = server.visible()
            synced = searched(context, server)
            held = synced.cached.timestamps().keys()
            after = server.visible()
            for item, place in before.items():
                is_as_of_then = item in held and server.sent[item] >= place
                assert is_as_of_then or item in synced.unindexed or item not in after


def stream(count: int, seconds: float) -> list[Write]:
    return [
        Write(n * seconds / count, item_id(n), Timestamp(int(100 + n * seconds / count), n + 1))
        for n in range(count)
    ]


def test_known_changes_are_not_read_again() -> None:
    server = PlayedServer(stream(2_000, 4.0), "")
    context = context_of(server)
    server.now = 4.0
    for _ in range(2):  # a load, and what changed right before it
        searched(context, server)
    server.commands.clear()
    searched(context, server)
    assert [type(command) for command in server.commands] == [AggregateRaw]
    new = [Write(server.now, item_id(3_000 + n), Timestamp(104, 9_000 + n)) for n in range(20)]
    server.writes.extend(new)
    server.commands.clear()
    synced = searched(context, server)
    assert [type(command) for command in server.commands] == [AggregateRaw, Compute]
    assert {write.item for write in new} <= synced.cached.timestamps().keys()
    late = Write(server.now, item_id(5_000), Timestamp(101, 9_000))
    server.writes.append(late)
    server.commands.clear()
    assert searched(context, server).unindexed == [late.item]
    assert [type(command) for command in server.commands] == [AggregateRaw, Find]


def test_after_a_load_one_window_of_changes_is_read() -> None:
    server = PlayedServer(stream(2_000, 4.0), "")
    context = context_of(server)
    server.now = 4.0
    floors = []
    for _ in range(8):
        server.now += 1.0
        floors.append(searched(context, server).cached.watermark.floor)
    newest = server.writes[-1].changed_at
    assert floors[1] < newest
    assert floors[ALLOWED_LATENESS_SECONDS + 1] == newest


def test_the_time_of_day_counts_for_some_seconds() -> None:
    server = PlayedServer([], "")
    context = context_of(server)
    for path, pause, is_asked in (("u", 0.0, True), ("v", 9.0, False), ("w", 1.1, True)):
        server.now += pause
        server.commands.clear()
        searched(context, server, path)
        assert any(isinstance(command, RunCommand) for command in server.commands) is is_asked
