"""The plans that prepare the collection of a cache."""

from __future__ import annotations

from mongomem.cache.context import Context
from mongomem.cache.documents.entry import BY_EXPIRY, indexes_for, is_own_id
from mongomem.schema.indexes import ensure_indexes
from mongomem.schema.ownership import Owned, check_ownership


async def setup(context: Context) -> None:
    """Create the index. Idempotent, and safe when many do it at once."""
    await ensure_ours(context)
    await ensure_indexes(indexes_for(context.options.names))
    context.options.setup_state.is_set_up = True


async def ensure_setup(context: Context) -> None:
    """Do the setup once in a process, where the options do not forbid it. For plans that write."""
    await ensure_ours(context)
    if context.options.auto_setup and not context.options.setup_state.is_set_up:
        await setup(context)


async def ensure_ours(context: Context) -> None:
    """See once in a process that nobody else uses the collection: before the first write and the
    first deletion. A read meets no document of others, whose `_id` is never ours.

    Raises:
        ConfigurationError: Somebody does.
    """
    state = context.options.setup_state
    if not state.is_ours:
        # The whole name: a cache never had another default prefix, so none is looked for.
        await check_ownership(Owned("", context.entries, [BY_EXPIRY], is_own_id))
        state.is_ours = True
