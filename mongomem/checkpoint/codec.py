"""From values to bytes and back: the serializer of the saver, and its cipher where it encrypts.

LangGraph's ``EncryptedSerializer`` turns equal values into different bytes, which would end all
sharing. So it is taken apart: its inner serializer makes the bytes, they are cut, and its cipher
seals every piece by itself. No plaintext of a value, a write or a list of names leaves the process.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from langgraph.checkpoint.serde.base import CipherProtocol, SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from mongomem.checkpoint.messages import MSGPACK, MessageMemo
from mongomem.commands import Document
from mongomem.errors import ConfigurationError, CorruptDataError

PACKING = 1
"""zlib's fastest level: a third off a message of 1 KB, in about 30 µs."""

SHORTEST_PACKED, LONGEST_PACKED = 64, 16 * 1024
"""What is packed: short content, which is written often and read seldom. Unpacking 1 MB takes 5 ms, which is as long as
reviving the messages in it; long content is left to the compression of the server's blocks."""

DICTIONARY = (
    b"langchain_core.messages.system SystemMessage langchain_core.messages.tool ToolMessage tool_call_id artifact "
    b"status success error function index input output input_tokens output_tokens total_tokens finish_reason stop "
    b"model_name langchain_core.messages.ai\xa9AIMessage\x89\xa7content\xb1additional_kwargs\x80\xb1response_metadata"
    b"\x80\xa4type\xa2ai\xa4name\xc0\xa2id\xd9$\xaatool_calls\x90\xb2invalid_tool_calls\x90\xaeusage_metadata\xc0"
    b"\xb3model_validate_json\xc7\x05\x94\xbdlangchain_core.messages.human\xacHumanMessage\x86\xa7content\xda"
    b"\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa5human\xa4name\xc0\xa2id\xd9$"
    b"\x82\xaacheckpoint\x86\xa1v\x04\xa2ts\xd9 2026-01-01T00:00:00.000000+00:00\xa2id\xd9$1f1\xb0channel_versions"
    b"\x83\xa9__start__\xd9300000000000000000000000000000001.0.\xa8messages\xd9300000000000000000000000000000002.0."
    b"\xb0__pregel_tasks\xb1branch:to:\xadversions_seen\x83\xa9__input__\x80\xa9__start__\x81\xa9__start__"
    b"\xd9300000000000000000000000000000003.0.\x81\xb1branch:to:\xb0updated_channels\x91\xa8messages"
    b"\xa8metadata\x83\xa6source\xa5input\xa6source\xa6update\xa6source\xa4loop\xa4step\xa7parents\x80"
)
"""What LangGraph's checkpoints and messages are full of, as msgpack has it, for zlib to refer to. Part of the
format: it never changes; another one would come with another field."""

CONTENT_FIELDS = ("data", "packed", "cipher")
"""The fields that `Codec.seal` makes."""


@dataclass(frozen=True, slots=True)
class Codec:
    """The serializer that makes bytes, what it need not do twice, and the cipher that seals them, if any."""

    serde: SerializerProtocol
    memo: MessageMemo | None
    cipher: CipherProtocol | None

    @classmethod
    def of(cls, serde: SerializerProtocol, memo: MessageMemo) -> Codec:
        """Take an encrypting serializer apart; any other is used as it is."""
        if isinstance(serde, EncryptedSerializer):
            return replace(cls.of(serde.serde, memo), cipher=serde.cipher)
        return cls(serde, memo if _is_standard(serde) else None, None)

    @property
    def seals(self) -> bool:
        """Whether bytes are encrypted before they leave."""
        return self.cipher is not None

    def dumps(self, value: Any) -> tuple[str, bytes]:
        """Serialize: (type, bytes), not yet sealed."""
        if self.memo is not None and type(value) is list:
            return self.memo.dumps(self.serde, value)
        return self.serde.dumps_typed(value)

    def loads(self, type: str, data: bytes) -> Any:
        """Deserialize bytes that were opened."""
        if self.memo is not None and type == MSGPACK:
            return self.memo.loads(self.serde, data)
        return self.serde.loads_typed((type, data))

    def seal(self, data: bytes, longest_packed: int = LONGEST_PACKED) -> Document:
        """Return the fields that hold `data` in a document: packed where that is shorter, then encrypted."""
        packed = _pack(data) if SHORTEST_PACKED <= len(data) <= longest_packed else data
        field, held = ("packed", packed) if len(packed) < len(data) else ("data", data)
        if self.cipher is None:
            return {field: held}
        name, sealed = self.cipher.encrypt(held)
        return {field: sealed, "cipher": name}

    def open(self, fields: Mapping[str, Any]) -> bytes:
        """Return the bytes that `fields` hold.

        Raises:
            CorruptDataError: They are no bytes, or not all of them.
            ConfigurationError: They are encrypted, and the serializer does not decrypt.
        """
        field = "packed" if "packed" in fields else "data"
        held: bytes = fields[field]
        if "cipher" in fields:
            if self.cipher is None:
                raise ConfigurationError("this data is encrypted: pass the EncryptedSerializer that wrote it as serde=")
            held = self.cipher.decrypt(fields["cipher"], held)
        if not isinstance(held, bytes):
            raise CorruptDataError(f"content is stored as {type(held).__name__}, not as bytes")
        return _unpack(held) if field == "packed" else held


def _is_standard(serde: SerializerProtocol) -> bool:
    """Say whether a serializer treats messages as all others of its class do, whatever else it allows or refuses."""
    return type(serde) is JsonPlusSerializer and not getattr(serde, "_custom_unpack_ext_hook", True)


def _unpack(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(zdict=DICTIONARY)
    data = unpacker.decompress(packed)
    if not unpacker.eof or unpacker.unused_data:
        raise CorruptDataError("packed content is cut off, or more than there was")
    return data


def _pack(data: bytes) -> bytes:
    packer = zlib.compressobj(PACKING, zdict=DICTIONARY)
    return packer.compress(data) + packer.flush()
