"""How collections are named: all of mongomem's begin with one prefix."""

from __future__ import annotations

from mongomem.arguments import shown
from mongomem.errors import ConfigurationError

DEFAULT_PREFIX = "mongomem_"
"""Collides with no other package's collections: LangGraph's official savers use ``checkpoints`` and
``checkpoint_writes`` (langgraph-checkpoint-mongodb 0.5)."""

LONGEST_PREFIX = 200
"""In bytes. A collection's name with that of its database has 255 at most (MongoDB 4.4 to 8.2)."""


def checked_prefix(prefix: object) -> str:
    """Return a prefix of collection names.

    Raises:
        ConfigurationError: It is no string, or makes a name that MongoDB refuses or keeps to
            itself.
    """
    text = str.__str__(prefix) if isinstance(prefix, str) else None
    if (
        text is None
        or not text.isprintable()
        or "$" in text
        or text.startswith((".", "system."))
        or len(text.encode()) > LONGEST_PREFIX
    ):
        raise ConfigurationError(
            f"collection_prefix cannot begin the name of a collection: {shown(prefix)}"
        )
    return text
