"""Export and import of threads and items, compared through the public methods."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pymongo import MongoClient

from mongomem import MongoMemory
from mongomem.backup.exports import Export, Exported
from mongomem.backup.imports import Import, ImportReport
from mongomem.backup.selection import Selection
from support.databases import drop
from support.migrations import assert_same_threads, fill

ITEMS: Mapping[tuple[tuple[str, ...], str], dict[str, Any]] = {
    (("ada",), "name"): {"text": "Ada Lovelace"},
    (("ada", "memories"), "tuple"): {"pair": (1, 2), "big": 2**70},
    (("ben",), "κλειδί"): {"text": "\x00 ü", "list": [1.5, None, True]},
    (("docs", "a"), "k"): {"n": 1},
}


@pytest.fixture
def target(mongo_client: MongoClient, database_name: str) -> Iterator[str]:
    """A second database."""
    name = f"{database_name}_to"
    yield name
    drop(mongo_client, name)


@pytest.fixture
def source(mongo_client: MongoClient, database_name: str) -> MongoMemory:
    """A memory with threads of many kinds, and items."""
    memory = MongoMemory(mongo_client, database_name)
    fill(memory.saver)
    memory.saver.update_thread("chat", {"title": "Greetings", "pinned": True})
    for (namespace, key), value in ITEMS.items():
        memory.store.put(namespace, key, value, index=False, ttl=None)
    memory.store.put(("ben",), "short", {"n": 2}, ttl=600)
    return memory


def exported(memory: MongoMemory, selection: Selection | None = None) -> tuple[bytes, Exported]:
    file, report = io.BytesIO(), Exported()
    Export(memory, file, selection or Selection(), report).make()
    return file.getvalue(), report


def imported(memory: MongoMemory, data: bytes) -> ImportReport:
    report = ImportReport()
    Import(memory, io.BytesIO(data), report).make()
    return report


def items_of(memory: MongoMemory) -> dict[Any, Any]:
    """Return all items by their place."""
    found = memory.store.search((), limit=1000)
    return {
        (one.namespace, one.key): (one.value, one.created_at, one.updated_at) for one in found
    }


def listed(memory: MongoMemory) -> list[Any]:
    return memory.saver.list_threads(limit=100, count_checkpoints=True)


def lines_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def test_everything_comes_back(source: MongoMemory, mongo_client: MongoClient, target: str) -> None:
    data, told = exported(source)
    new = MongoMemory(mongo_client, target)
    report = imported(new, data)
    assert report.threads == told.threads == 8
    assert report.checkpoints.copied == told.checkpoints
    assert report.items.copied == told.items == 5
    assert report.left_out.count == told.left_out.count == 0
    assert items_of(new) == items_of(source)
    assert listed(new) == listed(source)
    assert_same_threads(source.saver, MongoMemory(mongo_client, target).saver)
    again, _ = exported(new)
    assert lines_of(again)[1:] == lines_of(data)[1:]
