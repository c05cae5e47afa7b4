"""From values to bytes and back: the serializer of the saver, and its cipher where it encrypts.

LangGraph's ``EncryptedSerializer`` turns equal values into different bytes, which would end all
sharing. So it is taken apart: its inner serializer makes the bytes, they are cut, and its cipher
seals every piece by itself. No plaintext of a value, a write or a list of names leaves the process.

A cipher of LangGraph's takes no associated data. So what content is bound to is encrypted with it,
in front of it:

    cipher.encrypt(MARK + flags + digest of the place [+ digest of the parent] + content)

and compared when it has been decrypted: nothing that was sealed for one place is read in another.
Beside plain content stands ``digest``: that of the content under the digest of the place. Content
of the first format has neither; a field of its own for what is sealed, and the mark in front of it,
keep the two apart. Chunks in plain are compared with their names.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any, NoReturn

from langgraph.checkpoint.serde.base import CipherProtocol, SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from mongomem.arguments import shown
from mongomem.checkpoint.serde.chunks import content_hash
from mongomem.checkpoint.serde.message_cache import MSGPACK, MessageCache
from mongomem.checkpoint.serde.place_digest import DIGEST_BYTES, Binding, chunk_binding
from mongomem.engine.commands import Document
from mongomem.errors import ConfigurationError, CorruptDataError

PACKING = 1
"""zlib's fastest level: a third off a message of 1 KB, in about 30 µs."""

SHORTEST_PACKED, LONGEST_PACKED, LONGEST_PACKED_CHUNK = 64, 16 * 1024, 4 * 1024
"""The bytes of content of a document, and of a chunk, that is packed: short content, which is
written often and read seldom. Unpacking 1 MB takes 5 ms, which is as long as deserializing the
messages in it; long content is left to the compression of the server's blocks."""

DICTIONARY = (
    b"langchain_core.messages.system SystemMessage langchain_core.messages.tool ToolMessage "
    b"tool_call_id artifact status success error function index input output input_tokens "
    b"output_tokens total_tokens finish_reason stop model_name "
    b"langchain_core.messages.ai\xa9AIMessage\x89\xa7content\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa2ai\xa4name\xc0\xa2id\xd9$\xaatool_calls\x90\xb2invalid_tool_calls\x90\xaeusage_metadata\xc0"
    b"\xb3model_validate_json\xc7\x05\x94\xbdlangchain_core.messages.human\xacHumanMessage\x86\xa7content\xda"
    b"\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa5human\xa4name\xc0\xa2id\xd9$"
    b"\x82\xaacheckpoint\x86\xa1v\x04\xa2ts\xd9 "
    b"2026-01-01T00:00:00.000000+00:00\xa2id\xd9$1f1\xb0channel_versions\x83\xa9__start__\xd9300000000000000000000000000000001.0.\xa8messages\xd9300000000000000000000000000000002.0."
    b"\xb0__pregel_tasks\xb1branch:to:\xadversions_seen\x83\xa9__input__\x80\xa9__start__\x81\xa9__start__"
    b"\xd9300000000000000000000000000000003.0.\x81\xb1branch:to:\xb0updated_channels\x91\xa8messages"
    b"\xa8metadata\x83\xa6source\xa5input\xa6source\xa6update\xa6source\xa4loop\xa4step\xa7parents\x80"
)
"""What LangGraph's checkpoints and messages are full of, as msgpack has it, for zlib to refer to.
Part of the format: it never changes; another one would come with another field."""

CONTENT_FIELDS = ("data", "packed", "sealed", "cipher", "digest")
"""The fields that `ValueSerializer.seal` makes, or made in the first format."""

MARK = b"\x93mongom\x02"
"""What sealed content begins with before it is encrypted. Content of the first format does not."""

PACKED, HAS_PARENT = 1, 2
"""The flags behind the mark."""

NAME_KEY_BYTES = 32
"""Length of the secret under which the chunks of an encrypted thread are named."""


class Obstacle(Enum):
    """Why content cannot be opened where it is not known yet whose fault that is: the thread
    document tells.
    """

    KEY = "its content cannot be decrypted"
    PLAIN = "its content stands there in plain"
    SEALED = "its content is encrypted"


class UnopenedError(CorruptDataError):
    """Content is encrypted otherwise than by this serializer, or not at
    all    (`mongomem.checkpoint.plans.load`).
    """

    def __init__(self, message: str, obstacle: Obstacle) -> None:
        super().__init__(message)
        self.obstacle = obstacle


@dataclass(frozen=True, slots=True)
class ProofPolicy:
    """Which content is accepted without proof of its place.

    Attributes:
        allow_plaintext: Whether a serializer that encrypts reads what is not encrypted.
        allow_unbound: Whether it reads what was encrypted without a place, as the first format did.
        check_chunks: Whether the content of plain chunks is compared with their names.
    """

    allow_plaintext: bool = False
    allow_unbound: bool = True
    check_chunks: bool = True


