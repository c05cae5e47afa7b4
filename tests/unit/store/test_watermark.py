"""The watermark: no write is missed, and a namespace at rest is not read again."""

from __future__ import annotations

import numpy as np
from bson.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from mongomem.store.vectors.watermark import ALLOWED_LATENESS_SECONDS, ChangeRead, Watermark


@given(st.data())
def test_no_write_is_missed_that_was_visible_when_a_read_began(data: st.DataObject) -> None:
    """Writes get their timestamps in order, but become visible up to five seconds later, in any
    order.
    """
    gaps = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=25))
    delays = data.draw(
        st.lists(st.integers(0, ALLOWED_LATENESS_SECONDS), min_size=len(gaps), max_size=len(gaps))
    )
    seconds = np.cumsum(gaps).tolist()
    writes = [
        (Timestamp(100 + second, n + 1), second + delay)
        for n, (second, delay) in enumerate(zip(seconds, delays, strict=True))
    ]
    watermark = Watermark()
    seen: set[Timestamp] = set()
    for now in sorted(data.draw(st.lists(st.integers(0, 100), min_size=1, max_size=30))):
        visible = [written for written, shown_at in writes if shown_at <= now]
        met = [written for written in visible if written > watermark.floor]
        seen.update(met)
        server_time = data.draw(st.sampled_from([0, 100 + now]))
        watermark.advance(ChangeRead(met, float(now), float(now), server_time))
        assert seen >= set(visible)


def test_a_namespace_at_rest_is_not_read_again() -> None:
    watermark = Watermark()
    written = [Timestamp(1000, n + 1) for n in range(10)]
    watermark.advance(ChangeRead(written, 0.0, 0.0))
    assert watermark.floor < written[0]
    later = ALLOWED_LATENESS_SECONDS + 1.0
    watermark.advance(ChangeRead(written, later, later))
    assert watermark.floor == written[-1]


def test_the_floor_follows_a_stream_as_searches_saw_it() -> None:
    """Behind by the allowed lateness, whatever the timestamps say: a logical clock may stand for
    seconds, as where a server's clock was set back.
    """
    watermark = Watermark()
    for tenth in range(200):
        now = tenth / 10
        watermark.advance(ChangeRead([Timestamp(1000, tenth + 1)], now, now))
        assert len(watermark.sightings) <= 10 * ALLOWED_LATENESS_SECONDS + 2
    behind = watermark.highest.inc - watermark.floor.inc
    assert 10 * ALLOWED_LATENESS_SECONDS <= behind <= 10 * ALLOWED_LATENESS_SECONDS + 3


def test_timestamps_that_an_earlier_read_found_need_no_mention() -> None:
    watermark = Watermark()
    watermark.advance(ChangeRead([Timestamp(1000, 7)], 0.0, 0.0))
    later = ALLOWED_LATENESS_SECONDS + 1.0
    watermark.advance(ChangeRead([], later, later))
    assert watermark.floor == Timestamp(1000, 7)


def test_a_timestamp_far_ahead_never_becomes_the_floor() -> None:
    watermark, latest = Watermark(), Timestamp(2000, 0)
    for second in range(20):
        met = [Timestamp(2**32 - 1, 1), Timestamp(1000 + second, 1)]
        watermark.advance(ChangeRead(met, float(second), float(second), latest=latest))
    assert watermark.floor < Timestamp(1020, 0)
