"""The plan that labels a thread: titles, tags and flags that a caller sets by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson

from mongomem.arguments import checked_mapping, shown
from mongomem.checkpoint.addresses import identifier
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.identity import MOST_MEMBERS, Members, checked_identity, member
from mongomem.checkpoint.metadata import ABSENT, LONGEST_COPY, check_nesting, is_field, readable_value
from mongomem.checkpoint.setup import ready
from mongomem.checkpoint.thread_list import Thread, read_listed
from mongomem.checkpoint.threads import (
    ATTEMPTS,
    ThreadUse,
    contention,
    known_thread,
    lasting_changes,
    members_after,
    pause,
    thread_query,
)
from mongomem.commands import BulkWrite, Document, Find, Update
from mongomem.errors import ConfigurationError, InvalidInputError, ThreadNotFoundError

MOST_BYTES = 16_384
"""How much all labels of a thread come to, as BSON: they are read with every list of threads."""


async def update_thread(context: Context, thread_id: object, metadata: object) -> Thread:
    """Merge labels into the metadata of a thread, in one atomic update; a value of None removes a label.

    Only the labels change: no checkpoint is made, the thread keeps its place in the list, and its runs do not
    overwrite them. Under an identity key it is one more user whom the thread is of.

    Raises:
        ThreadNotFoundError: There is no such thread: it was deleted, has expired, or has no checkpoint yet.
        ContentionError: Others labelled the thread at the same time, again and again.
    """
    name = identifier("thread_id", thread_id)
    users, labels = _checked(context, metadata)
    await ready(context)
    for attempt in range(ATTEMPTS):
        documents = await Find(context.checkpoints, thread_query(name), limit=1)
        thread = known_thread(context, documents[0]) if documents else None
        if thread is None or thread.begins:
            raise ThreadNotFoundError(f"there is no thread {shown(name)}")
        document = documents[0]
        held = document.get("labels")
        use = ThreadUse({}, users, {key: [member(text, b"", is_clear=True)] for key, text in users.items()})
        shown_users, members = lasting_changes(thread, use)
        _check_room(name, users, members_after(thread, use))
        merged = _merged(held or {}, labels)
        unchanged = {"generation": thread.generation, "labels": held}
        change = {"$set": {"labels": merged, **shown_users}, **({"$addToSet": members} if members else {})}
        reply = await BulkWrite(context.checkpoints, [Update(thread_query(name) | unchanged, change)])
        if reply.matched_count:
            return read_listed(document | {"labels": merged, "identity": document.get("identity", {}) | users})
        await pause(attempt)
    raise await contention(context, name)


def _checked(context: Context, metadata: object) -> tuple[dict[str, str], Document]:
    """Return whom labels name by identity key, and the others: copies, each a value that stands readable.

    Raises:
        InvalidInputError: A key or a value is of a kind that metadata cannot show, or would not go away.
        ConfigurationError: A key may not stand readable in the database.
    """
    given = checked_mapping("metadata", metadata)
    check_nesting("metadata", given)
    clear = context.clear_metadata
    users: dict[str, str] = {}
    labels: Document = {}
    for key, value in given.items():
        if not is_field(key):
            raise InvalidInputError(f"the keys of metadata are names without dots and '$' before them: {shown(key)}")
        if clear is not None and key not in clear:
            raise ConfigurationError(
                f"{key!r} would stand readable in the database: name it in clear_metadata if it may"
            )
        if key in context.options.metadata_keys:
            users[key] = checked_identity(key, value)
        elif (said := readable_value(value, LONGEST_COPY)) is not ABSENT:
            labels[key] = said
        else:
            kinds = "texts, numbers, true, false, None, and lists and mappings of them, none of them long"
            raise InvalidInputError(f"metadata[{key!r}] cannot stand readable, as {kinds} can: {shown(value)}")
    return users, labels


def _check_room(thread_id: str, users: Mapping[str, str], members: Members) -> None:
    """Refuse a user whom the thread would not remember: a label stands in no checkpoint that could.

    Raises:
        InvalidInputError: The thread names `MOST_MEMBERS` others.
    """
    if any(key in members and text not in members[key] for key, text in users.items()):
        raise InvalidInputError(
            f"metadata names one user more than thread {shown(thread_id)} has room for: {MOST_MEMBERS}"
        )


def _merged(held: Mapping[str, Any], labels: Document) -> Document:
    merged = {key: value for key, value in {**held, **labels}.items() if value is not None}
    if (size := len(bson.encode(merged))) > MOST_BYTES:
        raise InvalidInputError(f"the labels of a thread come to {MOST_BYTES} bytes at most, and these are {size}")
    return merged
