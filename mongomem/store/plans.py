"""The plan of a batch: reads first, all of them on the state before it, then its writes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from langgraph.store.base import GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchItem, SearchOp

from mongomem.store import reading
from mongomem.store.batches import Batch, sort_batch
from mongomem.store.context import Context
from mongomem.store.documents import decode_search_item
from mongomem.store.namespaces import Namespace
from mongomem.store.searching import semantic_search
from mongomem.store.setup import ready_to_write
from mongomem.store.writing import write


async def batch(context: Context, ops: Iterable[Op]) -> list[Result]:
    """Perform operations; the answers stand in their places, None for a put or a deletion.

    Everything is checked before the first command, and everything embedded before the first write.
    """
    work = sort_batch(ops, context.indexing)
    now = context.now()
    results = await _read(context, work, now)
    if work.writes:
        await ready_to_write(context)
        await write(context, work, now)
    return [results.get(place) for place in range(work.size)]


async def get(context: Context, op: GetOp) -> Item | None:
    """Return one item, or None."""
    work = sort_batch([op], context.indexing)
    return (await reading.get(context, work.gets, context.now()))[0]


async def search(context: Context, op: SearchOp) -> list[SearchItem]:
    """Perform one search."""
    work = sort_batch([op], context.indexing)
    return await _search(context, work.searches[0], context.now())


async def put(context: Context, op: PutOp) -> None:
    """Perform one put or deletion."""
    await batch(context, [op])


async def list_namespaces(context: Context, op: ListNamespacesOp) -> list[Namespace]:
    """Perform one listing."""
    work = sort_batch([op], context.indexing)
    return await reading.list_namespaces(context, work.listings[0], context.now())


async def _read(context: Context, work: Batch, now: datetime) -> dict[int, Result]:
    results: dict[int, Result] = {}
    if work.gets:
        results.update(await reading.get(context, work.gets, now))
    for place, op in work.searches.items():
        results[place] = await _search(context, op, now)
    for place, listing in work.listings.items():
        results[place] = await reading.list_namespaces(context, listing, now)
    return results


async def _search(context: Context, op: SearchOp, now: datetime) -> list[SearchItem]:
    """Search by meaning where there is a query and an index, else in order of update."""
    if op.query and context.indexing is not None and op.limit:
        found = await semantic_search(context, context.indexing, op, now)
    else:
        found = [(document, None) for document in await reading.plain_search(context, op, now)]
    if op.refresh_ttl:
        await reading.refresh(context, [document for document, _ in found], now)
    return [decode_search_item(document, score) for document, score in found]
