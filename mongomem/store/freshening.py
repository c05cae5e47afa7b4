"""Plans that bring the codes of a namespace prefix into memory and keep them fresh.

What was acknowledged before a search began is in what it ranks, whoever wrote it. The rules are in
`mongomem.search.freshness`; here they are carried out: two small reads where something was written
since, one where nothing was.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from functools import partial

from mongomem.commands import Document, Find, RunCommand
from mongomem.effects import Compute, Sleep
from mongomem.search.freshness import NOTHING, Stamp
from mongomem.search.matrix import Candidate, Change, Matrix
from mongomem.search.metrics import Vector
from mongomem.store.context import Context
from mongomem.store.documents import BY_CHANGE, BY_ID, as_utc
from mongomem.store.indexing import Indexing
from mongomem.store.namespaces import id_range, namespace_of, path_range
from mongomem.store.reading import find_by, find_by_id

CODED = {"changed_at": 1, "codes": 1, "index": 1}

WAIT_SECONDS = 0.005
"""How often a search looks whether another one has loaded the matrix that both need."""

PAGE = 16384
"""Items read at a time: 25 MB of codes at 1,536 dimensions."""


async def fresh_matrix(context: Context, indexing: Indexing, path: str) -> tuple[Matrix | None, list[str]]:
    """Return the matrix of a prefix, and the ids of what is not in it as it is now, a few at most.

    None where the matrix would be larger than is allowed.
    """
    if path in context.matrices.too_large:
        return None, []
    matrix = context.matrices.get(path, indexing.dims, indexing.metric)
    loaded = await _loads(context, indexing, matrix, path)
    news = [] if loaded else await _catch_up(context, indexing, matrix, path)
    limit = context.matrices.limit
    if matrix.is_overgrown or (matrix.size > limit and matrix.has_grown):
        await _sweep(context, matrix, path)
    if matrix.size > limit:
        context.matrices.give_up(path)
        return None, []
    context.matrices.trim(path)
    return matrix, news


async def survey(
    context: Context, indexing: Indexing, path: str, query: Vector, count: int, among: Collection[str] | None
) -> list[Candidate]:
    """Rank as `Matrix.rank` does, on a prefix that is too large to be held: reads all its codes, keeps few.

    Where it turns out to be smaller by now, it is held from the next search on.
    """
    size = 0
    finalists = Matrix(indexing.dims, indexing.metric)
    page: Sequence[Change] = ()
    while page := await _page(context, indexing, path, page):
        heat = Matrix(indexing.dims, indexing.metric)
        await Compute(partial(heat.absorb, page), len(page) * indexing.dims)
        ranking = await Compute(partial(heat.rank, query, count, among), len(page) * indexing.dims)
        size += heat.size
        winners = {item for _, item in ranking}
        finalists.absorb(change for change in page if change.id in winners)
    if size <= context.matrices.limit:
        context.matrices.readmit(path)
    return finalists.rank(query, count, among)


async def _loads(context: Context, indexing: Indexing, matrix: Matrix, path: str) -> bool:
    """Load a matrix where nobody has done so or is at it, else wait for that; say whether it was this one that did.

    What another one loads began before, and may not hold what was written since.
    """
    while not matrix.freshness.loaded:
        if matrix.claim():
            try:
                await _load(context, indexing, matrix, path)
            finally:
                matrix.release()
            return True
        await Sleep(WAIT_SECONDS)
    return False


async def _load(context: Context, indexing: Indexing, matrix: Matrix, path: str) -> None:
    """Read a prefix for the first time, in the order of ids; stops where it gets too large.

    Stamps are left out, 5,000 of them cost 3 ms: what changed within the last seconds is read once more.
    """
    began = time.monotonic()
    server_time, stamps = await _start(context, path)
    page: Sequence[Change] = ()
    while (page := await _page(context, indexing, path, page)) and matrix.size <= context.matrices.limit:
        await Compute(partial(matrix.absorb, page), len(page) * indexing.dims)
    matrix.note(stamps, began=began, ended=time.monotonic(), server_time=server_time)
    matrix.sweep({})


async def _start(context: Context, path: str) -> tuple[int, list[Stamp]]:
    """Ask for the time of day of the server that stamps; for the newest stamp where it does not say, or only routes."""
    hello = await RunCommand({"hello": 1})
    if "localTime" in hello and hello.get("msg") != "isdbgrid":  # a mongos, whose clock stamps nothing
        return int(as_utc(hello["localTime"]).timestamp()), []
    newest = Find(context.items, {"prefixes": path}, {"changed_at": 1}, sort=[("changed_at", -1)], limit=1)
    return 0, [document["changed_at"] for document in await find_by(context, BY_CHANGE, newest)]


async def _sweep(context: Context, matrix: Matrix, path: str) -> None:
    """Drop from a matrix what is gone, by reading which ids there are: an index entry each.

    In the order of changes: an item that changes meanwhile moves to where the reading has still to come.
    """
    seen = matrix.seen()
    find = Find(context.items, {"prefixes": path}, {"_id": 1}, sort=[("changed_at", 1)])
    there = {document["_id"] for document in await find_by(context, BY_CHANGE, find)}
    matrix.sweep({item: stamp for item, stamp in seen.items() if item not in there})


async def _page(context: Context, indexing: Indexing, path: str, last: Sequence[Change]) -> Sequence[Change]:
    """Read the codes behind a page in the order of ids, which never change; nothing behind one that was not full."""
    if last and len(last) < PAGE:
        return ()
    prefix = namespace_of(path)
    behind = {"$gt": last[-1].id} if last else {}
    condition = {"_id": {**id_range(prefix), **behind}, "path": path_range(prefix), "index": indexing.fingerprint}
    found = await Find(context.items, condition, {"codes": 1}, sort=[("_id", 1)], limit=PAGE, hint=BY_ID)
    return [Change(document["_id"], NOTHING, document.get("codes")) for document in found]


async def _catch_up(context: Context, indexing: Indexing, matrix: Matrix, path: str) -> list[str]:
    """Read which items changed since, an index entry each, and the codes of those that are news.

    A few may wait: their ids are returned, for they can as well be looked at themselves. What this read
    has met is not noted then, so that the next one meets it again.
    """
    began = time.monotonic()
    condition = {"prefixes": path, "changed_at": {"$gt": matrix.freshness.floor}}
    met = await find_by(context, BY_CHANGE, Find(context.items, condition, {"changed_at": 1}))
    unknown = matrix.unknown((document["_id"], document["changed_at"]) for document in met)
    if unknown and matrix.may_wait(len(unknown)):
        return unknown
    for start in range(0, len(unknown), PAGE):
        news = await find_by_id(context, unknown[start : start + PAGE], CODED)
        await Compute(partial(matrix.absorb, _changes(news, indexing)), len(news) * indexing.dims)
    matrix.note([document["changed_at"] for document in met], began=began, ended=time.monotonic())
    return []


def _changes(documents: Sequence[Document], indexing: Indexing) -> list[Change]:
    """Read documents as changes; vectors of another configuration count as none."""
    mine = indexing.fingerprint
    return [
        Change(
            document["_id"],
            document["changed_at"],
            document.get("codes") if document.get("index") == mine else None,
        )
        for document in documents
    ]
