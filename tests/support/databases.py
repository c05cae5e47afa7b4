"""Databases of the tests: a place for the server of the suite, and an end of each database."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.uri_parser import parse_uri

MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30
"""Two workers take about half of it at most; a machine that offers it has twice as much memory."""


def fast_directory() -> Path | None:
    """Name a directory that is in memory, if there is one with room: a test with a new database
    waits above all for the files of its indexes, where they are on a disk.
    """
    try:
        return MEMORY if shutil.disk_usage(MEMORY).free >= ROOM else None
    except OSError:
        return None


def drop(client: MongoClient[Any], name: str) -> None:
    """Drop the collections of a database, and so the database. `dropDatabase` waits for the next
    turn of the journal, up to 100 ms (MongoDB 6.0).
    """
    for collection in client[name].list_collection_names():
        client[name].drop_collection(collection)


def with_database(uri: str, name: str) -> str:
    """Put the name of a database into a connection string; where its users are kept stays the
    same.
    """
    head, _, options = uri.partition("?")
    kept = parse_uri(uri)["options"].get("authSource", parse_uri(uri)["database"] or "admin")
    hosts = head.split("://", 1)[1].split("/", 1)[0]
    options = (
        options if "authSource" in options or "@" not in hosts else f"{options}&authSource={kept}"
    )
    return f"mongodb://{hosts}/{name}?{options}"
