"""The plan that writes documents which others may be making at the same moment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pymongo.errors import BulkWriteError

from mongomem.arguments import shown
from mongomem.engine.commands import BulkWrite, Write
from mongomem.engine.effects import Sleep
from mongomem.errors import ConfigurationError

DUPLICATE_KEY = 11000
"""Server error code: an upsert met a document with its `_id` that its filter did not match."""

BY_ID = "_id_"
"""The name of the index that every collection has."""

_INDEX = re.compile(r"collection: (?P<collection>\S+) index: (?P<index>\S+) dup key")
"""How a server's message names the index (MongoDB 4.4 to 8.2)."""

MAX_ATTEMPTS = 8
FIRST_PAUSE_SECONDS = 0.005


async def bulk_upsert(collection: str, writes: Sequence[Write]) -> None:
    """Perform writes in any order, and those again that met the upsert of another writer.

    Two upserts of one new document may both find nothing and both insert; the server tries again by
    itself only where a filter has no more fields than the unique index, and these carry the shard
    key too. What has been done is not repeated: others may have changed it since.

    Raises:
        ConfigurationError: A unique index that is not mongomem's refused a write.
    """
    for attempt in range(MAX_ATTEMPTS):
        try:
            await BulkWrite(collection, writes, ordered=False)
        except BulkWriteError as error:
            if attempt == MAX_ATTEMPTS - 1 or not is_duplicate_key_only(error):
                raise
            writes = [writes[failure["index"]] for failure in error.details["writeErrors"]]
            await Sleep(FIRST_PAUSE_SECONDS * attempt)
        else:
            return


def is_duplicate_key_only(error: BulkWriteError) -> bool:
    """Say whether a bulk write failed only by upserts that met another document with their `_id`.

    Raises:
        ConfigurationError: A unique index that is not mongomem's refused a write. Repeating would
            not help.
    """
    failures = error.details.get("writeErrors") or []
    duplicates = [failure for failure in failures if failure.get("code") == DUPLICATE_KEY]
    for failure in duplicates:
        _check_index(failure)
    return bool(failures) and len(duplicates) == len(failures)


def _check_index(failure: Mapping[str, Any]) -> None:
    """Refuse a duplicate of any other index than that of `_id`, which one that tells of none is of:
    mongomock's.
    """
    keys, named = failure.get("keyPattern"), _INDEX.search(str(failure.get("errmsg")))
    if [*keys] == ["_id"] if keys else named is None or named["index"] == BY_ID:
        return
    collection, index = named.groups() if named else ("a collection", ", ".join(keys or ()))
    raise ConfigurationError(
        f"{collection} has a unique index {shown(index)} that is not mongomem's, and it refused a "
        "document. Drop it, or choose another collection_prefix."
    ) from None
