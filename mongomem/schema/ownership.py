"""The plan that refuses a collection which somebody else uses, before anything is written to it.

Two packages in one collection destroy each other's data: the readers of one meet documents of the
other, and unique indexes of one refuse the documents of the other. A collection that has our
indexes was looked at when they were made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from mongomem.engine.commands import Document, Find
from mongomem.errors import ConfigurationError
from mongomem.schema.indexes import read_indexes
from mongomem.schema.names import DEFAULT_PREFIX


@dataclass(frozen=True, slots=True)
class Owned:
    """A collection, and how to know that it is ours.

    Attributes:
        prefix: What its name begins with.
        name: The rest of its name.
        index_names: The indexes that stand for a finished look at it.
        owns: Whether an ``_id`` is one that we make.
    """

    prefix: str
    name: str
    index_names: Collection[str]
    owns: Callable[[Any], bool]

    @property
    def collection(self) -> str:
        return f"{self.prefix}{self.name}"


async def check_ownership(owned: Owned) -> None:
    """Look whose a collection is, in one command where it has our indexes.

    Documents of others are found by the lowest and the highest ``_id``: BSON orders values by their
    type first, so ids of another type than ours lie at one end
    (https://www.mongodb.com/docs/manual/reference/bson-type-comparison-order/).

    Raises:
        ConfigurationError: It holds documents or unique indexes of somebody else; or it is new, and
            documents of ours stand under the name that was the default before.
    """
    indexes = await read_indexes(owned.collection) or []
    if {index["name"] for index in indexes} >= set(owned.index_names):
        return
    _check_unique(owned, indexes)
    ends = await _ends(owned.collection)
    _check_ids(owned, [end["_id"] for end in ends])
    if not ends and owned.prefix == DEFAULT_PREFIX:
        await _check_former(owned)


def _check_ids(owned: Owned, ids: Iterable[object]) -> None:
    """Refuse documents of somebody else."""
    for foreign in ids:
        if not owned.owns(foreign):
            kind = type(foreign).__name__
            raise ConfigurationError(_foreign(owned, f"documents whose _id is of type {kind}"))


async def _check_former(owned: Owned) -> None:
    """Refuse documents of ours under the name that was the default before."""
    if any(owned.owns(end["_id"]) for end in await _ends(owned.name)):
        raise ConfigurationError(_former(owned))


def _check_unique(owned: Owned, indexes: Iterable[Document]) -> None:
    """Refuse unique indexes of somebody else: they would refuse documents of ours."""
    for index in indexes:
        if index.get("unique") and index["name"] not in owned.index_names:
            raise ConfigurationError(_foreign(owned, f"the unique index {index['name']!r}"))


async def _ends(collection: str) -> list[Document]:
    """Read the documents with the lowest and the highest ``_id``, two index entries."""
    return [
        document
        for direction in (1, -1)
        for document in await Find(collection, {}, {"_id": 1}, sort=[("_id", direction)], limit=1)
    ]


def _foreign(owned: Owned, what: str) -> str:
    return (
        f"the collection {owned.collection!r} holds {what}, which are not mongomem's: another "
        f"package uses it. Pass another collection_prefix (or db_name); nothing was written"
    )


def _former(owned: Owned) -> str:
    return (
        f"documents of mongomem stand in the collection {owned.name!r}, under the names that were "
        'the default before: pass collection_prefix="" to go on with them, or rename each '
        f"collection of theirs to {DEFAULT_PREFIX}..., here {owned.collection!r}"
    )
