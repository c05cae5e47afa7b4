"""What a saver remembers between calls, bounded in bytes. Shared by its `with_allowlist` clones.

Chunks are named by their content and never change, so their bytes are kept without asking again.
What a put needs of its parent is kept with the generation of the thread it was seen under; a put
that relies on it makes the server compare that generation (`mongomem.checkpoint.writing`), so a
stale entry costs a second attempt and never a wrong document.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mongomem.checkpoint.addresses import Address
from mongomem.checkpoint.bounded import BoundedCache
from mongomem.checkpoint.chunks import Known, Stored
from mongomem.checkpoint.damage import Damage
from mongomem.checkpoint.documents import thread_key
from mongomem.checkpoint.identity import Members
from mongomem.checkpoint.messages import MessageMemo


@dataclass(frozen=True, slots=True)
class ThreadState:
    """What a put must know of its thread.

    Attributes:
        epoch: The life of the thread, ended by delete_thread. Stamped on all of its documents.
        generation: Changes whenever anything of the thread is removed.
        stamped_at: When all of its documents were last stamped for their expiry: none is older.
        name_key: What chunk names are keyed with; empty unless values are encrypted.
        begins: Whether the next put begins a life of the thread.
        members: Whom the thread was put for, by the identity keys that it has been put under since its life began;
            under others the checkpoints alone know.
        is_short: Whether its state was short when it was last put, so that nothing of it is packed.
    """

    epoch: int
    generation: int
    stamped_at: datetime
    name_key: bytes = b""
    begins: bool = False
    is_short: bool = False
    members: Members = field(default_factory=dict)

    def weight(self) -> int:
        """Return about how many bytes it holds, beyond what every state does."""
        return len(self.name_key) + 100 * sum(map(len, self.members.values()))


@dataclass(frozen=True, slots=True)
class Parent:
    """What a put must know of its parent document.

    Attributes:
        versions: The version of every channel.
        channels: The values that it holds.
        known: What is known of their chunks, by channel.
        generation: The generation of the thread that it was seen under; None if that was not known.
    """

    versions: dict[str, str | int | float]
    channels: dict[str, Stored]
    known: dict[str, Known]
    generation: int | None

    def weight(self) -> int:
        """Return about how many bytes it holds."""
        inline = sum(len(value.ends) for value in self.channels.values())
        regions = sum(len(region.content) for known in self.known.values() for region in known.regions)
        regions += sum(len(piece) for known in self.known.values() for _, piece in known.growing)
        return inline + regions + 100 * (len(self.versions) + sum(len(known.names) for known in self.known.values()))


class SaverState:
    """The caches of one saver and its clones, and what it knows of its collections."""

    def __init__(self, cache_bytes: int) -> None:
        """Share `cache_bytes` out: chunks serve reads, parents puts, and messages both; threads are small."""
        share = cache_bytes // 16
        self.chunks: BoundedCache[bytes, bytes] = BoundedCache(6 * share, len)
        self.parents: BoundedCache[Address, Parent] = BoundedCache(4 * share, Parent.weight)
        self.threads: BoundedCache[str, ThreadState] = BoundedCache(share, ThreadState.weight)
        self.messages = MessageMemo(5 * share)
        self.damage = Damage()
        self.is_set_up = False
        self.is_ours = False
        self.found_ttl: timedelta | None = None
        self.tombstones_looked_for_at: datetime | None = None

    def remember_parent(self, address: Address, parent: Parent) -> None:
        """Keep what a read found of a checkpoint, unless a put has left more."""
        kept = self.parents.get(address)
        if kept is None or kept.generation != parent.generation:
            self.parents.put(address, parent)

    def forget_thread(self, thread_id: str) -> None:
        """Drop what is known of a thread, so that the next put reads it anew."""
        self.threads.drop(lambda key: key == thread_id)
        self.parents.drop(lambda key: key.thread_id == thread_id)

    def forget_all(self) -> None:
        """Drop everything, the bytes of chunks included."""
        for cache in (self.chunks, self.parents, self.threads, self.messages):
            cache.clear()
        thread_key.cache_clear()
