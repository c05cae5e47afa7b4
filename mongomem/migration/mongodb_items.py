"""Source: the documents of langgraph-store-mongodb, 0.1 to 0.4.

An item is a document with namespace (a list), key, value, created_at and updated_at. Beside them
are the vector of the item, and namespace_str since 0.3. A TTL is an index on updated_at.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from bson.min_key import MinKey

from mongomem.arguments import shown
from mongomem.engine.commands import Document, Find, ListIndexes, as_utc
from mongomem.engine.runners import runners_for
from mongomem.errors import InvalidInputError
from mongomem.migration.mongodb_threads import DB_NAME, check_collection
from mongomem.migration.parts import LeftOut, SourceItem

PAGE_SIZE = 100

ITEMS = "persistent-store"
"""What the package calls the collection unless it is told (0.1 to 0.4)."""

FIELDS: Document = {"namespace": 1, "key": 1, "value": 1, "created_at": 1, "updated_at": 1}


class MongoDBItems:
    """The items that a ``MongoDBStore`` of langgraph-store-mongodb has stored.

    Args:
        client: A ``MongoClient``.
        db_name: The database.
        items: The collection.
    """

    def __init__(self, client: Any, db_name: str = DB_NAME, items: str = ITEMS) -> None:
        self._database, self._items = db_name, items
        self._run = runners_for(client, db_name, None).run

    def check(self) -> None:
        """Look whether the collection is there.

        Raises:
            ConfigurationError: It is not.
        """
        self._run(check_collection(self._database, self._items))

    def pages(self) -> Iterator[list[SourceItem | LeftOut]]:
        ttl_minutes = self._run(self._ttl_minutes())
        page = self._run(self._page(MinKey()))
        while page:
            yield [_item(one, ttl_minutes) for one in page]
            page = self._run(self._page(page[-1]["_id"]))

    async def _page(self, last: object) -> list[Document]:
        """Read the next page in the order of ``_id``, which the package leaves to the server: an
        ObjectId each.
        """
        behind = {"_id": {"$gt": last}}
        return await Find(self._items, behind, FIELDS, sort=[("_id", 1)], limit=PAGE_SIZE)

    async def _ttl_minutes(self) -> float | None:
        for index in await ListIndexes(self._items):
            if [*index["key"]] == ["updated_at"] and "expireAfterSeconds" in index:
                return float(index["expireAfterSeconds"]) / 60
        return None


def _item(document: Document, ttl_minutes: float | None) -> SourceItem | LeftOut:
    try:
        namespace, key, value = (document[name] for name in ("namespace", "key", "value"))
        created_at, updated_at = (_time(document, name) for name in ("created_at", "updated_at"))
        return SourceItem(tuple(namespace), key, value, created_at, updated_at, ttl_minutes)
    except Exception as error:  # whatever a document is
        return LeftOut.of(f"item {shown(document.get('key'))} (_id {document['_id']})", error)


def _time(document: Document, name: str) -> datetime:
    time = document.get(name)
    if not isinstance(time, datetime):
        raise InvalidInputError(f"its {name} is no time: {shown(time)}")
    return as_utc(time)
