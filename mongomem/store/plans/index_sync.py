"""Plans that bring the codes of a namespace prefix into memory and keep them fresh.

What was acknowledged before a search began is in what it ranks, whoever wrote it. The rules are in
`mongomem.store.vectors.watermark`; here they are carried out: two small reads where something was
written since, one where nothing was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from mongomem.engine.commands import Document, Find, RunCommand
from mongomem.engine.effects import Compute, Sleep
from mongomem.store.context import Context
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import BY_CHANGE, BY_ID, name_of
from mongomem.store.documents.namespace import id_range, namespace_of, path_range
from mongomem.store.documents.stored_item import ids_in, is_id, stamps_in
from mongomem.store.documents.value import as_utc
from mongomem.store.plans.read import find_by_id, find_with_hint, newest_stamps
from mongomem.store.vectors.memory_index import Candidate, Change, MemoryIndex
from mongomem.store.vectors.quantization import Vector
from mongomem.store.vectors.watermark import LOWEST_STAMP, Stamp

CODED = {"changed_at": 1, "codes": 1, "index": 1}

WAIT_SECONDS = 0.005
"""How often a search looks whether another one has loaded the matrix that both need."""

PAGE = 16384
"""Items read at a time: 25 MB of codes at 1,536 dimensions."""


async def synced_index(
    context: Context, indexing: IndexSettings, path: str
) -> tuple[MemoryIndex | None, list[str]]:
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
    context: Context,
    indexing: IndexSettings,
    path: str,
    query: Vector,
    count: int,
    among: Collection[str] | None,
) -> list[Candidate]:
    """Rank as `MemoryIndex.rank` does, on a prefix that is too large to be held: reads all its
    codes, keeps few.

    Where it turns out to be smaller by now, it is held from the next search on.
    """
    size = 0
    finalists = MemoryIndex(indexing.dims, indexing.metric)
    last = Page()
    while (last := await _page(context, indexing, path, last)).changes:
        heat = MemoryIndex(indexing.dims, indexing.metric)
        await _absorb(context, indexing, heat, last.changes)
        ranking = await Compute(
            partial(heat.rank, query, count, among), len(last.changes) * indexing.dims
        )
        size += heat.size
        finalists.absorb(_of_ranked(last.changes, ranking))
    if size <= context.matrices.limit:
        context.matrices.readmit(path)
    return finalists.rank(query, count, among)


def _of_ranked(changes: Iterable[Change], ranking: Iterable[Candidate]) -> Iterator[Change]:
    """Choose the changes of the items in a ranking."""
    ranked = {item for _, item in ranking}
    return (change for change in changes if change.id in ranked)


async def _loads(context: Context, indexing: IndexSettings, matrix: MemoryIndex, path: str) -> bool:
    """Load a matrix where nobody has done so or is at it, else wait for that; say whether it was
    this one that did.

    What another one loads began before, and may not hold what was written since.
    """
    while not matrix.freshness.loaded:
        if matrix.claim(context.monotonic()):
            try:
                await _load(context, indexing, matrix, path)
            finally:
                matrix.release()
            return True
        await Sleep(WAIT_SECONDS)
    return False


async def _load(context: Context, indexing: IndexSettings, matrix: MemoryIndex, path: str) -> None:
    """Read a prefix for the first time, in the order of ids; stops where it gets too large.

    Stamps are left out, 5,000 of them cost 3 ms: what changed within the last seconds is read once
    more.
    """
    began = context.monotonic()
    server_time, stamps = await _start(context, path)
    page = Page()
    while (
        page := await _page(context, indexing, path, page)
    ).changes and matrix.size <= context.matrices.limit:
        await _absorb(context, indexing, matrix, page.changes)
    matrix.note(
        stamps,
        began=began,
        ended=context.monotonic(),
        server_time=server_time,
        latest=context.latest_stamp(),
    )
    matrix.sweep({})


async def _start(context: Context, path: str) -> tuple[int, list[Stamp]]:
    """Ask for the time of day of the server that stamps; for the newest stamp where it does not
    say, or only routes.
    """
    hello = await RunCommand({"hello": 1})
    if (
        "localTime" in hello and hello.get("msg") != "isdbgrid"
    ):  # a mongos, whose clock stamps nothing
        return int(as_utc(hello["localTime"]).timestamp()), []
    return 0, await newest_stamps(context, path)


async def _sweep(context: Context, matrix: MemoryIndex, path: str) -> None:
    """Drop from a matrix what is gone, by reading which ids there are: an index entry each.

    In the order of changes: an item that changes meanwhile moves to where the reading has still to
    come.
    """
    seen = matrix.seen()
    find = Find(context.items, {"prefixes": path}, {"_id": 1}, sort=[("changed_at", 1)])
    there = set(ids_in(await find_with_hint(context, BY_CHANGE, find)))
    matrix.sweep({item: stamp for item, stamp in seen.items() if item not in there})


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the codes below a prefix.

    Attributes:
        is_last: Nothing is behind it.
    """

    changes: Sequence[Change] = ()
    is_last: bool = False


