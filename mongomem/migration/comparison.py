"""Both sides, read and compared: the source as it was read for the copy, the target by the methods
that an application calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import GetOp, Item

from mongomem.arguments import shown
from mongomem.checkpoint.saver import MongoSaver
from mongomem.migration.item_copies import given_item
from mongomem.migration.parts import (
    ItemSource,
    LeftOut,
    SourceCheckpoint,
    SourceItem,
    SourceThread,
    ThreadSource,
    behind_parents,
    parted,
)
from mongomem.migration.report import Report
from mongomem.store.store import MongoStore
from mongomem.transfer.memories import bytes_of, is_same_time

SERIALIZER = JsonPlusSerializer()
ABSENT = object()
NOT_THERE = "it is not in the target"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a target has of a source.

    What the target has beside that is no difference. What cannot be read is none either: the copy
    has named it.

    Attributes:
        report: What is told of it.
        tell: Is called after each step.
    """

    report: Report
    tell: Callable[[], None] = lambda: None

    def threads(self, source: ThreadSource, saver: MongoSaver) -> None:
        """Compare every checkpoint. A saver that remembers nothing shows what the database has."""
        for thread in source.threads():
            if not isinstance(thread, LeftOut):
                self._thread(thread, source, saver)

    def _thread(self, thread: SourceThread, source: ThreadSource, saver: MongoSaver) -> None:
        places, _ = parted(source.places(thread))
        for one in source.read(thread, behind_parents(places)):
            if not isinstance(one, LeftOut):
                found = _target(saver, one)
                self._add(one.place.ref, checkpoint_differences(one, found))
                self.tell()

    def items(self, source: ItemSource, store: MongoStore) -> None:
        """Compare every item."""
        for page in source.pages():
            read, _ = parted(page)
            self._page(
                [one for one in read if not isinstance(given_item(store, one), LeftOut)], store
            )
            self.tell()

    def _page(self, items: Sequence[SourceItem], store: MongoStore) -> None:
        found = store.batch([GetOp(one.namespace, one.key, False) for one in items])
        for one, stored in zip(items, found, strict=True):
            self._add(one, item_differences(one, stored))

    def _add(self, what: object, differences: Iterator[str]) -> None:
        self.report.compared += 1
        if told := [*differences]:
            self.report.differences.add([LeftOut(str(what), "; ".join(told))])


def _target(saver: MongoSaver, one: SourceCheckpoint) -> CheckpointTuple | Exception | None:
    try:
        return saver.get_tuple(one.place.ref.config())
    except ValueError as error:  # what is damaged, is named
        return error


def checkpoint_differences(
    one: SourceCheckpoint, found: CheckpointTuple | Exception | None
) -> Iterator[str]:
    """Name what a checkpoint of the target has not as the source has it."""
    if not isinstance(found, CheckpointTuple):
        yield NOT_THERE if found is None else str(found)
        return
    parent = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    if parent != one.place.parent_id:
        yield f"its parent is {shown(parent)}, and was {shown(one.place.parent_id)}"
    yield from _checkpoint_differences(one.checkpoint, found.checkpoint)
    yield from _differing("metadata", one.metadata, found.metadata)
    yield from _differing("writes of", _writes(one), _stored_writes(found))
    if _in_another_order(one, found):
        yield "the order of its writes"


def _in_another_order(one: SourceCheckpoint, found: CheckpointTuple) -> bool:
    """Say whether the tasks whose writes both sides have come in another order."""
    own = dict.fromkeys(write.task_id for write in one.writes)
    stored = dict.fromkeys(task_id for task_id, _, _ in found.pending_writes or ())
    return [task for task in stored if task in own] != [task for task in own if task in stored]


def _checkpoint_differences(own: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    values, stored = own.get("channel_values") or {}, other.get("channel_values") or {}
    yield from _differing("channel", values, stored)
    fields = {name: value for name, value in own.items() if name != "channel_values"}
    yield from _differing("field", fields, other)


def _differing(what: str, own: Any, other: Any) -> Iterator[str]:
    """Name the keys under which something else stands."""
    for key, value in own.items():
        if not is_same(value, other.get(key, ABSENT)):
            yield f"{what} {shown(key)}"


def _writes(one: SourceCheckpoint) -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for write in one.writes:
        found.setdefault((write.task_id, write.channel), []).append(write.value)
    return found


def _stored_writes(tuple_: CheckpointTuple) -> Mapping[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for task_id, channel, value in tuple_.pending_writes or ():
        found.setdefault((task_id, channel), []).append(value)
    return found


def is_same(value: Any, other: Any) -> bool:
    """Say whether two values are serialized alike, or are equal and of one type."""
    try:
        if SERIALIZER.dumps_typed(value) == SERIALIZER.dumps_typed(other):
            return True
    except Exception:  # noqa: S110 (what is not serialized is compared by itself)
        pass
    try:
        return type(value) is type(other) and bool(value == other)
    except Exception:  # whatever the class of a value does
        return False


def item_differences(one: SourceItem, found: Any) -> Iterator[str]:
    """Name what an item of the target has not as the source has it."""
    if not isinstance(found, Item):
        yield NOT_THERE
        return
    if bytes_of(one.value) != bytes_of(found.value):
        yield "value"
    for name in ("created_at", "updated_at"):
        if not is_same_time(getattr(one, name), getattr(found, name)):
            yield name
