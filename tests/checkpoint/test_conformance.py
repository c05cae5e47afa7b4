"""LangGraph's own conformance suite, over every runner."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from mongomem.checkpoint.saver import MongoSaver
from support.savers import KINDS, saver_of

CAPABILITIES = {
    "put",
    "put_writes",
    "get_tuple",
    "list",
    "delete_thread",
    "delete_for_runs",
    "copy_thread",
    "prune",
}


# The package calls async methods on this loop; the client of "bridging" belongs to another one.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bridging"])
async def test_conformance(kind: str, mongo_uri: str, database_name: str) -> None:
    @checkpointer_test(name=f"MongoSaver-{kind}")
    async def factory() -> AsyncIterator[MongoSaver]:
        async with saver_of(kind, mongo_uri, database_name) as saver:
            yield saver

    report = await validate(factory, capabilities=CAPABILITIES)
    for name in CAPABILITIES:
        result = report.results[name]
        assert result.detected, f"{name} is not implemented"
        assert result.passed, result.failures
