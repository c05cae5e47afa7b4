"""Plans that read without embeddings: items by key, plain search, namespaces, and the refresh of what expires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from langgraph.store.base import GetOp, Item, ListNamespacesOp, SearchOp
from pymongo.errors import OperationFailure

from mongomem.commands import Aggregate, BulkWrite, Document, Find, Update
from mongomem.store.context import Context
from mongomem.store.documents import BY_ID, BY_UPDATE, SHOWN, as_utc, decode_item
from mongomem.store.expiry import expires_at
from mongomem.store.filters import matches, to_query
from mongomem.store.namespaces import (
    Namespace,
    item_id,
    literal_start,
    matches_conditions,
    namespace_of,
    path_of,
    path_range,
)
from mongomem.store.values import decode_value

NEWEST_FIRST = (("updated_at", -1), ("_id", 1))
PAGE = 500
BAD_HINT = 2
"""Server error code BadValue: a hint names an index that does not exist (MongoDB 4.4 to 8.2)."""

UNAUTHORIZED = 13
"""Server error code: the user may not do that (MongoDB 4.4 to 8.2)."""


async def get(context: Context, ops: Mapping[int, GetOp], now: datetime) -> dict[int, Item | None]:
    """Read items by their keys: one command for all of them. Refreshes those that expire."""
    ids = {place: item_id(op.namespace, op.key) for place, op in ops.items()}
    paths = {path_of(op.namespace) for op in ops.values()}
    found = await Find(context.items, {"_id": one_of(ids.values()), "path": one_of(paths)}, SHOWN, hint=BY_ID)
    there = {document["_id"]: document for document in found if is_there(context, document, now)}
    kept = {ids[place] for place, op in ops.items() if op.refresh_ttl}
    await refresh(context, [document for item, document in there.items() if item in kept], now)
    return {place: decode_item(there[item]) if item in there else None for place, item in ids.items()}


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

    Where there are no indexes, since the user may not create any, reads by whatever there is.
    """
    if not context.readiness.lacks_indexes:
        try:
            return await replace(find, hint=index)
        except OperationFailure as error:
            if error.code != BAD_HINT:
                raise
            context.readiness.lacks_indexes = True
    return await find


async def plain_search(context: Context, op: SearchOp, now: datetime) -> list[Document]:
    """Read the items below a prefix that match, newest update first."""
    return await matching(context, op, {}, now, skip=op.offset, limit=op.limit)


async def matching(
    context: Context, op: SearchOp, condition: Document, now: datetime, *, skip: int, limit: int
) -> list[Document]:
    """Read `limit` items below the prefix of `op` that match its filter and a condition, behind the first `skip`.

    The order is total: by update, newest first, then by id. The server narrows, `filters.matches`
    decides, and pages go on until there are enough.
    """
    query = {"prefixes": path_of(op.namespace_prefix), **condition, **context.expiry.condition(now)}
    if not limit:
        return []
    if not op.filter:
        whole = Find(context.items, query, SHOWN, sort=NEWEST_FIRST, skip=skip, limit=limit)
        return await find_by(context, BY_UPDATE, whole)
    narrowed = [query, to_query(op.filter, field="value", exact_field="exact")]
    size = min(PAGE, skip + limit)
    chosen: list[Document] = []
    after: list[Document] = []
    while len(chosen) < skip + limit:
        find = Find(context.items, {"$and": [*narrowed, *after]}, SHOWN, sort=NEWEST_FIRST, limit=size)
        page = await find_by(context, BY_UPDATE, find)
        chosen += [document for document in page if passes(op.filter, document)]
        if len(page) < size:
            break
        after = [_behind(page[-1])]
    return chosen[skip : skip + limit]


def passes(filter: Mapping[str, Any] | None, document: Document) -> bool:
    """Say whether the value of a document matches a filter, by what it truly is."""
    return not filter or matches(filter, decode_value(document["value"], document.get("exact")))


def _behind(document: Document) -> Document:
    moment = document["updated_at"]
    later_id = {"_id": {"$gt": document["_id"]}}
    return {"updated_at": {"$lte": moment}, "$or": [{"updated_at": {"$lt": moment}}, later_id]}


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