async def _page(context: Context, indexing: IndexSettings, path: str, before: Page) -> Page:
    """Read the codes behind a page in the order of ids, which never change; nothing behind the last
    one.
    """
    if before.is_last:
        return Page(is_last=True)
    prefix = namespace_of(path)
    behind = {"$gt": before.changes[-1].id} if before.changes else {}
    condition = {
        "_id": {**id_range(prefix), **behind},
        "path": path_range(prefix),
        "index": indexing.fingerprint,
    }
    found = await Find(
        context.items, condition, {"codes": 1}, sort=[("_id", 1)], limit=PAGE, hint=BY_ID
    )
    changes = [
        Change(document["_id"], LOWEST_STAMP, document.get("codes"))
        for document in found
        if is_id(document["_id"])
    ]
    return Page(changes, is_last=len(found) < PAGE)


async def _absorb(
    context: Context, indexing: IndexSettings, matrix: MemoryIndex, changes: Sequence[Change]
) -> None:
    """Take changes into a matrix; items whose codes are damaged have no vector, and are told
    once.
    """
    for item in await Compute(
        partial(matrix.absorb, changes, context.latest_stamp()), len(changes) * indexing.dims
    ):
        context.damage.note(
            repr(item), f"{name_of({'_id': item})} follows unscored: its codes are damaged"
        )


async def _catch_up(
    context: Context, indexing: IndexSettings, matrix: MemoryIndex, path: str
) -> list[str]:
    """Read which items changed since, an index entry each, and the codes of those that are news.

    A few may wait: their ids are returned, for they can as well be looked at themselves. What this
    read has met is not noted then, so that the next one meets it again.
    """
    began = context.monotonic()
    condition = {"prefixes": path, "changed_at": {"$gt": matrix.freshness.floor}}
    met = stamps_in(
        await find_with_hint(context, BY_CHANGE, Find(context.items, condition, {"changed_at": 1}))
    )
    unknown = matrix.unknown(met)
    if unknown and matrix.may_wait(len(unknown)):
        return unknown
    await _read_again(context, indexing, matrix, unknown)
    matrix.note(
        [stamp for _, stamp in met],
        began=began,
        ended=context.monotonic(),
        latest=context.latest_stamp(),
    )
    return []


async def _read_again(
    context: Context, indexing: IndexSettings, matrix: MemoryIndex, ids: Sequence[str]
) -> None:
    """Take items into a matrix as they are now."""
    for start in range(0, len(ids), PAGE):
        found = await find_by_id(context, ids[start : start + PAGE], CODED)
        await _absorb(context, indexing, matrix, _changes(found, indexing))


def _changes(documents: Sequence[Document], indexing: IndexSettings) -> list[Change]:
    """Read documents as changes; vectors of another configuration count as none."""
    codes = {
        document["_id"]: document.get("codes")
        if document.get("index") == indexing.fingerprint
        else None
        for document in documents
    }
    return [Change(item, stamp, codes[item]) for item, stamp in stamps_in(documents)]
