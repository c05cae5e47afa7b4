"""Plans that prepare a database: indexes, migrations, the index configuration that all writers
share, and the Atlas index.

Whether the embedder is still the model of that configuration is checked in
`mongomem.store.plans.model_check`, at another moment: a put compares after it has embedded its own
texts, so that an embedder that fails does so on them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from mongomem.arguments import shown
from mongomem.engine.commands import Aggregate, BulkWrite, Document, Find, RunCommand, Update
from mongomem.engine.effects import Sleep
from mongomem.errors import ConfigurationError, IndexMismatchError
from mongomem.schema.indexes import ensure_indexes
from mongomem.schema.migrations import Migration, migrate
from mongomem.store.context import Context
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import indexes_for
from mongomem.store.vectors.atlas import create_index, index_name, is_queryable, state_of_index

LOGGER = logging.getLogger("mongomem")

CONFIGURATION = "index"
"""The `_id` of the index configuration in the settings of a store."""

MIGRATIONS: tuple[Migration[Context], ...] = ()
"""What older data needs, by the schema version that it leads to. None yet: version 1 is first."""

POLLS = 120
POLL_SECONDS = 5.0


async def setup(context: Context) -> None:
    """Create what is missing. Idempotent, and safe when many processes call it at once."""
    await _create_and_migrate(context)
    await ensure_config(context, write=True)
    if context.backend == "atlas" and context.indexing is not None:
        await _create_atlas_index(context, context.indexing)


async def ensure_setup(context: Context) -> None:
    """Create the indexes and migrate, once in this process, unless the user does that."""
    if context.auto_setup and not context.setup_state.set_up:
        await _create_and_migrate(context)


async def ensure_config(context: Context, *, write: bool) -> IndexSettings | None:
    """Compare the index configuration with that of the store. A comparison counts for
    `CHECK_VALID_SECONDS`.

    Returns the configuration, by the names that the store has for it; None where the store has no
    index.

    Args:
        context: The context of the store.
        write: Store the configuration where none is stored, and the current name of the model where
            another one is. A put does so after its texts were embedded: an embedder that fails
            decides nothing. False for users who may only read. Fingerprints and digests stay as
            they are, so no vector is made anew for a name.

    Raises:
        IndexMismatchError: The vectors of the store were made with another configuration.
    """
    configured, state = context.configured, context.setup_state
    is_recent = state.config_checked_recently(context.monotonic())
    if configured is None or (is_recent and (state.has_current_name or not write)):
        return context.indexing
    stored = await stored_config(context)
    if stored is None and write:
        stored = await _insert_config(context, configured)
    if stored is None:  # none yet, or somebody is dropping the collection
        return context.indexing
    indexing = _accept_stored(context, configured, stored)
    if write and not state.has_current_name:
        await _store_current_name(context, stored, indexing)
    return indexing


async def warn_of_unused_index(context: Context) -> None:
    """Warn, once in this process, where a store without an index searches or puts what others have
    indexed.
    """
    if context.setup_state.told_of_index:
        return
    context.setup_state.told_of_index = True
    stored = await stored_config(context)
    if stored is not None:
        LOGGER.warning(
            "%s is indexed with %s, and this store was made without an index: it ignores queries, "
            "and no query finds what it puts until a store with that index has called reindex().",
            context.items,
            _listed(stored, ("model", "dims", "fields")),
        )


async def stored_config(context: Context) -> Document | None:
    """Read the index configuration of the store; None where none is stored yet."""
    found = await Find(context.names.settings, {"_id": CONFIGURATION}, limit=1)
    return found[0] if found else None


def mismatch(context: Context, configured: IndexSettings, stored: Document) -> IndexMismatchError:
    """Build the error that names both configurations and the way out."""
    ours = configured.described
    reindexed = "make them anew" if configured.dims else "remove them"
    return IndexMismatchError(
        f"The vectors in {context.items} were made with {_listed(stored, ours)}, but this store is "
        f"configured with {_listed(ours, ours)}. Use the same index configuration, or call "
        f"store.reindex() to {reindexed}."
    )


def _listed(configuration: Mapping[str, Any], names: Iterable[str]) -> str:
    return ", ".join(f"{name} {shown(configuration.get(name))}" for name in names)


async def _create_and_migrate(context: Context) -> None:
    """Create the indexes, and bring data of older schema versions up to date."""
    await ensure_indexes(indexes_for(context.names))
    await migrate(context.names.settings, MIGRATIONS, context)
    context.setup_state.note_setup()


async def _insert_config(context: Context, configured: IndexSettings) -> Document | None:
    """Store a configuration unless another process was first; return the one that is stored."""
    setting = {"$setOnInsert": configured.settings}
    await BulkWrite(context.names.settings, [Update({"_id": CONFIGURATION}, setting, upsert=True)])
    return await stored_config(context)


async def _store_current_name(context: Context, stored: Document, indexing: IndexSettings) -> None:
    """Store the current name of the model, unless the configuration changed since it was read."""
    unchanged = {
        "_id": CONFIGURATION,
        "fingerprint": stored["fingerprint"],
        "model": stored["model"],
    }
    await BulkWrite(context.names.settings, [Update(unchanged, {"$set": indexing.settings})])
    context.setup_state.has_current_name = True


def _accept_stored(context: Context, configured: IndexSettings, stored: Document) -> IndexSettings:
    """Return the configuration by the names that the store has for it, and note the comparison.

    Raises:
        IndexMismatchError: The stored configuration is another one.
    """
    indexing = configured.as_known_by(stored)
    if indexing is None:
        raise mismatch(context, configured, stored)
    context.setup_state.has_current_name = all(
        stored.get(name) == value for name, value in indexing.settings.items()
    )
    context.setup_state.accept_config(indexing, context.monotonic())
    return indexing


async def _create_atlas_index(context: Context, indexing: IndexSettings) -> None:
    """Create the search index and wait until it answers. Idempotent.

    Raises:
        ConfigurationError: It does not answer within ten minutes.
    """
    name = index_name(context.items, indexing.fingerprint)
    if not await Aggregate(context.items, state_of_index(name)):
        await RunCommand(
            create_index(context.items, indexing.fingerprint, indexing.dims, indexing.metric)
        )
    for _ in range(POLLS):
        if is_queryable(await Aggregate(context.items, state_of_index(name))):
            return
        await Sleep(POLL_SECONDS)
    raise ConfigurationError(
        f"The search index {name} does not answer after {POLLS * POLL_SECONDS:.0f} s"
    )
