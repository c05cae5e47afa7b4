"""Integrity: what is read is what was stored in that place, in plain as in encrypted threads."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from bson import json_util
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from pymongo import MongoClient

from mongomem import ConfigurationError, CorruptDataError, MongoMemory
from mongomem.checkpoint.documents.collections import thread_doc_id
from mongomem.checkpoint.saver import MongoSaver
from mongomem.checkpoint.serde.serializer import MARK, ValueSerializer
from support.graphs import Steps
from support.savers import KINDS, Calls, client_of

pytestmark = pytest.mark.shares_database

CHECKPOINTS, WRITES = "mongomem_checkpoints", "mongomem_checkpoint_writes"

LONG_BYTES = 200_000
"""Some 150 chunks: their names are two lists or more, wherever the key of the hashes cuts these."""

CONTENT = ("data", "packed", "sealed", "cipher", "digest")


def encrypting(key: bytes = b"k" * 32) -> EncryptedSerializer:
    return EncryptedSerializer.from_pycryptodome_aes(key=key)


class World:
    """Two threads, each of three checkpoints with long values and pending writes, and a look behind
    the saver.
    """

    def __init__(self, client: Any, kind: str, database: Any, **options: Any) -> None:
        self.client, self.kind, self.database, self.options = client, kind, database, options
        self.configs: dict[str, list[Any]] = {}

    def calls(self, **options: Any) -> Calls:
        """Return a saver that remembers nothing."""
        return Calls(
            MongoSaver(self.client, self.database.name, **{**self.options, **options}), self.kind
        )

    async def fill(self) -> World:
        source = random.Random(3)
        written = random.Random(13)  # of 10 to 22 chunks each: too few names for a list of them
        for thread_id in ("t", "u"):
            calls = self.calls()
            steps = Steps(calls, thread_id)
            configs = [
                await steps.put(
                    long=source.randbytes(LONG_BYTES), blob=b"secret", text=f"of {thread_id}"
                )
            ]
            for number in range(2):
                configs.append(await steps.put(long=source.randbytes(LONG_BYTES), number=number))
            for config in configs:
                writes = [
                    ("text", f"written by {thread_id}"),
                    ("blob", b"raw"),
                    ("long", written.randbytes(90_000)),
                ]
                await calls("put_writes", config, writes, "task")
            self.configs[thread_id] = configs
        return self

    def documents(self) -> dict[str, list[dict[str, Any]]]:
        return {name: list(self.database[name].find()) for name in (CHECKPOINTS, WRITES)}

    def fill_like(self, filled: World, documents: dict[str, list[dict[str, Any]]]) -> World:
        """Store what another world stored, as long as nobody had changed it."""
        self.configs = filled.configs
        for name, stored in documents.items():
            self.database[name].insert_many(stored)
        return self

    async def read(self, thread_id: str = "t", number: int = 2, **options: Any) -> Any:
        return await self.calls(**options)("get_tuple", self.configs[thread_id][number])

    async def refused(self, match: str = "checkpoint .* of thread 't'", **options: Any) -> None:
        """See that the newest checkpoint of "t" is refused, and that listings go on without it and
        name it.
        """
        with pytest.raises(CorruptDataError, match=match):
            await self.read(**options)
        calls = self.calls(**options)
        listed = await calls.list(None)
        assert self.configs["t"][2] not in [one.config for one in listed]
        assert self.configs["u"][0] in [one.config for one in listed]
        assert calls.target.damaged_documents >= 1

    def checkpoint(self, thread_id: str = "t", number: int = 2) -> dict[str, Any]:
        wanted = self.configs[thread_id][number]["configurable"]["checkpoint_id"]
        found: Any = self.database[CHECKPOINTS].find_one({"checkpoint_id": wanted})
        return dict(found)

    def write(self, thread_id: str = "t", number: int = 2, idx: int = 0) -> dict[str, Any]:
        wanted = self.configs[thread_id][number]["configurable"]["checkpoint_id"]
        found: Any = self.database[WRITES].find_one({"checkpoint_id": wanted, "idx": idx})
        return dict(found)

    def thread(self, thread_id: str = "t") -> dict[str, Any]:
        found: Any = self.database[CHECKPOINTS].find_one({"_id": thread_doc_id(thread_id)})
        return dict(found)

    def chunks(
        self, thread_id: str = "t", number: int = 2, *, level: int = 0
    ) -> list[dict[str, Any]]:
        """Return the chunks that the long channel names: lists of names at level 0, content in the
        long write.
        """
        channel = next(
            one
            for one in self.checkpoint(thread_id, number)["channels"]
            if one["channel"] == "long"
        )
        names = (
            channel["chunks"][0] if level == 0 else self.write(thread_id, number, 2)["chunks"][0]
        )
        keys = [
            thread_doc_id(thread_id) + names[start : start + 16]
            for start in range(0, len(names), 16)
        ]
        return [dict(self.database[CHECKPOINTS].find_one({"_id": key}) or {}) for key in keys]

    def save(self, document: dict[str, Any], collection: str = CHECKPOINTS) -> None:
        self.database[collection].replace_one({"_id": document["_id"]}, document, upsert=True)


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]


def content_of(fields: dict[str, Any]) -> dict[str, Any]:
    return {field: fields[field] for field in CONTENT if field in fields}


def with_content(document: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the content of another."""
    kept = {field: value for field, value in document.items() if field not in CONTENT}
    return kept | content_of(other)


