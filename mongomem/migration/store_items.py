"""Source: any LangGraph store, by its public methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from langgraph.store.base import BaseStore, SearchItem

from mongomem.arguments import shown
from mongomem.engine.commands import as_utc
from mongomem.migration.lost_sources import raise_if_lost
from mongomem.migration.parts import LeftOut, SourceItem

PAGE_SIZE = 100

DIGEST_BYTES = 16
"""By which the items of a namespace are known that were met."""


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
        except Exception as error:  # whatever a store does
            raise_if_lost(error)
            return found, [LeftOut.of(f"namespaces behind the first {len(found)}", error)]
        return found, []

    def _pages_of(self, namespace: tuple[str, ...]) -> Iterator[list[SourceItem | LeftOut]]:
        """Give the items of a namespace.

        A store may put items that were updated at the same time in another order for each page
        (langgraph-checkpoint-postgres 3.2): then it gives some twice and others never. Where one
        came twice, all are asked for once more, at once.
        """
        offset, met = 0, set[bytes]()
        try:
            while found := self._search(namespace, PAGE_SIZE, offset):
                offset += len(found)
                yield _new_of(namespace, found, met)
            if len(met) < offset:
                yield _new_of(namespace, self._search(namespace, offset, 0), met)
        except Exception as error:  # whatever a store does
            raise_if_lost(error)
            yield [LeftOut.of(f"items of {shown(namespace)} behind the first {offset}", error)]

    def _search(self, namespace: tuple[str, ...], limit: int, offset: int) -> Sequence[SearchItem]:
        """Search without refreshing a TTL: that would write."""
        return self._store.search(namespace, limit=limit, offset=offset, refresh_ttl=False)


def _new_of(
    namespace: tuple[str, ...], found: Sequence[SearchItem], met: set[bytes]
) -> list[SourceItem | LeftOut]:
    """Return those of a page that are of a namespace and were not met before. A search also finds
    items of the namespaces below it, which come with theirs.
    """
    new = []
    for one in found:
        named = repr((tuple(one.namespace), one.key)).encode()
        digest = blake2b(named, digest_size=DIGEST_BYTES).digest()
        if digest not in met and tuple(one.namespace) == namespace:
            new.append(_item(one))
        met.add(digest)
    return new


def _item(one: SearchItem) -> SourceItem | LeftOut:
    try:
        created_at, updated_at = as_utc(one.created_at), as_utc(one.updated_at)
        return SourceItem(tuple(one.namespace), one.key, one.value, created_at, updated_at)
    except Exception as error:  # whatever a store gives for an item
        return LeftOut.of(f"item {shown(one.key)} in {shown(one.namespace)}", error)
