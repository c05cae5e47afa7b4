"""The list of threads: what the sidebar of a chat application shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import THREAD, check_version, utc
from mongomem.checkpoint.metadata import checked_filter, contains, equalities
from mongomem.commands import Document, Find
from mongomem.errors import ConfigurationError, InvalidInputError

NUMBER_IN_A_PAGE = 256
"""How many thread documents are read at a time where a filter decides here which of them count."""

ORDER = (("updated_at", -1), ("thread_id", 1))


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread, as the list of threads shows it.

    Attributes:
        thread_id: Its id.
        created_at: When its first checkpoint was stored, in UTC.
        updated_at: When its newest checkpoint was stored, in UTC.
        metadata: The metadata of its runs that is not of a single step, e.g. ``user_id``: the readable copy.
    """

    thread_id: str
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any]


async def list_threads(
    context: Context, filter: Mapping[str, Any] | None, limit: object, before: object
) -> list[Thread]:
    """Return threads, the one updated last first; `before` continues behind a thread or starts at a time."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidInputError(f"limit must be a whole number from 0 on, not {limit!r:.80}")
    wanted = checked_filter(filter)
    _check_clear(context, wanted)
    found: list[Thread] = []
    while len(found) < limit:
        size = limit - len(found) if not wanted else NUMBER_IN_A_PAGE
        documents = await Find(context.checkpoints, _query(context, wanted, before), sort=ORDER, limit=size)
        threads = [_read(document) for document in documents]
        found += [thread for thread in threads if contains(thread.metadata, wanted)]
        if len(threads) < size:
            break
        before = threads[-1]
    return found[:limit]


def _check_clear(context: Context, wanted: Mapping[str, Any]) -> None:
    """Refuse to look for metadata that is nowhere readable."""
    clear = context.clear_metadata
    secret = [key for key in wanted if clear is not None and key not in clear]
    if secret:
        raise ConfigurationError(
            f"threads cannot be listed by {secret}: name it in clear_metadata, where it stands readable"
        )


def _query(context: Context, wanted: Mapping[str, Any], before: object) -> Document:
    """Return the query for threads with a checkpoint that still live."""
    query: Document = {"type": THREAD, "updated_at": {"$gt": datetime(1970, 1, 1, tzinfo=timezone.utc)}}
    query |= equalities(wanted)
    if context.options.ttl is not None:
        query["touched_at"] = {"$gt": context.now() - context.options.ttl}
    if isinstance(before, Thread):
        query["updated_at"]["$lte"] = before.updated_at
        query["$or"] = [{"updated_at": {"$lt": before.updated_at}}, {"thread_id": {"$gt": before.thread_id}}]
    elif isinstance(before, datetime):
        query["updated_at"]["$lt"] = before
    elif before is not None:
        raise InvalidInputError(f"before must be a Thread or a datetime, not {type(before).__name__}")
    return query


def _read(document: Document) -> Thread:
    thread_id = document["thread_id"]
    check_version(document, f"thread {thread_id!r}")
    return Thread(thread_id, utc(document["created_at"]), utc(document["updated_at"]), document.get("metadata", {}))
