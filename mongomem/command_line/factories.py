"""Objects that an option names as MODULE:FACTORY, made."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from mongomem.arguments import without_secrets
from mongomem.command_line.refusals import Failure, Refusal, line_of


def look_here() -> None:
    """Look for modules in the directory where the command runs, too."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def import_modules(names: Iterable[str]) -> None:
    """Import modules whose classes stand in the data.

    Raises:
        Refusal: One of them cannot be.
    """
    for name in names:
        _imported("--import", name)


def made(option: str, path: str, kind: type[Any], stack: ExitStack) -> Any:
    """Return what a factory makes: an object, or a context manager that gives one.

    Raises:
        Refusal: It cannot be imported, fails, or makes something else.
    """
    factory = _factory(option, path)
    try:
        found = _called(factory, kind, stack)
    except Exception as error:  # whatever a factory does
        raise Failure(f"{option}: {path} fails: {line_of(error)}") from error
    if inspect.iscoroutine(found):
        found.close()
    if not isinstance(found, kind):
        raise Refusal(
            f"{option}: {path} gives a {type(found).__name__} and no {kind.__name__}; of a class "
            "that is async take the sync one of the same database"
        )
    return found


def _called(factory: Any, kind: type[Any], stack: ExitStack) -> Any:
    """Call a factory, and enter what it gives."""
    found = factory
    if inspect.isgeneratorfunction(factory):
        found = contextmanager(factory)()
    elif callable(factory) and not isinstance(factory, kind):
        found = factory()
    if not isinstance(found, kind) and hasattr(found, "__enter__"):
        found = stack.enter_context(found)
    return found


def _factory(option: str, path: str) -> Any:
    module, _, name = path.partition(":")
    if not module or not name:
        raise Refusal(f"{option} takes MODULE:FACTORY, such as app.memory:make, not {path!r}")
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
