"""Vectors as they are stored: exact ones, and compact codes to rank by.

A *vector* is a BSON binary vector of float32 (subtype 9), which the server, other drivers and Atlas
Vector Search understand. Beside all vectors of an item its document has one string of *codes*:
for each vector eight bits per dimension and three numbers, a quarter of the vector's size. Ranking
reads only codes; the best are then scored by their vectors. So codes decide what is read, never
what is answered.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from bson.binary import VECTOR_SUBTYPE, Binary

Codes = npt.NDArray[np.void]

VECTOR_HEADER = b"\x27\x00"
"""Element type float32 and no padding: the first two bytes of a BSON binary vector (BSON
specification, subtype 9)."""

LEVELS = 127

MAPPED_BYTES = 2**22
"""From so many bytes on numpy asks for huge pages, and the kernel may take milliseconds to make
room for one: loading 5,000 codes took 26 ms without them, and 25 to 42 ms with them (measured)."""

PRIVATE: dict[str, int] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if sys.platform != "win32" else {}
)
"""A forked child has memory of its own."""


def encode_vector(vector: Vector) -> Binary:
    """Encode one vector of shape (dims,)."""
    binary: Binary = Binary(VECTOR_HEADER + vector.astype("<f4").tobytes(), VECTOR_SUBTYPE)
    return binary


def decode_vectors(vectors: Sequence[bytes], dims: int | None = None) -> Vector:
    """Decode vectors of one size: float32 of shape (n, dims). None: their size tells the
    dimensions, of which there are some.
    """
    joined = np.frombuffer(
        b"".join(vector[len(VECTOR_HEADER) :] for vector in vectors), dtype="<f4"
    )
    shape = len(vectors), -1 if dims is None else dims
    return joined.reshape(shape).astype(np.float32, copy=False)


def is_vector(value: object, dims: int) -> bool:
    """Say whether this is a vector as `encode_vector` makes them, and `decode_vectors` can read it
    with others.
    """
    return (
        isinstance(value, bytes)
        and len(value) == len(VECTOR_HEADER) + 4 * dims
        and value.startswith(VECTOR_HEADER)
    )


def are_finite(vectors: Vector) -> npt.NDArray[np.bool_]:
    """Say of each vector whether all its numbers are finite; others cannot be compared."""
    finite: npt.NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(vectors), axis=1)
    return finite


def code_dtype(dims: int) -> np.dtype[np.void]:
    """Describe the code of one vector.

    A vector v is about ``scale * levels``; ``square`` is the squared length of v, and ``residual``
    the length of the quantization error.
    """
    return np.dtype(
        [("scale", "<f4"), ("residual", "<f4"), ("square", "<f4"), ("levels", "i1", (dims,))]
    )


def room_for_codes(rows: int, dims: int) -> Codes:
    """Make an array for codes, of undefined content. What is never written to takes no memory."""
    dtype = code_dtype(dims)
    size = rows * dtype.itemsize
    if size < MAPPED_BYTES:
        return np.empty(rows, dtype=dtype)
    return np.frombuffer(mmap.mmap(-1, size, **PRIVATE), dtype=dtype)


def quantize(vectors: Vector, metric: Metric) -> bytes:
    """Make the codes of vectors of shape (n, dims), n of them in a row. For cosine, of their
    directions.
    """
    coded = normalized(vectors) if metric == "cosine" else vectors
    codes = np.empty(len(vectors), dtype=code_dtype(vectors.shape[1]))
    scale = np.abs(coded).max(axis=1, initial=0)[:, None] / LEVELS
    steps = np.divide(coded, scale, out=np.zeros_like(coded), where=scale > 0)
    codes["levels"] = np.rint(steps)
    codes["scale"] = scale[:, 0]
    codes["square"] = np.einsum("ij,ij->i", coded, coded)
    codes["residual"] = np.linalg.norm(coded - scale * codes["levels"], axis=1)
    return codes.tobytes()


def are_codes(value: object, dims: int) -> bool:
    """Say whether these are codes as `quantize` makes them."""
    size = code_dtype(dims).itemsize
    if not isinstance(value, bytes) or not value or len(value) % size:
        return False
    return can_be_ranked(decode_codes([value], dims))


def can_be_ranked(codes: Codes) -> bool:
    """Say whether the numbers beside the levels are finite and not negative: another one would
    change the ranking of all items.
    """
    return all(
        bool((np.isfinite(codes[name]) & (codes[name] >= 0)).all())
        for name in ("scale", "residual", "square")
    )


def decode_codes(codes: Iterable[bytes], dims: int) -> Codes:
    """Decode the codes of several items into one array of `code_dtype`, which may be written to."""
    return np.frombuffer(bytearray().join(codes), dtype=code_dtype(dims))


Metric: TypeAlias = Literal["cosine", "dot", "euclidean"]
Vector: TypeAlias = npt.NDArray[np.float32]
Floats: TypeAlias = npt.NDArray[np.floating[Any]]

METRICS: tuple[Metric, ...] = get_args(Metric)


def normalized(vectors: Vector) -> Vector:
    """Scale vectors (the last axis) to length one; a zero vector stays zero. float32."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    scaled: Vector = np.divide(
        vectors, lengths, out=np.zeros(vectors.shape), where=lengths > 0
    ).astype(np.float32)
    return scaled


def similarities(vectors: Vector, query: Vector, metric: Metric) -> Floats:
    """Score vectors of shape (n, dims) against a query of shape (dims,): float64 of shape (n,)."""
    scores: Floats = _EXACT[metric](vectors.astype(np.float64), query.astype(np.float64))
    return scores


def _cosine(vectors: Floats, query: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    scores: Floats = np.divide(
        _dot(vectors, query), lengths, out=np.zeros(len(vectors)), where=lengths > 0
    )
    return scores


def _dot(vectors: Floats, query: Floats) -> Floats:
    """Multiply each row with a query in the same way wherever it stands, so that equal rows are
    equal. BLAS adds the numbers of the last rows of a matrix in another order.
    """
    products: Floats = np.einsum("ij,j->i", vectors, query)
    return products


def _euclidean(vectors: Floats, query: Floats) -> Floats:
    scores: Floats = 1.0 / (1.0 + np.linalg.norm(vectors - query, axis=1))
    return scores


_EXACT: dict[Metric, Callable[[Floats, Floats], Floats]] = {
    "cosine": _cosine,
    "dot": _dot,
    "euclidean": _euclidean,
}
