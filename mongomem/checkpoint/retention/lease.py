"""One process at a time carries the retention out: a lease in the settings of the checkpoints.

The document is also the record of how far a round has come. A lease ends when it is given back, or
`LEASE` after it was last renewed, by the clock of the server: the process that held it may have
been killed. What the holder writes it writes under its own name, so one that was too slow learns
that another has gone on, and stops.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mongomem.engine.commands import BulkWrite, Document, Find, Update
from mongomem.engine.writes import bulk_upsert

RECORD = "retention"
"""The `_id` of the document."""

LEASE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that somebody wants, or has.

    Attributes:
        settings: The collection.
        holder: A name that nobody else has.
    """

    settings: str
    holder: str

    async def take(self) -> bool:
        """Take it where it is free; say whether that was so."""
        if await self._take():
            return True
        born = Update({"_id": RECORD}, {"$setOnInsert": {"holder": None}}, upsert=True)
        await bulk_upsert(self.settings, [born])
        return await self._take()

    async def _take(self) -> bool:
        run_out: Document = {"$subtract": ["$$NOW", LEASE // timedelta(milliseconds=1)]}
        free: list[Document] = [
            {"holder": {"$in": [None, self.holder]}},
            {"$expr": {"$lt": ["$renewed_at", run_out]}},
        ]
        return await self._change(
            {"_id": RECORD, "$or": free},
            {"$set": {"holder": self.holder}, "$currentDate": {"renewed_at": True}},
        )

    async def renew(self, thread_id: str) -> bool:
        """Renew it for the work on a thread; say whether it was still held."""
        return await self._change(
            self._own(),
            {"$set": {"at_work_on": thread_id}, "$currentDate": {"renewed_at": True}},
        )

    async def read(self) -> Document:
        """Read the record."""
        found = await Find(self.settings, self._own(), limit=1)
        return found[0] if found else {}

    async def give_back(self, record: Document) -> bool:
        """Store fields of the record and give the lease back; say whether it was still held."""
        return await self._change(
            self._own(), {"$set": {**record, "holder": None, "at_work_on": None}}
        )

    def _own(self) -> Document:
        return {"_id": RECORD, "holder": self.holder}

    async def _change(self, query: Document, change: Document) -> bool:
        reply = await BulkWrite(self.settings, [Update(query, change)])
        return bool(reply.matched_count)
