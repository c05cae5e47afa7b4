"""Atlas Vector Search: what is sent, built as the public documentation says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mongomem.store.vectors.atlas import create_index, is_queryable, nearest, state_of_index
from mongomem.store.vectors.quantization import encode_vector

QUERY = np.array([1, 0], dtype=np.float32)


def test_the_index_is_defined_as_the_documentation_says() -> None:
    assert create_index("store_items", "0123456789abcdef", 1536, "dot") == {
        "createSearchIndexes": "store_items",
        "indexes": [
            {
                "name": "store_items_0123456789ab",
                "type": "vectorSearch",
                "definition": {
                    "fields": [
                        {
                            "type": "vector",
                            "path": "vectors.vector",
                            "numDimensions": 1536,
                            "similarity": "dotProduct",
                        },
                        {"type": "filter", "path": "prefixes"},
                        {"type": "filter", "path": "index"},
                        {"type": "filter", "path": "_id"},
                    ],
                    "nestedRoot": "vectors",
                },
            }
        ],
    }


@pytest.mark.parametrize(
    ("count", "exact", "restrict_to", "expected"),
    [
        (10, False, None, {"numCandidates": 200, "limit": 10}),
        (400, False, None, {"numCandidates": 8_000, "limit": 400}),
        (900, False, None, {"numCandidates": 10_000, "limit": 900}),
        (900, True, None, {"exact": True, "limit": 900}),
        (5, True, {"b", "a"}, {"exact": True, "limit": 5}),
    ],
)
def test_the_stage_is_built_as_the_documentation_says(
    count: int, exact: bool, restrict_to: Any, expected: dict[str, Any]
) -> None:
    conditions: list[Any] = [{"prefixes": {"$eq": "users"}}, {"index": {"$eq": "f"}}]
    if restrict_to:
        conditions.append({"_id": {"$in": ["a", "b"]}})
    pipeline = nearest(
        "name",
        QUERY,
        path="users",
        fingerprint="f",
        count=count,
        exact=exact,
        restrict_to=restrict_to,
    )
    assert pipeline == [
        {
            "$vectorSearch": {
                "index": "name",
                "path": "vectors.vector",
                "queryVector": encode_vector(QUERY),
                "parentFilter": {"$and": conditions},
                "nestedOptions": {"scoreMode": "max"},
                **expected,
            }
        },
        {"$project": {"score": {"$meta": "vectorSearchScore"}}},
    ]


def test_an_index_answers_when_it_says_so() -> None:
    assert state_of_index("name") == [{"$listSearchIndexes": {"name": "name"}}]
    assert [
        is_queryable(states) for states in ([], [{"queryable": False}], [{"queryable": True}])
    ] == [
        False,
        False,
        True,
    ]
