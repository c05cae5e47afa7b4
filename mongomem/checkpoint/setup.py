"""The plan that prepares the collections, and how an operation begins with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from mongomem.checkpoint.context import STAMP_FRACTION, Context
from mongomem.checkpoint.documents import indexes
from mongomem.commands import Plan
from mongomem.schema.indexes import ensure_indexes
from mongomem.schema.migrations import Migration, migrate

P = ParamSpec("P")
T = TypeVar("T")


async def create_indexes(context: Context) -> None:
    """Create the indexes that are not there; set the expiry where the saver has a TTL."""
    ttl = context.options.ttl
    # Documents go one stamp later than they read as absent, so that no living thread loses one.
    expire_after = None if ttl is None else math.ceil((ttl + ttl / STAMP_FRACTION).total_seconds())
    await ensure_indexes(indexes(context.options.collections, context.options.metadata_keys, expire_after))


MIGRATIONS: tuple[Migration[Context], ...] = ()
"""What older data needs, by the schema version that it leads to. None yet: version 1 is the first."""


async def setup(context: Context) -> None:
    """Create the indexes, and bring data of older schema versions up to date."""
    await create_indexes(context)
    await migrate(context.options.collections.settings, MIGRATIONS, context)
    context.state.is_set_up = True


async def prepared(
    context: Context, operation: Callable[Concatenate[Context, P], Plan[T]], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Perform an operation that writes, behind the setup where that has not been done yet."""
    if context.options.auto_setup and not context.state.is_set_up:
        await setup(context)
    return await operation(context, *args, **kwargs)
