"""What tests of the cache ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pymongo import MongoClient

from support.caches import World, world_of
from support.savers import KINDS


@pytest.fixture(params=KINDS)
async def world(
    request: pytest.FixtureRequest, mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> AsyncIterator[World]:
    async with world_of(request.param, mongo_uri, mongo_client, database_name) as made:
        yield made
