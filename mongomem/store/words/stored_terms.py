"""The terms of an item as they are stored: one string of bytes beside its codes.

    2 bytes     the mark of the analyser that found them
    2 bytes     the mark of the codes that were stored with them
    4 bytes     for each term: its CRC-32
    1 byte      for each term: how often the item has it, 255 at most

About five bytes a distinct word that is no stop word. Two terms with one CRC-32 are one: among
10,000 terms one query in 400,000 meets such a pair. The mark of the codes tells terms of another
text: a mongomem that knows no terms replaces a text and its codes, and leaves the terms.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from mongomem.store.words.bm25 import Hashes, Places

HEADER_BYTES, HASH_BYTES, TERM_BYTES = 4, 4, 5
HASH, COUNT = 1, 2
"""What a byte behind the header is a part of."""

MOST_COUNTED = 255
NO_CODES = bytes(2)

MARKED_BYTES = 256
"""Bytes of the codes that their mark is made from."""


@dataclass(frozen=True, slots=True, eq=False)
class DecodedTerms:
    """The terms of several items, one after the other.

    Attributes:
        places: Which of the items that were given these are.
        hashes: The terms.
        counts: How often an item has each.
        sizes: How many terms each item has.
    """

    places: Places
    hashes: Hashes
    counts: npt.NDArray[np.uint8]
    sizes: npt.NDArray[np.int64]

    def lengths(self) -> npt.NDArray[np.float64]:
        """Return how many words each item has."""
        ends = np.cumsum(self.sizes)
        sums = np.concatenate([[0.0], np.cumsum(self.counts, dtype=np.float64)])
        lengths: npt.NDArray[np.float64] = sums[ends] - sums[ends - self.sizes]
        return lengths


def mark_of(analyser: str) -> bytes:
    """Return two bytes that tell an analyser by its name."""
    return hashlib.blake2b(analyser.encode(), digest_size=2).digest()


def hash_of(term: str) -> int:
    """Return the number that a term is stored and compared as."""
    return crc32(term.encode(errors="surrogatepass"))


def encode_terms(terms: Iterable[str], mark: bytes, codes: bytes) -> bytes:
    """Encode the terms of an item, each as often as the item has it.

    Args:
        terms: In any order.
        mark: See `mark_of`.
        codes: What is stored as `codes` of the same item.
    """
    counted: Counter[int] = Counter()
    for term, count in Counter(terms).items():
        counted[hash_of(term)] += count
    hashes = np.fromiter(counted.keys(), dtype="<u4", count=len(counted))
    counts = bytes(min(count, MOST_COUNTED) for count in counted.values())
    return mark + _mark_of_codes(codes) + hashes.tobytes() + counts


def are_damaged(value: object) -> bool:
    """Say whether this can be the terms of no text."""
    return value is not None and not _are_whole(value)


def are_terms(value: object, mark: bytes, codes: object) -> bool:
    """Say whether these are terms that an analyser found in the text whose codes are stored."""
    return (
        isinstance(value, bytes)
        and value[:2] == mark
        and value[2:HEADER_BYTES] == _mark_of_codes(codes)
        and not are_damaged(value)
    )


def decode_terms(terms: Sequence[Any], codes: Sequence[Any], mark: bytes) -> DecodedTerms:
    """Decode the terms of items, of those whose terms are as `are_terms` accepts them.

    A first load decodes thousands of items. So all of them are checked and decoded together, by a
    few calls of numpy.

    Args:
        terms: What is stored as `terms` of each item.
        codes: What is stored as `codes` of each.
        mark: See `mark_of`.
    """
    whole = [place for place, value in enumerate(terms) if _are_whole(value)]
    values, codes = [terms[place] for place in whole], [codes[place] for place in whole]
    joined = np.frombuffer(b"".join(values), dtype=np.uint8)
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    is_ours = _are_ours(joined, np.cumsum(lengths) - lengths, codes, mark)
    sizes = (lengths - HEADER_BYTES) // TERM_BYTES
    kinds = _kinds_of_bytes(sizes, is_ours)
    return DecodedTerms(
        np.array(whole, dtype=np.intp)[is_ours],
        joined[kinds == HASH].view("<u4").astype(np.uint32, copy=False),
        joined[kinds == COUNT],
        sizes[is_ours],
    )


def _are_ours(
    joined: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], codes: Sequence[Any], mark: bytes
) -> npt.NDArray[np.bool_]:
    """Say of each string of terms whether its header has the mark of an analyser and of codes."""
    marked = [code[:MARKED_BYTES] if type(code) is bytes else b"" for code in codes]
    wanted = np.empty((len(codes), 2), dtype="<u2")
    wanted[:, 0] = int.from_bytes(mark, "little")
    wanted[:, 1] = np.fromiter(map(crc32, marked), np.uint32, len(marked)) & 0xFFFF
    headers = joined[starts[:, None] + np.arange(HEADER_BYTES)]
    ours: npt.NDArray[np.bool_] = (headers == wanted.view(np.uint8)).all(axis=1)
    return ours


def _kinds_of_bytes(
    sizes: npt.NDArray[np.int64], is_ours: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint8]:
    """Say of each byte of some strings what it is a part of; nothing where they are not ours."""
    kinds = np.where(is_ours[:, None], (0, HASH, COUNT), 0).astype(np.uint8)
    lengths = np.column_stack([np.full_like(sizes, HEADER_BYTES), HASH_BYTES * sizes, sizes])
    return np.repeat(kinds.ravel(), lengths.ravel())


def _are_whole(value: object) -> bool:
    return type(value) is bytes and len(value) % TERM_BYTES == HEADER_BYTES


def _mark_of_codes(codes: Any) -> bytes:
    """Return two bytes that differ from text to text, but for one in 65,536."""
    if type(codes) is not bytes:
        return NO_CODES
    return (crc32(codes[:MARKED_BYTES]) & 0xFFFF).to_bytes(2, "little")
