"""Exports and imports for the tests, and what is compared of two memories."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from mongomem import MongoMemory
from mongomem.backup.exports import Export, Exported
from mongomem.backup.imports import Import, ImportReport
from mongomem.backup.selection import Selection
from support.migrations import fill

ITEMS: Mapping[tuple[tuple[str, ...], str], dict[str, Any]] = {
    (("ada",), "name"): {"text": "Ada Lovelace"},
    (("ada", "memories"), "exact"): {"pair": (1, 2), "big": 2**70},
    (("ben",), "κλειδί"): {"text": "\x00 ü\u2028", "list": [1.5, None, True]},
    (("docs", "a"), "k"): {"n": 1},
}


def filled(memory: MongoMemory) -> MongoMemory:
    """Fill a memory with threads of many kinds, and items."""
    fill(memory.saver)
    memory.saver.update_thread("chat", {"title": "Greetings", "pinned": True})
    for (namespace, key), value in ITEMS.items():
        memory.store.put(namespace, key, value, index=False, ttl=None)
    memory.store.put(("ben",), "short", {"n": 2}, ttl=600)
    return memory


def exported(memory: MongoMemory, selection: Selection | None = None) -> tuple[bytes, Exported]:
    """Return an export, and what is told of it."""
    file, report = io.BytesIO(), Exported()
    Export(memory, file, selection or Selection(), report).make()
    return file.getvalue(), report


def imported(memory: MongoMemory, data: bytes) -> ImportReport:
    """Import an export; return what is told of it."""
    report = ImportReport()
    Import(memory, io.BytesIO(data), report).make()
    return report


def items_of(memory: MongoMemory) -> dict[Any, Any]:
    """Return all items with their times, by their places."""
    return {
        (one.namespace, one.key): (one.value, one.created_at, one.updated_at)
        for one in memory.store.search((), limit=1000)
    }


def threads_of(memory: MongoMemory) -> list[Any]:
    """Return the list of threads as an application shows it."""
    return memory.saver.list_threads(limit=100, count_checkpoints=True)


def lines_in(data: bytes) -> list[dict[str, Any]]:
    """Return the lines of an export but the first, which has a time."""
    return [json.loads(line) for line in data.splitlines()[1:]]
