"""Plans: a thread from JSON.

The import lets the serializer of the saver read each value before the first write: what that does
not read, no import stores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import checked_checkpoint
from mongomem.checkpoint.documents.collections import CHECKPOINT, checkpoint_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.identity import (
    MOST_MEMBERS,
    Members,
    checked_identity,
    named_metadata,
)
from mongomem.checkpoint.documents.thread import read_members, thread_query
from mongomem.checkpoint.documents.thread_list import (
    Thread,
    check_labels,
    checked_labels,
    label_change,
    read_listed,
)
from mongomem.checkpoint.plans.load import deserialize, deserialize_body
from mongomem.checkpoint.plans.put import put
from mongomem.checkpoint.plans.put_writes import SerializedWrite, Task, store_writes
from mongomem.checkpoint.plans.thread_state import read_state
from mongomem.checkpoint.plans.threads import update_thread
from mongomem.checkpoint.serde.channels import BODY, Serialized
from mongomem.checkpoint.serde.chunks import StoredValue
from mongomem.engine.commands import (
    IDS_PER_COMMAND,
    BulkWrite,
    Document,
    Find,
    Update,
    UpdateMany,
    slices,
)
from mongomem.engine.effects import Compute
from mongomem.errors import ConfigurationError, InvalidInputError
from mongomem.transfer.given_thread import GivenCheckpoint, GivenThread
from mongomem.transfer.json_parts import Part
from mongomem.transfer.pieces import GivenPieces, decode_value
from mongomem.transfer.stored_thread import Stored

TASK = ("task_id", "task_path")

NOTHING = Stored()
"""What is there of a thread that is not there."""


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
    pieces = GivenPieces.of(thread.pieces)
    part = given.read()
    body = _Value.of(part.member("checkpoint"), pieces)
    parts = part.member("channels").members()
    channels = {name: _Value.of(one, pieces) for name, one in parts}
    bare, metadata = _body(context, given, body)
    values = {name: one.deserialized(context, given) for name, one in channels.items()}
    with _named_errors(part):
        checkpoint = checked_checkpoint({**bare, "channel_values": values})
        users = named_metadata({}, metadata, context.options.metadata_keys).by_key
    serialized = {name: one.serialized for name, one in {BODY: body, **channels}.items()}
    return Decoded(
        checkpoint,
        metadata,
        users,
        serialized,
        _writes(context, given, part.member("writes"), pieces),
    )


def _is_clear(context: Context, key: str) -> bool:
    """Say whether a metadata key may stand readable in the database."""
    return context.clear_metadata is None or key in context.clear_metadata


@contextmanager
def _named_errors(part: Part) -> Iterator[None]:
    """Name the part in an error about it."""
    try:
        yield
    except (InvalidInputError, ConfigurationError) as error:
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
    def of(cls, part: Part, pieces: GivenPieces) -> _Value:
        return cls(part, decode_value(part, pieces))

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
    context: Context, given: GivenCheckpoint, writes: Part, pieces: GivenPieces
) -> dict[tuple[str, str], list[SerializedWrite]]:
    """Return the writes of a checkpoint by task and path."""
    found: dict[tuple[str, str], list[SerializedWrite]] = {}
    for part in writes.parts():
        value = _Value.of(part.member("value"), pieces)
        value.deserialized(context, given)
        task, path = (part.member(name).identifier(optional=True) for name in TASK)
        found.setdefault((task, path), []).append(_write(part, value))
    return found


def _write(part: Part, value: _Value) -> SerializedWrite:
    idx, channel = part.member("idx").number(-(2**31)), part.member("channel").identifier()
    return SerializedWrite(idx, channel, value.serialized)


async def check_thread(
    context: Context,
    thread: GivenThread,
    owner: Mapping[str, str],
    before: Document | None,
    stored: Stored = NOTHING,
) -> None:
    """Decode everything of a thread that is imported, and keep nothing. Writes nothing.

    Args:
        context: What every plan of the saver is given.
        thread: The thread.
        owner: The user, by the metadata key that names users.
        before: The document of the thread of that id that is there, None where there is none.
        stored: What is there of the thread, and is not imported again.

    Raises:
        InvalidInputError: Something cannot be imported. Names it.
    """
    thread.times(context.now())
    _check_labels(context, thread, before)
    _check_identities(thread)
    named = {key: {user} for key, user in owner.items()}
    for given in _due(thread, stored):
        decoded: Decoded = await Compute(partial(decode, context, thread, given))
        for key, users in decoded.users.items():
            named.setdefault(key, set()).update(users)
    _check_users(context, thread, named, {} if before is None else read_members(before))


def _check_labels(context: Context, thread: GivenThread, before: Document | None) -> None:
    """Refuse labels that cannot be set, or that have no room beside those that are there."""
    part = thread.part.member("labels")
    labels, keys = part.object(), context.options.metadata_keys
    with _named_errors(part):
        check_labels(labels, keys, context.clear_metadata)
        if before is not None and (state := read_state(context, before)) is not None:
            _, others = checked_labels(labels, keys, context.clear_metadata)
            label_change(before, state, {}, others)


def _check_identities(thread: GivenThread) -> None:
    for key, users in thread.part.member("users").members():
        for user in users.parts():
            user.checked(partial(checked_identity, key, user.text()), "a user")


def _check_users(
    context: Context, thread: GivenThread, named: Mapping[str, Collection[str]], held: Members
) -> None:
    """Refuse users whom no checkpoint names where they may not stand readable, or where the thread
    has no room for them: `update_thread` would not take them.
    """
    told, keys = thread.users(), context.options.metadata_keys
    for key in keys:
        known = {*named.get(key, ()), *(one for one in held.get(key, ()) if isinstance(one, str))}
        more = {*told.get(key, ())} - known
        if not more:
            continue
        part = thread.part.member("users").member(key)
        with _named_errors(part):
            check_labels({key: min(more)}, keys, context.clear_metadata)
        if len(known | more) > MOST_MEMBERS:
            raise part.wrong(f"so few that the thread has at most {MOST_MEMBERS} with its own")


def _due(thread: GivenThread, stored: Stored) -> list[GivenCheckpoint]:
    """Return the checkpoints that are not there with all their writes."""
    return [one for one in thread.checkpoints() if not stored.has_all_of(one.ref, one.writes)]


async def import_thread(
    context: Context,
    thread: GivenThread,
    owner: Mapping[str, str],
    before: Document | None,
    stored: Stored = NOTHING,
) -> None:
    """Store a thread that was checked: checkpoints, each behind its parent, then what the thread
    shows. Repeating it finishes what was cut short.

    A thread that is there and has other checkpoints is as new as the newer of both. Its labels stay
    where it is not older than the thread that is imported, which only adds those that it lacks, and
    none where it has other checkpoints.

    Args:
        context: What every plan of the saver is given.
        thread: The thread, which has a checkpoint.
        owner: The user, whose the thread is afterwards, by the metadata key that names users.
        before: The document of the thread of that id as it was before, None where there was none.
        stored: What was there of the thread, and is not imported again.
    """
    found = None if before is None else await _found(context, thread, before)
    known = _known_users(context, owner, before if stored.checkpoints else None)
    for one in _due(thread, stored):
        decoded: Decoded = await Compute(partial(decode, context, thread, one))
        await _store(context, one, decoded, owner)
        for key, users in decoded.users.items():
            known.setdefault(key, set()).update(users)
    await _hide(context, thread.checkpoints())
    await _label(context, thread, known, found)
    await _date(context, thread, found)
    context.caches.invalidate_thread(thread.thread_id)


def _known_users(
    context: Context, owner: Mapping[str, str], before: Document | None
) -> dict[str, set[str]]:
    """Return whom no label has to name, by identity key: the owner where that stands nowhere
    readable, and whom the thread that is there names already.
    """
    known = {key: {user} for key, user in owner.items() if not _is_clear(context, key)}
    if before is not None:
        known |= {key: {*map(str, users)} for key, users in read_members(before).items()}
    return known


@dataclass(frozen=True, slots=True)
class _Found:
    """A thread that was there before the import.

    Attributes:
        listed: The thread as lists show it.
        labels: What `update_thread` has set.
        goes_on: It has checkpoints that the document has not. Without any it may be the same
            thread, cut short in an import, and dated by that.
    """

    listed: Thread
    labels: Mapping[str, Any]
    goes_on: bool

    def labels_from(self, labels: Mapping[str, Any], updated_at: datetime) -> dict[str, Any]:
        """Return which labels of a thread that was updated then this one takes."""
        if self.listed.updated_at < updated_at:
            return {**labels}
        if self.goes_on:
            return {}
        return {key: value for key, value in labels.items() if key not in self.labels}


async def _found(context: Context, thread: GivenThread, before: Document) -> _Found:
    own = {"type": CHECKPOINT, "thread_id": thread.thread_id, "epoch": before["epoch"]}
    keys = {one["_id"] for one in await Find(context.checkpoints, own, {"_id": 1})}
    given = {checkpoint_doc_id(one.ref) for one in thread.checkpoints()}
    return _Found(read_listed(before), before.get("labels") or {}, not keys <= given)


async def _date(context: Context, thread: GivenThread, found: _Found | None) -> None:
    """Give a thread the times that it had, or those of one that was there where they span more."""
    created_at, updated_at = thread.times(context.now())
    if found is not None:
        created_at = min(created_at, found.listed.created_at)
    if found is not None and found.goes_on:
        updated_at = max(updated_at, found.listed.updated_at)
    times = {"created_at": created_at, "updated_at": updated_at}
    await BulkWrite(context.checkpoints, [Update(thread_query(thread.thread_id), {"$set": times})])


async def _store(
    context: Context, given: GivenCheckpoint, decoded: Decoded, owner: Mapping[str, str]
) -> None:
    """Store the writes of a checkpoint, then the checkpoint on its parent: once that is there, so
    are they. The thread is the user's from its first checkpoint on, also where the checkpoints name
    nobody or others: else a thread that was cut short would not be the user's, and could not be
    finished.
    """
    for (task, path), writes in decoded.writes.items():
        await store_writes(context, Task(given.ref, task, path), writes)
    config = given.ref.at(given.parent_id).config()
    config["configurable"] |= {
        key: user for key, user in owner.items() if user not in decoded.users.get(key, ())
    }
    await put(context, config, decoded.checkpoint, decoded.metadata, decoded.values)


async def _hide(context: Context, given: Sequence[GivenCheckpoint]) -> None:
    """Hide what was hidden, and say on its children that their parent is."""
    hidden = {one.ref for one in given if one.hidden}
    children = [one.ref for one in given if one.ref.at(one.parent_id) in hidden]
    await _mark(context, [*hidden], "hidden")
    await _mark(context, children, "parent_is_hidden")


async def _mark(context: Context, places: Sequence[CheckpointRef], flag: str) -> None:
    """Set a flag of checkpoints, so many as one command names at a time."""
    keys = [checkpoint_doc_id(place) for place in places]
    for some in slices(keys, IDS_PER_COMMAND):
        await UpdateMany(context.checkpoints, {"_id": {"$in": some}}, {"$set": {flag: True}})


async def _label(
    context: Context,
    thread: GivenThread,
    known: Mapping[str, Collection[str]],
    found: _Found | None,
) -> None:
    """Give a thread its labels, and the users whom no checkpoint names: it shows the last one."""
    told, labels = thread.users(), thread.part.member("labels").object()
    for key in context.options.metadata_keys:
        for user in told.get(key, []):
            if user not in known.get(key, ()):
                await update_thread(context, thread.thread_id, {key: user})
    if found is not None:
        labels = found.labels_from(labels, thread.times(context.now())[1])
    if labels:
        await update_thread(context, thread.thread_id, labels)
