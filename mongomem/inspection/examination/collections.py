"""The collections: their options, indexes, times to live and schema versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from mongomem.cache.documents.entry import Collections as CacheCollections
from mongomem.cache.documents.entry import indexes_for as cache_indexes
from mongomem.cache.documents.entry import is_own_id as is_cache_id
from mongomem.checkpoint.context import ttl_of
from mongomem.checkpoint.documents.collections import EXPIRY, is_own_id
from mongomem.checkpoint.documents.collections import indexes as saver_indexes
from mongomem.checkpoint.documents.fields import SCHEMA_VERSION
from mongomem.checkpoint.plans.setup import MIGRATIONS as SAVER_MIGRATIONS
from mongomem.engine.commands import Document, Find, ListIndexes, RunCommand, as_utc
from mongomem.inspection.context import Context
from mongomem.inspection.examination.findings import Findings, look
from mongomem.inspection.presence import presence
from mongomem.inspection.statistics import collection_size
from mongomem.schema.indexes import Index
from mongomem.schema.migrations import RECORD
from mongomem.store.documents.item import indexes_for as store_indexes
from mongomem.store.documents.stored_item import is_id
from mongomem.store.plans.setup import MIGRATIONS as STORE_MIGRATIONS

SETUP = "run mongomem setup, or setup() of the memory"

OF_KEYS = ("threads_of_", "threads_once_by_")
"""What the names of those indexes begin with that `metadata_indexes` of a saver name."""

LATE = timedelta(hours=1)
"""How long the server may take to delete what has expired: its monitor runs once a minute."""

OWN_OPTIONS = ("capped", "timeseries", "viewOn", "validator", "collation")
"""Options of collections that change what a query means, or which documents are taken."""


async def examine_collections(context: Context, findings: Findings, *, may_be_new: bool) -> None:
    """Look at the collections. That there is none is a warning, unless the database may be new."""
    there = await _see_sizes(context, findings)
    if there:
        await _see_indexes(context, findings, there)
        await _see_expired(context, findings, there)
        await _see_owners(context, findings, there)
        await _see_schema(context, findings)
    else:
        await _say_empty(context, findings, may_be_new=may_be_new)


async def _see_sizes(context: Context, findings: Findings) -> list[str]:
    """Look how large the collections are, and how they were made; return those that are there."""
    there = (await presence(context.prefix)).own
    options = await look(findings, "options of collections", _options(context)) or {}
    for what, name in context.collections.items():
        if name in there:
            size = await look(findings, f"the size of {name}", collection_size(name))
            findings.facts[what] = None if size is None else size.json()
            _see_options(findings, name, options.get(name, {}))
    return [*there]


async def _say_empty(context: Context, findings: Findings, *, may_be_new: bool) -> None:
    found = await presence(context.prefix)
    tell = findings.note if may_be_new else findings.warning
    tell(
        "empty",
        f"the database {found.database!r} has no collections that begin with {context.prefix!r}"
        f"{', but of other prefixes' if found.other_prefixes else ''}",
        "--db names another database, --prefix another prefix; mongomem setup, or the first write, "
        "makes the collections",
        found.other_prefixes,
    )


async def _options(context: Context) -> dict[str, Mapping[str, Any]]:
    """Read the options of the collections, each with its kind."""
    names = [*context.collections.values()]
    reply = await RunCommand(
        {"listCollections": 1, "filter": {"name": {"$in": names}}, "cursor": {}}
    )
    found = reply["cursor"]["firstBatch"]
    return {one["name"]: one.get("options") or {} for one in found}


def _see_options(findings: Findings, name: str, options: Mapping[str, Any]) -> None:
    odd = [option for option in OWN_OPTIONS if options.get(option)]
    if odd:
        findings.error(
            "collection_options",
            f"the collection {name} was made with {', '.join(odd)}, by somebody else",
            "copy its documents into a collection without: it may lose or mix up documents",
        )


def _expected(context: Context, expire_after: int | None) -> list[Index]:
    saver = context.saver.options
    return [
        *saver_indexes(saver.collections, saver.metadata_keys, expire_after),
        *store_indexes(context.store.names),
        *cache_indexes(CacheCollections(context.prefix)),
    ]


async def _see_indexes(context: Context, findings: Findings, there: Sequence[str]) -> None:
    """Compare the indexes that are there with those that mongomem makes."""
    held: dict[str, list[Document]] = {}
    for name in there:
        found = await look(findings, f"the indexes of {name}", _indexes(name))
        if found is not None:
            held[name] = found
    expiry = _see_ttl(context, findings, held)
    expected = [one for one in _expected(context, expiry) if one.collection in held]
    for name, found in held.items():
        _compare(findings, name, [one for one in expected if one.collection == name], found)


async def _indexes(collection: str) -> list[Document]:
    return await ListIndexes(collection)


def _see_ttl(
    context: Context, findings: Findings, held: Mapping[str, Sequence[Document]]
) -> int | None:
    """Return after how many seconds unused threads expire; None where they do not."""
    pair = (context.saver.checkpoints, context.saver.writes)
    seconds = [
        next((one.get("expireAfterSeconds") for one in held[name] if one["name"] == EXPIRY), None)
        for name in pair
        if name in held
    ]
    first = seconds[0] if seconds else None
    expiry = int(first) if isinstance(first, int | float) else None
    ttl = None if expiry is None else ttl_of(expiry).total_seconds()
    findings.facts |= {"thread_ttl_seconds": ttl, "threads_expire_after_seconds": expiry}
    if len(set(seconds)) > 1:
        said = f"{' and '.join(pair)} have different times to live: {seconds}"
        findings.warning("ttl_differs", said, "run setup() of a saver with the ttl that is meant")
    return expiry


def _compare(
    findings: Findings, name: str, expected: Iterable[Index], found: Sequence[Document]
) -> None:
    by_name = {one["name"]: one for one in found}
    rows = {one.name: one for one in expected}
    missing = [one for one in rows if one not in by_name]
    other = [one for one in rows if one in by_name and not rows[one].is_made(by_name[one])]
    hidden = [one for one in rows if by_name.get(one, {}).get("hidden")]
    _say_lacking(findings, name, missing, other, hidden)
    _say_foreign(findings, name, [one for one in found if _is_foreign(one, rows)])


def _say_foreign(findings: Findings, name: str, foreign: Sequence[Document]) -> None:
    unique = [one["name"] for one in foreign if one.get("unique")]
    if unique:
        findings.error(
            "unique_index",
            f"{name} has unique indexes of others, which refuse documents",
            "drop them, or choose another collection_prefix",
            unique,
        )
    if plain := [one["name"] for one in foreign if not one.get("unique")]:
        findings.note(
            "foreign_index",
            f"{name} has indexes that mongomem does not use: each makes writes dearer",
            "drop those that no query of yours needs",
            plain,
        )


def _say_lacking(
    findings: Findings, name: str, missing: list[str], other: list[str], hidden: list[str]
) -> None:
    if missing:
        findings.warning(
            "missing_index",
            f"{name} lacks indexes: queries read all of it, and nothing of it expires",
            SETUP,
            missing,
        )
    if other:
        findings.error(
            "other_index",
            f"{name} has other indexes in the place of those that mongomem needs",
            f"drop them, then {SETUP}",
            other,
        )
    if hidden:
        findings.warning(
            "hidden_index",
            f"{name} has indexes that are hidden from queries",
            "unhide them: db.collection.unhideIndex(name)",
            hidden,
        )


def _is_foreign(index: Mapping[str, Any], rows: Mapping[str, Index]) -> bool:
    name = str(index["name"])
    return name not in rows and name not in ("_id_", EXPIRY) and not name.startswith(OF_KEYS)


async def _see_expired(context: Context, findings: Findings, there: Sequence[str]) -> None:
    """Look for items and entries that expired long ago and are there yet, by their index."""
    late = {"expires_at": {"$lt": as_utc(context.saver.now()) - LATE}}
    for name in (context.store.items, context.entries):
        if name not in there:
            continue
        found = await look(findings, f"what has expired in {name}", _first(name, late))
        if found:
            findings.warning(
                "expired",
                f"{name} has documents that expired more than an hour ago",
                "look whether the index by_expiry is there, and whether the server keeps up with "
                "deleting (ttlMonitorEnabled, load)",
            )


async def _first(collection: str, query: Document) -> list[Document]:
    return await Find(collection, query, {"_id": 1}, limit=1)


async def _see_owners(context: Context, findings: Findings, there: Sequence[str]) -> None:
    """Look for documents of others, at both ends of the order of `_id`."""
    saver = context.saver.options.collections
    owns = {
        saver.checkpoints: is_own_id,
        saver.writes: is_own_id,
        context.store.items: is_id,
        context.entries: is_cache_id,
    }
    for name in there:
        ends = await look(findings, f"the ids of {name}", _ends(name))
        if not all(owns[name](one["_id"]) for one in ends or ()):
            findings.error(
                "foreign_documents",
                f"{name} holds documents that are not mongomem's: another package uses it",
                "choose another collection_prefix or database for one of them",
            )


async def _ends(collection: str) -> list[Document]:
    return [
        document
        for direction in (1, -1)
        for document in await Find(collection, {}, {"_id": 1}, sort=[("_id", direction)], limit=1)
    ]


async def _see_schema(context: Context, findings: Findings) -> None:
    """Compare how far the schema has come with what this version knows."""
    settings = (
        (context.saver.options.collections.settings, [one.number for one in SAVER_MIGRATIONS]),
        (context.store.names.settings, [one.number for one in STORE_MIGRATIONS]),
    )
    for name, numbers in settings:
        found = await look(findings, f"the settings in {name}", _record(name))
        version = found[0].get("version") if found else None
        _see_version(findings, name, version if isinstance(version, int) else 0, numbers)


def _see_version(findings: Findings, name: str, version: int, numbers: Sequence[int]) -> None:
    known = max(numbers, default=SCHEMA_VERSION)
    if version > known:
        findings.error(
            "newer_schema",
            f"{name} says schema {version}, and this mongomem knows {known}",
            "upgrade mongomem here",
        )
    elif version < max(numbers, default=0):
        findings.warning(
            "older_schema", f"{name} says schema {version}, and {known} is current", SETUP
        )


async def _record(settings: str) -> list[Document]:
    return await Find(settings, {"_id": RECORD}, limit=1)
