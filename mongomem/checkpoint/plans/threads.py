"""The list of threads: what the sidebar of a chat application shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import bson

from mongomem.arguments import checked_flag, checked_mapping, checked_number, shown
from mongomem.checkpoint.caches import ThreadState
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.collections import (
    CHECKPOINT,
    THREAD,
    VISIBLE,
    Title,
    check_key,
    check_version,
    is_epoch,
    read_field,
    read_time,
    thread_doc_id,
    utc,
)
from mongomem.checkpoint.documents.config import identifier
from mongomem.checkpoint.documents.identity import (
    MOST_MEMBERS,
    Members,
    checked_identity,
    forms_of,
    identity,
    member,
    split,
)
from mongomem.checkpoint.documents.metadata import (
    ABSENT,
    LONGEST_COPY,
    check_nesting,
    checked_filter,
    contains,
    equality_clauses,
    is_field,
    queryable_value,
)
from mongomem.checkpoint.documents.position import above
from mongomem.checkpoint.plans.delete import delete_thread, time_before
from mongomem.checkpoint.plans.setup import ensure_ours, ensure_setup
from mongomem.checkpoint.plans.thread_state import (
    MAX_ATTEMPTS,
    ThreadUse,
    backoff,
    contention_error,
    known_thread,
    lasting_changes,
    members_after,
    read_members,
    thread_query,
)
from mongomem.checkpoint.serde.place_digest import BEGAN
from mongomem.engine.commands import Aggregate, BulkWrite, Document, Find, Update
from mongomem.errors import (
    ConfigurationError,
    CorruptDataError,
    InvalidInputError,
    ThreadNotFoundError,
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


async def list_threads(
    context: Context,
    filter: object,
    limit: object,
    before: object,
    *,
    ended: bool = False,
    count_checkpoints: object = False,
) -> list[Thread]:
    """Return threads, the one updated last first; `before` continues behind a thread or starts at a
    time.

    With `ended` also those that expired, or that a deletion took from the list and has not finished
    with.
    """
    most = checked_number("limit", limit)
    counts = checked_flag("count_checkpoints", count_checkpoints)
    wanted = checked_filter(filter)
    _check_clear(context, wanted)
    found = await _first_matching(context, wanted, most, _behind(before), ended=ended)
    if not found:
        await ensure_ours(context)
    return await _counted(context, found) if counts else [thread for thread, _ in found]


async def _first_matching(
    context: Context, wanted: Mapping[str, Any], most: int, behind: Document, *, ended: bool
) -> list[tuple[Thread, Document]]:
    """Read pages of the list until so many threads match a filter, or there are no more."""
    conditions = _conditions(wanted, context.options.metadata_keys)
    found: list[tuple[Thread, Document]] = []
    while len(found) < most:
        size = most - len(found) if not wanted else NUMBER_IN_A_PAGE
        documents = await thread_page(context, conditions, behind, size, ended=ended)
        found += [pair for pair in _sound(context, documents) if _matches(context, *pair, wanted)]
        if len(documents) < size:
            break
        behind = behind_document(documents[-1])
    return found[:most]


async def thread_page(
    context: Context,
    conditions: Sequence[Document],
    behind: Document,
    size: int,
    *,
    ended: bool = False,
) -> list[Document]:
    """Read the next thread documents that meet one of the conditions, in the order of the list.

    Each condition has an index of its own that gives that order, so each is told in full.
    """
    common = {"type": THREAD, **({} if ended else _living(context)), **behind}
    queries = [common | condition for condition in conditions]
    query = queries[0] if len(queries) == 1 else {"$or": queries}
    return await Find(context.checkpoints, query, sort=ORDER, limit=size)


def _check_clear(context: Context, wanted: Mapping[str, Any]) -> None:
    """Refuse to look for metadata that is nowhere readable."""
    clear = context.clear_metadata
    secret = [key for key in wanted if clear is not None and key not in clear]
    if secret:
        raise ConfigurationError(
            f"threads cannot be listed by {shown(secret)}, which does not stand readable: "
            "MongoSaver(clear_metadata=...) says what does, and MongoMemory(saver_options={"
            '"clear_metadata": ["source", "step", "run_id", ...]})'
        )


def _living(context: Context) -> Document:
    """Return the condition for threads that were neither deleted nor unused for too long."""
    ttl = context.ttl
    return {
        "deleted_at": None,
        **({"touched_at": {"$gt": context.now() - ttl}} if ttl is not None else {}),
    }


def _conditions(wanted: Mapping[str, Any], keys: Collection[str]) -> list[Document]:
    """Return conditions one of which every thread meets that a filter is about: one a form that an
    identity has.
    """
    by_key, rest = split(wanted, keys)
    forms = [named_conditions(key, text) for key, text in by_key.items()]
    others = [{"$or": _places(path, value)} for path, value in equality_clauses(rest).items()]
    return [
        {**_merged(chosen), **({"$and": others} if others else {})} for chosen in product(*forms)
    ]


def named_conditions(key: str, text: str) -> list[Document]:
    """Return the conditions for threads that name somebody readably: as a member, or as schema
    version 1 did.
    """
    return [{f"members.{key}": text}, *({f"metadata.{key}": form} for form in forms_of(text))]


def _merged(conditions: Sequence[Document]) -> Document:
    return {field: value for condition in conditions for field, value in condition.items()}


def _places(path: str, value: Any) -> list[Document]:
    """Return where a thread document may have what stands at a path of its metadata."""
    return [{path.replace("metadata", field, 1): value} for field in SHOWN_FIELDS]


def _matches(
    context: Context, thread: Thread, document: Document, wanted: Mapping[str, Any]
) -> bool:
    """Decide whether a thread contains a filter: anybody it was put for under an identity key, else
    what it shows.
    """
    by_key, rest = split(wanted, context.options.metadata_keys)
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


def _behind(before: object) -> Document:
    """Return the condition for what comes behind a thread or before a time; a thread without
    checkpoints never does.
    """
    if before is None:
        return {"updated_at": {"$gt": BEGAN}}
    if isinstance(before, Thread):
        return behind_document({"updated_at": before.updated_at, "thread_id": before.thread_id})
    if isinstance(before, datetime):
        try:
            return {"updated_at": {"$gt": BEGAN, "$lt": utc(before)}}
        except OverflowError:  # at an end of the calendar, in another time zone
            pass
    raise InvalidInputError(f"before must be a Thread or a datetime, not {shown(before)}")


def behind_document(document: Mapping[str, Any]) -> Document:
    """Return the condition for what comes behind a thread document, damaged or not."""
    updated_at, thread_id = document.get("updated_at"), document.get("thread_id")
    ties: list[Document] = [{"updated_at": {"$lt": updated_at}}, {"thread_id": above(thread_id)}]
    return {"updated_at": {"$gt": BEGAN, "$lte": updated_at}, "$or": ties}


def _sound(context: Context, documents: Sequence[Document]) -> list[tuple[Thread, Document]]:
    """Read thread documents, and leave out those that are damaged."""
    found: list[tuple[Thread, Document]] = []
    for document in documents:
        with context.state.damage.left_out(document["_id"]):
            read_members(document)
            found.append((read_listed(document), document))
    return found


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
        parts = [read_field(document, field, dict) for field in SHOWN_FIELDS if field in document]
        metadata: dict[str, Any] = {key: value for part in parts for key, value in part.items()}
        preview = None if document.get("preview") is None else read_field(document, "preview", str)
        return Thread(thread_id, *times, metadata, preview)
    except (CorruptDataError, UnicodeError) as error:
        raise CorruptDataError(f"{what}: its document is not readable: {error}") from error


async def _counted(context: Context, found: Sequence[tuple[Thread, Document]]) -> list[Thread]:
    """Count the checkpoints of threads: those to be seen, of the epoch of each thread."""
    ids = [thread.thread_id for thread, _ in found]
    visible = {"$match": {"type": CHECKPOINT, "hidden": VISIBLE, "thread_id": {"$in": ids}}}
    counting = {
        "$group": {"_id": {"thread": "$thread_id", "epoch": "$epoch"}, "count": {"$sum": 1}}
    }
    groups = await Aggregate(context.checkpoints, [visible, counting]) if ids else []
    counts = {(one["_id"]["thread"], _life(one["_id"])): one["count"] for one in groups}
    return [
        replace(thread, checkpoint_count=counts.get((thread.thread_id, _life(document)), 0))
        for thread, document in found
    ]


def _life(fields: Mapping[str, Any]) -> int | None:
    """Return the epoch of a document; None where that is damaged."""
    epoch = fields.get("epoch")
    return epoch if is_epoch(epoch) else None


MOST_BYTES = 16_384
"""How much all labels of a thread come to, as BSON: they are read with every list of threads."""


async def update_thread(context: Context, thread_id: object, metadata: object) -> Thread:
    """Merge labels into the metadata of a thread, in one atomic update; a value of None removes a
    label.

    Only the labels change: no checkpoint is made, the thread keeps its place in the list, and its
    runs do not overwrite them. Under an identity key it is one more user whom the thread is of.

    Raises:
        ThreadNotFoundError: There is no such thread: it was deleted, has expired, or has no
            checkpoint yet.
        ContentionError: Others labelled the thread at the same time, again and again.
    """
    name = identifier("thread_id", thread_id)
    users, labels = _checked(context, metadata)
    await ensure_setup(context)
    for attempt in range(MAX_ATTEMPTS):
        document, thread = await _living_thread(context, name)
        change = _labelling(document, thread, users, labels)
        unchanged = {"generation": thread.generation, "labels": document.get("labels")}
        reply = await BulkWrite(
            context.checkpoints, [Update(thread_query(name) | unchanged, change)]
        )
        if reply.matched_count:
            merged = change["$set"]["labels"]
            return read_listed(
                document | {"labels": merged, "identity": document.get("identity", {}) | users}
            )
        await backoff(attempt)
    raise await contention_error(context, name)


async def _living_thread(context: Context, thread_id: str) -> tuple[Document, ThreadState]:
    """Read a thread that has checkpoints, and its state.

    Raises:
        ThreadNotFoundError: There is none.
    """
    documents = await Find(context.checkpoints, thread_query(thread_id), limit=1)
    thread = known_thread(context, documents[0]) if documents else None
    if thread is None or thread.begins:
        raise ThreadNotFoundError(f"there is no thread {shown(thread_id)}")
    return documents[0], thread


def _labelling(
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


def _checked(context: Context, metadata: object) -> tuple[dict[str, str], Document]:
    """Return whom labels name by identity key, and the others: copies, each a value that stands
    readable.

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
        _check_label(key, context.clear_metadata)
        if key in context.options.metadata_keys:
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


def check_labels(context: Context, metadata: object) -> None:
    """Refuse what `update_thread` refuses to set on any thread.

    Raises:
        InvalidInputError: As `update_thread` does.
        ConfigurationError: As `update_thread` does.
    """
    _, labels = _checked(context, metadata)
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


IDLE_PAGE = 200


async def delete_idle_threads(context: Context, idle_for: object, dry_run: object) -> list[Thread]:
    """Delete the threads that were not updated for so long, in any namespace; say which, or which
    would go.
    """
    if not isinstance(idle_for, timedelta) or idle_for <= timedelta(0):
        raise InvalidInputError(f"idle_for must be a positive timedelta, not {shown(idle_for)}")
    is_dry = checked_flag("dry_run", dry_run)
    cutoff = time_before(context.now(), idle_for)
    idle: list[Thread] = []
    before: Thread | datetime = cutoff
    while True:
        page = await list_threads(context, None, IDLE_PAGE, before, ended=True)
        still = {"updated_at": {"$lt": cutoff}}
        idle += [
            thread
            for thread in page
            if is_dry or await delete_thread(context, thread.thread_id, still)
        ]
        if len(page) < IDLE_PAGE:
            return idle
        before = page[-1]
