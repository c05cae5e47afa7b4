"""The list of threads: what the sidebar of a chat application shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import THREAD, check_version, utc
from mongomem.checkpoint.metadata import checked_filter, contains, equalities
from mongomem.checkpoint.setup import ensure_ours
from mongomem.commands import Document, Find
from mongomem.errors import ConfigurationError, CorruptDataError, InvalidInputError

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
    context: Context, filter: object, limit: object, before: object, *, ended: bool = False
) -> list[Thread]:
    """Return threads, the one updated last first; `before` continues behind a thread or starts at a time.

    With `ended` also those that expired, or that a deletion took from the list and has not finished with.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidInputError(f"limit must be a whole number from 0 on, not {limit!r:.80}")
    wanted = checked_filter(filter)
    _check_clear(context, wanted)
    query = {"type": THREAD, **_placed(context, wanted), **({} if ended else _living(context))}
    found: list[Thread] = []
    while len(found) < limit:
        size = limit - len(found) if not wanted else NUMBER_IN_A_PAGE
        documents = await Find(context.checkpoints, query | _behind(before), sort=ORDER, limit=size)
        threads = [_read(document) for document in documents]
        found += [thread for thread in threads if contains(thread.metadata, wanted)]
        if len(threads) < size:
            break
        before = threads[-1]
    if not found:
        await ensure_ours(context)
    return found[:limit]


def _check_clear(context: Context, wanted: Mapping[str, Any]) -> None:
    """Refuse to look for metadata that is nowhere readable."""
    clear = context.clear_metadata
    secret = [key for key in wanted if clear is not None and key not in clear]
    if secret:
        raise ConfigurationError(
            f"threads cannot be listed by {secret}, which does not stand readable: MongoSaver(clear_metadata=...) says "
            f'what does, and MongoMemory(saver_options={{"clear_metadata": ["source", "step", "run_id", ...]}})'
        )


def _living(context: Context) -> Document:
    """Return the condition for threads that were neither deleted nor unused for too long."""
    ttl = context.ttl
    return {"deleted_at": None, **({"touched_at": {"$gt": context.now() - ttl}} if ttl is not None else {})}


def _placed(context: Context, wanted: Mapping[str, Any]) -> Document:
    """Return the equalities of a filter, each where thread documents keep that key."""
    lasting = {key: value for key, value in wanted.items() if key in context.options.metadata_keys}
    others = {key: value for key, value in wanted.items() if key not in lasting}
    moved = {path.replace("metadata", "last_metadata", 1): value for path, value in equalities(others).items()}
    return equalities(lasting) | moved


def _behind(before: object) -> Document:
    """Return the condition for what comes behind a thread or before a time; a thread without checkpoints never does."""
    began = datetime(1970, 1, 1, tzinfo=timezone.utc)
    if before is None:
        return {"updated_at": {"$gt": began}}
    if isinstance(before, Thread):
        ties: list[Document] = [{"updated_at": {"$lt": before.updated_at}}, {"thread_id": {"$gt": before.thread_id}}]
        return {"updated_at": {"$gt": began, "$lte": before.updated_at}, "$or": ties}
    if isinstance(before, datetime):
        return {"updated_at": {"$gt": began, "$lt": before}}
    raise InvalidInputError(f"before must be a Thread or a datetime, not {type(before).__name__}")


def _read(document: Document) -> Thread:
    thread_id = document["thread_id"]
    check_version(document, f"thread {thread_id!r}")
    try:
        metadata = {**document.get("last_metadata", {}), **document.get("metadata", {})}
        return Thread(thread_id, utc(document["created_at"]), utc(document["updated_at"]), metadata)
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptDataError(f"thread {thread_id!r}: its document is not readable: {error!r}") from error
