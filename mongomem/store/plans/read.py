"""Plans that read without embeddings: items by key, namespaces, and the refresh of what expires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from bson.timestamp import Timestamp
from langgraph.store.base import GetOp, Item, ListNamespacesOp
from pymongo.errors import OperationFailure

from mongomem.arguments import shown
from mongomem.engine.commands import (
    BAD_HINT,
    UNAUTHORIZED,
    Aggregate,
    BulkWrite,
    Document,
    Find,
    Query,
    T,
    Update,
)
from mongomem.store.context import Context
from mongomem.store.documents.filter import matches
from mongomem.store.documents.item import BY_CHANGE, BY_ID, ITEM_FIELDS
from mongomem.store.documents.namespace import (
    Namespace,
    id_range,
    is_path,
    item_id,
    literal_prefix,
    matches_conditions,
    namespace_of,
    path_of,
    path_of_item,
    path_range,
    split_by_bytes,
)
from mongomem.store.documents.ops import Search
from mongomem.store.documents.stored_item import (
    StoredItem,
    ids_in,
    read_item,
    sound_items,
    timestamps_in,
)
from mongomem.store.documents.ttl import expires_at


async def get(context: Context, ops: Mapping[int, GetOp], now: datetime) -> dict[int, Item | None]:
    """Read items by their keys: one command for all of them. Refreshes those that expire.

    Raises:
        CorruptDataError: One of them is damaged, or stored under another name. Names it.
        SchemaVersionError: A newer mongomem wrote one of them.
    """
    ids = {place: item_id(op.namespace, op.key) for place, op in ops.items()}
    documents = await find_named(context, ids.values(), ITEM_FIELDS)
    items = _unexpired(context, map(read_item, documents.values()), now)
    refreshed = {ids[place] for place, op in ops.items() if op.refresh_ttl}
    await refresh(context, [stored for stored in items.values() if stored.id in refreshed], now)
    return {place: items[item].item() if item in items else None for place, item in ids.items()}


def _unexpired(
    context: Context, items: Iterable[StoredItem], now: datetime
) -> dict[str, StoredItem]:
    """Choose the items that have not expired, by their ids."""
    return {
        stored.id: stored
        for stored in items
        if not context.expiry.has_expired(stored.expires_at, now)
    }


async def find_named(context: Context, ids: Iterable[str], fields: Document) -> dict[str, Document]:
    """Read the documents with these ids, also those whose path somebody has changed.

    On a sharded cluster an ``_id`` is unique within a shard only. Of two documents with one id the
    one counts whose path belongs to the id.
    """
    found: dict[str, Document] = {}
    for part in split_by_bytes(sorted(set(ids))):
        for document in await Find(
            context.items, {"_id": equals_or_in(part)}, {**fields, "path": 1}, hint=BY_ID
        ):
            item = document["_id"]
            if item not in found or document.get("path") == path_of_item(item):
                found[item] = document
    return found


async def find_by_id(
    context: Context, ids: Iterable[str], fields: Document, narrowed: Document | None = None
) -> list[Document]:
    """Read the documents with these ids whose path belongs to the id, and that meet a condition.

    One command, or several where the ids are very long.
    """
    found: list[Document] = []
    for part in split_by_bytes(sorted(set(ids))):
        condition = {
            "_id": equals_or_in(part),
            "path": equals_or_in(map(path_of_item, part)),
            **(narrowed or {}),
        }
        found += await Find(context.items, condition, fields, hint=BY_ID)
    return found


def equals_or_in(values: Iterable[Any]) -> Any:
    """Build the condition to be one of some values."""
    distinct = sorted(set(values))
    return distinct[0] if len(distinct) == 1 else {"$in": distinct}


def matches_search(search: Search, stored: StoredItem) -> bool:
    """Say whether an item is below the prefix of a search and its value matches the filter."""
    return stored.namespace[: len(search.prefix)] == search.prefix and (
        search.filter is None or matches(search.filter, stored.value)
    )


@dataclass(frozen=True, slots=True)
class ListedItem:
    """An item by its id; None where it has expired or is damaged."""

    id: str
    item: Item | None


async def refresh(context: Context, items: Sequence[StoredItem], now: datetime) -> None:
    """Refresh the TTL of items that were read; does nothing for items that do not expire.

    An item that expired or was deleted meanwhile stays so, and no item expires earlier than it
    would have. For a user who may only read nothing is refreshed.
    """
    living = {"expires_at": {"$gt": context.now()}} if context.expiry.omit_expired else {}
    updates = [
        Update(
            {
                "_id": stored.id,
                "path": path_of(stored.namespace),
                "ttl_minutes": stored.ttl_minutes,
                **living,
            },
            {"$max": {"expires_at": expires_at(stored.ttl_minutes, now)}},
        )
        for stored in items
        if stored.ttl_minutes is not None
    ]
    if not updates:
        return
    try:
        await BulkWrite(context.items, updates, ordered=False)
    except OperationFailure as error:
        if error.code not in UNAUTHORIZED:
            raise


async def find_with_hint(context: Context, index: str, find: Find) -> list[Document]:
    """Find documents by a named index, see `read_with_hint`."""
    return await read_with_hint(context, index, find)


async def read_with_hint(context: Context, index: str, query: Query[T]) -> T:
    """Read by a named index, since the planner of MongoDB 6.0 may prefer another one and sort.

    Where the index does not exist, because the user may not create it or somebody dropped it, the
    server chooses.
    """
    if context.setup_state.may_name_indexes(context.monotonic()):
        try:
            return await replace(query, hint=index)
        except OperationFailure as error:
            if error.code != BAD_HINT:
                raise
            context.setup_state.note_missing_index(context.monotonic())
    return await query


async def newest_timestamp(context: Context, path: str) -> Timestamp | None:
    """Read the newest timestamp below a path, of those that a server may have given until now; None
    where there is none.
    """
    condition = {"prefixes": path, "changed_at": {"$lte": context.latest_timestamp()}}
    find = Find(context.items, condition, {"changed_at": 1}, sort=[("changed_at", -1)], limit=1)
    found = timestamps_in(await find_with_hint(context, BY_CHANGE, find))
    return found[0][1] if found else None


async def list_namespaces(context: Context, op: ListNamespacesOp, now: datetime) -> list[Namespace]:
    """List namespaces in order: matched, cut to `max_depth`, each once, then `offset` and `limit`.

    They are read from an index, and no item is. So a path that is no namespace's is left out, but
    a path that somebody has given to an item of another namespace is listed.
    """
    conditions = op.match_conditions or ()
    found = await Aggregate(
        context.items,
        [
            {
                "$match": {
                    "path": path_range(literal_prefix(conditions)),
                    **context.expiry.condition(now),
                }
            },
            # In this order the server jumps from path to path (DISTINCT_SCAN).
            {"$sort": {"path": 1}},
            {"$group": {"_id": "$path"}},
        ],
    )
    namespaces = [namespace_of(path) for path in _paths(context, found)]
    distinct = {
        namespace[: op.max_depth]
        for namespace in namespaces
        if matches_conditions(namespace, conditions)
    }
    return sorted(distinct)[op.offset : op.offset + op.limit]


def _paths(context: Context, found: Iterable[Document]) -> list[str]:
    paths = [document["_id"] for document in found]
    for path in paths:
        if not is_path(path):
            context.damage.note(
                f"path {path!r}", f"Items with a damaged path are left out: {shown(path)}"
            )
    return [path for path in paths if is_path(path)]


async def items_after(
    context: Context, namespace: Namespace, after: str | None, limit: int
) -> list[ListedItem]:
    """Read the next items below a namespace in the order of their ids.

    Ids never change, so no item that exists throughout is missed or repeated, whatever is written
    meanwhile. Damaged items come without their content.
    """
    now = context.now()
    documents = await Find(
        context.items,
        {"_id": id_range(namespace) | ({} if after is None else {"$gt": after})},
        ITEM_FIELDS,
        sort=[("_id", 1)],
        limit=limit,
        hint=BY_ID,
    )
    items = _unexpired(context, sound_items(documents, context.damage), now)
    return [
        ListedItem(item, items[item].item() if item in items else None)
        for item in ids_in(documents)
    ]
