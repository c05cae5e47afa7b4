"""The list of threads: how a thread document is read for it, what a filter means, and how labels
are merged. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any

import bson

from mongomem.arguments import checked_mapping, shown
from mongomem.checkpoint.documents.collections import thread_doc_id
from mongomem.checkpoint.documents.fields import (
    Title,
    check_key,
    check_version,
    is_epoch,
    read_field,
    read_time,
)
from mongomem.checkpoint.documents.identity import (
    MOST_MEMBERS,
    Members,
    checked_identity,
    forms_of,
    identity,
    member,
    split_filter,
)
from mongomem.checkpoint.documents.list_query import above
from mongomem.checkpoint.documents.metadata import (
    ABSENT,
    LONGEST_COPY,
    check_nesting,
    contains,
    equality_clauses,
    is_field,
    queryable_value,
)
from mongomem.checkpoint.documents.thread import (
    ThreadState,
    ThreadUse,
    lasting_changes,
    members_after,
    read_members,
)
from mongomem.checkpoint.serde.place_digest import BEGAN
from mongomem.engine.commands import Document, as_utc
from mongomem.errors import (
    ConfigurationError,
    CorruptDataError,
    InvalidInputError,
)

NUMBER_IN_A_PAGE = 256
"""How many thread documents are read at a time where a filter decides here which of them count."""


ORDER = (("updated_at", -1), ("thread_id", 1))


SHOWN_FIELDS = ("last_metadata", "metadata", "identity", "labels")
"""The fields of a thread document that make up its metadata, those that count more behind: what a
caller set by hand is last."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread, as the list of threads shows it.

    Attributes:
        thread_id: Its id.
        created_at: When its first checkpoint was stored, in UTC.
        updated_at: When its newest checkpoint was stored, in UTC.
        metadata: The metadata of its runs that is not of a single step, the readable copy, and over
            it what ``update_thread`` has set. Of the users of a thread that had several it shows
            the last.
        preview: The beginning of the text of its last message, where there are messages that may
            stand readable.
        checkpoint_count: How many checkpoints it has in all namespaces, where that was asked for.
    """

    thread_id: str
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any]
    preview: str | None = None
    checkpoint_count: int | None = None


def check_clear(wanted: Mapping[str, Any], clear: Collection[str] | None) -> None:
    """Refuse to look for metadata that is nowhere readable."""
    secret = [key for key in wanted if clear is not None and key not in clear]
    if secret:
        raise ConfigurationError(
            f"threads cannot be listed by {shown(secret)}, which does not stand readable: "
            "MongoSaver(clear_metadata=...) says what does, and MongoMemory(saver_options={"
            '"clear_metadata": ["source", "step", "run_id", ...]})'
        )


def thread_conditions(wanted: Mapping[str, Any], keys: Collection[str]) -> list[Document]:
    """Return conditions one of which every thread meets that a filter is about: one a form that an
    identity has.
    """
    by_key, rest = split_filter(wanted, keys)
    forms = [named_conditions(key, text) for key, text in by_key.items()]
    others = [{"$or": _places(path, value)} for path, value in equality_clauses(rest).items()]
    return [
        {**_merged(chosen), **({"$and": others} if others else {})} for chosen in product(*forms)
    ]


def named_conditions(key: str, text: str) -> list[Document]:
    """Return the conditions for threads that name somebody readably: as a member, or as the first
    format did.
    """
    return [{f"members.{key}": text}, *({f"metadata.{key}": form} for form in forms_of(text))]


def _merged(conditions: Sequence[Document]) -> Document:
    return {field: value for condition in conditions for field, value in condition.items()}


def _places(path: str, value: Any) -> list[Document]:
    """Return where a thread document may have what stands at a path of its metadata."""
    return [{path.replace("metadata", field, 1): value} for field in SHOWN_FIELDS]


def matches_filter(
    thread: Thread, document: Document, wanted: Mapping[str, Any], keys: Collection[str]
) -> bool:
    """Decide whether a thread contains a filter: anybody it was put for under an identity key, else
    what it shows.
    """
    by_key, rest = split_filter(wanted, keys)
    return contains(thread.metadata, rest) and all(
        is_named(document, key, text) for key, text in by_key.items()
    )


def is_named(document: Document, key: str, text: str) -> bool:
    """Say whether a thread document names somebody readably under an identity key.

    Raises:
        CorruptDataError: It is damaged.
    """
    held = read_field(document, "metadata", dict) if "metadata" in document else {}
    return text in read_members(document).get(key, ()) or identity(held.get(key)) == text


def behind(before: object) -> Document:
    """Return the condition for what comes behind a thread or before a time; a thread without
    checkpoints never does.
    """
    if before is None:
        return {"updated_at": {"$gt": BEGAN}}
    if isinstance(before, Thread):
        return behind_document({"updated_at": before.updated_at, "thread_id": before.thread_id})
    if isinstance(before, datetime):
        try:
            return {"updated_at": {"$gt": BEGAN, "$lt": as_utc(before)}}
        except OverflowError:  # at an end of the calendar, in another time zone
            pass
    raise InvalidInputError(f"before must be a Thread or a datetime, not {shown(before)}")


def behind_document(document: Mapping[str, Any]) -> Document:
    """Return the condition for what comes behind a thread document, damaged or not."""
    updated_at, thread_id = document.get("updated_at"), document.get("thread_id")
    ties: list[Document] = [{"updated_at": {"$lt": updated_at}}, {"thread_id": above(thread_id)}]
    return {"updated_at": {"$gt": BEGAN, "$lte": updated_at}, "$or": ties}


def read_listed(document: Document) -> Thread:
    """Read a thread document as the list shows it.

    Raises:
        CorruptDataError: It lacks a field, or a field is of another type, or it is another's.
        SchemaVersionError: It was written by a newer mongomem.
    """
    what = Title("thread {thread_id}", document)
    check_version(document, what)
    try:
        thread_id = read_field(document, "thread_id", str)
        check_key(document, thread_doc_id(thread_id))
        times = read_time(document, "created_at"), read_time(document, "updated_at")
        preview = None if document.get("preview") is None else read_field(document, "preview", str)
        return Thread(thread_id, *times, _shown_metadata(document), preview)
    except (CorruptDataError, UnicodeError) as error:
        raise CorruptDataError(f"{what}: its document is not readable: {error}") from error


def _shown_metadata(document: Document) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for field in SHOWN_FIELDS:
        if field in document:
            metadata |= read_field(document, field, dict)
    return metadata


def epoch_of(fields: Mapping[str, Any]) -> int | None:
    """Return the epoch of a document; None where that is damaged."""
    epoch = fields.get("epoch")
    return epoch if is_epoch(epoch) else None


MOST_BYTES = 16_384
"""How much all labels of a thread come to, as BSON: they are read with every list of threads."""


def label_change(
    document: Document, thread: ThreadState, users: Mapping[str, str], labels: Document
) -> Document:
    """Return the change of a thread document that merges labels, and makes users members where
    there is room.
    """
    use = ThreadUse(
        {}, users, {key: [member(text, b"", is_clear=True)] for key, text in users.items()}
    )
    shown_users, members = lasting_changes(thread, use)
    _check_room(document["thread_id"], users, members_after(thread, use))
    merged = _merged_labels(document.get("labels") or {}, labels)
    return {
        "$set": {"labels": merged, **shown_users},
        **({"$addToSet": members} if members else {}),
    }


def checked_labels(
    metadata: object, keys: Collection[str], clear: Collection[str] | None
) -> tuple[dict[str, str], Document]:
    """Return whom labels name by identity key, and the others: copies, each of readable values.

    Raises:
        InvalidInputError: A key or a value is of a kind that metadata cannot show, or would not go
            away.
        ConfigurationError: A key may not stand readable in the database.
    """
    given = checked_mapping("metadata", metadata)
    check_nesting("metadata", given)
    users: dict[str, str] = {}
    labels: Document = {}
    for key, value in given.items():
        _check_label(key, clear)
        if key in keys:
            users[key] = checked_identity(key, value)
        elif (said := queryable_value(value, LONGEST_COPY)) is not ABSENT:
            labels[key] = said
        else:
            kinds = (
                "texts, numbers, true, false, None, and lists and mappings of them, none of "
                "them long"
            )
            raise InvalidInputError(
                f"metadata[{key!r}] cannot stand readable, as {kinds} can: {shown(value)}"
            )
    return users, labels


def check_labels(metadata: object, keys: Collection[str], clear: Collection[str] | None) -> None:
    """Refuse what `update_thread` refuses to set on any thread.

    Raises:
        InvalidInputError: As `update_thread` does.
        ConfigurationError: As `update_thread` does.
    """
    _, labels = checked_labels(metadata, keys, clear)
    _merged_labels({}, labels)


def _check_label(key: object, clear: Collection[str] | None) -> None:
    if not is_field(key):
        raise InvalidInputError(
            f"the keys of metadata are names without dots and '$' before them: {shown(key)}"
        )
    if clear is not None and key not in clear:
        raise ConfigurationError(
            f"{key!r} would stand readable in the database: name it in clear_metadata if it may"
        )


def _check_room(thread_id: str, users: Mapping[str, str], members: Members) -> None:
    """Refuse a user whom the thread would not remember: a label stands in no checkpoint that could.

    Raises:
        InvalidInputError: The thread names `MOST_MEMBERS` others.
    """
    if any(key in members and text not in members[key] for key, text in users.items()):
        raise InvalidInputError(
            f"metadata names one user more than thread {shown(thread_id)} has room for: "
            f"{MOST_MEMBERS}"
        )


def _merged_labels(held: Mapping[str, Any], labels: Document) -> Document:
    merged = {key: value for key, value in {**held, **labels}.items() if value is not None}
    if (size := len(bson.encode(merged))) > MOST_BYTES:
        raise InvalidInputError(
            f"the labels of a thread come to {MOST_BYTES} bytes at most, and these are {size}"
        )
    return merged
