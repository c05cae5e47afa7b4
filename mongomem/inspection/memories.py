"""The memories of a store: items, and the namespaces that hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from langgraph.store.base import SearchItem, SearchOp

from mongomem.engine.commands import Aggregate, Document
from mongomem.inspection.context import Context
from mongomem.inspection.plain_values import Bounds, plain
from mongomem.store.documents.namespace import namespace_of, path_of
from mongomem.store.documents.ops import list_op
from mongomem.store.documents.stored_item import ExplainedItem
from mongomem.store.plans import batch
from mongomem.store.plans.setup import stored_config
from mongomem.store.words.analysis import DEFAULT_LANGUAGE

PAGE_ITEMS = 20_000

LOCAL_MODELS: Mapping[str, str] = {"local:minilm": "local:minilm", "local:wordllama": "local"}
"""How the settings begin to call the local models, and how an index configuration does."""

DEFAULTS: Mapping[str, Any] = {"metric": "cosine", "language": DEFAULT_LANGUAGE}
"""What an index configuration is where it does not say it."""

NO_MODEL = "none"
"""What the settings call what embeds nothing."""


@dataclass(frozen=True, slots=True)
class Memory:
    """An item, and how well it answers a query."""

    item: SearchItem

    @property
    def parts(self) -> tuple[float | None, float | None]:
        """What the score is made of: meaning and words."""
        item = self.item
        return (item.meaning, item.words) if isinstance(item, ExplainedItem) else (None, None)

    def json(self, bounds: Bounds) -> dict[str, Any]:
        """Return it as JSON, its value bounded."""
        meaning, words = self.parts
        return {
            "namespace": list(self.item.namespace),
            "key": self.item.key,
            "value": plain(self.item.value, bounds),
            "created_at": self.item.created_at.isoformat(),
            "updated_at": self.item.updated_at.isoformat(),
            "score": self.item.score,
            "meaning": meaning,
            "words": words,
        }


@dataclass(frozen=True, slots=True)
class NamespaceSize:
    """What a namespace holds.

    Attributes:
        namespace: Its labels.
        items: How many items there are.
        stored: Bytes of their documents, as BSON.
    """

    namespace: tuple[str, ...]
    items: int
    stored: int

    def json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "namespace": list(self.namespace),
            "items": self.items,
            "stored_bytes": self.stored,
        }


async def memories(
    context: Context,
    prefix: Sequence[str],
    query: str | None,
    filter: Mapping[str, Any] | None,
    limit: int,
    offset: int,
) -> list[Memory]:
    """Find items as `MongoStore.search` does, with the parts of their scores. No item lives on for
    that it was found.
    """
    op = SearchOp(tuple(prefix), dict(filter) if filter else None, limit, offset, query, False)
    found = await batch.search(context.store, op, None, query is not None)
    return [Memory(one) for one in found]


async def namespaces(
    context: Context,
    prefix: Sequence[str] | None,
    suffix: Sequence[str] | None,
    max_depth: int | None,
    limit: int,
    offset: int,
) -> list[NamespaceSize]:
    """List namespaces as `MongoStore.list_namespaces` does, with what they hold; those that were
    cut to `max_depth` with all that is below them.
    """
    op = list_op(tuple(prefix or ()) or None, tuple(suffix or ()) or None, max_depth, limit, offset)
    found = await batch.list_namespaces(context.store, op)
    held = await _held(context, found, by_prefix=max_depth is not None)
    return [NamespaceSize(one, *held.get(path_of(one), (0, 0))) for one in found]


async def _held(
    context: Context, found: Sequence[tuple[str, ...]], *, by_prefix: bool
) -> dict[str, tuple[int, int]]:
    """Return the number of items and their bytes by path, without what has expired."""
    if not found:
        return {}
    among = {"$in": [path_of(one) for one in found]}
    field = "prefixes" if by_prefix else "path"
    living = context.store.expiry.condition(context.store.now())
    stages: list[Document] = [
        {"$match": {field: among, **living}},
        {"$project": {field: 1, "stored": {"$bsonSize": "$$ROOT"}}},
    ]
    if by_prefix:
        stages += [{"$unwind": "$prefixes"}, {"$match": {"prefixes": among}}]
    groups = await Aggregate(context.store.items, [*stages, _by_path(f"${field}")])
    return {one["_id"]: (one["items"], one["stored"]) for one in groups}


def _by_path(path: str) -> Document:
    return {"$group": {"_id": path, "items": {"$sum": 1}, "stored": {"$sum": "$stored"}}}


@dataclass(frozen=True, slots=True)
class NamespacePage:
    """What some items that stand behind one another come to.

    Attributes:
        namespaces: By namespace.
        items: How many were read.
        last: The `_id` of the last; None where there are no more.
    """

    namespaces: Sequence[NamespaceSize]
    items: int
    last: str | None


PAGE_BY_PATH: Sequence[Document] = (
    {"$sort": {"_id": 1}},
    {"$limit": PAGE_ITEMS},
    {"$project": {"path": 1, "stored": {"$bsonSize": "$$ROOT"}}},
    {"$group": {**_by_path("$path")["$group"], "last": {"$max": "$_id"}}},
)
"""The stages that add up a page of items by their namespaces."""


async def namespace_page(context: Context, after: str = "") -> NamespacePage:
    """Add up the next items behind an `_id` by their namespaces, in the order of `_id`. What has
    expired takes room until the server deletes it, and counts.
    """
    behind: Document = {"$match": {"_id": {"$gt": after}}}
    groups = await Aggregate(context.store.items, [behind, *PAGE_BY_PATH])
    groups.sort(key=itemgetter("last"))
    count = sum(one["items"] for one in groups)
    sizes = [
        NamespaceSize(namespace_of(one["_id"]), one["items"], one["stored"])
        for one in groups
        if isinstance(one["_id"], str)
    ]
    return NamespacePage(sizes, count, groups[-1]["last"] if count == PAGE_ITEMS else None)


async def index_of(context: Context) -> Document | None:
    """Read how the items of the store were embedded; None where nothing was."""
    return await stored_config(context.store)


def index_config(settings: Document | None) -> dict[str, Any] | None:
    """Return the index configuration that the settings of a store tell, where what embeds is known
    by its name alone: a model of OpenAI, the local one, or none; None where it is not.
    """
    if settings is None:
        return None
    model, form = str(settings.get("model")), index_form(settings)
    words = {} if settings.get("analyser") else {"rank": "vector"}
    if model == NO_MODEL:
        form.pop("metric", None)
        return {**form, "rank": "words"}
    embed = embedder_called(model)
    return embed and {**form, **words, **embed, "dims": settings["dims"]}


def index_form(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what settings tell of an index configuration beside what embeds, as far as they tell
    it: fields, metric and language.
    """
    if settings is None:
        return {}
    analyser = settings.get("analyser")
    language = str(analyser).partition("-")[0] if analyser else None
    told = {"fields": settings.get("fields"), "metric": settings.get("metric")}
    return {
        name: value for name, value in {**told, "language": language}.items() if value is not None
    }


def is_by_default(settings: Mapping[str, Any] | None) -> bool:
    """Say whether the metric and the language that settings tell are those of an index
    configuration that says neither.
    """
    form = {**DEFAULTS, **index_form(settings)}
    return all(form[name] == value for name, value in DEFAULTS.items())


def embedder_called(model: str) -> dict[str, Any] | None:
    """Return what embeds with a model, by the name that the settings have for it; None where that
    tells no more than that it is another one.
    """
    for start, embed in LOCAL_MODELS.items():
        if model.startswith(start):
            return {"embed": embed}
    return {"embed": model} if model.startswith("openai:") else None
