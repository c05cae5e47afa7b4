"""Plans: a thread from JSON.

The import lets the serializer of the saver read each value before the first write: what that does
not read, no import stores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import checked_checkpoint
from mongomem.checkpoint.documents.collections import checkpoint_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.identity import checked_identity, named
from mongomem.checkpoint.documents.thread import thread_query
from mongomem.checkpoint.documents.thread_list import Thread, check_labels
from mongomem.checkpoint.plans.load import deserialize, deserialize_body
from mongomem.checkpoint.plans.put import put
from mongomem.checkpoint.plans.put_writes import SerializedWrite, Task, store_writes
from mongomem.checkpoint.plans.threads import update_thread
from mongomem.checkpoint.serde.channels import BODY, Serialized
from mongomem.checkpoint.serde.chunks import StoredValue
from mongomem.engine.commands import BulkWrite, Update, UpdateMany
from mongomem.engine.effects import Compute
from mongomem.errors import InvalidInputError
from mongomem.transfer.json_parts import Part
from mongomem.transfer.pieces import decode_value

TASK = ("task_id", "task_path")

MOST_IDS = 10_000
"""How many ids one command names."""


@dataclass(frozen=True, slots=True)
class GivenThread:
    """A thread of a document that is imported, its parts checked as they are read."""

    part: Part
    thread_id: str
    pieces: list[bytes]

    @classmethod
    def of(cls, part: Part) -> GivenThread:
        pieces = [one.data() for one in part.member("pieces").parts()]
        return cls(part, part.member("thread_id").identifier(), pieces)

    def checkpoints(self) -> list[GivenCheckpoint]:
        """Return the checkpoints, each behind its parent."""
        parts = self.part.member("checkpoints").parts()
        given = [GivenCheckpoint.of(self.thread_id, part) for part in parts]
        return sorted(given, key=lambda one: one.ref.checkpoint_id or "")


@dataclass(frozen=True, slots=True)
class GivenCheckpoint:
    """A checkpoint of a thread that is imported; its values are decoded when they are needed."""

    part: Part
    ref: CheckpointRef
    parent_id: str | None
    hidden: bool

    @classmethod
    def of(cls, thread_id: str, part: Part) -> GivenCheckpoint:
        namespace = part.member("namespace").identifier(optional=True)
        ref = CheckpointRef(thread_id, namespace, part.member("id").identifier())
        parent, hidden = part.optional("parent_id"), part.optional("hidden")
        if hidden is not None and hidden.value is not True:
            raise hidden.wrong("true, or not there")
        return cls(part, ref, None if parent is None else parent.identifier(), hidden is not None)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A checkpoint that is imported, as the serializer reads it and as bytes; whom it names, by
    identity key; its writes by task and path.
    """

    checkpoint: Checkpoint
    metadata: Any
    users: Mapping[str, tuple[str, ...]]
    values: dict[str, Serialized]
    writes: dict[tuple[str, str], list[SerializedWrite]]


def decode(context: Context, thread: GivenThread, given: GivenCheckpoint) -> Decoded:
    """Decode a checkpoint and its writes, and let the serializer read every value.

    Raises:
        InvalidInputError: One is no value, or none that the serializer reads.
    """
    body = _Value.of(given.part.member("checkpoint"), thread)
    parts = given.part.member("channels").members()
    channels = {name: _Value.of(part, thread) for name, part in parts}
    bare, metadata = _body(context, given, body)
    values = {name: one.deserialized(context, given) for name, one in channels.items()}
    with _named_errors(given.part):
        checkpoint = checked_checkpoint({**bare, "channel_values": values})
        users = named({}, metadata, context.options.metadata_keys).by_key
    serialized = {name: one.serialized for name, one in {BODY: body, **channels}.items()}
    return Decoded(checkpoint, metadata, users, serialized, _writes(context, thread, given))


@contextmanager
def _named_errors(part: Part) -> Iterator[None]:
    """Name the part in an `InvalidInputError` about it."""
    try:
        yield
    except InvalidInputError as error:
        raise part.named(error) from error


def _body(
    context: Context, given: GivenCheckpoint, value: _Value
) -> tuple[Checkpoint, CheckpointMetadata]:
    """Let the serializer read the body of a checkpoint.

    Raises:
        InvalidInputError: It is none, or that of another checkpoint.
    """
    try:
        checkpoint, metadata = deserialize_body(context, given.ref, value.stored, value.data)
    except Exception as error:
        raise value.part.named(error) from error
    if checkpoint.get("id") != given.ref.checkpoint_id:
        raise value.part.wrong(f"checkpoint {shown(given.ref.checkpoint_id)}")
    return checkpoint, metadata


@dataclass(frozen=True, slots=True)
class _Value:
    """A serialized value of a document that is imported."""

    part: Part
    serialized: Serialized

    @classmethod
    def of(cls, part: Part, thread: GivenThread) -> _Value:
        return cls(part, decode_value(part, thread.pieces))

    @property
    def data(self) -> bytes:
        return self.serialized[1]

    @property
    def stored(self) -> StoredValue:
        kind, data = self.serialized
        return StoredValue(kind, data, (), len(data))

    def deserialized(self, context: Context, given: GivenCheckpoint) -> Any:
        """Let the serializer read the value.

        Raises:
            InvalidInputError: It does not.
        """
        try:
            return deserialize(context, given.ref, self.stored, self.data)
        except Exception as error:
            raise self.part.named(error) from error


