"""Migrations: how data of an older schema becomes current. Numbered, additive and resumable.

A migration never takes away what older code reads, so old and new processes run side by side; the
code of every version reads the documents of all versions before it. `setup` applies what is missing
and records each number once it is done; an interrupted migration begins anew, so each must be
repeatable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mongomem.engine.commands import BulkWrite, Find, Plan, Update

C = TypeVar("C")

RECORD = "schema"
"""The `_id` of the document that records how far a database has come."""


@dataclass(frozen=True, slots=True)
class Migration(Generic[C]):
    """One step: from the schema version before `number` to it."""

    number: int
    apply: Callable[[C], Plan[None]]


async def migrate(settings: str, migrations: Sequence[Migration[C]], context: C) -> None:
    """Apply the migrations that the collection `settings` has not recorded, in order. Safe when
    many do it at once.
    """
    if not migrations:
        return
    recorded = await Find(settings, {"_id": RECORD}, limit=1)
    version = recorded[0]["version"] if recorded else 0
    for migration in sorted(migrations, key=lambda one: one.number):
        if migration.number > version:
            await migration.apply(context)
            await BulkWrite(
                settings,
                [Update({"_id": RECORD}, {"$max": {"version": migration.number}}, upsert=True)],
            )
