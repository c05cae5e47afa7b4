"""Databases of the tests: a place for the server of the suite, and an end of each database."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.uri_parser import parse_uri

MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30
"""Two workers take about half of it at most; a machine that offers it has twice as much memory."""


@contextmanager
def made_in_memory() -> Iterator[None]:
    """Let temporary directories be made in memory, if there is room: a test with a new database
    waits above all for the files of its indexes, where they are on a disk.
    """
    with pytest.MonkeyPatch.context() as changed:
        if _has_room():
            changed.setattr(tempfile, "tempdir", str(MEMORY))
        yield


def _has_room() -> bool:
    try:
        return shutil.disk_usage(MEMORY).free >= ROOM
    except OSError:
        return False


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
