"""The plan that makes all vectors anew, after the index configuration of a store has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pymongo.errors import BulkWriteError

from mongomem.arguments import checked_flag
from mongomem.engine.commands import BulkWrite, Document, Find, Update
from mongomem.errors import (
    ConfigurationError,
    CorruptDataError,
    ReindexError,
    SchemaVersionError,
    UnstorableValueError,
)
from mongomem.store.context import Context
from mongomem.store.documents.index_config import EmbeddedText, IndexSettings
from mongomem.store.documents.item import (
    BY_ID,
    ITEM_FIELDS,
    VECTOR_FIELDS,
    ItemVectors,
    check_size,
    encode_vectors,
    name_of,
    vectors_of,
)
from mongomem.store.documents.namespace import SEPARATOR, namespace_of
from mongomem.store.documents.stored_item import texts_in
from mongomem.store.plans.model_check import check_model
from mongomem.store.plans.put import embed
from mongomem.store.plans.setup import CONFIGURATION, ensure_setup, mismatch, stored_config

PAGE = 100

REINDEX_FIELDS = {**ITEM_FIELDS, "index_fields": 1, "changed_at": 1, "generation": 1, "vectors": 1}

FORCED = "forced"
"""What the settings of a store have while all its vectors are made anew."""

TOO_LARGE = (17419, 10334)
"""Server error codes: an update would make a document of more than 16 MB (MongoDB 4.4 to 8.2)."""


@dataclass(slots=True)
class ReindexPass:
    """What one way through all items came to.

    Attributes:
        changed: How many items were converted.
        rejected: Those that cannot be: when they were changed last, and why.
    """

    changed: int = 0
    rejected: dict[str, tuple[Any, str]] = field(default_factory=dict)

    def reject(self, document: Document, reason: object) -> None:
        self.rejected[document["_id"]] = document.get("changed_at"), str(reason)

    def has_rejected(self, document: Document) -> bool:
        """Say whether an item was rejected as it is now."""
        known = self.rejected.get(document["_id"])
        return known is not None and known[0] == document.get("changed_at")

    def error(self) -> ReindexError:
        return ReindexError({_place_of(item): why for item, (_, why) in self.rejected.items()})


def _place_of(item: str) -> tuple[tuple[str, ...], str]:
    """Return the namespace and the key that an ``_id`` names: of a damaged item nothing else is
    certain.
    """
    path, _, key = item.partition(SEPARATOR * 2)
    return namespace_of(path), key


@dataclass(slots=True)
class Claim:
    """The settings of a store that a reindex makes its own with the first item that it writes, and
    not before.

    Attributes:
        target: What the vectors are to be made by.
        seen: The settings as they were when it began; None where there were none.
        is_made: They say `target`.
        is_forced: Every vector is made anew.
    """

    target: IndexSettings
    seen: Document | None
    is_made: bool
    is_forced: bool


async def reindex(context: Context, force: bool = False) -> int:
    """Make the vectors of every item as the store is configured now; return how many items were
    changed.

    The old configuration stays in use until the first items are embedded: what fails before changes
    nothing. Then the settings change, and the items are written: from that moment on stores with
    this configuration are accepted and those with another rejected, those that are in use already
    within ten seconds. A reindex to another configuration ends this one. Searches go on meanwhile:
    items that are not done yet follow, unscored. What is cut short goes on where it was when it is
    called again. A text that keeps its model keeps its vector. Items written meanwhile are left to
    their writers, and looked at again if those used another configuration.

    With `force` no vector is kept, also where the configuration is the same: for a model that is
    another one under its name. Items that are not done yet are scored as before. Each such pass
    over the store has a number, its generation, in the settings and on the items; one that was cut
    short goes on by any reindex, forced or not.

    Raises:
        ConfigurationError: The store has no index configuration.
        IndexMismatchError: Another reindex to another configuration has begun; or, without `force`,
            another model than that of the stored vectors answers by its name.
        ReindexError: Some items cannot be converted: their new vectors do not fit beside them, or
            they are damaged. All others were. An error of the embedder ends the reindex as it is.
    """
    checked_flag("force", force)
    if context.configured is None:
        raise ConfigurationError("reindex() needs a store with an index configuration")
    await ensure_setup(context)
    claim = _claim(context.configured, await stored_config(context), force)
    if claim.is_made:
        context.setup_state.accept_config(claim.target, context.monotonic())
        await check_model(context, claim.target)
    total, last = await _passes(context, claim)
    await _make(context, claim)
    await _finish(context, claim)
    if last.rejected:
        raise last.error()
    return total


def _claim(configured: IndexSettings, stored: Document | None, force: bool) -> Claim:
    """Decide what a reindex has to do: nothing anew that a former one, cut short, did already."""
    known = None if stored is None else configured.as_known_by(stored)
    began = stored is not None and FORCED in stored
    counted = (stored or {}).get("generation", 0)
    generation = counted if isinstance(counted, int) else 0  # else damaged
    anew = force and not (known is not None and began)
    target = replace(known or configured, generation=generation + anew)
    return Claim(target, stored, is_made=known is not None and not anew, is_forced=anew)


async def _make(context: Context, claim: Claim) -> None:
    """Let the settings say what the vectors are made by, unless another reindex has changed them
    since this one began.

    Before each page is written, and after it was read: so what another one has made anew since is
    not written to, for it is not as it was read, and what is written to before that one will find.

    Raises:
        IndexMismatchError: It has.
    """
    if claim.is_made:
        return await _check(context, claim)
    await BulkWrite(context.names.settings, [_claiming(claim)])
    claim.is_made = True
    return await _check(context, claim)


def _claiming(claim: Claim) -> Update:
    """Build the change of the settings that a claim makes; of none where they are not as it has
    seen them.
    """
    settings = claim.target.settings | ({FORCED: True} if claim.is_forced else {})
    if claim.seen is None:
        return Update({"_id": CONFIGURATION}, {"$setOnInsert": settings}, upsert=True)
    seen = {name: claim.seen.get(name) for name in ("fingerprint", "generation", FORCED)}
    gone = {name: "" for name in ("known_as", "generation", FORCED) if name not in settings}
    return Update(
        {"_id": CONFIGURATION, **seen}, {"$set": settings, **({"$unset": gone} if gone else {})}
    )


async def _check(context: Context, claim: Claim) -> None:
    """See that the settings say what this reindex makes: two to different ones would undo each
    other's work.

    Raises:
        IndexMismatchError: They say something else.
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
    """Keep that every vector was made anew: the next forced reindex begins another time."""
    condition = {"_id": CONFIGURATION, "generation": claim.target.generation, FORCED: True}
    if claim.target.generation:
        await BulkWrite(context.names.settings, [Update(condition, {"$unset": {FORCED: ""}})])


