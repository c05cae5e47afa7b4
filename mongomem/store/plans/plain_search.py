"""Plans that read items newest update first: plain search, and what follows the scored items of a
semantic search.

This order is not stable under writes: an item that is updated while pages are read moves to the
front, from a page that is still to be read to one that was read. The server also lets others write
while it reads one long page. So what changed since the beginning is read at the end, in the order
of the server's timestamps: in that order an item moves only to where the read has still to come.
This is done where more than one page was read, and where one page with conditions took long by the
clock of the context.

Refused: a snapshot read. It needs a session, which mongomock and a standalone server do not have.
Refused: reading again always. It costs two reads more, where most searches are one short page.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bson.datetime_ms import DatetimeMS
from bson.timestamp import Timestamp

from mongomem.damage import Damage
from mongomem.engine.commands import Document, Find
from mongomem.store.context import Context
from mongomem.store.documents.item import BY_CHANGE, BY_UPDATE, ITEM_FIELDS
from mongomem.store.documents.namespace import split_by_bytes
from mongomem.store.documents.ops import Search
from mongomem.store.documents.stored_item import StoredItem, is_id, sound_items
from mongomem.store.plans.read import find_with_hint, matches_search, newest_timestamp
from mongomem.store.vectors.watermark import ALLOWED_LATENESS_SECONDS

NEWEST_FIRST = (("updated_at", -1), ("_id", 1))
PAGE_SIZE = 500

LONG_SECONDS = 0.005
"""In less than this the server reads a page without letting others write (MongoDB 6.0 yields after
10 ms or 1,000 steps, see ``internalQueryExecYieldPeriodMS``)."""


@dataclass(frozen=True, slots=True)
class NewestQuery:
    """Which items are read, newest update first.

    Attributes:
        exclude: Ids of items that are left out.
        conditions: What the server narrows by: the prefix first, then what else there is.
        not_excluded: How many ids of `exclude` did not fit into a command. The server may return
            these items, and they are dropped here.
    """

    search: Search
    exclude: Collection[str]
    conditions: Sequence[Document]
    not_excluded: int
    damage: Damage

    @property
    def is_narrowed(self) -> bool:
        """Say whether the server tests items by more than prefix and expiry."""
        return len(self.conditions) > 1

    def matching(self, documents: Iterable[Document]) -> dict[str, StoredItem]:
        """Choose the items that match, by their ids."""
        return {
            stored.id: stored
            for stored in sound_items(documents, self.damage)
            if stored.id not in self.exclude and matches_search(self.search, stored)
        }


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
    exclude: Collection[str] = (),
) -> list[StoredItem]:
    """Read `limit` items that match a search, behind the first `skip`.

    The order is total: by update, newest first, then by id. The server narrows, Python decides, and
    pages are read until there are enough. An item that matches throughout is found, also where it
    is updated meanwhile. Damaged items are left out; one that was never met may be counted where
    the server skips.
    """
    if not limit:
        return []
    query = _newest_query(context, search, now, exclude)
    if skip and not (search.filter or query.not_excluded or context.damage.count):
        page = await _read_page(context, query, [], skip=skip, limit=limit)
        matching = query.matching(page)
        if len(matching) == len(page):
            return [*matching.values()]
    return (await _read_pages(context, query, skip + limit))[skip : skip + limit]


def _newest_query(
    context: Context, search: Search, now: datetime, exclude: Collection[str]
) -> NewestQuery:
    excluded = next(split_by_bytes(exclude), [])
    conditions: list[Document] = [{"prefixes": search.path, **context.expiry.condition(now)}]
    if excluded:
        conditions.append({"_id": {"$nin": excluded}})
    if search.narrowed:
        conditions.append(search.narrowed)
    return NewestQuery(search, exclude, conditions, len(exclude) - len(excluded), context.damage)


@dataclass(slots=True)
class _Pages:
    """The pages that were read so far.

    Attributes:
        size: Documents of a full page.
        last: The last page.
        count: How many pages were read.
        read: How many documents were read.
        matching: The items among them that match, by their ids.
    """

    size: int
    last: Sequence[Document] = ()
    count: int = 0
    read: int = 0
    matching: dict[str, StoredItem] = field(default_factory=dict)

    @property
    def may_follow(self) -> bool:
        """Say whether another page may follow: all pages so far were full."""
        return self.read == self.count * self.size

    def add(self, page: Sequence[Document], matching: dict[str, StoredItem]) -> None:
        self.last = page
        self.count += 1
        self.read += len(page)
        self.matching |= matching


async def _read_pages(context: Context, query: NewestQuery, count: int) -> list[StoredItem]:
    """Read pages until so many items match, then what changed meanwhile, where a page may have
    missed it.
    """
    began, elapsed = context.monotonic(), 0.0
    pages = _Pages(min(PAGE_SIZE, count) + query.not_excluded)
    while pages.may_follow and len(pages.matching) < count:
        page = await _next_page(context, query, pages)
        elapsed = context.monotonic() - began
        pages.add(page, query.matching(page))
    if pages.count > 1 or (query.is_narrowed and elapsed > LONG_SECONDS):
        pages.matching |= query.matching(await _changed_since(context, query, began))
    return _newest_first(pages.matching.values())


def _newest_first(items: Iterable[StoredItem]) -> list[StoredItem]:
    """Sort items by update, newest first, then by id."""
    by_id = sorted(items, key=lambda stored: stored.id)
    return sorted(by_id, key=lambda stored: stored.updated_at, reverse=True)


async def _read_page(
    context: Context, query: NewestQuery, after: Sequence[Document], *, skip: int = 0, limit: int
) -> list[Document]:
    condition = {"$and": [*query.conditions, *after]}
    find = Find(context.items, condition, ITEM_FIELDS, sort=NEWEST_FIRST, skip=skip, limit=limit)
    return await find_with_hint(context, BY_UPDATE, find)


async def _next_page(context: Context, query: NewestQuery, pages: _Pages) -> list[Document]:
    """Read the first page, or the page that follows the others.

    The last document of a page may be damaged and have no place in the order, since the server
    compares values of one type only. Then as many documents are skipped as were read.
    """
    if not pages.last:
        return await _read_page(context, query, [], limit=pages.size)
    after = _after(pages.last[-1])
    if after is None:
        return await _read_page(context, query, [], skip=pages.read, limit=pages.size)
    return await _read_page(context, query, [after], limit=pages.size)


def _after(document: Document) -> Document | None:
    """Build the condition of what follows a document in the order; None where it has no place."""
    moment, item = document.get("updated_at"), document["_id"]
    if not isinstance(moment, (datetime, DatetimeMS)) or not is_id(item):
        return None
    return {
        "updated_at": {"$lte": moment},
        "$or": [{"updated_at": {"$lt": moment}}, {"_id": {"$gt": item}}],
    }


async def _changed_since(context: Context, query: NewestQuery, began: float) -> list[Document]:
    """Read what became visible since a time of the monotonic clock, and a little before.

    Its timestamps are below the newest one by at most the time since then and
    `ALLOWED_LATENESS_SECONDS`, see `mongomem.store.vectors.watermark`.
    """
    newest = await newest_timestamp(context, query.search.path)
    seconds = 0 if newest is None else newest.time
    floor = seconds - ALLOWED_LATENESS_SECONDS - math.ceil(context.monotonic() - began)
    changed = {"$and": [*query.conditions, {"changed_at": {"$gt": Timestamp(max(0, floor), 0)}}]}
    return await find_with_hint(
        context, BY_CHANGE, Find(context.items, changed, ITEM_FIELDS, sort=[("changed_at", 1)])
    )
