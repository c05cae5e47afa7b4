"""Plans that bring stored values back: chunks by level, then bytes, then objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from mongomem.arguments import shown
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents.checkpoint import (
    StoredCheckpoint,
    StoredWrite,
    decode_checkpoint,
    decode_write,
)
from mongomem.checkpoint.documents.collections import chunk_doc_id, chunk_name, thread_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.serde.chunks import LONGEST_NAMES, NAME_BYTES, StoredValue, split
from mongomem.checkpoint.serde.place_digest import name_key_binding
from mongomem.checkpoint.serde.serializer import (
    CONTENT_FIELDS,
    NAME_KEY_BYTES,
    Obstacle,
    UnopenedError,
    ValueSerializer,
)
from mongomem.engine.commands import Document, Find, Plan
from mongomem.errors import ConfigurationError, CorruptDataError, MongomemError

T = TypeVar("T")

SLICE = 50_000
"""How many chunks one command names: 28 bytes each, far below a message."""

NO_NAMES: frozenset[bytes] = frozenset()


class MissingChunkError(CorruptDataError):
    """A chunk that a document refers to is not there. Readers look once more whether the document
    still is.
    """


async def read_records(context: Context, documents: Sequence[Document]) -> list[StoredCheckpoint]:
    """Read the documents of checkpoints: no command unless one cannot be opened, then one that
    tells why.

    Raises:
        CorruptDataError: One is damaged.
        ConfigurationError: One was written with other encryption, or none.
    """
    return [await _read(context, decode_checkpoint, document) for document in documents]


async def read_writes(context: Context, documents: Sequence[Document]) -> list[StoredWrite]:
    """Read the documents of pending writes, as `read_records` does those of checkpoints."""
    return [await _read(context, decode_write, document) for document in documents]


async def sound_records(context: Context, documents: Sequence[Document]) -> list[StoredCheckpoint]:
    """Read the documents of checkpoints, and leave out those that are damaged.

    Raises:
        ConfigurationError: As `read_records` does.
    """
    records: list[StoredCheckpoint] = []
    for document in documents:
        with context.state.damage.left_out(document["_id"]):
            records += await read_records(context, [document])
    return records


async def _read(
    context: Context, read: Callable[[Document, ValueSerializer], T], document: Document
) -> T:
    try:
        return read(document, context.codec)
    except UnopenedError as error:
        raise await diagnosis(context, document["thread_id"], error) from error


@dataclass(frozen=True, slots=True)
class Placed:
    """A stored value and the checkpoint, or the newest one, in whose thread its chunks are."""

    address: CheckpointRef
    value: StoredValue


@dataclass(frozen=True, slots=True)
class Loaded:
    """The bytes of a stored value, and the names of every chunk on the way to them."""

    data: bytes
    names: frozenset[bytes]


@dataclass(slots=True)
class Descent:
    """A value on its way from the highest names down: the names reached last, and all there
    were.
    """

    placed: Placed
    lowest: bytes
    reached: set[bytes]

    @classmethod
    def of(cls, placed: Placed) -> Descent:
        top = placed.value.names[0] if placed.value.names else b""
        return cls(placed, top, set(split(top)))

    def resolve_hash_lists(self, pieces: Sequence[bytes], rest: bytes) -> None:
        """Go down one level: to the names that `pieces` hold, and the rest of them.

        Raises:
            CorruptDataError: They are no names, or more than the value has bytes for.
        """
        size = sum(map(len, pieces)) + len(rest)
        if size % NAME_BYTES or size > self.placed.value.size + LONGEST_NAMES:
            raise CorruptDataError(f"{self.placed.address}: the names of its chunks are damaged")
        self.lowest = b"".join([*pieces, rest])
        self.reached.update(split(self.lowest))

    def keys(self) -> list[bytes]:
        return [chunk_doc_id(self.placed.address.thread_id, name) for name in split(self.lowest)]


async def load(context: Context, values: Sequence[Placed]) -> list[Loaded]:
    """Load values: one command a level for all of them, none for what the chunk cache holds.

    Raises:
        MissingChunkError: A chunk is gone.
        CorruptDataError: A chunk is not what was stored.
    """
    descents = await resolve_hash_lists(
        context, [placed for placed in values if placed.value.names]
    )
    keys = [descent.keys() for descent in descents]
    content = await fetch(context, _owners(descents, keys))
    joined = iter(
        [
            _joined(descent, [content[key] for key in own])
            for descent, own in zip(descents, keys, strict=True)
        ]
    )
    return [
        next(joined) if placed.value.names else Loaded(placed.value.ends, NO_NAMES)
        for placed in values
    ]


def _joined(descent: Descent, pieces: Sequence[bytes]) -> Loaded:
    value = descent.placed.value
    size = len(value.ends) + sum(map(len, pieces))
    if size != value.size:  # before anything is made of them: sizes may lie
        raise CorruptDataError(
            f"{descent.placed.address}: {value.size} bytes of a value were stored, and {size} are "
            "there"
        )
    return Loaded(value.whole(pieces), frozenset(descent.reached))


async def resolve_hash_lists(context: Context, values: Sequence[Placed]) -> list[Descent]:
    """Follow names of names down to the lowest ones: enough to know every chunk without reading
    content.
    """
    descents = [Descent.of(placed) for placed in values]
    for level in range(1, max((len(placed.value.names) for placed in values), default=0)):
        down = [descent for descent in descents if len(descent.placed.value.names) > level]
        keys = [descent.keys() for descent in down]
        content = await fetch(context, _owners(down, keys))
        for descent, own in zip(down, keys, strict=True):
            descent.resolve_hash_lists(
                [content[key] for key in own], descent.placed.value.names[level]
            )
    return descents


def _owners(descents: Sequence[Descent], keys: Sequence[list[bytes]]) -> dict[bytes, CheckpointRef]:
    return {
        key: descent.placed.address
        for descent, own in zip(descents, keys, strict=True)
        for key in own
    }


async def fetch(context: Context, owners: Mapping[bytes, CheckpointRef]) -> dict[bytes, bytes]:
    """Return chunks by `_id`, given with checkpoints that lead to them: from the cache, else in one
    command.

    Raises:
        MissingChunkError: A chunk is gone.
        CorruptDataError: A chunk is not what was stored.
    """
    content = context.state.chunks.get_all(owners)
    missing = {key: address for key, address in owners.items() if key not in content}
    thread_ids = sorted({address.thread_id for address in missing.values()})
    for some in _slices(list(missing)):
        query = {"_id": {"$in": some}, "thread_id": {"$in": thread_ids}}
        for document in await Find(context.checkpoints, query, dict.fromkeys(CONTENT_FIELDS, 1)):
            key: bytes = document["_id"]
            content[key] = data = await _opened(context, missing[key], key, document)
            context.state.chunks.put(key, data)
    _check_complete(content, missing)
    return content


def _check_complete(content: Mapping[bytes, bytes], missing: Mapping[bytes, CheckpointRef]) -> None:
    for key, address in missing.items():
        if key not in content:
            raise MissingChunkError(f"{address}: chunk {chunk_name(key).hex()} is missing")


def _slices(keys: list[bytes]) -> Iterator[list[bytes]]:
    return (keys[start : start + SLICE] for start in range(0, len(keys), SLICE))


async def _opened(
    context: Context, address: CheckpointRef, key: bytes, document: Document
) -> bytes:
    """Return the content of a chunk that a checkpoint leads to."""
    name = chunk_name(key)
    try:
        return context.codec.open_chunk(address.thread_id, name, document)
    except CorruptDataError as error:
        message = f"{address}: chunk {name.hex()}: {error}"
        if isinstance(error, UnopenedError):
            raise await diagnosis(
                context, address.thread_id, UnopenedError(message, error.obstacle)
            ) from error
        raise CorruptDataError(message) from error


def revive(context: Context, address: CheckpointRef, value: StoredValue, data: bytes) -> Any:
    """Deserialize a value.

    Raises:
        CorruptDataError: The serializer cannot read the bytes.
    """
    try:
        return context.codec.loads(value.type, data)
    except Exception as error:
        raise CorruptDataError(
            f"{address}: the serializer cannot read a value of type {shown(value.type)}: "
            f"{shown(error)}"
        ) from error


@dataclass(frozen=True, slots=True)
class Body:
    """A checkpoint without its values, and its metadata."""

    checkpoint: dict[str, Any]
    metadata: Any


def revive_body(context: Context, address: CheckpointRef, value: StoredValue, data: bytes) -> Body:
    """Deserialize the body of a checkpoint.

    Raises:
        CorruptDataError: The serializer cannot read the bytes, or they are something else.
    """
    revived = revive(context, address, value, data)
    parts = revived if isinstance(revived, dict) else {}
    checkpoint, metadata = parts.get("checkpoint"), parts.get("metadata")
    if not isinstance(checkpoint, dict) or not isinstance(metadata, dict):
        raise CorruptDataError(f"{address}: what is stored as its body is no checkpoint")
    if not isinstance(checkpoint.get("channel_versions"), dict):
        raise CorruptDataError(f"{address}: its channels have no versions")
    return Body(checkpoint, metadata)


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


class Key(Enum):
    """What a thread document says of the key that its thread was written under."""

    ABSENT = "it was written without encryption"
    FITS = "it was written under the key of this serializer"
    DIFFERS = "it was written under another encryption key"


OTHER_KEY = "thread {0} was written under another encryption key than this serializer has"

ADVICE: Mapping[tuple[Obstacle, Key], str] = {
    (Obstacle.KEY, Key.DIFFERS): OTHER_KEY,
    (Obstacle.PLAIN, Key.DIFFERS): OTHER_KEY,
    (
        Obstacle.PLAIN,
        Key.ABSENT,
    ): "thread {0} was written without encryption, and this serializer encrypts: "
    "MongoSaver(allow_plaintext=True) goes on with it, for a migration",
    (
        Obstacle.SEALED,
        Key.DIFFERS,
    ): "thread {0} is encrypted: pass the EncryptedSerializer that wrote it as serde= "
    "(its AES cipher needs pip install pycryptodome)",
}
"""What to do, where something can be done. All else is damage."""

DAMAGE: Mapping[Obstacle, str] = {
    Obstacle.KEY: "it was changed, or written under another key than its thread",
    Obstacle.PLAIN: (
        "its thread is encrypted (MongoSaver(allow_plaintext=True) reads such content "
        "for a migration)"
    ),
    Obstacle.SEALED: "its thread is not",
}


def name_key_of(
    codec: ValueSerializer, thread_id: str, document: Document | None
) -> tuple[Key, bytes | None]:
    """Return what a thread document says of its key, and the secret that its chunks are named with,
    if it can be had.

    Where the key fits and there is no secret, it is damaged, or that of another thread.
    """
    sealed = (document or {}).get("name_key")
    if sealed is None:
        return Key.ABSENT, None
    try:
        opened = codec.open(sealed if isinstance(sealed, dict) else {})
        opened.check(name_key_binding(thread_id))
    except UnopenedError as error:
        return (Key.FITS if error.obstacle is Obstacle.PLAIN else Key.DIFFERS), None
    except CorruptDataError:
        return Key.FITS, None
    return Key.FITS, opened.content if len(opened.content) == NAME_KEY_BYTES else None


def advised(obstacle: Obstacle, key: Key, thread_id: object) -> ConfigurationError | None:
    """Return the error that says what to do about content that cannot be opened, or None where it
    is damaged.
    """
    advice = ADVICE.get((obstacle, key))
    return None if advice is None else ConfigurationError(advice.format(shown(thread_id)))


async def diagnosis(context: Context, thread_id: str, error: UnopenedError) -> MongomemError:
    """Return the error to raise in the place of one that says that content cannot be opened. One
    round trip.
    """
    query = {"_id": thread_doc_id(thread_id), "thread_id": thread_id}
    found = await Find(context.checkpoints, query, {"name_key": 1}, limit=1)
    key, _ = name_key_of(context.codec, thread_id, found[0] if found else None)
    return advised(error.obstacle, key, thread_id) or CorruptDataError(
        f"{error}: {DAMAGE[error.obstacle]}"
    )
