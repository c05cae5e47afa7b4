"""The command that shards the collections, or says how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from mongomem.command_line.command import Run, Yes, command
from mongomem.command_line.queries.texts import counted
from mongomem.command_line.refusals import DONE, GOES_ON
from mongomem.upkeep.shard_keys import Sharding


@command(GOES_ON)
def shard(
    run: Run,
    *,
    issue: Annotated[
        bool, typer.Option("--run", help="Issue the commands, in place of printing them.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Print the commands that shard the collections, or issue them."""
    memory = run.open(may_be_new=True)
    sharding = Sharding.of(memory)
    if issue:
        memory.saver._runners.run(sharding.check())
        collections = counted(len(sharding.collections), "collection")
        question = f"Shard {collections} of the database {sharding.database!r}?"
        run.confirm(question, yes=yes)
        memory.saver._runners.run(sharding.issue())
    run.answer = ShardAnswer(sharding, is_issued=issue)


@dataclass(frozen=True, slots=True)
class ShardAnswer:
    """The commands, and whether they were issued."""

    sharding: Sharding
    is_issued: bool

    exit_code = DONE

    def json(self) -> dict[str, Any]:
        lines = [*self.sharding.lines()]
        return {"issued": self.is_issued, "commands": lines, **asdict(self.sharding)}

    def text(self) -> Iterator[str]:
        if self.is_issued:
            yield f"sharded {counted(len(self.sharding.collections), 'collection')}"
        else:
            yield from self.sharding.lines()
