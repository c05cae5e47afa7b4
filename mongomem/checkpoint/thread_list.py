"""The list of threads: what the sidebar of a chat application shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mongomem.arguments import shown
from mongomem.checkpoint.binding import BEGAN
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import THREAD, check_key, check_version, read_field, read_time, thread_key
from mongomem.checkpoint.metadata import checked_filter, contains, equalities
from mongomem.checkpoint.positions import above
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


@dataclass(frozen=True, slots=True)
class Listing:
    """Threads, and the ids of those whose document is damaged or of a newer mongomem, as far as they have one."""

    threads: list[Thread]
    damaged: list[str]


async def list_threads(
    context: Context, filter: object, limit: object, before: object, *, ended: bool = False
) -> list[Thread]:
    """Return threads, the one updated last first; `before` continues behind a thread or starts at a time.

    With `ended` also those that expired, or that a deletion took from the list and has not finished with.
    """
    return (await listing(context, filter, limit, before, ended=ended)).threads


async def listing(context: Context, filter: object, limit: object, before: object, *, ended: bool = False) -> Listing:
    """Return what `list_threads` does, and what that leaves out."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidInputError(f"limit must be a whole number from 0 on, not {limit!r:.80}")
    wanted = checked_filter(filter)
    _check_clear(context, wanted)
    query = {"type": THREAD, **_placed(context, wanted), **({} if ended else _living(context))}
    behind = _behind(before)
    found, damaged = list[Thread](), list[str]()
    while len(found) < limit:
        size = limit - len(found) if not wanted else NUMBER_IN_A_PAGE
        documents = await Find(context.checkpoints, query | behind, sort=ORDER, limit=size)
        read = [_sound(context, document) for document in documents]
        found += [thread for thread in read if thread is not None and contains(thread.metadata, wanted)]
        damaged += [
            str(document.get("thread_id")) for document, thread in zip(documents, read, strict=True) if thread is None
        ]
        if len(documents) < size:
            break
        behind = _after(documents[-1].get("updated_at"), documents[-1].get("thread_id"))
    if not found and not damaged:
        await ensure_ours(context)
    return Listing(found[:limit], damaged)


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
    if before is None:
        return {"updated_at": {"$gt": BEGAN}}
    if isinstance(before, Thread):
        return _after(before.updated_at, before.thread_id)
    if isinstance(before, datetime):
        return {"updated_at": {"$gt": BEGAN, "$lt": before}}
    raise InvalidInputError(f"before must be a Thread or a datetime, not {type(before).__name__}")


def _after(updated_at: object, thread_id: object) -> Document:
    """Return the condition for what comes behind a document with these fields, damaged or not."""
    ties: list[Document] = [{"updated_at": {"$lt": updated_at}}, {"thread_id": above(thread_id)}]
    return {"updated_at": {"$gt": BEGAN, "$lte": updated_at}, "$or": ties}


def _sound(context: Context, document: Document) -> Thread | None:
    """Read the document of a thread, or leave it out where it is damaged."""
    with context.state.damage.left_out(document["_id"]):
        return _read(document)
    return None


def _read(document: Document) -> Thread:
    what = f"thread {shown(document.get('thread_id'))}"
    check_version(document, what)
    try:
        thread_id = read_field(document, "thread_id", str)
        check_key(document, thread_key(thread_id))
        created_at, updated_at = read_time(document, "created_at"), read_time(document, "updated_at")
        last, lasting = (
            read_field(document, field, dict) if field in document else {} for field in ("last_metadata", "metadata")
        )
        return Thread(thread_id, created_at, updated_at, {**last, **lasting})
    except (CorruptDataError, UnicodeError) as error:
        raise CorruptDataError(f"{what}: its document is not readable: {error}") from error
