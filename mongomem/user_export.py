"""What `MongoMemory.export_user` returns: a stream of objects, or JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeAlias

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.store.base import Item

Exported: TypeAlias = CheckpointTuple | Item


class UserExport(Iterator[Exported]):
    """Everything of a user. Iterating streams it: the checkpoints of every thread, newest first,
    then the memories.

    Raises:
        CorruptDataError: At the end of the stream, where threads do not say whose they are.
    """

    def __init__(self, stream: Iterator[Exported], make_json: Callable[[], str]) -> None:
        self._stream, self._make_json = stream, make_json

    def __next__(self) -> Exported:
        return next(self._stream)

    def to_json(self) -> str:
        """Return everything of the user as the text of one JSON document, which
        `MongoMemory.import_user` takes; whatever was streamed before.

        It has a transcript of every thread. State is in it as base64 of what the serializer gives,
        not encrypted. Threads that do not say whose they are stand under ``undecided``.
        """
        return self._make_json()


class AsyncUserExport(AsyncIterator[Exported]):
    """What `UserExport` is, for ``async for``."""

    def __init__(
        self,
        stream: AsyncIterator[Exported],
        make_json: Callable[[], Coroutine[Any, Any, str]],
    ) -> None:
        self._stream, self._make_json = stream, make_json

    async def __anext__(self) -> Exported:
        return await anext(self._stream)

    async def to_json(self) -> str:
        """Do what `UserExport.to_json` does."""
        return await self._make_json()
