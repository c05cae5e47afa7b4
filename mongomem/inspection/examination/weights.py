"""What makes threads and searches slow: long histories, large channels, vectors that are not
current.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mongomem.checkpoint.documents.collections import THREAD
from mongomem.checkpoint.documents.thread_list import ORDER
from mongomem.checkpoint.plans.load import read_checkpoints
from mongomem.damage import UNREADABLE
from mongomem.engine.commands import Aggregate, Document, Find
from mongomem.errors import ConfigurationError
from mongomem.inspection.context import Context
from mongomem.inspection.examination.findings import MOST_MILLISECONDS, Findings, look
from mongomem.inspection.history import checkpoint_documents
from mongomem.inspection.plain_values import text_of_bytes
from mongomem.inspection.sizes import ThreadSize, sizes_of
from mongomem.store.documents.item import name_of
from mongomem.store.plans.setup import stored_config
from mongomem.store.words.stored_terms import are_terms, mark_of

NEWEST_THREADS = 100
"""How many threads are weighed: those in use are the newest."""

MOST_NAMED = 5

MANY_CHECKPOINTS, LARGE_THREAD = 1_000, 100 * 2**20
"""From where on a thread is worth pruning."""

LARGE_CHANNEL, HUGE_CHANNEL = 2**20, 16 * 2**20
"""From where on a value is dear: every step that changes it serializes it anew, and every resume
reads it."""

SAMPLED_ITEMS = 1_000

LARGE_ITEM = 2**20

SEARCHED_FIELDS = ("index", "generation", "codes", "terms", "index_fields")


async def examine_weights(context: Context, findings: Findings) -> None:
    """Look at the newest threads, and at a sample of items."""
    threads = await look(findings, "the list of threads", _newest_threads(context))
    names = [one for one in threads or () if isinstance(one, str)]
    sizes = await look(findings, "what threads hold", sizes_of(context, names, MOST_MILLISECONDS))
    if sizes is None and names:
        findings.unseen("what threads hold", f"it takes more than {MOST_MILLISECONDS // 1000} s")
    _see_long_threads(findings, sizes or {})
    _see_large_threads(findings, sizes or {})
    await look(findings, "channels", _see_channels(context, findings, sizes or {}))
    await look(findings, "items", _see_items(context, findings))


async def _newest_threads(context: Context) -> list[Any]:
    query: Document = {"type": THREAD, "deleted_at": None}
    found = await Find(
        context.saver.checkpoints, query, {"thread_id": 1}, sort=ORDER, limit=NEWEST_THREADS
    )
    return [one.get("thread_id") for one in found]


def _see_long_threads(findings: Findings, sizes: Mapping[str, ThreadSize]) -> None:
    long = {name: one for name, one in sizes.items() if one.checkpoints > MANY_CHECKPOINTS}
    if long:
        findings.note(
            "long_history",
            f"{len(long)} of the {len(sizes)} newest threads have more than "
            f"{MANY_CHECKPOINTS:,} checkpoints",
            "keep the last ones that are needed: mongomem prune, or prune(keep_last=...)",
            [f"{name} ({one.checkpoints:,})" for name, one in _largest(long, "checkpoints")],
        )


def _see_large_threads(findings: Findings, sizes: Mapping[str, ThreadSize]) -> None:
    large = {name: one for name, one in sizes.items() if one.stored > LARGE_THREAD}
    if large:
        findings.warning(
            "large_thread",
            f"{len(large)} of the {len(sizes)} newest threads take more than "
            f"{text_of_bytes(LARGE_THREAD)}",
            "mongomem stats THREAD tells which channel it is; prune it, or keep large values "
            "outside of the state",
            [f"{name} ({text_of_bytes(one.stored)})" for name, one in _largest(large, "stored")],
        )


def _largest(sizes: Mapping[str, ThreadSize], by: str) -> list[tuple[str, ThreadSize]]:
    return sorted(sizes.items(), key=lambda one: -getattr(one[1], by))[:MOST_NAMED]


async def _see_channels(
    context: Context, findings: Findings, sizes: Mapping[str, ThreadSize]
) -> None:
    """Look how long the values of the largest threads are now."""
    found: dict[str, int] = {}
    for name, _ in _largest(sizes, "logical"):
        documents = await checkpoint_documents(context, name, "", 1)
        for channel, size in await _channel_sizes(context, documents):
            if size > LARGE_CHANNEL:
                found[f"{channel} of {name} ({text_of_bytes(size)})"] = size
    if found:
        _say_channels(findings, found)


def _say_channels(findings: Findings, found: Mapping[str, int]) -> None:
    say = findings.warning if max(found.values()) > HUGE_CHANNEL else findings.note
    say(
        "large_channel",
        f"channels are larger than {text_of_bytes(LARGE_CHANNEL)}: each step that changes one "
        "serializes all of it, each resume reads it",
        "trim or summarize long lists, and keep files outside of the state",
        sorted(found, key=lambda one: -found[one])[:MOST_NAMED],
    )


async def _channel_sizes(context: Context, documents: Sequence[Document]) -> list[tuple[str, int]]:
    try:
        stored = await read_checkpoints(context.saver, documents)
    except (*UNREADABLE, ConfigurationError):  # told by the samples
        return []
    return [(name, value.size) for one in stored for name, value in one.channels.items()]


@dataclass(slots=True)
class _ItemsSeen:
    """What a sample of items shows, by names."""

    count: int = 0
    large: list[str] = field(default_factory=list)
    other_vectors: list[str] = field(default_factory=list)
    no_vectors: list[str] = field(default_factory=list)
    no_terms: list[str] = field(default_factory=list)


async def _see_items(context: Context, findings: Findings) -> None:
    """Look at a sample of items: how large they are, and whether searches find them."""
    settings = await stored_config(context.store)
    findings.facts["index"] = _described(settings)
    fields = dict.fromkeys(SEARCHED_FIELDS, 1) | {"size": {"$bsonSize": "$$ROOT"}}
    seen = _ItemsSeen()
    for document in await Aggregate(
        context.store.items,
        [{"$sample": {"size": SAMPLED_ITEMS}}, {"$project": fields}],
        most_milliseconds=MOST_MILLISECONDS,
    ):
        _see_item(seen, document, settings or {})
    _say_items(findings, seen)


def _described(settings: Mapping[str, Any] | None) -> dict[str, Any] | None:
    shown = ("model", "dims", "fields", "metric", "analyser")
    return None if settings is None else {name: settings.get(name) for name in shown}


def _see_item(seen: _ItemsSeen, document: Document, settings: Mapping[str, Any]) -> None:
    seen.count += 1
    if document["size"] > LARGE_ITEM:
        seen.large.append(name_of(document))
    if "fingerprint" not in settings or document.get("index_fields") is False:
        return
    if "index" not in document:
        seen.no_vectors.append(name_of(document))
    elif not _has_current_vectors(document, settings):
        seen.other_vectors.append(name_of(document))
    elif not _has_current_terms(document, settings):
        seen.no_terms.append(name_of(document))


def _has_current_vectors(document: Document, settings: Mapping[str, Any]) -> bool:
    current = settings["fingerprint"], settings.get("generation", 0)
    return (document["index"], document.get("generation", 0)) == current


def _has_current_terms(document: Document, settings: Mapping[str, Any]) -> bool:
    """Say whether the words of an item count in searches, as far as it has a text at all."""
    if not settings.get("analyser") or "codes" not in document:
        return True
    mark = mark_of(str(settings["analyser"]))
    return are_terms(document.get("terms"), mark, document["codes"])


def _say_items(findings: Findings, seen: _ItemsSeen) -> None:
    for code, what, names in _shortcomings(seen):
        if names:
            findings.warning(
                code,
                f"{len(names)} of {seen.count} items looked at {what}",
                "run mongomem reindex, or reindex() of the store",
                names[:MOST_NAMED],
            )
    if seen.large:
        findings.note(
            "large_item",
            f"{len(seen.large)} of {seen.count} items looked at are larger than "
            f"{text_of_bytes(LARGE_ITEM)}",
            "keep files outside of the store: every search that returns one reads all of it",
            seen.large[:MOST_NAMED],
        )


def _shortcomings(seen: _ItemsSeen) -> Iterator[tuple[str, str, list[str]]]:
    yield (
        "other_vectors",
        "have vectors of another model or configuration, and follow unscored in searches",
        seen.other_vectors,
    )
    yield (
        "no_vectors",
        "were stored without an index, and follow unscored in searches",
        seen.no_vectors,
    )
    yield (
        "no_terms",
        "are not searched by their words: they were stored before that, or for another language",
        seen.no_terms,
    )
