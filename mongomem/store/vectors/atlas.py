"""Atlas Vector Search, as pure builders: the definition of an index, and the stage that asks it.

Sources: MongoDB's "How to Index Fields for Vector Search" and "Run Vector Search Queries", and the
form that MongoDB's C# driver gives to searches in arrays of subdocuments (``nestedRoot``,
``parentFilter``, ``nestedOptions``: a public preview of Atlas in 2026). None of it was run on
Atlas: no server of this project's tests has search nodes.

What Atlas finds are candidates. They are read again and scored by their vectors like all others, so
scores are the same whatever the backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mongomem.store.vectors.quantization import Metric, Vector, encode_vector

Stage = dict[str, Any]

VECTORS = "vectors"
SIMILARITY: dict[Metric, str] = {"cosine": "cosine", "dot": "dotProduct", "euclidean": "euclidean"}
FILTERED_BY = ("prefixes", "index", "_id")

NEIGHBOURS = 20
"""How many neighbours an approximate search compares for each result, as MongoDB recommends."""

MOST_NEIGHBOURS = 10_000
"""Atlas refuses more ``numCandidates``."""


def index_name(collection: str, fingerprint: str) -> str:
    """Name the search index of a collection for one index configuration."""
    return f"{collection}_{fingerprint[:12]}"


def create_index(collection: str, fingerprint: str, dims: int, metric: Metric) -> dict[str, Any]:
    """Build the command that makes the search index."""
    vector = {
        "type": "vector",
        "path": f"{VECTORS}.vector",
        "numDimensions": dims,
        "similarity": SIMILARITY[metric],
    }
    definition = {
        "fields": [vector, *({"type": "filter", "path": path} for path in FILTERED_BY)],
        "nestedRoot": VECTORS,
    }
    index = {
        "name": index_name(collection, fingerprint),
        "type": "vectorSearch",
        "definition": definition,
    }
    return {"createSearchIndexes": collection, "indexes": [index]}


def state_of_index(name: str) -> list[Stage]:
    """Build the pipeline that reads the state of a search index; empty where none is."""
    return [{"$listSearchIndexes": {"name": name}}]


def is_queryable(states: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether an index answers queries, by what `state_of_index` found."""
    return any(state.get("queryable") is True for state in states)


def nearest(
    index: str,
    query: Vector,
    *,
    path: str,
    fingerprint: str,
    count: int,
    exact: bool,
    restrict_to: Iterable[str] | None,
) -> list[Stage]:
    """Build the pipeline that finds the `count` items below a path closest to a query, an item by
    its best vector.

    Args:
        index: The search index.
        query: float32 of shape (dims,).
        path: The path of the namespace prefix.
        fingerprint: Of the configuration that made the vectors.
        count: How many.
        exact: Compare with every vector (ENN), not approximately (ANN).
        restrict_to: Only items with these ids; None means all.
    """
    conditions: list[Stage] = [{"prefixes": {"$eq": path}}, {"index": {"$eq": fingerprint}}]
    if restrict_to is not None:
        conditions.append({"_id": {"$in": sorted(restrict_to)}})
    breadth = {"numCandidates": min(MOST_NEIGHBOURS, NEIGHBOURS * count)}
    search: Stage = {
        "index": index,
        "path": f"{VECTORS}.vector",
        "queryVector": encode_vector(query),
        "limit": count,
        "parentFilter": {"$and": conditions},
        "nestedOptions": {"scoreMode": "max"},
        **({"exact": True} if exact else breadth),
    }
    return [{"$vectorSearch": search}, {"$project": {"score": {"$meta": "vectorSearchScore"}}}]
