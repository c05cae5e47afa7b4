"""The matrices of a store: one for each namespace prefix that is searched, within a bound of memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from mongomem.search.matrix import Matrix
from mongomem.search.metrics import Metric
from mongomem.store.namespaces import SEPARATOR


@dataclass(slots=True)
class Matrices:
    """Matrices by the path of their prefix; those not used for longest go first.

    Attributes:
        limit: How many bytes they may hold together.
        too_large: Paths whose matrix alone would be over the limit.
    """

    limit: int
    too_large: set[str] = field(default_factory=set)
    _matrices: OrderedDict[str, Matrix] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def size(self) -> int:
        """Bytes held, about."""
        with self._lock:
            return sum(matrix.size for matrix in self._matrices.values())

    def get(self, path: str, dims: int, metric: Metric) -> Matrix:
        """Return the matrix of a prefix, an empty one where there is none, and count it as used."""
        with self._lock:
            matrix = self._matrices.setdefault(path, Matrix(dims, metric))
            self._matrices.move_to_end(path)
            return matrix

    def trim(self) -> None:
        """Let go of what is over the limit, the matrix used last included where it alone is."""
        with self._lock:
            sizes = {path: matrix.size for path, matrix in self._matrices.items()}
            excess = sum(sizes.values()) - self.limit
            for path, size in sizes.items():
                if excess <= 0:
                    break
                del self._matrices[path]
                excess -= size

    def forget(self, path: str) -> None:
        """Let go of every matrix that may hold something below `path`."""
        with self._lock:
            for known in [known for known in self._matrices if _meet(known, path)]:
                del self._matrices[known]
            self.too_large = {known for known in self.too_large if not _meet(known, path)}

    def give_up(self, path: str) -> None:
        """Let go of a matrix that is too large to be held."""
        with self._lock:
            self._matrices.pop(path, None)
            self.too_large.add(path)


def _meet(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return not shorter or longer == shorter or longer.startswith(shorter + SEPARATOR)
