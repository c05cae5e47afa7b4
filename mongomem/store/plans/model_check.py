"""Plans that check what the options of a store do not show: whether the embedder is still the
model that made the stored vectors, and whether the paths that are embedded give a text.

A function may have another body, and a server may have another model under the same name. So one
stored text is embedded again, and the result is compared with the stored vector. A path may be
misspelled, or optional.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from mongomem.arguments import shown
from mongomem.damage import UNREADABLE
from mongomem.engine.commands import Aggregate, Document, Find
from mongomem.engine.effects import EmbedDocuments
from mongomem.errors import IndexMismatchError
from mongomem.store.context import Context
from mongomem.store.documents.coverage import MANY
from mongomem.store.documents.index_config import IndexSettings
from mongomem.store.documents.item import (
    BY_ID,
    BY_UPDATE,
    ITEM_FIELDS,
    entries_in,
    name_of,
    vectors_of,
)
from mongomem.store.documents.stored_item import texts_in
from mongomem.store.plans.read import find_with_hint
from mongomem.store.vectors.quantization import Metric, Vector, normalized

logger = logging.getLogger("mongomem")

SAMPLED, MOST_READ = 50, 3
"""The first so many items are searched for items with vectors, and so many of these are read."""

LONGEST_SAMPLE = 2_000
"""Characters of a text that is embedded again."""

LIKE = 0.2
"""How far two vectors of one text may be apart, for each length one, and be of one model: a cosine
of 0.98. Rounding is far below it, also that of half precision and of other hardware; another model
of the same size is above one."""

LATEST = 200
"""A path is called a mistake if none of so many items has a text there, those updated last."""

SAMPLE_FIELDS = {**ITEM_FIELDS, "index_fields": 1, "generation": 1, "vectors": 1}


@dataclass(frozen=True, slots=True)
class Sample:
    """A text that was embedded before, its vector, and the name of its item."""

    text: str
    vector: Vector
    name: str


async def check_model(context: Context, indexing: IndexSettings) -> None:
    """Compare the embedder with the stored vectors, once in a process.

    Costs one small read and one request with one short text. An embedder that never repeats
    itself, as fakes do not, and one that refuses the text cannot be compared. Where the user named
    the model, a difference is a logged warning.

    Raises:
        IndexMismatchError: The embedder is another model under the same name.
    """
    if context.setup_state.model_checked:
        return
    sample = await _sample(context, indexing)
    if sample is not None and await _is_another_model(indexing, sample):
        error = _changed(indexing, sample)
        if indexing.embedder.identity().given is None:
            raise error
        logger.warning("mongomem: %s", error)
    context.setup_state.model_checked = True


async def _is_another_model(indexing: IndexSettings, sample: Sample) -> bool:
    """Say whether a text gets another vector than the stored one, and gets it twice: an embedder
    that does not repeat itself is not comparable.
    """
    now = await _embedded_again(indexing, sample.text)
    if now is None or _are_alike(now, sample.vector, indexing.metric):
        return False
    again = await _embedded_again(indexing, sample.text)
    return again is not None and _are_alike(now, again, indexing.metric)


def _changed(indexing: IndexSettings, sample: Sample) -> IndexMismatchError:
    model = shown(indexing.embedder.fingerprint)
    return IndexMismatchError(
        f"{model} embeds a text of {sample.name} in another way than when it was stored, "
        "though the index configuration is the same: another model answers by that name, or a "
        "function was changed. Use the former one, or make all vectors anew: "
        "store.reindex(force=True)."
    )


async def _sample(context: Context, indexing: IndexSettings) -> Sample | None:
    """Find the shortest text with a vector of this configuration, among the first items."""
    found = await _some_embedded(context, indexing)
    samples = (sample for document in found for sample in _samples(indexing, document))
    return min(samples, key=lambda sample: len(sample.text), default=None)


async def _some_embedded(context: Context, indexing: IndexSettings) -> list[Document]:
    """Read some of the first items that have vectors of a configuration."""
    ours: Document = {
        "index": indexing.fingerprint,
        "generation": indexing.generation or {"$in": [0, None]},
        "vectors": {"$nin": [None, []]},
    }
    first: list[Document] = [
        {"$match": {"_id": {"$gte": ""}}},
        {"$sort": {"_id": 1}},
        {"$limit": SAMPLED},
    ]
    some: list[Document] = [{"$match": ours}, {"$limit": MOST_READ}, {"$project": SAMPLE_FIELDS}]
    return await Aggregate(context.items, [*first, *some], hint=BY_ID)


def _samples(indexing: IndexSettings, document: Document) -> list[Sample]:
    try:
        texts = {indexing.digest(text.text): text.text for text in texts_in(document, indexing)}
    except UNREADABLE:
        return []
    vectors = vectors_of([document], indexing)
    short = (
        digest
        for digest, text in texts.items()
        if digest in vectors and len(text) <= LONGEST_SAMPLE
    )
    return [Sample(texts[digest], vectors[digest], name_of(document)) for digest in short]


async def _embedded_again(indexing: IndexSettings, text: str) -> Vector | None:
    try:
        answer: Vector = (await EmbedDocuments(indexing.embedder, [text]))[0]
    except Exception as error:  # of the embedder, which has just embedded what was asked for
        logger.debug("mongomem: a stored text could not be embedded again: %r", error)
        return None
    return answer


def _are_alike(one: Vector, other: Vector, metric: Metric) -> bool:
    """Say whether two vectors may be of one text by one model; for cosine, by their directions."""
    if one.shape != other.shape:
        return False
    if metric == "cosine":
        one, other = normalized(one), normalized(other)
    lengths = np.linalg.norm(one.astype(np.float64)), np.linalg.norm(other.astype(np.float64))
    return bool(np.linalg.norm(one.astype(np.float64) - other) <= LIKE * max(lengths))


async def warn_of_blank_paths(context: Context, least: int = MANY) -> None:
    """Warn once of each path that gave no text, neither to so many items put by this store nor to
    those updated last. An optional field is in some of these.
    """
    suspects = context.coverage.suspects(least)
    if not suspects:
        return
    found = await _paths_of_latest(context)
    for path, count in suspects.items():
        context.coverage.settle(path)
        if path not in found:
            logger.warning(
                "mongomem: none of the %d items that were to be embedded at the path %s had a text "
                "there: it embeds nothing. Is it misspelled, in the fields of the index or the "
                "index= of a put? (%s)",
                count,
                shown(path),
                context.items,
            )


async def _paths_of_latest(context: Context) -> set[Any]:
    """Read the paths that gave a text in the items updated last."""
    find = Find(
        context.items,
        {"prefixes": ""},
        {"vectors.path": 1},
        sort=[("updated_at", -1)],
        limit=LATEST,
    )
    latest = await find_with_hint(context, BY_UPDATE, find)
    return {entry.get("path") for item in latest for entry in entries_in(item)}
