from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.spans import Spans, provided


@pytest.fixture
def spans() -> Iterator[Spans]:
    """Spans of this test."""
    with provided(Spans()) as found:
        yield found
