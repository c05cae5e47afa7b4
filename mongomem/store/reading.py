"""Plans that read without embeddings: items by key, namespaces, and the refresh of what expires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from langgraph.store.base import GetOp, Item, ListNamespacesOp
from pymongo.errors import OperationFailure

from mongomem.commands import UNAUTHORIZED, Aggregate, BulkWrite, Document, Find, Update
from mongomem.store.context import Context
from mongomem.store.documents import BY_ID, SHOWN, as_utc, decode_item
from mongomem.store.expiry import expires_at
from mongomem.store.filters import matches
from mongomem.store.namespaces import (
    Namespace,
    item_id,
    literal_start,
    matches_conditions,
    namespace_of,
    path_of,
    path_of_item,
    path_range,
    slices,
)
from mongomem.store.values import decode_value

BAD_HINT = 2
"""Server error code BadValue: a hint names an index that does not exist (MongoDB 4.4 to 8.2)."""


async def get(context: Context, ops: Mapping[int, GetOp], now: datetime) -> dict[int, Item | None]:
    """Read items by their keys: one command for all of them. Refreshes those that expire."""
    ids = {place: item_id(op.namespace, op.key) for place, op in ops.items()}
    found = await find_by_id(context, ids.values(), SHOWN)
    there = {document["_id"]: document for document in found if is_there(context, document, now)}
    kept = {ids[place] for place, op in ops.items() if op.refresh_ttl}
    await refresh(context, [document for item, document in there.items() if item in kept], now)
    return {place: decode_item(there[item]) if item in there else None for place, item in ids.items()}


async def find_by_id(
    context: Context, ids: Iterable[str], shown: Document, narrowed: Document | None = None
) -> list[Document]:
    """Read the documents with these ids that meet a condition: one command, or several where the ids are very long."""
    found: list[Document] = []
    for part in slices(sorted(set(ids))):
        condition = {"_id": one_of(part), "path": one_of(map(path_of_item, part)), **(narrowed or {})}
        found += await Find(context.items, condition, shown, hint=BY_ID)
    return found


def one_of(values: Iterable[Any]) -> Any:
    """Build the condition to be one of some values."""
    distinct = sorted(set(values))
    return distinct[0] if len(distinct) == 1 else {"$in": distinct}


def is_there(context: Context, document: Document, now: datetime) -> bool:
    """Say whether a document has not expired."""
    moment = document.get("expires_at")
    return not context.expiry.is_over(None if moment is None else as_utc(moment), now)


@dataclass(frozen=True, slots=True)
class Placed:
    """An item by its id; None where it has expired."""

    id: str
    item: Item | None


async def refresh(context: Context, documents: Sequence[Document], now: datetime) -> None:
    """Let items that were read live on from now. Does nothing for those that do not expire.

    An item that expired or was removed in between stays away, and none lives shorter than it would have. A user who may
    only read reads on.
    """
    living = {"expires_at": {"$gt": context.now()}} if context.expiry.omit_expired else {}
    updates = [
        Update(
            {
                "_id": document["_id"],
                "path": path_of(document["namespace"]),
                "ttl_minutes": document["ttl_minutes"],
                **living,
            },
            {"$max": {"expires_at": expires_at(document["ttl_minutes"], now)}},
        )
        for document in documents
        if "ttl_minutes" in document
    ]
    if not updates:
        return
    try:
        await BulkWrite(context.items, updates, ordered=False)
    except OperationFailure as error:
        if error.code != UNAUTHORIZED:
            raise


async def find_by(context: Context, index: str, find: Find) -> list[Document]:
    """Read by the index that was made for it: left to itself, the server's planner may prefer to sort.

    Where there are no indexes, since the user may not create any or somebody dropped them, reads by whatever there is.
    """
    if context.readiness.has_indexes():
        try:
            return await replace(find, hint=index)
        except OperationFailure as error:
            if error.code != BAD_HINT:
                raise
            context.readiness.miss_index()
    return await find


def passes(filter: Mapping[str, Any] | None, document: Document) -> bool:
    """Say whether the value of a document matches a filter, by what it truly is."""
    return not filter or matches(filter, decode_value(document["value"], document.get("exact")))


async def list_namespaces(context: Context, op: ListNamespacesOp, now: datetime) -> list[Namespace]:
    """List namespaces in their order: matched, cut to `max_depth`, each once, then `offset` and `limit`."""
    conditions = op.match_conditions or ()
    found = await Aggregate(
        context.items,
        [
            {"$match": {"path": path_range(literal_start(conditions)), **context.expiry.condition(now)}},
            {"$sort": {"path": 1}},  # with this order the server jumps from path to path (DISTINCT_SCAN)
            {"$group": {"_id": "$path"}},
        ],
    )
    namespaces = (namespace_of(document["_id"]) for document in found)
    distinct = {namespace[: op.max_depth] for namespace in namespaces if matches_conditions(namespace, conditions)}
    return sorted(distinct)[op.offset : op.offset + op.limit]


async def items_behind(context: Context, namespace: Namespace, after: str | None, limit: int) -> list[Placed]:
    """Read the next items below a namespace in the order of their ids, which never change: none that is there
    throughout is missed or repeated, whatever is written meanwhile.
    """
    bound = {} if after is None else {"_id": {"$gt": after}}
    condition = {"path": path_range(namespace), **bound}
    now = context.now()
    found = await Find(context.items, condition, sort=[("_id", 1)], limit=limit, hint=BY_ID)
    return [
        Placed(document["_id"], decode_item(document) if is_there(context, document, now) else None)
        for document in found
    ]
