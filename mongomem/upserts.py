"""The plan that writes documents which others may be making at the same moment."""

from __future__ import annotations

from collections.abc import Sequence

from pymongo.errors import BulkWriteError

from mongomem.commands import BulkWrite, Write
from mongomem.effects import Sleep

DUPLICATE_KEY = 11000
"""Server error code: an upsert met a document with its `_id` that its filter did not match."""

ATTEMPTS = 8
FIRST_PAUSE_SECONDS = 0.005


async def write_all(collection: str, writes: Sequence[Write]) -> None:
    """Perform writes in any order, and those again that met the upsert of another writer.

    Two upserts of one new document may both find nothing and both insert; the server tries again by itself only where a
    filter has no more fields than the unique index, and these carry the shard key too. What has been done is not
    repeated: others may have changed it since.
    """
    for attempt in range(ATTEMPTS):
        try:
            await BulkWrite(collection, writes, ordered=False)
        except BulkWriteError as error:
            if attempt == ATTEMPTS - 1 or not only_duplicates(error):
                raise
            writes = [writes[failure["index"]] for failure in error.details["writeErrors"]]
            await Sleep(FIRST_PAUSE_SECONDS * attempt)
        else:
            return


def only_duplicates(error: BulkWriteError) -> bool:
    """Say whether a bulk write failed by nothing but upserts that met another document."""
    failures = error.details.get("writeErrors") or []
    return bool(failures) and all(failure.get("code") == DUPLICATE_KEY for failure in failures)
