"""Plans that read items newest update first: plain search, and what follows the scored answers of a semantic one.

This order changes while it is read: what is updated moves to its front, from a page not read yet to one that was read
already. One page is one answer of the server; where it took more, what changed meanwhile is read at the end, in the
order of changes, in which items only ever move to where that reading has still to come.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson.timestamp import Timestamp
from langgraph.store.base import SearchOp

from mongomem.commands import Document, Find
from mongomem.search.freshness import IN_FLIGHT_SECONDS, NOTHING
from mongomem.store.context import Context
from mongomem.store.documents import BY_CHANGE, BY_UPDATE, SHOWN
from mongomem.store.filters import to_query
from mongomem.store.namespaces import path_of, slices
from mongomem.store.reading import find_by, passes

NEWEST_FIRST = (("updated_at", -1), ("_id", 1))
PAGE = 500

LISTED = {**SHOWN, "changed_at": 1}


async def plain_search(context: Context, op: SearchOp, now: datetime) -> list[Document]:
    """Read the items below a prefix that match, newest update first."""
    return await matching(context, op, now, skip=op.offset, limit=op.limit)


async def matching(
    context: Context, op: SearchOp, now: datetime, *, skip: int, limit: int, without: Collection[str] = ()
) -> list[Document]:
    """Read `limit` items below the prefix of `op` that match its filter, behind the first `skip`, and `without` some.

    The order is total: by update, newest first, then by id. The server narrows, Python decides, and pages go on until
    there are enough. An item that matches throughout is not missed by being updated meanwhile.
    """
    if not limit:
        return []
    wanted = _wanted(context, op, now, without)
    if wanted.is_narrow and (skip or limit <= PAGE):
        return await _page(context, wanted, [], skip=skip, limit=limit)
    found = await _pages(context, wanted, skip + limit)
    return found[skip : skip + limit]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is read.

    Attributes:
        narrowed: Conditions that the server narrows by.
        is_narrow: Whether those decide everything.
    """

    filter: Mapping[str, Any] | None
    without: Collection[str]
    narrowed: Sequence[Document]
    is_narrow: bool

    def among(self, documents: Iterable[Document]) -> dict[str, Document]:
        """Choose those that are wanted, by their ids."""
        return {
            document["_id"]: document
            for document in documents
            if document["_id"] not in self.without and passes(self.filter, document)
        }


def _wanted(context: Context, op: SearchOp, now: datetime, without: Collection[str]) -> Wanted:
    query = {"prefixes": path_of(op.namespace_prefix), **context.expiry.condition(now)}
    refused = next(slices(without), [])
    conditions = [
        query,
        {"_id": {"$nin": refused}} if refused else {},
        to_query(op.filter or {}, field="value", exact_field="exact"),
    ]
    is_narrow = not op.filter and len(refused) == len(without)
    return Wanted(op.filter, without, [condition for condition in conditions if condition], is_narrow)


async def _pages(context: Context, wanted: Wanted, count: int) -> list[Document]:
    began = time.monotonic()
    chosen: dict[str, Document] = {}
    size = min(PAGE, count)
    page = first = await _page(context, wanted, [], limit=size)
    chosen |= wanted.among(page)
    while len(page) == size and len(chosen) < count:
        page = await _page(context, wanted, [_behind(page[-1])], limit=size)
        chosen |= wanted.among(page)
    if page is not first:
        chosen |= wanted.among(await _changed_since(context, wanted, _floor(first, time.monotonic() - began)))
    by_id = sorted(chosen.values(), key=lambda document: document["_id"])
    return sorted(by_id, key=lambda document: document["updated_at"], reverse=True)


async def _page(
    context: Context, wanted: Wanted, after: Sequence[Document], *, skip: int = 0, limit: int
) -> list[Document]:
    condition = {"$and": [*wanted.narrowed, *after]}
    find = Find(context.items, condition, LISTED, sort=NEWEST_FIRST, skip=skip, limit=limit)
    return await find_by(context, BY_UPDATE, find)


async def _changed_since(context: Context, wanted: Wanted, floor: Timestamp) -> list[Document]:
    condition = {"$and": [*wanted.narrowed, {"changed_at": {"$gt": floor}}]}
    return await find_by(context, BY_CHANGE, Find(context.items, condition, LISTED, sort=[("changed_at", 1)]))


def _floor(page: Sequence[Document], elapsed: float) -> Timestamp:
    """Give a stamp below those of all writes that became visible in the last `elapsed` seconds, by what was read then.

    See `mongomem.search.freshness`.
    """
    newest = max(document.get("changed_at", NOTHING) for document in page)
    return Timestamp(max(0, newest.time - IN_FLIGHT_SECONDS - math.ceil(elapsed)), 0)


def _behind(document: Document) -> Document:
    moment = document["updated_at"]
    later_id = {"_id": {"$gt": document["_id"]}}
    return {"updated_at": {"$lte": moment}, "$or": [{"updated_at": {"$lt": moment}}, later_id]}
