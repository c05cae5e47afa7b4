"""Plans that make a database ready: indexes, and the agreement on how vectors are made."""

from __future__ import annotations

from typing import Any

from mongomem.commands import BulkWrite, Find, Update
from mongomem.errors import IndexMismatchError
from mongomem.schema.indexes import ensure_indexes
from mongomem.store.context import Context
from mongomem.store.documents import indexes_for
from mongomem.store.indexing import Indexing
from mongomem.store.proposing import set_up_atlas

CONFIGURATION = "index"
"""The `_id` of the settings that say how the vectors of a store are made."""


async def setup(context: Context) -> None:
    """Create what is missing. Idempotent, and safe when many processes call it at once."""
    await ensure_indexes(indexes_for(context.names))
    context.readiness.finish_set_up()
    await agree_on_configuration(context)
    if context.backend == "atlas" and context.indexing is not None:
        await set_up_atlas(context, context.indexing)


async def ready_to_write(context: Context) -> None:
    """Set up before the first write, unless the user does that, and see that vectors are made in the same way.

    Where nothing is agreed on yet that waits for the first vectors: an embedder that fails decides nothing.
    """
    await ensure_set_up(context)
    await check_configuration(context)


async def ensure_set_up(context: Context) -> None:
    """Create the indexes once in this process, unless the user does that."""
    if context.auto_setup and not context.readiness.set_up:
        await ensure_indexes(indexes_for(context.names))
        context.readiness.finish_set_up()


async def agree_on_configuration(context: Context) -> None:
    """Make the index configuration that of the store where it has none, else hold the two against each other.

    Raises:
        IndexMismatchError: The vectors of the store are made in another way.
    """
    if context.indexing is None or context.readiness.is_checked():
        return
    if await _stored_configuration(context) is None:
        setting = {"$setOnInsert": settings_of(context.indexing)}
        await BulkWrite(context.names.settings, [Update({"_id": CONFIGURATION}, setting, upsert=True)])
    await check_configuration(context)


async def check_configuration(context: Context) -> None:
    """Hold the index configuration against that of the store; without a write, for users who may only read.

    Raises:
        IndexMismatchError: The vectors of the store are made in another way.
    """
    if context.indexing is None or context.readiness.is_checked():
        return
    stored = await _stored_configuration(context)
    if stored is None:
        return
    if stored["fingerprint"] != context.indexing.fingerprint:
        ours = context.indexing.description
        theirs = {name: stored.get(name) for name in ours}
        raise IndexMismatchError(
            f"The vectors in {context.items} were made by {theirs}, but this store is configured with {ours}. "
            f"Use the same index configuration, or call store.reindex() to make them anew."
        )
    context.readiness.check()


def settings_of(indexing: Indexing) -> dict[str, Any]:
    """Build what the settings say of an index configuration."""
    return {"fingerprint": indexing.fingerprint, **indexing.description}


async def _stored_configuration(context: Context) -> dict[str, Any] | None:
    found = await Find(context.names.settings, {"_id": CONFIGURATION}, limit=1)
    return found[0] if found else None
