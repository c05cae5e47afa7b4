"""Waits for what must happen. None measures: each ends a test that would wait for ever, on a
machine however slow.
"""

from __future__ import annotations

import time
from collections.abc import Callable

HANG_SECONDS = 600
"""After so long a wait counts as one without end: hundreds of times what it takes."""

LOOKS = 60_000


def await_that(holds: Callable[[], bool]) -> None:
    """Look again and again, so many times at most, until something holds."""
    for _ in range(LOOKS):
        if holds():
            return
        time.sleep(0.01)
    raise TimeoutError(f"it does not hold after {LOOKS} looks")
