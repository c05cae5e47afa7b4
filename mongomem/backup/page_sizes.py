"""Plan: how many items are read at a time: as many as are not too many bytes."""

from __future__ import annotations

from collections.abc import Sequence

from mongomem.engine.commands import Aggregate, Document
from mongomem.store.context import Context
from mongomem.store.documents.item import BY_ID
from mongomem.store.documents.namespace import Namespace, id_range
from mongomem.transfer.memories import PAGE_SIZE

PAGE_BYTES = 16 * 2**20

SIZES: Sequence[Document] = (
    {"$sort": {"_id": 1}},
    {"$limit": PAGE_SIZE},
    {"$project": {"_id": 0, "size": {"$bsonSize": "$$ROOT"}}},
)
"""The stages that tell the sizes of the next items (MongoDB 4.4)."""


async def page_size(context: Context, namespace: Namespace, after: str | None) -> int:
    """Return how many of the next items have `PAGE_BYTES` together; one at least."""
    behind: Document = {} if after is None else {"$gt": after}
    stages: list[Document] = [{"$match": {"_id": {**id_range(namespace), **behind}}}, *SIZES]
    left = PAGE_BYTES
    for count, one in enumerate(await Aggregate(context.items, stages, hint=BY_ID)):
        left -= one["size"]
        if left < 0:
            return max(count, 1)
    return PAGE_SIZE
