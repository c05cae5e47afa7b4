"""The plan that makes all vectors anew, after the index configuration of a store has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bson.errors import InvalidBSON
from pymongo.errors import BulkWriteError

from mongomem.commands import BulkWrite, Document, Find, Update
from mongomem.errors import ConfigurationError, MongomemError, ReindexError, UnstorableValueError
from mongomem.store.context import Context
from mongomem.store.documents import BY_ID, VECTOR_FIELDS, Embedded, check_size, name_of, vector_fields
from mongomem.store.indexing import Indexing, Text
from mongomem.store.setup import CONFIGURATION, check_configuration, ensure_set_up, settings_of
from mongomem.store.values import decode_value
from mongomem.store.writing import embed, vectors_of

PAGE = 100

NEEDED = dict.fromkeys(("namespace", "key", "path", "value", "exact", "index_fields", "changed_at", "vectors"), 1)

TOO_LARGE = (17419, 10334)
"""Server error codes: an update would make a document of more than 16 MB (MongoDB 4.4 to 8.2)."""


@dataclass(slots=True)
class Pass:
    """What one way through all items came to.

    Attributes:
        changed: How many items were converted.
        refused: Those that cannot be, as they were read, and why.
    """

    changed: int = 0
    refused: dict[str, tuple[Document, str]] = field(default_factory=dict)

    def refuse(self, document: Document, reason: object) -> None:
        self.refused[document["_id"]] = ({name: document[name] for name in IDENTITY}, str(reason))

    def has_refused(self, document: Document) -> bool:
        """Say whether an item was refused as it is now."""
        known = self.refused.get(document["_id"])
        return known is not None and known[0]["changed_at"] == document["changed_at"]

    def error(self) -> ReindexError:
        return ReindexError(
            {(tuple(document["namespace"]), document["key"]): why for document, why in self.refused.values()}
        )


IDENTITY = ("_id", "namespace", "key", "changed_at")


async def reindex(context: Context) -> int:
    """Make the vectors of every item as the store is configured now; return how many items were changed.

    From the first moment on stores with this configuration are accepted and those with another refused, those
    that are in use already within ten seconds. Another reindex to another configuration ends this one.
    Searches go on meanwhile: items that are not done yet follow, unscored. What is cut short goes on
    where it was when it is called again. A text that keeps its model keeps its vector. Items written
    meanwhile are left to their writers, and looked at again if those used another configuration.

    Raises:
        ConfigurationError: The store has no index configuration.
        IndexMismatchError: Another reindex to another configuration has begun.
        ReindexError: Some items cannot be converted: their new vectors do not fit beside them, or they are damaged.
            All others were. An error of the embedder ends the reindex as it is.
    """
    indexing = context.indexing
    if indexing is None:
        raise ConfigurationError("reindex() needs a store with an index configuration")
    await ensure_set_up(context)
    setting = Update({"_id": CONFIGURATION}, {"$set": settings_of(indexing)}, upsert=True)
    await BulkWrite(context.names.settings, [setting])
    context.readiness.check()
    last = await _pass(context, indexing, Pass())
    total = last.changed
    while last.changed:
        last = await _pass(context, indexing, last)
        total += last.changed
    if last.refused:
        raise last.error()
    return total


async def _pass(context: Context, indexing: Indexing, before: Pass) -> Pass:
    """Go once through all items that are not done, in the order of their ids; spare what was refused `before`."""
    after: Document = {}
    now = Pass()
    while True:
        context.readiness.checked_at = None
        await check_configuration(context)  # else two that reindex to different configurations undo each other's work
        condition = {"index": {"$ne": indexing.fingerprint}, **after}
        page = await Find(context.items, condition, NEEDED, sort=[("_id", 1)], limit=PAGE, hint=BY_ID)
        if not page:
            return now
        now.refused |= {item["_id"]: before.refused[item["_id"]] for item in page if before.has_refused(item)}
        await _convert(context, indexing, [item for item in page if not before.has_refused(item)], now)
        after = {"_id": {"$gt": page[-1]["_id"]}}


async def _convert(context: Context, indexing: Indexing, page: Sequence[Document], result: Pass) -> None:
    texts = _texts(indexing, page, result)
    embedded = await embed(indexing, texts, vectors_of(page, indexing.dims))
    converted: list[Document] = []
    updates: list[Update] = []
    for document in (document for document in page if document["_id"] in embedded):
        update = _update(document, embedded[document["_id"]])
        try:
            check_size(update, name_of(document))
        except UnstorableValueError as error:
            result.refuse(document, error)
        else:
            converted.append(document)
            updates.append(update)
    if updates:
        result.changed += await _write(context, updates, converted, result)


def _texts(indexing: Indexing, page: Sequence[Document], result: Pass) -> dict[str, Sequence[Text]]:
    texts: dict[str, Sequence[Text]] = {}
    for document in page:
        try:
            value = decode_value(document["value"], document.get("exact"))
            texts[document["_id"]] = indexing.texts(value, document.get("index_fields"))
        except (MongomemError, InvalidBSON, KeyError, TypeError, ValueError) as error:
            result.refuse(document, f"damaged: {error!r}")
    return texts


async def _write(context: Context, updates: Sequence[Update], converted: Sequence[Document], result: Pass) -> int:
    """Write what can be written; return how many items were changed."""
    try:
        return (await BulkWrite(context.items, updates, ordered=False)).matched_count
    except BulkWriteError as error:
        failures = error.details.get("writeErrors") or []
        if not failures or any(failure["code"] not in TOO_LARGE for failure in failures):
            raise
        for failure in failures:
            result.refuse(converted[failure["index"]], failure["errmsg"])
        return int(error.details["nMatched"])


def _update(document: Document, embedded: Embedded) -> Update:
    """Build the change of one item's vectors; of none where it was written again since it was read."""
    fields = vector_fields(embedded)
    change: Document = {"$set": fields, "$currentDate": {"changed_at": {"$type": "timestamp"}}}
    if absent := [name for name in VECTOR_FIELDS if name not in fields]:
        change["$unset"] = dict.fromkeys(absent, "")
    unchanged = {"_id": document["_id"], "path": document["path"], "changed_at": document["changed_at"]}
    return Update(unchanged, change)
