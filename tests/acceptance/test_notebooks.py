"""Each notebook runs in a real Jupyter kernel from a clean state, and shows what is stored in
it.
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.font_manager  # noqa: F401  it builds its cache here, and not in a notebook
import nbformat
import pytest

from notebooks.execute import FOLDER, NOTEBOOKS, executed, told


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_shows_what_is_stored_in_it(path: Path) -> None:
    stored, ran = nbformat.read(path, as_version=4), executed(path)
    for before, after in zip(stored.cells, ran.cells, strict=True):
        assert told(after) == told(before), before.source
    assert [cell.get("execution_count") for cell in ran.cells] == [
        cell.get("execution_count") for cell in stored.cells
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_is_valid_and_links_to_what_exists(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose)
    assert [target for target in targets if not (path.parent / target).exists()] == []
    assert set(notebook.metadata) == {"kernelspec"}


def test_there_are_notebooks() -> None:
    assert [path.name for path in NOTEBOOKS] == sorted(
        path.name for path in FOLDER.glob("[0-9][0-9]-*.ipynb")
    )
    assert len(NOTEBOOKS) == 4
