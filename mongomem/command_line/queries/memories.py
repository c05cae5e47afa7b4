"""``mongomem memories`` and ``mongomem namespaces``: what a store holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mongomem.command_line.command import Run, command, count_option
from mongomem.command_line.database import IndexOptions
from mongomem.command_line.printout import Block
from mongomem.command_line.queries.arguments import (
    Filters,
    Full,
    Limit,
    bounds_of,
    filter_of,
    labels_of,
)
from mongomem.command_line.queries.scopes import OfUser, Page, Scope, given_labels
from mongomem.command_line.queries.texts import (
    bytes_text,
    cell,
    count_text,
    namespace_text,
    score_text,
    time_text,
)
from mongomem.command_line.refusals import DONE, Refusal
from mongomem.command_line.tables import Table
from mongomem.inspection.inspector import Inspector
from mongomem.inspection.memories import Memory, NamespaceSize, index_config
from mongomem.inspection.plain_values import MOST, Bounds, plain
from mongomem.memory import MongoMemory

Offset = Annotated[int, count_option("How many to leave out before.", 0)]

LONGEST_VALUE = 100

SCORES = (">score", ">meaning", ">words")


@command()
def memories(
    run: Run,
    index: IndexOptions,
    namespace: Annotated[
        str | None,
        typer.Argument(
            metavar="NAMESPACE",
            help="What namespaces begin with, labels joined by dots. [default: all]",
            show_default=False,
        ),
    ] = None,
    *,
    user: OfUser = None,
    query: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Search by meaning and words, as the store does."),
    ] = None,
    filters: Filters = None,
    limit: Limit = 20,
    offset: Offset = 0,
    full: Full = False,
) -> None:
    """List the items of a store, or search them.

    Newest first; with --query those that answer best, with scores. How items are embedded is read
    from the store, where it was a model of OpenAI or the local one. Else --embed and --dims say it,
    or --memory.
    """
    labels, wanted = given_labels(namespace, user), filter_of(filters)
    memory = _searching(run, index) if query is not None else run.open()
    scope = Scope.of(memory, labels, user)
    found = Inspector(memory).memories(
        scope.prefix, query=query, filter=wanted, limit=limit, offset=offset
    )
    asked = " that contain what --filter says" if wanted else ""
    run.answer = MemoriesAnswer(
        found, Page(scope, limit, offset, asked), query is not None, bounds_of(full), full
    )


def _searching(run: Run, index: IndexOptions) -> MongoMemory:
    """Open the store with the index that is named, or else the one that its settings tell."""
    if index.config is not None:
        return run.open_indexed(index)
    memory = run.open()
    if memory.store.index_config is not None:
        return memory
    stored = Inspector(memory).index()
    told = index_config(stored)
    if told is not None:
        return run.open(index=told)
    if stored is None:
        raise Refusal(
            "--query needs an index, and none of the items of this store is embedded: mongomem "
            "reindex --embed local --dims 256 embeds them, with a --field for each of the "
            "application's fields"
        )
    raise Refusal(
        f"--query needs what embeds: the items were embedded by {stored.get('model')}, with "
        f"{stored.get('dims')} dimensions. Say --embed and --dims, or give the application's own "
        "store by --memory"
    )


@dataclass(frozen=True, slots=True)
class MemoriesAnswer:
    """A page of items."""

    memories: Sequence[Memory]
    page: Page
    is_scored: bool
    bounds: Bounds
    full: bool

    @property
    def exit_code(self) -> int:
        return DONE

    @property
    def next(self) -> int | None:
        """The offset of the next page; None where this is the last."""
        return self.page.next(len(self.memories))

    def json(self) -> dict[str, Any]:
        return {"items": [one.json(self.bounds) for one in self.memories], "next": self.next}

    def text(self) -> Iterator[Block]:
        if not self.memories:
            yield from self.page.nothing("items")
            return
        scores = SCORES if self.is_scored else ()
        columns = (*scores, "namespace", "key", "updated (UTC)", "~value")
        yield Table(columns, [self._row(one) for one in self.memories])
        if self.next is not None:
            yield f"there may be more: --offset {self.next}"

    def _row(self, one: Memory) -> list[str]:
        item = one.item
        scores = [score_text(part) for part in (item.score, *one.parts)] if self.is_scored else []
        value = json.dumps(plain(item.value, self.bounds), ensure_ascii=False)
        return [
            *scores,
            namespace_text(item.namespace),
            item.key,
            time_text(item.updated_at),
            cell(value, MOST if self.full else LONGEST_VALUE),
        ]


@command()
def namespaces(
    run: Run,
    namespace: Annotated[
        str | None,
        typer.Argument(
            metavar="NAMESPACE",
            help="What they begin with, labels joined by dots; * is any label. [default: all]",
            show_default=False,
        ),
    ] = None,
    *,
    user: OfUser = None,
    suffix: Annotated[
        str | None, typer.Option(metavar="SUFFIX", help="What they end with, likewise.")
    ] = None,
    max_depth: Annotated[int | None, count_option("Cut them to so many labels.")] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> None:
    """List the namespaces that hold items, and how many."""
    labels, ending = given_labels(namespace, user), labels_of(suffix)
    memory = run.open()
    scope = Scope.of(memory, labels, user)
    found = Inspector(memory).namespaces(
        scope.prefix,
        suffix=ending,
        max_depth=max_depth,
        limit=limit,
        offset=offset,
    )
    asked = f" that end with {suffix}" if ending else ""
    run.answer = NamespacesAnswer(found, Page(scope, limit, offset, asked))


@dataclass(frozen=True, slots=True)
class NamespacesAnswer:
    """A page of namespaces."""

    namespaces: Sequence[NamespaceSize]
    page: Page

    @property
    def exit_code(self) -> int:
        return DONE

    @property
    def next(self) -> int | None:
        """The offset of the next page; None where this is the last."""
        return self.page.next(len(self.namespaces))

    def json(self) -> dict[str, Any]:
        return {"namespaces": [one.json() for one in self.namespaces], "next": self.next}

    def text(self) -> Iterator[Block]:
        if not self.namespaces:
            yield from self.page.nothing("namespaces")
            return
        yield namespace_table(self.namespaces)
        if self.next is not None:
            yield f"there may be more: --offset {self.next}"


def namespace_table(found: Sequence[NamespaceSize]) -> Table:
    """Show namespaces with what they hold."""
    rows = [
        [namespace_text(one.namespace), count_text(one.items), bytes_text(one.stored)]
        for one in found
    ]
    return Table(("namespace", ">items", ">stored"), rows)
