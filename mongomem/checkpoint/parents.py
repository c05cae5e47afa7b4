"""Parents: what a put must know of the document it continues."""

from __future__ import annotations

from mongomem.checkpoint.caches import Parent
from mongomem.checkpoint.chunks import Known
from mongomem.checkpoint.context import Context
from mongomem.checkpoint.encoding import BODY
from mongomem.checkpoint.loading import Placed, descend, load, revive_body
from mongomem.checkpoint.records import Record


async def read_parent(context: Context, record: Record, generation: int) -> Parent:
    """Read what a put must know of its parent: its versions, and the names of all its chunks but not their content."""
    values = {BODY: record.body, **record.channels}
    placed = [Placed(record.address, value) for value in values.values()]
    descents = await descend(context, placed)
    reached = {
        channel: Known(frozenset(descent.reached))
        for channel, descent in zip(values, descents, strict=True)
        if descent.reached
    }
    (body,) = await load(context, placed[:1])
    versions = revive_body(context, record.address, record.body, body.data).checkpoint["channel_versions"]
    return Parent(versions, record.channels, reached, generation)
