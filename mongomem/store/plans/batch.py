"""The plan of a batch, and those of single operations.

The order of a batch, and why:

1. All operations are checked, before the first command: a batch with a mistake does nothing.
2. The queries of all searches are embedded together: one request.
3. Searches, gets and listings read. LangGraph's stores answer them by the state before the batch,
   so no write may come first.
4. The writes follow, see `mongomem.store.plans.put`: texts are embedded, then items are written. Of
   several writes of one item the last one counts, and only that one is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from langgraph.store.base import GetOp, Item, ListNamespacesOp, Op, Result, SearchItem, SearchOp

from mongomem.engine.effects import EmbedQueries
from mongomem.store.context import Context
from mongomem.store.documents.namespace import Namespace
from mongomem.store.documents.ops import GroupedOps, Search, checked_search, group_ops, join_writes
from mongomem.store.plans import read
from mongomem.store.plans.plain_search import plain_search
from mongomem.store.plans.put import write
from mongomem.store.plans.semantic_search import FoundItem, semantic_search
from mongomem.store.plans.setup import ensure_config, ensure_setup, warn_of_unused_index
from mongomem.store.vectors.quantization import Vector


async def batch(context: Context, ops: Iterable[Op]) -> list[Result]:
    """Perform operations; return the results in their order, None for a put or a deletion.

    Everything is checked before the first command, and everything embedded before the first write.
    """
    work = group_ops(ops, context.indexing)
    results = await _read(context, work, context.now())
    if work.writes:
        await _write(context, work)
    return [results.get(place) for place in range(work.size)]


async def put(context: Context, batches: Sequence[GroupedOps]) -> list[None]:
    """Perform the writes of several batches as one. Their callers checked and encoded them."""
    await _write(context, join_writes(batches))
    return [None] * len(batches)


async def get(context: Context, ops: Sequence[GetOp]) -> list[Item | None]:
    """Return items in the order of the operations, None for an item that does not exist."""
    work = group_ops(ops, context.indexing)
    found = await read.get(context, work.gets, context.now())
    return [found[place] for place in range(work.size)]


async def search(
    context: Context, op: SearchOp, min_score: float | None = None, explain: bool = False
) -> list[SearchItem]:
    """Perform one search."""
    searches = {0: checked_search(op, context.indexing, min_score, explain)}
    return (await _search(context, searches, context.now()))[0]


async def list_namespaces(context: Context, op: ListNamespacesOp) -> list[Namespace]:
    """Perform one listing."""
    work = group_ops([op], context.indexing)
    return await read.list_namespaces(context, work.listings[0], context.now())


async def _write(context: Context, work: GroupedOps) -> None:
    await ensure_setup(context)
    await ensure_config(context, write=False)
    await write(context, work)


async def _read(context: Context, work: GroupedOps, now: datetime) -> dict[int, Result]:
    results: dict[int, Result] = {}
    if work.searches:
        results.update(await _search(context, work.searches, now))
    if work.gets:
        results.update(await read.get(context, work.gets, now))
    for place, op in work.listings.items():
        results[place] = await read.list_namespaces(context, op, now)
    return results


async def _found(
    context: Context, searches: Mapping[int, Search], now: datetime
) -> dict[int, list[FoundItem]]:
    """Search one after the other, with the queries of all embedded before."""
    vectors = await _embedded_queries(context, searches.values())
    return {
        place: await _found_by_one(context, search, vectors.get(search.query), now)
        for place, search in searches.items()
    }


async def _found_by_one(
    context: Context, search: Search, vector: Vector | None, now: datetime
) -> list[FoundItem]:
    """Search by the vector of the query, or newest update first where there is none."""
    if context.indexing is not None and vector is not None:
        return await semantic_search(context, context.indexing, search, vector, now)
    return [(stored, None) for stored in await plain_search(context, search, now)]


async def _embedded_queries(
    context: Context, searches: Iterable[Search]
) -> dict[str | None, Vector]:
    """Embed the queries of searches, equal ones once; not those of searches with a limit of 0, and
    none where the store has no index.
    """
    texts = {search.query for search in searches if search.query and search.limit}
    if texts and context.indexing is None:
        await warn_of_unused_index(context)
    if not texts or context.indexing is None:
        return {}
    vectors = await EmbedQueries(context.indexing.embedder, list(texts))
    return dict(zip(texts, vectors, strict=True))


async def _search(
    context: Context, searches: Mapping[int, Search], now: datetime
) -> dict[int, list[SearchItem]]:
    """Search by meaning where a search has a query and the store an index, else newest update
    first; then refresh the TTL of what was found.
    """
    found = await _found(context, searches, now)
    used = {
        stored.id: stored
        for place, one in searches.items()
        if one.refresh_ttl
        for stored, _ in found[place]
    }
    await read.refresh(context, list(used.values()), now)
    return {
        place: [
            stored.search_item(score, explained=searches[place].explain)
            for stored, score in answers
        ]
        for place, answers in found.items()
    }
