"""Plans that propose candidates for a query: from memory, from a reading of everything, or from
Atlas.

Candidates are read again and scored by `mongomem.store.plans.semantic_search`, wherever they come
from. So sources differ in speed and freshness, never in scores.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeAlias

from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure

from mongomem.engine.commands import Aggregate, Document, Find, Plan, RunCommand
from mongomem.engine.effects import Compute, Sleep
from mongomem.errors import ConfigurationError
from mongomem.store.context import Context
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import BY_CHANGE
from mongomem.store.documents.namespace import slices
from mongomem.store.documents.stored_item import ids_in
from mongomem.store.plans.index_sync import survey, synced_index
from mongomem.store.plans.read import find_with_hint
from mongomem.store.vectors.atlas import (
    MOST_NEIGHBOURS,
    NEIGHBOURS,
    Stage,
    create_index,
    index_name,
    is_queryable,
    nearest,
    state_of_index,
)
from mongomem.store.vectors.memory_index import MemoryIndex
from mongomem.store.vectors.quantization import Vector

RECENT = timedelta(minutes=1)
"""How far Atlas may be behind and nothing be missed: what changed since is proposed too."""

MOST_RECENT = 200

POLLS = 120
POLL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Candidates:
    """Ids of candidates, best first.

    Attributes:
        final: Fewer candidates than asked for mean that there are no more.
    """

    ids: list[str]
    final: bool = True


Proposer: TypeAlias = Callable[[int, "set[str] | None"], Plan[Candidates]]
"""Proposes the given number of candidates, of all or of some ids."""


async def proposer(
    context: Context, indexing: IndexSettings, path: str, query: Vector
) -> tuple[Proposer, MemoryIndex | None]:
    """Choose who proposes; return the matrix too where it is one."""
    if await uses_atlas(context, indexing):
        return partial(_propose_by_atlas, context, indexing, path, query), None
    matrix, news = await synced_index(context, indexing, path)
    if matrix is None:
        return partial(_propose_by_survey, context, indexing, path, query), None
    return partial(_propose_from_memory, matrix, news, query), matrix


async def _propose_from_memory(
    matrix: MemoryIndex,
    news: Collection[str],
    query: Vector,
    count: int,
    among: Collection[str] | None,
) -> Candidates:
    """Propose what ranks best, and behind it the news, of which the matrix has nothing or something
    outdated.
    """
    ranking = await Compute(partial(matrix.rank, query, count + len(news), among), matrix.size)
    return Candidates([item for _, item in ranking if item not in news] + list(news))


async def _propose_by_survey(
    context: Context,
    indexing: IndexSettings,
    path: str,
    query: Vector,
    count: int,
    among: Collection[str] | None,
) -> Candidates:
    return Candidates(
        [item for _, item in await survey(context, indexing, path, query, count, among)]
    )


async def _propose_by_atlas(
    context: Context,
    indexing: IndexSettings,
    path: str,
    query: Vector,
    count: int,
    among: set[str] | None,
) -> Candidates:
    """Ask along the graph first, and everything (ENN) where many or some particular ones are
    wanted.
    """
    exact = among is not None or count * NEIGHBOURS > MOST_NEIGHBOURS
    name = index_name(context.items, indexing.fingerprint)
    ask = partial(
        nearest, name, query, path=path, fingerprint=indexing.fingerprint, count=count, exact=exact
    )
    found = await _neighbours(context, ask, among)
    ids = ids_in([*found, *await _recent(context, path)])
    return Candidates(list(dict.fromkeys(ids)), final=exact)


async def _neighbours(
    context: Context, ask: Callable[..., list[Stage]], among: Collection[str] | None
) -> list[Document]:
    """Ask Atlas, once or for each slice of the ids that one command can carry; best first."""
    found: list[Document] = []
    for part in [None] if among is None else slices(sorted(among)):
        found += await Aggregate(context.items, ask(among=part))
    found.sort(key=lambda document: -document.get("score", 0.0))
    return found


async def _recent(context: Context, path: str) -> list[Document]:
    """Read the ids of what changed below a path within `RECENT`, newest first."""
    since = Timestamp(int((context.now() - RECENT).timestamp()), 0)
    condition = {"prefixes": path, "changed_at": {"$gt": since}}
    newest = Find(
        context.items, condition, {"_id": 1}, sort=[("changed_at", -1)], limit=MOST_RECENT
    )
    return await find_with_hint(context, BY_CHANGE, newest)


async def uses_atlas(context: Context, indexing: IndexSettings) -> bool:
    """Say whether Atlas proposes: where the user says so, or, with "auto", where its index is there
    and answers.
    """
    if context.backend != "auto":
        return context.backend == "atlas"
    if context.readiness.atlas is None:
        try:
            name = index_name(context.items, indexing.fingerprint)
            context.readiness.atlas = is_queryable(
                await Aggregate(context.items, state_of_index(name))
            )
        except (OperationFailure, NotImplementedError):  # a server, or a mongomock, without search
            context.readiness.atlas = False
    return context.readiness.atlas


async def set_up_atlas(context: Context, indexing: IndexSettings) -> None:
    """Make the search index and wait until it answers. Idempotent.

    Raises:
        ConfigurationError: It does not answer within ten minutes.
    """
    name = index_name(context.items, indexing.fingerprint)
    if not await Aggregate(context.items, state_of_index(name)):
        await RunCommand(
            create_index(context.items, indexing.fingerprint, indexing.dims, indexing.metric)
        )
    for _ in range(POLLS):
        if is_queryable(await Aggregate(context.items, state_of_index(name))):
            return
        await Sleep(POLL_SECONDS)
    raise ConfigurationError(
        f"The search index {name} does not answer after {POLLS * POLL_SECONDS:.0f} s"
    )
