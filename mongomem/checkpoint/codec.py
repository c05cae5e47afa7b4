"""From values to bytes and back: the serializer of the saver, and its cipher where it encrypts.

LangGraph's ``EncryptedSerializer`` turns equal values into different bytes, which would end all
sharing. So it is taken apart: its inner serializer makes the bytes, they are cut, and its cipher
seals every piece by itself. No plaintext of a value, a write or a list of names leaves the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.serde.base import CipherProtocol, SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from mongomem.commands import Document
from mongomem.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Codec:
    """The serializer that makes bytes, and the cipher that seals them, if any."""

    serde: SerializerProtocol
    cipher: CipherProtocol | None

    @classmethod
    def of(cls, serde: SerializerProtocol) -> Codec:
        """Take an encrypting serializer apart; any other is used as it is."""
        if isinstance(serde, EncryptedSerializer):
            return cls(serde.serde, serde.cipher)
        return cls(serde, None)

    @property
    def seals(self) -> bool:
        """Whether bytes are encrypted before they leave."""
        return self.cipher is not None

    def dumps(self, value: Any) -> tuple[str, bytes]:
        """Serialize: (type, bytes), not yet sealed."""
        return self.serde.dumps_typed(value)

    def loads(self, type: str, data: bytes) -> Any:
        """Deserialize bytes that were opened."""
        return self.serde.loads_typed((type, data))

    def seal(self, data: bytes) -> Document:
        """Return the fields that hold `data` in a document."""
        if self.cipher is None:
            return {"data": data}
        name, sealed = self.cipher.encrypt(data)
        return {"data": sealed, "cipher": name}

    def open(self, fields: Mapping[str, Any]) -> bytes:
        """Return the bytes that `fields` hold, sealed or not."""
        data: bytes = fields["data"]
        if "cipher" not in fields:
            return data
        if self.cipher is None:
            raise ConfigurationError("this data is encrypted: pass the EncryptedSerializer that wrote it as serde=")
        return self.cipher.decrypt(fields["cipher"], data)
