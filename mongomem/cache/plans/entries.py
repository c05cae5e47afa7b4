"""The plans of get, set and clear."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from pymongo.errors import BulkWriteError, ConnectionFailure, PyMongoError

from mongomem.cache.context import Context
from mongomem.cache.documents.arguments import (
    FullKey,
    Namespace,
    NewEntry,
    checked_keys,
    checked_namespaces,
    checked_pairs,
)
from mongomem.cache.documents.entry import (
    READ_FIELDS,
    all_entries,
    content_size,
    decode_entry,
    encode_entry,
    entries_in,
    entry_id,
    has_expired,
)
from mongomem.cache.plans.setup import ensure_ours, ensure_setup
from mongomem.checkpoint.serde.copies import detached
from mongomem.checkpoint.serde.size_estimate import estimate_size
from mongomem.damage import UNREADABLE
from mongomem.engine.commands import (
    IDS_PER_COMMAND,
    Delete,
    DeleteMany,
    Document,
    Find,
    Plan,
    Replace,
    Write,
    slices,
)
from mongomem.engine.effects import CacheUse, Compute
from mongomem.engine.writes import bulk_upsert

TOO_LARGE_FOR_SERVER = 388
"""Server error code: a write of many megabytes does not fit into the cache of a small server
(TransactionTooLargeForCache, MongoDB 6.0)."""

NAMESPACES_PER_COMMAND = 1_000
"""How many ranges one deletion names: far below what a query may have."""


async def get(context: Context, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
    """Return the values of the keys that have one, in the order of the keys.

    One round trip, or one for each `IDS_PER_COMMAND` keys. The clock is read behind it: what
    expires meanwhile is absent.
    """
    wanted = {entry_id(*full_key): full_key for full_key in checked_keys(keys)}
    if not wanted:
        return {}
    documents: dict[Any, Document] = {}
    if not await _reached(context, _read(context, [*wanted], documents)):
        return {}
    size = sum(map(content_size, documents.values()))
    work = partial(_values, context, wanted, documents, context.now())
    values: dict[FullKey, Any] = await Compute(work, size)
    await CacheUse(len(values), len(wanted) - len(values))
    return values


async def set_entries(context: Context, pairs: Mapping[FullKey, tuple[Any, float | None]]) -> None:
    """Store entries, in one bulk write.

    Each entry changes at once; a call that is cut short may have set some. An entry that is too
    large is not kept, and neither is the one before it, which would be an answer of the past. Times
    to live begin at the call.
    """
    entries = checked_pairs(pairs)
    if not entries:
        return
    now = context.now()
    writes: list[Write] = await Compute(
        partial(_writes, context, entries, now),
        lambda: estimate_size([entry.value for entry in entries]),
        lambda: partial(_writes, context, _detached(entries), now),
    )
    await _reached(context, _store(context, writes))


async def clear(context: Context, namespaces: Sequence[Namespace] | None) -> None:
    """Delete the entries of namespaces, or all. Repeating it finishes what was cut short."""
    given = checked_namespaces(namespaces)
    if given == []:
        return
    await ensure_ours(context)
    if given is None:
        await DeleteMany(context.entries, all_entries())
        return
    for some in slices([entries_in(one) for one in given], NAMESPACES_PER_COMMAND):
        await DeleteMany(context.entries, {"$or": [*some]})


async def _reached(context: Context, plan: Plan[None]) -> bool:
    """Run a plan; say whether a server answered. A lost connection is noted, and not raised."""
    try:
        await plan
    except PyMongoError as error:
        if not isinstance(error, ConnectionFailure) and not error.timeout:
            raise
        context.options.losses.note_unreachable(error)
        return False
    context.options.losses.note_reached()
    return True


async def _read(context: Context, ids: Sequence[bytes], found: dict[Any, Document]) -> None:
    """Read documents into `found`, by their `_id`."""
    for some in slices(ids, IDS_PER_COMMAND):
        for document in await Find(context.entries, {"_id": {"$in": [*some]}}, READ_FIELDS):
            found[document["_id"]] = document


async def _store(context: Context, writes: Sequence[Write]) -> None:
    await ensure_setup(context)
    try:
        await bulk_upsert(context.entries, writes)
    except BulkWriteError as error:
        failures = error.details.get("writeErrors") or []
        if not failures or any(one.get("code") != TOO_LARGE_FOR_SERVER for one in failures):
            raise
        await _forget(context, [one["op"]["u"] for one in failures])


async def _forget(context: Context, refused: Sequence[Document]) -> None:
    """Delete the entries that a small server has no room to replace: they are of the past."""
    for document in refused:
        context.options.losses.note_refused(tuple(document["namespace"]), document["key"])
    ids = [document["_id"] for document in refused]
    await DeleteMany(context.entries, {"_id": {"$in": ids}})


def _values(
    context: Context,
    wanted: Mapping[bytes, FullKey],
    documents: Mapping[Any, Document],
    now: datetime,
) -> dict[FullKey, Any]:
    """Decode what was found and lives; note what cannot be decoded."""
    values: dict[FullKey, Any] = {}
    for key, full_key in wanted.items():
        document = documents.get(key)
        try:
            if document is not None and not has_expired(document, now):
                values[full_key] = decode_entry(document, full_key, context.serializer)
        except UNREADABLE as error:
            context.options.losses.note_unreadable(key, *full_key, error)
    return values


def _writes(context: Context, entries: Sequence[NewEntry], now: datetime) -> list[Write]:
    """Encode entries; of one that is too large, delete what stands in its place."""
    writes: list[Write] = []
    for entry in entries:
        place = {"_id": entry_id(entry.namespace, entry.key)}
        document = encode_entry(entry, context.serializer, now)
        if document is None:
            context.options.losses.note_too_large(entry.namespace, entry.key)
        writes.append(Delete(place) if document is None else Replace(place, document))
    return writes


def _detached(entries: Sequence[NewEntry]) -> list[NewEntry]:
    return [replace(entry, value=_detached_value(entry.value)) for entry in entries]


def _detached_value(value: Any) -> Any:
    """Copy a value; of the writes of a task, which LangGraph gives as a deque, also what they
    hold.
    """
    return deque(detached([*value])) if type(value) is deque else detached(value)
