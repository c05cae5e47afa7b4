"""Each notebook runs in a real Jupyter kernel from a clean state, and shows what is stored in
it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib.font_manager  # noqa: F401  it builds its cache here, and not in a notebook
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output

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


def printed(text: str) -> list[Any]:
    return told(new_code_cell(outputs=[new_output("stream", text=text)]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 2030-01-01 12:00:00", "at 2031-12-31T23:59:59.123456+00:00"),
        (
            "thread 12345678-1234-1234-1234-123456789abc",
            "thread ab345678-1234-1234-1234-123456789abc",
        ),
        ("…12ab34 latest", "…ffffff latest"),
        ("763,158 bytes", "12 bytes"),
        ("1.5 MB in 3 ms", "700 KB in 2.7 s"),
    ],
)
def test_what_differs_in_every_run_does_not_count(one: str, other: str) -> None:
    assert printed(one) == printed(other) != printed("another text")


def test_a_picture_counts_by_its_presence() -> None:
    first, second = [
        new_code_cell(
            outputs=[new_output("display_data", {"image/png": data, "text/plain": "map"})]
        )
        for data in ("aGVsbG8=", "d29ybGQ=")
    ]
    assert told(first) == told(second) != printed("map")
    assert first.outputs[0].data["image/png"] == "aGVsbG8="


def test_numbers_and_scores_count() -> None:
    assert printed("24 checkpoints") != printed("25 checkpoints")
    assert printed("0.34 pets-0") != printed("0.35 pets-0")