PROVEN = ProofPolicy()
"""Reads nothing in plain beside a cipher, and of what is encrypted all that ever was."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Content as it was before it was sealed, and what it was sealed with; no proof where the first
    format did it.
    """

    content: bytes
    proof: bytes | None
    was_sealed: bool

    def check(self, binding: Binding) -> None:
        """Compare the place that content was sealed for with the one that it is in.

        Raises:
            CorruptDataError: It is another one, or the content is.
        """
        if self.proof is None:
            return
        place, parent = self.proof[:DIGEST_BYTES], self.proof[DIGEST_BYTES:]
        expected = binding.place if self.was_sealed else _content_digest(self.content, binding)
        if place != expected or (binding.parent is not None and parent != binding.parent):
            raise CorruptDataError(
                "its content is not what was stored in this place, or its fields are not"
            )


@dataclass(frozen=True, slots=True)
class ValueSerializer:
    """The serializer that makes bytes, the cache of messages that were serialized before, and the
    cipher that seals bytes, if any.
    """

    serde: SerializerProtocol
    messages: MessageCache | None
    cipher: CipherProtocol | None
    policy: ProofPolicy = PROVEN

    @classmethod
    def of(
        cls, serde: SerializerProtocol, messages: MessageCache | None, policy: ProofPolicy = PROVEN
    ) -> ValueSerializer:
        """Take an encrypting serializer apart; any other is used as it is. Without a message cache
        lists of messages are serialized as all else is.
        """
        inner, cipher = (
            (serde.serde, serde.cipher) if isinstance(serde, EncryptedSerializer) else (serde, None)
        )
        return cls(inner, messages if _is_standard(inner) else None, cipher, policy)

    @property
    def seals(self) -> bool:
        """Whether bytes are encrypted before they leave."""
        return self.cipher is not None

    def dumps(self, value: Any) -> tuple[str, bytes]:
        """Serialize: (type, bytes), not yet sealed. Whatever buffer the serializer gives, what is
        kept is bytes.

        Raises:
            ConfigurationError: The serializer gives something else.
        """
        if self.messages is not None and type(value) is list:
            return self.messages.dumps(self.serde, value)
        dumped: Any = self.serde.dumps_typed(value)
        kind, data = dumped
        if not isinstance(kind, str) or not isinstance(data, bytes | bytearray | memoryview):
            raise ConfigurationError(
                f"serde.dumps_typed must return (str, bytes), not {shown(dumped)}"
            )
        return kind, data if type(data) is bytes else bytes(data)

    def loads(self, type: str, data: bytes) -> Any:
        """Deserialize bytes that were opened."""
        if self.messages is not None and type == MSGPACK:
            return self.messages.loads(self.serde, data)
        return self.serde.loads_typed((type, data))

    def seal(self, data: bytes, binding: Binding, compress: bool = True) -> Document:
        """Return the fields that hold `data` in a document: packed where that is shorter, then
        encrypted.
        """
        if self.cipher is not None:
            return _sealed(self.cipher, data, binding, LONGEST_PACKED if compress else 0)
        digest = _content_digest(data, binding) + (binding.parent or b"")
        return {**_held(data, LONGEST_PACKED if compress else 0), "digest": digest}

    def seal_chunk(
        self, thread_id: str, name: bytes, piece: bytes, compress: bool = True
    ) -> Document:
        """Return the fields that hold a chunk. A plain one has its name for a digest."""
        longest = LONGEST_PACKED_CHUNK if compress else 0
        if self.cipher is not None:
            return _sealed(self.cipher, piece, chunk_binding(thread_id, name), longest)
        return _held(piece, longest)

    def open(self, fields: Mapping[str, Any]) -> Opened:
        """Return the bytes that `fields` hold, and what they were sealed with.

        Raises:
            CorruptDataError: They are no bytes, or not all of them, or more than were packed.
            UnopenedError: They are encrypted by another serializer or under another key, or not at
                all.
        """
        if "sealed" in fields:
            return self._unsealed(fields)
        packed = "packed" in fields
        held = _bytes(fields, "packed" if packed else "data")
        if "cipher" in fields:
            held = self._of_version_1(fields["cipher"], held)
        elif self.seals and not self.policy.allow_plaintext:
            _refuse(Obstacle.PLAIN)
        proof = None if "cipher" in fields or "digest" not in fields else _bytes(fields, "digest")
        return Opened(_unpack(held) if packed else held, proof, was_sealed=False)

    def open_chunk(self, thread_id: str, name: bytes, fields: Mapping[str, Any]) -> bytes:
        """Return the content of a chunk.

        Raises:
            CorruptDataError: It is not what has this name in this thread, or what `open` says.
            UnopenedError: As `open` says.
        """
        opened = self.open(fields)
        if opened.was_sealed:
            opened.check(chunk_binding(thread_id, name))
        elif (
            "cipher" not in fields
            and self.policy.check_chunks
            and content_hash(opened.content, b"") != name
        ):
            raise CorruptDataError("its content is not what its name says")
        return opened.content

    def _unsealed(self, fields: Mapping[str, Any]) -> Opened:
        held = self._decrypted(fields.get("cipher"), _bytes(fields, "sealed"))
        head = len(MARK) + 1
        flags = held[len(MARK) : head]
        if not held.startswith(MARK) or not flags or flags[0] > PACKED | HAS_PARENT:
            raise CorruptDataError("its content was not sealed for any place")
        start = head + DIGEST_BYTES * (2 if flags[0] & HAS_PARENT else 1)
        content = held[start:]
        return Opened(
            _unpack(content) if flags[0] & PACKED else content, held[head:start], was_sealed=True
        )

    def _of_version_1(self, name: object, held: bytes) -> bytes:
        content = self._decrypted(name, held)
        if not self.policy.allow_unbound:
            raise CorruptDataError(
                "its content was encrypted without a place, which allow_unbound=False refuses"
            )
        if content.startswith(MARK):
            raise CorruptDataError(
                "its content was sealed for a place, and stands in a field of the first format"
            )
        return content

    def _decrypted(self, name: Any, sealed: bytes) -> bytes:
        if self.cipher is None:
            _refuse(Obstacle.SEALED)
        try:
            content = self.cipher.decrypt(name, sealed)
        except ImportError as error:
            raise _not_installed(error) from error
        # Each cipher raises errors of its own; a wrong key and changed bytes look alike.
        except Exception as error:
            raise UnopenedError(f"{Obstacle.KEY.value} ({shown(error)})", Obstacle.KEY) from error
        return content if type(content) is bytes else bytes(content)


