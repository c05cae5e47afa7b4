"""Plans that read items newest update first: plain search, and what follows the scored answers of a semantic one.

This order changes while it is read: what is updated moves to its front, from a page not read yet to one that was read
already. The server itself lets others write while it reads for long. So where more than one page was read, or one by
conditions took long, what changed meanwhile is read at the end, in the order of changes, in which items only ever move
to where that reading has still to come.
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
from mongomem.search.freshness import IN_FLIGHT_SECONDS
from mongomem.store.context import Context
from mongomem.store.documents import BY_CHANGE, BY_UPDATE, SHOWN
from mongomem.store.filters import to_query
from mongomem.store.namespaces import path_of, slices
from mongomem.store.reading import find_by, passes

NEWEST_FIRST = (("updated_at", -1), ("_id", 1))
PAGE = 500

LONG_SECONDS = 0.005
"""In less than this the server reads a page as one (MongoDB 6.0 lets others write after 10 ms or 1,000 steps, see
``internalQueryExecYieldPeriodMS``)."""


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
    if skip and not op.filter and not wanted.unrefused:
        return await _page(context, wanted, [], skip=skip, limit=limit)
    found = await _pages(context, wanted, skip + limit)
    return found[skip : skip + limit]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is read.

    Attributes:
        narrowed: Conditions that the server narrows by.
        unrefused: How many of the ids to be left out no command could carry, and so may be read.
    """

    path: str
    filter: Mapping[str, Any] | None
    without: Collection[str]
    narrowed: Sequence[Document]
    unrefused: int

    def among(self, documents: Iterable[Document]) -> dict[str, Document]:
        """Choose those that are wanted, by their ids."""
        return {
            document["_id"]: document
            for document in documents
            if document["_id"] not in self.without and passes(self.filter, document)
        }


def _wanted(context: Context, op: SearchOp, now: datetime, without: Collection[str]) -> Wanted:
    path = path_of(op.namespace_prefix)
    refused = next(slices(without), [])
    conditions = [
        {"prefixes": path, **context.expiry.condition(now)},
        {"_id": {"$nin": refused}} if refused else {},
        to_query(op.filter or {}, field="value", exact_field="exact"),
    ]
    narrowed = [condition for condition in conditions if condition]
    return Wanted(path, op.filter, without, narrowed, unrefused=len(without) - len(refused))


async def _pages(context: Context, wanted: Wanted, count: int) -> list[Document]:
    began = time.monotonic()
    size = min(PAGE, count) + wanted.unrefused
    page = first = await _page(context, wanted, [], limit=size)
    took_long = len(wanted.narrowed) > 1 and time.monotonic() - began > LONG_SECONDS
    chosen = wanted.among(page)
    while len(page) == size and len(chosen) < count:
        page = await _page(context, wanted, [_behind(page[-1])], limit=size)
        chosen |= wanted.among(page)
    if took_long or page is not first:
        chosen |= wanted.among(await _changed_since(context, wanted, began))
    by_id = sorted(chosen.values(), key=lambda document: document["_id"])
    return sorted(by_id, key=lambda document: document["updated_at"], reverse=True)


async def _page(
    context: Context, wanted: Wanted, after: Sequence[Document], *, skip: int = 0, limit: int
) -> list[Document]:
    condition = {"$and": [*wanted.narrowed, *after]}
    find = Find(context.items, condition, SHOWN, sort=NEWEST_FIRST, skip=skip, limit=limit)
    return await find_by(context, BY_UPDATE, find)


async def _changed_since(context: Context, wanted: Wanted, began: float) -> list[Document]:
    """Read what became visible since a time of the monotonic clock, and a little before.

    The stamps of that are below the newest one by not more than the time until now and `IN_FLIGHT_SECONDS`, see
    `mongomem.search.freshness`.
    """
    find = Find(context.items, {"prefixes": wanted.path}, {"changed_at": 1}, sort=[("changed_at", -1)], limit=1)
    newest = [document["changed_at"].time for document in await find_by(context, BY_CHANGE, find)]
    floor = max([0, *newest]) - IN_FLIGHT_SECONDS - math.ceil(time.monotonic() - began)
    changed = {"$and": [*wanted.narrowed, {"changed_at": {"$gt": Timestamp(max(0, floor), 0)}}]}
    return await find_by(context, BY_CHANGE, Find(context.items, changed, SHOWN, sort=[("changed_at", 1)]))


def _behind(document: Document) -> Document:
    moment = document["updated_at"]
    later_id = {"_id": {"$gt": document["_id"]}}
    return {"updated_at": {"$lte": moment}, "$or": [{"updated_at": {"$lt": moment}}, later_id]}
