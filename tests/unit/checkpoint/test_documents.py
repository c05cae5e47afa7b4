"""Every document is decoded to what it was encoded from, plain and encrypted; and only to that."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from mongomem import CorruptDataError
from mongomem.checkpoint.documents.checkpoint import (
    StoredCheckpoint,
    StoredWrite,
    decode_checkpoint,
    decode_write,
    encode_checkpoint,
    encode_write,
)
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.fields import decode_value, encode_value
from mongomem.checkpoint.documents.thread import (
    ThreadState,
    ThreadUse,
    decode_thread,
    encode_chunk,
    encode_thread,
)
from mongomem.checkpoint.serde.chunks import HASH_BYTES, StoredValue, content_hash
from mongomem.checkpoint.serde.message_cache import MessageCache
from mongomem.checkpoint.serde.serializer import ValueSerializer
from mongomem.engine.commands import Document, Update

PLAIN = ValueSerializer.of(JsonPlusSerializer(), MessageCache(0))
ENCRYPTED = ValueSerializer.of(
    EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef"), MessageCache(0)
)
SERIALIZERS = [pytest.param(PLAIN, id="plain"), pytest.param(ENCRYPTED, id="encrypted")]
NOW = datetime(2026, 3, 1, 12, 0, 0, 123000, timezone.utc)

texts = st.text(min_size=1, max_size=12)
epochs = st.integers(0, 2**62)
times = st.integers(0, 10**10).map(lambda number: NOW + timedelta(milliseconds=number))
hashes = st.binary(min_size=HASH_BYTES, max_size=HASH_BYTES)
inline = st.builds(
    lambda kind, data: StoredValue(kind, data, (), len(data)), texts, st.binary(max_size=200)
)
chunked = st.builds(
    StoredValue,
    texts,
    st.binary(max_size=200),
    st.lists(st.lists(hashes, min_size=1, max_size=3).map(b"".join), min_size=1, max_size=3).map(
        tuple
    ),
    st.integers(0, 2**40),
)
values = inline | chunked
refs = st.builds(CheckpointRef, texts, st.text(max_size=12), texts)
checkpoints = st.builds(
    StoredCheckpoint,
    refs,
    st.none() | texts,
    epochs,
    values,
    st.dictionaries(texts, values, max_size=4),
    times,
    times,
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
writes = st.builds(
    StoredWrite, refs, texts, st.text(max_size=8), st.integers(-5, 9), texts, values, epochs, times
)


def stored(document: Document) -> Document:
    """Return a document as MongoDB gives it back."""
    return bson.decode(bson.encode(document))


@pytest.mark.parametrize("serializer", SERIALIZERS)
@given(checkpoint=checkpoints, compress=st.booleans())
def test_checkpoints(
    serializer: ValueSerializer, checkpoint: StoredCheckpoint, compress: bool
) -> None:
    document = encode_checkpoint(checkpoint, {"metadata": {}}, serializer, compress=compress)
    assert decode_checkpoint(stored(document), serializer) == checkpoint


@pytest.mark.parametrize("serializer", SERIALIZERS)
@given(write=writes, compress=st.booleans())
def test_pending_writes(serializer: ValueSerializer, write: StoredWrite, compress: bool) -> None:
    document = encode_write(write, serializer, compress=compress)
    assert decode_write(stored(document), serializer) == write


@given(value=values)
def test_values(value: StoredValue) -> None:
    assert decode_value(stored(encode_value(value)), value.inline) == value


@pytest.mark.parametrize("serializer", SERIALIZERS)
@given(content=st.binary(max_size=5000), thread_id=texts, compress=st.booleans())
def test_chunks(
    serializer: ValueSerializer, content: bytes, thread_id: str, compress: bool
) -> None:
    name = content_hash(content, b"")
    upsert = encode_chunk(thread_id, name, content, 1, NOW, serializer, compress=compress)
    document = stored(after(upsert, {}))
    assert serializer.open_chunk(thread_id, name, document) == content


@pytest.mark.parametrize("serializer", SERIALIZERS)
@given(
    thread_id=texts,
    epoch=epochs,
    generation=st.integers(0, 2**62),
    members=st.dictionaries(st.sampled_from(["user_id", "tenant"]), st.lists(texts, unique=True)),
)
def test_threads(
    serializer: ValueSerializer,
    thread_id: str,
    epoch: int,
    generation: int,
    members: dict[str, list[str]],
) -> None:
    name_key = b"k" * 32 if serializer.seals else b""
    begun = ThreadState(epoch, generation, NOW, name_key, begins=True)
    use = ThreadUse({"updated_at": NOW}, members=members)
    document = stored(after(encode_thread(thread_id, begun, use, serializer, NOW), {}))
    found = decode_thread(document, serializer, now=NOW, ttl=None, new_name_key=b"")
    expected = {key: frozenset(listed) for key, listed in members.items()}
    assert found == replace(begun, begins=False, members=expected)


@given(first=checkpoints, second=checkpoints)
def test_content_is_read_in_its_own_place_only(
    first: StoredCheckpoint, second: StoredCheckpoint
) -> None:
    document, other = (encode_checkpoint(one, {}, PLAIN) for one in (first, second))
    moved = {**other, "content": document["content"]}
    if document["content"] != other["content"]:
        with pytest.raises(CorruptDataError):
            decode_checkpoint(stored(moved), PLAIN)


def after(upsert: Update, document: dict[str, Any]) -> dict[str, Any]:
    """Return a document after the upsert that makes it, as far as encoders use operators."""
    change: Any = upsert.update
    made = {**upsert.filter, **change.get("$setOnInsert", {}), **change.get("$set", {})}
    return document | {
        field: made[field] for field in made if field not in change.get("$unset", {})
    }
