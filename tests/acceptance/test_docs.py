"""The code in the documents is run, and prints what they say; the picture is of a real run.

A page is of one of two kinds. Without ``console`` blocks, its ``python`` blocks are cells of one
program, as in a notebook (``await`` stands alone there too), and its ``text`` blocks are what the
program prints. With ``console`` blocks it is a list of steps: a ``python`` block is the file that
its first line names, and each line behind ``$`` is a command, followed by what it prints. Blocks of
other languages are not run.

The pages are run as they are written, one after the other in one data directory, as a reader does.
Each has a database of its own, so that none prints what another one left.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mongomem
from mongomem import LocalServer, MongoSaver, MongoStore
from mongomem.checkpoint.thread_methods import ThreadMethods
from mongomem.store.namespace_methods import NamespaceMethods
from support.pages import blocks, commands
from support.waits import HANG_SECONDS

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]

CELLS = """
import ast as _ast, asyncio as _asyncio, json as _json, sys as _sys
_loop = _asyncio.new_event_loop()
for _cell in _json.load(_sys.stdin):
    _begun = eval(compile(_cell, "cell", "exec", _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
    if _begun is not None:
        _loop.run_until_complete(_begun)
_loop.close()
"""
"""Runs cells as a notebook does: one event loop and one namespace for all of them."""

NEEDS_3_11 = ("langgraph.checkpoint.mongodb", "import create_deep_agent")
"""A page that says this needs a package that is for Python 3.11 and newer."""


def of(document: Path, language: str) -> list[str]:
    return [code for kind, code in blocks(document) if kind == language]


def runs_here(document: Path) -> bool:
    text = document.read_text("utf-8")
    return sys.version_info >= (3, 11) or not any(one in text for one in NEEDS_3_11)


WITH_SERVER = ROOT / "docs" / "how-to" / "langgraph-dev.md"
"""The page whose steps need a server, which `test_langgraph_dev` starts."""

WITH_CODE = [
    document
    for document in DOCUMENTS
    if of(document, "python") and runs_here(document) and document != WITH_SERVER
]
WITH_STEPS = [document for document in WITH_CODE if of(document, "console")]
WITH_CELLS = [document for document in WITH_CODE if document not in WITH_STEPS]


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def database(document: Path) -> str:
    """Return the name of the database of a page."""
    return "app" if document.stem == "README" else document.stem.replace("-", "_")


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """That of a user whose environment is active: the server, the package, its Python."""
    own = Path(sys.executable).parent
    path = f"{own}{os.pathsep}{os.environ['PATH']}"
    with LocalServer(throw_away=True) as server:
        yield {**os.environ, "MONGODB_URI": server.uri, "PYTHONPATH": str(ROOT), "PATH": path}


def run_cells(cells: list[str], environment: dict[str, str]) -> tuple[str, str]:
    """Run cells in a process; return what it printed, and its errors."""
    ran = subprocess.run(
        [sys.executable, "-c", CELLS],
        input=json.dumps(cells),
        capture_output=True,
        text=True,
        env=environment,
        timeout=HANG_SECONDS,
    )
    return ran.stdout, ran.stderr


@pytest.mark.parametrize("document", WITH_CELLS, ids=name)
def test_the_code_of_a_page_prints_what_it_says(
    document: Path, environment: dict[str, str]
) -> None:
    printed = run_cells(of(document, "python"), environment)
    assert printed == ("".join(of(document, "text")), "")


def test_readme_in_a_notebook(database_name: str, mongo_uri: str) -> None:
    """There the cell with `asyncio.run` cannot run, and the others print what they say."""
    readme = ROOT / "README.md"
    told = list(zip(of(readme, "python"), of(readme, "text"), strict=True))
    cells, texts = zip(*(pair for pair in told if "asyncio.run(" not in pair[0]), strict=True)
    assert len(cells) == len(told) - 1
    own = [code.replace('"app"', f'"{database_name}"') for code in cells]
    environment = {**os.environ, "MONGODB_URI": mongo_uri, "PYTHONPATH": str(ROOT)}
    assert run_cells(own, environment) == ("".join(texts), "")


@pytest.mark.parametrize("document", WITH_CODE, ids=name)
def test_a_page_has_a_database_of_its_own(document: Path) -> None:
    code = "".join(of(document, "python"))
    assert set(re.findall(r'db_name="(\w+)"', code)) <= {database(document)}
    assert '"app"' not in code or database(document) == "app"


@pytest.mark.parametrize("document", WITH_STEPS, ids=name)
def test_the_steps_of_a_page_lead_where_it_says(
    document: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    for kind, code in blocks(document):
        if kind == "python":
            file = tmp_path / code.splitlines()[0].removeprefix("# ")
            file.write_text(code, "utf-8")
        for command, printed in commands(code) if kind == "console" else ():
            ran = subprocess.run(
                ["sh", "-c", command],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env=environment,
                timeout=HANG_SECONDS,
            )
            assert (ran.stdout, ran.stderr) == (printed, ""), command


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=name)
def test_what_a_document_links_to_exists(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_the_reference_has_every_name() -> None:
    """Methods that are inherited stand in the reference one by one, in an order for readers."""
    pages = (ROOT / "docs" / "reference").glob("*.rst")
    told = set(re.findall(r":: mongomem\.([\w.]+)", "".join(page.read_text() for page in pages)))
    methods = {
        f"{cls.__name__}.{method}"
        for cls, inherited in ((MongoSaver, ThreadMethods), (MongoStore, NamespaceMethods))
        for method in vars(inherited)
        if method[0] != "_"
    }
    assert {*mongomem.__all__, *methods} - told == set()


def test_the_picture_is_that_of_a_real_run(environment: dict[str, str]) -> None:
    drawn = subprocess.run(
        [sys.executable, "-c", "import picture; print(picture.picture(), end='')"],
        capture_output=True,
        text=True,
        cwd=ROOT / "docs",
        env=environment,
        timeout=HANG_SECONDS,
    )
    assert (drawn.stdout, drawn.stderr) == ((ROOT / "docs" / "overview.svg").read_text("utf-8"), "")
