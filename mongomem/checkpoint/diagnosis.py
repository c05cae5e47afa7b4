"""The plan that tells whose fault it is that content cannot be opened: the key's, an option's, or the data's.

A wrong key and changed bytes look alike to a cipher, and so do a thread that was begun without encryption and a plain
document that somebody put into an encrypted one. The thread document tells them apart: it holds a secret that was
sealed under the key of the thread. It is read only where something is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from mongomem.arguments import shown
from mongomem.checkpoint.binding import name_key_binding
from mongomem.checkpoint.codec import Codec, Obstacle, UnopenedError
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.documents import thread_key
from mongomem.commands import Document, Find
from mongomem.errors import ConfigurationError, CorruptDataError, MongomemError

NAME_KEY_BYTES = 32


class Key(Enum):
    """What a thread document says of the key that its thread was written under."""

    ABSENT = "it was written without encryption"
    FITS = "it was written under the key of this serializer"
    DIFFERS = "it was written under another encryption key"


OTHER_KEY = "thread {0} was written under another encryption key than this serializer has"

ADVICE: Mapping[tuple[Obstacle, Key], str] = {
    (Obstacle.KEY, Key.DIFFERS): OTHER_KEY,
    (Obstacle.PLAIN, Key.DIFFERS): OTHER_KEY,
    (Obstacle.PLAIN, Key.ABSENT): "thread {0} was written without encryption, and this serializer encrypts: "
    "MongoSaver(allow_plaintext=True) goes on with it, for a migration",
    (Obstacle.SEALED, Key.DIFFERS): "thread {0} is encrypted: pass the EncryptedSerializer that wrote it as serde= "
    "(its AES cipher needs pip install pycryptodome)",
}
"""What to do, where something can be done. All else is damage."""

DAMAGE: Mapping[Obstacle, str] = {
    Obstacle.KEY: "it was changed, or written under another key than its thread",
    Obstacle.PLAIN: "its thread is encrypted (MongoSaver(allow_plaintext=True) reads such content for a migration)",
    Obstacle.SEALED: "its thread is not",
}


def name_key_of(codec: Codec, thread_id: str, document: Document | None) -> tuple[Key, bytes | None]:
    """Return what a thread document says of its key, and the secret that its chunks are named with, if it can be had.

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
    """Return the error that says what to do about content that cannot be opened, or None where it is damaged."""
    advice = ADVICE.get((obstacle, key))
    return None if advice is None else ConfigurationError(advice.format(shown(thread_id)))


async def diagnosis(context: Context, thread_id: str, error: UnopenedError) -> MongomemError:
    """Return the error to raise in the place of one that says that content cannot be opened. One round trip."""
    query = {"_id": thread_key(thread_id), "thread_id": thread_id}
    found = await Find(context.checkpoints, query, {"name_key": 1}, limit=1)
    key, _ = name_key_of(context.codec, thread_id, found[0] if found else None)
    return advised(error.obstacle, key, thread_id) or CorruptDataError(f"{error}: {DAMAGE[error.obstacle]}")
