"""The sources that the options of a migration name, opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import NOT_PROVIDED, BaseStore

from mongomem.command_line.factories import import_modules, look_here, made
from mongomem.command_line.refusals import Failure, Refusal, line_of
from mongomem.engine.client_context import ClientContext
from mongomem.errors import ConfigurationError, MongomemError, ServerUnavailableError
from mongomem.migration.mongodb_items import ITEMS, MongoDBItems
from mongomem.migration.mongodb_threads import CHECKPOINTS, WRITES, MongoDBThreads
from mongomem.migration.parts import ItemSource, ThreadSource
from mongomem.migration.saver_threads import SaverThreads
from mongomem.migration.store_items import StoreItems

T = TypeVar("T")

Source: TypeAlias = MongoDBThreads | MongoDBItems | SaverThreads | StoreItems


@dataclass(frozen=True, slots=True)
class Named:
    """What the options of a migration name."""

    from_mongo: str | None
    from_db: str
    checkpoints: str | None
    writes: str | None
    items: str | None
    from_saver: str | None
    from_store: str | None
    imports: Sequence[str]

    @property
    def is_default(self) -> bool:
        """Whether no collection is named."""
        return self.checkpoints is self.writes is self.items is None


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources, open."""

    threads: Sequence[ThreadSource]
    items: Sequence[ItemSource]


def open_sources(named: Named, stack: ExitStack) -> Sources:
    """Open what the options name. It is closed with the stack.

    Raises:
        Refusal: Something of it cannot be opened.
    """
    _check(named)
    look_here()
    import_modules(named.imports)
    sources = [*_documents(named, stack), *_made_sources(named, stack)]
    return Sources(
        [one for one in sources if isinstance(one, MongoDBThreads | SaverThreads)],
        [one for one in sources if isinstance(one, MongoDBItems | StoreItems)],
    )


def _check(named: Named) -> None:
    """Refuse options that name too little."""
    if not (named.from_mongo or named.from_saver or named.from_store):
        raise Refusal("name a source by --from-mongo, --from-saver or --from-store")
    if not (named.from_mongo or named.is_default):
        raise Refusal("--checkpoints, --writes and --items need --from-mongo")


def _made_sources(named: Named, stack: ExitStack) -> Iterator[Source]:
    """Give the sources that factories make."""
    if named.from_saver:
        kind: type[Any] = BaseCheckpointSaver
        yield SaverThreads(made("--from-saver", named.from_saver, kind, stack))
    if named.from_store:
        kind = BaseStore
        yield StoreItems(made("--from-store", named.from_store, kind, stack))


def _documents(named: Named, stack: ExitStack) -> list[MongoDBThreads | MongoDBItems]:
    """Open the documents of the official packages: those whose collections are named, else those
    that are there under the names that the packages give.
    """
    if not named.from_mongo:
        return []
    threads = _entered(stack, "--from-mongo", _threads_of(named, named.from_mongo))
    items = _entered(stack, "--from-mongo", _items_of(named, named.from_mongo))
    wanted = [one for one in (threads, items) if _is_wanted(one, named)]
    if not wanted:
        raise Refusal(
            f"--from-mongo: the database {named.from_db!r} has no collections {CHECKPOINTS!r} and "
            f"{WRITES!r}, nor {ITEMS!r}: --from-db names another database, --checkpoints, "
            "--writes and --items other collections"
        )
    return wanted


def _is_wanted(source: MongoDBThreads | MongoDBItems, named: Named) -> bool:
    """Say whether documents are to be copied.

    Raises:
        Refusal: Their collection is named, and is not there.
    """
    of_items = isinstance(source, MongoDBItems)
    own = (named.items,) if of_items else (named.checkpoints, named.writes)
    is_named = own != (None,) * len(own)
    if not (is_named or named.is_default):
        return False
    try:
        source.check()
    except ConfigurationError as error:
        if not is_named:
            return False
        raise Refusal(f"--from-mongo: {line_of(error)}") from error
    return True


def _threads_of(named: Named, uri: str) -> ClientContext[MongoDBThreads]:
    options = {
        "db_name": named.from_db,
        "checkpoints": named.checkpoints or CHECKPOINTS,
        "writes": named.writes or WRITES,
    }
    return ClientContext.of(MongoDBThreads, uri, NOT_PROVIDED, options)


def _items_of(named: Named, uri: str) -> ClientContext[MongoDBItems]:
    options = {"db_name": named.from_db, "items": named.items or ITEMS}
    return ClientContext.of(MongoDBItems, uri, NOT_PROVIDED, options)


def _entered(stack: ExitStack, option: str, opening: ClientContext[T]) -> T:
    """Open what an option names.

    Raises:
        Refusal: It cannot be; names the option.
    """
    try:
        return stack.enter_context(opening)
    except ServerUnavailableError as error:
        raise Failure(f"{option}: {line_of(error)}") from error
    except MongomemError as error:
        raise Refusal(f"{option}: {line_of(error)}") from error
