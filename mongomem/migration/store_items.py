"""Source: any LangGraph store, by its public methods."""

from __future__ import annotations

from collections.abc import Iterator

from langgraph.store.base import BaseStore, SearchItem
from pymongo.errors import PyMongoError

from mongomem.arguments import shown
from mongomem.migration.parts import LeftOut, SourceItem
from mongomem.store.documents.value import as_utc

PAGE_SIZE = 100

UNREACHABLE = (PyMongoError, OSError)
"""Errors that say nothing of what was to be read."""


class StoreItems:
    """The items of any store, namespace by namespace.

    Nothing may write to the store meanwhile: pages of some stores shift then. A page is followed by
    the next until one is empty, also a short one. That of langgraph-store-mongodb has no pages and
    cuts lists of namespaces before it makes them distinct (0.4): of it what may be missing is
    named, and `MongoDBItems` reads it whole.
    """

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    def pages(self) -> Iterator[list[SourceItem | LeftOut]]:
        namespaces, lost = self._namespaces()
        for namespace in namespaces:
            yield from self._pages_of(namespace)
        yield lost

    def _namespaces(self) -> tuple[list[tuple[str, ...]], list[SourceItem | LeftOut]]:
        found: list[tuple[str, ...]] = []
        try:
            while page := self._store.list_namespaces(limit=PAGE_SIZE, offset=len(found)):
                found += [tuple(one) for one in page]
        except UNREACHABLE:
            raise
        except Exception as error:  # whatever a store does
            return found, [LeftOut.of(f"namespaces behind the first {len(found)}", error)]
        return found, []

    def _pages_of(self, namespace: tuple[str, ...]) -> Iterator[list[SourceItem | LeftOut]]:
        """Give the items of a namespace. A search also finds those of the namespaces below it,
        which come with theirs. It is not to refresh a TTL: that would write.
        """
        offset = 0
        try:
            while found := self._store.search(
                namespace, limit=PAGE_SIZE, offset=offset, refresh_ttl=False
            ):
                offset += len(found)
                yield [_item(one) for one in found if tuple(one.namespace) == namespace]
        except UNREACHABLE:
            raise
        except Exception as error:  # whatever a store does
            yield [LeftOut.of(f"items of {shown(namespace)} behind the first {offset}", error)]


def _item(one: SearchItem) -> SourceItem | LeftOut:
    try:
        created_at, updated_at = as_utc(one.created_at), as_utc(one.updated_at)
        return SourceItem(tuple(one.namespace), one.key, one.value, created_at, updated_at)
    except Exception as error:  # whatever a store gives for an item
        return LeftOut.of(f"item {shown(one.key)} in {shown(one.namespace)}", error)
