"""Plans that bring stored values back: hash lists by level, then bytes, then objects.

A value in chunks has a list of their hashes. A long list is itself chunks, so a value is read level
by level, each level of all values in one command. What the chunk cache holds costs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import (
    StoredCheckpoint,
    StoredWrite,
    decode_checkpoint,
    decode_write,
)
from mongomem.checkpoint.documents.collections import chunk_doc_id, chunk_hash
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.thread import advised, decode_name_key, thread_query
from mongomem.checkpoint.serde.chunks import (
    HASH_BYTES,
    LONGEST_HASH_LIST,
    StoredValue,
    split_hashes,
)
from mongomem.checkpoint.serde.serializer import (
    CONTENT_FIELDS,
    Obstacle,
    UnopenedError,
    ValueSerializer,
)
from mongomem.engine.commands import IDS_PER_COMMAND, Document, Find, Plan, slices
from mongomem.engine.effects import CacheUse
from mongomem.errors import CorruptDataError, MongomemError

T = TypeVar("T")


class MissingChunkError(CorruptDataError):
    """A chunk that a document refers to is not there. Readers look once more whether the document
    still is.
    """


async def retry_if_chunk_missing(attempt: Callable[[], Plan[T]]) -> T:
    """Return what `attempt` reads. Where a chunk is missing begin anew: its thread may have been
    removed meanwhile.

    Raises:
        CorruptDataError: It is missing again, and so it is lost.
    """
    try:
        return await attempt()
    except MissingChunkError:
        return await attempt()


# Documents.


async def read_checkpoints(
    context: Context, documents: Sequence[Document]
) -> list[StoredCheckpoint]:
    """Decode the documents of checkpoints: no command unless one cannot be opened, then one that
    tells why.

    Raises:
        CorruptDataError: One is damaged.
        ConfigurationError: One was written with other encryption, or none.
    """
    return [await _read(context, decode_checkpoint, document) for document in documents]


async def read_writes(context: Context, documents: Sequence[Document]) -> list[StoredWrite]:
    """Decode the documents of pending writes, as `read_checkpoints` does those of checkpoints."""
    return [await _read(context, decode_write, document) for document in documents]


async def read_undamaged(context: Context, documents: Sequence[Document]) -> list[StoredCheckpoint]:
    """Decode the documents of checkpoints, and leave out those that are damaged.

    Raises:
        ConfigurationError: As `read_checkpoints` does.
    """
    found: list[StoredCheckpoint] = []
    for document in documents:
        with context.caches.damage.left_out(document["_id"]):
            found += await read_checkpoints(context, [document])
    return found


async def _read(
    context: Context, decode: Callable[[Document, ValueSerializer], T], document: Document
) -> T:
    try:
        return decode(document, context.serializer)
    except UnopenedError as error:
        raise await diagnosis(context, document["thread_id"], error) from error


# Values.

ValueOf: TypeAlias = tuple[CheckpointRef, StoredValue]
"""A stored value, and the checkpoint in whose thread its chunks are."""


@dataclass(frozen=True, slots=True)
class HashList:
    """The chunk hashes of a stored value.

    Attributes:
        content: Those of its content, in order, joined.
        reached: Those of all levels.
    """

    content: bytes = b""
    reached: frozenset[bytes] = frozenset()

    @classmethod
    def of(cls, content: bytes, above: frozenset[bytes] = frozenset()) -> HashList:
        """Return the list of joined hashes, reached by way of those above."""
        return cls(content, above.union(split_hashes(content)))

    def ids(self, thread_id: str) -> list[bytes]:
        """Return the `_id` of each chunk of content, in order."""
        return [chunk_doc_id(thread_id, name) for name in split_hashes(self.content)]


INLINE = HashList()
"""That of a value without chunks."""


async def load_values(context: Context, values: Sequence[ValueOf]) -> list[bytes]:
    """Load the bytes of values.

    Raises:
        MissingChunkError: A chunk is gone.
        CorruptDataError: A chunk is not what was stored.
    """
    return await load_content(context, values, await resolve_hash_lists(context, values))


async def resolve_hash_lists(context: Context, values: Sequence[ValueOf]) -> list[HashList]:
    """Read hash lists down to the hashes of content: enough to know every chunk of the values.

    Raises:
        MissingChunkError: A chunk is gone.
        CorruptDataError: A chunk is not what was stored.
    """
    lists = [
        HashList.of(value.hash_levels[0]) if value.hash_levels else INLINE for _, value in values
    ]
    depth = max((len(value.hash_levels) for _, value in values), default=0)
    for level in range(1, depth):
        deeper = [
            index for index, (_, value) in enumerate(values) if len(value.hash_levels) > level
        ]
        chunks = await _chunks_of(
            context, [values[index] for index in deeper], [lists[index] for index in deeper]
        )
        for index, own in zip(deeper, chunks, strict=True):
            lists[index] = _list_below(lists[index], *values[index], level, own)
    return lists


async def _chunks_of(
    context: Context, values: Sequence[ValueOf], lists: Sequence[HashList]
) -> list[list[bytes]]:
    """Return the chunks that hash lists name, in order, of all values in one command."""
    refs = [ref for ref, _ in values]
    ids = [own.ids(ref.thread_id) for ref, own in zip(refs, lists, strict=True)]
    wanted = {key: ref for ref, own in zip(refs, ids, strict=True) for key in own}
    content = await fetch(context, wanted) if wanted else {}
    return [[content[key] for key in own] for own in ids]


def _list_below(
    above: HashList, ref: CheckpointRef, value: StoredValue, level: int, chunks: Sequence[bytes]
) -> HashList:
    """Return the hash list of the next level: what the chunks of the one above hold, and the rest
    that is inline.

    Raises:
        CorruptDataError: They are no hashes, or more than the value has bytes for.
    """
    joined = b"".join([*chunks, value.hash_levels[level]])
    if len(joined) % HASH_BYTES or len(joined) > value.size + LONGEST_HASH_LIST:
        raise CorruptDataError(f"{ref}: the names of its chunks are damaged")
    return HashList.of(joined, above.reached)


async def load_content(
    context: Context, values: Sequence[ValueOf], lists: Sequence[HashList]
) -> list[bytes]:
    """Load the bytes of values whose hash lists were resolved: one command for all of them.

    Raises:
        MissingChunkError: A chunk is gone.
        CorruptDataError: A chunk is not what was stored.
    """
    chunks = await _chunks_of(context, values, lists)
    return [
        _joined(ref, value, own) if own else value.inline
        for (ref, value), own in zip(values, chunks, strict=True)
    ]


def _joined(ref: CheckpointRef, value: StoredValue, chunks: Sequence[bytes]) -> bytes:
    size = len(value.inline) + sum(map(len, chunks))
    if size != value.size:  # before anything is made of them: sizes may lie
        raise CorruptDataError(
            f"{ref}: {value.size} bytes of a value were stored, and {size} are there"
        )
    return value.join(chunks)


async def fetch(context: Context, refs: Mapping[bytes, CheckpointRef]) -> dict[bytes, bytes]:
    """Return chunks by `_id`, given with checkpoints that lead to them: from the cache, else in one
    command.

    Raises:
        MissingChunkError: A chunk is gone.
        CorruptDataError: A chunk is not what was stored.
    """
    content = context.caches.chunks.get_all(refs)
    missing = {key: ref for key, ref in refs.items() if key not in content}
    await CacheUse(len(content), len(missing))
    for document in await _find_chunks(context, missing) if missing else []:
        key: bytes = document["_id"]
        content[key] = data = await _opened(context, missing[key], key, document)
        context.caches.chunks.put(key, data)
    for key, ref in missing.items():
        if key not in content:
            raise MissingChunkError(f"{ref}: chunk {chunk_hash(key).hex()} is missing")
    return content


async def _find_chunks(context: Context, missing: Mapping[bytes, CheckpointRef]) -> list[Document]:
    keys, found = list(missing), list[Document]()
    thread_ids = sorted({ref.thread_id for ref in missing.values()})
    for some in slices(keys, IDS_PER_COMMAND):
        query = {"_id": {"$in": some}, "thread_id": {"$in": thread_ids}}
        found += await Find(context.checkpoints, query, dict.fromkeys(CONTENT_FIELDS, 1))
    return found


async def _opened(context: Context, ref: CheckpointRef, key: bytes, document: Document) -> bytes:
    """Return the content of a chunk that a checkpoint leads to."""
    name = chunk_hash(key)
    try:
        return context.serializer.open_chunk(ref.thread_id, name, document)
    except CorruptDataError as error:
        message = f"{ref}: chunk {name.hex()}: {error}"
        if isinstance(error, UnopenedError):
            unopened = UnopenedError(message, error.obstacle)
            raise await diagnosis(context, ref.thread_id, unopened) from error
        raise CorruptDataError(message) from error


# Objects.


def deserialize(context: Context, ref: CheckpointRef, value: StoredValue, data: bytes) -> Any:
    """Deserialize a value.

    Raises:
        CorruptDataError: The serializer cannot read the bytes.
    """
    try:
        return context.serializer.loads(value.type, data)
    except Exception as error:
        raise CorruptDataError(
            f"{ref}: the serializer cannot read a value of type {shown(value.type)}: {shown(error)}"
        ) from error


async def load_bodies(
    context: Context, stored: Sequence[StoredCheckpoint]
) -> list[tuple[Checkpoint, CheckpointMetadata]]:
    """Load checkpoints without their values, and their metadata.

    Raises:
        MissingChunkError: A chunk is gone.
        CorruptDataError: As `deserialize_body` says.
    """
    loaded = await load_values(context, [(one.ref, one.body) for one in stored])
    return [
        deserialize_body(context, one.ref, one.body, data)
        for one, data in zip(stored, loaded, strict=True)
    ]


def deserialize_body(
    context: Context, ref: CheckpointRef, value: StoredValue, data: bytes
) -> tuple[Checkpoint, CheckpointMetadata]:
    """Deserialize the body of a checkpoint: the checkpoint without its values, and its metadata.

    Raises:
        CorruptDataError: The serializer cannot read the bytes, or they are something else.
    """
    body = deserialize(context, ref, value, data)
    parts = body if isinstance(body, dict) else {}
    checkpoint, metadata = parts.get("checkpoint"), parts.get("metadata")
    if not isinstance(checkpoint, dict) or not isinstance(metadata, dict):
        raise CorruptDataError(f"{ref}: what is stored as its body is no checkpoint")
    if not isinstance(checkpoint.get("channel_versions"), dict):
        raise CorruptDataError(f"{ref}: its channels have no versions")
    return checkpoint, metadata  # type: ignore[return-value] # checked as far as this package reads


# What cannot be opened.

DAMAGE: Mapping[Obstacle, str] = {
    Obstacle.KEY: "it was changed, or written under another key than its thread",
    Obstacle.PLAIN: (
        "its thread is encrypted (MongoSaver(allow_plaintext=True) reads such content "
        "for a migration)"
    ),
    Obstacle.SEALED: "its thread is not",
}


async def diagnosis(context: Context, thread_id: str, error: UnopenedError) -> MongomemError:
    """Return the error to raise in the place of one that says that content cannot be opened. One
    round trip.
    """
    found = await Find(context.checkpoints, thread_query(thread_id), {"name_key": 1}, limit=1)
    match, _ = decode_name_key(found[0] if found else None, context.serializer, thread_id)
    return advised(error.obstacle, match, thread_id) or CorruptDataError(
        f"{error}: {DAMAGE[error.obstacle]}"
    )
