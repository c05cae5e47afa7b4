"""What is exported in these tests."""

from __future__ import annotations

import pytest
from pymongo import MongoClient

from mongomem import MongoMemory
from support.backups import filled


@pytest.fixture
def source(mongo_client: MongoClient, database_name: str) -> MongoMemory:
    return filled(MongoMemory(mongo_client, database_name))
