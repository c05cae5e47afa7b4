"""The plans that prepare the collections."""

from __future__ import annotations

from datetime import timedelta

from pymongo.errors import OperationFailure

from mongomem.checkpoint.context import Context, expiry_of, ttl_of
from mongomem.checkpoint.documents.collections import EXPIRY, indexes, is_own_id
from mongomem.checkpoint.plans.delete import clean_now_and_then
from mongomem.engine.commands import INDEX_NOT_FOUND, DropIndex
from mongomem.schema.indexes import ensure_indexes, read_indexes
from mongomem.schema.migrations import Migration, migrate
from mongomem.schema.ownership import Owned, check_ownership


async def create_indexes(context: Context) -> None:
    """Create the indexes that are not there; set the expiry where the saver has a TTL."""
    ttl = context.options.ttl if isinstance(context.options.ttl, timedelta) else None
    expire_after = None if ttl is None else expiry_of(ttl)
    await ensure_indexes(
        indexes(context.options.collections, context.options.metadata_keys, expire_after)
    )


MIGRATIONS: tuple[Migration[Context], ...] = ()
"""What older data needs, by the schema version that it leads to. None yet: version 1 is first."""


async def setup(context: Context) -> None:
    """Create the indexes, and bring data of older schema versions up to date."""
    await ensure_ours(context)
    await create_indexes(context)
    if context.options.ttl is None:
        await _end_ttl(context)
    await migrate(context.options.collections.settings, MIGRATIONS, context)
    await read_stored_ttl(context)
    await clean_now_and_then(context)


async def ensure_ours(context: Context) -> None:
    """See once in a process that nobody else uses the collections: before the first write, and
    where nothing is found.

    Raises:
        ConfigurationError: Somebody does, or what is looked for may stand under other names.
    """
    if context.caches.setup_state.is_ours:
        return
    collections = context.options.collections
    rows = indexes(collections, context.options.metadata_keys, None)
    for name in (collections.checkpoints, collections.writes):
        own = [row.name for row in rows if row.collection == name]
        await check_ownership(
            Owned(collections.prefix, name.removeprefix(collections.prefix), own, is_own_id)
        )
    context.caches.setup_state.is_ours = True


async def _end_ttl(context: Context) -> None:
    """Drop the TTL indexes: threads that are there live for ever from now on."""
    for collection in (context.checkpoints, context.writes):
        if any(index["name"] == EXPIRY for index in await read_indexes(collection) or ()):
            try:
                await DropIndex(collection, EXPIRY)
            except OperationFailure as error:
                if error.code != INDEX_NOT_FOUND:  # which another process was quicker to drop
                    raise


async def read_stored_ttl(context: Context) -> None:
    """Learn the TTL that the collections have. It binds also a saver that was not told one.

    Otherwise such a saver would leave documents unstamped that the server then deletes under a
    thread in use.
    """
    context.caches.setup_state.found_ttl = None
    if not isinstance(context.options.ttl, timedelta):
        for index in await read_indexes(context.checkpoints) or ():
            if index["name"] == EXPIRY:
                context.caches.setup_state.found_ttl = ttl_of(index["expireAfterSeconds"])
    context.caches.setup_state.is_set_up = True


async def ensure_setup(context: Context) -> None:
    """Do the setup, where that has not been done yet and the options do not forbid it. For
    operations that write.
    """
    if not context.caches.setup_state.is_set_up:
        await ensure_ours(context)
        await (setup(context) if context.options.auto_setup else read_stored_ttl(context))
