"""Plans: the items below a namespace as JSON, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import bson
from langgraph.store.base import PutOp

from mongomem.engine.commands import (
    BulkWrite,
    Document,
    Find,
    Update,
    slices,
)
from mongomem.store.context import Context
from mongomem.store.documents.item import BY_ID, ITEM_FIELDS, entries_in
from mongomem.store.documents.namespace import Namespace, id_range, item_id, path_of
from mongomem.store.documents.ops import group_ops
from mongomem.store.documents.stored_item import StoredItem, sound_items
from mongomem.store.documents.value import decode_value, encode_value
from mongomem.store.plans.batch import batch
from mongomem.transfer.json_parts import Part
from mongomem.transfer.pieces import base64_of

PAGE_SIZE = 100
"""How many items are read or written at a time."""

LONGEST_INTEGER = 4096
"""In bits. Python writes no integer of more than 4,300 digits (``sys.set_int_max_str_digits``)."""


async def export_items(context: Context, namespace: Namespace) -> list[dict[str, Any]]:
    """Return the items below a namespace as JSON, in the order of their ids. Damaged ones are left
    out, and those that have expired.
    """
    found: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        page = await item_page(context, namespace, after, len(namespace))
        found += page.items
        if (after := page.last) is None:
            return found


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Items as JSON.

    Attributes:
        items: They.
        damaged: The ids of those that are left out.
        last: The id of the last that was read; None where there are no more.
    """

    items: list[dict[str, Any]]
    damaged: list[str]
    last: str | None


async def item_page(
    context: Context,
    namespace: Namespace,
    after: str | None,
    depth: int = 0,
    limit: int = PAGE_SIZE,
) -> ItemPage:
    """Return the next items below a namespace as JSON, in the order of their ids. Those that have
    expired are left out.

    Args:
        context: What every plan of the store is given.
        namespace: The namespace; empty for all.
        after: The id of the last item of the page before.
        depth: How many labels of their namespaces are left out.
        limit: How many are read at most.
    """
    condition: Document = {**id_range(namespace), **({} if after is None else {"$gt": after})}
    shown = {**ITEM_FIELDS, "index_fields": 1, "vectors.path": 1}
    page = await Find(
        context.items, {"_id": condition}, shown, sort=[("_id", 1)], limit=limit, hint=BY_ID
    )
    sound = sound_items(page, context.damage)
    documents, now = {one["_id"]: one for one in page}, context.now()
    items = [
        _item_json(stored, documents[stored.id], depth)
        for stored in sound
        if not context.expiry.has_expired(stored.expires_at, now)
    ]
    damaged = sorted(documents.keys() - {stored.id for stored in sound})
    return ItemPage(items, damaged, page[-1]["_id"] if len(page) == limit else None)


def _item_json(stored: StoredItem, document: Document, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "namespace": [*stored.namespace[depth:]],
        "key": stored.fields["key"],
        "value": _readable(stored.value),
        "created_at": stored.fields["created_at"].isoformat(),
        "updated_at": stored.updated_at.isoformat(),
        **_given({"encoded": _exact(stored.value), "ttl_minutes": stored.ttl_minutes}),
    }
    return made | _given(
        {"index": document.get("index_fields"), "embedded": bool(entries_in(document)) or None}
    )