async def _passes(context: Context, claim: Claim) -> tuple[int, ReindexPass]:
    """Go through all items until one pass changes nothing; return how many were changed, and that
    last pass.
    """
    last = await _pass(context, claim, ReindexPass())
    total = last.changed
    while last.changed:
        last = await _pass(context, claim, last)
        total += last.changed
    return total, last


async def _pass(context: Context, claim: Claim, before: ReindexPass) -> ReindexPass:
    """Convert all items that are not converted, in the order of their ids. Those that were rejected
    `before` and have not changed since are skipped.
    """
    now = ReindexPass()
    page = await _unconverted(context, claim, {"$gte": ""})
    while page:
        rejected = [document for document in page if before.has_rejected(document)]
        now.rejected |= {item["_id"]: before.rejected[item["_id"]] for item in rejected}
        await _convert(context, claim, [item for item in page if item not in rejected], now)
        page = await _unconverted(context, claim, {"$gt": page[-1]["_id"]})
    return now


async def _unconverted(context: Context, claim: Claim, ids: Document) -> list[Document]:
    """Read the next items that are not converted, behind the ids of a condition.

    Ids are texts: a document whose `_id` is of another type was put there by hand, and is no item.
    """
    target = claim.target
    condition: Document = {"index": {"$ne": target.fingerprint}}
    if target.generation:
        condition = {"$or": [condition, {"generation": {"$ne": target.generation}}]}
    return await Find(
        context.items,
        {**condition, "_id": ids},
        REINDEX_FIELDS,
        sort=[("_id", 1)],
        limit=PAGE,
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
        await _make(context, claim)
        result.changed += await _write(context, fitting, result)


def _fitting(
    documents: Sequence[Document], embedded: Mapping[str, ItemVectors], result: ReindexPass
) -> list[tuple[Document, Update]]:
    """Pair documents with the changes that make their vectors anew; reject those that these would
    make too large.
    """
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
        except (CorruptDataError, SchemaVersionError) as error:
            result.reject(document, f"damaged: {error}")
    return texts


async def _write(
    context: Context, converted: Sequence[tuple[Document, Update]], result: ReindexPass
) -> int:
    """Write what can be written; return how many items were changed."""
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


def _update(document: Document, embedded: ItemVectors) -> Update:
    """Build the change of one item's vectors; of none where it was written again since it was
    read.
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
