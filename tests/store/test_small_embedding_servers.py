"""A store over an embedding server that takes few texts in a request: no batch is too large for
it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.store.base import PutOp

from support.openai_server import OpenAIServer
from support.savers import KINDS
from support.stores import keys, store_of

DIMS = 32
MODEL = "text-embedding-3-small"
NS = ("users", "u1")
TEXTS = [f"word{n} of many" for n in range(25)]


@pytest.fixture(params=KINDS)
async def store(
    request: pytest.FixtureRequest, mongo_uri: str, database_name: str, openai_server: OpenAIServer
) -> AsyncIterator[Any]:
    openai_server.most_inputs = 10, "DashScope"
    index = {"embed": f"openai:{MODEL}", "dims": DIMS, "fields": ["parts[*]"]}
    async with store_of(request.param, mongo_uri, database_name, index=index) as calls:
        yield calls


async def test_batches_items_and_reindexes_go_through_a_small_server(
    store: Any, openai_server: OpenAIServer
) -> None:
    await store("batch", [PutOp(NS, f"k{n:02}", {"parts": [f"text {n}"]}) for n in range(30)])
    await store("put", NS, "many", {"parts": TEXTS})
    assert max(size for size in openai_server.sizes[2:]) <= 10
    assert len(openai_server.sizes) <= 3 + 30 // 5 + 25 // 5
    found = await store("search", NS, query="word7 of many", limit=50)
    assert keys(found)[0] == "many"
    assert all(item.score is not None for item in found)
    before = len(openai_server.sizes)
    assert await store("reindex", force=True) == 31
    assert len(openai_server.sizes) - before <= 55 // 5 + 2
