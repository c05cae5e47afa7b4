"""What the options name: sources and targets, opened."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore

from mongomem.arguments import without_secrets
from mongomem.checkpoint.saver import MongoSaver
from mongomem.command_line.refusals import Failure, Refusal, line_of
from mongomem.engine.client_context import OPEN_TIMEOUT, ClientContext
from mongomem.errors import ConfigurationError, MongomemError, ServerUnavailableError
from mongomem.memory import MongoMemory
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
    db: str
    checkpoints: str | None
    writes: str | None
    items: str | None
    from_saver: str | None
    from_store: str | None
    to: str | None
    to_db: str | None
    imports: Sequence[str]

    @property
    def is_default(self) -> bool:
        """Whether no collection is named."""
        return self.checkpoints is self.writes is self.items is None


@dataclass(frozen=True, slots=True)
class Ends:
    """Sources and targets, open."""

    threads: Sequence[ThreadSource]
    items: Sequence[ItemSource]
    memory: MongoMemory
    verifier: MongoSaver


@contextmanager
def opened(named: Named) -> Iterator[Ends]:
    """Open what the options name.

    Raises:
        Refusal: Something of it cannot be opened.
    """
    _check(named)
    sys.path.insert(0, str(Path.cwd()))
    for module in named.imports:
        _imported("--import", module)
    with ExitStack() as stack:
        sources = [*_documents(named, stack), *_made_sources(named, stack)]
        memory, verifier = _targets(named.to or "", named.to_db, stack)
        yield Ends(
            [one for one in sources if isinstance(one, MongoDBThreads | SaverThreads)],
            [one for one in sources if isinstance(one, MongoDBItems | StoreItems)],
            memory,
            verifier,
        )


def _check(named: Named) -> None:
    """Refuse options that name too little."""
    if named.to is None:
        raise Refusal("name the target by --to URI, or by the environment variable MONGODB_URI")
    if not (named.from_mongo or named.from_saver or named.from_store):
        raise Refusal("name a source by --from-mongo, --from-saver or --from-store")
    if not (named.from_mongo or named.is_default):
        raise Refusal("--checkpoints, --writes and --items need --from-mongo")


def _targets(uri: str, db_name: str | None, stack: ExitStack) -> tuple[MongoMemory, MongoSaver]:
    """Open the memory that is copied into, and a saver that reads what is stored: it remembers
    nothing.
    """
    opening = MongoMemory.from_conn_string(uri, db_name=db_name)
    reading = MongoSaver.from_conn_string(uri, db_name=db_name, cache_bytes=0)
    return _entered(stack, "--to", opening), _entered(stack, "--to", reading)


def _made_sources(named: Named, stack: ExitStack) -> Iterator[Source]:
    """Give the sources that factories make."""
    if named.from_saver:
        kind: type[Any] = BaseCheckpointSaver
        yield SaverThreads(_made("--from-saver", named.from_saver, kind, stack))
    if named.from_store:
        kind = BaseStore
        yield StoreItems(_made("--from-store", named.from_store, kind, stack))


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
            f"--from-mongo: the database {named.db!r} has no collections {CHECKPOINTS!r} and "
            f"{WRITES!r}, nor {ITEMS!r}: --db names another database, --checkpoints, --writes and "
            "--items other collections"
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
        "db_name": named.db,
        "checkpoints": named.checkpoints or CHECKPOINTS,
        "writes": named.writes or WRITES,
    }
    return ClientContext.of(MongoDBThreads, uri, OPEN_TIMEOUT, options)


def _items_of(named: Named, uri: str) -> ClientContext[MongoDBItems]:
    options = {"db_name": named.db, "items": named.items or ITEMS}
    return ClientContext.of(MongoDBItems, uri, OPEN_TIMEOUT, options)


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


def _made(option: str, path: str, kind: type[Any], stack: ExitStack) -> Any:
    """Return what a factory makes: an object, or a context manager that gives one.

    Raises:
        Refusal: It cannot be imported, fails, or makes something else.
    """
    factory = _factory(option, path)
    try:
        made = _called(factory, kind, stack)
    except Exception as error:  # whatever a factory does
        raise Failure(f"{option}: {path} fails: {line_of(error)}") from error
    if inspect.iscoroutine(made):
        made.close()
    if not isinstance(made, kind):
        raise Refusal(
            f"{option}: {path} gives a {type(made).__name__} and no {kind.__name__}; of a class "
            "that is async take the sync one of the same database"
        )
    return made


def _called(factory: Any, kind: type[Any], stack: ExitStack) -> Any:
    """Call a factory, and enter what it gives."""
    made = factory
    if inspect.isgeneratorfunction(factory):
        made = contextmanager(factory)()
    elif callable(factory) and not isinstance(factory, kind):
        made = factory()
    if not isinstance(made, kind) and hasattr(made, "__enter__"):
        made = stack.enter_context(made)
    return made


def _factory(option: str, path: str) -> Any:
    module, _, name = path.partition(":")
    if not module or not name:
        raise Refusal(f"{option} takes MODULE:FACTORY, such as app.memory:make_saver, not {path!r}")
    found: Any = _imported(option, module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise Refusal(f"{option}: the module {module} has no {name!r}")
        found = getattr(found, part)
    return found


def _imported(option: str, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except Exception as error:  # whatever a module does
        said = without_secrets(" ".join(str(error).split()))
        raise Refusal(
            f"{option}: the module {module} cannot be imported ({type(error).__name__}: {said}); "
            "it is looked for in this directory and where Python looks"
        ) from error
