"""The matrices of a store: one for each namespace prefix that is searched, within a bound of
memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from mongomem.engine.locks import Guarded
from mongomem.store.vectors.memory_index import MemoryIndex
from mongomem.store.vectors.quantization import Metric


@dataclass(slots=True)
class IndexCache(Guarded):
    """Matrices by the path of their prefix; those not used for longest go first.

    Attributes:
        limit: How many bytes they may hold together.
        too_large: Paths whose matrix alone would be over the limit.
    """

    limit: int
    too_large: set[str] = field(default_factory=set)
    _matrices: OrderedDict[str, MemoryIndex] = field(default_factory=OrderedDict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _total: int = 0

    def __post_init__(self) -> None:
        self._guard()

    @property
    def size(self) -> int:
        """Bytes held, about, as of when each matrix was used last."""
        return self._total

    def get(self, path: str, dims: int, metric: Metric) -> MemoryIndex:
        """Return the matrix of a prefix, an empty one where there is none, and count it as used."""
        with self._lock:
            matrix = self._matrices.setdefault(path, MemoryIndex(dims, metric))
            self._matrices.move_to_end(path)
            self._weigh(path, matrix.size)
            return matrix

    def trim(self, path: str) -> None:
        """Take in how large the matrix of a prefix has become, and let go of what is over the
        limit.

        The matrix used last is let go too where it alone is over it.
        """
        with self._lock:
            if path in self._matrices:
                self._weigh(path, self._matrices[path].size)
            while self._total > self.limit:
                self._drop(next(iter(self._matrices)))

    def forget(self, meets: Callable[[str], bool]) -> None:
        """Let go of every matrix whose path `meets` what is to be forgotten."""
        with self._lock:
            for known in [known for known in self._matrices if meets(known)]:
                self._drop(known)
            self.too_large = {known for known in self.too_large if not meets(known)}

    def give_up(self, path: str) -> None:
        """Let go of a matrix that is too large to be held."""
        with self._lock:
            if path in self._matrices:
                self._drop(path)
            self.too_large.add(path)

    def readmit(self, path: str) -> None:
        """Hold the matrix of a prefix again, which is no longer too large."""
        with self._lock:
            self.too_large.discard(path)

    def _reset(self) -> None:
        self._matrices, self._sizes, self._total = OrderedDict(), {}, 0

    def _weigh(self, path: str, size: int) -> None:
        self._total += size - self._sizes.get(path, 0)
        self._sizes[path] = size

    def _drop(self, path: str) -> None:
        del self._matrices[path]
        self._total -= self._sizes.pop(path)
