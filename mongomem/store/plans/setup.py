"""Plans that make a database ready: indexes, and the agreement on how vectors are made."""

from __future__ import annotations

from mongomem.arguments import shown
from mongomem.engine.commands import BulkWrite, Document, Find, Update
from mongomem.errors import IndexMismatchError
from mongomem.schema.indexes import ensure_indexes
from mongomem.schema.migrations import Migration, migrate
from mongomem.store.context import Context
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import indexes_for
from mongomem.store.plans.candidates import set_up_atlas

CONFIGURATION = "index"
"""The `_id` of the settings that say how the vectors of a store are made."""


MIGRATIONS: tuple[Migration[Context], ...] = ()
"""What older data needs, by the schema version that it leads to. None yet: version 1 is the
first."""


async def setup(context: Context) -> None:
    """Create what is missing. Idempotent, and safe when many processes call it at once."""
    await _set_up(context)
    await agree_on_configuration(context)
    if context.backend == "atlas" and context.indexing is not None:
        await set_up_atlas(context, context.indexing)


async def ready_to_write(context: Context) -> None:
    """Set up before the first write, unless the user does that, and see that vectors are made in
    the same way.

    Where nothing is agreed on yet that waits for the first vectors: an embedder that fails decides
    nothing.
    """
    await ensure_set_up(context)
    await check_configuration(context)


async def ensure_set_up(context: Context) -> None:
    """Create the indexes once in this process, unless the user does that."""
    if context.auto_setup and not context.readiness.set_up:
        await _set_up(context)


async def _set_up(context: Context) -> None:
    """Create the indexes, and bring data of older schema versions up to date."""
    await ensure_indexes(indexes_for(context.names))
    await migrate(context.names.settings, MIGRATIONS, context)
    context.readiness.finish_set_up()


async def agree_on_configuration(context: Context) -> None:
    """Make the index configuration that of the store where it has none, else hold the two against
    each other.

    Settings that call the model by a name of before are given the one that it has now; fingerprints
    and digests stay as they are, so that no vector is made anew for that.

    Raises:
        IndexMismatchError: The vectors of the store are made in another way.
    """
    ready, configured = context.readiness, context.configured
    if configured is None or (ready.is_checked(context.monotonic()) and ready.is_named):
        return
    stored = await stored_configuration(context)
    if stored is None:
        stored = await _offer(context, configured)
    if stored is None:  # somebody drops the collection meanwhile: the next write agrees anew
        return
    known = _agreed(context, configured, stored)
    if not ready.is_named:
        condition = {
            "_id": CONFIGURATION,
            "fingerprint": stored["fingerprint"],
            "model": stored["model"],
        }
        await BulkWrite(context.names.settings, [Update(condition, {"$set": known.settings})])
        ready.is_named = True


async def _offer(context: Context, configured: IndexSettings) -> Document | None:
    """Make a configuration that of the store unless another process is quicker; return the one that
    it has then.
    """
    setting = {"$setOnInsert": configured.settings}
    await BulkWrite(context.names.settings, [Update({"_id": CONFIGURATION}, setting, upsert=True)])
    return await stored_configuration(context)


async def check_configuration(context: Context) -> IndexSettings | None:
    """Hold the index configuration against that of the store; without a write, for users who may
    only read.

    Returns it by the names that the store knows it by.

    Raises:
        IndexMismatchError: The vectors of the store are made in another way.
    """
    if context.configured is not None and not context.readiness.is_checked(context.monotonic()):
        stored = await stored_configuration(context)
        if stored is not None:
            _agreed(context, context.configured, stored)
    return context.indexing


async def stored_configuration(context: Context) -> Document | None:
    """Read the settings that say how the vectors of a store are made; None before the first
    were.
    """
    found = await Find(context.names.settings, {"_id": CONFIGURATION}, limit=1)
    return found[0] if found else None


def _agreed(context: Context, configured: IndexSettings, stored: Document) -> IndexSettings:
    """Take in what the settings of the store say; return the configuration by the names that they
    give it.

    Raises:
        IndexMismatchError: They are of another one.
    """
    known = configured.known_by(stored)
    if known is None:
        raise mismatch(context, configured, stored)
    context.readiness.is_named = all(
        stored.get(name) == value for name, value in known.settings.items()
    )
    context.readiness.agree(known, context.monotonic())
    return known


def mismatch(context: Context, configured: IndexSettings, stored: Document) -> IndexMismatchError:
    """Tell how the vectors of the store are made, how this store is configured, and the way out."""
    ours = configured.description
    made, own = (
        ", ".join(f"{name} {shown(one.get(name))}" for name in ours) for one in (stored, ours)
    )
    return IndexMismatchError(
        f"The vectors in {context.items} were made with {made}, but this store is configured with "
        f"{own}. Use the same index configuration, or call store.reindex() to make them anew."
    )