@pytest.fixture(params=["plain", "encrypted"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if request.param == "plain" else {"serde": encrypting()}


@pytest.fixture(scope="module")
def filled() -> dict[Any, tuple[World, dict[str, Any]]]:
    """The first world of each kind, and its documents: a saver stores them once."""
    return {}


@pytest.fixture
async def world(
    mongo_uri: str,
    mongo_client: MongoClient,
    database_name: str,
    kind: str,
    options: dict[str, Any],
    filled: dict[Any, tuple[World, dict[str, Any]]],
) -> AsyncIterator[World]:
    async with client_of(kind, mongo_uri) as client:
        looker = client if kind == "mongomock" else mongo_client
        world = World(client, kind, looker[database_name], **options)
        place = kind, "encrypted" if options else "plain"
        if place not in filled:
            await world.fill()
            filled[place] = world, world.documents()
        else:
            world.fill_like(*filled[place])
        yield world


def flip_chunk(world: World, level: int) -> None:
    chunk = world.chunks(level=level)[0]
    field = next(field for field in ("data", "packed", "sealed") if field in chunk)
    world.save(chunk | {field: flipped(chunk[field])})


def swap_chunks(world: World, level: int) -> None:
    one, other = world.chunks(level=level)[:2]
    world.save(with_content(one, other))
    world.save(with_content(other, one))


def take_chunk_of_another_thread(world: World, level: int) -> None:
    world.save(with_content(world.chunks(level=level)[0], world.chunks("u", level=level)[0]))


def take_chunk_of_another_checkpoint(world: World, level: int) -> None:
    world.save(with_content(world.chunks(level=level)[0], world.chunks(number=1, level=level)[0]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [0, 1], ids=["names", "content"])
@pytest.mark.parametrize(
    "damage",
    [flip_chunk, swap_chunks, take_chunk_of_another_thread, take_chunk_of_another_checkpoint],
)
async def test_a_chunk_is_what_its_name_says(
    world: World, damage: Callable[..., None], level: int
) -> None:
    damage(world, level)
    await world.refused("checkpoint .* of thread 't': chunk [0-9a-f]{32}")


def exchange_contents(world: World, thread_id: str, number: int) -> None:
    own, other = world.checkpoint(), world.checkpoint(thread_id, number)
    described = {field: other[field] for field in ("body", "channels", "content")}
    world.save(own | described)


CHECKPOINT_CHANGES: dict[str, Callable[[World], dict[str, Any]]] = {
    "content of another checkpoint": lambda world: {
        field: world.checkpoint(number=1)[field] for field in ("body", "channels", "content")
    },
    "content of another thread": lambda world: {
        field: world.checkpoint("u")[field] for field in ("body", "channels", "content")
    },
    "a channel of another checkpoint": lambda world: {
        "channels": [
            other if one["channel"] == "long" else one
            for one, other in zip(
                world.checkpoint()["channels"], world.checkpoint(number=1)["channels"], strict=False
            )
        ]
    },
    "channels in another order": lambda world: {"channels": world.checkpoint()["channels"][::-1]},
    "another type": lambda world: {
        "channels": [one | {"type": "bytes"} for one in world.checkpoint()["channels"]],
    },
    "another parent": lambda world: {
        "parent_checkpoint_id": world.checkpoint(number=0)["checkpoint_id"]
    },
    "another epoch": lambda world: {"epoch": world.checkpoint()["epoch"] + 1},
    "another time": lambda world: {
        "created_at": world.checkpoint()["created_at"] - timedelta(days=1)
    },
    "sends in its parent": lambda world: {"sends_in_parent": True},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHECKPOINT_CHANGES)
async def test_a_checkpoint_is_what_was_stored_in_its_place(world: World, change: str) -> None:
    world.save(world.checkpoint() | CHECKPOINT_CHANGES[change](world))
    await world.refused()


WRITE_CHANGES: dict[str, Callable[[World], dict[str, Any]]] = {
    "content of another write": lambda world: with_content(world.write(), world.write(idx=1)),
    "content of another checkpoint": lambda world: with_content(
        world.write(), world.write(number=1)
    ),
    "content of another thread": lambda world: with_content(world.write(), world.write("u")),
    "another channel": lambda world: world.write() | {"channel": "blob"},
    "another path": lambda world: world.write() | {"task_path": "~"},
    "another type": lambda world: world.write() | {"type": "bytes"},
    "another number": lambda world: world.write() | {"idx": 7},
    "another task": lambda world: world.write() | {"task_id": "other"},
    "chunks of another write": lambda world: (
        world.write(idx=2) | {"chunks": world.write(number=1, idx=2)["chunks"]}
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", WRITE_CHANGES)
async def test_a_pending_write_is_what_was_stored_in_its_place(world: World, change: str) -> None:
    world.save(WRITE_CHANGES[change](world), WRITES)
    await world.refused("checkpoint .* of thread 't'")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("field", ["thread_id", "checkpoint_ns", "checkpoint_id"])
async def test_a_document_under_a_changed_identifier_is_never_anothers(
    world: World, field: str
) -> None:
    moved = {
        "thread_id": "u",
        "checkpoint_ns": "inner",
        "checkpoint_id": "ffffffff-0000-6000-8000-000000000000",
    }
    world.save(world.checkpoint() | {field: moved[field]})
    with pytest.raises(CorruptDataError, match="_id"):
        await world.read()
    place = world.configs["t"][2]["configurable"] | {field: moved[field]}
    with pytest.raises(CorruptDataError, match="_id"):
        await world.calls()("get_tuple", {"configurable": place})
    calls = world.calls()
    for one in await calls.list({"configurable": {"thread_id": "u"}}):
        assert one.config in world.configs["u"]
    await calls.list(None)
    assert calls.target.damaged_documents == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_document_that_is_a_copy_of_anothers_is_refused(world: World) -> None:
    """Under the `_id` of the newest checkpoint of "t" stands one of "u", with its own fields or
    with those of "t".
    """
    original = world.checkpoint()
    identity = {field: original[field] for field in ("_id", "thread_id", "checkpoint_id")}
    world.save(world.checkpoint("u") | {"_id": original["_id"]})
    with pytest.raises(CorruptDataError):
        await world.read()
    world.save(world.checkpoint("u", 1) | identity)
    await world.refused()
    world.save(original)
    assert (await world.read()).config == world.configs["t"][2]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_thread_document_of_another_is_refused(world: World) -> None:
    world.save(world.thread("u") | {"_id": thread_doc_id("t")})
    for call in (
        lambda calls: calls("put", world.configs["t"][2], empty_checkpoint(), {}, {}),
        lambda calls: calls("copy_thread", "t", "copy"),
    ):
        with pytest.raises((CorruptDataError, ConfigurationError), match="thread 't'"):
            await call(world.calls())
    calls = world.calls()
    assert [one.thread_id for one in await calls("list_threads")] == ["u"]
    assert calls.target.damaged_documents == 1
    await calls("delete_thread", "t")
    assert await world.calls()("get_tuple", world.configs["u"][2]) is not None
    assert await calls.list({"configurable": {"thread_id": "t"}}) == []


# --- encrypted threads
# -------------------------------------------------------------------------------

encrypted = pytest.mark.parametrize("options", [{"serde": encrypting()}], ids=["encrypted"])
plain = pytest.mark.parametrize("options", [{}], ids=["plain"])


@encrypted
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["checkpoint", "write", "chunk"])
async def test_plain_content_in_an_encrypted_thread_is_refused(world: World, place: str) -> None:
    codec = ValueSerializer(MongoSaver(world.client).serde, None, None)
    if place == "checkpoint":
        record = world.checkpoint()
        body = codec.dumps({"checkpoint": {"channel_versions": {}}, "metadata": {}})
        described = {"body": {"type": body[0], "length": len(body[1])}, "channels": []}
        world.save(record | described | {"content": {"data": body[1]}})
    elif place == "write":
        planted = {"type": "bytes", "data": b"planted"}
        kept = {field: value for field, value in world.write().items() if field not in CONTENT}
        world.save(kept | planted, WRITES)
    else:
        chunk = world.chunks()[0]
        kept = {field: value for field, value in chunk.items() if field not in CONTENT}
        world.save(kept | {"data": b"planted"})
    await world.refused("plain.*allow_plaintext=True")


@encrypted
@pytest.mark.parametrize("kind", ["blocking", "mongomock"])
async def test_sealed_content_is_refused_in_a_field_of_the_first_format(world: World) -> None:
    """Whoever moves it there shall not have it read without its place: the mark in front of it
    shows.
    """
    write = world.write(idx=1)
    assert write["type"] == "bytes"
    world.save(
        {**{f: v for f, v in write.items() if f != "sealed"}, "data": write["sealed"]}, WRITES
    )
    await world.refused("the first format")
    world.save(write, WRITES)
    record = world.checkpoint()
    content = {"data": record["content"]["sealed"], "cipher": record["content"]["cipher"]}
    world.save(record | {"content": content})
    await world.refused("the first format")
    world.save(record)
    chunk = world.chunks()[0]
    world.save({**{f: v for f, v in chunk.items() if f != "sealed"}, "packed": chunk["sealed"]})
    await world.refused("the first format")


def as_version_1(
    world: World, serde: EncryptedSerializer, document: dict[str, Any]
) -> dict[str, Any]:
    """Return fields with sealed content as the first format had them."""
    plaintext = serde.cipher.decrypt(document["cipher"], document["sealed"])
    flags, start = plaintext[len(MARK)], len(MARK) + 1 + 16
    held = plaintext[start + (16 if flags & 2 else 0) :]
    name, sealed = serde.cipher.encrypt(held)
    kept = {field: value for field, value in document.items() if field != "sealed"}
    return kept | {"packed" if flags & 1 else "data": sealed, "cipher": name}


@pytest.mark.parametrize("kind", KINDS)
async def test_encrypted_threads_of_version_1_stay_readable(
    kind: str, mongo_uri: str, mongo_client: MongoClient, database_name: str
) -> None:
    serde = encrypting()
    async with client_of(kind, mongo_uri) as client:
        looker = client if kind == "mongomock" else mongo_client
        world = await World(client, kind, looker[database_name], serde=serde).fill()
        truth = [await world.read(number=number) for number in range(3)]
        for document in list(world.database[CHECKPOINTS].find({"thread_id": "t"})):
            changed = dict(document)
            for field in ("content", "name_key"):
                if field in changed:
                    changed[field] = as_version_1(world, serde, changed[field])
            world.save(as_version_1(world, serde, changed) if "sealed" in changed else changed)
        for document in list(world.database[WRITES].find({"thread_id": "t"})):
            world.save(as_version_1(world, serde, dict(document)), WRITES)
        assert [await world.read(number=number) for number in range(3)] == truth
        await world.refused("allow_unbound=False", allow_unbound=False)
        steps = Steps(world.calls(), "t")
        steps.config = world.configs["t"][2]
        await steps.put(number=9)
        assert await world.read() == truth[2]
        await world.calls()("copy_thread", "t", "copy")
        strict = world.calls(allow_unbound=False)
        copied = await strict.list({"configurable": {"thread_id": "copy"}})
        assert [one.checkpoint for one in copied[1:]] == [one.checkpoint for one in reversed(truth)]
        assert [one.pending_writes for one in copied[1:]] == [
            one.pending_writes for one in reversed(truth)
        ]


@encrypted
@pytest.mark.parametrize("kind", KINDS)
async def test_a_copied_thread_is_sealed_for_its_own_place(world: World) -> None:
    await world.calls()("copy_thread", "t", "copy")
    copied = await world.calls().list({"configurable": {"thread_id": "copy"}})
    originals = await world.calls().list({"configurable": {"thread_id": "t"}})
    assert [one.checkpoint for one in copied] == [one.checkpoint for one in originals]
    assert [one.pending_writes for one in copied] == [one.pending_writes for one in originals]
    copied_id = world.configs["t"][2]["configurable"]["checkpoint_id"]
    taken = dict(
        world.database[CHECKPOINTS].find_one({"thread_id": "copy", "checkpoint_id": copied_id})
        or {}
    )
    original = dict(
        world.database[CHECKPOINTS].find_one({"thread_id": "t", "checkpoint_id": copied_id}) or {}
    )
    assert taken["content"] != original["content"]
    world.save(original | {"content": taken["content"]})
    await world.refused()
    world.save(original)
    own = world.thread("u")["name_key"]
    await world.calls()("copy_thread", "t", "u")
    key = ValueSerializer.of(world.options["serde"], MongoSaver(world.client)._caches.messages)
    assert key.open(world.thread("u")["name_key"]).content == key.open(own).content
    assert len(await world.calls().list({"configurable": {"thread_id": "u"}})) == 6


OPERATIONS: dict[str, Callable[[World, Calls], Any]] = {
    "get_tuple": lambda world, calls: calls("get_tuple", world.configs["t"][2]),
    "newest": lambda world, calls: calls("get_tuple", {"configurable": {"thread_id": "t"}}),
    "list": lambda world, calls: calls.list({"configurable": {"thread_id": "t"}}),
    "filter": lambda world, calls: calls.list(
        {"configurable": {"thread_id": "t"}}, filter={"source": "loop"}
    ),
    "put": lambda world, calls: calls("put", world.configs["t"][2], empty_checkpoint(), {}, {}),
    "long write": lambda world, calls: calls(
        "put_writes", world.configs["t"][2], [("a", "x" * 99_000)], "new"
    ),
    "history": lambda world, calls: calls(
        "get_delta_channel_history", config=world.configs["t"][2], channels=["number", "none"]
    ),
    "prune": lambda world, calls: calls("prune", ["t"]),
    "copy": lambda world, calls: calls("copy_thread", "t", "copy"),
}


@encrypted
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_another_key_is_told_from_damage(world: World, operation: str) -> None:
    before = list(world.database[CHECKPOINTS].find()) + list(world.database[WRITES].find())
    with pytest.raises(ConfigurationError, match="another encryption key"):
        await OPERATIONS[operation](world, world.calls(serde=encrypting(b"o" * 32)))
    assert list(world.database[CHECKPOINTS].find()) + list(world.database[WRITES].find()) == before
    await world.calls(serde=encrypting(b"o" * 32))("delete_thread", "t")
    assert await world.calls().list({"configurable": {"thread_id": "t"}}) == []


@encrypted
@pytest.mark.parametrize("kind", KINDS)
async def test_changed_ciphertext_under_the_right_key_is_damage(world: World) -> None:
    record = world.checkpoint()
    content = record["content"] | {"sealed": flipped(record["content"]["sealed"])}
    world.save(record | {"content": content})
    await world.refused("decrypted.*it was changed")


@encrypted
@pytest.mark.parametrize("kind", ["blocking", "mongomock"])
async def test_the_secret_of_another_thread_is_refused(world: World) -> None:
    world.save(world.thread() | {"name_key": world.thread("u")["name_key"]})
    with pytest.raises(CorruptDataError, match=r"thread 't'.*name_key"):
        await OPERATIONS["put"](world, world.calls())


@plain
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_encrypting_saver_says_how_to_migrate_a_plain_thread(
    world: World, operation: str
) -> None:
    with pytest.raises(ConfigurationError, match="allow_plaintext=True"):
        await OPERATIONS[operation](world, world.calls(serde=encrypting()))
    await OPERATIONS[operation](world, world.calls(serde=encrypting(), allow_plaintext=True))


@plain
@pytest.mark.parametrize("kind", KINDS)
async def test_a_plain_thread_is_migrated_by_a_copy(world: World) -> None:
    migrating = {"serde": encrypting(), "allow_plaintext": True}
    steps = Steps(world.calls(**migrating), "t")
    steps.config = world.configs["t"][2]
    newest = await steps.put(number=9)
    calls = world.calls(**migrating)
    truth = await calls.list({"configurable": {"thread_id": "t"}})
    assert (
        truth[0].config["configurable"]["checkpoint_id"] == newest["configurable"]["checkpoint_id"]
    )
    with pytest.raises(CorruptDataError, match="allow_plaintext=True"):
        await world.calls(serde=encrypting())("get_tuple", world.configs["t"][2])
    await calls("copy_thread", "t", "moved")
    await calls("delete_thread", "t")
    await calls("copy_thread", "moved", "t")
    strict = world.calls(serde=encrypting(), allow_unbound=False)
    assert await strict.list({"configurable": {"thread_id": "t"}}) == truth
    text = json.dumps(
        [json_util.dumps(one) for one in world.database[CHECKPOINTS].find({"thread_id": "t"})]
    )
    assert "secret" not in text


@encrypted
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_saver_that_does_not_encrypt_says_what_to_pass(
    world: World, operation: str
) -> None:
    with pytest.raises(
        ConfigurationError, match=r"thread 't' is encrypted.*serde=.*pip install pycryptodome"
    ):
        await OPERATIONS[operation](world, world.calls(serde=None))


@encrypted
@pytest.mark.parametrize("kind", ["blocking", "mongomock"])
async def test_a_deleted_thread_begins_anew_under_whatever_encryption(world: World) -> None:
    for options in ({"serde": encrypting(b"o" * 32)}, {"serde": None}, {"serde": encrypting()}):
        calls = world.calls(**options)
        await calls("delete_thread", "t")
        steps = Steps(calls, "t")
        await steps.put(text="new")
        await steps.put(long=random.Random(4).randbytes(50_000))
        assert (await world.calls(**options)("get_tuple", steps.config)).checkpoint[
            "channel_values"
        ] == steps.values


@pytest.mark.parametrize("option", ["allow_plaintext", "allow_unbound", "check_chunks"])
def test_the_options_are_flags(option: str, mongo_client: MongoClient) -> None:
    for wrong in (None, 1, "yes", [True]):
        with pytest.raises(ConfigurationError, match=option):
            MongoSaver(mongo_client, **{option: wrong})  # type: ignore[arg-type]
    memory = MongoMemory(mongo_client, saver_options={option: True})
    assert getattr(memory.saver._options.policy, option)


@plain
@pytest.mark.parametrize("kind", ["blocking"])
async def test_chunks_are_compared_with_their_names_unless_told_otherwise(world: World) -> None:
    chunk = world.chunks(level=1)[0]
    world.save(
        {**{f: v for f, v in chunk.items() if f != "packed"}, "data": flipped(chunk["data"])}
    )
    await world.refused()
    assert await world.read(check_chunks=False) is not None


def test_a_cipher_that_lacks_its_package_says_what_to_install(
    mongo_client: MongoClient, database_name: str
) -> None:
    class Lacking:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            raise ImportError("No module named 'Crypto'")

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            raise ImportError("No module named 'Crypto'")

    MongoSaver(mongo_client, database_name, serde=encrypting()).put(
        {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {}
    )
    saver = MongoSaver(mongo_client, database_name, serde=EncryptedSerializer(Lacking()))
    for call in (
        lambda: saver.get_tuple({"configurable": {"thread_id": "t"}}),
        lambda: saver.put(
            {"configurable": {"thread_id": "n", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {}
        ),
    ):
        with pytest.raises(ConfigurationError, match="pip install pycryptodome"):
            call()
