"""The command that erases a user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from mongomem.arguments import shown
from mongomem.command_line.changes.questions import ask, names
from mongomem.command_line.command import Run, Yes, command
from mongomem.command_line.printout import Block
from mongomem.command_line.queries.arguments import labels_of
from mongomem.command_line.queries.texts import counted, namespace_text
from mongomem.command_line.refusals import DONE, FAILED, GOES_ON
from mongomem.upkeep.removals import UserSize, size_of_user
from mongomem.user_data import Erased
from mongomem.user_labels import user_namespace

USER_KEY = "user_id"


@command(GOES_ON)
def erase(
    run: Run,
    *,
    user: Annotated[str, typer.Argument(metavar="USER", help="The id of the user.")],
    user_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help=f"The metadata key that names users. [default: {USER_KEY}]"
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE",
            help="Where the memories of this user are. [default: the user]",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go; delete nothing.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete every thread and every memory of a user.

    With those that have expired, and that the server has not deleted yet.
    """
    memory = run.open(**_options(user, user_key, namespace))
    size = size_of_user(memory, user)
    answer = run.answer = EraseAnswer(size, dry_run, has_options=run.database.memory is None)
    if dry_run:
        return
    if size.threads or size.memories:
        what = _counted(size.threads, size.memories)
        ask(run, answer, f"Erase {what} of user {shown(size.user_id)}?", yes=yes)
    run.answer = replace(answer, erased=memory.erase_user(user))


def _options(user: str, user_key: str | None, namespace: str | None) -> dict[str, Any]:
    """Return the options of the memory that say where things of a user are."""
    options: dict[str, Any] = {} if user_key is None else {"user_key": user_key}
    if namespace is not None:
        own = labels_of(namespace)
        # No other user has it: where the memories of all stood in one namespace, all would go.
        options["user_namespace"] = lambda one: own if one == user else user_namespace(one)
    return options


@dataclass(frozen=True, slots=True)
class EraseAnswer:
    """What is there of a user, and what is gone.

    Attributes:
        size: What was there.
        dry_run: Whether nothing is erased.
        has_options: Whether options of the command say where things of the user are.
        erased: What is gone; None where nothing was erased yet.
    """

    size: UserSize
    dry_run: bool
    has_options: bool
    erased: Erased | None = None

    @property
    def undecided(self) -> list[str]:
        return self.size.undecided if self.erased is None else self.erased.undecided

    @property
    def is_nothing(self) -> bool:
        done = self.erased
        found = done is not None and (done.threads or done.memories)
        return self.size.is_nothing and not (found or self.undecided)

    @property
    def exit_code(self) -> int:
        return FAILED if self.undecided else DONE

    def json(self) -> dict[str, Any]:
        found = self.erased or self.size
        return {
            "dry_run": self.dry_run,
            "user_id": self.size.user_id,
            "user_key": self.size.user_key,
            "namespace": [*self.size.namespace],
            "threads": found.threads,
            "memories": found.memories,
            "undecided": self.undecided,
            "erased": self.erased is not None,
        }

    def text(self) -> Iterator[Block]:
        if self.is_nothing:
            yield from self._nothing()
            return
        user, found = shown(self.size.user_id), self.erased or self.size
        what = _counted(found.threads, found.memories)
        yield f"user {user} has {what}" if self.erased is None else f"erased {what} of user {user}"
        if found.threads:
            yield f"threads: {names(found.threads)}"
        if self.undecided:
            yield _undecided(self.undecided)

    def _nothing(self) -> Iterator[str]:
        """Say that nothing is there, and where it was looked for."""
        size = self.size
        yield (
            f"nothing is stored of user {shown(size.user_id)}: no thread has {size.user_key} "
            f"{shown(size.user_id)} in its metadata, and no item is below the namespace "
            f"{namespace_text(size.namespace)}"
        )
        if self.has_options:
            yield "--user-key names another metadata key, --namespace another namespace"


def _undecided(threads: Sequence[str]) -> str:
    return (
        f"{counted(len(threads), 'thread')} cannot be read, or had too many users to name all, and "
        f"may be of this user too: {names(threads)}"
    )


def _counted(threads: Sequence[str], memories: int) -> str:
    return f"{counted(len(threads), 'thread')} and {counted(memories, 'memory')}"