def _sealed(cipher: CipherProtocol, data: bytes, binding: Binding, longest_packed: int) -> Document:
    ((field, held),) = _held(data, longest_packed).items()
    flags = (PACKED if field == "packed" else 0) | (HAS_PARENT if binding.parent else 0)
    try:
        name, sealed = cipher.encrypt(
            b"".join([MARK, bytes([flags]), binding.place, binding.parent or b"", held])
        )
    except ImportError as error:
        raise _not_installed(error) from error
    return {"sealed": bytes(sealed), "cipher": name}


def _not_installed(error: ImportError) -> ConfigurationError:
    return ConfigurationError(
        f"the cipher needs a package that is not here ({error}): pip install pycryptodome"
    )


def _refuse(obstacle: Obstacle) -> NoReturn:
    raise UnopenedError(obstacle.value, obstacle)


def _bytes(fields: Mapping[str, Any], field: str) -> bytes:
    """Return the bytes of a field, of whichever subtype."""
    held = fields.get(field)
    if not isinstance(held, bytes):
        raise CorruptDataError(
            f"{field} is {shown(held)} and not bytes" if field in fields else f"{field} is missing"
        )
    return bytes(held)


def _content_digest(content: bytes, binding: Binding) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES, key=binding.place).digest()


def _is_standard(serde: SerializerProtocol) -> bool:
    """Say whether a serializer treats messages as all others of its class do, whatever else it
    allows or refuses.
    """
    return type(serde) is JsonPlusSerializer and not getattr(serde, "_custom_unpack_ext_hook", True)


def _held(data: bytes, longest_packed: int) -> Document:
    """Return the field that holds `data`, in plain."""
    packed = _pack(data) if SHORTEST_PACKED <= len(data) <= longest_packed else data
    return {"packed": packed} if len(packed) < len(data) else {"data": data}


def _unpack(packed: bytes) -> bytes:
    """Unpack what is no longer than all that is packed, whatever the bytes say of themselves."""
    unpacker = zlib.decompressobj(zdict=DICTIONARY)
    try:
        data = unpacker.decompress(packed, LONGEST_PACKED + 1)
    except zlib.error as error:
        raise CorruptDataError(f"packed content cannot be unpacked ({error})") from error
    if len(data) > LONGEST_PACKED:
        raise CorruptDataError(
            f"packed content is longer than {LONGEST_PACKED} bytes, which nothing packed is"
        )
    if not unpacker.eof or unpacker.unused_data:
        raise CorruptDataError("packed content is cut off, or more than there was")
    return data


def _pack(data: bytes) -> bytes:
    packer = zlib.compressobj(PACKING, zdict=DICTIONARY)
    return packer.compress(data) + packer.flush()
