"""Where items are looked for, page by page, and what is said where there are none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import typer

from mongomem.arguments import shown
from mongomem.command_line.queries.arguments import labels_of
from mongomem.command_line.queries.texts import namespace_text
from mongomem.command_line.refusals import Refusal
from mongomem.memory import MongoMemory

OfUser: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--user", metavar="ID", help="The namespace of this user, in place of NAMESPACE. Any id."
    ),
]


def given_labels(namespace: str | None, user: str | None) -> tuple[str, ...]:
    """Return the labels of the namespace that is named; none where a user is.

    Raises:
        Refusal: Both are, or a label is empty.
    """
    if namespace is not None and user is not None:
        raise Refusal("name a namespace, or --user ID: one of them")
    return labels_of(namespace)


@dataclass(frozen=True, slots=True)
class Scope:
    """Where items are looked for.

    Attributes:
        prefix: What namespaces begin with.
        user: Whose that is; None where nobody is named.
    """

    prefix: tuple[str, ...]
    user: str | None = None

    @classmethod
    def of(cls, memory: MongoMemory, labels: tuple[str, ...], user: str | None) -> Scope:
        """Return the namespace of a user, as the memory has it, or the labels that were given."""
        return cls(labels if user is None else memory.user(user).namespace, user)

    @property
    def words(self) -> str:
        """The scope in words behind a name; none for everything."""
        whose = "" if self.user is None else f" of user {shown(self.user)},"
        return f"{whose} below the namespace {namespace_text(self.prefix)}" if self.prefix else ""


@dataclass(frozen=True, slots=True)
class Page:
    """Which page of what is there.

    Attributes:
        scope: Where it is looked for.
        limit: How many at most.
        offset: How many are left out before.
        asked: What else it has to be, as words behind its name.
    """

    scope: Scope
    limit: int
    offset: int
    asked: str = ""

    def next(self, found: int) -> int | None:
        """Return the offset of the next page; None where this is the last."""
        return self.offset + self.limit if found == self.limit else None

    def nothing(self, what: str) -> Iterator[str]:
        """Say that the page is empty, and where it was looked for."""
        prefix, user = self.scope.prefix, self.scope.user
        behind = f" behind the first {self.offset:,}" if self.offset else ""
        yield f"no {what}{self.asked}{behind}{self.scope.words}"
        if prefix and not (self.asked or self.offset):
            by_user = (
                ""
                if user is not None
                else "; --user ID names that of a user, whose id may hold dots"
            )
            yield f"mongomem namespaces lists the namespaces that hold items{by_user}"
