"""Source: the documents of langgraph-checkpoint-mongodb, 0.2 to 0.5.

    checkpoints        thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type,
                       checkpoint (the serializer's bytes), metadata (a value each)
    checkpoint_writes  thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel,
                       type, value

A value of the metadata is JSON as bytes (0.2.0 with langgraph-checkpoint 2), or a list of the
serializer's type and bytes (since langgraph-checkpoint 3). The package itself makes indexes where
it opens a database, so it does not read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langgraph.checkpoint.base import writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from mongomem.arguments import shown
from mongomem.checkpoint.documents.config import CheckpointRef, identifier, optional_identifier
from mongomem.checkpoint.serde.default import checked_serde
from mongomem.engine.commands import Aggregate, Document, Find, ListIndexes, slices
from mongomem.engine.runners import runners_for
from mongomem.errors import ConfigurationError, InvalidInputError
from mongomem.migration.blocked_types import all_revived
from mongomem.migration.parts import (
    LeftOut,
    Place,
    SourceCheckpoint,
    SourceThread,
    SourceWrite,
    source_thread,
)

PAGE_SIZE = 8
"""Checkpoints in a page: each is one document, of up to 16 MB."""

DB_NAME, CHECKPOINTS, WRITES = "checkpointing_db", "checkpoints", "checkpoint_writes"
"""What the package calls them unless it is told (0.2 to 0.5)."""

PLACE: Document = {"checkpoint_ns": 1, "checkpoint_id": 1, "parent_checkpoint_id": 1}
COUNTED: Document = {
    "$group": {
        "_id": {"ns": "$checkpoint_ns", "id": "$checkpoint_id"},
        "writes": {"$sum": 1},
    }
}
Key = tuple[str, str | None]


class MongoDBThreads:
    """The threads that a ``MongoDBSaver`` of langgraph-checkpoint-mongodb has stored.

    Args:
        client: A ``MongoClient``.
        db_name: The database.
        checkpoints: The collection of checkpoints.
        writes: That of pending writes.
        serde: The serializer of the saver; None: the default one of `MongoSaver`, which imports no
            module.
    """

    def __init__(
        self,
        client: Any,
        db_name: str = DB_NAME,
        checkpoints: str = CHECKPOINTS,
        writes: str = WRITES,
        serde: SerializerProtocol | None = None,
    ) -> None:
        self._database = db_name
        self._checkpoints, self._writes = checkpoints, writes
        self._serde = checked_serde(serde)
        self._run = runners_for(client, db_name, None).run

    def check(self) -> None:
        """Look whether the collections are there.

        Raises:
            ConfigurationError: They are not.
        """
        for name in (self._checkpoints, self._writes):
            self._run(check_collection(self._database, name))

    def threads(self) -> Iterator[SourceThread | LeftOut]:
        """Give the threads in the order of their ids, one index entry each. Ids of one type stand
        together in BSON's order, and ``$gt`` compares within a type alone.
        """
        found = self._run(self._next_thread({}))
        while found is not None:
            own_id = found.get("thread_id")
            yield source_thread(own_id)
            same_type = {"thread_id": {"$gt": own_id}}
            any_type = {"$expr": {"$gt": ["$thread_id", {"$literal": own_id}]}}
            found = self._run(self._next_thread(same_type)) or self._run(
                self._next_thread(any_type)
            )

    async def _next_thread(self, condition: Document) -> Document | None:
        found = await Find(
            self._checkpoints,
            condition,
            {"_id": 0, "thread_id": 1},
            sort=[("thread_id", 1)],
            limit=1,
        )
        return found[0] if found else None

    def places(self, thread: SourceThread) -> Iterator[Place | LeftOut]:
        documents, counts = self._run(self._listed(thread))
        for one in documents:
            try:
                ref = _ref(thread, one)
                parent = optional_identifier("parent", one.get("parent_checkpoint_id"))
                yield Place(ref, parent, counts.get(_key(one), 0))
            except InvalidInputError as error:
                yield LeftOut.of(f"a checkpoint of thread {shown(thread.thread_id)}", error)

    async def _listed(self, thread: SourceThread) -> tuple[list[Document], dict[Key, int]]:
        own = {"thread_id": thread.own_id}
        documents = await Find(self._checkpoints, own, PLACE)
        counted = await Aggregate(self._writes, [{"$match": own}, COUNTED])
        counts = {
            (one["_id"].get("ns", ""), one["_id"].get("id")): one["writes"] for one in counted
        }
        return documents, counts

    def read(
        self, thread: SourceThread, places: Sequence[Place]
    ) -> Iterator[SourceCheckpoint | LeftOut]:
        for some in slices(places, PAGE_SIZE):
            checkpoints, writes = self._run(self._page(thread, some))
            for place in some:
                key = (place.ref.checkpoint_ns, place.ref.checkpoint_id)
                yield self._decoded(place, checkpoints.get(key), writes.get(key, []))

    async def _page(
        self, thread: SourceThread, places: Sequence[Place]
    ) -> tuple[dict[Key, Document], dict[Key, list[Document]]]:
        ids = [place.ref.checkpoint_id for place in places]
        own = {"thread_id": thread.own_id, "checkpoint_id": {"$in": ids}}
        checkpoints = {_key(one): one for one in await Find(self._checkpoints, own)}
        writes: dict[Key, list[Document]] = {}
        for one in await Find(self._writes, own):
            writes.setdefault(_key(one), []).append(one)
        return checkpoints, writes

    def _decoded(
        self, place: Place, document: Document | None, writes: Sequence[Document]
    ) -> SourceCheckpoint | LeftOut:
        try:
            if document is None:
                raise InvalidInputError("it was deleted meanwhile")
            return self._checkpoint(place, document, writes)
        except Exception as error:  # whatever a document or a class of the application does
            return LeftOut.of(place.ref, error)

    def _checkpoint(
        self, place: Place, document: Document, writes: Sequence[Document]
    ) -> SourceCheckpoint:
        with all_revived():
            checkpoint = self._loads(document["type"], document["checkpoint"])
            metadata = self._metadata(document.get("metadata") or {})
            decoded = [self._write(one) for one in writes]
        if checkpoint["id"] != place.ref.checkpoint_id:
            raise InvalidInputError(f"its content is checkpoint {shown(checkpoint['id'])}")
        decoded.sort(key=lambda one: writes_sort_key(one.task_path, one.task_id, one.idx))
        return SourceCheckpoint(place, checkpoint, metadata, decoded)

    def _write(self, document: Document) -> SourceWrite:
        value = self._loads(document["type"], document["value"])
        task_path = document.get("task_path") or ""
        return SourceWrite(
            document["task_id"], task_path, document["idx"], document["channel"], value
        )

    def _loads(self, kind: str, data: bytes) -> Any:
        """Deserialize a value.

        Raises:
            InvalidInputError: It is encrypted (LangGraph's ``EncryptedSerializer`` names the cipher
                behind a plus), and the serializer does not decrypt.
        """
        try:
            return self._serde.loads_typed((kind, data))
        except NotImplementedError as error:
            if "+" not in kind:
                raise
            raise InvalidInputError(
                f"it is encrypted ({kind}): --from-saver takes a saver that has the key"
            ) from error

    def _metadata(self, stored: Any) -> Any:
        if isinstance(stored, dict):
            return {key: self._metadata(one) for key, one in stored.items()}
        kind, data = ("json", stored) if isinstance(stored, bytes) else stored
        return self._loads(kind, data)


def _ref(thread: SourceThread, document: Document) -> CheckpointRef:
    namespace = optional_identifier("checkpoint_ns", document.get("checkpoint_ns")) or ""
    checkpoint_id = identifier("checkpoint_id", document.get("checkpoint_id"))
    return CheckpointRef(thread.thread_id, namespace, checkpoint_id)


def _key(document: Document) -> Key:
    return document.get("checkpoint_ns") or "", document.get("checkpoint_id")


async def check_collection(database: str, name: str) -> None:
    """Look whether a collection is there: one that is has an index, that of ``_id``.

    Raises:
        ConfigurationError: It is not.
    """
    if not await ListIndexes(name):
        raise ConfigurationError(f"there is no collection {name!r} in the database {database!r}")
