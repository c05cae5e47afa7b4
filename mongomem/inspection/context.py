"""What every query is given: the contexts of both memories, and the collection of the cache."""

from __future__ import annotations

from dataclasses import dataclass

from mongomem.checkpoint.context import Context as SaverContext
from mongomem.store.context import Context as StoreContext


@dataclass(frozen=True, slots=True)
class Context:
    """What is looked at.

    Attributes:
        saver: The context of the saver.
        store: That of the store.
        entries: The collection of the cache.
        user_key: The metadata key that names the user of a thread.
    """

    saver: SaverContext
    store: StoreContext
    entries: str
    user_key: str

    @property
    def prefix(self) -> str:
        return self.saver.options.collections.prefix

    @property
    def collections(self) -> dict[str, str]:
        """The collections that hold data, by what they hold."""
        return {
            "checkpoints": self.saver.checkpoints,
            "pending writes": self.saver.writes,
            "items": self.store.items,
            "cache entries": self.entries,
        }