def _writes(
    context: Context, thread: GivenThread, given: GivenCheckpoint
) -> dict[tuple[str, str], list[SerializedWrite]]:
    """Return the writes of a checkpoint by task and path."""
    found: dict[tuple[str, str], list[SerializedWrite]] = {}
    for part in given.part.member("writes").parts():
        value = _Value.of(part.member("value"), thread)
        value.deserialized(context, given)
        task, path = (part.member(name).identifier(optional=True) for name in TASK)
        found.setdefault((task, path), []).append(_write(part, value))
    return found


def _write(part: Part, value: _Value) -> SerializedWrite:
    idx, channel = part.member("idx").number(-(2**31)), part.member("channel").identifier()
    return SerializedWrite(idx, channel, value.serialized)


async def check_thread(context: Context, thread: GivenThread) -> None:
    """Decode everything of a thread that is imported, and keep nothing. Writes nothing.

    Raises:
        InvalidInputError: Something cannot be imported. Names it.
    """
    for name in ("created_at", "updated_at"):
        thread.part.member(name).time()
    _check_labels(context, thread.part.member("labels"))
    for key, users in thread.part.member("users").members():
        for user in users.parts():
            user.checked(partial(checked_identity, key, user.text()), "a user")
    for given in thread.checkpoints():
        await Compute(partial(decode, context, thread, given))


def _check_labels(context: Context, labels: Part) -> None:
    with _named_errors(labels):
        check_labels(labels.object(), context.options.metadata_keys, context.clear_metadata)


async def import_thread(
    context: Context, thread: GivenThread, user_key: str, user_id: str, before: Thread | None
) -> None:
    """Store a thread that was checked: checkpoints, each behind its parent, then what the thread
    shows. Repeating it finishes what was cut short.

    Args:
        context: What every plan of the saver is given.
        thread: The thread.
        user_key: The metadata key that names its user.
        user_id: The user, whose the thread is afterwards.
        before: The thread of that id as it was before, None where there was none.
    """
    given, known = thread.checkpoints(), {user_key: {user_id}}
    for one in given:
        decoded: Decoded = await Compute(partial(decode, context, thread, one))
        await _store(context, one, decoded, {user_key: user_id})
        for key, users in decoded.users.items():
            known.setdefault(key, set()).update(users)
    await _hide(context, given)
    await _label(context, thread, known)
    await _date(context, thread, before)
    context.caches.invalidate_thread(thread.thread_id)


async def _date(context: Context, thread: GivenThread, before: Thread | None) -> None:
    """Give a thread the times that it had, or those of one that was there where they span more."""
    created_at, updated_at = (
        thread.part.member(name).time() for name in ("created_at", "updated_at")
    )
    if before is not None:
        created_at = min(created_at, before.created_at)
        updated_at = max(updated_at, before.updated_at)
    times = {"created_at": created_at, "updated_at": updated_at}
    await BulkWrite(context.checkpoints, [Update(thread_query(thread.thread_id), {"$set": times})])


async def _store(
    context: Context, given: GivenCheckpoint, decoded: Decoded, user: Mapping[str, str]
) -> None:
    """Store a checkpoint on its parent, then its writes. The thread is the user's from its first
    checkpoint on, also where the checkpoints name nobody: else a thread that was cut short would be
    nobody's.
    """
    config = given.ref.at(given.parent_id).config()
    config["configurable"] |= {key: one for key, one in user.items() if not decoded.users.get(key)}
    await put(context, config, decoded.checkpoint, decoded.metadata, decoded.values)
    for (task, path), writes in decoded.writes.items():
        await store_writes(context, Task(given.ref, task, path), writes)


async def _hide(context: Context, given: Sequence[GivenCheckpoint]) -> None:
    """Hide what was hidden, and say on its children that their parent is."""
    hidden = {one.ref for one in given if one.hidden}
    children = [one.ref for one in given if one.ref.at(one.parent_id) in hidden]
    await _mark(context, [*hidden], "hidden")
    await _mark(context, children, "parent_is_hidden")


async def _mark(context: Context, places: Sequence[CheckpointRef], flag: str) -> None:
    """Set a flag of checkpoints, so many as one command names at a time."""
    keys = [checkpoint_doc_id(place) for place in places]
    for start in range(0, len(keys), MOST_IDS):
        condition = {"_id": {"$in": keys[start : start + MOST_IDS]}}
        await UpdateMany(context.checkpoints, condition, {"$set": {flag: True}})


async def _label(
    context: Context, thread: GivenThread, known: Mapping[str, Collection[str]]
) -> None:
    """Give a thread its labels, and the users whom it does not know yet."""
    told = {key: part.texts() for key, part in thread.part.member("users").members()}
    for key in context.options.metadata_keys:
        for user in told.get(key, []):
            if user not in known.get(key, ()):
                await update_thread(context, thread.thread_id, {key: user})
    if labels := thread.part.member("labels").object():
        await update_thread(context, thread.thread_id, labels)
