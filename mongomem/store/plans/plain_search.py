"""Plans that read items newest update first: plain search, and what follows the scored answers of a
semantic one.

This order changes while it is read: what is updated moves to its front, from a page not read yet to
one that was read already. The server itself lets others write while it reads for long. So where
more than one page was read, or one by conditions took long, what changed meanwhile is read at the
end, in the order of changes, in which items only ever move to where that reading has still to come.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from bson.datetime_ms import DatetimeMS
from bson.timestamp import Timestamp

from mongomem.engine.commands import Document, Find
from mongomem.store.context import Context
from mongomem.store.damage import Damage
from mongomem.store.documents.item import BY_CHANGE, BY_UPDATE, SHOWN
from mongomem.store.documents.namespace import slices
from mongomem.store.documents.ops import Search
from mongomem.store.documents.stored_item import StoredItem, is_id, sound_items
from mongomem.store.plans.read import answers, find_with_hint, newest_stamps
from mongomem.store.vectors.watermark import IN_FLIGHT_SECONDS

NEWEST_FIRST = (("updated_at", -1), ("_id", 1))
PAGE = 500

LONG_SECONDS = 0.005
"""In less than this the server reads a page as one (MongoDB 6.0 lets others write after 10 ms or
1,000 steps, see ``internalQueryExecYieldPeriodMS``)."""


async def plain_search(context: Context, search: Search, now: datetime) -> list[StoredItem]:
    """Read the items below a prefix that match, newest update first."""
    return await newest_matching(context, search, now, skip=search.offset, limit=search.limit)


async def newest_matching(
    context: Context,
    search: Search,
    now: datetime,
    *,
    skip: int,
    limit: int,
    without: Collection[str] = (),
) -> list[StoredItem]:
    """Read `limit` items below the prefix of a search that match its filter, behind the first
    `skip`, `without` some.

    The order is total: by update, newest first, then by id. The server narrows, Python decides, and
    pages go on until there are enough. An item that matches throughout is not missed by being
    updated meanwhile. Damaged items are left out; one that was never met may count where the server
    alone skips.
    """
    if not limit:
        return []
    wanted = _wanted(context, search, now, without)
    if skip and not search.filter and not wanted.unrefused and not context.damage.count:
        page = await _page(context, wanted, [], skip=skip, limit=limit)
        found = list(wanted.among(page).values())
        if len(found) == len(page):
            return found
    chosen = await _pages(context, wanted, skip + limit)
    return chosen[skip : skip + limit]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is read.

    Attributes:
        narrowed: Conditions that the server narrows by.
        unrefused: How many of the ids to be left out no command could carry, and so may be read.
    """

    search: Search
    without: Collection[str]
    narrowed: Sequence[Document]
    unrefused: int
    damage: Damage

    def among(self, documents: Iterable[Document]) -> dict[str, StoredItem]:
        """Choose those that are wanted, by their ids."""
        return {
            stored.id: stored
            for stored in sound_items(documents, self.damage)
            if stored.id not in self.without and answers(self.search, stored)
        }


def _wanted(context: Context, search: Search, now: datetime, without: Collection[str]) -> Wanted:
    refused = next(slices(without), [])
    conditions = [
        {"prefixes": search.path, **context.expiry.condition(now)},
        {"_id": {"$nin": refused}} if refused else {},
        search.narrowed,
    ]
    narrowed = [condition for condition in conditions if condition]
    return Wanted(search, without, narrowed, len(without) - len(refused), context.damage)


async def _pages(context: Context, wanted: Wanted, count: int) -> list[StoredItem]:
    """Read pages until so many items are chosen, then what changed meanwhile, where a page may have
    missed it.
    """
    began = context.monotonic()
    size = min(PAGE, count) + wanted.unrefused
    page = first = await _page(context, wanted, [], limit=size)
    took_long = len(wanted.narrowed) > 1 and context.monotonic() - began > LONG_SECONDS
    chosen, read = wanted.among(page), len(page)
    while len(page) == size and len(chosen) < count:
        page = await _page_behind(context, wanted, page[-1], read, limit=size)
        chosen |= wanted.among(page)
        read += len(page)
    if took_long or page is not first:
        chosen |= wanted.among(await _changed_since(context, wanted, began))
    return _newest_first(chosen.values())


def _newest_first(items: Iterable[StoredItem]) -> list[StoredItem]:
    """Sort items by update, newest first, then by id."""
    by_id = sorted(items, key=lambda stored: stored.id)
    return sorted(by_id, key=lambda stored: stored.updated_at, reverse=True)


async def _page(
    context: Context, wanted: Wanted, after: Sequence[Document], *, skip: int = 0, limit: int
) -> list[Document]:
    condition = {"$and": [*wanted.narrowed, *after]}
    find = Find(context.items, condition, SHOWN, sort=NEWEST_FIRST, skip=skip, limit=limit)
    return await find_with_hint(context, BY_UPDATE, find)


async def _page_behind(
    context: Context, wanted: Wanted, last: Document, read: int, *, limit: int
) -> list[Document]:
    """Read the page behind a document, the last of so many that were read.

    One that is damaged may name no place in the order, for the server compares values of one type
    only: then as many are skipped.
    """
    moment, item = last.get("updated_at"), last["_id"]
    if not isinstance(moment, (datetime, DatetimeMS)) or not is_id(item):
        return await _page(context, wanted, [], skip=read, limit=limit)
    behind = {
        "updated_at": {"$lte": moment},
        "$or": [{"updated_at": {"$lt": moment}}, {"_id": {"$gt": item}}],
    }
    return await _page(context, wanted, [behind], limit=limit)


async def _changed_since(context: Context, wanted: Wanted, began: float) -> list[Document]:
    """Read what became visible since a time of the monotonic clock, and a little before.

    The stamps of that are below the newest one by not more than the time until now and
    `IN_FLIGHT_SECONDS`, see `mongomem.store.vectors.watermark`.
    """
    newest = await newest_stamps(context, wanted.search.path)
    seconds = max([0, *(stamp.time for stamp in newest)])
    floor = seconds - IN_FLIGHT_SECONDS - math.ceil(context.monotonic() - began)
    changed = {"$and": [*wanted.narrowed, {"changed_at": {"$gt": Timestamp(max(0, floor), 0)}}]}
    return await find_with_hint(
        context, BY_CHANGE, Find(context.items, changed, SHOWN, sort=[("changed_at", 1)])
    )
