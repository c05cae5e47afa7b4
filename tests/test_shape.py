"""The shape of the package: how long things are, who imports whom, and that sync and async are twins."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest

from mongomem.checkpoint.saver import MongoSaver
from mongomem.memory import MongoMemory
from mongomem.store.store import MongoStore

ROOT = Path(__file__).parent.parent
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text("utf-8"))
    for path in sorted((ROOT / "mongomem").rglob("*.py"))
}

MODULE_LINES, BODY_LINES, BODY_LINES_P90 = 400, 40, 25

OUTSIDE = (
    *(
        "commands",
        "effects",
        "drivers",
        "clients",
        "loops",
        "locks",
        "workers",
        "opening",
        "memory",
        "testing",
        "cli",
        "embeddings",
        "local",
        "_server",
    ),
    "store.coalescing",  # gathers the callers of one event loop, before any plan
    "store.sweeper",  # answers with futures, as stores do that sweep by themselves
)
"""What may know a client, an event loop or a thread; all else is pure, or a plan of commands."""

LOCKED = ("mongomem.checkpoint.bounded", "mongomem.search.matrices", "mongomem.search.matrix")
"""What may hold a lock, that of `mongomem.locks`: caches that callers share."""

SURFACES = ("mongomem.__init__", "mongomem.checkpoint.saver", "mongomem.checkpoint.upkeep", "mongomem.store.store")
"""What users see: public names, and classes whose every method is one expression."""

WITHOUT_TWIN = {"from_conn_string", "get_next_version", "with_allowlist"}
"""Methods that do no I/O."""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines from the first statement behind the docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def imported(tree: ast.AST) -> set[str]:
    """Return what a module imports, as dotted paths of modules and of names in modules."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_from(paths: set[str], modules: Iterable[str]) -> set[str]:
    """Return the paths that are one of these modules, or a name in one."""
    heads = tuple(f"{module}." for module in modules)
    return {path for path in paths if f"{path}.".startswith(heads)}


def layered() -> dict[str, ast.Module]:
    """Return the modules below the drivers: plans, and what is pure."""
    outside = is_from(set(MODULES), (f"mongomem.{name}" for name in OUTSIDE))
    return {name: tree for name, tree in MODULES.items() if name not in outside}


PLANS = {
    f"{name}.{node.name}": name
    for name, tree in layered().items()
    for node in tree.body
    if isinstance(node, ast.AsyncFunctionDef)
}
"""Every plan by its path, and the module it is in."""

PURE = sorted(set(layered()) - set(PLANS.values()) - set(SURFACES))


def test_modules_are_short() -> None:
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in (ROOT / "mongomem").rglob("*.py")}
    assert {path.name: count for path, count in lines.items() if count > MODULE_LINES} == {}


def test_functions_are_short() -> None:
    bodies = {f"{name}:{f.name}": body_lines(f) for name, tree in MODULES.items() for f in functions(tree)}
    assert {name: count for name, count in bodies.items() if count > BODY_LINES} == {}
    assert quantiles(bodies.values(), n=10)[-1] <= BODY_LINES_P90


@pytest.mark.parametrize("name", layered())
def test_no_client_no_loop_no_thread_below_the_drivers(name: str) -> None:
    found = imported(MODULES[name])
    clients = ("pymongo.MongoClient", "pymongo.AsyncMongoClient", "pymongo.synchronous", "pymongo.asynchronous")
    assert not is_from(found, (*clients, "asyncio", "concurrent"))
    assert "threading" not in found
    assert name in LOCKED or not is_from(found, ("mongomem.locks",))


@pytest.mark.parametrize("name", MODULES)
def test_every_lock_is_made_anew_in_a_forked_child(name: str) -> None:
    """Nobody makes one but `mongomem.locks`, which does that."""
    calls = {ast.unparse(node.func) for node in ast.walk(MODULES[name]) if isinstance(node, ast.Call)}
    assert not calls & {f"threading.{kind}" for kind in ("Lock", "RLock", "Condition", "Semaphore", "Event", "Barrier")}


@pytest.mark.parametrize("name", PURE)
def test_pure_modules_import_no_plan(name: str) -> None:
    found = imported(MODULES[name])
    assert not found & (set(PLANS) | set(PLANS.values()))  # neither a plan nor a module of plans
    assert not is_from(found, SURFACES)


@pytest.mark.parametrize("name", sorted(set(PLANS.values())))
def test_plans_await_only(name: str) -> None:
    """A plan awaits commands and plans. There is no loop to wait on: no ``async for``, no ``async with``."""
    assert not [node for node in ast.walk(MODULES[name]) if isinstance(node, (ast.AsyncFor, ast.AsyncWith))]
    assert not is_from(imported(MODULES[name]), SURFACES)


def public_methods(cls: type) -> set[str]:
    """Return the methods that this package defines on a class."""
    methods = inspect.getmembers(cls, callable)
    return {name for name, method in methods if name[0] != "_" and method.__module__.startswith("mongomem")}


def parameters(method: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(method).parameters.values())


@pytest.mark.parametrize("cls", [MongoSaver, MongoStore, MongoMemory])
def test_sync_and_async_are_twins(cls: type) -> None:
    names = public_methods(cls)
    asynchronous = {name for name in names if name[1:] in names and name[0] == "a"}
    assert {f"a{name}" for name in names - asynchronous - WITHOUT_TWIN} == asynchronous
    for twin in asynchronous:
        assert parameters(getattr(cls, twin)) == parameters(getattr(cls, twin[1:])), twin
