"""What a saver remembers between calls, shared by its `with_allowlist` clones: caches, bounded in
bytes, and what was set up.

Chunks are named by their content and never change, so their bytes are kept without asking again.
What a put needs of its parent is kept with the generation of the thread it was seen under; a put
that relies on it makes the server compare that generation (`mongomem.checkpoint.plans.put`), so a
stale entry costs a second attempt and never a wrong document.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from mongomem.checkpoint.documents.collections import thread_doc_id
from mongomem.checkpoint.documents.config import CheckpointRef
from mongomem.checkpoint.documents.thread import ThreadState
from mongomem.checkpoint.serde.cache import BoundedCache
from mongomem.checkpoint.serde.channels import ParentState
from mongomem.checkpoint.serde.message_cache import MessageCache
from mongomem.damage import Damage


@dataclass(slots=True)
class SetupState:
    """What this process has seen or done already in the collections of a saver.

    Attributes:
        is_ours: Nobody else uses them.
        is_set_up: Their indexes exist, or are somebody else's to make.
        found_ttl: The TTL that they have; None where they have none, or it was not looked for.
        tombstones_looked_for_at: When old tombstones were looked for last.
    """

    is_ours: bool = False
    is_set_up: bool = False
    found_ttl: timedelta | None = None
    tombstones_looked_for_at: datetime | None = None


class SaverCaches:
    """What one saver and its clones share: caches, what was set up, the damage that was met."""

    def __init__(self, cache_bytes: int, cache_messages: bool = True) -> None:
        """Share `cache_bytes` out: chunks serve reads, parents puts, and messages both; threads are
        small.
        """
        share = cache_bytes // 16
        self.chunks: BoundedCache[bytes, bytes] = BoundedCache(6 * share, len)
        self.parents: BoundedCache[CheckpointRef, ParentState] = BoundedCache(
            4 * share, ParentState.weight
        )
        self.threads: BoundedCache[str, ThreadState] = BoundedCache(share, ThreadState.weight)
        self.messages = MessageCache(5 * share) if cache_messages else None
        self.damage = Damage()
        self.setup_state = SetupState()

    def cache_parent(self, ref: CheckpointRef, parent: ParentState) -> None:
        """Keep what a read found of a checkpoint, unless a put has left more."""
        kept = self.parents.get(ref)
        if kept is None or kept.generation != parent.generation:
            self.parents.put(ref, parent)

    def invalidate_thread(self, thread_id: str) -> None:
        """Drop what is known of a thread, so that the next put reads it anew."""
        self.threads.drop(lambda key: key == thread_id)
        self.parents.drop(lambda key: key.thread_id == thread_id)

    def forget_all(self) -> None:
        """Drop everything, the bytes of chunks included."""
        for cache in (self.chunks, self.parents, self.threads, self.messages):
            if cache is not None:
                cache.clear()
        thread_doc_id.cache_clear()
