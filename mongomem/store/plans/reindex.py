"""The plan that makes all vectors again, after the index configuration of a store has changed.

It goes through the items in the order of their ids, which never change, until one pass changes
nothing. Each item is written under the `changed_at` that was read, so an item that was written
meanwhile is left to its writer and found by the next pass. The settings change with the first page
that is written and not before: an embedder that fails changes nothing. They are read again before
each further page: of two reindexes to different configurations one ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pymongo.errors import BulkWriteError

from mongomem.arguments import checked_flag
from mongomem.damage import UNREADABLE
from mongomem.engine.commands import BulkWrite, Document, Find, Update, UpdateMany
from mongomem.errors import (
    ConfigurationError,
    ReindexError,
    UnstorableValueError,
)
from mongomem.store.context import Context
from mongomem.store.documents.index_config import EmbeddedText, IndexSettings
from mongomem.store.documents.item import (
    BY_ID,
    ITEM_FIELDS,
    VECTOR_FIELDS,
    EmbeddedTexts,
    check_size,
    encode_vectors,
    name_of,
    vectors_of,
)
from mongomem.store.documents.namespace import SEPARATOR, namespace_of, split_by_bytes
from mongomem.store.documents.stored_item import texts_in
from mongomem.store.plans.model_check import check_model
from mongomem.store.plans.put import embed
from mongomem.store.plans.setup import CONFIGURATION, ensure_setup, mismatch, stored_config
from mongomem.store.words.stored_terms import are_terms

PAGE_SIZE = 100

TERMS_PAGE_SIZE = 4_096
"""Items whose codes and terms are read at a time: 6 MB at 1,536 dimensions."""

REINDEX_FIELDS = {**ITEM_FIELDS, "index_fields": 1, "changed_at": 1, "generation": 1, "vectors": 1}

FORCED = "forced"
"""The field of the settings that is set while a forced reindex is not finished."""

TOO_LARGE = (17419, 10334)
"""Server error codes: an update would make a document of more than 16 MB (MongoDB 4.4 to 8.2)."""


@dataclass(slots=True)
class ReindexPass:
    """The result of one pass through all items that are not converted.

    Attributes:
        changed: How many items were converted.
        rejected: The items that cannot be converted: their `changed_at`, and the reason.
    """

    changed: int = 0
    rejected: dict[str, tuple[Any, str]] = field(default_factory=dict)

    def reject(self, document: Document, reason: object) -> None:
        self.rejected[document["_id"]] = document.get("changed_at"), str(reason)

    def has_rejected(self, document: Document) -> bool:
        """Say whether an item was rejected and has not changed since."""
        known = self.rejected.get(document["_id"])
        return known is not None and known[0] == document.get("changed_at")

    def error(self) -> ReindexError:
        return ReindexError({_place_of(item): why for item, (_, why) in self.rejected.items()})


def _place_of(item: str) -> tuple[tuple[str, ...], str]:
    """Return the namespace and the key that an ``_id`` names; the other fields may be damaged."""
    path, _, key = item.partition(SEPARATOR * 2)
    return namespace_of(path), key


@dataclass(slots=True)
class Claim:
    """The change of the stored index configuration that a reindex makes with its first write.

    Attributes:
        target: The configuration to convert to.
        before: The stored settings when the reindex began; None where none were stored.
        is_stored: The stored configuration is `target`.
        is_forced: Every vector is made again.
    """

    target: IndexSettings
    before: Document | None
    is_stored: bool
    is_forced: bool


def nobody(_changed: int) -> None:
    """Tell nobody how many items were changed so far."""


async def reindex(
    context: Context, force: bool = False, tell: Callable[[int], None] = nobody
) -> int:
    """Make the vectors of every item by the current configuration; return how many were changed.
    `tell` is given that number while it grows.

    The old configuration stays stored until the first items are embedded. From then on stores with
    the new configuration are accepted. Stores with another one are refused, those in use already
    within ten seconds. A reindex to another configuration ends this one. Searches work meanwhile:
    items that are not converted follow unscored. A reindex that was cut short continues when it is
    called again. A text whose model is the same keeps its vector.

    With `force` every vector is made again, also where the configuration is the same: for a model
    that changed under its name. Items that are not converted are scored by their old vectors. Each
    forced reindex has a number, its generation, in the settings and on the items. One that was cut
    short is continued by any reindex, forced or not.

    Raises:
        ConfigurationError: The store has no index configuration.
        IndexMismatchError: Another reindex to another configuration has begun; or, without `force`,
            another model than that of the stored vectors answers by its name.
        ReindexError: Some items cannot be converted: their new vectors do not fit beside them, or
            they are damaged. All others were converted. An error of the embedder is raised at once.
    """
    checked_flag("force", force)
    if context.configured is None:
        raise ConfigurationError("reindex() needs a store with an index configuration")
    await ensure_setup(context)
    claim = _claim(context.configured, await stored_config(context), force)
    if claim.is_stored:
        context.setup_state.accept_config(claim.target, context.monotonic())
        await check_model(context, claim.target)
    if _finds_other_terms(claim):
        await _remove_terms(context, {"terms": {"$exists": True}})
    elif claim.is_stored and claim.target.mark is not None:
        await _remove_stale_terms(context, claim.target, claim.target.mark)
    total, last = await _passes(context, claim, tell)
    await _store_config(context, claim)
    await _finish(context, claim)
    if last.rejected:
        raise last.error()
    return total


def _finds_other_terms(claim: Claim) -> bool:
    """Say whether the stored terms are those of another analyser."""
    known = (claim.before or {}).get("analyser")
    return known is not None and claim.target.settings.get("analyser", known) != known


async def _remove_stale_terms(context: Context, target: IndexSettings, mark: bytes) -> None:
    """Remove terms that are damaged, or of another analyser or another text. Reads all codes.

    Writers left them who had not heard of a change of the language yet, or who know no terms.
    """
    page = await _with_terms(context, target, "")
    while page:
        stale = [one["_id"] for one in page if not are_terms(one["terms"], mark, one.get("codes"))]
        for ids in split_by_bytes(stale):
            await _remove_terms(context, {"_id": {"$in": ids}})
        page = await _with_terms(context, target, page[-1]["_id"])


async def _with_terms(context: Context, target: IndexSettings, after: str) -> list[Document]:
    """Read the codes and terms of the next items that have terms, behind an id."""
    return await Find(
        context.items,
        {"_id": {"$gt": after}, "index": target.fingerprint, "terms": {"$exists": True}},
        {"codes": 1, "terms": 1},
        sort=[("_id", 1)],
        limit=TERMS_PAGE_SIZE,
        hint=BY_ID,
    )


async def _remove_terms(context: Context, condition: Document) -> None:
    """Remove the terms of items, which then rank by meaning alone until they are converted."""
    await UpdateMany(
        context.items,
        condition,
        {"$unset": {"terms": ""}, "$currentDate": {"changed_at": {"$type": "timestamp"}}},
    )


def _claim(configured: IndexSettings, stored: Document | None, force: bool) -> Claim:
    """Decide what a reindex has to do, and whether it continues one that was cut short."""
    same = None if stored is None else configured.as_known_by(stored)
    began = stored is not None and FORCED in stored
    counted = (stored or {}).get("generation", 0)
    generation = counted if isinstance(counted, int) else 0  # else damaged
    begins = force and not (same is not None and began)
    target = replace(same or configured, generation=generation + begins)
    return Claim(target, stored, is_stored=same is not None and not begins, is_forced=begins)


async def _store_config(context: Context, claim: Claim) -> None:
    """Store the configuration, unless another reindex changed the settings since this one began.

    This is called after a page was read and before it is written. An item that another reindex has
    converted since is not as it was read, so it is not written. An item that is written before the
    other reindex begins is found by that one.

    Raises:
        IndexMismatchError: Another reindex has changed the settings.
    """
    if claim.is_stored:
        return await _check_config(context, claim)
    await BulkWrite(context.names.settings, [_config_update(claim)])
    claim.is_stored = True
    return await _check_config(context, claim)


def _config_update(claim: Claim) -> Update:
    """Build the change of the settings. It matches nothing where they changed since the read."""
    settings = claim.target.settings | ({FORCED: True} if claim.is_forced else {})
    if claim.before is None:
        return Update({"_id": CONFIGURATION}, {"$setOnInsert": settings}, upsert=True)
    unchanged = {name: claim.before.get(name) for name in ("fingerprint", "generation", FORCED)}
    absent = {name: "" for name in ("known_as", "generation", FORCED) if name not in settings}
    return Update(
        {"_id": CONFIGURATION, **unchanged},
        {"$set": settings, **({"$unset": absent} if absent else {})},
    )


async def _check_config(context: Context, claim: Claim) -> None:
    """Compare the stored configuration with that of this reindex. Two reindexes to different
    configurations would undo each other's work.

    Raises:
        IndexMismatchError: The stored configuration is another one.
    """
    stored = await stored_config(context) or {}
    if (stored.get("fingerprint"), stored.get("generation", 0)) != (
        claim.target.fingerprint,
        claim.target.generation,
    ):
        raise mismatch(context, claim.target, stored)
    context.setup_state.accept_config(claim.target, context.monotonic())
    context.setup_state.model_checked = True


async def _finish(context: Context, claim: Claim) -> None:
    """Store that a forced reindex is finished: the next one has another generation."""
    condition = {"_id": CONFIGURATION, "generation": claim.target.generation, FORCED: True}
    if claim.target.generation:
        await BulkWrite(context.names.settings, [Update(condition, {"$unset": {FORCED: ""}})])


async def _passes(
    context: Context, claim: Claim, tell: Callable[[int], None]
) -> tuple[int, ReindexPass]:
    """Convert until one pass changes nothing; return how many items were changed, and that pass."""
    last = await _pass(context, claim, ReindexPass(), tell)
    total = last.changed
    while last.changed:
        last = await _pass(context, claim, last, partial(_tell_more, tell, total))
        total += last.changed
    return total, last


def _tell_more(tell: Callable[[int], None], before: int, changed: int) -> None:
    tell(before + changed)


async def _pass(
    context: Context, claim: Claim, before: ReindexPass, tell: Callable[[int], None]
) -> ReindexPass:
    """Convert all items that are not converted, in the order of their ids. Those that were rejected
    `before` and have not changed since are skipped.
    """
    now = ReindexPass()
    page = await _unconverted(context, claim, {"$gte": ""})
    while page:
        rejected = {item["_id"] for item in page if before.has_rejected(item)}
        now.rejected |= {item: before.rejected[item] for item in rejected}
        await _convert(context, claim, [one for one in page if one["_id"] not in rejected], now)
        tell(now.changed)
        page = await _unconverted(context, claim, {"$gt": page[-1]["_id"]})
    return now


async def _unconverted(context: Context, claim: Claim, ids: Document) -> list[Document]:
    """Read the next items that are not converted, behind the ids of a condition.

    Ids are texts: a document whose `_id` is of another type was put there by hand, and is no item.
    """
    target = claim.target
    unconverted: list[Document] = [{"index": {"$ne": target.fingerprint}}]
    if target.generation:
        unconverted.append({"generation": {"$ne": target.generation}})
    if target.analyser:
        unconverted.append({"codes": {"$exists": True}, "terms": {"$exists": False}})
    return await Find(
        context.items,
        {"$or": unconverted, "_id": ids},
        REINDEX_FIELDS,
        sort=[("_id", 1)],
        limit=PAGE_SIZE,
        hint=BY_ID,
    )


async def _convert(
    context: Context, claim: Claim, page: Sequence[Document], result: ReindexPass
) -> None:
    texts = _texts(claim.target, page, result)
    embedded = await embed(context, claim.target, texts, vectors_of(page, claim.target))
    converted = [document for document in page if document["_id"] in embedded]
    fitting = _fitting(converted, embedded, result)
    if fitting:
        await _store_config(context, claim)
        result.changed += await _write(context, fitting, result)


def _fitting(
    documents: Sequence[Document], embedded: Mapping[str, EmbeddedTexts], result: ReindexPass
) -> list[tuple[Document, Update]]:
    """Pair documents with the updates of their vectors; reject those that would get too large."""
    fitting: list[tuple[Document, Update]] = []
    for document in documents:
        update = _update(document, embedded[document["_id"]])
        try:
            check_size(update, name_of(document))
        except UnstorableValueError as error:
            result.reject(document, error)
        else:
            fitting.append((document, update))
    return fitting


def _texts(
    indexing: IndexSettings, page: Sequence[Document], result: ReindexPass
) -> dict[str, Sequence[EmbeddedText]]:
    texts: dict[str, Sequence[EmbeddedText]] = {}
    for document in page:
        try:
            texts[document["_id"]] = texts_in(document, indexing)
        except UNREADABLE as error:
            result.reject(document, f"damaged: {error}")
    return texts


async def _write(
    context: Context, converted: Sequence[tuple[Document, Update]], result: ReindexPass
) -> int:
    """Write what fits; return how many items were changed."""
    updates = [update for _, update in converted]
    try:
        return (await BulkWrite(context.items, updates, ordered=False)).matched_count
    except BulkWriteError as error:
        failures = error.details.get("writeErrors") or []
        if not failures or any(failure["code"] not in TOO_LARGE for failure in failures):
            raise
        for failure in failures:
            result.reject(converted[failure["index"]][0], failure["errmsg"])
        return int(error.details["nMatched"])


def _update(document: Document, embedded: EmbeddedTexts) -> Update:
    """Build the update of one item's vectors. It matches nothing where the item was written again
    since it was read.
    """
    fields = encode_vectors(embedded)
    change: Document = {"$set": fields, "$currentDate": {"changed_at": {"$type": "timestamp"}}}
    if absent := [name for name in VECTOR_FIELDS if name not in fields]:
        change["$unset"] = dict.fromkeys(absent, "")
    unchanged = {
        "_id": document["_id"],
        "path": document["path"],
        "changed_at": document.get("changed_at"),
    }
    return Update(unchanged, change)
