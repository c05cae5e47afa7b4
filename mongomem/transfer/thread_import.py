"""Plans: a thread from JSON.

The import lets the serializer of the saver read each value before the first write: what that does
not read, no import stores.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.collections import checkpoint_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.identity import (
    MOST_MEMBERS,
    Members,
    checked_identity,
)
from mongomem.checkpoint.documents.thread import read_members
from mongomem.checkpoint.documents.thread_list import (
    Thread,
    check_labels,
    checked_labels,
    label_change,
    read_listed,
)
from mongomem.checkpoint.plans.put import put
from mongomem.checkpoint.plans.put_writes import Task, store_writes
from mongomem.checkpoint.plans.thread_state import read_state
from mongomem.checkpoint.plans.threads import update_thread
from mongomem.engine.commands import (
    IDS_PER_COMMAND,
    Document,
    UpdateMany,
    slices,
)
from mongomem.engine.effects import Compute
from mongomem.transfer.given_thread import GivenCheckpoint, GivenThread
from mongomem.transfer.given_values import Decoded, decode, named_errors
from mongomem.transfer.stored_thread import (
    Stored,
    date_thread,
    stored_checkpoints,
    stored_parts,
)
from mongomem.transfer.thread_export import living_document

NOTHING = Stored()
"""What is there of a thread that is not there."""

MOST_PASSES = 3
"""How often a thread is stored of which something is gone again: somebody deletes it meanwhile, or
a retention prunes it."""


def _is_clear(context: Context, key: str) -> bool:
    """Say whether a metadata key may stand readable in the database."""
    return context.clear_metadata is None or key in context.clear_metadata


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
    with named_errors(part):
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
        with named_errors(part):
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
    for _ in range(MOST_PASSES):
        for key, users in await _store_due(context, thread, owner, stored):
            known.setdefault(key, set()).update(users)
        stored = await stored_parts(context, thread.thread_id)
        if not _due(thread, stored):
            break
    await _hide(context, thread.checkpoints())
    await _label(context, thread, known, found)
    await _date(context, thread, found, stored)


async def _store_due(
    context: Context, thread: GivenThread, owner: Mapping[str, str], stored: Stored
) -> list[tuple[str, tuple[str, ...]]]:
    """Store what is not there of a thread; return whom that names, by identity key."""
    named: list[tuple[str, tuple[str, ...]]] = []
    for one in _due(thread, stored):
        decoded: Decoded = await Compute(partial(decode, context, thread, one))
        await _store(context, one, decoded, owner)
        named += decoded.users.items()
    return named


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
        others: The `_id` of each of its checkpoints that the document has not. Without any it may
            be the same thread, cut short in an import, and dated by that.
    """

    listed: Thread
    labels: Mapping[str, Any]
    others: frozenset[str | bytes]

    @property
    def goes_on(self) -> bool:
        return bool(self.others)

    def labels_from(self, labels: Mapping[str, Any], updated_at: datetime) -> dict[str, Any]:
        """Return which labels of a thread that was updated then this one takes."""
        if self.listed.updated_at < updated_at:
            return {**labels}
        if self.goes_on:
            return {}
        return {key: value for key, value in labels.items() if key not in self.labels}


async def _found(context: Context, thread: GivenThread, before: Document) -> _Found:
    """Look at a thread that was there before, first at its checkpoints: of those that are known the
    document behind them tells the last time.
    """
    stored = await stored_checkpoints(context, thread.thread_id)
    others = stored.others(one.ref for one in thread.given)
    document = await living_document(context, thread.thread_id) or before
    return _Found(read_listed(document), document.get("labels") or {}, others)


async def _date(
    context: Context, thread: GivenThread, found: _Found | None, stored: Stored
) -> None:
    """Give a thread the times that it had, or those of one that was there where they span more."""
    created_at, updated_at = thread.times(context.now())
    if found is not None:
        created_at = min(created_at, found.listed.created_at)
    if found is not None and found.goes_on:
        updated_at = max(updated_at, found.listed.updated_at)
    copied = {checkpoint_doc_id(one.ref) for one in thread.given}
    known = copied | (frozenset() if found is None else found.others)
    await date_thread(context, thread.thread_id, (created_at, updated_at), stored, known)


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
