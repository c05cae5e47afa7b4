"""Products of the levels of codes with a query, by blocks; of very many levels in several threads.

Refused: converting all levels to float32 at once. That writes four times the bytes of the index to
memory and reads them again, where a block stays in the cache of a core.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import numpy.typing as npt

from mongomem.engine.workers import in_threads
from mongomem.store.vectors.quantization import Vector

Levels = npt.NDArray[np.int8]

BLOCK_NUMBERS = 2**18
"""Numbers converted to float32 at a time: 1 MB. From some 600,000 on OpenBLAS starts threads, which
costs more than it gains, and with half as many two threads wait for each other (measured)."""

NUMBERS_PER_THREAD = 2**23
"""So many levels, those of 5,461 vectors of 1,536 dimensions, are worth a thread."""

MOST_THREADS = 4
"""What bounds more of them is the memory that they read. Measured with two."""


def products(levels: Levels, query: Vector) -> Vector:
    """Multiply levels of shape (rows, dims) with a query: float32 of shape (rows,)."""
    found = np.empty(len(levels), dtype=np.float32)
    share = -(-len(levels) // _threads(levels.size)) or 1
    starts = range(0, len(levels) or 1, share)
    in_threads(
        [
            partial(_multiply, levels[start : start + share], query, found[start : start + share])
            for start in starts
        ]
    )
    return found


def _multiply(levels: Levels, query: Vector, found: Vector) -> None:
    """Multiply by blocks, into `found`."""
    rows = max(1, BLOCK_NUMBERS // max(1, len(query)))
    block = np.empty((min(rows, len(levels)), len(query)), dtype=np.float32)
    for start in range(0, len(levels), rows):
        some = levels[start : start + rows]
        part = block[: len(some)]
        np.copyto(part, some)
        np.dot(part, query, out=found[start : start + len(some)])


def _threads(numbers: int) -> int:
    """Choose in how many threads so many levels are multiplied."""
    return max(1, min(numbers // NUMBERS_PER_THREAD, _cores(), MOST_THREADS))


def _cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
