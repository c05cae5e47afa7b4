"""The plan that makes all vectors anew, after the index configuration of a store has changed."""

from __future__ import annotations

from collections.abc import Sequence

from mongomem.commands import BulkWrite, Document, Find, Update
from mongomem.errors import ConfigurationError
from mongomem.store.context import Context
from mongomem.store.documents import BY_ID, VECTOR_FIELDS, Embedded, vector_fields
from mongomem.store.indexing import Indexing, Text
from mongomem.store.setup import CONFIGURATION, check_configuration, ensure_set_up, settings_of
from mongomem.store.values import decode_value
from mongomem.store.writing import embed, vectors_of

PAGE = 100

NEEDED = dict.fromkeys(("path", "value", "exact", "index_fields", "changed_at", "vectors"), 1)


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
    """
    indexing = context.indexing
    if indexing is None:
        raise ConfigurationError("reindex() needs a store with an index configuration")
    await ensure_set_up(context)
    setting = Update({"_id": CONFIGURATION}, {"$set": settings_of(indexing)}, upsert=True)
    await BulkWrite(context.names.settings, [setting])
    context.readiness.check()
    total = 0
    while changed := await _pass(context, indexing):
        total += changed
    return total


async def _pass(context: Context, indexing: Indexing) -> int:
    """Go once through all items that are not done, in the order of their ids; return how many now are."""
    after: Document = {}
    changed = 0
    while True:
        context.readiness.checked_at = None
        await check_configuration(context)  # else two that reindex to different configurations undo each other's work
        condition = {"index": {"$ne": indexing.fingerprint}, **after}
        page = await Find(context.items, condition, NEEDED, sort=[("_id", 1)], limit=PAGE, hint=BY_ID)
        if not page:
            return changed
        changed += await _convert(context, indexing, page)
        after = {"_id": {"$gt": page[-1]["_id"]}}


async def _convert(context: Context, indexing: Indexing, page: Sequence[Document]) -> int:
    texts: dict[str, Sequence[Text]] = {
        document["_id"]: indexing.texts(
            decode_value(document["value"], document.get("exact")), document.get("index_fields")
        )
        for document in page
    }
    embedded = await embed(indexing, texts, vectors_of(page))
    reply = await BulkWrite(context.items, [_update(document, embedded[document["_id"]]) for document in page])
    return reply.matched_count


def _update(document: Document, embedded: Embedded) -> Update:
    """Build the change of one item's vectors; of none where it was written again since it was read."""
    fields = vector_fields(embedded)
    change: Document = {"$set": fields, "$currentDate": {"changed_at": {"$type": "timestamp"}}}
    if absent := [name for name in VECTOR_FIELDS if name not in fields]:
        change["$unset"] = dict.fromkeys(absent, "")
    unchanged = {"_id": document["_id"], "path": document["path"], "changed_at": document["changed_at"]}
    return Update(unchanged, change)
