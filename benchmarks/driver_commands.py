"""What the driver and the server take for the commands that a put and pending writes may be: the
figures of docs/decisions/update-command.md.

    python benchmarks/driver_commands.py
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from pymongo import InsertOne, MongoClient, ReplaceOne, UpdateOne, WriteConcern

from mongomem import MongoSaver
from mongomem.checkpoint.documents.collections import Collections
from servers import mongodb

ROUNDS, REPEATS = 8, 60

CONTENT = os.urandom(1500)

NAMES = Collections("mongomem_")

Document = dict[str, Any]


def thread_statement() -> tuple[Document, Document]:
    """Return the filter and the update of a thread document."""
    return {"_id": b"t" * 12, "thread_id": "t", "generation": 7}, {
        "$set": {"updated_at": datetime.now(timezone.utc), "preview": "Hello"},
        "$setOnInsert": {"type": "thread", "epoch": 5},
    }


def checkpoint() -> Document:
    """Return a checkpoint document with 1,500 bytes of content."""
    return {
        "_id": b"t" * 12 + os.urandom(16),
        "type": "checkpoint",
        "thread_id": "t",
        "checkpoint_ns": "",
        "checkpoint_id": str(uuid4()),
        "metadata": {"source": "loop", "step": 1},
        "content": {"data": CONTENT, "digest": b"d" * 32},
    }


def writes() -> list[Document]:
    """Return the documents of two pending writes."""
    return [
        {
            "_id": b"t" * 12 + os.urandom(16),
            "thread_id": "t",
            "checkpoint_ns": "",
            "checkpoint_id": "c",
            "idx": idx,
            "channel": "messages",
            "data": CONTENT[:300],
        }
        for idx in range(2)
    ]


def place(document: Document) -> Document:
    return {field: document[field] for field in ("_id", "thread_id")}


def alternatives(database: Any) -> Mapping[str, Callable[[], Any]]:
    """Return the ways to store a put and pending writes, by name."""
    checkpoints, pending = database[NAMES.checkpoints], database[NAMES.writes]
    concern = {"writeConcern": {"w": "majority"}}

    def put_by_bulk_write() -> None:
        (query, change), document = thread_statement(), checkpoint()
        replacement = ReplaceOne(place(document), document, upsert=True)
        checkpoints.bulk_write([UpdateOne(query, change, upsert=True), replacement])

    def put_by_update() -> None:
        (query, change), document = thread_statement(), checkpoint()
        statements = [(query, change), (place(document), document)]
        updates = [{"q": query, "u": change, "upsert": True} for query, change in statements]
        database.command({"update": NAMES.checkpoints, "updates": updates, **concern})

    def writes_by_bulk_write() -> None:
        upserts = [
            UpdateOne(place(one), {"$setOnInsert": {"data": one["data"]}}, upsert=True)
            for one in writes()
        ]
        pending.bulk_write(upserts, ordered=False)

    def writes_by_bulk_insert() -> None:
        pending.bulk_write([InsertOne(one) for one in writes()], ordered=False)

    def writes_by_insert() -> None:
        command = {"insert": NAMES.writes, "ordered": False, "documents": writes()}
        database.command({**command, **concern})

    return {
        "a put, bulk write": put_by_bulk_write,
        "a put, update": put_by_update,
        "writes, bulk write of upserts": writes_by_bulk_write,
        "writes, bulk write of inserts": writes_by_bulk_insert,
        "writes, insert": writes_by_insert,
    }


def main() -> None:
    """Measure the alternatives in turn and print their medians."""
    client: MongoClient[Any]
    with mongodb() as uri, MongoClient(uri) as client:
        name = f"bench_{uuid4().hex}"
        MongoSaver(client, name).setup()
        found = alternatives(client.get_database(name, write_concern=WriteConcern("majority")))
        walls: dict[str, list[float]] = {label: [] for label in found}
        cpus: dict[str, list[float]] = {label: [] for label in found}
        for number in range(ROUNDS + 1):
            for label, store in found.items():
                cpu = time.process_time()
                for _ in range(REPEATS):
                    begin = time.perf_counter()
                    store()
                    walls[label].append(time.perf_counter() - begin)
                cpus[label].append((time.process_time() - cpu) / REPEATS)
                if number == 0:  # connections, plans and caches
                    walls[label].clear()
                    cpus[label].clear()
        client.drop_database(name)
    print(f"{'ms':30}{'time':>8}{'CPU':>8}")
    for label in found:
        wall, cpu = statistics.median(walls[label]), statistics.median(cpus[label])
        print(f"{label:30}{1e3 * wall:8.2f}{1e3 * cpu:8.2f}")


if __name__ == "__main__":
    main()
