"""Plans: everything of a user as JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context as SaverContext
from mongomem.checkpoint.documents.thread_list import read_listed
from mongomem.engine.commands import Document
from mongomem.engine.effects import Compute
from mongomem.errors import InvalidInputError, MongomemError
from mongomem.store.context import Context as StoreContext
from mongomem.store.documents.value import plain
from mongomem.transfer.given_thread import GivenThread
from mongomem.transfer.json_parts import Part
from mongomem.transfer.memories import (
    GivenItem,
    export_items,
    given_items,
    import_items,
    without_vectors,
)
from mongomem.transfer.thread_export import export_thread, living_document
from mongomem.transfer.thread_import import check_thread, import_thread
from mongomem.user_data import threads_of

FORMAT, VERSION = "mongomem.user", 1


@dataclass(frozen=True, slots=True)
class Whose:
    """A user, and where the data of the user are.

    Attributes:
        user_key: The metadata key of a thread that names its user.
        user_id: The string that the user is known by.
        namespace: What holds the memories of the user.
    """

    saver: SaverContext
    store: StoreContext
    user_key: str
    user_id: str
    namespace: tuple[str, ...]

    def owner(self) -> dict[str, str]:
        """Return the user by the key that names users."""
        return {self.user_key: self.user_id}


@dataclass(frozen=True, slots=True)
class Imported:
    """What was imported of a user.

    Attributes:
        user_id: The user.
        threads: The ids of the threads that the document has checkpoints of, also of those that
            were there.
        memories: How many memories were stored, also those that were there and are the same; not
            those that are newer than the document's.
        without_vectors: How many of those had vectors where they come from, and have none now: the
            store has no index. ``MongoStore.reindex`` of a store with one makes them.
    """

    user_id: str
    threads: list[str]
    memories: int
    without_vectors: int = 0


async def export_json(whose: Whose) -> str:
    """Return everything of a user as the text of one JSON document. It is in memory as a whole.

    Threads of which it is not certain whose they are stand under ``undecided``, by their ids, and
    so do those of which no checkpoint can be read.
    """
    threads = await threads_of(whose.saver, whose.user_key, whose.user_id)
    tried = [await export_thread(whose.saver, thread_id) for thread_id in threads.found]
    exported = [one for one in tried if one is not None]
    damaged = [one["thread_id"] for one in exported if not one["checkpoints"]]
    document = {
        "format": FORMAT,
        "version": VERSION,
        "user_id": whose.user_id,
        "exported_at": whose.saver.now().isoformat(),
        "threads": [one for one in exported if one["checkpoints"]],
        "memories": await export_items(whose.store, whose.namespace),
        "undecided": [*threads.undecided, *damaged],
    }
    text: str = await Compute(partial(json.dumps, document, ensure_ascii=False, allow_nan=False))
    return text


def read_document(data: object) -> Part:
    """Return the document that `data` is, or the text of, in plain types.

    Raises:
        InvalidInputError: It is none of this format and version.
    """
    document = _parsed(data)
    if document.member("format").value != FORMAT:
        raise document.member("format").wrong(f'"{FORMAT}"')
    version = document.member("version")
    if version.number(1) != VERSION:
        raise version.wrong(f"{VERSION}, as this mongomem reads it (a newer one may have made it)")
    return document


def _parsed(data: object) -> Part:
    """Return the JSON that `data` is, or the text of.

    Raises:
        InvalidInputError: It is none.
    """
    text = plain(data)
    if not isinstance(text, str | bytes) and not isinstance(data, Mapping):
        raise InvalidInputError(
            "data must be what export_user(...).to_json() returned, or a mapping of its members, "
            f"not {shown(data)}"
        )
    try:
        given = text if isinstance(text, str | bytes) else json.dumps({**text})
        return Part(json.loads(given), "data")
    except Exception as error:  # no JSON, or whatever a mapping of the caller's own does
        raise InvalidInputError(
            f"data cannot be imported: it is no JSON ({shown(str(error))})"
        ) from error


async def import_json(data: object, whose_of: Callable[[str], Whose]) -> Imported:
    """Store what `export_json` made: threads with their checkpoints, and memories.

    Everything is checked, and every value read by the serializer, before the first write. What was
    cut short is finished by repeating it. A thread without checkpoints is left out: there is
    nothing to go on with.

    What is newer than the document stays: a memory, also the profile, that was updated later, and
    the labels of a thread (`import_thread`). Where somebody updates a memory while the import runs
    the document may win.

    Args:
        data: The document or its text.
        whose_of: Says where the data of a user are.

    Raises:
        InvalidInputError: Something cannot be imported, or a thread of that id is another user's.
            Nothing was written.
    """
    given = await _checked(data, whose_of)
    whose = given.whose
    for thread in given.threads:
        await import_thread(whose.saver, thread, whose.owner(), given.there.get(thread.thread_id))
    stored = await import_items(whose.store, given.items)
    ids = [thread.thread_id for thread in given.threads]
    return Imported(whose.user_id, ids, len(stored), without_vectors(whose.store, stored))


@dataclass(frozen=True, slots=True)
class Given:
    """What is imported, checked.

    Attributes:
        whose: The user.
        threads: Those that have checkpoints, in the order in which they were updated.
        there: The documents of those that are there already, by their ids.
        items: The memories.
    """

    whose: Whose
    threads: list[GivenThread]
    there: Mapping[str, Document]
    items: list[GivenItem]


async def _checked(data: object, whose_of: Callable[[str], Whose]) -> Given:
    """Check everything that is imported. Writes nothing.

    Raises:
        InvalidInputError: Something cannot be imported.
    """
    document: Part = await Compute(partial(read_document, data), _size_of(data))
    whose = _whose(document.member("user_id"), whose_of)
    parts = document.member("memories").parts()
    items = given_items(parts, whose.namespace, whose.store.now())
    threads = [GivenThread.of(part) for part in document.member("threads").parts()]
    there = await _own_threads(whose, threads)
    for thread in threads:
        before = there.get(thread.thread_id)
        await check_thread(whose.saver, thread, whose.owner(), before)
    whole = [thread for thread in threads if thread.checkpoints()]
    ordered = sorted(whole, key=lambda thread: thread.times(whose.saver.now())[1])
    return Given(whose, ordered, there, items)


def _whose(user_id: Part, whose_of: Callable[[str], Whose]) -> Whose:
    try:
        return whose_of(user_id.text())
    except MongomemError as error:
        raise user_id.named(error) from error


def _size_of(data: object) -> int:
    """Return about how many bytes are read, for what is no mapping."""
    text = plain(data)
    return len(text) if isinstance(text, str | bytes) else 0


async def _own_threads(whose: Whose, threads: list[GivenThread]) -> dict[str, Document]:
    """Return the documents of the threads that are there already, by their ids.

    Raises:
        InvalidInputError: One is not the user's.
    """
    given = [thread.thread_id for thread in threads if thread.checkpoints()]
    found = [await living_document(whose.saver, thread_id) for thread_id in given]
    there = {read_listed(one).thread_id: one for one in found if one is not None}
    if not there:
        return there
    own = await threads_of(whose.saver, whose.user_key, whose.user_id)
    if foreign := sorted(there.keys() - own.found.keys()):
        raise InvalidInputError(
            f"data cannot be imported: thread {shown(foreign[0])} is there and not of user "
            f"{shown(whose.user_id)}; copy_thread and delete_thread make room"
        )
    return there