def _given(optional: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is not None."""
    return {name: one for name, one in optional.items() if one is not None}


def _exact(value: dict[str, Any]) -> str | None:
    """Return a value as BSON in base64; None for one that JSON holds as it is."""
    if _is_json(value):
        return None
    return base64_of(bytes_of(value))


def _is_json(value: object) -> bool:
    """Say whether JSON gives a value back as it is."""
    if isinstance(value, dict):
        return all(_is_json(element) for element in value.values())
    if isinstance(value, list):
        return all(_is_json(element) for element in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return value.bit_length() <= LONGEST_INTEGER
    return value is None or isinstance(value, str)


def _readable(value: Any) -> Any:
    """Return a value as JSON can say it."""
    if isinstance(value, dict):
        return {key: _readable(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(element) for element in value]
    if isinstance(value, bytes):
        return base64_of(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if _is_json(value):
        return value
    return hex(value) if isinstance(value, int) else str(value)


@dataclass(frozen=True, slots=True)
class GivenItem:
    """An item with its times, checked.

    Attributes:
        op: What puts it.
        created_at: When it was stored first.
        updated_at: When it was stored last.
        was_embedded: Whether it had vectors where it comes from.
    """

    op: PutOp
    created_at: datetime
    updated_at: datetime
    was_embedded: bool = False

    @classmethod
    def of(cls, part: Part, namespace: Namespace, now: datetime) -> GivenItem:
        """Read an item of a document that is imported.

        Raises:
            InvalidInputError: It cannot be stored.
        """
        op = _put_op(part, namespace)
        try:
            group_ops([op], None)
        except Exception as error:
            raise part.named(error) from error
        created, updated = (
            part.member(name).past_time(now) for name in ("created_at", "updated_at")
        )
        embedded = part.optional("embedded")
        return cls(op, created, updated, embedded is not None and embedded.flag())

    @property
    def id(self) -> str:
        """The id of the item in the store."""
        return item_id(self.op.namespace, self.op.key)

    def times(self) -> Update:
        """Return the write that gives the item the times that it had."""
        place = {"_id": self.id, "path": path_of(self.op.namespace)}
        times = {"created_at": self.created_at, "updated_at": self.updated_at}
        stamp = {"changed_at": {"$type": "timestamp"}}
        return Update(place, {"$set": times, "$currentDate": stamp})


def _put_op(part: Part, namespace: Namespace) -> PutOp:
    """Return the operation that puts an item below a namespace."""
    below, key = part.member("namespace").texts(), part.member("key").text()
    ttl, index = part.optional("ttl_minutes"), part.optional("index")
    return PutOp(
        (*namespace, *below),
        key,
        _value(part),
        None if index is None else index.value,
        None if ttl is None else ttl.value,
    )


def _value(part: Part) -> dict[str, Any]:
    """Return the value of an item: what is encoded, else what stands there as JSON."""
    if (encoded := part.optional("encoded")) is None:
        return part.member("value").object()
    try:
        held = bson.decode(encoded.data())
        return decode_value(held["readable"], held["exact"])
    except Exception as error:
        raise encoded.wrong("an encoded value") from error


def given_items(parts: Iterable[Part], namespace: Namespace, now: datetime) -> list[GivenItem]:
    """Check the items of a document that is imported, for a namespace; return each once.

    Raises:
        InvalidInputError: One cannot be stored. Names it.
    """
    return newest_of([GivenItem.of(part, namespace, now) for part in parts])


def newest_of(given: Iterable[GivenItem]) -> list[GivenItem]:
    """Return each item once: of several the one that was updated last, and of those the last one.
    An item that is there already is replaced by the same rule, see `import_items`.
    """
    newest: dict[str, GivenItem] = {}
    for one in given:
        before = newest.get(one.id)
        if before is None or _cut(before.updated_at) <= one.updated_at:
            newest[one.id] = one
    return [*newest.values()]


async def import_items(context: Context, items: Sequence[GivenItem]) -> list[GivenItem]:
    """Store items with the times that they had, each of them once; return those that were stored.
    One that is there is replaced, unless it was updated later. An item that expires lives its time
    from now on.
    """
    stored: list[GivenItem] = []
    for page in slices(items, PAGE_SIZE):
        newer = await _newer(context, page)
        due = [one for one in page if one.id not in newer]
        if due:
            await batch(context, [one.op for one in due])
            await BulkWrite(context.items, [one.times() for one in due], ordered=False)
        stored += due
    return stored


def without_vectors(context: Context, stored: Iterable[GivenItem]) -> int:
    """Count the items that had vectors where they come from, and have none here."""
    return 0 if context.indexing is not None else sum(one.was_embedded for one in stored)


async def _newer(context: Context, given: Sequence[GivenItem]) -> set[str]:
    """Return the ids of the items that are there, were updated later, and have another value. With
    the same value it may be one of an import that was cut short before it gave it its times.
    """
    page = await Find(context.items, {"_id": {"$in": [one.id for one in given]}}, ITEM_FIELDS)
    now, by_id = context.now(), {one.id: one for one in given}
    return {
        stored.id
        for stored in sound_items(page, context.damage)
        if stored.updated_at > by_id[stored.id].updated_at
        and not context.expiry.has_expired(stored.expires_at, now)
        and bytes_of(stored.value) != bytes_of(by_id[stored.id].op.value)
    }


def bytes_of(value: Mapping[str, Any] | None) -> bytes:
    """Return what is the same for the same values, of the same types."""
    encoded = encode_value(value or {}, "value")
    return bson.encode({"readable": encoded.readable, "exact": encoded.exact})


async def unchanged_ids(context: Context, given: Sequence[GivenItem]) -> set[str]:
    """Return the ids of the items that the store has as they are given."""
    ids = [one.id for one in given]
    page = await Find(context.items, {"_id": {"$in": ids}}, ITEM_FIELDS) if ids else []
    stored = {one.id: one for one in sound_items(page, context.damage)}
    return {one.id for one in given if one.id in stored and _is_same(one, stored[one.id])}


def _is_same(one: GivenItem, stored: StoredItem) -> bool:
    return is_same_time(one.updated_at, stored.updated_at) and bytes_of(one.op.value) == bytes_of(
        stored.value
    )


def is_same_time(one: datetime, other: datetime) -> bool:
    """Compare times as BSON holds them, in milliseconds."""
    return _cut(one) == _cut(other)


def _cut(time: datetime) -> datetime:
    return time.replace(microsecond=time.microsecond // 1000 * 1000)
