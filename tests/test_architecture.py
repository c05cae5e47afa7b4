"""The architecture of the package: what a folder may import, what it tells, how long things are;
and twins.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest

from mongomem.cache.cache import MongoCache
from mongomem.checkpoint.saver import MongoSaver
from mongomem.memory import MongoMemory
from mongomem.store.store import MongoStore
from mongomem.user import User

ROOT = Path(__file__).parent.parent
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text("utf-8"))
    for path in sorted((ROOT / "mongomem").rglob("*.py"))
}

MODULE_LINES, BODY_LINES, BODY_LINES_P90 = 400, 40, 25

BODY_NODES, BODY_NODES_P90 = 120, 70
"""Statements and expressions of a function: short by saying little, and not by saying it
densely."""

FOLDER_FILES = 12
"""Modules of a folder, beside the map of it."""

COMMON = {"errors", "arguments", "options", "damage"}

MAY_IMPORT: dict[str, set[str]] = {
    "engine": {"engine"},
    "telemetry": {"telemetry", "engine"},
    "schema": {"schema", "engine"},
    "embeddings": {"embeddings", "engine"},
    "local_server": {"local_server", "engine.locks"},
    "checkpoint.serde": {"checkpoint.serde", "engine.commands", "engine.locks"},
    "checkpoint.documents": {
        "checkpoint.documents",
        "checkpoint.serde",
        "engine.commands",
        "schema.indexes",
    },
    "checkpoint.caches": {"checkpoint.documents", "checkpoint.serde"},
    "checkpoint.context": {
        "checkpoint.caches",
        "checkpoint.documents",
        "checkpoint.serde",
        "engine.clock",
    },
    "checkpoint.plans": {
        *("checkpoint.plans", "checkpoint.context", "checkpoint.caches"),
        *("checkpoint.documents", "checkpoint.serde", "schema"),
        *("engine.commands", "engine.effects", "engine.writes"),
    },
    "checkpoint.retention": {
        *("checkpoint.retention", "checkpoint.plans", "checkpoint.context"),
        *("checkpoint.documents", "checkpoint.serde"),
        *("engine.commands", "engine.effects", "engine.workers", "engine.writes"),
    },
    "store.vectors": {"store.vectors", "store.words", "engine.locks", "engine.workers"},
    "store.words": {"store.words"},
    "store.documents": {
        *(
            "store.documents",
            "store.vectors",
            "store.words",
            "embeddings",
            "engine.commands",
            "schema.indexes",
        ),
    },
    "store.context": {
        *("store.documents", "store.vectors", "store.words", "engine.clock"),
    },
    "store.plans": {
        *(
            "store.plans",
            "store.context",
            "store.documents",
            "store.vectors",
            "store.words",
            "schema",
        ),
        *("engine.commands", "engine.effects", "engine.writes"),
    },
    "cache.losses": set(),
    "cache.documents": {
        *("cache.documents", "checkpoint.serde", "engine.commands", "schema.indexes"),
    },
    "cache.context": {"cache.losses", "cache.documents", "checkpoint.serde", "engine.clock"},
    "cache.plans": {
        *("cache.plans", "cache.context", "cache.documents", "checkpoint.serde", "schema"),
        *("engine.commands", "engine.effects", "engine.writes"),
    },
    "cache.cache": {"cache", "checkpoint.serde", "engine", "schema.names", "telemetry"},
    "checkpoint.saver": {"checkpoint", "engine", "schema.names", "telemetry"},
    "checkpoint.thread_methods": {"checkpoint", "engine", "telemetry"},
    "store.sweeper": {"store.documents"},
    "store.namespace_methods": {"store", "engine", "telemetry"},
    "store.store": {"store", "engine", "schema.names", "telemetry"},
    "display": {
        *("display", "store.store", "store.plans.get_vectors", "store.documents.stored_item"),
        "store.vectors",
    },
    "user_data": {"checkpoint", "store", "engine.commands"},
    "user_labels": {"checkpoint.documents"},
    "transfer": {
        *("transfer", "checkpoint", "store", "engine.commands", "engine.effects", "user_data"),
    },
    "migration": {
        *("migration", "checkpoint", "store", "transfer"),
        *("engine.commands", "engine.runners"),
    },
    "inspection": {
        *("inspection", "checkpoint", "store", "cache", "memory", "display"),
        *("engine.clock", "engine.commands", "engine.effects", "schema"),
    },
    "backup": {
        *("backup", "checkpoint", "store", "transfer", "migration", "memory", "user_data"),
        "engine.commands",
    },
    "upkeep": {
        *("upkeep", "inspection", "checkpoint", "store", "memory", "user_data", "schema"),
        *("migration", "engine.commands"),
    },
    "langgraph": {
        *("langgraph", "memory", "checkpoint.saver", "checkpoint.serde.default", "store.store"),
        *("embeddings", "engine.client_context", "engine.locks", "local_server.server"),
    },
    "command_line": {
        *("command_line", "inspection", "migration", "memory", "local_server.server"),
        *("backup", "upkeep", "user_data", "user_labels", "store.plans.reindex"),
        *("checkpoint.saver", "checkpoint.serde.default", "store.store", "display"),
        "checkpoint.retention.policy",
        *("engine.client_context", "engine.clients", "engine.commands", "schema.names"),
    },
    "user_export": set(),
    "user": {"checkpoint", "store", "engine", "transfer", "user_data", "user_export"},
    "memory": {
        *("checkpoint", "store", "cache", "engine", "schema.names", "transfer"),
        *("user", "user_data", "user_export", "user_labels"),
    },
}
"""By a folder or a module what it may import of mongomem, beside what is `COMMON`. The two memories
know nothing of each other: only `memory`, `user`, `user_data`, `transfer` and `migration` see both.
The cache knows of the saver what makes bytes of values, and nothing of the store."""

BELOW_THE_ENGINE = (
    *("checkpoint.", "store.", "cache.", "schema.", "transfer.", "migration.", "inspection."),
    *("backup.", "upkeep.", "user_data", "user_labels"),
)
"""What knows no client, no event loop and no thread: plans of commands, and what is pure."""

ON_LOOPS = {"mongomem.store.sweeper"}
"""What answers with futures, as stores do that sweep by themselves."""

LOCKED = {"mongomem.checkpoint.serde.cache", "mongomem.store.vectors.index_cache"}
"""What may hold a lock, that of `mongomem.engine.locks`: caches that callers share."""

SURFACES = (
    "mongomem.checkpoint.saver",
    "mongomem.checkpoint.thread_methods",
    "mongomem.store.store",
    "mongomem.store.namespace_methods",
    "mongomem.cache.cache",
)
"""Classes that users see. Their public methods decide nothing: one expression, and at most the
checked argument that it takes."""

WITHOUT_TWIN = {"from_conn_string", "get_next_version", "with_allowlist", "user", "config"}
"""Methods that do no I/O."""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines from the first statement behind the docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def body_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the statements and expressions behind the docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return sum(isinstance(node, (ast.stmt, ast.expr)) for part in body for node in ast.walk(part))


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


def inside(name: str, folders: Iterable[str]) -> bool:
    """Say whether a module, by its name in mongomem, is in one of these folders or is one of these
    modules.
    """
    return any(f"{name}.".startswith(f"{folder}.") for folder in folders)


def own_imports(tree: ast.AST) -> set[str]:
    """Return the modules of mongomem that a module imports, by their names in mongomem."""
    found = {path for path in imported(tree) if path.startswith("mongomem.")}
    modules = {path if path in MODULES else path.rpartition(".")[0] for path in found}
    return {path.removeprefix("mongomem.") for path in modules}


LAYERED = {
    name: tree
    for name, tree in MODULES.items()
    if name.removeprefix("mongomem.").startswith(BELOW_THE_ENGINE) and name not in ON_LOOPS
}
PLANS = sorted(
    name
    for name in LAYERED
    if (".plans." in name or ".retention." in name) and not name.endswith("__init__")
)
PURE = sorted(
    name for name in LAYERED if {"documents", "serde", "vectors", "words"} & set(name.split("."))
)
PACKAGES = sorted(
    path.parent
    for path in (ROOT / "mongomem").rglob("__init__.py")
    if path.parent.name != "mongomem"
)


@pytest.mark.parametrize("package", PACKAGES, ids=[path.name for path in PACKAGES])
def test_a_map_names_every_file_of_its_folder(package: Path) -> None:
    map_of_it = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    files = {path.stem for path in package.glob("*.py")} - {"__init__"}
    folders = {f"{path.name}/" for path in package.iterdir() if (path / "__init__.py").exists()}
    assert {
        name for name in files | folders if not re.search(rf"\b{name}(?![\w])", map_of_it)
    } == set()
    assert len(files) <= FOLDER_FILES


@pytest.mark.parametrize("rule", MAY_IMPORT)
def test_folders_import_what_they_may(rule: str) -> None:
    own = [name for name in MODULES if inside(name.removeprefix("mongomem."), [rule])]
    assert own
    allowed = MAY_IMPORT[rule] | COMMON
    wrong = {
        (name, path)
        for name in own
        for path in own_imports(MODULES[name])
        if not inside(path, allowed)
    }
    assert wrong == set()


def test_every_folder_has_its_rule() -> None:
    free = {
        "mongomem.__init__",
        "mongomem.cache.__init__",
        "mongomem.checkpoint.__init__",
        "mongomem.store.__init__",
        "mongomem.testing",
    }
    ruled = {
        name for name in MODULES if inside(name.removeprefix("mongomem."), [*MAY_IMPORT, *COMMON])
    }
    assert set(MODULES) - ruled == free


def test_no_module_imports_itself_by_way_of_another() -> None:
    graph = {name.removeprefix("mongomem."): own_imports(tree) for name, tree in MODULES.items()}
    waiting = {name: paths & set(graph) for name, paths in graph.items()}
    while done := {name for name, paths in waiting.items() if not paths}:
        waiting = {name: paths - done for name, paths in waiting.items() if name not in done}
    assert waiting == {}


def test_modules_are_short() -> None:
    lines = {
        path: len(path.read_text("utf-8").splitlines())
        for path in (ROOT / "mongomem").rglob("*.py")
    }
    assert {path.name: count for path, count in lines.items() if count > MODULE_LINES} == {}


def test_functions_are_short() -> None:
    bodies = {
        f"{name}:{f.name}": body_lines(f) for name, tree in MODULES.items() for f in functions(tree)
    }
    assert {name: count for name, count in bodies.items() if count > BODY_LINES} == {}
    assert quantiles(bodies.values(), n=10)[-1] <= BODY_LINES_P90


def test_functions_are_not_dense() -> None:
    bodies = {
        f"{name}:{f.name}": body_nodes(f) for name, tree in MODULES.items() for f in functions(tree)
    }
    assert {name: count for name, count in bodies.items() if count > BODY_NODES} == {}
    assert quantiles(bodies.values(), n=10)[-1] <= BODY_NODES_P90


@pytest.mark.parametrize("name", LAYERED)
def test_no_client_no_loop_no_thread_below_the_engine(name: str) -> None:
    found = imported(MODULES[name])
    clients = (
        "pymongo.MongoClient",
        "pymongo.AsyncMongoClient",
        "pymongo.synchronous",
        "pymongo.asynchronous",
    )
    assert not is_from(found, (*clients, "asyncio", "concurrent"))
    assert "threading" not in found
    assert name in LOCKED or not is_from(found, ("mongomem.engine.locks",))


@pytest.mark.parametrize("name", MODULES)
def test_every_lock_is_made_anew_in_a_forked_child(name: str) -> None:
    """Nobody makes one but `mongomem.engine.locks`, which does that."""
    calls = {
        ast.unparse(node.func) for node in ast.walk(MODULES[name]) if isinstance(node, ast.Call)
    }
    assert not calls & {
        f"threading.{kind}"
        for kind in ("Lock", "RLock", "Condition", "Semaphore", "Event", "Barrier")
    }


@pytest.mark.parametrize("name", [*PLANS, *PURE])
def test_time_and_randomness_are_inputs(name: str) -> None:
    """Whatever a context does not tell, a plan that is run again would decide otherwise."""
    assert not is_from(
        imported(MODULES[name]),
        ("time", "random", "secrets", "os.urandom", "mongomem.engine.clock"),
    )


@pytest.mark.parametrize("name", PURE)
def test_pure_modules_await_nothing(name: str) -> None:
    assert not [
        node
        for node in ast.walk(MODULES[name])
        if isinstance(node, (ast.AsyncFunctionDef, ast.Await))
    ]


@pytest.mark.parametrize("name", PLANS)
def test_plans_await_only(name: str) -> None:
    """A plan awaits commands and plans. There is no loop to wait on: no ``async for``, no ``async
    with``.
    """
    assert not [
        node for node in ast.walk(MODULES[name]) if isinstance(node, (ast.AsyncFor, ast.AsyncWith))
    ]


@pytest.mark.parametrize("name", MODULES)
def test_no_module_is_named_by_a_gerund(name: str) -> None:
    assert not name.endswith("ing") or name == "mongomem.testing"


@pytest.mark.parametrize("name", SURFACES)
def test_methods_that_users_call_decide_nothing(name: str) -> None:
    branches = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith)
    methods = [one for one in functions(MODULES[name]) if not one.name.startswith("_")]
    assert methods
    for method in methods:
        body = method.body[1:] if ast.get_docstring(method) else method.body
        assert len(body) <= 2, method.name
        assert not [node for part in body for node in ast.walk(part) if isinstance(node, branches)]


def public_methods(cls: type) -> set[str]:
    """Return the methods that this package defines on a class."""
    methods = inspect.getmembers(cls, callable)
    return {
        name
        for name, method in methods
        if name[0] != "_" and method.__module__.startswith("mongomem")
    }


def parameters(method: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(method).parameters.values())


@pytest.mark.parametrize("cls", [MongoSaver, MongoStore, MongoCache, MongoMemory, User])
def test_sync_and_async_are_twins(cls: type) -> None:
    names = public_methods(cls)
    asynchronous = {name for name in names if name[1:] in names and name[0] == "a"}
    assert {f"a{name}" for name in names - asynchronous - WITHOUT_TWIN} == asynchronous
    for twin in asynchronous:
        assert parameters(getattr(cls, twin)) == parameters(getattr(cls, twin[1:])), twin
