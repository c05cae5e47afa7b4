"""The plan that merges changes into one item, so that concurrent writers lose nothing.

The item is read, the changes are merged here, and one conditional write replaces the value that was
read: its filter holds the stamp (``changed_at``) that was read with it, which the server gives to
one write only. Where another write came first, the filter matches nothing, and the merge begins
anew with what is there now. A merge that is cut short has changed nothing, or everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langgraph.store.base import PutOp
from pymongo.errors import BulkWriteError

from mongomem.arguments import checked_mapping
from mongomem.engine.commands import BulkWrite, Document, Update
from mongomem.engine.effects import Sleep
from mongomem.engine.writes import is_duplicate_key_only
from mongomem.errors import ContentionError
from mongomem.store.context import Context
from mongomem.store.documents.item import ITEM_FIELDS
from mongomem.store.documents.namespace import Namespace, item_id, name_of_item
from mongomem.store.documents.ops import group_ops
from mongomem.store.documents.stored_item import read_item
from mongomem.store.documents.value import encode_value
from mongomem.store.plans.put import updates_of
from mongomem.store.plans.read import find_named
from mongomem.store.plans.setup import ensure_setup

MAX_ATTEMPTS = 32

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.005, 0.64

STAMP = "changed_at"


def merge_patch(target: object, patch: object) -> Any:
    """Return a value with a JSON Merge Patch applied (RFC 7386, section 2). Changes neither.

    Objects are merged key by key, None removes a key, and anything else replaces what was there:
    lists too, as a whole.
    """
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), change)
    return merged


async def merge_item(
    context: Context,
    namespace: Namespace,
    key: str,
    changes: Mapping[str, Any],
    ttl: float | None = None,
) -> dict[str, Any]:
    """Merge changes into the value of an item by `merge_patch`; return the value that was stored.

    An item that is not there, or has expired, begins as an empty value. The item is not embedded.
    Two round trips, and two more each time that another write came first.

    Raises:
        UnstorableValueError: A change cannot be stored, or the item becomes too large. Nothing was
            written.
        ContentionError: Others changed the item at the same time, `MAX_ATTEMPTS` times.
    """
    patch = encode_value(checked_mapping("changes", changes), "changes").value
    item = PutOp(namespace, key, {}, False, ttl)
    group_ops([item], None)  # refused before anything is read
    await ensure_setup(context)
    for attempt in range(MAX_ATTEMPTS):
        merged = await _merged(context, item, patch)
        if merged is not None:
            return merged
        await Sleep(_pause(context, attempt))
    raise ContentionError(
        f"{name_of_item(namespace, key)} was changed by others {MAX_ATTEMPTS} times meanwhile: try "
        "again"
    )


async def _merged(context: Context, item: PutOp, patch: Mapping[str, Any]) -> dict[str, Any] | None:
    """Merge a patch into an item as it is now; return the value that was stored, None where another
    write came first.
    """
    name = item_id(item.namespace, item.key)
    existing = await find_named(context, [name], {**ITEM_FIELDS, STAMP: 1})
    merged: dict[str, Any] = merge_patch(_value(context, existing.get(name)), patch)
    puts = group_ops([item._replace(value=merged)], context.indexing).puts
    updates = await updates_of(context, puts, existing)
    return merged if await _swap(context, updates[name], existing.get(name)) else None


def _value(context: Context, there: Document | None) -> dict[str, Any]:
    """Return the value that a merge begins with.

    Raises:
        CorruptDataError: The item is damaged.
        SchemaVersionError: A newer mongomem wrote it.
    """
    if there is None:
        return {}
    stored = read_item(there)
    is_over = context.expiry.has_expired(stored.expires_at, context.now())
    return {} if is_over else stored.value


async def _swap(context: Context, update: Update, there: Document | None) -> bool:
    """Write an item if it is as it was read; say whether it was."""
    stamp = {"$eq": there[STAMP]} if there is not None and STAMP in there else {"$exists": False}
    guarded = replace(update, filter={**update.filter, STAMP: stamp}, upsert=there is None)
    try:
        reply = await BulkWrite(context.items, [guarded])
    except BulkWriteError as error:
        if is_duplicate_key_only(error):  # another writer made the item
            return False
        raise
    return bool(reply.matched_count or reply.upserted_ids)


def _pause(context: Context, attempt: int) -> float:
    """Return how long to wait before the next attempt, in seconds: a share of a span that doubles.

    The share is the place of the monotonic clock within its millisecond, so that writers that met
    do not meet again.
    """
    span = min(FIRST_PAUSE_SECONDS * 2.0**attempt, LONGEST_PAUSE_SECONDS)
    return span * (context.monotonic() * 1000 % 1)
