"""What the tests of the local server do with its data, by the connection string that it gives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from pymongo import MongoClient


@contextlib.contextmanager
def connected(uri: str, **options: Any) -> Iterator[MongoClient[dict[str, Any]]]:
    client: MongoClient[dict[str, Any]] = MongoClient(
        uri, serverSelectionTimeoutMS=60_000, **options
    )
    with client:
        yield client


def write(uri: str, key: str) -> None:
    with connected(uri) as client:
        client.t.t.insert_one({"_id": key})


def keys(uri: str) -> list[str]:
    with connected(uri) as client:
        return [document["_id"] for document in client.t.t.find(sort=[("_id", 1)])]
