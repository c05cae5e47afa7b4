"""Plans: everything of a user as JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context as SaverContext
from mongomem.checkpoint.documents.thread_list import Thread, read_listed
from mongomem.engine.effects import Compute
from mongomem.errors import InvalidInputError, MongomemError
from mongomem.store.context import Context as StoreContext
from mongomem.store.documents.value import plain
from mongomem.transfer.json_parts import Part
from mongomem.transfer.memories import GivenItem, export_items, given_items, import_items
from mongomem.transfer.thread_export import export_thread, living_document
from mongomem.transfer.thread_import import GivenThread, check_thread, import_thread
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


@dataclass(frozen=True, slots=True)
class Imported:
    """What was imported of a user.

    Attributes:
        user_id: The user.
        threads: The ids of the threads.
        memories: How many memories.
    """

    user_id: str
    threads: list[str]
    memories: int


async def export_json(whose: Whose) -> str:
    """Return everything of a user as the text of one JSON document. It is in memory as a whole.

    Threads of which it is not certain whose they are stand under ``undecided``, by their ids.
    """
    threads = await threads_of(whose.saver, whose.user_key, whose.user_id)
    exported = [await export_thread(whose.saver, thread_id) for thread_id in threads.found]
    document = {
        "format": FORMAT,
        "version": VERSION,
        "user_id": whose.user_id,
        "exported_at": whose.saver.now().isoformat(),
        "threads": [one for one in exported if one is not None],
        "memories": await export_items(whose.store, whose.namespace),
        "undecided": [*threads.undecided],
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
    cut short is finished by repeating it.

    Args:
        data: The document or its text.
        whose_of: Says where the data of a user are.

    Raises:
        InvalidInputError: Something cannot be imported, or a thread of that id is another user's.
            Nothing was written.
    """
    given = await _checked(data, whose_of)
    whose, there = given.whose, await _own_threads(given.whose, given.threads)
    for thread in given.threads:
        before = there.get(thread.thread_id)
        await import_thread(whose.saver, thread, whose.user_key, whose.user_id, before)
    await import_items(whose.store, given.items)
    ids = [thread.thread_id for thread in given.threads]
    return Imported(whose.user_id, ids, len(given.items))


@dataclass(frozen=True, slots=True)
class Given:
    """What is imported, checked: the threads in the order in which they were updated."""

    whose: Whose
    threads: list[GivenThread]
    items: list[GivenItem]


async def _checked(data: object, whose_of: Callable[[str], Whose]) -> Given:
    """Check everything that is imported. Writes nothing.

    Raises:
        InvalidInputError: Something cannot be imported.
    """
    document: Part = await Compute(partial(read_document, data), _size_of(data))
    whose = _whose(document.member("user_id"), whose_of)
    items = given_items(document.member("memories").parts(), whose.namespace)
    threads = [GivenThread.of(part) for part in document.member("threads").parts()]
    for thread in threads:
        await check_thread(whose.saver, thread)
    ordered = sorted(threads, key=lambda thread: thread.part.member("updated_at").time())
    return Given(whose, ordered, items)


def _whose(user_id: Part, whose_of: Callable[[str], Whose]) -> Whose:
    try:
        return whose_of(user_id.text())
    except MongomemError as error:
        raise user_id.named(error) from error


def _size_of(data: object) -> int:
    """Return about how many bytes are read, for what is no mapping."""
    text = plain(data)
    return len(text) if isinstance(text, str | bytes) else 0


async def _own_threads(whose: Whose, threads: list[GivenThread]) -> dict[str, Thread]:
    """Return the threads that are there already, by their ids.

    Raises:
        InvalidInputError: One is not the user's.
    """
    found = [await living_document(whose.saver, thread.thread_id) for thread in threads]
    listed = [read_listed(document) for document in found if document is not None]
    there = {thread.thread_id: thread for thread in listed}
    if not there:
        return there
    own = await threads_of(whose.saver, whose.user_key, whose.user_id)
    if foreign := sorted(there.keys() - own.found.keys()):
        raise InvalidInputError(
            f"data cannot be imported: thread {shown(foreign[0])} is there and not of user "
            f"{shown(whose.user_id)}; copy_thread and delete_thread make room"
        )
    return there
